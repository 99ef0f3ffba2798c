//! The sums of CO-SNE for many points: a sparse table of similarities, and a tree of the disc for the repulsion
//! (Barnes and Hut 1986; for the hyperbolic plane Skrodzki et al. 2024, "Accelerating hyperbolic t-SNE").
//!
//! The tree is a quadtree of the Poincare disc. The disc is a conformal model, so a small square is round in the
//! hyperbolic metric too. A cell stands for its `n` points if its radius `r`, the largest hyperbolic distance of a point
//! from its centre, is at most `theta` times the distance `d` of the centre. The distance of each of its points is then
//! between `(1 - theta) d` and `(1 + theta) d`.
//!
//! With the points on the hyperboloid, `cosh d_ij = -<x_i, x_j>` is linear in `x_j`, so the mean of `cosh d_ij` over the
//! points of a cell is `-<x_i, m>` for their mean `m`. The centre of a cell is the direction of `m`, and `rho = |m| >= 1`
//! its Lorentzian length: `mean(cosh d_ij) = rho cosh d`. The kernel is evaluated at this mean, which has no error of
//! first order.

use conifer_geometry::slices::norm;
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::NeighbourTable;
use super::cosne_terms::{DiscPoints, KernelShape, PairForces, PairTerms};
use super::perplexity::similarities;
use super::umap::mobius;
use crate::{Error, Result};

/// Largest number of points of a leaf, unless they are closer than the finest grid.
const LEAF: usize = 8;
/// Number of halvings of the square around the disc: cells of size 1e-9, which is 1e-3 in the hyperbolic metric at the
/// largest radius of a point.
const LEVELS: u32 = 31;
/// Number of points whose sums are computed one after the other by a thread.
const BLOCK: usize = 256;
/// Number of terms that are evaluated together.
const TILE: usize = 64;

/// Similarities of the nearest rows, and a tree for the other sums.
pub(super) struct TreeTerms {
    /// First edge of each row; one more entry at the end.
    starts: Vec<usize>,
    ends: Vec<u32>,
    /// `p_ij` of each edge.
    similar: Vec<f64>,
    entropy: f64,
    theta: f64,
}

impl TreeTerms {
    pub(super) fn new(neighbours: &NeighbourTable, perplexity: f64, theta: f64) -> Result<Self> {
        if !(0.0..1.0).contains(&theta) {
            return Err(Error::invalid("theta", theta, "0 to below 1"));
        }
        let (len, count) = (neighbours.len(), neighbours.count());
        if perplexity >= count as f64 {
            let expected = format!("more than the perplexity {perplexity}, better ten times as many");
            return Err(Error::invalid("number of neighbours", count, expected));
        }
        let of_row = |i: usize| {
            let squares: Vec<f64> = neighbours.distances(i).iter().map(|d| d * d).collect();
            similarities(&squares, perplexity.ln())
        };
        let conditional: Vec<Vec<f64>> = (0..len).into_par_iter().map(of_row).collect();
        let mut edges: Vec<Vec<(u32, f64)>> = vec![Vec::new(); len];
        for (i, own) in conditional.iter().enumerate() {
            for (j, p) in neighbours.of(i).iter().zip(own) {
                let p = p / (2 * len) as f64;
                edges[i].push((*j, p));
                edges[*j as usize].push((i as u32, p));
            }
        }
        edges.par_iter_mut().for_each(|edges| {
            // A stable order of equal rows keeps the order of the additions.
            edges.sort_by_key(|it| it.0);
            edges.dedup_by(|second, first| {
                let is_same = second.0 == first.0;
                first.1 += if is_same { second.1 } else { 0.0 };
                is_same
            });
            edges.retain(|it| it.1 > 0.0);
        });
        let of_row = |edges: &Vec<(u32, f64)>| edges.iter().map(|(_, p)| p * p.ln()).sum::<f64>();
        let entropy = edges.iter().map(of_row).sum();
        let mut starts = vec![0];
        edges.iter().for_each(|edges| starts.push(starts[starts.len() - 1] + edges.len()));
        let (ends, similar) = edges.into_iter().flatten().unzip();
        Ok(TreeTerms { starts, ends, similar, entropy, theta })
    }
}

impl PairTerms for TreeTerms {
    fn entropy(&self) -> f64 {
        self.entropy
    }

