//! A first-in, first-out queue of points.

use burn::tensor::Tensor;

/// The newest points of a run, at most `capacity`.
#[derive(Debug)]
pub(super) struct KeyQueue {
    capacity: usize,
    /// `[Q, D]`, oldest first.
    points: Option<Tensor<2>>,
}

impl KeyQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, points: None }
    }

    /// The points, `[Q, D]`, oldest first; `None` if there are none.
    pub(super) fn points(&self) -> Option<&Tensor<2>> {
        self.points.as_ref()
    }

    /// Largest number of points.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Appends `keys`, `[K, D]`, in their order, and removes the oldest points beyond the capacity.
    pub(super) fn push(&mut self, keys: Tensor<2>) {
        let all = match self.points.take() {
            Some(points) => Tensor::cat(vec![points, keys], 0),
            None => keys,
        };
        let [rows, _] = all.dims();
        let excess = rows.saturating_sub(self.capacity);
        self.points = Some(if excess > 0 { all.narrow(0, excess, self.capacity) } else { all });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn the_oldest_points_leave_first() {
        let mut queue = KeyQueue::new(3);
        assert!(queue.points().is_none());
        let mut after = |keys: Vec<[f32; 1]>| -> Vec<f32> {
            let rows = keys.len();
            let keys = burn::tensor::TensorData::new(keys.concat(), [rows, 1]);
            queue.push(Tensor::from_data(keys, &Device::flex()));
            queue.points().unwrap().to_data().iter::<f32>().collect()
        };
        assert_eq!(after(vec![[1.0], [2.0]]), [1.0, 2.0]);
        assert_eq!(after(vec![[3.0], [4.0]]), [2.0, 3.0, 4.0]);
        // A batch may be larger than the queue.
        assert_eq!(after(vec![[5.0], [6.0], [7.0], [8.0]]), [6.0, 7.0, 8.0]);
    }
}
