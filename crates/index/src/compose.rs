//! Queries made of several points.

use conifer_space::{ManifoldSpec, Root, space};

use crate::error::{Error, Result};
use crate::query::Query;

/// The point that is, factor by factor, the most specific one of the points of a query: the part that lies farthest from the origin,
/// the first of equally far ones.
///
/// On a product of hyperboloids whose factors stand for concepts this is "dog AND car": what PHyCLIP embeds of both together is far from
/// the origin in the factors of either, as the element-wise maximum of a Boolean algebra (Sec. 4.3). A space of one factor has the most
/// specific point itself as the answer.
///
/// # Errors
/// No point at all, or those of a search: points that are not whole, not finite or not on their space.
pub fn conjunction(points: &Query<'_>) -> Result<Vec<f32>> {
    let spec = points.spec();
    let whole = space::<f32>(spec)?;
    let mut points = points.checked(whole.as_ref())?;
    let Some(mut composed) = points.next().map(<[f32]>::to_vec) else {
        return Err(Error::invalid("a query to compose", "no point", "at least one"));
    };
    let part = factor(spec)?;
    for point in points {
        for (most, other) in composed.chunks_exact_mut(spec.factor_dim()).zip(point.chunks_exact(spec.factor_dim())) {
            if part.depth(other, &Root::Origin) > part.depth(most, &Root::Origin) {
                most.copy_from_slice(other);
            }
        }
    }
    Ok(composed)
}

/// A space in which depths order as in each factor: curvature changes the unit, not the order.
fn factor(spec: &ManifoldSpec) -> Result<Box<dyn conifer_space::Space<f32>>> {
    Ok(space(&ManifoldSpec::euclidean(spec.factor_dim()))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_farthest_part_of_every_factor() {
        let spec = ManifoldSpec::product_l1(3, 1, vec![0.1, 1.0, 10.0]);
        let points = [1.0, -2.0, 0.0, -1.0, 3.0, 0.5, 0.0, -3.0, 0.1];
        assert_eq!(conjunction(&Query::new(&spec, &points)).unwrap(), [1.0, 3.0, 0.5]);
        let line = ManifoldSpec::euclidean(1);
        assert_eq!(conjunction(&Query::new(&line, &[1.0, -4.0, 2.0])).unwrap(), [-4.0]);
        let message = conjunction(&Query::new(&spec, &[])).unwrap_err().to_string();
        assert_eq!(message, "search: a query to compose is no point; expected at least one");
    }
}
