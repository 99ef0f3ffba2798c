//! Test helpers: run a function of matrices in `f32` or `f64` with all gradients, and compare it with a reference
//! implementation.
#![allow(clippy::unwrap_used)]

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::testkit::{random, same_bits_on_any_number_of_threads};

pub(crate) type MatrixFunction<'a> = &'a dyn Fn(&[Tensor<2>]) -> Tensor<2>;

/// A row-major matrix of numbers that `f32` represents exactly, so that both precisions have the same inputs.
#[derive(Clone, Debug)]
pub(crate) struct TestMatrix {
    pub(crate) shape: [usize; 2],
    pub(crate) numbers: Vec<f64>,
}

impl TestMatrix {
    /// [`random`] numbers from `-size` to `size`, different for each seed.
    pub(crate) fn scattered(shape: [usize; 2], seed: u64, size: f64) -> Self {
        let number = |v: f32| f64::from((size * f64::from(v)) as f32);
        Self { shape, numbers: random(shape[0] * shape[1], seed).into_iter().map(number).collect() }
    }

    pub(crate) fn filled(shape: [usize; 2], number: f64) -> Self {
        Self { shape, numbers: vec![number; shape[0] * shape[1]] }
    }

    fn tensor(&self, device: &Device, dtype: DType) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.numbers.clone(), self.shape), (device, dtype))
    }
}

/// The values of `f`, and the gradients of `sum_i w_i f_i` with respect to its arguments, with `w` from 0.1 to 1.9.
pub(crate) fn outcome(f: MatrixFunction<'_>, arguments: &[TestMatrix], dtype: DType) -> Vec<Vec<f64>> {
    outcome_on(&Device::flex().autodiff(), f, arguments, dtype)
}

fn outcome_on(device: &Device, f: MatrixFunction<'_>, arguments: &[TestMatrix], dtype: DType) -> Vec<Vec<f64>> {
    let arguments: Vec<_> = arguments.iter().map(|it| it.tensor(device, dtype).require_grad()).collect();
    let out = f(&arguments);
    let weights = weights(out.dims()).tensor(device, dtype);
    let gradients = (out.clone() * weights).sum().backward();
    let numbers = |x: Tensor<2>| x.into_data().iter::<f64>().collect();
    let mut found = vec![numbers(out)];
    found.extend(arguments.iter().map(|it| numbers(it.grad(&gradients).unwrap())));
    found
}

fn weights(shape: [usize; 2]) -> TestMatrix {
    let mut weights = TestMatrix::scattered(shape, 77, 0.9);
    weights.numbers.iter_mut().for_each(|w| *w = f64::from((1.0 + *w) as f32));
    weights
}

/// Compares the values and all gradients of `fused` in `f32` with `plain` in `f32` and `f64`. The relative error must
/// be at most `bound`, or the error of `plain` in `f32` if that is larger (for example if a gradient nearly cancels).
/// The results with gradient checkpointing, and without autodiff as for inference, must have the same bits.
pub(crate) fn check(fused: MatrixFunction<'_>, plain: MatrixFunction<'_>, arguments: &[TestMatrix], bound: f64) {
    let found = outcome(fused, arguments, DType::F32);
    let twin = outcome(plain, arguments, DType::F32);
    let exact = outcome(plain, arguments, DType::F64);
    for (i, found) in found.iter().enumerate() {
        let what = format!("{} of {:?}", if i == 0 { "values" } else { "gradient" }, arguments[i.max(1) - 1].shape);
        let (off, twin_off, apart) = (error(found, &exact[i]), error(&twin[i], &exact[i]), error(found, &twin[i]));
        let bound = bound.max(twin_off);
        assert!(off <= bound, "{what} ({i}): off by {off:e}, the reference by {twin_off:e}");
        assert!(apart <= 2.0 * bound, "{what} ({i}): {apart:e} from the reference");
    }
    let again = outcome_on(&Device::flex().autodiff().gradient_checkpointing(), fused, arguments, DType::F32);
    assert_eq!(again, found, "gradient checkpointing");
    let device = Device::flex();
    let constants: Vec<_> = arguments.iter().map(|it| it.tensor(&device, DType::F32)).collect();
    assert_eq!(fused(&constants).into_data().iter::<f64>().collect::<Vec<_>>(), found[0], "inference");
}

/// Compares the gradients of `fused` in `f32` with central differences of `plain` in `f64`. The error must be at most
/// `bound` times the largest component.
pub(crate) fn check_differences(
    fused: MatrixFunction<'_>,
    plain: MatrixFunction<'_>,
    arguments: &[TestMatrix],
    bound: f64,
) {
    const STEP: f64 = 1e-5;
    let device = Device::flex();
    let loss = |arguments: &[TestMatrix]| {
        let tensors: Vec<_> = arguments.iter().map(|it| it.tensor(&device, DType::F64)).collect();
        let out = plain(&tensors);
        let weights = weights(out.dims()).tensor(&device, DType::F64);
        (out * weights).sum().into_scalar::<f64>()
    };
    let found = outcome(fused, arguments, DType::F32);
    for (number, gradient) in found[1..].iter().enumerate() {
        let largest = gradient.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        for (i, derivative) in gradient.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = arguments.to_vec();
                moved[number].numbers[i] += step;
                loss(&moved)
            };
            let expected = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            assert!(
                (derivative - expected).abs() <= bound * largest.max(1e-3),
                "argument {number}, number {i}: {derivative}, by differences {expected}"
            );
        }
    }
}

/// Checks that one, two, three and eight threads give the same bits.
pub(crate) fn check_threads(fused: impl Fn(&[Tensor<2>]) -> Tensor<2> + Sync, arguments: &[TestMatrix]) {
    same_bits_on_any_number_of_threads(|| outcome(&fused, arguments, DType::F32));
}

/// Length of the difference divided by the length of the expected vector.
pub(crate) fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|a| a * a).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    if difference == 0.0 { 0.0 } else { difference / length(&mut expected.iter().copied()).max(f64::MIN_POSITIVE) }
}

/// Converts a matrix with one row to a vector.
pub(crate) fn vector(row: &Tensor<2>) -> Tensor<1> {
    row.clone().squeeze_dim(0)
}
