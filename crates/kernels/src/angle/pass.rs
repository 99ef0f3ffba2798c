//! SIMD passes from dot products to angles and from gradients of angles back to gradients of dot products. They process
//! one row of the table at a time, sixteen columns per step.
//!
//! Lengths are at curvature 1, that is, scaled by `sqrt(c)`. Dot products are not scaled.

use macerator::{AutoArch, Simd, WithSimd};

use super::AngleGeometry;
use crate::functions::{LANES, fma as fma32};
use crate::trigonometry::angle32;

/// Precomputed values of a point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnglePoint {
    pub(super) length: f32,
    /// `sqrt(1 + length^2)`; 1 in flat space.
    pub(super) time: f32,
    /// `1 / length`; 0 for a point at the root, where every angle is 0.
    pub(super) over_length: f32,
    /// `1 / time`.
    pub(super) over_time: f32,
}

/// The values of the column points, for one factor.
#[derive(Clone, Copy)]
pub(super) struct ColumnPoints<'a> {
    pub(super) length: &'a [f32],
    pub(super) time: &'a [f32],
    pub(super) over_length: &'a [f32],
    pub(super) over_time: &'a [f32],
}

/// Inputs for one row of the angle table of one factor: the row's point and all column points.
#[derive(Clone, Copy)]
pub(super) struct AngleRow<'a> {
    pub(super) point: AnglePoint,
    pub(super) columns: ColumnPoints<'a>,
    pub(super) geometry: AngleGeometry,
    pub(super) curv: f32,
    /// Squared lengths below this count as zero.
    pub(super) floor: f32,
    /// Weight of this factor in the mean.
    pub(super) weight: f32,
}

/// Gradient terms of the row's point: the coefficient of the point in its own gradient, and twice the derivative with
/// respect to the logarithm of the curvature.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowGradient {
    pub(super) row: f32,
    pub(super) curv: f32,
}

impl AngleRow<'_> {
    /// Computes the angles at the row's point towards the columns from dot products. Adds `weight * angle` to `down`.
    pub(super) fn add_down(self, dots: &[f32], down: &mut [f32]) {
        self.add::<false>(dots, down, &mut []);
    }

    /// Subtracts the weighted angles at the row's point from `down`, whose logits are `pi - angle`, and adds the
    /// weighted angles at the columns' points to `up`.
    pub(super) fn add_both(self, dots: &[f32], down: &mut [f32], up: &mut [f32]) {
        self.add::<true>(dots, down, up);
    }

    /// Replaces the dot products by their gradients, computed from the gradients of the angles of
    /// [`AngleRow::add_down`]. Adds the coefficients of the columns' points to `own`.
    pub(super) fn differentiate_down(self, dots: &mut [f32], down: &[f32], own: &mut [f32]) -> RowGradient {
        self.differentiate::<false>(dots, down, &[], own)
    }

    /// Does the same as [`AngleRow::differentiate_down`] for the gradients of both angles of each pair: `down` at the
    /// row's point and `up` at the column's point.
    pub(super) fn differentiate_both(self, dots: &mut [f32], down: &[f32], up: &[f32], own: &mut [f32]) -> RowGradient {
        self.differentiate::<true>(dots, down, up, own)
    }

    fn add<const BOTH: bool>(self, dots: &[f32], down: &mut [f32], up: &mut [f32]) {
        match self.geometry {
            AngleGeometry::Hyperbolic => {
                AutoArch::new().dispatch(AnglesForward::<false, BOTH> { row: self, dots, down, up })
            }
            AngleGeometry::Flat => AutoArch::new().dispatch(AnglesForward::<true, BOTH> { row: self, dots, down, up }),
        }
    }

    fn differentiate<const BOTH: bool>(
        self,
        dots: &mut [f32],
        down: &[f32],
        up: &[f32],
        own: &mut [f32],
    ) -> RowGradient {
        match self.geometry {
            AngleGeometry::Hyperbolic => {
                AutoArch::new().dispatch(AnglesBackward::<false, BOTH> { row: self, dots, down, up, own })
            }
            AngleGeometry::Flat => {
                AutoArch::new().dispatch(AnglesBackward::<true, BOTH> { row: self, dots, down, up, own })
            }
        }
    }
}

