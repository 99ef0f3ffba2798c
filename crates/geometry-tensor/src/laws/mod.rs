//! Conformance suite for manifolds: properties that every entry of [`MANIFOLDS`] must satisfy.
//!
//! The tests of `conifer_geometry` cover the mathematics (metric axioms, geodesics, cones, each formula against a
//! reference of higher precision). The tests here compare every row-wise tensor function with its `f64` counterpart,
//! every pairwise function with its row-wise counterpart, and the gradients with central differences. They also check
//! that values and gradients are finite on the adversarial list. Listing a new manifold in [`MANIFOLDS`] puts it under
//! test.

#![allow(clippy::unwrap_used)]

mod edges;
mod gradients;
mod pairs;
mod values;

use burn::tensor::{DType, Device, Tensor, TensorData};
use conifer_geometry::{ManifoldSpec, Root, SPACES, Space, space};

use crate::{ConeShape, MANIFOLDS, Manifold, RootT, manifold};

/// `K` of all half apertures in these tests (MERU, HyCoCLIP: 0.1).
const MIN_RADIUS: f64 = 0.1;
/// `eta` of all hinges in these tests (HyCoCLIP between modalities: 0.7).
const APERTURE_SCALE: f64 = 0.7;

/// The cone of all hinges in these tests.
const CONE: ConeShape = ConeShape { min_radius: MIN_RADIUS, aperture_scale: APERTURE_SCALE, max_aperture: None };

/// A row-wise function, on tensors and on slices.
struct RowOp {
    name: &'static str,
    /// The arguments per row: one tangent vector, one point, or two points.
    takes: OpArguments,
    tensors: TensorFn,
    slices: SliceFn,
    /// True if the result depends on the root.
    rooted: bool,
}

type TensorFn = fn(&dyn Manifold, Vec<Tensor<2>>, &RootT) -> Tensor<2>;
type SliceFn = fn(&dyn Space<f64>, &[&[f64]], &Root) -> Vec<f64>;

#[derive(Clone, Copy, PartialEq)]
enum OpArguments {
    Tangent,
    Point,
    Pair,
}

const OPS: &[RowOp] = &[
    RowOp {
        name: "lift",
        takes: OpArguments::Tangent,
        tensors: |m, mut x, _| m.lift(x.remove(0)),
        slices: |s, x, _| filled(x[0], |out| s.lift(x[0], out)),
        rooted: false,
    },
    RowOp {
        name: "unlift",
        takes: OpArguments::Point,
        tensors: |m, mut x, _| m.unlift(x.remove(0)),
        slices: |s, x, _| filled(x[0], |out| s.unlift(x[0], out)),
        rooted: false,
    },
    RowOp {
        name: "dist",
        takes: OpArguments::Pair,
        tensors: |m, x, _| column(m.dist(x[0].clone(), x[1].clone())),
        slices: |s, x, _| vec![s.dist(x[0], x[1])],
        rooted: false,
    },
    RowOp {
        name: "inner",
        takes: OpArguments::Pair,
        tensors: |m, x, _| column(m.inner(x[0].clone(), x[1].clone())),
        slices: |s, x, _| vec![s.inner(x[0], x[1])],
        rooted: false,
    },
    RowOp {
        name: "similarity",
        takes: OpArguments::Pair,
        tensors: |m, x, _| column(m.similarity(x[0].clone(), x[1].clone())),
        slices: |s, x, _| vec![s.similarity(x[0], x[1])],
        rooted: false,
    },
    RowOp {
        name: "exterior_angle",
        takes: OpArguments::Pair,
        tensors: |m, x, root| column(m.exterior_angle(x[0].clone(), x[1].clone(), root)),
        slices: |s, x, root| vec![s.exterior_angle(x[0], x[1], root)],
        rooted: true,
    },
    RowOp {
        name: "half_aperture",
        takes: OpArguments::Point,
        tensors: |m, x, root| column(m.half_aperture(x[0].clone(), MIN_RADIUS, root)),
        slices: |s, x, root| vec![s.half_aperture(x[0], MIN_RADIUS, root)],
        rooted: true,
    },
    RowOp {
        name: "cone_hinge",
        takes: OpArguments::Pair,
        tensors: |m, x, root| column(m.cone_hinge(x[0].clone(), x[1].clone(), &CONE, root)),
        slices: |s, x, root| vec![s.cone_excess(x[0], x[1], MIN_RADIUS, APERTURE_SCALE, root).max(0.0)],
        rooted: true,
    },
    RowOp {
        name: "geodesic",
        takes: OpArguments::Pair,
        tensors: |m, x, _| m.geodesic(x[0].clone(), x[1].clone(), 0.3),
        slices: |s, x, _| filled(x[0], |out| s.geodesic(x[0], x[1], 0.3, out)),
        rooted: false,
    },
    RowOp {
        name: "depth",
        takes: OpArguments::Point,
        tensors: |m, x, root| column(m.depth(x[0].clone(), root)),
        slices: |s, x, root| vec![s.depth(x[0], root)],
        rooted: true,
    },
];

