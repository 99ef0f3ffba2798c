//! Queries composed of several points.

use conifer_geometry::{ManifoldSpec, Root, space};

use crate::error::{Error, Result};
use crate::query::Query;

/// Returns the conjunction of the points of a query: in each factor, the part that is farthest from the origin, with
/// ties to the first.
///
/// On a product of hyperboloids whose factors represent concepts, the result stands for "dog AND car": PHyCLIP embeds a
/// photo of both far from the origin in the factors of each concept, like the element-wise maximum in a Boolean algebra
/// (Sec. 4.3). In a space with one factor the result is the point farthest from the origin.
///
/// # Errors
/// Fails if there is no point, or if the space has several factors and no [`ScoreForm`](conifer_geometry::ScoreForm).
/// Returns the errors of a search: incomplete points, points that are not finite or not on the space.
pub fn conjunction(points: &Query<'_>) -> Result<Vec<f32>> {
    let spec = points.spec();
    let whole = space::<f32>(spec)?;
    let mut points = points.checked(whole.as_ref())?;
    let Some(mut composed) = points.next().map(<[f32]>::to_vec) else {
        return Err(Error::invalid("a query to compose", "empty", "at least one point"));
    };
    let part = match whole.score_form() {
        // Within a factor, Euclidean norms order points as hyperbolic depths do, so Euclidean space suffices here.
        Some(_) => space::<f32>(&ManifoldSpec::euclidean(spec.factor_dim()))?,
        None if spec.factors == 1 => space(spec)?,
        None => {
            let expected = "a space of one factor, or a product of hyperboloids";
            return Err(Error::invalid("the space of a conjunction", spec, expected));
        }
    };
    for point in points {
        for (most, other) in composed.chunks_exact_mut(spec.factor_dim()).zip(point.chunks_exact(spec.factor_dim())) {
            if part.depth(other, &Root::Origin) > part.depth(most, &Root::Origin) {
                most.copy_from_slice(other);
            }
        }
    }
    Ok(composed)
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
        assert_eq!(message, "search: a query to compose is empty; expected at least one point");
    }
}
