//! Selects the queries: all photos and boxes, or a number of them drawn at random (Wang et al., App. B.2).

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::NAME;
use crate::benchmarks::Context;
use crate::{Error, Result};

/// Indices of the photos and of the boxes that are queries, ascending.
pub(super) struct PartQueries {
    pub(super) photos: Vec<usize>,
    pub(super) boxes: Vec<usize>,
}

impl PartQueries {
    /// Draws [`Options::queries`](crate::Options::queries) photos and the same number of boxes, with the seed of the
    /// options.
    ///
    /// # Errors
    /// The number is zero, or larger than the number of photos or of boxes. With
    /// [`Options::partial`](crate::Options::partial) a larger number is allowed and selects all of them.
    pub(super) fn draw(context: &Context<'_>, photos: usize, boxes: usize) -> Result<Self> {
        let Some(count) = context.options.queries else {
            return Ok(Self { photos: (0..photos).collect(), boxes: (0..boxes).collect() });
        };
        let partial = context.options.partial;
        if count == 0 || (!partial && count > photos.min(boxes)) {
            let limit = photos.min(boxes);
            return Err(Error::Invalid {
                name: format!("{NAME}: queries"),
                found: format!("{count}, with {photos} photos and {boxes} boxes"),
                expected: format!(
                    "1 to {limit}, or none to use them all; with --partial a larger number uses them all"
                ),
            });
        }
        let seed = context.options.seed;
        let drawn = Self { photos: draw(count, photos, seed, 0), boxes: draw(count, boxes, seed, 1) };
        context.leaves_out(format!(
            "the queries are {} of {photos} photos and {} of {boxes} boxes (seed {seed})",
            drawn.photos.len(),
            drawn.boxes.len()
        ));
        Ok(drawn)
    }
}

/// Draws `count` of the numbers `0..len`, ascending; all of them if `len` is smaller. Different streams give
/// independent draws.
fn draw(count: usize, len: usize, seed: u64, stream: u64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..len).collect();
    if count < len {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        all.shuffle(&mut rng);
        all.truncate(count);
        all.sort_unstable();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn drawn_queries_are_distinct_and_follow_the_seed() {
        let drawn = draw(50, 1000, 3, 0);
        assert!(drawn.len() == 50 && drawn.is_sorted_by(|a, b| a < b) && drawn.iter().all(|&it| it < 1000));
        assert_eq!(drawn, draw(50, 1000, 3, 0));
        assert_ne!(drawn, draw(50, 1000, 4, 0));
        assert_ne!(drawn, draw(50, 1000, 3, 1));
        assert_eq!((draw(5, 5, 0, 0), draw(9, 2, 0, 0)), (vec![0, 1, 2, 3, 4], vec![0, 1]));
    }

    /// Each of 20 items is drawn in about half of 400 draws of 10 items: 200 times, with a standard deviation of 10.
    #[test]
    fn every_item_is_equally_likely() {
        let mut counts = [0; 20];
        (0..400).flat_map(|seed| draw(10, 20, seed, 0)).for_each(|it| counts[it] += 1);
        assert!(counts.iter().all(|count| (140..=260).contains(count)), "{counts:?}");
    }
}