/// A pairwise function and its row-wise counterpart.
struct PairOp {
    name: &'static str,
    pairwise: fn(&dyn Manifold, Tensor<2>, Tensor<2>, &RootT) -> Tensor<2>,
    by_row: fn(&dyn Manifold, Tensor<2>, Tensor<2>, &RootT) -> Tensor<1>,
    rooted: bool,
}

const PAIR_OPS: &[PairOp] = &[
    PairOp {
        name: "pairwise_dist",
        pairwise: |m, x, y, _| m.pairwise_dist(x, y),
        by_row: |m, x, y, _| m.dist(x, y),
        rooted: false,
    },
    PairOp {
        name: "pairwise_inner",
        pairwise: |m, x, y, _| m.pairwise_inner(x, y),
        by_row: |m, x, y, _| m.inner(x, y),
        rooted: false,
    },
    PairOp {
        name: "pairwise_similarity",
        pairwise: |m, x, y, _| m.pairwise_similarity(x, y),
        by_row: |m, x, y, _| m.similarity(x, y),
        rooted: false,
    },
    PairOp {
        name: "pairwise_exterior_angle",
        pairwise: |m, x, y, root| m.pairwise_exterior_angle(x, y, root),
        by_row: |m, x, y, root| m.exterior_angle(x, y, root),
        rooted: true,
    },
];

