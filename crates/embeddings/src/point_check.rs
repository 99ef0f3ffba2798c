//! [`PointCheck`]: the condition that every stored point satisfies.

use conifer_geometry::{ManifoldSpec, Space, safe, space};

use crate::error::{Error, Result};

/// Checks that rows are finite points of one space, not farther out than [`safe::FARTHEST`].
pub(crate) struct PointCheck {
    space: Box<dyn Space<f32>>,
}

impl PointCheck {
    /// # Errors
    /// The spec is invalid.
    pub(crate) fn new(spec: &ManifoldSpec) -> Result<Self> {
        Ok(PointCheck { space: space(spec)? })
    }

    /// Checks one point. For error messages, `name` returns the name of the row and `component` the value of a
    /// component.
    ///
    /// # Errors
    /// A component is not finite; the point is too far out, or farther from the space than [`safe::UNIT_TOLERANCE`].
    pub(crate) fn row(
        &self,
        row: &[f32],
        name: impl Fn() -> String,
        component: impl Fn(usize) -> String,
    ) -> Result<()> {
        let spec = self.space.spec();
        if let Some(at) = row.iter().position(|v| !v.is_finite()) {
            let what = format!("{}, component {at},", name());
            return Err(Error::invalid(what, component(at), "a finite number"));
        }
        let reach = spec.reach(row);
        if reach > safe::FARTHEST {
            let what = format!("{}, `sqrt(c) |x|`,", name());
            return Err(Error::invalid(what, reach, format!("at most {:e}", safe::FARTHEST)));
        }
        let off = self.space.off_manifold(row);
        if f64::from(off) > safe::UNIT_TOLERANCE {
            let expected =
                format!("at most {}; lift or normalise the points before storing them", safe::UNIT_TOLERANCE);
            return Err(Error::invalid(name(), format!("{off} away from the {spec}"), expected));
        }
        Ok(())
    }
}
