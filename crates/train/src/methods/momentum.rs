//! Points of a momentum encoder, for the methods that use them as candidates.
//!
//! He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR 2020, Sec. 3.2. The momentum
//! encoder has the architecture of the trained model and no gradient. After every update of the trained model, with the
//! trained parameters q, the parameters k of the momentum encoder and the momentum m:
//!
//! ```text
//! k <- m k + (1 - m) q
//! ```
//!
//! The points of the momentum encoder are called keys. After a step, the keys of the batch join a first-in, first-out
//! queue, whose keys are the negatives of later batches. The trainer owns the encoder and the queue; a method receives
//! only points.

use burn::tensor::{Bool, Tensor, TensorData};

use crate::{Error, Result};

/// Settings of a momentum encoder and of its queue ([`Method::momentum`](super::Method::momentum)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MomentumSettings {
    /// The momentum m, in [0, 1).
    pub momentum: f64,
    /// Largest number of points in the queue.
    pub queue_size: usize,
}

/// Points of the momentum encoder, without gradient.
#[derive(Clone, Debug)]
pub struct MomentumKeys {
    /// Points of the crops of parts, `[P, D]`, in the order of [`part_rows`](super::edges::part_rows).
    pub parts: Tensor<2>,
    /// Keys of earlier batches, `[Q, D]`, oldest first; `None` before the first step.
    pub queue: Option<Tensor<2>>,
}

impl MomentumKeys {
    /// Checks the shapes: `parts` keys of `width` coordinates, and a queue of the same width.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape differs.
    pub fn check(&self, parts: usize, width: usize) -> Result<()> {
        let wrong = |name: &str, found: [usize; 2], expected: String| {
            Err(Error::Shape { name: name.to_owned(), found: found.to_vec(), expected })
        };
        if self.parts.dims() != [parts, width] {
            return wrong(
                "keys of the batch",
                self.parts.dims(),
                format!("[{parts}, {width}], a key for each crop of a part"),
            );
        }
        match self.queue.as_ref().map(Tensor::dims) {
            Some(found @ [_, columns]) if columns != width => {
                wrong("queue of keys", found, format!("{width} columns, as the keys of the batch"))
            }
            _ => Ok(()),
        }
    }

    /// The keys in these rows, `[K, D]`, followed by the queue: `[K + Q, D]`.
    pub(super) fn candidates(&self, rows: &[u32]) -> Tensor<2> {
        let keys = crate::terms::select(&self.parts, rows);
        match &self.queue {
            Some(queue) => Tensor::cat(vec![keys, queue.clone()], 0),
            None => keys,
        }
    }

    /// Widens a mask over keys of the batch, `[M, K]`, to all candidates, `[M, K + Q]`. It is false for the queue.
    pub(super) fn widened(&self, mask: Tensor<2, Bool>) -> Tensor<2, Bool> {
        let Some([columns, _]) = self.queue.as_ref().map(Tensor::dims) else { return mask };
        let [rows, _] = mask.dims();
        let beside = TensorData::new(vec![false; rows * columns], [rows, columns]);
        let beside = Tensor::from_data(beside, &mask.device());
        Tensor::cat(vec![mask, beside], 1)
    }
}
