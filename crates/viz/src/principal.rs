use conifer_geometry::safe::projection::AXIS_SETTLED;
use conifer_geometry::safe::{EPS_F64, ratio};
use conifer_geometry::slices::{dot, norm};
use rayon::prelude::*;

/// The first `count` principal components of centred rows as unit vectors, by power iteration on all at once. A
/// component is zero if the rows vary along fewer directions. The sign makes the coordinate of largest absolute value
/// positive.
///
/// Each step shrinks the part of a component along the next one by the ratio of their eigenvalues. If two eigenvalues
/// are nearly equal, convergence is slow, but any two directions that span the same plane are equally good. The
/// iteration ends after `steps` steps, or when no coordinate changes by more than [`AXIS_SETTLED`].
pub(crate) fn principal(centred: &[Vec<f64>], dim: usize, count: usize, steps: usize) -> Vec<Vec<f64>> {
    // A deterministic start that is unlikely to be orthogonal to a component: fractional parts of multiples of the
    // golden ratio. From the third vector on, another irrational number keeps the vectors independent.
    let start = |shift: usize| -> Vec<f64> {
        let golden = |i: usize| ((i * 2 + shift + 1) as f64 * 0.618_033_988_749_895).fract() - 0.5;
        let other = |i: usize| ((i * i + i * shift + 1) as f64 * 0.414_213_562_373_095).fract() - 0.5;
        (0..dim).map(|i| if shift < 2 { golden(i) } else { other(i) }).collect()
    };
    let mut axes: Vec<Vec<f64>> = (0..count).map(start).collect();
    for _ in 0..steps {
        let before = axes.clone();
        axes.par_iter_mut().for_each(|axis| {
            let mut next = vec![0.0; dim];
            for row in centred {
                let along = dot(row, axis);
                next.iter_mut().zip(row).for_each(|(n, v)| *n += along * v);
            }
            *axis = next;
        });
        orthonormalise(&mut axes);
        let change = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= AXIS_SETTLED);
        if axes.iter().zip(&before).all(change) {
            break;
        }
    }
    for axis in &mut axes {
        let largest =
            axis.iter().copied().fold(0.0_f64, |largest, v| if v.abs() > largest.abs() { v } else { largest });
        if largest < 0.0 {
            axis.iter_mut().for_each(|v| *v = -*v);
        }
    }
    axes
}

/// Gram-Schmidt in order. A vector that depends on the earlier ones becomes zero.
fn orthonormalise(axes: &mut [Vec<f64>]) {
    for at in 0..axes.len() {
        let (earlier, rest) = axes.split_at_mut(at);
        let axis = &mut rest[0];
        let before = norm(axis);
        for other in earlier.iter() {
            let along = dot(other, axis);
            axis.iter_mut().zip(other).for_each(|(a, o)| *a -= along * o);
        }
        // If the vector was a combination of the earlier ones, only rounding error is left: set it to zero.
        let left = norm(axis);
        let scale = if left > before * EPS_F64 { ratio(1.0, left) } else { 0.0 };
        axis.iter_mut().for_each(|v| *v *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows `+-s_k e_k` with s = 4, 3, 2, 1: the components are the axes in that order, and the fifth is zero.
    #[test]
    fn components_are_found_in_order() {
        let mut rows = Vec::new();
        for (k, s) in [4.0, 3.0, 2.0, 1.0].into_iter().enumerate() {
            for sign in [1.0, -1.0] {
                let mut row = vec![0.0; 6];
                row[5 - k] = sign * s;
                rows.push(row);
            }
        }
        let axes = principal(&rows, 6, 5, 500);
        for (k, axis) in axes[..4].iter().enumerate() {
            assert!((axis[5 - k] - 1.0).abs() < 1e-12, "{k}: {axis:?}");
        }
        assert!(norm(&axes[4]) == 0.0, "{axes:?}");
    }
}
