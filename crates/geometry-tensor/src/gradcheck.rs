//! [`gradcheck`]: compares the gradient of a tensor function with central differences, in `f64`.

use burn::tensor::{DType, Device, Tensor, TensorData};

/// A gradient component that differs from the central difference.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "gradient of input {input} at [{row}, {column}] is {analytic:e}; \
     expected {numeric:e} within {allowed:e} (central difference)"
)]
pub struct GradMismatch {
    /// Index of the input.
    pub input: usize,
    /// Row of the component.
    pub row: usize,
    /// Column of the component.
    pub column: usize,
    /// The backpropagated value; 0 if the input received no gradient.
    pub analytic: f64,
    /// The central difference.
    pub numeric: f64,
    /// Allowed difference between the two.
    pub allowed: f64,
}

/// Checks the gradient of `f` with respect to every component of every input (each `[rows, columns]`).
///
/// Gradient and difference quotient are computed in `f64` on the CPU: `f` gets `f64` tensors and must not cast them to
/// a narrower type. The outputs of `f` are added with unequal weights, so that errors of opposite sign in two outputs
/// do not cancel. The difference quotient has five points: `(8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h`. `h` is
/// 1e-4 of the largest component of the input (1e-4 if all are zero). The error of the quotient is of order `h^4`. Do
/// not check within about a hundred steps `h` of a kink or of two coinciding points, because the quotient does not
/// resolve such features.
///
/// Two components agree when they differ by at most `tolerance` times the largest component of that input's gradient,
/// plus the rounding error of the quotient. 1e-6 suits smooth functions.
///
/// # Errors
/// The first component that does not agree or is not finite.
///
/// # Panics
/// Panics if an input is not a matrix: this is an error of the calling test.
pub fn gradcheck(
    inputs: &[TensorData],
    tolerance: f64,
    f: impl Fn(Vec<Tensor<2>>) -> Tensor<1>,
) -> Result<(), GradMismatch> {
    let inputs: Vec<InputMatrix> = inputs.iter().map(InputMatrix::new).collect();
    let value = |at: &[InputMatrix]| -> f64 {
        let device = Device::flex();
        let outputs = f(at.iter().map(|m| m.tensor(&device)).collect());
        outputs.into_data().iter::<f64>().zip(weights()).map(|(v, w)| v * w).sum()
    };
    let size = value(&inputs).abs().max(1.0);
    for (input, gradient) in gradients(&inputs, &f).into_iter().enumerate() {
        let largest = inputs[input].values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let step = 1e-4 * if largest > 0.0 { largest } else { 1.0 };
        let mut moved = inputs.clone();
        let numeric: Vec<f64> = (0..gradient.len())
            .map(|i| {
                let here = moved[input].values[i];
                let mut at = |offset: f64| {
                    moved[input].values[i] = here + offset * step;
                    let value = value(&moved);
                    moved[input].values[i] = here;
                    value
                };
                (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * step)
            })
            .collect();
        // Allows an error of several hundred `f64::EPSILON` in each of the four values, relative to the value or to 1.
        let rounding = 1e3 * f64::EPSILON * size / step;
        let allowed = tolerance * numeric.iter().fold(0.0_f64, |m, v| m.max(v.abs())) + rounding;
        for (i, (&analytic, &numeric)) in gradient.iter().zip(&numeric).enumerate() {
            // An infinite quotient makes `allowed` infinite.
            let agrees = analytic.is_finite() && numeric.is_finite() && (analytic - numeric).abs() <= allowed;
            if !agrees {
                let (row, column) = (i / inputs[input].columns, i % inputs[input].columns);
                return Err(GradMismatch { input, row, column, analytic, numeric, allowed });
            }
        }
    }
    Ok(())
}

