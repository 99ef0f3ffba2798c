//! Export of embeddings as vectors for engines that rank by Euclidean distance only.
//!
//! For a point `x` of the hyperboloid with curvature `-c`, the vector is `[sqrt(c) t(x), sqrt(c) x, sqrt(M - s)]`,
//! where `s` is the squared length of the other components and `M` is the same for all rows. For a query `q` it is
//! `[-sqrt(c) t(q), sqrt(c) q, 0]`. Their squared distance is
//!
//! `M + |query vector|^2 + 2 cosh(sqrt(c) d(q, x))`,
//!
//! which grows with the distance `d`. So Euclidean neighbours are the hyperbolic neighbours. For a product, the factors
//! are concatenated before the single last component, and the engine ranks by the sum of `cosh(sqrt(c_i) d_i)`. That is
//! close to the order of the distance but not equal to it, so the client must re-rank the best few hundred results
//! ([`Augmented::point`], [`conifer_geometry::Space::dist`]). On the sphere and in flat space the vector is the point.
//!
//! Engines calculate in `f32`, which cannot distinguish near neighbours far from the origin: for two neighbours at
//! `sqrt(c) d = 5` from it, `cosh(sqrt(c) d(q, x))`, about 1, is the difference of two terms of about 5,500.
//! Therefore re-rank the results for rows far from the origin of a single hyperboloid, too.

use conifer_geometry::{ManifoldSpec, space};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Converts points of one space to vectors, see [`crate::export`].
#[derive(Clone, Debug, PartialEq)]
pub struct Augmented {
    spec: ManifoldSpec,
    bound: f64,
}

impl Augmented {
    /// Creates a converter for points whose distance from the origin is at most `radius` in every factor.
    ///
    /// # Errors
    /// Fails if the spec is invalid or its space has no [`ScoreForm`](conifer_geometry::ScoreForm), or if the radius is
    /// not positive or so large that the vectors overflow `f32`.
    pub fn within(spec: &ManifoldSpec, radius: f64) -> Result<Self> {
        let squares = spec.curv.iter().map(|c| (2.0 * c.sqrt() * radius).cosh());
        let bound = squares.sum::<f64>();
        if !(radius > 0.0 && bound <= f64::from(f32::MAX)) {
            return Err(Error::invalid("the radius of an export", radius, "a positive distance up to about 40"));
        }
        Self::bounded(spec, bound)
    }

