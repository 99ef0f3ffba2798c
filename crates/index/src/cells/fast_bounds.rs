//! A fast version of the bounds of [`super::tight_bounds`] for hyperboloids and their products: one `f32` dot product
//! per cell and factor.
//!
//! Distances are stored as hyperbolic cosines and sines, angles as cosines and sines. On a single hyperboloid a lower
//! bound is compared on the scale of the keys (`cosh(sqrt(c) d) - 1`, [`turn_of`]), so no logarithm or arc function is
//! needed. For several factors, the lower bounds of the factors are combined; they use the approximations of the scan,
//! such as [`acosh_1p_below`]. Every [`HyperbolicLength`] is at curvature -1.

use conifer_geometry::safe::{EPS_F64, bounds};
use conifer_geometry::spaces::lorentz::time_excess;
use conifer_geometry::vector::half_turn;
use conifer_geometry::{FactorNorm, ManifoldSpec};

use super::tight_bounds;
use crate::kernel::{self, dot_error};
use crate::query::{Direction, Gate, Ranking};
use crate::scan::{LowerBound, acosh_1p_below, errors, turn_of};

/// Bounds of all cells, for one hyperboloid or a product of hyperboloids.
pub(super) struct FastBounds {
    /// Curvature per factor.
    curvs: Vec<f64>,
    /// Number of coordinates per factor.
    dim: usize,
    /// True if distances of factors combine as a root mean square, not as a mean.
    squares: bool,
    /// True if the root is the origin. Exterior angles with other roots have no bound here.
    at_origin: bool,
    /// `[factors, cells, dim]`.
    centres: Vec<f32>,
    /// `[cells, factors]`.
    discs: Vec<FactorCell>,
    /// `[cells]`.
    extents: Vec<CellExtent>,
}

/// Bounds of a cell in the whole space.
pub(super) struct CellExtent {
    /// Upper bound on the distance from the centre to a row.
    pub(super) radius: f64,
    /// The smallest depth of a row.
    pub(super) shallow: f32,
}

/// Bounds of a cell in one factor.
pub(super) struct FactorExtent {
    /// Norm of the space components of the centre.
    pub(super) norm: f64,
    /// Upper bound on the distance from the centre to a row.
    pub(super) radius: f64,
    /// The largest angle between the centre and a row, at the origin.
    pub(super) angle: f64,
    /// The smallest and the largest distance of a row from the origin.
    pub(super) reach: (f64, f64),
}

/// Dot products of queries with the centres of all cells.
pub(super) struct CentreDots {
    /// `[factors, queries, cells]`.
    values: Vec<f32>,
    queries: usize,
    cells: usize,
}

impl CentreDots {
    fn at(&self, factor: usize, query: usize, cell: usize) -> f64 {
        f64::from(self.values[(factor * self.queries + query) * self.cells + cell])
    }
}

/// A distance, stored by its hyperbolic functions.
#[derive(Clone, Copy)]
struct HyperbolicLength {
    cosh: f64,
    sinh: f64,
    /// `cosh - 1`, computed without the subtraction.
    excess: f64,
}

/// An angle, stored by its cosine and sine.
#[derive(Clone, Copy)]
struct CosSin {
    cos: f64,
    sin: f64,
}

struct FactorCell {
    centre: HyperbolicLength,
    radius: HyperbolicLength,
    angle: CosSin,
    near: HyperbolicLength,
    far: HyperbolicLength,
    /// The distance whose hyperbolic functions are in `far`.
    reach: f64,
}

/// A query point in one factor.
struct QueryPart {
    length: HyperbolicLength,
    reach: f64,
}

/// A query and the centre of a cell in one factor.
struct CentrePair {
    /// `cosh - 1` of their distance: `excess` is the estimate, `least` the lower bound.
    excess: f64,
    least: f64,
    /// Cosine of the angle between them at the origin: the estimate, the lower bound (`lowest`) and the upper bound
    /// (`highest`).
    cos: f64,
    lowest: f64,
    highest: f64,
}

/// The bound of one cell for one query.
#[derive(Clone, Copy)]
pub(super) struct FastCellBound {
    pub(super) cell: u32,
    /// Sort key of the visiting order, ascending: it increases with the distance, or the exterior angle, between the
    /// query and the centre of the cell. For a ranking by depth it is the smallest depth in the cell.
    pub(super) order: f64,
    /// Lower bound on the rows' scores.
    pub(super) lower_bound: LowerBound,
}

