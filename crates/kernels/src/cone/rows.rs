//! The fused hinge on the CPU. Eight factors are processed side by side. The index of factor k of row i is `i K + k`.

use burn::backend::{Flex, TensorMetadata};
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::{ConeHinge, ConeOps};
use crate::arrays::{FlexArray, array, dense, numbers};
use crate::trigonometry::{F64Lanes, WIDE, angle, fma, sums};

/// Coordinates per parallel task.
const CHUNK: usize = 16 << 10;

impl ConeOps for Flex {
    fn cone_hinge(parent: FlexArray, child: FlexArray, curv: FlexArray, cone: ConeHinge) -> FlexArray {
        forward(&parent, &child, &curv, cone).0
    }
}

/// The gradient of the hinge of one factor: `a parent + b child` for the parent and `b parent + c child` for the child,
/// plus the derivative with respect to the curvature. `a`, `b` and `c` (`parent`, `mixed`, `child`) come from the
/// derivatives with respect to the squared lengths and the dot product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HingeGradient {
    parent: f64,
    mixed: f64,
    child: f64,
    curv: f64,
}

/// The hinges of all rows, `[B]`, and the gradient of each factor of each row.
pub(super) fn forward(
    parent: &FlexArray,
    child: &FlexArray,
    curv: &FlexArray,
    cone: ConeHinge,
) -> (FlexArray, Vec<HingeGradient>) {
    let shape = HingeShape::of(parent, curv);
    let (parent, child) = (dense(parent), dense(child));
    let curv: Vec<f64> = numbers(&dense(curv)).iter().map(|&c| f64::from(c)).collect();
    let count = shape.rows * shape.factors;
    let (mut hinges, mut gradients) = (vec![0.0_f64; count], vec![HingeGradient::default(); count]);
    let chunk = shape.chunk();
    let pieces = hinges.par_chunks_mut(chunk).zip(gradients.par_chunks_mut(chunk));
    let points = numbers(&parent).par_chunks(chunk * shape.width).zip(numbers(&child).par_chunks(chunk * shape.width));
    pieces.zip(points).enumerate().for_each(|(i, ((hinges, gradients), (parent, child)))| {
        let (width, first) = (shape.width, i * chunk);
        AutoArch::new().dispatch(ConeHingeForward {
            cone: &cone,
            curv: &curv,
            width,
            first,
            parent,
            child,
            hinges,
            gradients,
        });
    });
    let mean = |hinges: &[f64]| (hinges.iter().sum::<f64>() / shape.factors as f64) as f32;
    let rows = hinges.chunks(shape.factors.max(1)).map(mean).collect();
    (array(rows, &[shape.rows]), gradients)
}

pub(super) fn backward(
    parent: &FlexArray,
    child: &FlexArray,
    curv: &FlexArray,
    gradients: &[HingeGradient],
    grad: &FlexArray,
) -> [FlexArray; 3] {
    let shape = HingeShape::of(parent, curv);
    let (parent, child, grad) = (dense(parent), dense(child), dense(grad));
    let upstream: Vec<f64> = numbers(&grad).iter().map(|&g| f64::from(g) / shape.factors as f64).collect();
    let size = numbers(&parent).len();
    let (mut to_parent, mut to_child) = (vec![0.0_f32; size], vec![0.0_f32; size]);
    let (chunk, width) = (shape.chunk(), shape.width);
    let outs = to_parent.par_chunks_mut(chunk * width).zip(to_child.par_chunks_mut(chunk * width));
    let points = numbers(&parent).par_chunks(chunk * width).zip(numbers(&child).par_chunks(chunk * width));
    let pieces = outs.zip(points).zip(gradients.par_chunks(chunk));
    pieces.enumerate().for_each(|(i, (((to_parent, to_child), (parent, child)), gradients))| {
        let first = i * chunk;
        let (upstream, factors) = (&upstream, shape.factors);
        AutoArch::new().dispatch(ConeHingeBackward {
            upstream,
            factors,
            width,
            first,
            parent,
            child,
            gradients,
            to_parent,
            to_child,
        });
    });
    let mut to_curv = vec![0.0_f64; shape.factors];
    for (row, &upstream) in gradients.chunks(shape.factors.max(1)).zip(&upstream) {
        to_curv.iter_mut().zip(row).for_each(|(sum, gradient)| *sum += upstream * gradient.curv);
    }
    let dims = parent.shape();
    let to_curv = to_curv.into_iter().map(|g| g as f32).collect();
    [array(to_parent, dims.as_slice()), array(to_child, dims.as_slice()), array(to_curv, &[shape.factors])]
}