    fn forces(&self, points: &DiscPoints, shape: KernelShape, with_log: bool) -> PairForces {
        let tree = DiscTree::new(points, self.theta);
        let len = points.x.len();
        let block = |block: usize| {
            let first = block * BLOCK;
            let rows = &tree.order[first..(first + BLOCK).min(len)];
            AutoArch::new().dispatch(TreePart { terms: self, tree: &tree, points, shape, with_log, rows })
        };
        let blocks: Vec<Vec<RowSums>> = (0..len.div_ceil(BLOCK)).into_par_iter().map(block).collect();
        let mut found = PairForces {
            attraction: vec![[0.0; 2]; len],
            repulsion: vec![[0.0; 2]; len],
            kernel_sum: 0.0,
            log_sum: 0.0,
        };
        for (i, sums) in tree.order.iter().zip(blocks.iter().flatten()) {
            found.attraction[*i as usize] = sums.attraction.map(|v| 2.0 * v);
            found.repulsion[*i as usize] = sums.repulsion;
            found.kernel_sum += sums.kernel_sum;
            found.log_sum += sums.log_sum;
        }
        found
    }
}

/// Sums over the other points for one point.
#[derive(Clone, Copy, Default)]
struct RowSums {
    attraction: [f64; 2],
    repulsion: [f64; 2],
    kernel_sum: f64,
    log_sum: f64,
}

/// A cell of the tree. The cells are in depth-first order, so the cells inside this one follow it.
struct DiscCell {
    centre: [f64; 2],
    /// `1 / (1 - |centre|^2)`.
    inverse: f64,
    /// Number of points.
    count: f64,
    /// `rho - 1` of the module documentation.
    excess: f64,
    /// The cell stands for its points at distances `d` with `cosh(d) - 1` above this.
    least: f64,
    /// Number of the first cell that is not inside this one.
    next: usize,
    /// Range of the points in [`DiscTree::order`]; empty unless the cell is a leaf.
    leaf: std::ops::Range<usize>,
}

/// The tree over all points.
pub(super) struct DiscTree {
    /// The points, sorted by their place on a space-filling curve.
    order: Vec<u32>,
    cells: Vec<DiscCell>,
}

impl DiscTree {
    pub(super) fn new(points: &DiscPoints, theta: f64) -> Self {
        let code = |i: usize| (place_code(points.x[i], points.y[i]), i as u32);
        let mut codes: Vec<(u64, u32)> = (0..points.x.len()).into_par_iter().map(code).collect();
        codes.par_sort_unstable();
        let mut cells = Vec::new();
        let builder = DiscTreeBuilder { points, codes: &codes, theta };
        _ = builder.add(0..codes.len(), 2 * LEVELS, &mut cells);
        DiscTree { order: codes.iter().map(|it| it.1).collect(), cells }
    }
}

/// Interleaved bits of both coordinates, scaled from [-1, 1] to [`LEVELS`] bits.
fn place_code(x: f64, y: f64) -> u64 {
    let bits = |v: f64| {
        let mut bits = ((v + 1.0) / 2.0 * f64::from(1_u32 << LEVELS)) as u64;
        for (shift, mask) in [
            (16, 0x0000_ffff_0000_ffff),
            (8, 0x00ff_00ff_00ff_00ff),
            (4, 0x0f0f_0f0f_0f0f_0f0f),
            (2, 0x3333_3333_3333_3333),
            (1, 0x5555_5555_5555_5555),
        ] {
            bits = (bits | bits << shift) & mask;
        }
        bits
    };
    bits(x) | bits(y) << 1
}

/// The sum of points on the hyperboloid: its direction as a point of the disc, and its Lorentzian length.
#[derive(Clone, Copy)]
struct LorentzSum {
    centre: [f64; 2],
    length: f64,
    /// `length` minus the number of points, added up without cancellation.
    excess: f64,
}

impl LorentzSum {
    fn of_point(centre: [f64; 2]) -> Self {
        LorentzSum { centre, length: 1.0, excess: 0.0 }
    }