/// The vector at the parent towards a child, in components across and along the parent's ray.
#[derive(Clone, Copy)]
struct ChildDirection {
    /// The child's component along the parent.
    y: f32,
    across: f32,
    along: f32,
    /// `across^2 + along^2`.
    square: f32,
    /// True if the vector has no length or the parent is at the root, so that the angle is 0.
    none: bool,
}

impl ChildDirection {
    #[inline(always)]
    fn new<S: Simd, const FLAT: bool>(parent: AnglePoint, child: AnglePoint, dot: f32, floor: f32) -> Self {
        let y = dot * parent.over_length;
        let square = (child.length - y) * (child.length + y);
        let across_square = if square < floor { 0.0 } else { square };
        let along = if FLAT { y - parent.length } else { fma32::<S>(parent.time, y, -(child.time * parent.length)) };
        let square = fma32::<S>(along, along, across_square);
        ChildDirection {
            y,
            across: across_square.sqrt(),
            along,
            square,
            none: square < floor || parent.over_length == 0.0,
        }
    }

    #[inline(always)]
    fn angle<S: Simd>(self) -> f32 {
        let angle = angle32::<S>(self.across, self.along);
        if self.none { 0.0 } else { angle }
    }
}

/// The gradient terms of one angle: with respect to the dot product and the curvature, and the coefficients of the two
/// points.
#[derive(Clone, Copy)]
struct AngleGradient {
    dot: f32,
    /// The coefficient of the parent in the gradient of the parent, and of the child in that of the child.
    parent: f32,
    child: f32,
    curv: f32,
}

impl AngleGradient {
    /// Computes the derivatives of the angle. Let `n` and `tp` be the parent's length and time, `tc` the child's time,
    /// `y` the child's component along the parent, `a` and `l` the components of the vector towards the child across
    /// and along the parent's ray, and `w = cosh(dist)`. All derivatives are divided by `a^2 + l^2 = w^2 - 1`. With
    /// respect to the dot product: `-(l y + tp a^2) / (n a)`. Along the child: `(l + n a^2 / tc) / a`. Along the
    /// parent's direction: `a w / tp + y (l y + tp a^2) / (n a)`. In flat space `tp` and `w` are 1, and the term with
    /// `tc` is absent. The curvature changes only `l / sqrt(c)`, through the two times.
    #[inline(always)]
    fn new<S: Simd, const FLAT: bool>(parent: AnglePoint, child: AnglePoint, dot: f32, floor: f32, grad: f32) -> Self {
        let direction = ChildDirection::new::<S, FLAT>(parent, child, dot, floor);
        let straight = direction.across == 0.0;
        let over_across = 1.0 / if straight { 1.0 } else { direction.across };
        let over_across = if straight { 0.0 } else { over_across };
        let over_square = 1.0 / if direction.none { 1.0 } else { direction.square };
        let grad = if direction.none { 0.0 } else { grad };
        let across_square = direction.across * direction.across;
        let both = fma32::<S>(parent.time, across_square, direction.along * direction.y);
        let mixed = both * over_across * over_square * parent.over_length;
        let (bent, cosh) = if FLAT {
            (direction.along, 1.0)
        } else {
            (
                fma32::<S>(parent.length * child.over_time, across_square, direction.along),
                (1.0 + direction.square).sqrt(),
            )
        };
        let bulge = child.length * (child.length * child.over_time);
        let bulges = fma32::<S>(parent.length * parent.over_time, direction.y, -bulge);
        let curved = if FLAT { 0.0 } else { parent.length * direction.across * over_square * bulges };
        let outward = fma32::<S>(direction.y, mixed, direction.across * cosh * over_square * parent.over_time);
        AngleGradient {
            dot: -grad * mixed,
            parent: grad * (outward * parent.over_length),
            child: grad * (bent * over_across * over_square),
            curv: -grad * curved,
        }
    }
}

struct AnglesForward<'a, const FLAT: bool, const BOTH: bool> {
    row: AngleRow<'a>,
    dots: &'a [f32],
    down: &'a mut [f32],
    up: &'a mut [f32],
}

