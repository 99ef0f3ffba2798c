//! The bounds of [`super::balls`] for one hyperboloid, fast: from one `f32` dot product a cell, with no function but the square root.
//!
//! Distances are kept as their hyperbolic cosines and sines, angles as their cosines and sines, and a floor is compared on the scale of the
//! keys (`cosh(sqrt(c) d) - 1`, [`turn_of`]), so that nothing needs a logarithm or an arc. Lengths are at curvature -1.

use conifer_space::safe::{EPS_F64, bounds};
use conifer_space::spaces::lorentz::time_excess;

use super::balls;
use crate::kernel::{self, dot_error};
use crate::query::{Direction, Gate, Ranking};
use crate::scan::{Floor, errors, turn_of};

/// All cells of one hyperboloid.
pub(super) struct Discs {
    curv: f64,
    dim: usize,
    /// Whether angles are seen from the origin; from elsewhere they have no bound here.
    at_origin: bool,
    /// `[cells, dim]`.
    centres: Vec<f32>,
    discs: Vec<Disc>,
}

/// What is known of a cell.
pub(super) struct Known {
    /// `|centre|`.
    pub(super) norm: f64,
    /// No row is farther from the centre.
    pub(super) radius: f64,
    /// The largest angle between the centre and a row, seen from the origin.
    pub(super) angle: f64,
    /// The smallest and the largest distance of a row from the origin.
    pub(super) reach: (f64, f64),
    /// The smallest depth of a row.
    pub(super) shallow: f32,
}

/// A distance.
#[derive(Clone, Copy)]
struct Leg {
    cosh: f64,
    sinh: f64,
    /// `cosh - 1`, without the difference.
    excess: f64,
}

/// An angle.
#[derive(Clone, Copy)]
struct Turn {
    cos: f64,
    sin: f64,
}

struct Disc {
    centre: Leg,
    radius: Leg,
    angle: Turn,
    near: Leg,
    far: Leg,
    shallow: f32,
    /// The distance behind `far`.
    reach: f64,
}

/// A point of a query.
struct Asked {
    leg: Leg,
    reach: f64,
}

/// A query and the centre of a cell.
struct Pair {
    /// `cosh - 1` of the distance between them: as it is, and at least.
    excess: f64,
    least: f64,
    /// The cosine of the angle between them, seen from the origin: as it is, at least and at most.
    cos: f64,
    lowest: f64,
    highest: f64,
}

/// What a cell is worth to a query.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) cell: u32,
    /// Small first: how near the centre is.
    pub(super) order: f64,
    /// No row of the cell has a better score.
    pub(super) floor: Floor,
}

impl Leg {
    fn of(distance: f64) -> Self {
        let half = (distance / 2.0).sinh();
        Leg { cosh: distance.cosh(), sinh: distance.sinh(), excess: 2.0 * half * half }
    }

    fn tanh(self) -> f64 {
        self.sinh / self.cosh
    }
}

impl Turn {
    /// From a cosine within [-1, 1]; `sin = sqrt((1 - cos) (1 + cos))` loses no digits.
    fn of_cos(cos: f64) -> Self {
        Turn { cos, sin: ((1.0 - cos) * (1.0 + cos)).sqrt() }
    }

    /// This angle less another one, 0 where that is larger; both from 0 to pi.
    fn less(self, other: Turn) -> Turn {
        if self.cos >= other.cos {
            return Turn { cos: 1.0, sin: 0.0 };
        }
        let sin = self.sin * other.cos - self.cos * other.sin;
        Turn { cos: (self.cos * other.cos + self.sin * other.sin).clamp(-1.0, 1.0), sin: sin.max(0.0) }
    }

    /// The sum of two angles from 0 to pi, at most pi.
    fn plus(self, other: Turn) -> Turn {
        if self.cos <= -other.cos {
            return Turn { cos: -1.0, sin: 0.0 };
        }
        let sin = self.sin * other.cos + self.cos * other.sin;
        Turn { cos: (self.cos * other.cos - self.sin * other.sin).clamp(-1.0, 1.0), sin: sin.max(0.0) }
    }
}

impl Discs {
    pub(super) fn new(
        curv: f64,
        dim: usize,
        at_origin: bool,
        centres: &[f32],
        cells: impl Iterator<Item = Known>,
    ) -> Self {
        let scale = curv.sqrt();
        let disc = |it: Known| {
            // A cell without rows is never asked for.
            let reach = if it.reach.0 <= it.reach.1 { it.reach } else { (0.0, 0.0) };
            let angle = (it.angle + bounds::CHAINED).min(std::f64::consts::PI);
            Disc {
                centre: leg_of(it.norm * scale),
                radius: Leg::of(scale * it.radius),
                angle: Turn { cos: angle.cos(), sin: angle.sin().max(0.0) },
                near: Leg::of(reach.0),
                far: Leg::of(reach.1),
                shallow: it.shallow,
                reach: reach.1,
            }
        };
        Discs { curv, dim, at_origin, centres: centres.to_vec(), discs: cells.map(disc).collect() }
    }

