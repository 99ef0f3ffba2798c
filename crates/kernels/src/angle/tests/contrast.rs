use std::sync::Arc;

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use conifer_geometry::safe::TINY_F32;

use super::super::{AngleGeometry, PairLabels, angle_contrast, pairwise_exterior_angle};
use super::{exact_angles, inputs};
use crate::multi_positive_nce;
use crate::testkit::{TestInput, error, numbers, oracle, outcome, random, same_bits_on_any_number_of_threads};

/// Wholes, parts, factors, width: single values, sizes that are no multiple of the vector width, and more rows than a
/// group.
const SIZES: [[usize; 4]; 6] =
    [[1, 1, 1, 6], [5, 7, 1, 6], [3, 16, 4, 8], [8, 33, 2, 9], [40, 3, 3, 12], [18, 34, 1, 5]];

fn run(labels: Arc<PairLabels>, geometry: AngleGeometry) -> impl Fn(Vec<Tensor<2>>) -> Tensor<1> {
    move |x| {
        let [whole, part, curv, scale] = <[_; 4]>::try_from(x).unwrap();
        let (curv, scale) = (curv.flatten(0, 1), scale.flatten(0, 1));
        let points = Tensor::cat(vec![whole, part], 0);
        angle_contrast(points, curv, scale, &labels, geometry, f64::from(TINY_F32)).unwrap()
    }
}

/// Some positive cells (none for the last of several wholes) and some excluded cells. In larger tables, some cells are
/// both.
fn labels([wholes, parts, ..]: [usize; 4]) -> Arc<PairLabels> {
    let cells = || (0..wholes as u32).flat_map(|row| (0..parts as u32).map(move |column| [row, column]));
    let has_positive = |row: u32| wholes == 1 || (row as usize) < wholes - 1;
    let positive = cells().filter(|&[row, column]| has_positive(row) && (row * 5 + column * 3) % 4 == 0).collect();
    let same = cells().filter(|&[row, column]| (row + 2 * column) % 7 == 3).collect();
    Arc::new(apart([wholes, parts], positive, same))
}

/// Labels for points that list the wholes first, then the parts.
fn apart([wholes, parts]: [usize; 2], positive: Vec<[u32; 2]>, same: Vec<[u32; 2]>) -> PairLabels {
    let (wholes, all) = (wholes as u32, (wholes + parts) as u32);
    PairLabels::new((0..wholes).collect(), (wholes..all).collect(), positive, same)
}

fn with_scale(mut inputs: Vec<TestInput>, scale: f32) -> Vec<TestInput> {
    inputs.push(TestInput(vec![scale], [1, 1]));
    inputs
}

/// The equations of [`angle_contrast`], query by query.
fn exact_losses(labels: &PairLabels, scale: f64, down: &[f64], up: &[f64]) -> Vec<f64> {
    let [wholes, parts] = labels.shape();
    let log_sum = |logits: Vec<f64>| {
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + logits.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
    };
    let is = |list: &[[u32; 2]], row: usize, column: usize| list.contains(&[row as u32, column as u32]);
    let loss = |cells: Vec<([usize; 2], f64)>| {
        let of = |keep: &dyn Fn(usize, usize) -> bool| -> Vec<f64> {
            cells.iter().filter(|([i, j], _)| keep(*i, *j)).map(|(_, similarity)| scale * similarity).collect()
        };
        let right = of(&|i, j| is(labels.positive(), i, j));
        if right.is_empty() { 0.0 } else { log_sum(of(&|i, j| !is(labels.same(), i, j))) - log_sum(right) }
    };
    let beta = |i: usize, j: usize| ([i, j], std::f64::consts::PI - down[i * parts + j]);
    let alpha = |i: usize, j: usize| ([i, j], up[j * wholes + i]);
    let by_whole = (0..wholes).map(|i| loss((0..parts).map(|j| beta(i, j)).collect()));
    let by_part = (0..parts).map(|j| loss((0..wholes).map(|i| alpha(i, j)).collect()));
    by_whole.chain(by_part).collect()
}

/// In `f32` a logit has an error of a few units in the last place of `scale pi`.
#[test]
fn value_and_gradients_equal_the_oracle() {
    for size @ [wholes, parts, _, width] in SIZES {
        let labels = labels(size);
        for (geometry, length, scale) in [
            (AngleGeometry::Hyperbolic, 0.05, 14.0),
            (AngleGeometry::Hyperbolic, 1.0, 14.0),
            (AngleGeometry::Hyperbolic, 1.0, -3.0),
            (AngleGeometry::Hyperbolic, 5.0, 1.0),
            (AngleGeometry::Flat, 1.0, 14.0),
        ] {
            let inputs = with_scale(inputs(size, length), scale);
            let upstream: Vec<f32> = random(wholes + parts, 3).into_iter().map(|v| 1.0 + 0.9 * v).collect();
            let expected = oracle(&inputs, &upstream, |x| {
                let down = exact_angles(&x[0], &x[1], &x[2], width, geometry);
                let up = exact_angles(&x[1], &x[0], &x[2], width, geometry);
                exact_losses(&labels, x[3][0], &down, &up)
            });
            let found = outcome(&inputs, &upstream, run(Arc::clone(&labels), geometry));
            let names = ["value", "whole", "part", "curv", "scale"];
            for (name, (found, expected)) in names.iter().zip(found.iter().zip(&expected)) {
                if (*name, geometry) == ("curv", AngleGeometry::Flat) {
                    assert!(found.iter().all(|&g| g == 0.0));
                    continue;
                }
                let allowed = if *name == "value" { 1e-5 } else { 2e-4 };
                let error = error(found, expected);
                assert!(error <= allowed, "{name}, {size:?}, {geometry:?}, {length}, {scale}: off by {error:e}");
            }
        }
    }
}

