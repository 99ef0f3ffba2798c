//! Lower bounds of the scores of a cell's rows, from the centre and the radius of the cell.
//!
//! All arithmetic is in `f64`. The error bound of every rounded number is subtracted, so that a lower bound is never
//! above the score that [`Space<f32>`] computes for a row of the cell.

use std::f64::consts::PI;
use std::ops::Range;

use conifer_geometry::safe::{EPS_F64, TINY_F32, acosh_1p, bounds};
use conifer_geometry::slices::{dot, norm, sums};
use conifer_geometry::spaces::lorentz::time_excess;
use conifer_geometry::{FactorNorm, ManifoldSpec, Root, ScoreForm, Space, space};
use rayon::prelude::*;

use super::fast_bounds::{CellExtent, FactorExtent, FastBounds};
use crate::error::Result;
use crate::kernel::dot_error;
use crate::query::{Direction, Gate, Ranking};
use crate::scan::errors;
use crate::table::SearchTable;

/// The centres and radii of all cells.
pub(super) struct TightBounds {
    form: ScoreForm,
    spec: ManifoldSpec,
    /// One space per factor.
    factors: Vec<Box<dyn Space<f64>>>,
    /// The root, split into factors.
    roots: Vec<Root>,
    root: Vec<f64>,
    /// `[cells, dim]`.
    centres: Vec<f64>,
    /// `[cells, factors]`: upper bound on the distance from the centre to a row; on the sphere the length of the chord.
    radii: Vec<f64>,
    /// `[cells, factors]`: distance from the root to the centre.
    reach: Vec<Interval>,
    /// `[cells, factors]`, hyperboloids only: the largest angle at the origin between the centre and a row, and the
    /// range of the distances of the rows from the origin.
    sectors: Vec<Sector>,
    /// `[cells]`: the smallest depth of a row.
    shallow: Vec<f32>,
    /// `[cells]`: upper bound on the distance from the centre to a row, over all factors.
    whole: Vec<f64>,
    root_norms: Vec<PointNorms>,
    norms: Vec<PointNorms>,
}

/// An interval that contains a distance or an angle.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: f64,
    high: f64,
}

/// The distance and the angle between two points in one factor.
#[derive(Clone, Copy)]
struct PairGeometry {
    dist: Interval,
    /// The angle between them at the origin of a hyperboloid; [0, pi] elsewhere, and if one of them is the origin.
    apart: Interval,
}

/// A region of a hyperboloid in polar coordinates around the origin; lengths at curvature -1.
#[derive(Clone, Copy)]
struct Sector {
    angle: f64,
    reach: Interval,
}

/// `sqrt(c) t - 1` and `|x|` on a hyperboloid; the squared norm and the norm elsewhere.
#[derive(Clone, Copy)]
pub(super) struct PointNorms {
    pub(super) excess: f64,
    pub(super) norm: f64,
}

/// Bounds of one cell for one query point.
#[derive(Clone, Copy)]
pub(super) struct CellBound {
    /// Sort key of the visiting order, ascending: it increases with the distance, or the exterior angle, between the
    /// query and the centre of the cell. For a ranking by depth it is the smallest depth in the cell.
    pub(super) order: f64,
    /// Lower bound on the rows' scores, on the scale of a distance, an angle, a depth or a negated inner product.
    pub(super) lower_bound: f64,
    /// Lower bound on the value that the gate limits.
    pub(super) gate: Option<f64>,
}

impl CellBound {
    /// True if some row may pass the gate.
    pub(super) fn passes(&self, ranking: Ranking) -> bool {
        let limit = ranking.gate().map(|gate| f64::from(gate.limit()));
        self.gate.zip(limit).is_none_or(|(lower_bound, limit)| lower_bound <= limit)
    }
}