    /// Whether this ranking, and its gate, have a bound here.
    pub(super) fn bounds(&self, ranking: Ranking) -> bool {
        let is_angle = |ranking| matches!(ranking, Ranking::Angle(_));
        self.at_origin || !(is_angle(ranking) || ranking.gate().is_some_and(|gate| is_angle(gate.ranking())))
    }

    /// `<query, centre>`, `[queries, cells]`.
    pub(super) fn dots(&self, queries: &[&[f32]]) -> Vec<f32> {
        kernel::dots(queries, &self.centres, self.dim)
    }

    /// What the cells of `wanted` offer a query, `dots` being its dot products with all centres: those whose rows may pass the gate.
    pub(super) fn offers(
        &self,
        point: &balls::Asked,
        dots: &[f32],
        ranking: Ranking,
        wanted: impl Iterator<Item = usize>,
    ) -> Vec<Offer> {
        let (excess, sinh) = (point.places[0].excess, self.curv.sqrt() * point.places[0].norm);
        let asked = Asked { leg: Leg { cosh: 1.0 + excess, sinh, excess }, reach: sinh.asinh() };
        let gate = ranking.gate().map(|gate| {
            let limit = f64::from(gate.limit());
            let place = match gate {
                Gate::Angle(..) => turn_of(limit) + bounds::TURN,
                Gate::Distance(_) if limit < 0.0 => -1.0,
                Gate::Distance(_) => Leg::of(self.curv.sqrt() * limit).excess * (1.0 + bounds::SHORT_SIDE),
            };
            (gate, place)
        });
        let offer = |cell: usize| {
            let disc = &self.discs[cell];
            let pair = self.pair(&asked, disc, f64::from(dots[cell]));
            if let Some((gate, limit)) = gate {
                let least = match gate {
                    Gate::Angle(direction, _) => self.turn(&asked, disc, &pair, direction),
                    Gate::Distance(_) => self.excess(&asked, disc, &pair),
                };
                if least > limit {
                    return None;
                }
            }
            let (order, floor) = match ranking {
                Ranking::Distance | Ranking::Similarity | Ranking::Gated(_) => {
                    (pair.excess, Floor::Excess(self.excess(&asked, disc, &pair)))
                }
                Ranking::Inner => (pair.excess, Floor::Score(self.inner(&asked, disc, &pair))),
                Ranking::Angle(direction) => {
                    let (parent, child) = sides(direction, asked.leg, disc.centre, disc.centre);
                    let order = turn_between(parent, child, Turn::of_cos(pair.cos)).unwrap_or(0.0);
                    (order, Floor::Turn(self.turn(&asked, disc, &pair, direction)))
                }
                Ranking::Depth(_) => (f64::from(disc.shallow), Floor::Score(f64::from(disc.shallow))),
            };
            Some(Offer { cell: cell as u32, order, floor })
        };
        wanted.filter_map(offer).collect()
    }

    fn pair(&self, asked: &Asked, disc: &Disc, dot: f64) -> Pair {
        let (query, centre) = (asked.leg, disc.centre);
        let (product, size) = (self.curv * dot, query.sinh * centre.sinh);
        let error = (f64::from(dot_error(self.dim)) + EPS_F64) * size + self.curv * bounds::UNDERFLOW_OF_F32;
        let terms = query.excess + centre.excess + query.excess * centre.excess;
        let excess = (terms - product).max(0.0);
        let least = (terms - product - error - EPS_F64 * terms).max(0.0);
        // Where one of them is the origin, nothing is known of the angle.
        let room = error / size + EPS_F64;
        if room.is_nan() || room >= 1.0 {
            return Pair { excess, least, cos: 1.0, lowest: -1.0, highest: 1.0 };
        }
        let cos = product / size;
        let within = |cos: f64| cos.clamp(-1.0, 1.0);
        Pair { excess, least, cos: within(cos), lowest: within(cos - room), highest: within(cos + room) }
    }