/// Backpropagated gradient of each input.
fn gradients(inputs: &[InputMatrix], f: &impl Fn(Vec<Tensor<2>>) -> Tensor<1>) -> Vec<Vec<f64>> {
    let device = Device::flex().autodiff();
    let leaves: Vec<_> = inputs.iter().map(|m| m.tensor(&device).require_grad()).collect();
    let outputs = f(leaves.clone());
    let count = outputs.dims()[0];
    let weights = TensorData::new(weights().take(count).collect(), [count]);
    let weighted = (outputs * Tensor::from_data(weights, (&device, DType::F64))).sum();
    let gradients = weighted.is_tracked().then(|| weighted.backward());
    leaves
        .iter()
        .zip(inputs)
        .map(|(leaf, input)| match gradients.as_ref().and_then(|g| leaf.grad(g)) {
            Some(gradient) => gradient.into_data().iter::<f64>().collect(),
            None => vec![0.0; input.values.len()],
        })
        .collect()
}

/// Output weights between 1/2 and 3/2, without a pattern that could cancel in a sum over rows.
fn weights() -> impl Iterator<Item = f64> {
    (1..).map(|i: u32| 1.0 + 0.5 * (f64::from(i) * 2.4).cos())
}

#[derive(Clone)]
struct InputMatrix {
    values: Vec<f64>,
    rows: usize,
    columns: usize,
}

impl InputMatrix {
    fn new(data: &TensorData) -> Self {
        let [rows, columns] = data.shape().dims();
        InputMatrix { values: data.iter::<f64>().collect(), rows, columns }
    }

    fn tensor(&self, device: &Device) -> Tensor<2> {
        let data = TensorData::new(self.values.clone(), [self.rows, self.columns]);
        Tensor::from_data(data, (device, DType::F64))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn point() -> Vec<TensorData> {
        vec![TensorData::from([[0.3, -1.2], [2.0, 0.7]]), TensorData::from([[0.5, 1.5]])]
    }

    #[test]
    fn accepts_a_correct_gradient() {
        gradcheck(&point(), 1e-8, |x| (x[0].clone().tanh() * x[1].clone()).sum_dim(1).squeeze_dim(1)).unwrap();
    }

    /// `detach` hides the dependence on the second input from backpropagation, but not from the differences.
    #[test]
    fn rejects_a_missing_gradient() {
        let found = gradcheck(&point(), 1e-6, |x| (x[0].clone() * x[1].clone().detach()).sum()).unwrap_err();
        assert_eq!((found.input, found.row, found.column, found.analytic), (1, 0, 0, 0.0));
        // d/dy sum_i w (x_i0 y_0 + x_i1 y_1) = w (0.3 + 2.0) with the first weight w = 1 + cos(2.4) / 2
        assert!((found.numeric - 2.3 * (1.0 + 0.5 * 2.4_f64.cos())).abs() < 1e-9);
    }

    /// A constant output has no autodiff graph, and its gradient is zero.
    #[test]
    fn a_constant_has_zero_gradient() {
        gradcheck(&point(), 1e-6, |x| x[0].clone().detach().sum() * 0.0).unwrap();
    }

    /// The square root at zero: backpropagation returns NaN (0 times infinity).
    #[test]
    fn rejects_a_gradient_that_is_not_finite() {
        let zero = [TensorData::from([[0.0]])];
        let found = gradcheck(&zero, 1e-6, |x| (x[0].clone().square().sqrt() * 1.0).sum()).unwrap_err();
        assert!(found.analytic.is_nan());
    }

    /// The exponential overflows at x + 2h, but not at x + h.
    #[test]
    fn rejects_a_difference_that_is_not_finite() {
        let scale = 709.78 / (1.0 + 1.5e-4);
        let one = [TensorData::from([[1.0_f64]])];
        let found = gradcheck(&one, 1e-6, |x| ((x[0].clone() * scale).exp() * 1e-5).sum()).unwrap_err();
        assert!(found.analytic.is_finite() && found.numeric.is_infinite(), "{found}");
    }
}