impl TightBounds {
    pub(super) fn new(table: &SearchTable, form: ScoreForm, centres: &[f32], cells: &[Range<usize>]) -> Result<Self> {
        let spec = table.spec.clone();
        let (dim, count) = (spec.factor_dim(), spec.factors);
        let factor = |i: usize| match spec.curv.get(i) {
            Some(curv) => space::<f64>(&ManifoldSpec::lorentz(dim, *curv)),
            None => space::<f64>(&ManifoldSpec::euclidean(dim)),
        };
        let root: Vec<f64> = match &table.root {
            Root::Origin => vec![0.0; spec.dim],
            Root::Point(point) => point.iter().map(|v| f64::from(*v as f32)).collect(),
        };
        let roots = match &table.root {
            Root::Origin => vec![Root::Origin; count],
            // The root is rounded to `f32` as in the exact scores, because close to the root the rounding changes
            // directions.
            Root::Point(_) => root.chunks_exact(dim).map(|part| Root::Point(part.to_vec())).collect(),
        };
        let mut tight = TightBounds {
            factors: (0..count).map(factor).collect::<conifer_geometry::Result<_>>()?,
            roots,
            centres: centres.iter().map(|v| f64::from(*v)).collect(),
            radii: Vec::new(),
            sectors: Vec::new(),
            reach: Vec::new(),
            whole: Vec::new(),
            shallow: Vec::new(),
            root_norms: Vec::new(),
            norms: Vec::new(),
            root,
            form,
            spec,
        };
        tight.root_norms = tight.norms_of(&tight.root);
        tight.norms = tight.centres.chunks_exact(tight.spec.dim).flat_map(|centre| tight.norms_of(centre)).collect();
        let norms = |cell: usize| &tight.norms[cell * count..(cell + 1) * count];
        tight.reach = (0..cells.len())
            .flat_map(|cell| (0..count).map(move |i| (cell, i)))
            .map(|(cell, i)| {
                tight.between(i, &tight.root, tight.root_norms[i], tight.centre(cell), norms(cell)[i]).dist
            })
            .collect();
        let measured: Vec<(Vec<f64>, Vec<Sector>, f64, f32)> = cells
            .par_iter()
            .enumerate()
            .map(|(cell, rows)| {
                let mut radii = vec![0.0_f64; count];
                let nowhere = Sector { angle: 0.0, reach: Interval { low: f64::INFINITY, high: 0.0 } };
                let mut sectors = vec![nowhere; count];
                let (mut whole, mut shallow) = (0.0_f64, f32::INFINITY);
                for row in rows.clone() {
                    let point = table.row(row);
                    let wide: Vec<f64> = point.iter().map(|v| f64::from(*v)).collect();
                    let at = tight.norms_of(&wide);
                    let pairs: Vec<PairGeometry> = (0..count)
                        .map(|i| tight.between(i, tight.centre(cell), norms(cell)[i], &wide, at[i]))
                        .collect();
                    radii.iter_mut().zip(&pairs).for_each(|(most, pair)| *most = most.max(pair.dist.high));
                    for (i, sector) in sectors.iter_mut().enumerate() {
                        let far = tight.rapidity(i, at[i]);
                        sector.angle = sector.angle.max(pairs[i].apart.high);
                        sector.reach =
                            Interval { low: sector.reach.low.min(far.low), high: sector.reach.high.max(far.high) };
                    }
                    whole = whole.max(tight.joined(pairs.iter().map(|pair| pair.dist.high)));
                    shallow = shallow.min(table.space.depth(&point, &table.root));
                }
                (radii, sectors, whole, shallow)
            })
            .collect();
        for (radii, sectors, whole, shallow) in measured {
            tight.radii.extend(radii);
            tight.sectors.extend(sectors);
            tight.whole.push(whole);
            tight.shallow.push(shallow);
        }
        Ok(tight)
    }

    /// Computes the values of a query point that all cells share.
    pub(super) fn query_point(&self, point: &[f32]) -> TightQuery {
        let wide: Vec<f64> = point.iter().map(|v| f64::from(*v)).collect();
        let norms = self.norms_of(&wide);
        let depths =
            (0..self.spec.factors).map(|i| self.between(i, &self.root, self.root_norms[i], &wide, norms[i]).dist);
        TightQuery { depths: depths.collect(), point: wide, norms }
    }

