//! Random generators for reading data. Every draw uses a fresh generator, so neither the number of threads nor an
//! interruption of the run changes a draw.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Purpose of a random draw. Streams of the same sample are independent: changing the augmentation of the photo does
/// not change which caption is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Order of an epoch; the sample number is 0.
    Order = 0,
    /// Choice of a caption.
    Caption = 1,
    /// Choice of a phrase, and of one of its boxes.
    Box = 2,
    /// Augmentation of the photo.
    Photo = 3,
    /// Augmentation of the box crop.
    Crop = 4,
    /// Negative taxa.
    Negative = 5,
    /// Boxes, boxes of other photos, and their augmentation.
    Edges = 6,
}

/// The generator for one `stream` of one `sample` in one `epoch` of a run with this `seed`. The four numbers form the
/// 256-bit key of ChaCha8, so different arguments give different generators.
pub fn rng_for(seed: u64, epoch: u64, sample: u64, stream: Stream) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip([seed, epoch, sample, stream as u64]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

/// The generator for one `stream` of content with this hash.
pub fn rng_of_key(mut key: [u8; 32], stream: Stream) -> ChaCha8Rng {
    key[0] ^= stream as u8;
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn draws_depend_on_every_argument() {
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
