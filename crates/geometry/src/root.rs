//! [`Root`]: the reference point of depths and cones.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::real::Real;
use crate::safe::FARTHEST;
use crate::spec::ManifoldSpec;

/// The reference point of depths and cones. It is plain data, so a config or manifest can contain it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// The origin (MERU, HyCoCLIP, PHyCLIP).
    #[default]
    Origin,
    /// A fixed point of the space, given by its `dim` components, for example the embedding of the empty text (Radial
    /// Embeddings) or of "Eukarya" (RCME).
    Point(Vec<f64>),
}

impl Root {
    /// Checks the length, the components and the norm of a root point. It need not lie on the sphere.
    ///
    /// # Errors
    /// The point has the wrong length or a non-finite component, or it is farther out than [`FARTHEST`]: depths and
    /// angles measured from there would not be finite.
    pub fn check(&self, spec: &ManifoldSpec) -> Result<()> {
        let Root::Point(point) = self else {
            return Ok(());
        };
        if point.len() != spec.dim {
            let found = format!("a point of {} numbers", point.len());
            return Err(Error::invalid("root", found, format!("{} numbers", spec.dim)));
        }
        if let Some(i) = point.iter().position(|v| !v.is_finite()) {
            return Err(Error::invalid(format!("root[{i}]"), point[i], "a finite number"));
        }
        let scale = |factor: usize| spec.curv.get(factor).map_or(1.0, |c| c.sqrt());
        let norm = |part: &[f64]| part.iter().fold(0.0, |norm: f64, v| norm.hypot(*v));
        let factors = point.chunks(spec.factor_dim().max(1)).enumerate();
        let reach = factors.map(|(i, part)| scale(i) * norm(part)).fold(0.0, f64::max);
        match reach <= f64::from(FARTHEST) {
            true => Ok(()),
            false => Err(Error::invalid("root: `sqrt(c) |x|`", format!("{reach:e}"), format!("at most {FARTHEST:e}"))),
        }
    }

    pub(crate) fn view(&self) -> RootView<'_> {
        match self {
            Root::Origin => RootView::Origin,
            Root::Point(point) => RootView::Point(point),
        }
    }
}

/// A borrowed root, or its components in one factor.
#[derive(Clone, Copy)]
pub(crate) enum RootView<'a> {
    Origin,
    Point(&'a [f64]),
}

impl RootView<'_> {
    pub(crate) fn at<T: Real>(&self, i: usize) -> T {
        match self {
            RootView::Origin => T::ZERO,
            RootView::Point(point) => T::from_f64(point[i]),
        }
    }

    /// The root in one factor, whose components are at `range`.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            RootView::Origin => RootView::Origin,
            RootView::Point(point) => RootView::Point(&point[range]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn root_is_checked_and_serialised_as_data() {
        let spec = ManifoldSpec::euclidean(2);
        let short = Root::Point(vec![1.0]).check(&spec).unwrap_err();
        assert_eq!(short.to_string(), "root is a point of 1 numbers; expected 2 numbers");
        let nan = Root::Point(vec![1.0, f64::NAN]).check(&spec).unwrap_err();
        assert_eq!(nan.to_string(), "root[1] is NaN; expected a finite number");
        let far = |point: [f64; 2], spec: &ManifoldSpec| Root::Point(point.to_vec()).check(spec);
        let beyond = far([1e39, 0.0], &spec).unwrap_err().to_string();
        assert_eq!(beyond, "root: `sqrt(c) |x|` is 1e39; expected at most 1e9");
        assert!(far([1e300, 1e300], &spec).is_err() && far([8e8, 8e8], &spec).is_err());
        far([7e8, 7e8], &spec).unwrap();
        let product = ManifoldSpec::product_l1(2, 1, vec![1.0, 4.0]);
        far([9e8, 4e8], &product).unwrap();
        assert!(far([4e8, 9e8], &product).is_err());
        for (root, json) in [(Root::Origin, r#""origin""#), (Root::Point(vec![0.5, -1.0]), r#"{"point":[0.5,-1.0]}"#)] {
            root.check(&spec).unwrap();
            assert_eq!(serde_json::to_string(&root).unwrap(), json);
            assert_eq!(serde_json::from_str::<Root>(json).unwrap(), root);
        }
    }
}