    pub(super) fn cell_bound(&self, query_point: &TightQuery, cell: usize, ranking: Ranking) -> CellBound {
        let pairs: Vec<PairGeometry> = (0..self.spec.factors)
            .map(|i| {
                let at = cell * self.spec.factors + i;
                self.between(i, &query_point.point, query_point.norms[i], self.centre(cell), self.norms[at])
            })
            .collect();
        let at_centre = || self.joined(pairs.iter().map(|pair| pair.dist.low));
        let (order, lower_bound) = match ranking {
            Ranking::Distance => (at_centre(), self.distance(query_point, cell, &pairs)),
            Ranking::Similarity | Ranking::Gated(_) if self.form != ScoreForm::UnitVectors => {
                (at_centre(), self.distance(query_point, cell, &pairs))
            }
            Ranking::Similarity | Ranking::Gated(_) | Ranking::Inner => {
                (at_centre(), self.inner(query_point, cell, &pairs))
            }
            Ranking::Angle(direction) => (
                self.angle_at_centre(query_point, cell, &pairs, direction),
                self.angle(query_point, cell, &pairs, direction),
            ),
            Ranking::Depth(_) => (f64::from(self.shallow[cell]), f64::from(self.shallow[cell])),
        };
        let gate = ranking.gate().map(|gate| match gate {
            Gate::Angle(direction, _) => self.angle(query_point, cell, &pairs, direction),
            Gate::Distance(_) => self.distance(query_point, cell, &pairs),
        });
        CellBound { order, lower_bound, gate }
    }

    /// Faster bounds for hyperboloids and their products; `None` for other spaces.
    pub(super) fn fast(&self, centres: &[f32]) -> Option<FastBounds> {
        let ScoreForm::Hyperboloids(norm) = self.form else { return None };
        let factor_extents = (0..self.norms.len()).map(|i| FactorExtent {
            norm: self.norms[i].norm,
            radius: self.radii[i],
            angle: self.sectors[i].angle,
            reach: (self.sectors[i].reach.low, self.sectors[i].reach.high),
        });
        let extent = |(radius, shallow): (&f64, &f32)| CellExtent { radius: *radius, shallow: *shallow };
        let extents = self.whole.iter().zip(&self.shallow).map(extent).collect();
        Some(FastBounds::new(
            &self.spec,
            norm,
            self.roots.iter().all(|root| *root == Root::Origin),
            centres,
            factor_extents,
            extents,
        ))
    }

    /// Lower bound on the distance from the query q to any row y: `d(q, y) >= d(q, m) - r`, with the centre m and the
    /// radius r of the cell, in the whole space and in every factor.
    fn distance(&self, query_point: &TightQuery, cell: usize, pairs: &[PairGeometry]) -> f64 {
        if self.form == ScoreForm::UnitVectors {
            // The arc is 2 atan2(|q - y|, |q + y|). Rows may lie off the sphere within the tolerance, so only the
            // chords are bounded.
            let radius = self.radii[cell];
            let along = sums(&query_point.point, self.centre(cell), |a, b| [(a + b) * (a + b)])[0].sqrt()
                * (1.0 + bounds::ROUNDED)
                + radius;
            let arc = 2.0 * (pairs[0].dist.low - radius).max(0.0).atan2(along);
            return arc * (1.0 - self.dist_error(query_point, cell)) - bounds::HALF_THE_DIGITS;
        }
        let parts = pairs.iter().enumerate().map(|(i, pair)| self.factor_distance(query_point, cell, i, *pair));
        let whole = self.joined(pairs.iter().map(|pair| pair.dist.low)) - self.whole[cell];
        self.joined(parts).max(whole).max(0.0) * (1.0 - self.dist_error(query_point, cell))
    }

