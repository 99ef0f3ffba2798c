//! From components along the parent to angles, and from angles back: one row of the table at a time, sixteen children side by side.

use macerator::{AutoArch, Simd, WithSimd};

use crate::functions::{LANES, fma as fma32};
use crate::trigonometry::angle32;

/// One parent, at curvature 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parent {
    /// Its length.
    pub(super) length: f32,
    /// `sqrt(1 + length^2)`; 1 in flat space.
    pub(super) time: f32,
    /// Whether it is at the root, where every angle is 0.
    pub(super) at_root: bool,
    /// Squared lengths below this are none.
    pub(super) floor: f32,
}

/// The children of one factor, at curvature 1.
#[derive(Clone, Copy)]
pub(super) struct Children<'a> {
    pub(super) length: &'a [f32],
    /// `sqrt(1 + length^2)`; 1 in flat space.
    pub(super) time: &'a [f32],
    /// `length^2 / time`.
    pub(super) bulge: &'a [f32],
}

/// `out += weight angle` for the components `y` of the children along the parent.
pub(super) fn add_angles<const FLAT: bool>(
    parent: Parent,
    children: Children<'_>,
    y: &[f32],
    weight: f32,
    out: &mut [f32],
) {
    if !parent.at_root {
        AutoArch::new().dispatch(Angles::<FLAT> { parent, children, y, weight, out });
    }
}

/// Turns `y`, the components of the children along the parent, into `weight g dangle/d<parent, child>`, the product taken at curvature 1,
/// adds to `to_child` what multiplies each child, and returns what multiplies the parent's direction and twice the derivative by the
/// logarithm of the curvature.
pub(super) fn to_gradients<const FLAT: bool>(
    parent: Parent,
    children: Children<'_>,
    y: &mut [f32],
    weight: f32,
    grad: &[f32],
    to_child: &mut [f32],
) -> [f32; 2] {
    if parent.at_root {
        y.fill(0.0);
        return [0.0; 2];
    }
    AutoArch::new().dispatch(Slopes::<FLAT> { parent, children, y, weight, grad, to_child })
}

/// The vector at the parent towards a child.
#[derive(Clone, Copy)]
struct Seen {
    across: f32,
    along: f32,
    /// Their squares, added.
    square: f32,
    /// Whether the vector has no length.
    none: bool,
}

impl Parent {
    #[inline(always)]
    fn sees<S: Simd, const FLAT: bool>(&self, length: f32, time: f32, y: f32) -> Seen {
        let square = (length - y) * (length + y);
        let across_square = if square < self.floor { 0.0 } else { square };
        let along = if FLAT { y - self.length } else { fma32::<S>(self.time, y, -(time * self.length)) };
        let square = fma32::<S>(along, along, across_square);
        Seen { across: across_square.sqrt(), along, square, none: square < self.floor }
    }
}

struct Angles<'a, const FLAT: bool> {
    parent: Parent,
    children: Children<'a>,
    y: &'a [f32],
    weight: f32,
    out: &'a mut [f32],
}

impl<const FLAT: bool> WithSimd for Angles<'_, FLAT> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let Children { length, time, .. } = self.children;
        for start in (0..self.y.len()).step_by(LANES) {
            let (length, time, y) = (block(length, start), block(time, start), block(self.y, start));
            let mut angles = [0.0; LANES];
            for lane in 0..LANES {
                let seen = self.parent.sees::<S, FLAT>(length[lane], time[lane], y[lane]);
                let angle = angle32::<S>(seen.across, seen.along);
                angles[lane] = self.weight * if seen.none { 0.0 } else { angle };
            }
            self.out[start..].iter_mut().zip(angles).for_each(|(out, angle)| *out += angle);
        }
    }
}

struct Slopes<'a, const FLAT: bool> {
    parent: Parent,
    children: Children<'a>,
    y: &'a mut [f32],
    weight: f32,
    grad: &'a [f32],
    to_child: &'a mut [f32],
}

