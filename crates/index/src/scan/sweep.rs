//! The first pass: compares queries with blocks of rows and finds the rows that may be among the best.

use conifer_geometry::slices::dot;
use conifer_geometry::spaces::lorentz::time_excess;
use macerator::{AutoArch, Simd, WithSimd};

use super::formula::{BoundFormula, with_term};
use super::terms::{self, Factor, PointValues, Term};
use super::values::{RowValues, from_excess};
use super::{BoundPlan, LowerBound, Scan};
use crate::kernel::{self, LANES, Lanes, ROWS, StoredCoordinate, WIDE, add_dots};
use crate::mapped::MappedCoordinate;
use crate::raw::all_above;
use crate::rows::{PointRows, RowsView};
use crate::select::Bounds;

/// Number of rows per block. The rows and their intermediate values stay in the cache.
pub(crate) const BLOCK: usize = 48;
/// Up to this many queries are compared with each row separately, with vector registers along the row.
const FEW: usize = 3;
/// Number of factors between checks that drop the rows which are excluded for every query.
const ABANDON: usize = 8;

/// A set of queries, prepared for one ranking.
pub(crate) struct Sweep<'a> {
    scan: &'a Scan,
    plan: BoundPlan,
    queries: Vec<&'a [f32]>,
    /// `[queries, factors]`.
    values: Vec<PointValues>,
    /// Empty if there are at most [`FEW`] queries.
    panels: Vec<QueryPanel>,
    /// `curv` and `unit` of the factors, [`LANES`] per entry, padded with curvature 1 and unit 0.
    wide_factors: Vec<[Lanes; 2]>,
    /// `[queries, factors / 16]`, rounded up: the three numbers of the [`PointValues`]. Empty for more than [`FEW`]
    /// queries or a single factor.
    wide_values: Vec<[Lanes; 3]>,
    /// Multiplier of a sum over factors that allows for the rounding of the sum here and in the exact score. 1 if the
    /// terms already allow for it.
    shrink: f32,
    /// True if all terms are non-negative, so that a partial sum is a lower bound.
    grows: bool,
}

/// Up to `16 width` interleaved queries.
struct QueryPanel {
    first: usize,
    width: usize,
    /// `[dim, width]`.
    coordinates: Vec<Lanes>,
    /// `[factors, width]`: the three numbers of the [`PointValues`].
    values: Vec<[Lanes; 3]>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct SweepBuffers {
    wide: Vec<f32>,
    dots: Vec<Lanes>,
    keys: Vec<Lanes>,
    gates: Vec<Lanes>,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(scan: &'a Scan, plan: BoundPlan, queries: &[&'a [f32]]) -> Self {
        let (factors, dim) = (&scan.factors, scan.spec.factor_dim());
        let value = |part: &[f32], factor: Factor| match &scan.rows {
            RowValues::Chords(_) => {
                let apart = conifer_geometry::slices::sums(part, &scan.root, |a, b| [(a - b) * (a - b)])[0].sqrt();
                PointValues { a: dot(part, part), b: dot(&scan.root, part), c: apart }
            }
            RowValues::Hyperboloids(_) => from_excess(time_excess(dot(part, part), factor.curv), factor),
        };
        let parts = |query: &&'a [f32]| query.chunks_exact(dim);
        let values: Vec<PointValues> =
            queries.iter().flat_map(|q| parts(q).zip(factors).map(|(part, factor)| value(part, *factor))).collect();
        let mut sweep = Sweep {
            scan,
            plan,
            queries: queries.to_vec(),
            values,
            panels: Vec::new(),
            wide_factors: Vec::new(),
            wide_values: Vec::new(),
            shrink: 1.0,
            grows: with_term!(plan.key, T => T::GROWS, depth => true),
        };
        if sweep.grows {
            sweep.shrink = 1.0 - 2.0 * super::errors::joining(factors.len()) as f32;
        }
        if queries.len() > FEW {
            let wide = if queries.len() > LANES { kernel::wide() } else { 1 };
            let mut first = 0;
            while first < queries.len() {
                // A nearly empty wide panel is slower than a narrow one.
                let width = if queries.len() - first > 2 * LANES { wide } else { 1 };
                sweep.panels.push(sweep.panel(first, width));
                first += width * LANES;
            }
        } else if factors.len() > 1 {
            let wide = |i: usize| {
                let at = |lane: usize| factors.get(i * LANES + lane).copied();
                let curv = Lanes::from_fn(|lane| at(lane).map_or(1.0, |it| it.curv));
                [curv, Lanes::from_fn(|lane| at(lane).map_or(0.0, |it| it.unit))]
            };
            sweep.wide_factors = (0..factors.len().div_ceil(LANES)).map(wide).collect();
            let of_query = |values: &[PointValues]| -> Vec<[Lanes; 3]> {
                let number = |part: &[PointValues], of: fn(&PointValues) -> f32| {
                    Lanes::from_fn(|lane| part.get(lane).map_or(0.0, of))
                };
                let wide = |part| [number(part, |it| it.a), number(part, |it| it.b), number(part, |it| it.c)];
                values.chunks(LANES).map(wide).collect()
            };
            sweep.wide_values = sweep.values.chunks(factors.len()).flat_map(of_query).collect();
        }
        sweep
    }

