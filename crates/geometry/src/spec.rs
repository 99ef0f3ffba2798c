//! [`ManifoldSpec`]: kind, dimension and curvatures of a space, stored with every embedding set.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kind::ManifoldKind;
use crate::safe::{CURVATURES, MAX_DIM};
use crate::slices;
use crate::space::entry;

/// Kind, dimension and curvatures of the space of a set of points. [`crate::space()`] builds its geometry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifoldSpec {
    /// Kind of the space, the name of an entry of [`crate::SPACES`].
    pub kind: ManifoldKind,
    /// Numbers stored per point, summed over all factors.
    pub dim: usize,
    /// Number of factors K; each has `dim / factors` components, stored one factor after the other.
    #[serde(default = "one")]
    pub factors: usize,
    /// Curvature parameters c > 0 (sectional curvature is -c), one per Lorentz factor; empty for flat spaces and the
    /// sphere.
    #[serde(default)]
    pub curv: Vec<f64>,
}

impl ManifoldSpec {
    /// The unit sphere in `dim` coordinates.
    pub fn sphere(dim: usize) -> Self {
        Self::flat(ManifoldKind::Sphere, dim)
    }

    /// Euclidean space of `dim` coordinates.
    pub fn euclidean(dim: usize) -> Self {
        Self::flat(ManifoldKind::Euclidean, dim)
    }

    /// The hyperboloid of curvature `-curv` with `dim` space components.
    pub fn lorentz(dim: usize, curv: f64) -> Self {
        ManifoldSpec { curv: vec![curv], ..Self::flat(ManifoldKind::Lorentz, dim) }
    }

    /// `factors` hyperboloids of `factor_dim` space components each. The distance is the mean of the factor distances.
    pub fn product_l1(factors: usize, factor_dim: usize, curv: Vec<f64>) -> Self {
        Self::product(ManifoldKind::ProductL1, factors, factor_dim, curv)
    }

    /// `factors` hyperboloids of `factor_dim` space components each. The distance is the root mean square of the factor
    /// distances.
    pub fn product_l2(factors: usize, factor_dim: usize, curv: Vec<f64>) -> Self {
        Self::product(ManifoldKind::ProductL2, factors, factor_dim, curv)
    }

    /// Components per factor, `dim / factors`.
    pub fn factor_dim(&self) -> usize {
        self.dim / self.factors.max(1)
    }

    /// Checks every field against the registry entry of `kind`.
    ///
    /// # Errors
    /// The kind is unknown; `dim` is out of range; the kind does not allow `factors`, or `factors` does not divide
    /// `dim`; the number of curvatures is wrong for the kind; a curvature is outside [`CURVATURES`].
    pub fn check(&self) -> Result<()> {
        self.check_size()?;
        let entry = entry(self.kind.name())?;
        let field = |name: &str| format!("manifold `{}`: `{name}`", self.kind);
        if !entry.factored && self.factors != 1 {
            return Err(Error::invalid(field("factors"), self.factors, "1"));
        }
        let wanted = if entry.curved { self.factors } else { 0 };
        if self.curv.len() != wanted {
            let found = format!("a list of {}", self.curv.len());
            let expected = format!("a list of {wanted}, one per curved factor");
            return Err(Error::invalid(field("curv"), found, expected));
        }
        match self.curv.iter().position(|c| !CURVATURES.contains(c)) {
            Some(i) => {
                let what = format!("manifold `{}`: `curv[{i}]`", self.kind);
                let expected = format!("a number from {:e} to {:e}", CURVATURES.start(), CURVATURES.end());
                Err(Error::invalid(what, self.curv[i], expected))
            }
            None => Ok(()),
        }
    }

    /// Checks everything except the curvatures, which a model supplies later. Call it before allocating memory by `dim`
    /// or `factors`.
    ///
    /// # Errors
    /// The kind is unknown, `dim` is outside 1 to [`MAX_DIM`], or `factors` does not divide `dim`.
    pub fn check_size(&self) -> Result<()> {
        entry(self.kind.name())?;
        let field = |name: &str| format!("manifold `{}`: `{name}`", self.kind);
        if !(1..=MAX_DIM).contains(&self.dim) {
            return Err(Error::invalid(field("dim"), self.dim, format!("1 to {MAX_DIM}")));
        }
        if self.factors == 0 || !self.dim.is_multiple_of(self.factors) {
            let expected = format!("a divisor of `dim` = {}", self.dim);
            return Err(Error::invalid(field("factors"), self.factors, expected));
        }
        Ok(())
    }

