//! Computes the depth of points in each factor of a product space.
//!
//! In PHyCLIP each factor should represent the hierarchy of one concept. The depth of a point in a factor is its
//! distance from the root of the factor. It measures how specific the point is in that concept. A space that is not a
//! product has no factors here.

use std::borrow::Cow;

use conifer_geometry::{ManifoldSpec, Root, Space, space};
use rayon::prelude::*;

/// Depth of some points in a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactorDepth {
    /// Curvature parameter c > 0 of the factor; its curvature is -c.
    pub curv: f64,
    /// Mean depth; zero without points.
    pub mean: f64,
    /// Maximum depth; zero without points.
    pub max: f64,
}

/// The factors of a product space.
pub struct ProductFactors {
    spaces: Vec<Box<dyn Space<f32>>>,
    roots: Vec<Root>,
    curvs: Vec<f64>,
    width: usize,
}

impl ProductFactors {
    /// The factors of a space; none if it is not a product.
    ///
    /// # Errors
    /// The space is not valid.
    pub fn new(spec: &ManifoldSpec, root: &Root) -> conifer_geometry::Result<Self> {
        let width = spec.factor_dim();
        let factored = conifer_geometry::entry(spec.kind.name())?.factored;
        let curvs = if factored { spec.curv.as_slice() } else { &[] };
        let spaces = curvs.iter().map(|curv| space(&ManifoldSpec::lorentz(width, *curv))).collect::<Result<_, _>>()?;
        let root_of = |factor: usize| match root {
            Root::Origin => Root::Origin,
            Root::Point(point) => Root::Point(point[factor * width..(factor + 1) * width].to_vec()),
        };
        Ok(ProductFactors { spaces, roots: (0..curvs.len()).map(root_of).collect(), curvs: curvs.to_vec(), width })
    }

    /// Number of factors.
    pub fn count(&self) -> usize {
        self.spaces.len()
    }

    /// Depth of a point in one factor. `factor` must be below [`ProductFactors::count`].
    pub fn depth(&self, factor: usize, point: &[f32]) -> f32 {
        let part = &point[factor * self.width..(factor + 1) * self.width];
        self.spaces[factor].depth(part, &self.roots[factor])
    }

    /// Depth of a point in every factor.
    pub fn depths(&self, point: &[f32]) -> Vec<f32> {
        (0..self.count()).map(|factor| self.depth(factor, point)).collect()
    }

    /// Mean and largest depth of `len` points in every factor. `row` returns the coordinates of a point.
    pub fn summary<'a>(&self, len: usize, row: impl Fn(usize) -> Cow<'a, [f32]> + Sync) -> Vec<FactorDepth> {
        let of = |factor: usize| {
            let (mut sum, mut max) = (0.0, 0.0_f64);
            for i in 0..len {
                let depth = f64::from(self.depth(factor, &row(i)));
                sum += depth;
                max = max.max(depth);
            }
            let mean = if len == 0 { 0.0 } else { sum / len as f64 };
            FactorDepth { curv: self.curvs[factor], mean, max }
        };
        (0..self.count()).into_par_iter().map(of).collect()
    }

    /// The `k` deepest rows in a factor among those that `passes` accepts, with their depth. The order is by descending
    /// depth, then by ascending row number. `factor` must be below [`ProductFactors::count`].
    pub fn top<'a>(
        &self,
        len: usize,
        row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
        factor: usize,
        k: usize,
        passes: impl Fn(usize) -> bool + Sync,
    ) -> Vec<(usize, f32)> {
        let rows = (0..len).into_par_iter().filter(|i| passes(*i));
        let mut found: Vec<(usize, f32)> = rows.map(|i| (i, self.depth(factor, &row(i)))).collect();
        let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if (1..found.len()).contains(&k) {
            found.select_nth_unstable_by(k, order);
        }
        found.truncate(k);
        found.sort_unstable_by(order);
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const POINTS: [f32; 12] = [3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 1.5, 2.0, -3.0, -4.0, 0.3, 0.4];

    fn row(i: usize) -> Cow<'static, [f32]> {
        Cow::Borrowed(&POINTS[4 * i..4 * i + 4])
    }

    fn factors() -> ProductFactors {
        ProductFactors::new(&ManifoldSpec::product_l1(2, 2, vec![1.0, 4.0]), &Root::Origin).unwrap()
    }

    /// `asinh(sqrt(c) |x|) / sqrt(c)`: asinh(5) in the first factor, asinh(2 * 2.5) / 2 in the second.
    #[test]
    fn depth_is_computed_per_factor() {
        let factors = factors();
        let five = 5.0_f32.asinh();
        let close = |a: f32, b: f32| (a - b).abs() < 1e-5;
        let first = factors.depths(&row(0));
        assert!(close(first[0], five) && first[1] == 0.0, "{first:?}");
        let second = factors.depths(&row(1));
        assert!(second[0] == 0.0 && close(second[1], five / 2.0), "{second:?}");
        let summary = factors.summary(3, row);
        assert_eq!((summary[0].curv, summary[1].curv), (1.0, 4.0));
        assert!((summary[0].mean - 2.0 * f64::from(five) / 3.0).abs() < 1e-5);
        assert!((summary[1].max - f64::from(five) / 2.0).abs() < 1e-5);
    }

    #[test]
    fn product_depth_is_the_mean_of_the_factor_depths() {
        let spec = ManifoldSpec::product_l1(2, 2, vec![0.5, 2.0]);
        let root = Root::Point(vec![0.2, -0.1, 0.4, 0.3]);
        let point = [1.0_f32, 0.5, -0.7, 0.2];
        let depths = ProductFactors::new(&spec, &root).unwrap().depths(&point);
        let whole = space::<f32>(&spec).unwrap().depth(&point, &root);
        assert!(((depths[0] + depths[1]) / 2.0 - whole).abs() < 1e-5);
    }

    #[test]
    fn top_sorts_by_depth_then_row() {
        let factors = factors();
        let rows = |k, passes: fn(usize) -> bool| -> Vec<usize> {
            factors.top(3, row, 0, k, passes).into_iter().map(|(row, _)| row).collect()
        };
        assert_eq!(rows(10, |_| true), [0, 2, 1]);
        assert_eq!(rows(1, |_| true), [0]);
        assert_eq!(rows(2, |row| row != 0), [2, 1]);
        assert_eq!(rows(0, |_| true), [0; 0]);
    }

    #[test]
    fn other_spaces_have_no_factors() {
        for spec in [ManifoldSpec::lorentz(4, 1.0), ManifoldSpec::sphere(4), ManifoldSpec::euclidean(4)] {
            assert_eq!(ProductFactors::new(&spec, &Root::Origin).unwrap().count(), 0);
        }
    }
}