    /// Creates a converter for these points `[N, dim]` and for others whose vectors are at most a tenth longer than the
    /// longest of them.
    ///
    /// # Errors
    /// Fails if the spec is invalid or its space has no [`ScoreForm`](conifer_geometry::ScoreForm), or if a point is so
    /// far from the origin that its vector overflows `f32`.
    pub fn around<'a>(spec: &ManifoldSpec, points: impl Iterator<Item = std::borrow::Cow<'a, [f32]>>) -> Result<Self> {
        let plain = Self::bounded(spec, 0.0)?;
        let mut vector = Vec::new();
        let mut longest = spec.factors as f64;
        for point in points {
            plain.scaled(&point, 1.0, &mut vector);
            longest = longest.max(vector.iter().map(|v| v * v).sum());
        }
        if longest > f64::from(f32::MAX) / 2.0 {
            return Err(Error::invalid("the squared length of a vector", longest, "one that f32 can hold"));
        }
        Self::bounded(spec, 1.21 * longest)
    }

    fn bounded(spec: &ManifoldSpec, bound: f64) -> Result<Self> {
        if space::<f32>(spec)?.score_form().is_none() {
            let expected = "the sphere, flat space, a hyperboloid or a product of hyperboloids";
            return Err(Error::invalid("the space of an export", spec, expected));
        }
        Ok(Augmented { spec: spec.clone(), bound })
    }

    /// Number of components of a vector.
    pub fn dim(&self) -> usize {
        if self.is_plain() { self.spec.dim } else { self.spec.dim + self.spec.factors + 1 }
    }

    /// The bound `M`; it has no meaning if the vectors are the points.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// True if the Euclidean distances have the same order as the distances of the space, up to rounding.
    pub fn is_exact(&self) -> bool {
        self.spec.factors == 1
    }

    /// Returns the vector of a row.
    ///
    /// # Errors
    /// Fails if the row is farther from the origin than the bound allows.
    pub fn row(&self, point: &[f32]) -> Result<Vec<f32>> {
        let vector = self.wide_row(point)?;
        Ok(vector.into_iter().map(|v| v as f32).collect())
    }

    /// Returns the vector of a query.
    pub fn query(&self, point: &[f32]) -> Vec<f32> {
        self.wide_query(point).into_iter().map(|v| v as f32).collect()
    }

    /// Returns the point whose vector [`Augmented::row`] returned, up to rounding.
    pub fn point(&self, vector: &[f32]) -> Vec<f32> {
        if self.is_plain() {
            return vector.to_vec();
        }
        let factors = vector.chunks_exact(self.spec.factor_dim() + 1).zip(&self.spec.curv);
        factors.flat_map(|(part, c)| part[1..].iter().map(move |v| (f64::from(*v) / c.sqrt()) as f32)).collect()
    }

    /// The sum over factors of `cosh(sqrt(c) d)`, from the squared Euclidean distance between the vectors of a row and
    /// a query.
    pub fn cosh(&self, query: &[f32], square: f64) -> f64 {
        let length: f64 = query.iter().map(|v| f64::from(*v).powi(2)).sum();
        (square - self.bound - length) / 2.0
    }

    /// Describes the vectors in JSON, for the clients of an export.
    pub fn describe(&self) -> Value {
        let (row, query) = if self.is_plain() {
            ("x", "q")
        } else {
            (
                "[sqrt(c) t(x), sqrt(c) x] of every factor, then sqrt(bound - their squares)",
                "[-sqrt(c) t(q), sqrt(c) q] of every factor, then 0",
            )
        };
        let mut description = json!({
            "metric": "euclidean", "dim": self.dim(), "vector": row, "query": query, "exact_order": self.is_exact(),
            "spec": self.spec,
        });
        if !self.is_plain() {
            description["bound"] = json!(self.bound);
            description["sum_of_cosh"] =
                json!("(squared distance - bound - |query|^2) / 2 = sum over factors of cosh(sqrt(c) d)");
        }
        description
    }

    /// True if the vectors are the points.
    fn is_plain(&self) -> bool {
        self.spec.curv.is_empty()
    }

    fn wide_row(&self, point: &[f32]) -> Result<Vec<f64>> {
        let mut vector = Vec::with_capacity(self.dim());
        self.scaled(point, 1.0, &mut vector);
        if !self.is_plain() {
            let rest = self.bound - vector.iter().map(|v| v * v).sum::<f64>();
            if rest < 0.0 || rest.is_nan() {
                let found = format!("{}", self.bound - rest);
                return Err(Error::invalid(
                    "the squared length of a row's vector",
                    found,
                    format!("at most {}", self.bound),
                ));
            }
            vector.push(rest.sqrt());
        }
        Ok(vector)
    }

    fn wide_query(&self, point: &[f32]) -> Vec<f64> {
        let mut vector = Vec::with_capacity(self.dim());
        self.scaled(point, -1.0, &mut vector);
        if !self.is_plain() {
            vector.push(0.0);
        }
        vector
    }

    /// `[sign sqrt(c) t(x), sqrt(c) x]`, factor after factor.
    fn scaled(&self, point: &[f32], sign: f64, out: &mut Vec<f64>) {
        out.clear();
        if self.is_plain() {
            out.extend(point.iter().map(|v| f64::from(*v)));
            return;
        }
        for (part, c) in point.chunks_exact(self.spec.factor_dim()).zip(&self.spec.curv) {
            let space = part.iter().map(|v| c.sqrt() * f64::from(*v));
            out.push(sign * (1.0 + space.clone().map(|v| v * v).sum::<f64>()).sqrt());
            out.extend(space);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use conifer_geometry::{Root, space};

    use super::*;
    use crate::Ranking;
    use crate::testing::{cloud, naive, random_points};

    fn square(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
    }

    /// Indices in the order of `values`, ties by index.
    fn order(values: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
        order
    }

    /// Without the rounding of the engine, the Euclidean order equals the order of the distances in f64. The distances
    /// of random points differ by more than the rounding of f64 (1e-12 at cosh 100).
    #[test]
    fn euclidean_order_is_that_of_the_space() {
        for spec in [
            ManifoldSpec::lorentz(6, 0.3),
            ManifoldSpec::lorentz(40, 2.0),
            ManifoldSpec::sphere(8),
            ManifoldSpec::euclidean(5),
        ] {
            let (rows, queries) = (random_points(&spec, 400, 1), random_points(&spec, 5, 2));
            let vectors = Augmented::around(&spec, rows.chunks_exact(spec.dim).map(Into::into)).unwrap();
            let oracle = space::<f64>(&spec).unwrap();
            let wide = |x: &[f32]| x.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
            for query in queries.chunks_exact(spec.dim) {
                let at = vectors.wide_query(query);
                let points = || rows.chunks_exact(spec.dim);
                let squares: Vec<f64> = points().map(|x| square(&at, &vectors.wide_row(x).unwrap())).collect();
                let distances: Vec<f64> = points().map(|x| oracle.dist(&wide(query), &wide(x))).collect();
                assert_eq!(order(&squares), order(&distances), "{spec}");
                if let [c] = spec.curv[..] {
                    for (square, distance) in squares.iter().zip(&distances) {
                        let expected = (c.sqrt() * distance).cosh();
                        let found = vectors.cosh(&vectors.query(query), *square);
                        assert!((found - expected).abs() < 1e-5 * expected, "{spec}: {found}, {expected}");
                    }
                }
            }
        }
    }

    /// Vectors and distances are in f32 as in an engine, and the best hundred of 2,000 rows are re-ranked by the points
    /// recovered from the vectors. On a hyperboloid the ten best rows are exact. For products, whose surrogate is not
    /// the distance, at least nine of ten are found on average.
    #[test]
    fn ten_best_after_reranking() {
        let products = [ManifoldSpec::product_l1(8, 4, vec![1.0; 8]), ManifoldSpec::product_l2(8, 4, vec![0.7; 8])];
        for spec in products.into_iter().chain([ManifoldSpec::lorentz(16, 1.0)]) {
            let (rows, queries) = (random_points(&spec, 2000, 3), random_points(&spec, 20, 4));
            let vectors = Augmented::around(&spec, rows.chunks_exact(spec.dim).map(Into::into)).unwrap();
            let stored: Vec<Vec<f32>> = rows.chunks_exact(spec.dim).map(|x| vectors.row(x).unwrap()).collect();
            assert!(stored.iter().all(|it| it.len() == vectors.dim()));
            let metric = space::<f32>(&spec).unwrap();
            let expected = naive(&spec, &Root::Origin, &rows, &queries, Ranking::Distance, 10);
            let mut shared = 0;
            for (query, expected) in queries.chunks_exact(spec.dim).zip(expected) {
                let at = vectors.query(query);
                let far = |x: &Vec<f32>| f64::from(x.iter().zip(&at).map(|(a, b)| (a - b) * (a - b)).sum::<f32>());
                let mut best = order(&stored.iter().map(far).collect::<Vec<f64>>());
                best.truncate(100);
                let exact: Vec<f64> =
                    best.iter().map(|i| f64::from(metric.dist(query, &vectors.point(&stored[*i])))).collect();
                let found: Vec<usize> = order(&exact).into_iter().take(10).map(|i| best[i]).collect();
                let expected: Vec<usize> = expected.iter().map(|hit| hit.row).collect();
                assert!(!vectors.is_exact() || found == expected, "{spec}: {found:?}, {expected:?}");
                shared += found.iter().filter(|row| expected.contains(row)).count();
            }
            assert!(shared >= 180, "{spec}: {shared} of 200");
        }
    }

    #[test]
    fn rows_beyond_the_radius_are_rejected() {
        let spec = ManifoldSpec::lorentz(3, 1.0);
        let vectors = Augmented::within(&spec, 2.0).unwrap();
        // |x| = sinh(d).
        assert_eq!(vectors.row(&[1.99_f32.sinh(), 0.0, 0.0]).unwrap().len(), 5);
        let error = vectors.row(&[2.01_f32.sinh(), 0.0, 0.0]).unwrap_err().to_string();
        assert!(error.contains("squared length of a row's vector"), "{error}");
        assert!(Augmented::within(&spec, f64::NAN).is_err() && Augmented::within(&spec, 60.0).is_err());
        let edge = ManifoldSpec::lorentz(3, 1.0);
        let points = cloud(&edge, 10, 1);
        let vectors = Augmented::around(&edge, points.chunks_exact(3).map(Into::into)).unwrap();
        for point in points.chunks_exact(3) {
            let again = vectors.point(&vectors.row(point).unwrap());
            assert!(again.iter().zip(point).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()), "{again:?}, {point:?}");
        }
    }
}