#[derive(Clone, Copy)]
struct HingeShape {
    rows: usize,
    factors: usize,
    /// Coordinates per factor.
    width: usize,
}

impl HingeShape {
    fn of(parent: &FlexArray, curv: &FlexArray) -> Self {
        let (shape, factors) = (parent.shape(), curv.shape()[0]);
        HingeShape { rows: shape[0], factors, width: (shape[1] / factors.max(1)).max(1) }
    }

    /// Factors per parallel task: a multiple of [`WIDE`].
    fn chunk(self) -> usize {
        WIDE * (CHUNK / (WIDE * self.width)).max(1)
    }
}

struct ConeHingeForward<'a> {
    cone: &'a ConeHinge,
    curv: &'a [f64],
    width: usize,
    /// Index of the first factor, counted over all rows.
    first: usize,
    parent: &'a [f32],
    child: &'a [f32],
    hinges: &'a mut [f64],
    gradients: &'a mut [HingeGradient],
}

impl WithSimd for ConeHingeForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let block = self.width * WIDE;
        let points = self.parent.chunks(block).zip(self.child.chunks(block));
        let outs = self.hinges.chunks_mut(WIDE).zip(self.gradients.chunks_mut(WIDE));
        for (group, ((parent, child), (hinges, gradients))) in points.zip(outs).enumerate() {
            let mut pairs = PairDots { curv: [1.0; WIDE], ..PairDots::default() };
            let mut factor = (self.first + group * WIDE) % self.curv.len();
            for (lane, (p, c)) in parent.chunks_exact(self.width).zip(child.chunks_exact(self.width)).enumerate() {
                pairs.curv[lane] = self.curv[factor];
                factor = if factor + 1 == self.curv.len() { 0 } else { factor + 1 };
                let [pp, pc, cc] = sums::<S, 3>(p, c, |p, c| [[p, p], [p, c], [c, c]]);
                let coefficient = if pp > self.cone.tiny * self.cone.tiny { pc / pp } else { 0.0 };
                let [across] = sums::<S, 1>(p, c, |p, c| [[fma::<S>(-coefficient, p, c); 2]]);
                (pairs.pp[lane], pairs.pc[lane], pairs.cc[lane], pairs.across[lane]) = (pp, pc, cc, across);
            }
            let found = pairs.hinges::<S>(self.cone);
            for (lane, (hinge, gradient)) in hinges.iter_mut().zip(gradients).enumerate() {
                let [values, parent, mixed, child, curv] = &found;
                let of_lane =
                    HingeGradient { parent: parent[lane], mixed: mixed[lane], child: child[lane], curv: curv[lane] };
                (*hinge, *gradient) = (values[lane], of_lane);
            }
        }
    }
}

/// Dot products of eight pairs of points.
#[derive(Default)]
struct PairDots {
    curv: F64Lanes,
    pp: F64Lanes,
    pc: F64Lanes,
    cc: F64Lanes,
    /// Squared length of the child's component perpendicular to the parent.
    across: F64Lanes,
}

impl PairDots {
    /// The hinge of each pair and the four numbers of its gradient ([`HingeGradient`]), each as one vector.
    #[inline(always)]
    fn hinges<S: Simd>(&self, cone: &ConeHinge) -> [F64Lanes; 5] {
        let largest = cone.max_aperture.unwrap_or(f64::INFINITY);
        let mut out = [[0.0; WIDE]; 5];
        for lane in 0..WIDE {
            let found = self.hinge::<S>(lane, cone, largest);
            for (out, found) in out.iter_mut().zip(found) {
                out[lane] = found;
            }
        }
        out
    }