impl HyperbolicLength {
    fn of(distance: f64) -> Self {
        let half = (distance / 2.0).sinh();
        HyperbolicLength { cosh: distance.cosh(), sinh: distance.sinh(), excess: 2.0 * half * half }
    }

    fn tanh(self) -> f64 {
        self.sinh / self.cosh
    }
}

impl CosSin {
    /// The cosine must be within [-1, 1]. The form `sin = sqrt((1 - cos) (1 + cos))` avoids cancellation.
    fn of_cos(cos: f64) -> Self {
        CosSin { cos, sin: ((1.0 - cos) * (1.0 + cos)).sqrt() }
    }

    /// The difference of two angles in [0, pi]; 0 if it is negative.
    fn less(self, other: CosSin) -> CosSin {
        if self.cos >= other.cos {
            return CosSin { cos: 1.0, sin: 0.0 };
        }
        let sin = self.sin * other.cos - self.cos * other.sin;
        CosSin { cos: (self.cos * other.cos + self.sin * other.sin).clamp(-1.0, 1.0), sin: sin.max(0.0) }
    }

    /// The sum of two angles in [0, pi]; pi if it is larger.
    fn plus(self, other: CosSin) -> CosSin {
        if self.cos <= -other.cos {
            return CosSin { cos: -1.0, sin: 0.0 };
        }
        let sin = self.sin * other.cos + self.cos * other.sin;
        CosSin { cos: (self.cos * other.cos - self.sin * other.sin).clamp(-1.0, 1.0), sin: sin.max(0.0) }
    }
}

impl FastBounds {
    /// `centres` has the shape `[cells, factors, dim]`, `cells` `[cells, factors]`.
    pub(super) fn new(
        spec: &ManifoldSpec,
        norm: FactorNorm,
        at_origin: bool,
        centres: &[f32],
        cells: impl Iterator<Item = FactorExtent>,
        extents: Vec<CellExtent>,
    ) -> Self {
        let (curvs, dim) = (spec.curv.clone(), spec.factor_dim());
        let disc = |(i, it): (usize, FactorExtent)| {
            let scale = curvs[i % curvs.len()].sqrt();
            // An empty cell has an inverted range, and no query visits it.
            let reach = if it.reach.0 <= it.reach.1 { it.reach } else { (0.0, 0.0) };
            let angle = (it.angle + bounds::CHAINED).min(std::f64::consts::PI);
            FactorCell {
                centre: length_of_sinh(it.norm * scale),
                radius: HyperbolicLength::of(scale * it.radius),
                angle: CosSin { cos: angle.cos(), sin: angle.sin().max(0.0) },
                near: HyperbolicLength::of(reach.0),
                far: HyperbolicLength::of(reach.1),
                reach: reach.1,
            }
        };
        let discs = cells.enumerate().map(disc).collect();
        let of_factor = |i: usize| centres.chunks_exact(dim).skip(i).step_by(spec.factors).flatten().copied();
        let centres = (0..spec.factors).flat_map(of_factor).collect();
        FastBounds { dim, squares: norm == FactorNorm::L2, at_origin, centres, discs, extents, curvs }
    }

    /// True if this ranking and its gate have a bound here.
    pub(super) fn has_bounds(&self, ranking: Ranking) -> bool {
        let is_angle = |ranking| matches!(ranking, Ranking::Angle(_));
        self.at_origin || !(is_angle(ranking) || ranking.gate().is_some_and(|gate| is_angle(gate.ranking())))
    }

    /// Dot products of the queries with all centres, in every factor.
    pub(super) fn dots(&self, queries: &[&[f32]]) -> CentreDots {
        let (dim, cells) = (self.dim, self.extents.len());
        let of_factor = |i: usize| {
            let parts: Vec<&[f32]> = queries.iter().map(|query| &query[i * dim..(i + 1) * dim]).collect();
            kernel::dots(&parts, &self.centres[i * cells * dim..(i + 1) * cells * dim], dim)
        };
        CentreDots { values: (0..self.curvs.len()).flat_map(of_factor).collect(), queries: queries.len(), cells }
    }