    /// `cosh(sqrt(c) d) - 1` of every row is at least this: the better of `d(q, m) - r` and the law of cosines in the sector, see
    /// `Balls::factor_distance`, less the error of the exact distance.
    fn excess(&self, asked: &Asked, disc: &Disc, pair: &Pair) -> f64 {
        // cosh(d - r) = cosh d cosh r - sinh d sinh r.
        let by_radius = if pair.least > disc.radius.excess {
            let (cosh, sinh) = (1.0 + pair.least, (pair.least * (pair.least + 2.0)).sqrt());
            cosh * disc.radius.cosh * (1.0 - EPS_F64) - sinh * disc.radius.sinh - 1.0
        } else {
            0.0
        };
        let beside = Turn::of_cos(pair.highest).less(disc.angle);
        let query = asked.leg;
        let nearest = query.tanh() * beside.cos;
        let at = |leg: Leg| query.cosh * leg.cosh * (1.0 - EPS_F64) - query.sinh * leg.sinh * beside.cos - 1.0;
        let by_sector = if nearest <= disc.near.tanh() {
            at(disc.near)
        } else if nearest >= disc.far.tanh() {
            at(disc.far)
        } else {
            // There sinh d = sinh D sin(theta).
            let square = query.sinh * query.sinh * beside.sin * beside.sin;
            square / (1.0 + (1.0 + square).sqrt()) * (1.0 - bounds::CHAINED)
        };
        let far = query.excess + disc.far.cosh;
        // A relative error of a distance a is a sinh(a) <= (2 + a)(cosh a - 1) times as much here, and a is at most the sum of both reaches.
        let error = errors::distance(far) * (4.0 + asked.reach + disc.reach);
        by_radius.max(by_sector).max(0.0) * (1.0 - error).max(0.0)
    }

    /// Minus the largest inner product.
    fn inner(&self, asked: &Asked, disc: &Disc, pair: &Pair) -> f64 {
        let rounding = 8.0 * f64::from(dot_error(self.dim));
        let size = asked.leg.cosh * disc.far.cosh;
        (1.0 + self.excess(asked, disc, pair) - rounding * size) / self.curv
    }

    /// [`turn_of`] the exterior angle of every row is at least this, see `Balls::angle_by_sector`.
    fn turn(&self, asked: &Asked, disc: &Disc, pair: &Pair, direction: Direction) -> f64 {
        let (parent, child) = sides(direction, asked.leg, disc.near, disc.far);
        let least = Turn::of_cos(pair.highest).less(disc.angle);
        let beside = if child.cosh >= parent.cosh {
            least
        } else {
            // The line is a tangent there.
            let tangent = child.tanh() / parent.tanh();
            let most = Turn::of_cos(pair.lowest).plus(disc.angle);
            if tangent >= least.cos {
                least
            } else if tangent <= most.cos {
                most
            } else {
                Turn::of_cos(tangent)
            }
        };
        let error = errors::angle(asked.leg.excess + disc.far.cosh) + bounds::TURN;
        turn_between(parent, child, beside).map_or(0.0, |turn| (turn - error).max(0.0))
    }
}

/// The parent and the child, where the rows reach from `near` to `far`: seen from the root a parent looks best from nearby, a child from afar.
fn sides(direction: Direction, query: Leg, near: Leg, far: Leg) -> (Leg, Leg) {
    match direction {
        Direction::Down => (query, far),
        Direction::Up => (near, query),
    }
}

fn leg_of(sinh: f64) -> Leg {
    let excess = time_excess(sinh * sinh, 1.0);
    Leg { cosh: 1.0 + excess, sinh, excess }
}

/// [`turn_of`] the exterior angle at a parent of a child that is `beside` it; nothing where one cannot tell.
fn turn_between(parent: Leg, child: Leg, beside: Turn) -> Option<f64> {
    let across = child.sinh * beside.sin;
    let along = child.sinh * parent.cosh * beside.cos - child.cosh * parent.sinh;
    let sum = along.abs() + across;
    if parent.sinh <= bounds::SHORT_SIDE * bounds::SHORT_SIDE || sum <= bounds::SHORT_SIDE * parent.cosh * child.cosh {
        return None;
    }
    let acute = across / sum;
    Some(if along < 0.0 { 2.0 - acute } else { acute })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and differences of angles against the angles themselves.
    #[test]
    fn turns_add_like_angles() {
        let turn = |angle: f64| Turn { cos: angle.cos(), sin: angle.sin() };
        for i in 0..=32 {
            for j in 0..=32 {
                let (a, b) = (f64::from(i) * 0.098, f64::from(j) * 0.098);
                let (less, plus) = (turn(a).less(turn(b)), turn(a).plus(turn(b)));
                let angle = |turn: Turn| turn.sin.atan2(turn.cos);
                assert!((angle(less) - (a - b).max(0.0)).abs() < 1e-12, "{a} - {b}");
                assert!((angle(plus) - (a + b).min(std::f64::consts::PI)).abs() < 1e-12, "{a} + {b}");
            }
        }
    }
}