    /// Lower bound on the distance in one factor: the larger of two bounds. One subtracts the radius of the cell from
    /// the distance to the centre, the other uses the sector of the rows.
    ///
    /// Seen from the origin, the rows are at distance `a` and at an angle of at least `theta` to the query, which is at
    /// distance `D`: `cosh d >= cosh D cosh a - sinh D sinh a cos(theta)`. The minimum is at `tanh a = tanh D
    /// cos(theta)`, where `sinh d = sinh D sin(theta)`, or at the nearest end of the range of `a`.
    fn factor_distance(&self, query_point: &TightQuery, cell: usize, i: usize, pair: PairGeometry) -> f64 {
        let at = cell * self.spec.factors + i;
        let by_radius = (pair.dist.low - self.radii[at]).max(0.0);
        let Some(curv) = self.spec.curv.get(i) else { return by_radius };
        let Sector { angle, reach } = self.sectors[at];
        let theta = (pair.apart.low - angle).max(0.0);
        let far = self.rapidity(i, query_point.norms[i]).low;
        let at = |a: f64| {
            // cosh(D - a) + sinh D sinh a (1 - cos theta): the same without cancellation of large numbers.
            let half = (theta / 2.0).sin();
            acosh_1p(2.0 * ((far - a) / 2.0).sinh().powi(2) + 2.0 * far.sinh() * a.sinh() * half * half)
        };
        // Far out every tanh is nearly 1 and cannot show whether the minimiser is within the range. In that case use
        // the minimum over all `a`, which is a valid lower bound.
        let nearest = far.tanh() * theta.cos();
        let least = if nearest <= reach.low.tanh() - EPS_F64 {
            at(reach.low)
        } else if nearest >= reach.high.tanh() + EPS_F64 {
            at(reach.high)
        } else {
            (far.sinh() * theta.sin()).asinh()
        };
        let by_sector = least / curv.sqrt() * (1.0 - bounds::CHAINED) - bounds::CHAINED;
        by_radius.max(by_sector)
    }

    /// `sqrt(c)` times the distance of a point from the origin.
    fn rapidity(&self, i: usize, norms: PointNorms) -> Interval {
        let rapidity = self.spec.curv.get(i).map_or(0.0, |curv| (curv.sqrt() * norms.norm).asinh());
        Interval { low: rapidity * (1.0 - bounds::ROUNDED), high: rapidity * (1.0 + bounds::ROUNDED) }
    }

    /// Lower bound on the negated inner product.
    fn inner(&self, query_point: &TightQuery, cell: usize, pairs: &[PairGeometry]) -> f64 {
        let rounding = 8.0 * f64::from(dot_error(self.spec.factor_dim())) + errors::joining(self.spec.factors);
        if self.spec.curv.is_empty() {
            // With the query q, a row y and the centre m: <q, y> = <q, m> + <q, y - m>.
            let (norm, radius) = (norm(&query_point.point), self.radii[cell]);
            let size = norm * (self.norms[cell].norm + radius);
            return -dot(&query_point.point, self.centre(cell)) - norm * radius - rounding * size;
        }
        let factor = |(i, pair): (usize, &PairGeometry)| {
            let (curv, least) = (self.spec.curv[i], self.factor_distance(query_point, cell, i, *pair));
            let far = (1.0 + query_point.norms[i].excess) * self.farthest(cell, i).cosh();
            ((curv.sqrt() * least).cosh() - rounding * far) / curv
        };
        pairs.iter().enumerate().map(factor).sum::<f64>()
    }