    /// The hinge of one pair and its gradient.
    ///
    /// Angles do not change when the space is scaled by `sqrt(c)`, so all values below have `c = 1`. Let `n` be the
    /// parent's length, `tp` and `tc` the time components of parent and child, `y` the child's component along the
    /// parent, `a` the length of the component across, `l = tp y - tc n`, and `w = cosh(dist)`. The angle is
    /// `atan2(a, l)`, and `a^2 + l^2 = w^2 - 1`. With `e` the unit vector across and `o` the outward unit vector, the
    /// derivatives of the angle are
    ///
    /// ```text
    /// by the parent: -(l y + tp a^2) / (n (a^2 + l^2)) e + a w / (tp (a^2 + l^2)) o
    /// by the child:   (l + n a^2 / tc) / (a^2 + l^2) e   - a w / (tc (a^2 + l^2)) o
    /// ```
    ///
    /// The derivative with respect to the curvature is the sum of the dot products of these derivatives with the two
    /// points, divided by `2 c`.
    #[inline(always)]
    fn hinge<S: Simd>(&self, lane: usize, cone: &ConeHinge, largest: f64) -> [f64; 5] {
        let (curv, tiny) = (self.curv[lane], cone.tiny * cone.tiny);
        let at_root = self.pp[lane] <= tiny;
        let parent_square = curv * if at_root { 1.0 } else { self.pp[lane] };
        let n = parent_square.sqrt();
        let (tp, tc) = ((1.0 + parent_square).sqrt(), fma::<S>(curv, self.cc[lane], 1.0).sqrt());
        let dot = curv * self.pc[lane];
        let y = dot / n;
        let rounding = cone.straight * cone.straight * self.cc[lane];
        let none = self.across[lane] < tiny || self.across[lane] <= rounding;
        let across_square = if none { 0.0 } else { curv * self.across[lane] };
        let a = across_square.sqrt();
        // Far from the origin `tp y` and `tc n` are nearly equal; `y - n` and the component across are known to full
        // accuracy.
        let total = tp * y.abs() + tc * n;
        let front = ((dot - parent_square) / n * (y + n) - across_square * parent_square) / total;
        let back = tp * y - tc * n;
        let l = if y <= 0.0 { back } else { front };
        let reach = across_square + l * l;
        let undefined = at_root || reach < tiny * curv;
        let exterior = angle::<S>(a, l);
        let exterior = if undefined { 0.0 } else { exterior };

        // Round the difference as `f32` does, so that `edge` is not too small and the derivative of the aperture stays
        // bounded.
        let arm = 2.0 * cone.min_radius;
        let root_square = if at_root { curv * self.pp[lane] } else { parent_square };
        let room = f64::from(root_square as f32 - (arm * arm) as f32);
        let narrow = room < tiny;
        let edge = if narrow { 0.0 } else { room }.sqrt();
        let half = angle::<S>(arm, edge);
        let capped = half > largest;
        let half = if capped { largest } else { half };
        let hinge = exterior - cone.aperture_scale * half;
        let inside = hinge <= 0.0;

        let over = 1.0 / if undefined { 1.0 } else { reach };
        let over = if undefined { 0.0 } else { over };
        let over_a = 1.0 / if none { 1.0 } else { a };
        let over_a = if none { 0.0 } else { over_a };
        let w = (1.0 + reach).sqrt();
        let parent_across = -over * (l * y + tp * across_square) / n;
        let child_across = over * (l + n * across_square / tc);
        let turn = over * a * w;
        let fixed = narrow || capped;
        let opening = cone.aperture_scale * arm * n / (root_square * if fixed { 1.0 } else { edge });
        let parent_out = turn / tp + if fixed { 0.0 } else { opening };
        let child_out = -turn / tc;
        let mixed = parent_across * over_a;
        let mut found = [
            hinge,
            curv * (parent_out / n - mixed * y / n),
            curv * mixed,
            curv * child_across * over_a,
            (parent_out * n + child_across * a + child_out * y) / (2.0 * curv),
        ];
        for it in &mut found {
            *it = if inside { 0.0 } else { *it };
        }
        found
    }
}

struct ConeHingeBackward<'a> {
    /// Gradient of each row, divided by the number of factors.
    upstream: &'a [f64],
    factors: usize,
    width: usize,
    first: usize,
    parent: &'a [f32],
    child: &'a [f32],
    gradients: &'a [HingeGradient],
    to_parent: &'a mut [f32],
    to_child: &'a mut [f32],
}

impl WithSimd for ConeHingeBackward<'_> {
    type Output = ();

    /// Calculates in `f64`, because the two terms of a gradient nearly cancel for close points.
    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let points = self.parent.chunks_exact(self.width).zip(self.child.chunks_exact(self.width));
        let outs = self.to_parent.chunks_exact_mut(self.width).zip(self.to_child.chunks_exact_mut(self.width));
        for (i, (((parent, child), (to_parent, to_child)), gradient)) in
            points.zip(outs).zip(self.gradients).enumerate()
        {
            if *gradient == HingeGradient::default() {
                continue;
            }
            let upstream = self.upstream[(self.first + i) / self.factors];
            let (a, b, c) = (upstream * gradient.parent, upstream * gradient.mixed, upstream * gradient.child);
            let outs = to_parent.iter_mut().zip(to_child);
            for ((&p, &v), (to_parent, to_child)) in parent.iter().zip(child).zip(outs) {
                let (p, v) = (f64::from(p), f64::from(v));
                *to_parent = fma::<S>(a, p, b * v) as f32;
                *to_child = fma::<S>(b, p, c * v) as f32;
            }
        }
    }
}
