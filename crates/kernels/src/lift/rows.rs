//! The fused lift on the CPU, a few factors at a time. Lengths and scale factors are computed in `f64`.

use burn::backend::{Flex, TensorMetadata};
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::LiftOps;
use crate::arrays::{FlexArray, array, dense, numbers};
use crate::trigonometry::{F64Lanes, WIDE, sinhc, sums};

/// Coordinates per parallel task.
const CHUNK: usize = 16 << 10;

impl LiftOps for Flex {
    fn lift(tangent: FlexArray, scale: FlexArray, curv: FlexArray, max_rapidity: f64) -> FlexArray {
        let shape = tangent.shape();
        let (tangent, factors) = (dense(&tangent), LiftFactors::new(&tangent, &scale, &curv, max_rapidity));
        let mut points = vec![0.0_f32; numbers(&tangent).len()];
        let chunk = factors.chunk();
        let pieces = points.par_chunks_mut(chunk).zip(numbers(&tangent).par_chunks(chunk));
        pieces.enumerate().for_each(|(i, (points, tangent))| {
            AutoArch::new().dispatch(LiftForward {
                factors: &factors,
                first: i * chunk / factors.width,
                tangent,
                points,
            });
        });
        array(points, &[shape[0], shape[1]])
    }
}

pub(super) fn backward(
    tangent: &FlexArray,
    scale: &FlexArray,
    curv: &FlexArray,
    max_rapidity: f64,
    grad: &FlexArray,
) -> [FlexArray; 3] {
    let shape = tangent.shape();
    let factors = LiftFactors::new(tangent, scale, curv, max_rapidity);
    let (tangent, grad) = (dense(tangent), dense(grad));
    let mut out = vec![0.0_f32; numbers(&tangent).len()];
    let count = factors.scale.len();
    // `shares` holds the contribution of each factor of each row to the gradients of scale and curvature.
    let mut shares = vec![[0.0_f64; 2]; out.len() / factors.width];
    let chunk = factors.chunk();
    let pieces = out.par_chunks_mut(chunk).zip(shares.par_chunks_mut(chunk / factors.width));
    let pieces = pieces.zip(numbers(&tangent).par_chunks(chunk).zip(numbers(&grad).par_chunks(chunk)));
    pieces.enumerate().for_each(|(i, ((out, shares), (tangent, grad)))| {
        let first = i * chunk / factors.width;
        AutoArch::new().dispatch(LiftBackward { factors: &factors, first, tangent, grad, out, shares });
    });
    let mut total = vec![[0.0_f64; 2]; count];
    for row in shares.chunks(count) {
        for (total, share) in total.iter_mut().zip(row) {
            *total = [total[0] + share[0], total[1] + share[1]];
        }
    }
    let column = |i: usize| array(total.iter().map(|it| it[i] as f32).collect(), &[count]);
    [array(out, &[shape[0], shape[1]]), column(0), column(1)]
}

/// Scale and curvature of every factor, and the limit of the rapidity.
struct LiftFactors {
    scale: Vec<f64>,
    curv: Vec<f64>,
    /// Coordinates per factor.
    width: usize,
    max_rapidity: f64,
    /// `sinh(max_rapidity)`.
    max_sinh: f64,
}

impl LiftFactors {
    fn new(tangent: &FlexArray, scale: &FlexArray, curv: &FlexArray, max_rapidity: f64) -> Self {
        let wide = |x: &FlexArray| -> Vec<f64> { numbers(&dense(x)).iter().map(|&v| f64::from(v)).collect() };
        let (scale, curv) = (wide(scale), wide(curv));
        let width = (tangent.shape()[1] / scale.len().max(1)).max(1);
        Self { scale, curv, width, max_rapidity, max_sinh: max_rapidity.sinh() }
    }

    /// Coordinates per parallel task: a multiple of [`WIDE`] factors.
    fn chunk(&self) -> usize {
        let group = self.width * WIDE;
        group * (CHUNK / group).max(1)
    }