    /// Lower bound on the exterior angle: the mean over factors.
    fn angle(&self, query_point: &TightQuery, cell: usize, pairs: &[PairGeometry], direction: Direction) -> f64 {
        let factor = |(i, pair): (usize, &PairGeometry)| {
            let (radius, depth) = (self.radii_of(cell)[i], query_point.depths[i]);
            let at = cell * self.spec.factors + i;
            let scale = self.spec.curv.get(i).map(|curv| curv.sqrt());
            // For a root at the origin the sector bound is tighter and cheaper than the exact angle at the centre.
            let by_sector = scale.is_some() && self.roots[i] == Root::Origin;
            let lower_bound = match direction {
                Direction::Down => {
                    // Seen from the query, the ball of radius r around the centre has a half-angle of asin(sinh r /
                    // sinh d).
                    let share = match scale {
                        Some(scale) => (scale * radius).sinh() / (scale * pair.dist.low).sinh(),
                        None => radius / pair.dist.low,
                    };
                    match !by_sector && depth.low > bounds::SHORT_LEG && pair.dist.low > radius {
                        true => self.down_at_centre(query_point, cell, i) - share.min(1.0).asin(),
                        false => 0.0,
                    }
                }
                Direction::Up => {
                    let leg = |it: Interval| Interval { low: it.low - radius, high: it.high + radius };
                    least_turn(scale, leg(self.reach[at]), leg(pair.dist), depth.high)
                }
            };
            let lower_bound = lower_bound.max(self.angle_by_sector(query_point, cell, i, *pair, direction));
            (lower_bound - self.angle_error(query_point, cell, i)).max(0.0)
        };
        let mean = pairs.iter().enumerate().map(factor).sum::<f64>() / self.spec.factors as f64;
        mean * (1.0 - errors::joining(self.spec.factors))
    }

    /// Lower bound on the exterior angle from the sector; 0 if the root is not the origin or the space is flat.
    ///
    /// The exterior angle grows when the parent moves outwards on its ray towards a child ahead of it, and shrinks
    /// when the child moves outwards. So the minimum is at the near end of the sector if the rows are parents, and at
    /// the far end if they are children. Let the parent be at distance p, the child at distance c, and theta the
    /// angle between them at the origin. For c >= p the exterior angle grows with theta. Otherwise it falls until the
    /// geodesic to the child is tangent to the circle of radius c around the origin, at `cos(theta) = tanh c / tanh
    /// p`, and then grows.
    fn angle_by_sector(
        &self,
        query_point: &TightQuery,
        cell: usize,
        i: usize,
        pair: PairGeometry,
        direction: Direction,
    ) -> f64 {
        let at = cell * self.spec.factors + i;
        let Some(_) = self.spec.curv.get(i) else { return 0.0 };
        let Sector { angle, reach } = self.sectors[at];
        let (least, most) = ((pair.apart.low - angle).max(0.0), (pair.apart.high + angle).min(PI));
        let far = self.rapidity(i, query_point.norms[i]);
        let (parent, child) = match direction {
            Direction::Down => (far.low, reach.high),
            Direction::Up => (reach.low, far.high),
        };
        if self.roots[i] != Root::Origin || parent <= bounds::SHORT_LEG {
            return 0.0;
        }
        let theta = match child >= parent {
            true => least,
            false => (child.tanh() / parent.tanh()).clamp(-1.0, 1.0).acos().clamp(least, most),
        };
        seen_angle(parent, child, theta) - bounds::HALF_THE_DIGITS
    }

    /// The exterior angle between the query and the centre, summed over factors. Used for the visiting order only.
    fn angle_at_centre(
        &self,
        query_point: &TightQuery,
        cell: usize,
        pairs: &[PairGeometry],
        direction: Direction,
    ) -> f64 {
        let factor = |(i, pair): (usize, &PairGeometry)| {
            let (query, centre) =
                (self.rapidity(i, query_point.norms[i]), self.rapidity(i, self.norms[cell * pairs.len() + i]));
            if self.spec.curv.is_empty() || self.roots[i] != Root::Origin {
                let at = i * self.spec.factor_dim()..(i + 1) * self.spec.factor_dim();
                let (query, centre) = (&query_point.point[at.clone()], &self.centre(cell)[at]);
                return match direction {
                    Direction::Down => self.factors[i].exterior_angle(query, centre, &self.roots[i]),
                    Direction::Up => self.factors[i].exterior_angle(centre, query, &self.roots[i]),
                };
            }
            match direction {
                Direction::Down => seen_angle(query.low, centre.low, pair.apart.low),
                Direction::Up => seen_angle(centre.low, query.low, pair.apart.low),
            }
        };
        pairs.iter().enumerate().map(factor).sum::<f64>()
    }

