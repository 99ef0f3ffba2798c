//! Centroids in the ambient space, summed in `f64`.

use crate::real::Real;
use crate::safe::TINY_F32;

/// Sum of the points, component by component, in their order.
pub(crate) fn component_sums<T: Real>(points: &[&[T]], dim: usize) -> Vec<f64> {
    let mut sum = vec![0.0_f64; dim];
    for point in points {
        sum.iter_mut().zip(*point).for_each(|(sum, v)| *sum += v.to_f64());
    }
    sum
}

/// `sum / length`; `out` keeps its value if the length is nearly zero.
pub(crate) fn divided<T: Real>(sum: &[f64], length: f64, out: &mut [T]) {
    if length > f64::from(TINY_F32) {
        sum.iter().zip(out).for_each(|(v, out)| *out = T::from_f64(v / length));
    }
}