    fn panel(&self, first: usize, width: usize) -> QueryPanel {
        let (dim, count) = (self.scan.spec.dim, self.scan.factors.len());
        let query =
            |column: usize, lane: usize| Some(first + column * LANES + lane).filter(|q| *q < self.queries.len());
        let columns = |k: usize| (0..width).map(move |column| (k, column));
        let coordinate = |(k, column): (usize, usize)| {
            Lanes::from_fn(|lane| query(column, lane).map_or(0.0, |q| self.queries[q][k]))
        };
        let value = |(factor, column): (usize, usize)| {
            let number = |part: fn(&PointValues) -> f32| {
                Lanes::from_fn(|lane| query(column, lane).map_or(0.0, |q| part(&self.values[q * count + factor])))
            };
            [number(|it| it.a), number(|it| it.b), number(|it| it.c)]
        };
        QueryPanel {
            first,
            width,
            coordinates: (0..dim).flat_map(columns).map(coordinate).collect(),
            values: (0..count).flat_map(columns).map(value).collect(),
        }
    }

    /// Writes to `found` the pairs `(i, query)` for which row `numbers[i]` (at most [`BLOCK`] rows) may be among the
    /// best: its lower bound is at most `limits[query]`, and the gate does not exclude it. Some of these rows are not
    /// among the best. `depths` holds the depths of all rows if the ranking needs them.
    pub(crate) fn find_candidates(
        &self,
        rows: &PointRows,
        numbers: &[u32],
        depths: &[f32],
        limits: &[f32],
        scratch: &mut SweepBuffers,
        found: &mut Vec<(u32, u32)>,
    ) {
        found.clear();
        AutoArch::new().dispatch(FindCandidates { sweep: self, rows, numbers, depths, limits, scratch, found });
    }

    /// Converts a lower bound to the scale of the keys.
    pub(crate) fn lower_bound(&self, lower_bound: LowerBound) -> f32 {
        self.plan.key.lower_bound(&self.scan.factors, lower_bound)
    }

    /// Bounds on the key of one row; `None` if the row does not pass the gate.
    pub(crate) fn bounds(&self, query: usize, row: usize, point: &[f32], depths: &[f32]) -> Option<Bounds> {
        let mut key = self.sum(self.plan.key, query, row, point, depths);
        if let Some((formula, limit)) = self.plan.gate {
            let gate = self.sum(formula, query, row, point, depths);
            if gate.low > limit.out_above {
                return None;
            }
            let inside = gate.high <= limit.in_up_to;
            if !inside {
                key.high = f32::INFINITY;
            }
        }
        Some(key)
    }