    fn down_at_centre(&self, query_point: &TightQuery, cell: usize, i: usize) -> f64 {
        let at = i * self.spec.factor_dim()..(i + 1) * self.spec.factor_dim();
        self.factors[i].exterior_angle(&query_point.point[at.clone()], &self.centre(cell)[at], &self.roots[i])
    }

    fn centre(&self, cell: usize) -> &[f64] {
        &self.centres[cell * self.spec.dim..(cell + 1) * self.spec.dim]
    }

    fn radii_of(&self, cell: usize) -> &[f64] {
        &self.radii[cell * self.spec.factors..(cell + 1) * self.spec.factors]
    }

    /// Upper bound on `sqrt(c) d(origin, y)` over the rows of a cell, on a hyperboloid.
    fn farthest(&self, cell: usize, i: usize) -> f64 {
        self.sectors[cell * self.spec.factors + i].reach.high
    }

    /// Relative error of an exact distance to a row of the cell.
    fn dist_error(&self, query_point: &TightQuery, cell: usize) -> f64 {
        let far = |i: usize| query_point.norms[i].excess + self.farthest(cell, i).cosh();
        match self.spec.curv.is_empty() {
            true => errors::chord_distance(self.spec.dim),
            false => {
                let of_factors = (0..self.spec.factors)
                    .map(|i| errors::distance(far(i), self.spec.factor_dim()))
                    .fold(0.0, f64::max);
                of_factors + errors::joining(self.spec.factors)
            }
        }
    }

    /// Error of an exact angle and of the arithmetic in this module, in radians.
    fn angle_error(&self, query_point: &TightQuery, cell: usize, i: usize) -> f64 {
        match self.spec.curv.is_empty() {
            true => errors::angle(0.0, self.spec.factor_dim()),
            false => errors::angle(query_point.norms[i].excess + self.farthest(cell, i).cosh(), self.spec.factor_dim()),
        }
    }

    /// Combines the distances in the factors to the distance in the whole space.
    fn joined(&self, parts: impl Iterator<Item = f64>) -> f64 {
        let count = self.spec.factors as f64;
        match self.form {
            ScoreForm::Hyperboloids(FactorNorm::L2) => (parts.map(|d| d * d).sum::<f64>() / count).sqrt(),
            _ => parts.sum::<f64>() / count,
        }
    }

    fn norms_of(&self, point: &[f64]) -> Vec<PointNorms> {
        let parts = point.chunks_exact(self.spec.factor_dim()).enumerate();
        parts
            .map(|(i, part)| {
                let square = dot(part, part);
                let excess = self.spec.curv.get(i).map_or(square, |curv| time_excess(square, *curv));
                PointNorms { excess, norm: square.sqrt() }
            })
            .collect()
    }

    /// The distance and the angle between two points in one factor. Without curvature the distance is the norm of the
    /// difference. On a hyperboloid `cosh(sqrt(c) d) - 1 = a + b + a b - c <x, y>`, where a and b are the `excess` of
    /// both points, with the rounding error of a sum of `dim` terms.
    fn between(&self, i: usize, x: &[f64], a: PointNorms, y: &[f64], b: PointNorms) -> PairGeometry {
        let dim = self.spec.factor_dim();
        let at = i * dim..(i + 1) * dim;
        let (x, y) = (&x[at.clone()], &y[at]);
        let anywhere = Interval { low: 0.0, high: PI };
        let Some(curv) = self.spec.curv.get(i) else {
            let d = sums(x, y, |a, b| [(a - b) * (a - b)])[0].sqrt();
            return PairGeometry {
                dist: Interval { low: d * (1.0 - bounds::ROUNDED), high: d * (1.0 + bounds::ROUNDED) },
                apart: anywhere,
            };
        };
        let (dot, size) = (dot(x, y), a.norm * b.norm);
        let terms = a.excess + b.excess + a.excess * b.excess;
        let u = terms - curv * dot;
        let rounding = f64::EPSILON * (dim / 4 + 32) as f64;
        let error = rounding * (terms + curv * size);
        let dist = |u: f64| acosh_1p(u) / curv.sqrt();
        let apart = match size > f64::from(TINY_F32) {
            true => Interval {
                low: (dot / size + rounding).min(1.0).acos(),
                high: (dot / size - rounding).max(-1.0).acos(),
            },
            false => anywhere,
        };
        PairGeometry {
            dist: Interval {
                low: dist(u - error) * (1.0 - bounds::ROUNDED),
                high: dist(u + error) * (1.0 + bounds::ROUNDED),
            },
            apart,
        }
    }
}