    /// Bounds of these cells for the query with index `query` in `dots`. Cells in which no row can pass the gate are
    /// left out.
    pub(super) fn cell_bounds(
        &self,
        query_point: &tight_bounds::TightQuery,
        dots: &CentreDots,
        query: usize,
        ranking: Ranking,
        cells: impl Iterator<Item = usize>,
    ) -> Vec<FastCellBound> {
        let part = |(curv, norms): (&f64, &tight_bounds::PointNorms)| {
            let sinh = curv.sqrt() * norms.norm;
            QueryPart {
                length: HyperbolicLength { cosh: 1.0 + norms.excess, sinh, excess: norms.excess },
                reach: sinh.asinh(),
            }
        };
        let parts: Vec<QueryPart> = self.curvs.iter().zip(&query_point.norms).map(part).collect();
        let gate = ranking.gate().map(|gate| (gate, self.limit(gate)));
        let mut pairs = Vec::new();
        let bound = |cell: usize| {
            let cell_discs = self.of(cell);
            let pair = |i: usize| self.pair(i, &parts[i], &cell_discs[i], dots.at(i, query, cell));
            pairs.clear();
            pairs.extend((0..parts.len()).map(pair));
            if let Some((gate, limit)) = gate {
                let least = match gate {
                    Gate::Angle(direction, _) => self.angle(&parts, cell, &pairs, direction),
                    Gate::Distance(_) => self.distance(&parts, cell, &pairs),
                };
                if least.value() > limit {
                    return None;
                }
            }
            let (order, lower_bound) = match ranking {
                Ranking::Distance | Ranking::Similarity | Ranking::Gated(_) => {
                    (self.at_centre(&pairs), self.distance(&parts, cell, &pairs))
                }
                Ranking::Inner => (self.at_centre(&pairs), LowerBound::Score(self.inner(&parts, cell, &pairs))),
                Ranking::Angle(direction) => {
                    let turn = |((part, disc), pair): ((&QueryPart, &FactorCell), &CentrePair)| {
                        let (parent, child) = parent_and_child(direction, part.length, disc.centre, disc.centre);
                        RayDirection::of(parent, child, CosSin::of_cos(pair.cos)).map_or(0.0, |ray| ray.turn())
                    };
                    let order = parts.iter().zip(cell_discs).zip(&pairs).map(turn).sum();
                    (order, self.angle(&parts, cell, &pairs, direction))
                }
                Ranking::Depth(_) => {
                    let shallow = f64::from(self.extents[cell].shallow);
                    (shallow, LowerBound::Score(shallow))
                }
            };
            Some(FastCellBound { cell: cell as u32, order, lower_bound })
        };
        cells.filter_map(bound).collect()
    }

    /// The limit of a gate on the scale of [`Self::distance`] or [`Self::angle`].
    fn limit(&self, gate: Gate) -> f64 {
        let limit = f64::from(gate.limit());
        match (&self.curvs[..], gate) {
            ([_], Gate::Angle(..)) => turn_of(limit) + bounds::TURN,
            ([_], Gate::Distance(_)) if limit < 0.0 => -1.0,
            ([curv], Gate::Distance(_)) => {
                HyperbolicLength::of(curv.sqrt() * limit).excess * (1.0 + bounds::SHORT_SIDE)
            }
            _ => limit,
        }
    }

    fn of(&self, cell: usize) -> &[FactorCell] {
        let count = self.curvs.len();
        &self.discs[cell * count..(cell + 1) * count]
    }

    /// Lower bound on the distances of the rows.
    fn distance(&self, parts: &[QueryPart], cell: usize, pairs: &[CentrePair]) -> LowerBound {
        let discs = self.of(cell);
        if let ([part], [disc], [pair]) = (parts, discs, pairs) {
            // With a = sqrt(c) d, a relative error e of a becomes an error e a sinh(a) <= e (2 + a) (cosh a - 1) of
            // cosh a, and a is at most the sum of both reaches. The code uses 4 instead of 2.
            let error = part.dist_error(disc, self.dim) * (4.0 + part.reach + disc.reach);
            return LowerBound::Excess(part.excess(disc, pair) * (1.0 - error).max(0.0));
        }
        let each = parts.iter().zip(discs).zip(pairs);
        let by_factor = self.joined(each.map(|((part, disc), pair)| part.excess(disc, pair)));
        let by_radius = self.joined(pairs.iter().map(|pair| pair.least)) - self.extents[cell].radius;
        let error = parts.iter().zip(discs).map(|(part, disc)| part.dist_error(disc, self.dim)).fold(0.0, f64::max);
        let error = error + errors::joining(self.curvs.len());
        LowerBound::Score(by_factor.max(by_radius).max(0.0) * (1.0 - error).max(0.0))
    }

    /// A number that grows with the distance to the centre, for the visiting order.
    fn at_centre(&self, pairs: &[CentrePair]) -> f64 {
        match pairs {
            [pair] => pair.excess,
            _ => self.joined(pairs.iter().map(|pair| pair.excess)),
        }
    }