    /// In coordinates in which this centre is the origin, the sum is `M_1 (1, 0) + M_2 (cosh d, sinh(d) e)`. Its squared
    /// length is `(M_1 + M_2)^2 + 2 M_1 M_2 (cosh d - 1)`.
    fn add(&mut self, other: LorentzSum) {
        let apart = mobius(self.centre.map(|v| -v), other.centre);
        let square = apart[0] * apart[0] + apart[1] * apart[1];
        let u = 2.0 * square / (1.0 - square); // cosh(d) - 1
        let both = self.length + other.length;
        let gain = 2.0 * self.length * other.length * u;
        let length = (both * both + gain).sqrt();
        self.excess += other.excess + gain / (length + both);
        // Space components sinh(d) e = 2 apart / (1 - |apart|^2), divided by the length; then x / (1 + t).
        let along = apart.map(|v| other.length * 2.0 * v / (1.0 - square) / length);
        let time = (1.0 + along[0] * along[0] + along[1] * along[1]).sqrt();
        self.centre = mobius(self.centre, along.map(|v| v / (1.0 + time)));
        self.length = length;
    }
}

struct DiscTreeBuilder<'a> {
    points: &'a DiscPoints,
    /// Codes and point numbers, sorted.
    codes: &'a [(u64, u32)],
    theta: f64,
}

impl DiscTreeBuilder<'_> {
    /// Appends the cell of a range of points, whose codes agree above the lowest `bits`, and the cells inside it.
    fn add(&self, range: std::ops::Range<usize>, bits: u32, cells: &mut Vec<DiscCell>) -> Option<LorentzSum> {
        let codes = &self.codes[range.clone()];
        let (first, last) = (codes.first()?.0, codes.last()?.0);
        // A chain of cells with one inner cell each is left out.
        let bits = bits.min((64 - (first ^ last).leading_zeros()).next_multiple_of(2));
        let at = cells.len();
        let is_leaf = range.len() <= LEAF || bits == 0;
        let leaf = if is_leaf { range.clone() } else { 0..0 };
        cells.push(DiscCell { centre: [0.0; 2], inverse: 1.0, count: 0.0, excess: 0.0, least: 0.0, next: 0, leaf });
        let mut sum: Option<LorentzSum> = None;
        let mut join = |part: LorentzSum| match &mut sum {
            Some(sum) => sum.add(part),
            None => sum = Some(part),
        };
        if is_leaf {
            codes.iter().for_each(|(_, i)| join(LorentzSum::of_point(self.place(*i))));
        } else {
            let mut start = range.start;
            for quarter in 0..4 {
                let inside = self.codes[start..range.end].partition_point(|it| (it.0 >> (bits - 2)) & 3 <= quarter);
                if let Some(part) = self.add(start..start + inside, bits - 2, cells) {
                    join(part);
                }
                start += inside;
            }
        }
        let sum = sum?;
        let inverse = 1.0 / (1.0 - sum.centre[0] * sum.centre[0] - sum.centre[1] * sum.centre[1]);
        let far = codes.iter().map(|(_, i)| self.excess_of(sum.centre, inverse, *i)).fold(0.0, f64::max);
        let count = range.len() as f64;
        let next = cells.len();
        let cell = &mut cells[at];
        (cell.centre, cell.inverse, cell.count, cell.next) = (sum.centre, inverse, count, next);
        cell.excess = sum.excess / count;
        // cosh(r / theta) - 1, where cosh(r) - 1 is `far`
        let radius = 2.0 * (far / 2.0).sqrt().asinh();
        cell.least = 2.0 * (radius / self.theta / 2.0).sinh().powi(2);
        Some(sum)
    }

    fn place(&self, i: u32) -> [f64; 2] {
        [self.points.x[i as usize], self.points.y[i as usize]]
    }

    /// `cosh(d) - 1` of a place and a point.
    fn excess_of(&self, [x, y]: [f64; 2], inverse: f64, i: u32) -> f64 {
        let apart = norm(&[x - self.points.x[i as usize], y - self.points.y[i as usize]]);
        2.0 * apart * apart * inverse * self.points.inverse[i as usize]
    }
}

/// Terms of one point, evaluated together: places with a weight and a mean that is off the hyperboloid.
struct TermTile {
    count: usize,
    x: [f64; TILE],
    y: [f64; TILE],
    inverse: [f64; TILE],
    /// Number of points at the place, or `p_ij`.
    weight: [f64; TILE],
    excess: [f64; TILE],
    kernel: [f64; TILE],
    force: [[f64; TILE]; 2],
}

impl TermTile {
    fn new() -> Self {
        let zero = [0.0; TILE];
        TermTile {
            count: 0,
            x: zero,
            y: zero,
            inverse: zero,
            weight: zero,
            excess: zero,
            kernel: zero,
            force: [zero; 2],
        }
    }