/// A query point with the values that all cells share.
pub(super) struct TightQuery {
    point: Vec<f64>,
    pub(super) norms: Vec<PointNorms>,
    /// Distance from the root, per factor.
    depths: Vec<Interval>,
}

/// The exterior angle at a parent towards a child, from their distances to the origin (at curvature -1) and the angle
/// `theta` between them at the origin: `atan2(sinh c sin(theta), cosh p sinh c cos(theta) - sinh p cosh c)`, computed
/// without cancellation of large numbers.
fn seen_angle(parent: f64, child: f64, theta: f64) -> f64 {
    let half = (theta / 2.0).sin();
    let along = (child - parent).sinh() - 2.0 * parent.cosh() * child.sinh() * half * half;
    (child.sinh() * theta.sin()).atan2(along)
}

/// The smallest exterior angle at a point whose distances from the root (`a`) and from the query (`b`) lie in these
/// intervals, with the query at most `depth` from the root: pi minus the largest angle of the triangle at the point.
///
/// By the law of cosines `cos = (cosh a cosh b - K) / (sinh a sinh b)` with `K = cosh depth`. The derivative with
/// respect to `a` has the sign of `K cosh a - cosh b`. So for each `b` the minimum is at `cosh a = cosh b / K` or at
/// the nearest end of the interval; the same holds with `a` and `b` exchanged. Both conditions cannot hold inside the
/// rectangle (`K > 1`), so the minimum is on one of its four sides. In flat space, with `D = depth`,
/// `cos = (a^2 + b^2 - D^2) / 2 a b`, with the minimum at `a^2 = b^2 - D^2`. Near the root these formulas subtract
/// nearly equal numbers, so the code computes `sin^2(angle / 2) = (1 + cos) / 2 = sinh s sinh(s - D) / (sinh a sinh b)`
/// with `2 s = a + b + D`.
fn least_turn(scale: Option<f64>, a: Interval, b: Interval, depth: f64) -> f64 {
    if a.low <= bounds::SHORT_LEG || b.low <= bounds::SHORT_LEG {
        return 0.0;
    }
    let scaled = |v: f64| scale.unwrap_or(1.0) * v;
    let (a, b, depth) = (
        Interval { low: scaled(a.low), high: scaled(a.high) },
        Interval { low: scaled(b.low), high: scaled(b.high) },
        scaled(depth),
    );
    let sinh = |v: f64| if scale.is_some() { v.sinh() } else { v };
    let square =
        |a: f64, b: f64| sinh((a + b + depth) / 2.0) * sinh((a + b - depth).max(0.0) / 2.0) / (sinh(a) * sinh(b));
    let least_at = |other: f64| match scale {
        // cosh a - 1 = (cosh b - K) / K.
        Some(_) => {
            let above = (other - depth).max(0.0);
            acosh_1p(2.0 * sinh((other + depth) / 2.0) * sinh(above / 2.0) / depth.cosh())
        }
        None => ((other - depth).max(0.0) * (other + depth)).sqrt(),
    };
    let sides = [
        square(a.low, least_at(a.low).clamp(b.low, b.high)),
        square(a.high, least_at(a.high).clamp(b.low, b.high)),
        square(least_at(b.low).clamp(a.low, a.high), b.low),
        square(least_at(b.high).clamp(a.low, a.high), b.high),
    ];
    let least = sides.into_iter().fold(1.0, f64::min);
    2.0 * least.sqrt().asin() - bounds::HALF_THE_DIGITS
}