    /// Lower bound on the distance in the whole space, from `cosh - 1` of the distances in the factors.
    fn joined(&self, excesses: impl Iterator<Item = f64>) -> f64 {
        let distances = excesses.zip(&self.curvs).map(|(u, curv)| acosh_1p_below(u) / curv.sqrt());
        let count = self.curvs.len() as f64;
        let joined = match self.squares {
            true => (distances.map(|d| d * d).sum::<f64>() / count).sqrt(),
            false => distances.sum::<f64>() / count,
        };
        joined * (1.0 - bounds::ROUNDED)
    }

    /// Lower bound on the negated inner products of the rows.
    fn inner(&self, parts: &[QueryPart], cell: usize, pairs: &[CentrePair]) -> f64 {
        let rounding = 8.0 * f64::from(dot_error(self.dim)) + errors::joining(self.curvs.len());
        let each = parts.iter().zip(self.of(cell)).zip(pairs).zip(&self.curvs);
        let of_factor = |(((part, disc), pair), curv): (((&QueryPart, &FactorCell), &CentrePair), &f64)| {
            (1.0 + part.excess(disc, pair) - rounding * part.length.cosh * disc.far.cosh) / curv
        };
        each.map(of_factor).sum()
    }

    /// Lower bound on the exterior angles of the rows.
    fn angle(&self, parts: &[QueryPart], cell: usize, pairs: &[CentrePair], direction: Direction) -> LowerBound {
        let each = parts.iter().zip(self.of(cell)).zip(pairs);
        let of_factor = |((part, disc), pair): ((&QueryPart, &FactorCell), &CentrePair)| {
            let error = errors::angle(part.length.excess + disc.far.cosh, self.dim) + bounds::TURN;
            (part.least_ray(disc, pair, direction), error)
        };
        if pairs.len() == 1 {
            let turn = |(ray, error): (Option<RayDirection>, f64)| ray.map_or(0.0, |ray| (ray.turn() - error).max(0.0));
            return LowerBound::Turn(each.map(of_factor).map(turn).sum());
        }
        let angle = |(ray, error): (Option<RayDirection>, f64)| ray.map_or(0.0, |ray| (ray.angle() - error).max(0.0));
        let mean = each.map(of_factor).map(angle).sum::<f64>() / self.curvs.len() as f64;
        LowerBound::Score(mean * (1.0 - errors::joining(self.curvs.len())))
    }

    fn pair(&self, factor: usize, part: &QueryPart, disc: &FactorCell, dot: f64) -> CentrePair {
        let (query, centre, curv) = (part.length, disc.centre, self.curvs[factor]);
        let (product, size) = (curv * dot, query.sinh * centre.sinh);
        let error = (f64::from(dot_error(self.dim)) + EPS_F64) * size + curv * bounds::UNDERFLOW_OF_F32;
        let terms = query.excess + centre.excess + query.excess * centre.excess;
        let excess = (terms - product).max(0.0);
        let least = (terms - product - error - EPS_F64 * terms).max(0.0);
        // If one of the two points is the origin, the angle is unknown.
        let room = error / size + EPS_F64;
        if room.is_nan() || room >= 1.0 {
            return CentrePair { excess, least, cos: 1.0, lowest: -1.0, highest: 1.0 };
        }
        let cos = product / size;
        let within = |cos: f64| cos.clamp(-1.0, 1.0);
        CentrePair { excess, least, cos: within(cos), lowest: within(cos - room), highest: within(cos + room) }
    }
}

impl QueryPart {
    /// Lower bound on `cosh(sqrt(c) d) - 1` for all rows: the larger of two bounds. One subtracts the radius of the
    /// cell from the distance to the centre, the other is the law of cosines in the sector, see
    /// `TightBounds::factor_distance`.
    fn excess(&self, disc: &FactorCell, pair: &CentrePair) -> f64 {
        // cosh(d - r) = cosh d cosh r - sinh d sinh r, with the distance d to the centre and the radius r of the cell.
        let by_radius = if pair.least > disc.radius.excess {
            let (cosh, sinh) = (1.0 + pair.least, (pair.least * (pair.least + 2.0)).sqrt());
            cosh * disc.radius.cosh * (1.0 - EPS_F64) - sinh * disc.radius.sinh - 1.0
        } else {
            0.0
        };
        let beside = CosSin::of_cos(pair.highest).less(disc.angle);
        let query = self.length;
        let nearest = query.tanh() * beside.cos;
        let at = |length: HyperbolicLength| {
            query.cosh * length.cosh * (1.0 - EPS_F64) - query.sinh * length.sinh * beside.cos - 1.0
        };
        let by_sector = if nearest <= disc.near.tanh() {
            at(disc.near)
        } else if nearest >= disc.far.tanh() {
            at(disc.far)
        } else {
            // The minimum over all distances from the origin, see `TightBounds::factor_distance`.
            let square = query.sinh * query.sinh * beside.sin * beside.sin;
            square / (1.0 + (1.0 + square).sqrt()) * (1.0 - bounds::CHAINED)
        };
        by_radius.max(by_sector).max(0.0)
    }

