//! The one way to draw a random number while reading data: a fresh generator per thing drawn, so that neither the
//! number of threads nor the place where a run was interrupted changes a draw.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a number is drawn for. Two streams of the same sample are independent, so that, say, another augmentation of
/// the photo leaves the choice of its caption as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// The order of an epoch (its sample number is 0).
    Order = 0,
    /// Which caption.
    Caption = 1,
    /// Which phrase, and which of its boxes.
    Box = 2,
    /// Augmentation of the photo.
    Photo = 3,
    /// Augmentation of the box crop.
    Crop = 4,
    /// Wrong taxa.
    Negative = 5,
    /// Boxes, boxes of other photos, and the augmentation of all of them.
    Edges = 6,
}

/// The generator of one `stream` of one `sample` in one `epoch` of the run with this `seed`. The four numbers *are* the
/// 256-bit key of ChaCha8, so different arguments can never share a generator.
pub fn rng_for(seed: u64, epoch: u64, sample: u64, stream: Stream) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip([seed, epoch, sample, stream as u64]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn every_argument_changes_the_draw_and_equal_arguments_do_not() {
        let draw = |seed, epoch, sample, stream| rng_for(seed, epoch, sample, stream).next_u64();
        let base = draw(1, 2, 3, Stream::Photo);
        assert_eq!(base, draw(1, 2, 3, Stream::Photo));
        for other in [
            draw(2, 2, 3, Stream::Photo),
            draw(1, 3, 3, Stream::Photo),
            draw(1, 2, 4, Stream::Photo),
            draw(1, 2, 3, Stream::Crop),
            draw(2, 1, 3, Stream::Photo),
        ] {
            assert_ne!(base, other);
        }
    }
}