impl<const FLAT: bool, const BOTH: bool> WithSimd for AnglesForward<'_, FLAT, BOTH> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let AngleRow { point, columns, curv: c, floor, weight, .. } = self.row;
        for start in (0..self.dots.len()).step_by(LANES) {
            let (columns, dots) = (columns.block(start), block(self.dots, start));
            let (mut down, mut up) = ([0.0; LANES], [0.0; LANES]);
            for lane in 0..LANES {
                let column = columns.lane(lane);
                let angle = ChildDirection::new::<S, FLAT>(point, column, c * dots[lane], floor).angle::<S>();
                down[lane] = if BOTH { -weight } else { weight } * angle;
                if BOTH {
                    up[lane] =
                        weight * ChildDirection::new::<S, FLAT>(column, point, c * dots[lane], floor).angle::<S>();
                }
            }
            add(&mut self.down[start..], &down);
            if BOTH {
                add(&mut self.up[start..], &up);
            }
        }
    }
}

struct AnglesBackward<'a, const FLAT: bool, const BOTH: bool> {
    row: AngleRow<'a>,
    dots: &'a mut [f32],
    down: &'a [f32],
    up: &'a [f32],
    own: &'a mut [f32],
}

impl<const FLAT: bool, const BOTH: bool> WithSimd for AnglesBackward<'_, FLAT, BOTH> {
    type Output = RowGradient;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> RowGradient {
        let AngleRow { point, columns, curv: c, floor, weight, .. } = self.row;
        // One partial sum per lane lets the compiler vectorise the loop. It is also more accurate for long sums.
        let (mut row_own, mut curv) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for start in (0..self.dots.len()).step_by(LANES) {
            let (columns, dots) = (columns.block(start), block(self.dots, start));
            let down = block(self.down, start);
            let up = if BOTH { block(self.up, start) } else { [0.0; LANES] };
            let (mut derivatives, mut own) = ([0.0_f32; LANES], [0.0_f32; LANES]);
            for lane in 0..LANES {
                let column = columns.lane(lane);
                let found = AngleGradient::new::<S, FLAT>(point, column, c * dots[lane], floor, weight * down[lane]);
                (derivatives[lane], own[lane]) = (found.dot, found.child);
                row_own[lane] += found.parent;
                curv[lane] += found.curv;
                if BOTH {
                    let found = AngleGradient::new::<S, FLAT>(column, point, c * dots[lane], floor, weight * up[lane]);
                    derivatives[lane] += found.dot;
                    own[lane] += found.parent;
                    row_own[lane] += found.child;
                    curv[lane] += found.curv;
                }
            }
            store(&mut self.dots[start..], &derivatives);
            add(&mut self.own[start..], &own);
        }
        RowGradient { row: row_own.iter().sum(), curv: curv.iter().sum() }
    }
}

/// The values of sixteen columns.
struct ColumnBlock {
    length: [f32; LANES],
    time: [f32; LANES],
    over_length: [f32; LANES],
    over_time: [f32; LANES],
}

impl ColumnPoints<'_> {
    #[inline(always)]
    fn block(&self, start: usize) -> ColumnBlock {
        ColumnBlock {
            length: block(self.length, start),
            time: block(self.time, start),
            over_length: block(self.over_length, start),
            over_time: block(self.over_time, start),
        }
    }
}

impl ColumnBlock {
    #[inline(always)]
    fn lane(&self, lane: usize) -> AnglePoint {
        AnglePoint {
            length: self.length[lane],
            time: self.time[lane],
            over_length: self.over_length[lane],
            over_time: self.over_time[lane],
        }
    }
}

/// Stores a block. The case of a full block is separate, because a copy of variable length compiles to a function call.
#[inline(always)]
fn store(out: &mut [f32], values: &[f32; LANES]) {
    match out.first_chunk_mut::<LANES>() {
        Some(out) => *out = *values,
        None => out.iter_mut().zip(values).for_each(|(out, &value)| *out = value),
    }
}

#[inline(always)]
fn add(sum: &mut [f32], share: &[f32; LANES]) {
    match sum.first_chunk_mut::<LANES>() {
        Some(sum) => {
            for lane in 0..LANES {
                sum[lane] += share[lane];
            }
        }
        None => sum.iter_mut().zip(share).for_each(|(sum, &share)| *sum += share),
    }
}

/// [`LANES`] numbers from `start` on, padded with zeros. The angle of a padding column is never read, and its gradient
/// is zero.
#[inline(always)]
fn block(values: &[f32], start: usize) -> [f32; LANES] {
    let rest = &values[start..];
    match rest.first_chunk::<LANES>() {
        Some(full) => *full,
        None => {
            let mut block = [0.0; LANES];
            rest.iter().zip(&mut block).for_each(|(&v, out)| *out = v);
            block
        }
    }
}