    /// Relative error of the exact distance of a row.
    fn dist_error(&self, disc: &FactorCell, dim: usize) -> f64 {
        errors::distance(self.length.excess + disc.far.cosh, dim)
    }

    /// The [`RayDirection`] of the smallest exterior angle, see `TightBounds::angle_by_sector`; `None` if unknown.
    fn least_ray(&self, disc: &FactorCell, pair: &CentrePair, direction: Direction) -> Option<RayDirection> {
        let (parent, child) = parent_and_child(direction, self.length, disc.near, disc.far);
        let least = CosSin::of_cos(pair.highest).less(disc.angle);
        let beside = if child.cosh >= parent.cosh {
            least
        } else {
            // Cosine of the angle at which the geodesic is tangent to the child's circle around the origin.
            let tangent = child.tanh() / parent.tanh();
            let most = CosSin::of_cos(pair.lowest).plus(disc.angle);
            if tangent >= least.cos {
                least
            } else if tangent <= most.cos {
                most
            } else {
                CosSin::of_cos(tangent)
            }
        };
        RayDirection::of(parent, child, beside)
    }
}

/// The child relative to the parent, in components across and along the parent's ray, with `|along| + across = 1`.
struct RayDirection {
    across: f64,
    along: f64,
}

impl RayDirection {
    /// `None` if rounding errors hide the direction.
    fn of(parent: HyperbolicLength, child: HyperbolicLength, beside: CosSin) -> Option<RayDirection> {
        let across = child.sinh * beside.sin;
        let along = child.sinh * parent.cosh * beside.cos - child.cosh * parent.sinh;
        let sum = along.abs() + across;
        let unknown = parent.sinh <= bounds::SHORT_SIDE * bounds::SHORT_SIDE
            || sum <= bounds::SHORT_SIDE * parent.cosh * child.cosh;
        (!unknown).then(|| RayDirection { across: across / sum, along: along / sum })
    }

    /// The exterior angle on the scale of [`turn_of`].
    fn turn(&self) -> f64 {
        if self.along < 0.0 { 2.0 - self.across } else { self.across }
    }

    /// The exterior angle, with an error of at most [`bounds::TURN_ERROR`].
    fn angle(&self) -> f64 {
        f64::from(half_turn(self.across as f32, self.along as f32))
    }
}

/// The parent and the child of the smallest exterior angle, for rows whose distances range from `near` to `far`: the
/// angle is smallest for the nearest parent and for the farthest child.
fn parent_and_child(
    direction: Direction,
    query: HyperbolicLength,
    near: HyperbolicLength,
    far: HyperbolicLength,
) -> (HyperbolicLength, HyperbolicLength) {
    match direction {
        Direction::Down => (query, far),
        Direction::Up => (near, query),
    }
}

fn length_of_sinh(sinh: f64) -> HyperbolicLength {
    let excess = time_excess(sinh * sinh, 1.0);
    HyperbolicLength { cosh: 1.0 + excess, sinh, excess }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_are_those_of_angles() {
        let cos_sin = |angle: f64| CosSin { cos: angle.cos(), sin: angle.sin() };
        for i in 0..=32 {
            for j in 0..=32 {
                let (a, b) = (f64::from(i) * 0.098, f64::from(j) * 0.098);
                let (less, plus) = (cos_sin(a).less(cos_sin(b)), cos_sin(a).plus(cos_sin(b)));
                let angle = |it: CosSin| it.sin.atan2(it.cos);
                assert!((angle(less) - (a - b).max(0.0)).abs() < 1e-12, "{a} - {b}");
                assert!((angle(plus) - (a + b).min(std::f64::consts::PI)).abs() < 1e-12, "{a} + {b}");
            }
        }
    }
}
