//! Numeric checks of the statements about trees and products in PHyCLIP (Yoshikawa et al., Secs. 2 and 3, App. B): a
//! tree fits into a hyperbolic plane; products of trees and Hamming distances fit into products of planes, but not into
//! one hyperbolic space.
#![allow(clippy::unwrap_used)]

use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldSpec, Space, space};

/// A rooted tree: `parents[i] < i` is the parent of node `i`; node 0 is the root.
struct RootedTree {
    parents: Vec<usize>,
}

impl RootedTree {
    /// A tree whose leaves are at `depth` and whose inner nodes have `branching` children each.
    fn regular(branching: usize, depth: usize) -> Self {
        let (mut parents, mut level) = (vec![0], vec![0]);
        for _ in 0..depth {
            let mut next = Vec::new();
            for parent in level {
                for _ in 0..branching {
                    next.push(parents.len());
                    parents.push(parent);
                }
            }
            level = next;
        }
        Self { parents }
    }

    fn len(&self) -> usize {
        self.parents.len()
    }

    fn distance(&self, mut a: usize, mut b: usize) -> f64 {
        let mut edges = 0;
        while a != b {
            if a > b {
                a = self.parents[a]
            } else {
                b = self.parents[b]
            };
            edges += 1;
        }
        f64::from(edges)
    }

    /// Sarkar's embedding (2011) into the disc, with edges of rapidity `edge`: the neighbours of a node lie at equal
    /// angles around it. Returns points by their space components on the hyperboloid of curvature -1.
    fn in_the_plane(&self, edge: f64) -> Vec<[f64; 2]> {
        let mut children = vec![Vec::new(); self.len()];
        (1..self.len()).for_each(|node| children[self.parents[node]].push(node));
        let mut disc = vec![(0.0, 0.0); self.len()];
        for node in 0..self.len() {
            // `up` is the direction of the parent after an isometry has moved the node to the centre.
            let up = (node > 0).then(|| {
                let (x, y) = moved(disc[node], disc[self.parents[node]]);
                y.atan2(x)
            });
            let neighbours = children[node].len() + usize::from(up.is_some());
            for (i, &child) in children[node].iter().enumerate() {
                let angle = up.unwrap_or(0.0) + std::f64::consts::TAU * (i + 1) as f64 / neighbours as f64;
                let radius = (edge / 2.0).tanh();
                let (x, y) = disc[node];
                disc[child] = moved((-x, -y), (radius * angle.cos(), radius * angle.sin()));
            }
        }
        // The point `z` of the disc has the space components `2 z / (1 - |z|^2)`.
        disc.iter().map(|&(x, y)| [x, y].map(|it| 2.0 * it / (1.0 - x * x - y * y))).collect()
    }
}

/// The isometry of the disc that moves `to_centre` to the centre, applied to `z`: `(z - a) / (1 - conj(a) z)`.
fn moved(to_centre: (f64, f64), z: (f64, f64)) -> (f64, f64) {
    let ((a, b), (x, y)) = (to_centre, z);
    let (up_x, up_y) = (x - a, y - b);
    let (down_x, down_y) = (1.0 - (a * x + b * y), b * x - a * y);
    let square = down_x * down_x + down_y * down_y;
    ((up_x * down_x + up_y * down_y) / square, (up_y * down_x - up_x * down_y) / square)
}

/// Largest over smallest ratio of embedded and true distances; 1 for an isometry up to scale.
fn distortion(count: usize, embedded: impl Fn(usize, usize) -> f64, truth: impl Fn(usize, usize) -> f64) -> f64 {
    let (mut low, mut high) = (f64::INFINITY, 0.0f64);
    for (a, b) in (0..count).flat_map(|a| (0..a).map(move |b| (a, b))) {
        let ratio = embedded(a, b) / truth(a, b);
        (low, high) = (low.min(ratio), high.max(ratio));
    }
    high / low
}

/// Gromov's four-point delta: of the three ways to split four points into two pairs, half the difference of the two
/// largest sums of the distances within the pairs. It is 0 for four points of a tree, and at most log 2 in the
/// hyperbolic plane of curvature -1.
fn four_point_delta(distance: impl Fn(usize, usize) -> f64) -> f64 {
    let mut sums = [distance(0, 1) + distance(2, 3), distance(0, 2) + distance(1, 3), distance(0, 3) + distance(1, 2)];
    sums.sort_by(f64::total_cmp);
    (sums[2] - sums[1]) / 2.0
}

fn plane() -> Box<dyn Space<f64>> {
    space(&ManifoldSpec::lorentz(2, 1.0)).unwrap()
}

fn tree_distortion(tree: &RootedTree, points: &[[f64; 2]]) -> f64 {
    let plane = plane();
    distortion(tree.len(), |a, b| plane.dist(&points[a], &points[b]), |a, b| tree.distance(a, b))
}

/// Theorem 1: the distortion of a tree falls to 1 as its edges get longer.
#[test]
fn a_tree_fits_into_the_plane() {
    let tree = RootedTree::regular(3, 3);
    let found: Vec<f64> = [1.0, 2.0, 4.0, 5.0].map(|edge| tree_distortion(&tree, &tree.in_the_plane(edge))).into();
    assert!(found.is_sorted_by(|a, b| a > b), "{found:?}");
    // Neighbours of an inner node are at right angles: each turn shortens a path by log 2. The most distorted path, of
    // six edges, has four such turns and one of 120 degrees, which saves 0.29: 30 / (30 - 3.06) = 1.114.
    assert!((found[3] - 1.114).abs() < 0.005 && found[0] > 1.3, "{found:?}");
}