/// Compares with the composed operations, for more rows than fit into one tile of 4 MiB.
#[test]
fn equals_the_composed_operations() {
    let size @ [wholes, parts, _, _] = [1100, 1000, 1, 24];
    let positive = (0..parts as u32).flat_map(|column| [[column, column], [column / 2, column]]).collect();
    let same = (0..900).map(|i| [i + 100, i]).collect();
    let labels = Arc::new(apart([wholes, parts], positive, same));
    let inputs = with_scale(inputs(size, 1.0), 14.0);
    let upstream: Vec<f32> = random(wholes + parts, 3);
    let found = outcome(&inputs, &upstream, run(Arc::clone(&labels), AngleGeometry::Hyperbolic));
    let composed = outcome(&inputs, &upstream, |x| {
        let [whole, part, curv, scale] = <[_; 4]>::try_from(x).unwrap();
        let (curv, scale, tiny) = (curv.flatten(0, 1), scale.flatten(0, 1), f64::from(TINY_F32));
        let angle = |at: &Tensor<2>, to: &Tensor<2>| {
            pairwise_exterior_angle(at.clone(), to.clone(), curv.clone(), AngleGeometry::Hyperbolic, tiny).unwrap()
        };
        let mask = |cells: &[[u32; 2]]| {
            let mut table = vec![false; wholes * parts];
            cells.iter().for_each(|&[row, column]| table[row as usize * parts + column as usize] = true);
            Tensor::<2, Bool>::from_data(TensorData::new(table, [wholes, parts]), &whole.device())
        };
        let (positive, same) = (mask(labels.positive()), mask(labels.same()));
        let down = -angle(&whole, &part) + std::f64::consts::PI;
        let down = multi_positive_nce(down, scale.clone(), positive.clone(), same.clone());
        let up = multi_positive_nce(angle(&part, &whole), scale.clone(), positive.transpose(), same.transpose());
        Tensor::cat(vec![down, up], 0)
    });
    for (name, (found, expected)) in ["value", "whole", "part", "curv", "scale"].iter().zip(found.iter().zip(composed))
    {
        let error = error(found, &(expected, 0.0));
        assert!(error < 2e-5, "{name}: off by {error:e}");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let size = [150, 200, 3, 8];
    let (inputs, upstream) = (with_scale(inputs(size, 1.0), 14.0), random(350, 3));
    let labels = labels(size);
    same_bits_on_any_number_of_threads(|| {
        outcome(&inputs, &upstream, run(Arc::clone(&labels), AngleGeometry::Hyperbolic))
    });
}

#[test]
fn queries_without_positives() {
    for [wholes, parts] in [[0, 3], [3, 0], [0, 0], [3, 2]] {
        let points = |n: usize| TestInput(random(n * 4, 1), [n, 4]);
        let inputs = [points(wholes), points(parts), TestInput(vec![1.0, 2.0], [1, 2]), TestInput(vec![5.0], [1, 1])];
        let labels = Arc::new(apart([wholes, parts], vec![], vec![]));
        let found = outcome(&inputs, &vec![1.0; wholes + parts], run(labels, AngleGeometry::Hyperbolic));
        let zeros = |n: usize| vec![0.0; n];
        assert_eq!(found, [zeros(wholes + parts), zeros(wholes * 4), zeros(parts * 4), zeros(2), zeros(1)]);
    }
    // Points without coordinates are all at the root.
    let points = |n: usize| TestInput(vec![], [n, 0]);
    let inputs = [points(3), points(2), TestInput(vec![1.0], [1, 1]), TestInput(vec![5.0], [1, 1])];
    let labels = Arc::new(apart([3, 2], vec![[0, 0]], vec![]));
    let found = outcome(&inputs, &[1.0; 5], run(labels, AngleGeometry::Flat));
    assert!((found[0][0] - 2_f64.ln()).abs() < 1e-6 && (found[0][3] - 3_f64.ln()).abs() < 1e-6, "{found:?}");
}

/// Covers logits that differ by more than the range of `exp`, points at the root, NaN and infinity. `f64` tensors are
/// not fused.
#[test]
fn difficult_tables() {
    // Seen from the whole at (1, 0), the parts lie straight ahead, straight back, at the side, at the point itself and
    // at the root.
    let parts = vec![2.0, 0.0, -1.0, 0.0, 1.0, 3.0, 1.0, 0.0, 0.0, 0.0];
    let inputs = |parts: Vec<f32>, scale: f32| {
        let count = parts.len() / 2;
        let wholes = TestInput(vec![1.0, 0.0, 0.0, 0.0], [2, 2]);
        [wholes, TestInput(parts, [count, 2]), TestInput(vec![1.0], [1, 1]), TestInput(vec![scale], [1, 1])]
    };
    let labels = Arc::new(apart([2, 5], vec![[0, 1], [1, 4]], vec![[0, 3]]));
    for geometry in [AngleGeometry::Hyperbolic, AngleGeometry::Flat] {
        let found = outcome(&inputs(parts.clone(), 1e4), &[1.0; 7], run(Arc::clone(&labels), geometry));
        assert!(found.iter().flatten().all(|v| v.is_finite()), "{found:?}");
        // The positive of the first whole is straight back, so its similarity is pi lower than that of the part
        // straight ahead. All angles at the root are 0.
        let pi = std::f64::consts::PI;
        assert!((found[0][0] - 1e4 * pi).abs() < 0.1 && (found[0][1] - 5_f64.ln()).abs() < 1e-3, "{:?}", found[0]);
        for bad in [f32::NAN, f32::INFINITY] {
            let mut parts = parts.clone();
            parts[4] = bad;
            let found = outcome(&inputs(parts, 14.0), &[1.0; 7], run(Arc::clone(&labels), geometry));
            assert!(found[0][0].is_nan(), "{bad}, {geometry:?}: {:?}", found[0]);
            assert!(found[1].iter().any(|v| v.is_nan()) && found[2].iter().any(|v| v.is_nan()));
        }
    }
    let device = Device::flex();
    let points = Tensor::<2>::ones([2, 2], (&device, DType::F64));
    let one = Tensor::<1>::ones([1], (&device, DType::F64));
    let labels = Arc::new(apart([1, 1], vec![[0, 0]], vec![]));
    assert!(angle_contrast(points, one.clone(), one, &labels, AngleGeometry::Flat, 1e-12).is_none());
}

/// Transposed points give the same result. Points that are both whole and part get the sum of both gradients, and
/// points that are neither get a zero gradient.
#[test]
fn any_layout_and_any_role() {
    let (values, own) = (random(9 * 8, 5), vec![0.5; 12]);
    let leaf = |values: &[f32], shape: [usize; 2]| {
        let data = TensorData::new(values.to_vec(), shape);
        Tensor::<2>::from_data(data, &Device::flex().autodiff()).require_grad()
    };
    let loss = |points: Tensor<2>, labels: PairLabels| {
        let one = Tensor::<1>::ones([1], &points.device());
        let weights = Tensor::from_data(TensorData::new(own.clone(), [12]), &points.device());
        let tiny = f64::from(TINY_F32);
        (angle_contrast(points, one.clone(), one, &Arc::new(labels), AngleGeometry::Hyperbolic, tiny).unwrap()
            * weights)
            .sum()
    };
    let positive = vec![[0, 1], [2, 3], [5, 5]];
    // Points 2 to 7 are wholes and, in reverse order, also parts.
    let roles = PairLabels::new((2..8).collect(), (2..8).rev().collect(), positive.clone(), vec![]);
    let (plain, turned) =
        (leaf(&values, [9, 8]), leaf(&(0..72).map(|i| values[i % 9 * 8 + i / 9]).collect::<Vec<_>>(), [8, 9]));
    let (found, other) = (loss(plain.clone(), roles.clone()), loss(turned.clone().transpose(), roles));
    // `apart_values` holds the same points, copied separately for each role.
    let mut apart_values = values[16..64].to_vec();
    (2..8).rev().for_each(|i| apart_values.extend(&values[8 * i..8 * (i + 1)]));
    let written = leaf(&apart_values, [12, 8]);
    let expected = loss(written.clone(), apart([6, 6], positive, vec![]));
    assert_eq!(numbers(found.clone()), numbers(expected.clone()));
    assert_eq!(numbers(other.clone()), numbers(expected.clone()));
    let (found, other, expected) = (found.backward(), other.backward(), expected.backward());
    let found = numbers(plain.grad(&found).unwrap());
    assert_eq!(numbers(turned.grad(&other).unwrap().transpose()), found);
    let each = numbers(written.grad(&expected).unwrap());
    for point in 0..9 {
        for i in 0..8 {
            let both =
                if (2..8).contains(&point) { each[8 * (point - 2) + i] + each[8 * (13 - point) + i] } else { 0.0 };
            assert!((found[8 * point + i] - both).abs() <= 1e-6 * both.abs(), "point {point}, {i}");
        }
    }
}
