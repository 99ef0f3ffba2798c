//! Angles and apertures of cones along straight lines, shared by the sphere and Euclidean space.

use crate::real::Real;
use crate::root::RootView;
use crate::safe;
use crate::slices::sums;

/// Angle between `a = parent - root` and `b = child - parent`, radians in [0, pi]; zero if `a` or `b` has length zero.
///
/// This is `acos(<a, b> / (|a| |b|))` of HierarCaps (Eq. 1, which writes `b - a` with `b = child - root`). By the law
/// of cosines it is also `acos((|y|^2 - |x|^2 - |x - y|^2) / (2 |x| |x - y|))` of Wang et al. (Eq. 10) with `x, y`
/// measured from the root. The derivative of `acos` is infinite at 0 and pi, and the angles of trained embeddings lie
/// near these values. W. Kahan's `2 atan2(|a/|a| - b/|b||, |a/|a| + b/|b||)` is accurate everywhere.
pub(crate) fn chord_angle<T: Real>(parent: &[T], child: &[T], root: RootView<'_>) -> T {
    let (mut aa, mut bb) = (T::ZERO, T::ZERO);
    for (i, (p, c)) in parent.iter().zip(child).enumerate() {
        let (a, b) = (*p - root.at(i), *c - *p);
        aa += a * a;
        bb += b * b;
    }
    let (a_norm, b_norm) = (aa.sqrt(), bb.sqrt());
    if !(a_norm > T::TINY && b_norm > T::TINY) {
        return T::ZERO;
    }
    let (mut apart, mut along) = (T::ZERO, T::ZERO);
    for (i, (p, c)) in parent.iter().zip(child).enumerate() {
        let (a, b) = ((*p - root.at(i)) / a_norm, (*c - *p) / b_norm);
        apart += (a - b) * (a - b);
        along += (a + b) * (a + b);
    }
    T::TWO * apart.sqrt().atan2(along.sqrt())
}

/// Distance `|x - root|`.
pub(crate) fn chord_depth<T: Real>(x: &[T], root: RootView<'_>) -> T {
    match root {
        RootView::Origin => sums(x, x, |a, b| [a * b])[0].sqrt(),
        RootView::Point(_) => {
            let squares = x.iter().enumerate().map(|(i, v)| *v - root.at(i));
            squares.fold(T::ZERO, |sum, d| sum + d * d).sqrt()
        }
    }
}

/// Half aperture of a cone: `asin(min_radius / depth)`, and pi/2 within distance `min_radius` of the root. These are
/// the flat cones of Ganea et al. 2018; HierarCaps writes `sin = min(1, eps / d_r)`.
pub(crate) fn chord_half_aperture<T: Real>(depth: T, min_radius: T) -> T {
    if depth > min_radius { safe::asin(min_radius / depth) } else { T::PI / T::TWO }
}
