//! [`gelu`] with the right slope on every device.

use burn::backend::DispatchDevice;
use burn::tensor::{Tensor, activation};

/// `x Phi(x)` with the exact normal distribution function.
///
/// The engine's own operation on the CPU. Elsewhere its backward pass is that of the tanh approximation, so that
/// [`gelu_plain`] runs there.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match x.device().inner().as_dispatch() {
        DispatchDevice::Flex(_) => activation::gelu(x),
        #[allow(unreachable_patterns, reason = "the only device of a default build")]
        _ => gelu_plain(x),
    }
}

/// The slow twin of [`gelu`]: `x (1 + erf(x / sqrt 2)) / 2`.
pub fn gelu_plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let phi = ((x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    x * phi
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::{Device, TensorData};

    use super::*;

    /// Derivative by hand: `Phi(x) + x phi(x)`. `Phi` at these points from a table of the normal distribution, ten digits.
    #[test]
    fn values_and_slopes_of_both_twins() {
        let table: [(f64, f64); 5] = [
            (-2.0, 0.022_750_131_95),
            (-0.5, 0.308_537_538_7),
            (0.0, 0.5),
            (1.0, 0.841_344_746_1),
            (3.0, 0.998_650_102),
        ];
        for twin in [gelu::<1>, gelu_plain::<1>] {
            let xs: Vec<f32> = table.iter().map(|&(x, _)| x as f32).collect();
            let device = Device::flex().autodiff();
            let x = Tensor::<1>::from_data(TensorData::new(xs, [table.len()]), &device).require_grad();
            let y = twin(x.clone());
            let values: Vec<f32> = y.clone().into_data().try_into_vec().unwrap();
            let grads: Vec<f32> = x.grad(&y.sum().backward()).unwrap().into_data().try_into_vec().unwrap();
            for (i, &(x, cdf)) in table.iter().enumerate() {
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                assert!((f64::from(values[i]) - x * cdf).abs() < 1e-6, "gelu({x}) = {}", values[i]);
                assert!((f64::from(grads[i]) - (cdf + x * density)).abs() < 1e-6, "slope at {x} is {}", grads[i]);
            }
        }
    }
}
