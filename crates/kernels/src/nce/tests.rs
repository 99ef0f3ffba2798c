#![allow(clippy::unwrap_used)]
use burn::tensor::{DType, Device, TensorData};

use super::*;
use crate::testkit::same_bits_on_any_number_of_threads;

/// Square, wide and tall tables; one row, sizes that are no multiple of the vector width, and more rows than a task.
const SIZES: [[usize; 2]; 9] = [[1, 1], [2, 2], [1, 16], [5, 17], [17, 5], [40, 40], [33, 130], [130, 33], [70, 70]];
const QUERY_SIDES: [QuerySide; 3] = [QuerySide::Rows, QuerySide::Columns, QuerySide::Both];

#[test]
fn fused_equals_plain_value_and_gradient() {
    for size @ [m, n] in SIZES {
        for rule in rules(size) {
            for scale in [1.0, 14.0, 100.0, -3.0] {
                let run = |f: NceFunction, dtype| outcome(f, table(m * n), size, scale, rule, dtype);
                let found = run(info_nce, DType::F32);
                let exact = run(info_nce_plain, DType::F64);
                let sizes = [("losses", scale.abs()), ("table", scale.abs()), ("scale", 1.0)];
                for (i, (name, unit)) in sizes.into_iter().enumerate() {
                    let off = error(&found[i], &exact[i], unit);
                    assert!(off <= 3e-6, "{name} of {size:?}, {rule:?}, scale {scale}: off by {off:e}");
                }
            }
        }
    }
}

/// Tables without queries or without candidates give no losses, and gradients of the correct shape.
#[test]
fn empty_tables() {
    for (side, size) in [
        (QuerySide::Rows, [0, 0]),
        (QuerySide::Rows, [0, 5]),
        (QuerySide::Columns, [0, 0]),
        (QuerySide::Columns, [5, 0]),
        (QuerySide::Both, [0, 0]),
    ] {
        let found = outcome(info_nce, Vec::new(), size, 3.0, NceRule { side, with_positive: true }, DType::F32);
        assert_eq!(found, [vec![], vec![], vec![0.0]], "{side:?} of {size:?}");
    }
}

#[test]
fn multi_positive_equals_plain() {
    for size @ [m, n] in SIZES {
        for every in [2, 3, 50] {
            let mut positive: Vec<bool> = (0..m * n).map(|i| (i * i + i / n) % every == 0).collect();
            let same: Vec<bool> = (0..m * n).map(|i| i % 7 == 3 && !positive[i]).collect();
            // With several rows the first one has no positive; a single row has only positives.
            positive[..n].fill(m == 1);
            let run = |f: MultiNceFunction, dtype| multi_outcome(f, table(m * n), size, &positive, &same, dtype);
            let found = run(multi_positive_nce, DType::F32);
            let exact = run(multi_positive_nce_plain, DType::F64);
            for (i, (name, unit)) in [("losses", 6.0), ("table", 6.0), ("scale", 1.0)].into_iter().enumerate() {
                let off = error(&found[i], &exact[i], unit);
                assert!(off <= 3e-6, "{name} of {size:?}, every {every}: off by {off:e}");
            }
            assert!(m == 1 || (found[0][0] == 0.0 && found[1][..n].iter().all(|&derivative| derivative == 0.0)));
        }
    }
}