    #[inline(always)]
    fn push(&mut self, [x, y]: [f64; 2], inverse: f64, weight: f64, excess: f64) {
        let at = self.count;
        (self.x[at], self.y[at], self.inverse[at]) = (x, y, inverse);
        (self.weight[at], self.excess[at]) = (weight, excess);
        self.count += 1;
    }

    /// Computes the kernel and the derivative of `-ln w` of each term.
    #[inline(always)]
    fn evaluate(&mut self, [xi, yi]: [f64; 2], inv_i: f64, shape: KernelShape) {
        for at in 0..TILE {
            let (dx, dy) = (xi - self.x[at], yi - self.y[at]);
            let chord = dx * dx + dy * dy;
            let u = 2.0 * chord * inv_i * self.inverse[at];
            let (kernel, slope) = shape.at(u + self.excess[at] * (1.0 + u));
            let scale = 4.0 * inv_i * self.inverse[at] * slope * (1.0 + self.excess[at]);
            let ci = chord * inv_i;
            self.kernel[at] = kernel;
            self.force[0][at] = scale * (dx + ci * xi);
            self.force[1][at] = scale * (dy + ci * yi);
        }
    }

    /// Evaluates the collected terms as repulsion, and empties the tile.
    #[inline(always)]
    fn repel(&mut self, place: [f64; 2], inverse: f64, shape: KernelShape, sums: &mut RowSums) {
        self.evaluate(place, inverse, shape);
        for at in 0..self.count {
            let kernel = self.weight[at] * self.kernel[at];
            sums.kernel_sum += kernel;
            sums.repulsion[0] += kernel * self.force[0][at];
            sums.repulsion[1] += kernel * self.force[1][at];
        }
        self.count = 0;
    }

    /// Evaluates the collected terms as attraction, and empties the tile.
    #[inline(always)]
    fn attract(&mut self, place: [f64; 2], inverse: f64, shape: KernelShape, with_log: bool, sums: &mut RowSums) {
        self.evaluate(place, inverse, shape);
        for at in 0..self.count {
            let p = self.weight[at];
            sums.attraction[0] += p * self.force[0][at];
            sums.attraction[1] += p * self.force[1][at];
            if with_log {
                sums.log_sum += p * self.kernel[at].ln();
            }
        }
        self.count = 0;
    }
}

/// The sums of some points.
struct TreePart<'a> {
    terms: &'a TreeTerms,
    tree: &'a DiscTree,
    points: &'a DiscPoints,
    shape: KernelShape,
    with_log: bool,
    rows: &'a [u32],
}

impl WithSimd for TreePart<'_> {
    type Output = Vec<RowSums>;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> Vec<RowSums> {
        let TreePart { terms, tree, points, shape, with_log, rows } = self;
        let mut tile = TermTile::new();
        let mut found = Vec::with_capacity(rows.len());
        for i in rows {
            let i = *i as usize;
            let (place, inverse) = ([points.x[i], points.y[i]], points.inverse[i]);
            let mut sums = RowSums::default();
            let mut at = 0;
            while at < tree.cells.len() {
                let cell = &tree.cells[at];
                let (dx, dy) = (place[0] - cell.centre[0], place[1] - cell.centre[1]);
                let u = 2.0 * (dx * dx + dy * dy) * inverse * cell.inverse;
                if u > cell.least {
                    tile.push(cell.centre, cell.inverse, cell.count, cell.excess);
                    at = cell.next;
                } else {
                    for j in &tree.order[cell.leaf.clone()] {
                        let j = *j as usize;
                        if j != i {
                            tile.push([points.x[j], points.y[j]], points.inverse[j], 1.0, 0.0);
                        }
                        if tile.count == TILE {
                            tile.repel(place, inverse, shape, &mut sums);
                        }
                    }
                    at += 1;
                }
                if tile.count == TILE {
                    tile.repel(place, inverse, shape, &mut sums);
                }
            }
            tile.repel(place, inverse, shape, &mut sums);
            for edge in terms.starts[i]..terms.starts[i + 1] {
                let j = terms.ends[edge] as usize;
                tile.push([points.x[j], points.y[j]], points.inverse[j], terms.similar[edge], 0.0);
                if tile.count == TILE {
                    tile.attract(place, inverse, shape, with_log, &mut sums);
                }
            }
            tile.attract(place, inverse, shape, with_log, &mut sums);
            found.push(sums);
        }
        found
    }
}