impl<const FLAT: bool> Slopes<'_, FLAT> {
    /// What an angle adds to the gradients: by the dot product, along the child, along the parent's direction, by the curvature.
    ///
    /// With `n`, `tp` the parent's length and time, `tc` the child's time, `a` across, `l` along and `w = cosh(dist)`, everything over
    /// `a^2 + l^2 = w^2 - 1`: `-(l y + tp a^2) / (n a)`, `(l + n a^2 / tc) / a` and `a w / tp + y (l y + tp a^2) / (n a)`. In flat
    /// space `tp` and `w` are 1, and the part with `tc` is not there. The curvature changes `l / sqrt(c)` alone, through the two times.
    #[inline(always)]
    fn slopes<S: Simd>(&self, length: f32, time: f32, bulge: f32, y: f32, grad: f32) -> [f32; 4] {
        let parent = &self.parent;
        let (over_length, over_time) = (1.0 / parent.length, 1.0 / parent.time);
        let seen = parent.sees::<S, FLAT>(length, time, y);
        let straight = seen.across == 0.0;
        let over_across = 1.0 / if straight { 1.0 } else { seen.across };
        let over_across = if straight { 0.0 } else { over_across };
        let over_square = 1.0 / if seen.none { 1.0 } else { seen.square };
        let grad = if seen.none { 0.0 } else { self.weight * grad };
        let across_square = seen.across * seen.across;
        let both = fma32::<S>(parent.time, across_square, seen.along * y);
        let mixed = both * over_across * over_square * over_length;
        let (bent, cosh) = if FLAT {
            (seen.along, 1.0)
        } else {
            (fma32::<S>(parent.length / time, across_square, seen.along), (1.0 + seen.square).sqrt())
        };
        let bulges = fma32::<S>(parent.length * over_time, y, -bulge);
        let curved = if FLAT { 0.0 } else { parent.length * seen.across * over_square * bulges };
        let outward = fma32::<S>(y, mixed, seen.across * cosh * over_square * over_time);
        [-grad * mixed, grad * (bent * over_across * over_square), grad * outward, -grad * curved]
    }
}

impl<const FLAT: bool> WithSimd for Slopes<'_, FLAT> {
    type Output = [f32; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> [f32; 2] {
        let Children { length, time, bulge } = self.children;
        // Sums kept side by side: vector instructions need them, and long sums are more accurate.
        let (mut outward, mut curved) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for start in (0..self.y.len()).step_by(LANES) {
            let (length, time, bulge) = (block(length, start), block(time, start), block(bulge, start));
            let (y, grad) = (block(self.y, start), block(self.grad, start));
            let (mut mixed, mut child) = ([0.0_f32; LANES], [0.0_f32; LANES]);
            for lane in 0..LANES {
                let found = self.slopes::<S>(length[lane], time[lane], bulge[lane], y[lane], grad[lane]);
                (mixed[lane], child[lane]) = (found[0], found[1]);
                outward[lane] += found[2];
                curved[lane] += found[3];
            }
            self.y[start..].iter_mut().zip(mixed).for_each(|(out, slope)| *out = slope);
            self.to_child[start..].iter_mut().zip(child).for_each(|(sum, share)| *sum += share);
        }
        [outward.iter().sum(), curved.iter().sum()]
    }
}

/// [`LANES`] numbers from `start` on, zeros behind the last. (A child without length seen by a parent gets an angle that nobody reads,
/// and with no gradient to spread it adds none.)
#[inline(always)]
fn block(values: &[f32], start: usize) -> [f32; LANES] {
    let rest = &values[start..];
    match rest.first_chunk::<LANES>() {
        Some(full) => *full,
        None => {
            let mut block = [0.0; LANES];
            rest.iter().zip(&mut block).for_each(|(&v, place)| *place = v);
            block
        }
    }
}