/// Theorem 2, Lemma 2 and Eq. 8: the product of two trees is embedded factor by factor; its distortion is at most the
/// distortion of the worse factor. The distance in conifer's product is the mean over the factors instead of the sum;
/// distortion does not depend on this constant factor.
#[test]
fn a_product_of_trees_fits_into_a_product_of_planes() {
    let trees = [RootedTree::regular(2, 3), RootedTree::regular(3, 2)];
    let planes = [trees[0].in_the_plane(4.0), trees[1].in_the_plane(4.0)];
    let product: Box<dyn Space<f64>> = space(&ManifoldSpec::product_l1(2, 2, vec![1.0, 1.0])).unwrap();
    let pairs: Vec<[usize; 2]> = (0..trees[0].len()).flat_map(|a| (0..trees[1].len()).map(move |b| [a, b])).collect();
    let point = |pair: [usize; 2]| [planes[0][pair[0]], planes[1][pair[1]]].concat();
    let truth = |a: [usize; 2], b: [usize; 2]| trees[0].distance(a[0], b[0]) + trees[1].distance(a[1], b[1]);
    let found = distortion(
        pairs.len(),
        |a, b| product.dist(&point(pairs[a]), &point(pairs[b])),
        |a, b| truth(pairs[a], pairs[b]),
    );
    let [one, two] = [0, 1].map(|i| tree_distortion(&trees[i], &planes[i]));
    assert!(found < 1.2 && found <= one.max(two) + 1e-9, "{found} of {one} and {two}");
}

/// Proposition 1, first part: the Hamming distance on n bits equals the distance in an l1 product of n planes, one bit
/// per factor.
#[test]
fn bits_fit_into_a_product_of_planes() {
    const BITS: usize = 5;
    let product: Box<dyn Space<f64>> = space(&ManifoldSpec::product_l1(BITS, 2, vec![1.0; BITS])).unwrap();
    // The points of the two values of a bit are at distance 1.
    let point = |word: usize| -> Vec<f64> {
        (0..BITS).flat_map(|bit| [if (word >> bit) & 1 == 1 { 0.5f64.sinh() } else { -0.5f64.sinh() }, 0.0]).collect()
    };
    for (a, b) in (0..1usize << BITS).flat_map(|a| (0..1 << BITS).map(move |b| (a, b))) {
        let found = BITS as f64 * product.dist(&point(a), &point(b));
        assert!((found - f64::from((a ^ b).count_ones())).abs() < 1e-13 * BITS as f64, "{a} {b}: {found}");
    }
}

/// Proposition 1, second part: the four words of two bits do not fit into one hyperbolic space. In a space of
/// non-positive curvature, the squared diagonals of a quadrilateral sum to at most the sum of its squared sides. For
/// the four words, the squared diagonals sum to 8 and the squared sides to 4. So the distortion is at least sqrt(2).
#[test]
fn two_bits_do_not_fit_into_one_hyperbolic_space() {
    let plane = plane();
    let mut random = SplitMix::new(1);
    let mut best = f64::INFINITY;
    for round in 0..20_000 {
        let size = [0.05, 0.5, 2.0, 6.0][round % 4];
        let mut draw = || size * (2.0 * random.uniform() - 1.0);
        let points: Vec<[f64; 2]> = (0..4).map(|_| [draw(), draw()]).collect();
        let d = |a: usize, b: usize| plane.dist(&points[a], &points[b]);
        let diagonals = d(0, 2).powi(2) + d(1, 3).powi(2);
        let sides: f64 = (0..4).map(|i| d(i, (i + 1) % 4).powi(2)).sum();
        assert!(diagonals <= sides * (1.0 + 1e-9), "{points:?}");
        best = best.min(distortion(4, d, |a, b| if (a + b) % 2 == 0 { 2.0 } else { 1.0 }));
    }
    assert!((2f64.sqrt()..2.0).contains(&best), "{best}");
}

/// Proposition 2: a product of two trees is not hyperbolic. The four corners of a grid of n by n edges have delta n,
/// and so have their images in a product of planes, while four points of one plane stay below log 2.
#[test]
fn a_product_of_trees_is_not_hyperbolic() {
    let product: Box<dyn Space<f64>> = space(&ManifoldSpec::product_l1(2, 2, vec![1.0, 1.0])).unwrap();
    for n in [1.0, 2.0, 4.0, 8.0f64] {
        let end = |far: bool| if far { n.sinh() } else { 0.0 };
        let corner = |i: usize| [end(i & 1 == 1), 0.0, end(i & 2 == 2), 0.0];
        let delta = four_point_delta(|a, b| 2.0 * product.dist(&corner(a), &corner(b)));
        assert!((delta - n).abs() < 1e-6, "{n}: {delta}");
    }
    let plane = plane();
    let mut random = SplitMix::new(2);
    for _ in 0..5000 {
        let mut draw = || 20.0 * (2.0 * random.uniform() - 1.0);
        let points: Vec<[f64; 2]> = (0..4).map(|_| [draw(), draw()]).collect();
        let delta = four_point_delta(|a, b| plane.dist(&points[a], &points[b]));
        assert!(delta <= 2f64.ln() + 1e-9, "{points:?}: {delta}");
    }
}
