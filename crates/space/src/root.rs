//! The apex of the cones.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::real::Real;
use crate::spec::ManifoldSpec;

/// The point from which depth is measured and to which every cone opens. A value, so that "which root" is one line
/// of a config or a manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// The origin of the coordinates (MERU, HyCoCLIP, PHyCLIP).
    #[default]
    Origin,
    /// A fixed point of the space by its `dim` components, for example the embedding of the empty text (Radial
    /// Embeddings) or of "Eukarya" (RCME).
    Point(Vec<f64>),
}

impl Root {
    /// Checks that the root is a point of `spec`.
    ///
    /// # Errors
    /// A point of the wrong length, or with a component that is not finite.
    pub fn check(&self, spec: &ManifoldSpec) -> Result<()> {
        let Root::Point(point) = self else {
            return Ok(());
        };
        if point.len() != spec.dim {
            let found = format!("a point of {} numbers", point.len());
            return Err(Error::invalid("root", found, format!("{} numbers", spec.dim)));
        }
        match point.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(Error::invalid(format!("root[{i}]"), point[i], "a finite number")),
            None => Ok(()),
        }
    }

    pub(crate) fn view(&self) -> RootView<'_> {
        match self {
            Root::Origin => RootView::Origin,
            Root::Point(point) => RootView::Point(point),
        }
    }
}

/// A root, or the part of it that lies in one factor, by reference.
#[derive(Clone, Copy)]
pub(crate) enum RootView<'a> {
    Origin,
    Point(&'a [f64]),
}

impl RootView<'_> {
    /// Component `i` of the root.
    pub(crate) fn at<T: Real>(&self, i: usize) -> T {
        match self {
            RootView::Origin => T::ZERO,
            RootView::Point(point) => T::from_f64(point[i]),
        }
    }

    /// The part in the factor that owns components `range`.
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
        for (root, json) in [(Root::Origin, r#""origin""#), (Root::Point(vec![0.5, -1.0]), r#"{"point":[0.5,-1.0]}"#)] {
            root.check(&spec).unwrap();
            assert_eq!(serde_json::to_string(&root).unwrap(), json);
            assert_eq!(serde_json::from_str::<Root>(json).unwrap(), root);
        }
    }
}