/// Compares with central differences of the reference implementation in f64.
#[test]
fn gradients_equal_central_differences() {
    const STEP: f64 = 1e-5;
    let size = [4, 4];
    for rule in rules(size) {
        let found = outcome(info_nce, table(16), size, 5.0, rule, DType::F32);
        let value = |index: usize, step: f64| -> f64 {
            let (mut numbers, mut scale) = (table(16), 5.0);
            if index < 16 {
                numbers[index] += step
            } else {
                scale += step
            }
            let losses = &outcome(info_nce_plain, numbers, size, scale, rule, DType::F64)[0];
            losses.iter().zip(weights(losses.len())).map(|(loss, weight)| loss * weight).sum()
        };
        for index in 0..17 {
            let derivative = (value(index, STEP) - value(index, -STEP)) / (2.0 * STEP);
            let gradient = if index < 16 { found[1][index] } else { found[2][0] };
            assert!(
                (gradient - derivative).abs() < 1e-5 * (1.0 + derivative.abs()),
                "{rule:?} {index}: {gradient}, derivative {derivative}"
            );
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let size = [70, 70];
    for rule in rules(size) {
        same_bits_on_any_number_of_threads(|| outcome(info_nce, table(4900), size, 14.0, rule, DType::F32).to_vec());
    }
}

/// Computing both directions at once gives the same bits as computing each of them. The columns of a table equal the
/// rows of its transpose up to the order of sums.
#[test]
fn both_sides_equal_each_side() {
    let size = [40, 40];
    for with_positive in [true, false] {
        let run = |side| outcome(info_nce, table(1600), size, 9.0, NceRule { side, with_positive }, DType::F32);
        let (both, rows, columns) = (run(QuerySide::Both), run(QuerySide::Rows), run(QuerySide::Columns));
        assert_eq!(both[0], [&rows[0][..], &columns[0][..]].concat());
        let turned: NceFunction = |table, scale, rule| info_nce(table.transpose(), scale, rule);
        let rule = NceRule { side: QuerySide::Rows, with_positive };
        let turned = outcome(turned, table(1600), size, 9.0, rule, DType::F32);
        for i in 0..3 {
            assert!(error(&turned[i], &columns[i], 1.0) < 1e-6);
        }
    }
}

/// Logits that differ by 1e4, equal logits, NaN and infinity.
#[test]
fn difficult_tables() {
    let rule = NceRule { side: QuerySide::Rows, with_positive: true };
    let far = outcome(info_nce, vec![0.0, -100.0, 0.0, -100.0], [2, 2], 100.0, rule, DType::F32);
    assert_eq!(far[0], [0.0, 1e4]);
    assert!(far[1].iter().all(|v| v.is_finite()));
    let equal = outcome(info_nce, vec![3.0; 25], [5, 5], 7.0, rule, DType::F32);
    assert!(equal[0].iter().all(|loss| (loss - 5_f64.ln()).abs() < 3e-6), "{:?}", equal[0]);
    for bad in [f64::NAN, f64::INFINITY] {
        let mut numbers = table(80);
        numbers[20] = bad;
        let found = outcome(info_nce, numbers, [4, 20], 1.0, rule, DType::F32);
        assert!(!found[0][1].is_finite() && [0, 2, 3].iter().all(|&row| found[0][row].is_finite()), "{:?}", found[0]);
        assert!(found[1][20..40].iter().any(|derivative| !derivative.is_finite()));
        assert!(found[1][..20].iter().chain(&found[1][40..]).all(|derivative| derivative.is_finite()));
    }
    let none = outcome(info_nce, Vec::new(), [0, 3], 1.0, rule, DType::F32);
    assert_eq!(none, [vec![], vec![], vec![0.0]]);
}

type NceFunction = fn(Tensor<2>, Tensor<1>, NceRule) -> Tensor<1>;
type MultiNceFunction = fn(Tensor<2>, Tensor<1>, Tensor<2, Bool>, Tensor<2, Bool>) -> Tensor<1>;

/// All rules that are valid for a table of this size.
fn rules([m, n]: [usize; 2]) -> Vec<NceRule> {
    let mut rules = Vec::new();
    for side in QUERY_SIDES {
        let (queries, candidates) = if side == QuerySide::Columns { (n, m) } else { (m, n) };
        if queries > candidates || (side == QuerySide::Both && m != n) {
            continue;
        }
        rules.push(NceRule { side, with_positive: true });
        if candidates > 1 {
            rules.push(NceRule { side, with_positive: false });
        }
    }
    rules
}

/// The losses, and the gradients of a weighted sum of them with respect to table and scale.
fn outcome(
    f: NceFunction,
    table: Vec<f64>,
    [m, n]: [usize; 2],
    scale: f64,
    rule: NceRule,
    dtype: DType,
) -> [Vec<f64>; 3] {
    let device = Device::flex().autodiff();
    let table = Tensor::<2>::from_data(TensorData::new(table, [m, n]), (&device, dtype)).require_grad();
    let scale = Tensor::<1>::from_data(TensorData::new(vec![scale], [1]), (&device, dtype)).require_grad();
    gradients(f(table.clone(), scale.clone(), rule), table, scale)
}

fn multi_outcome(
    f: MultiNceFunction,
    table: Vec<f64>,
    [m, n]: [usize; 2],
    positive: &[bool],
    same: &[bool],
    dtype: DType,
) -> [Vec<f64>; 3] {
    let device = Device::flex().autodiff();
    let table = Tensor::<2>::from_data(TensorData::new(table, [m, n]), (&device, dtype)).require_grad();
    let scale = Tensor::<1>::from_data(TensorData::new(vec![6.0], [1]), (&device, dtype)).require_grad();
    let mask = |truths: &[bool]| Tensor::<2, Bool>::from_data(TensorData::new(truths.to_vec(), [m, n]), &device);
    gradients(f(table.clone(), scale.clone(), mask(positive), mask(same)), table, scale)
}

fn gradients(losses: Tensor<1>, table: Tensor<2>, scale: Tensor<1>) -> [Vec<f64>; 3] {
    let [count] = losses.dims();
    let weights = TensorData::new(weights(count), [count]);
    let weights = Tensor::from_data(weights, (&losses.device(), losses.dtype()));
    let found = (losses.clone() * weights).sum().backward();
    [numbers(losses), numbers(table.grad(&found).unwrap()), numbers(scale.grad(&found).unwrap())]
}

/// Similarities in [-1, 1], rounded to f32 so that both precisions have the same inputs.
fn table(count: usize) -> Vec<f64> {
    (0..count).map(|i| f64::from(((i as f64) * 4894.217).sin() as f32)).collect()
}

fn weights(count: usize) -> Vec<f64> {
    (0..count).map(|i| f64::from((1.0 + 0.5 * ((i * 31) as f64).sin()) as f32)).collect()
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

/// Length of the difference divided by the length of the expected vector, or by `unit`, the size of the terms, if that
/// is larger.
fn error(found: &[f64], expected: &[f64], unit: f64) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|a| a * a).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    difference / length(&mut expected.iter().copied()).max(unit)
}