    /// The largest `sqrt(c) |x|` over the factors of a point (`|x|` in spaces without curvature); infinite if a square
    /// overflows. Points up to [`FARTHEST`](crate::safe::FARTHEST) can be scored.
    pub fn reach(&self, point: &[f32]) -> f32 {
        let of_factor =
            |(i, part): (usize, &[f32])| slices::norm(part) * self.curv.get(i).map_or(1.0, |c| c.sqrt() as f32);
        point.chunks_exact(self.factor_dim()).enumerate().map(of_factor).fold(0.0, f32::max)
    }

    fn flat(kind: ManifoldKind, dim: usize) -> Self {
        ManifoldSpec { kind, dim, factors: 1, curv: Vec::new() }
    }

    fn product(kind: ManifoldKind, factors: usize, factor_dim: usize, curv: Vec<f64>) -> Self {
        ManifoldSpec { factors, curv, ..Self::flat(kind, factors * factor_dim) }
    }
}

/// Formats as `lorentz(dim 64, c 1)` or `product_l1(dim 512 = 64 x 8, c 0.1..1.3)` for messages and reports.
impl std::fmt::Display for ManifoldSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(dim {}", self.kind, self.dim)?;
        if self.factors > 1 {
            write!(f, " = {} x {}", self.factors, self.factor_dim())?;
        }
        let lowest = self.curv.iter().copied().reduce(f64::min);
        let highest = self.curv.iter().copied().reduce(f64::max);
        match (lowest, highest) {
            (Some(low), Some(high)) if low == high => write!(f, ", c {low})"),
            (Some(low), Some(high)) => write!(f, ", c {low}..{high})"),
            _ => write!(f, ")"),
        }
    }
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn invalid_fields_are_reported() {
        let message = |spec: ManifoldSpec| spec.check().unwrap_err().to_string();
        let product = |curv| ManifoldSpec::product_l1(2, 3, curv);
        assert_eq!(
            message(ManifoldSpec::flat("torus".into(), 4)),
            format!("manifold: `kind` is `torus`; expected one of {}", crate::SPACES.names())
        );
        assert_eq!(message(ManifoldSpec::sphere(0)), "manifold `sphere`: `dim` is 0; expected 1 to 65536");
        assert_eq!(
            message(ManifoldSpec { factors: 2, ..ManifoldSpec::lorentz(4, 1.0) }),
            "manifold `lorentz`: `factors` is 2; expected 1"
        );
        assert_eq!(
            message(ManifoldSpec { dim: 7, ..product(vec![1.0, 1.0]) }),
            "manifold `product_l1`: `factors` is 2; expected a divisor of `dim` = 7"
        );
        assert_eq!(
            message(product(vec![1.0])),
            "manifold `product_l1`: `curv` is a list of 1; expected a list of 2, one per curved factor"
        );
        assert_eq!(
            message(product(vec![1.0, -0.5])),
            "manifold `product_l1`: `curv[1]` is -0.5; expected a number from 1e-9 to 1e9"
        );
        for dim in [65_537, 1 << 31, 1 << 62, usize::MAX] {
            let found = message(ManifoldSpec::sphere(dim));
            assert_eq!(found, format!("manifold `sphere`: `dim` is {dim}; expected 1 to 65536"));
            assert!(product(vec![1.0, 1.0]).check().is_ok());
            assert!(message(ManifoldSpec { factors: dim, ..product(vec![]) }).contains("a divisor of `dim` = 6"));
        }
        for curv in [f64::NAN, f64::INFINITY, 0.0, 1e-46, 1e300] {
            assert!(product(vec![1.0, curv]).check().is_err(), "{curv}");
        }
    }

    #[test]
    fn json_round_trip_defaults_and_unknown_fields() {
        let spec = ManifoldSpec::product_l2(2, 4, vec![0.5, 1.5]);
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(text, r#"{"kind":"product_l2","dim":8,"factors":2,"curv":[0.5,1.5]}"#);
        assert_eq!(serde_json::from_str::<ManifoldSpec>(&text).unwrap(), spec);
        let short: ManifoldSpec = serde_json::from_str(r#"{"kind":"sphere","dim":3}"#).unwrap();
        assert_eq!(short, ManifoldSpec::sphere(3));
        let unknown = serde_json::from_str::<ManifoldSpec>(r#"{"kind":"sphere","dim":3,"k":1}"#);
        assert!(unknown.unwrap_err().to_string().contains("unknown field `k`"));
    }

    #[test]
    fn display_is_short() {
        assert_eq!(ManifoldSpec::sphere(3).to_string(), "sphere(dim 3)");
        assert_eq!(ManifoldSpec::lorentz(64, 1.0).to_string(), "lorentz(dim 64, c 1)");
        assert_eq!(ManifoldSpec::product_l1(2, 3, vec![0.1, 2.0]).to_string(), "product_l1(dim 6 = 2 x 3, c 0.1..2)");
    }
}