    /// The lifts of the factors `first`, `first + 1`, ... (indices count over all rows) from the squared lengths of
    /// their tangent vectors.
    #[inline(always)]
    fn terms<S: Simd>(&self, first: usize, squares: &F64Lanes) -> LiftTerms {
        let mut it = LiftTerms::default();
        let mut factor = first % self.scale.len();
        for lane in 0..WIDE {
            (it.scale[lane], it.curv[lane]) = (self.scale[factor], self.curv[factor]);
            factor = if factor + 1 == self.scale.len() { 0 } else { factor + 1 };
        }
        for (lane, &square) in squares.iter().enumerate() {
            let reach = it.curv[lane] * it.scale[lane] * it.scale[lane];
            let square = reach * square;
            let r = square.sqrt();
            let long = r > self.max_rapidity;
            let (value, derivative) = sinhc::<S>(if long { self.max_rapidity } else { r });
            let far = self.max_sinh / if long { r } else { 1.0 };
            let far_derivative = -far / if long { square } else { 1.0 };
            it.value[lane] = if long { far } else { value };
            it.derivative[lane] = if long { far_derivative } else { derivative };
            (it.reach[lane], it.square[lane]) = (reach, square);
        }
        it
    }
}

/// The lift of eight factors, with `r` the rapidity of each, and the values that the gradient needs.
#[derive(Default)]
struct LiftTerms {
    /// `sinh(r) / r`, the factor on the scaled tangent vector.
    value: F64Lanes,
    /// The derivative of `value` with respect to `r`, divided by `r`.
    derivative: F64Lanes,
    /// `c s^2`.
    reach: F64Lanes,
    /// `r^2`.
    square: F64Lanes,
    scale: F64Lanes,
    curv: F64Lanes,
}

struct LiftForward<'a> {
    factors: &'a LiftFactors,
    /// Index of the first factor, counted over all rows.
    first: usize,
    tangent: &'a [f32],
    points: &'a mut [f32],
}

impl WithSimd for LiftForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let width = self.factors.width;
        let groups = self.tangent.chunks(width * WIDE).zip(self.points.chunks_mut(width * WIDE));
        for (group, (tangent, points)) in groups.enumerate() {
            let mut squares = [0.0; WIDE];
            for (square, tangent) in squares.iter_mut().zip(tangent.chunks_exact(width)) {
                [*square] = sums::<S, 1>(tangent, tangent, |v, _| [[v, v]]);
            }
            let terms = self.factors.terms::<S>(self.first + group * WIDE, &squares);
            let blocks = points.chunks_exact_mut(width).zip(tangent.chunks_exact(width));
            for (lane, (points, tangent)) in blocks.enumerate() {
                let factor = (terms.scale[lane] * terms.value[lane]) as f32;
                points.iter_mut().zip(tangent).for_each(|(x, &v)| *x = factor * v);
            }
        }
    }
}

struct LiftBackward<'a> {
    factors: &'a LiftFactors,
    first: usize,
    tangent: &'a [f32],
    grad: &'a [f32],
    out: &'a mut [f32],
    shares: &'a mut [[f64; 2]],
}

impl WithSimd for LiftBackward<'_> {
    type Output = ();

    /// With `g` the gradient of the point, `f = sinh(r) / r` and `q = f'(r) / r`, the gradients are `s f g + (g . v) s
    /// (c s^2) q v` for the tangent vector `v`, `(g . v) (f + q r^2)` for the scale `s` and `(g . v) s q r^2 / 2c` for
    /// the curvature `c`.
    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let width = self.factors.width;
        let groups = self.tangent.chunks(width * WIDE).zip(self.grad.chunks(width * WIDE));
        let outs = self.out.chunks_mut(width * WIDE).zip(self.shares.chunks_mut(WIDE));
        for (group, ((tangent, grad), (out, shares))) in groups.zip(outs).enumerate() {
            let (mut squares, mut dots) = ([0.0; WIDE], [0.0; WIDE]);
            let blocks = tangent.chunks_exact(width).zip(grad.chunks_exact(width));
            for (lane, (tangent, grad)) in blocks.enumerate() {
                [squares[lane], dots[lane]] = sums::<S, 2>(tangent, grad, |v, g| [[v, v], [v, g]]);
            }
            let terms = self.factors.terms::<S>(self.first + group * WIDE, &squares);
            let blocks = tangent.chunks_exact(width).zip(grad.chunks_exact(width)).zip(out.chunks_exact_mut(width));
            for (lane, (((tangent, grad), out), share)) in blocks.zip(shares).enumerate() {
                let (scale, dot) = (terms.scale[lane], dots[lane]);
                let (value, derivative, square) = (terms.value[lane], terms.derivative[lane], terms.square[lane]);
                let straight = (scale * value) as f32;
                let turned = (dot * scale * terms.reach[lane] * derivative) as f32;
                for ((out, &v), &g) in out.iter_mut().zip(tangent).zip(grad) {
                    *out = straight * g + turned * v;
                }
                *share =
                    [dot * (value + derivative * square), dot * scale * derivative * square / (2.0 * terms.curv[lane])];
            }
        }
    }
}