#[test]
fn manifolds_and_spaces_have_the_same_kinds() {
    let ours: Vec<_> = MANIFOLDS.iter().map(|e| e.kind).collect();
    let theirs: Vec<_> = SPACES.iter().map(|e| e.kind).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn spec_holds_the_current_curvature() {
    for case in cases() {
        assert_eq!(case.manifold(None).spec(), case.spec);
        let doubled: Vec<f64> = case.spec.curv.iter().map(|c| 2.0 * c).collect();
        let learnt = (!doubled.is_empty()).then(|| vector(&doubled, &Device::flex(), DType::F64));
        assert_eq!(case.manifold(learnt).spec(), ManifoldSpec { curv: doubled, ..case.spec.clone() });
    }
}

#[test]
fn invalid_specs_are_reported() {
    let message = |spec: &ManifoldSpec, curv| manifold(spec, curv).err().unwrap().to_string();
    let curv = vector(&[1.0, 1.0], &Device::flex(), DType::F32);
    assert_eq!(
        message(&ManifoldSpec::lorentz(4, 1.0), Some(curv)),
        "geometry: curvature of `lorentz` has 2 value(s); expected 1"
    );
    let unknown = ManifoldSpec { kind: "torus".into(), ..ManifoldSpec::sphere(2) };
    assert_eq!(message(&unknown, None), unknown.check().unwrap_err().to_string());
}

/// One sample space with points.
struct ManifoldCase {
    spec: ManifoldSpec,
    exact: Box<dyn Space<f64>>,
    /// Tangent vectors with lengths 0.1 to 3 in units of the curvature radius, per factor.
    tangents: Vec<Vec<f64>>,
    /// The lifts of `tangents`.
    points: Vec<Vec<f64>>,
    /// A root that is none of the points.
    root: Vec<f64>,
}

/// The sample specs of every space in the registry, each with seven points.
fn cases() -> Vec<ManifoldCase> {
    let seed = 7;
    SPACES.iter().flat_map(|entry| (entry.sample)(seed)).map(|spec| ManifoldCase::new(spec, seed)).collect()
}

impl ManifoldCase {
    fn new(spec: ManifoldSpec, seed: u64) -> Self {
        let exact = space::<f64>(&spec).unwrap();
        let mut random = CaseRandom(seed);
        let tangents: Vec<_> = (0..7).map(|_| random_tangent(&spec, &mut random)).collect();
        let lift = |v: &Vec<f64>| filled(v, |out| exact.lift(v, out));
        let points = tangents.iter().map(lift).collect();
        let root = lift(&random_tangent(&spec, &mut random));
        ManifoldCase { spec, exact, tangents, points, root }
    }

    fn manifold(&self, curv: Option<Tensor<1>>) -> Box<dyn Manifold> {
        manifold(&self.spec, curv).unwrap()
    }

    /// The arguments of `op`, each as a list of rows: all points, or each point paired with the next `others` points in
    /// cyclic order (6 gives all ordered pairs of different points).
    fn arguments(&self, op: &RowOp, others: usize) -> Vec<Vec<Vec<f64>>> {
        match op.takes {
            OpArguments::Tangent => vec![self.tangents.clone()],
            OpArguments::Point => vec![self.points.clone()],
            OpArguments::Pair => {
                let n = self.points.len();
                let pairs = (0..n).flat_map(|i| (1..=others).map(move |k| (i, (i + k) % n)));
                let (x, y) = pairs.map(|(i, j)| (self.points[i].clone(), self.points[j].clone())).unzip();
                vec![x, y]
            }
        }
    }

    /// The roots to test.
    fn roots(&self, rooted: bool) -> Vec<Root> {
        if rooted { vec![Root::Origin, Root::Point(self.root.clone())] } else { vec![Root::Origin] }
    }
}

fn random_tangent(spec: &ManifoldSpec, random: &mut CaseRandom) -> Vec<f64> {
    let mut tangent = Vec::new();
    for factor in 0..spec.factors {
        let unit = 1.0 / spec.curv.get(factor).map_or(1.0, |c| c.sqrt());
        let length = unit * (0.1 + 2.9 * random.next());
        let direction: Vec<f64> = (0..spec.factor_dim()).map(|_| 2.0 * random.next() - 1.0).collect();
        let norm = direction.iter().map(|v| v * v).sum::<f64>().sqrt();
        tangent.extend(direction.iter().map(|v| length * v / norm));
    }
    tangent
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct CaseRandom(u64);

impl CaseRandom {
    /// Uniform in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn filled(like: &[f64], write: impl FnOnce(&mut [f64])) -> Vec<f64> {
    let mut out = vec![f64::NAN; like.len()];
    write(&mut out);
    out
}

fn column(values: Tensor<1>) -> Tensor<2> {
    values.unsqueeze_dim(1)
}

fn data(rows: &[Vec<f64>]) -> TensorData {
    TensorData::new(rows.concat(), [rows.len(), rows[0].len()])
}

fn tensor(rows: &[Vec<f64>], device: &Device, dtype: DType) -> Tensor<2> {
    Tensor::from_data(data(rows), (device, dtype))
}

fn vector(values: &[f64], device: &Device, dtype: DType) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), (device, dtype))
}

fn root_tensor(root: &Root, device: &Device, dtype: DType) -> RootT {
    match root {
        Root::Origin => RootT::Origin,
        Root::Point(point) => RootT::Point(vector(point, device, dtype)),
    }
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The same points after rounding their coordinates to `f32`.
fn rounded(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.iter().map(|v| f64::from(*v as f32)).collect()).collect()
}