    fn sum(&self, formula: BoundFormula, query: usize, row: usize, point: &[f32], depths: &[f32]) -> Bounds {
        let (count, dim) = (self.scan.factors.len(), self.scan.spec.factor_dim());
        let mut sum = Bounds { low: 0.0, high: 0.0 };
        for (i, factor) in self.scan.factors.iter().enumerate() {
            let at = i * dim..(i + 1) * dim;
            let dot = dot(&self.queries[query][at.clone()], &point[at]);
            let (query, row_value) = (self.values[query * count + i], self.scan.rows.at(row, count, i, *factor));
            let bounds = with_term!(formula, T => T::bounds(*factor, query, row_value, dot), depth => {
                return Bounds { low: depths[row], high: depths[row] };
            });
            sum = Bounds { low: sum.low + bounds.low, high: sum.high + bounds.high };
        }
        // If a term may be negative, `shrink` is 1.
        Bounds { low: sum.low * self.shrink, high: sum.high / self.shrink }.or_unknown()
    }
}

/// [`Sweep::find_candidates`] for the instruction set of this machine. It is a struct because closures are compiled as
/// separate functions for the baseline instruction set.
struct FindCandidates<'a, 'b> {
    sweep: &'a Sweep<'a>,
    rows: &'a PointRows,
    numbers: &'a [u32],
    depths: &'a [f32],
    limits: &'a [f32],
    scratch: &'b mut SweepBuffers,
    found: &'b mut Vec<(u32, u32)>,
}

impl WithSimd for FindCandidates<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let dim = self.sweep.scan.spec.dim;
        if !self.sweep.panels.is_empty() {
            return self.panels::<S>();
        }
        match self.rows {
            PointRows::F32(coordinates) => self.along::<S, f32>(coordinates.view(), dim),
            PointRows::F16(coordinates) => self.along::<S, half::f16>(coordinates.view(), dim),
        }
    }
}

impl<'a> FindCandidates<'a, '_> {
    /// For many queries: multiplies each panel with all rows of the block.
    #[inline(always)]
    fn panels<S: Simd>(self) {
        let dim = self.sweep.scan.spec.dim;
        let SweepBuffers { wide, dots, keys, gates } = self.scratch;
        let mut points: [&[f32]; BLOCK] = [&[]; BLOCK];
        match self.rows {
            PointRows::F32(coordinates) => {
                let coordinates = coordinates.view();
                for (point, row) in points.iter_mut().zip(self.numbers) {
                    *point = coordinates.row(*row as usize, dim);
                }
            }
            PointRows::F16(coordinates) => {
                let coordinates = coordinates.view();
                wide.resize(BLOCK * dim, 0.0);
                for (to, row) in wide.chunks_exact_mut(dim).zip(self.numbers) {
                    let from = coordinates.row(*row as usize, dim);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.wide());
                }
                points.iter_mut().zip(wide.chunks_exact(dim)).for_each(|(point, wide)| *point = wide);
            }
        }
        let count = self.numbers.len();
        for i in count..BLOCK {
            points[i] = points[0];
        }
        for buffer in [&mut *dots, keys, gates] {
            buffer.resize(BLOCK * WIDE, Lanes::ZERO);
        }
        for panel in &self.sweep.panels {
            let mut block = PanelBlock {
                sweep: self.sweep,
                panel,
                depths: self.depths,
                alive: std::array::from_fn(|i| i as u32),
                points,
                count,
                numbers: self.numbers,
                dots,
                keys,
                gates,
            };
            block.run::<S>(self.limits, self.found);
        }
    }

    /// For few queries: one row at a time, with registers along the row.
    #[inline(always)]
    fn along<S: Simd, E: MappedCoordinate>(self, coordinates: RowsView<'_, E>, dim: usize) {
        if self.sweep.scan.factors.len() == 1 {
            self.along_single::<S, E>(coordinates, dim);
        } else {
            self.along_factors::<S, E>(coordinates, dim);
        }
    }

    #[inline(always)]
    fn along_single<S: Simd, E: MappedCoordinate>(self, coordinates: RowsView<'_, E>, dim: usize) {
        let (sweep, factor) = (self.sweep, self.sweep.scan.factors[0]);
        for (group, numbers) in self.numbers.chunks(LANES).enumerate() {
            let number = |lane: usize| *numbers.get(lane).unwrap_or(&numbers[0]) as usize;
            let mut values = [Lanes::ZERO; 3];
            for lane in 0..LANES {
                let PointValues { a, b, c } = sweep.scan.rows.at(number(lane), 1, 0, factor);
                (values[0].0[lane], values[1].0[lane], values[2].0[lane]) = (a, b, c);
            }
            for (q, query) in sweep.queries.iter().enumerate() {
                let mut dots = Lanes::ZERO;
                for lane in 0..numbers.len() {
                    dots.0[lane] = kernel::dot::<S, E>(query, coordinates.row(number(lane), dim));
                }
                let value = sweep.values[q];
                let mut depths = Lanes::ZERO;
                if !self.depths.is_empty() {
                    for lane in 0..LANES {
                        depths.0[lane] = self.depths[number(lane)];
                    }
                }
                let keys = lows(sweep.plan.key, factor, value, &values, &dots, &depths);
                let mut gates = [false; LANES];
                if let Some((formula, limit)) = sweep.plan.gate {
                    let lows = lows(formula, factor, value, &values, &dots, &depths);
                    gates = lows.0.map(|low| low > limit.out_above);
                }
                for (lane, gated) in gates.into_iter().enumerate().take(numbers.len()) {
                    if !(gated || keys.0[lane] > self.limits[q]) {
                        self.found.push(((group * LANES + lane) as u32, q as u32));
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn along_factors<S: Simd, E: MappedCoordinate>(self, coordinates: RowsView<'_, E>, dim: usize) {
        let sweep = self.sweep;
        let RowValues::Hyperboloids(excess) = &sweep.scan.rows else { return };
        let (count, groups) = (sweep.scan.factors.len(), sweep.wide_factors.len());
        for (i, number) in self.numbers.iter().enumerate() {
            let number = *number as usize;
            let (point, excess) = (coordinates.row(number, dim), &excess[number * count..][..count]);
            for (q, query) in sweep.queries.iter().enumerate() {
                let values = &sweep.wide_values[q * groups..][..groups];
                if self.out::<S, E>(sweep.plan.key, self.limits[q], number, query, values, point, excess) {
                    continue;
                }
                if let Some((formula, limit)) = sweep.plan.gate
                    && self.out::<S, E>(formula, limit.out_above, number, query, values, point, excess)
                {
                    continue;
                }
                self.found.push((i as u32, q as u32));
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the parts of a query and a row")]
    fn out<S: Simd, E: StoredCoordinate>(
        &self,
        formula: BoundFormula,
        limit: f32,
        row: usize,
        query: &[f32],
        values: &[[Lanes; 3]],
        point: &[E],
        excess: &[f32],
    ) -> bool {
        with_term!(formula, T => self.sum::<S, E, T>(query, values, point, excess, limit), depth => self.depths[row])
            > limit
    }

    /// The lower bound on a sum over factors. Stops early with a value above the limit once the sum exceeds the limit.
    #[inline(always)]
    fn sum<S: Simd, E: StoredCoordinate, T: Term>(
        &self,
        query: &[f32],
        values: &[[Lanes; 3]],
        point: &[E],
        excess: &[f32],
        limit: f32,
    ) -> f32 {
        let sweep = self.sweep;
        let (dim, Factor { rounding, joining, .. }) = (sweep.scan.spec.factor_dim(), sweep.scan.factors[0]);
        let mut total = 0.0;
        for (group, excess) in excess.chunks(LANES).enumerate() {
            let at = group * LANES * dim..(group * LANES + excess.len()) * dim;
            let mut dots = Lanes::ZERO;
            factor_dots::<S, E>(&query[at.clone()], &point[at], dim, &mut dots);
            let [curv, unit] = &sweep.wide_factors[group];
            let mut around = Lanes::ZERO;
            around.0[..excess.len()].copy_from_slice(excess);
            let [a, b, c] = &values[group];
            let mut lows = Lanes::ZERO;
            for lane in 0..LANES {
                let factor = Factor { curv: curv.0[lane], unit: unit.0[lane], rounding, root: 0.0, joining };
                let query = PointValues { a: a.0[lane], b: b.0[lane], c: c.0[lane] };
                lows.0[lane] = T::low_without_norm(factor, query, from_excess(around.0[lane], factor), dots.0[lane]);
            }
            let mut sum = 0.0;
            for (lane, low) in lows.0.iter().enumerate() {
                sum += if lane < excess.len() { *low } else { 0.0 };
            }
            total += sum;
            if T::GROWS && total * sweep.shrink > limit {
                break;
            }
        }
        total * sweep.shrink
    }
}

/// Lower bounds for one query and [`LANES`] rows.
#[inline(always)]
fn lows(
    formula: BoundFormula,
    factor: Factor,
    query: PointValues,
    rows: &[Lanes; 3],
    dots: &Lanes,
    depths: &Lanes,
) -> Lanes {
    let mut out = Lanes::ZERO;
    with_term!(formula, T => {
        for lane in 0..LANES {
            let row = PointValues { a: rows[0].0[lane], b: rows[1].0[lane], c: rows[2].0[lane] };
            out.0[lane] = T::low(factor, query, row, dots.0[lane]);
        }
    }, depth => out = *depths);
    out
}

#[inline(always)]
fn factor_dots<S: Simd, E: StoredCoordinate>(x: &[f32], y: &[E], dim: usize, out: &mut Lanes) {
    if dim == 8 && x.len() == 8 * LANES {
        if E::dots_of_eight::<S>(x, y, out) {
            return;
        }
        let (x, y) = (x.as_chunks::<8>().0, y.as_chunks::<8>().0);
        for lane in 0..LANES {
            let (x, y) = (&x[lane], &y[lane]);
            let even = (x[0] * y[0].wide() + x[4] * y[4].wide()) + (x[2] * y[2].wide() + x[6] * y[6].wide());
            let odd = (x[1] * y[1].wide() + x[5] * y[5].wide()) + (x[3] * y[3].wide() + x[7] * y[7].wide());
            out.0[lane] = even + odd;
        }
    } else {
        for ((x, y), out) in x.chunks_exact(dim).zip(y.chunks_exact(dim)).zip(&mut out.0) {
            *out = kernel::dot::<S, E>(x, y);
        }
    }
}

/// The state of one panel and one block of rows.
struct PanelBlock<'a, 'b> {
    sweep: &'a Sweep<'a>,
    panel: &'a QueryPanel,
    depths: &'a [f32],
    numbers: &'a [u32],
    /// The remaining rows: their positions in the block and their coordinates.
    alive: [u32; BLOCK],
    points: [&'b [f32]; BLOCK],
    count: usize,
    dots: &'b mut [Lanes],
    keys: &'b mut [Lanes],
    gates: &'b mut [Lanes],
}

impl PanelBlock<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(&mut self, limits: &[f32], found: &mut Vec<(u32, u32)>) {
        let (panel, plan) = (self.panel, self.sweep.plan);
        let (width, dim) = (panel.width, self.sweep.scan.spec.factor_dim());
        let mut most = [Lanes([f32::NEG_INFINITY; LANES]); WIDE];
        let query_count = (self.sweep.queries.len() - panel.first).min(width * LANES);
        for (i, limit) in limits[panel.first..][..query_count].iter().enumerate() {
            most[i / LANES].0[i % LANES] = *limit;
        }
        self.keys.fill(Lanes::ZERO);
        self.gates.fill(Lanes::ZERO);
        for index in 0..self.sweep.scan.factors.len() {
            let padded = self.count.next_multiple_of(ROWS);
            self.dots[..padded * width].fill(Lanes::ZERO);
            let coordinates = &panel.coordinates[index * dim * width..][..dim * width];
            add_dots::<S>(coordinates, width, &self.points[..padded], index * dim, self.dots);
            self.add(plan.key, index, false);
            if let Some((formula, _)) = plan.gate {
                self.add(formula, index, true);
            }
            if self.sweep.grows && (index + 1) % ABANDON == 0 {
                self.abandon::<S>(&most);
                if self.count == 0 {
                    return;
                }
            }
        }
        for i in 0..self.count {
            if self.out::<S>(i, &most) {
                continue;
            }
            for query in 0..query_count {
                let (column, lane) = (query / LANES, query % LANES);
                if !self.lane_out(i * width + column, lane, most[column].0[lane]) {
                    found.push((self.alive[i], (panel.first + query) as u32));
                }
            }
        }
    }

    /// Adds the lower bound on one factor to the sums of the key or of the gate.
    #[inline(always)]
    fn add(&mut self, formula: BoundFormula, index: usize, gate: bool) {
        let (scan, width) = (&self.sweep.scan, self.panel.width);
        let factor = scan.factors[index];
        let values = &self.panel.values[index * width..][..width];
        let sums = if gate { &mut *self.gates } else { &mut *self.keys };
        for i in 0..self.count {
            let number = self.numbers[self.alive[i] as usize] as usize;
            let row = scan.rows.at(number, scan.factors.len(), index, factor);
            let at = i * width..(i + 1) * width;
            let dots = &self.dots[at.clone()];
            let sums = &mut sums[at];
            with_term!(formula, T => add_term::<T>(factor, values, row, dots, sums), depth => {
                sums.fill(Lanes([self.depths[number]; LANES]));
            });
        }
    }

    /// True if a row is excluded for every query of the panel, by its key or by the gate.
    #[inline(always)]
    fn out<S: Simd>(&self, i: usize, most: &[Lanes; WIDE]) -> bool {
        let (at, shrink) = (i * self.panel.width..(i + 1) * self.panel.width, self.sweep.shrink);
        if all_above::<S>(&self.keys[at.clone()], shrink, most) {
            return true;
        }
        match self.sweep.plan.gate {
            Some((_, limit)) => all_above::<S>(&self.gates[at], shrink, &[Lanes([limit.out_above; LANES]); WIDE]),
            None => false,
        }
    }

    #[inline(always)]
    fn lane_out(&self, at: usize, lane: usize, limit: f32) -> bool {
        let shrink = self.sweep.shrink;
        let gated = match self.sweep.plan.gate {
            Some((_, limit)) => self.gates[at].0[lane] * shrink > limit.out_above,
            None => false,
        };
        gated | (self.keys[at].0[lane] * shrink > limit)
    }

    /// Drops the rows that are excluded for every query. Terms of later factors are not negative, so the lower bound
    /// of a dropped row cannot fall below the limit again.
    #[inline(always)]
    fn abandon<S: Simd>(&mut self, most: &[Lanes; WIDE]) {
        let width = self.panel.width;
        let mut remaining = 0;
        for i in 0..self.count {
            if !self.out::<S>(i, most) {
                self.alive[remaining] = self.alive[i];
                self.points[remaining] = self.points[i];
                self.keys.copy_within(i * width..(i + 1) * width, remaining * width);
                self.gates.copy_within(i * width..(i + 1) * width, remaining * width);
                remaining += 1;
            }
        }
        self.count = remaining;
    }
}

#[inline(always)]
fn add_term<T: Term>(factor: Factor, values: &[[Lanes; 3]], row: PointValues, dots: &[Lanes], sums: &mut [Lanes]) {
    for (([a, b, c], dots), sums) in values.iter().zip(dots).zip(sums) {
        // A plain loop: a closure may not be inlined, and is then compiled for the baseline instruction set. The same
        // holds for the other loops over lanes.
        for lane in 0..LANES {
            let query = PointValues { a: a.0[lane], b: b.0[lane], c: c.0[lane] };
            sums.0[lane] += T::low(factor, query, row, dots.0[lane]);
        }
    }
}
