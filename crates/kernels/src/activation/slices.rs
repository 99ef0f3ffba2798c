//! Values and derivatives on the CPU, sixteen numbers at a time.

use burn::backend::{Flex, TensorMetadata};
use macerator::{AutoArch, Simd, WithSimd};

use super::{Activation, ActivationOps, TANH_GELU_CUBIC, TANH_GELU_SLOPE};
use crate::arrays::{FlexArray, array, dense, numbers};
use crate::functions::{LANES, fma, normal, sigmoid};
use crate::raw::{in_pool, new_rows, new_rows_beside};

/// Numbers per row of [`new_rows`]. The operation is elementwise, so any width gives the same result.
const ROW: usize = 1 << 9;

impl ActivationOps for Flex {
    fn activation(x: FlexArray, activation: Activation) -> FlexArray {
        let x = dense(&x);
        let from = numbers(&x);
        let (mut out, _) = in_pool(|| {
            new_rows(from.len() / ROW, ROW, |rows, out| {
                ActivationForward { activation, from: &from[rows.start * ROW..rows.end * ROW], to: out }.run();
            })
        });
        let (done, mut rest) = (out.len(), vec![0.0; from.len() % ROW]);
        ActivationForward { activation, from: &from[done..], to: &mut rest }.run();
        out.extend(rest);
        array(out, x.shape().as_slice())
    }
}

/// Computes the gradient with respect to `x` from the gradient of the result.
pub(super) fn backward(x: &FlexArray, gradient: FlexArray, activation: Activation) -> FlexArray {
    let mut derivatives = crate::arrays::into_numbers(gradient);
    let whole = derivatives.len() / ROW * ROW;
    let from = numbers(x);
    in_pool(|| {
        let (main, rest) = derivatives.split_at_mut(whole);
        // [`ActivationBackward`] also computes the values, which are discarded here.
        let (_, _) = new_rows_beside(main, ROW, |rows, values, gradient| {
            let from = &from[rows.start * ROW..rows.end * ROW];
            ActivationBackward { activation, from, values, gradient }.run();
        });
        let mut values = vec![0.0; rest.len()];
        ActivationBackward { activation, from: &from[whole..], values: &mut values, gradient: rest }.run();
    });
    array(derivatives, x.shape().as_slice())
}

/// Computes the values of a slice on this thread.
pub(crate) struct ActivationForward<'a> {
    pub(crate) activation: Activation,
    pub(crate) from: &'a [f32],
    pub(crate) to: &'a mut [f32],
}

impl ActivationForward<'_> {
    pub(crate) fn run(self) {
        AutoArch::new().dispatch(self);
    }
}

impl WithSimd for ActivationForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let (from, from_rest) = self.from.as_chunks::<LANES>();
        let (to, to_rest) = self.to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            for lane in 0..LANES {
                to[lane] = value_and_derivative::<S>(from[lane], self.activation).0;
            }
        }
        for (from, to) in from_rest.iter().zip(to_rest) {
            *to = value_and_derivative::<S>(*from, self.activation).0;
        }
    }
}

/// Computes the values of a slice on this thread, and replaces the gradient of the values by the gradient of the input.
pub(crate) struct ActivationBackward<'a> {
    pub(crate) activation: Activation,
    pub(crate) from: &'a [f32],
    pub(crate) values: &'a mut [f32],
    pub(crate) gradient: &'a mut [f32],
}

impl ActivationBackward<'_> {
    pub(crate) fn run(self) {
        AutoArch::new().dispatch(self);
    }
}

impl WithSimd for ActivationBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let (from, from_rest) = self.from.as_chunks::<LANES>();
        let (values, values_rest) = self.values.as_chunks_mut::<LANES>();
        let (gradient, gradient_rest) = self.gradient.as_chunks_mut::<LANES>();
        for ((from, values), gradient) in from.iter().zip(values).zip(gradient) {
            for lane in 0..LANES {
                let (value, derivative) = value_and_derivative::<S>(from[lane], self.activation);
                values[lane] = value;
                gradient[lane] *= derivative;
            }
        }
        for ((from, value), gradient) in from_rest.iter().zip(values_rest).zip(gradient_rest) {
            let derivative;
            (*value, derivative) = value_and_derivative::<S>(*from, self.activation);
            *gradient *= derivative;
        }
    }
}

/// `f(x)` and `f'(x)`.
#[inline(always)]
fn value_and_derivative<S: Simd>(x: f32, activation: Activation) -> (f32, f32) {
    match activation {
        Activation::Gelu => {
            let (below, density) = normal::<S>(x);
            (x * below, fma::<S>(x, density, below))
        }
        Activation::QuickGelu => {
            let gate = sigmoid::<S>(1.702 * x);
            // Keep this order of factors: for large `x`, `1.702 x` overflows, while `1.702 gate (1 - gate)` is 0 and so
            // is its product with `x`.
            (x * gate, fma::<S>(x, 1.702 * (gate * (1.0 - gate)), gate))
        }
        Activation::TanhGelu => {
            const SLOPE: f32 = TANH_GELU_SLOPE as f32;
            const CUBIC: f32 = TANH_GELU_CUBIC as f32;
            // Beyond 20 the gate is exactly 0 or 1. The bound keeps the square finite.
            let bounded = if x > 20.0 { 20.0 } else { x };
            let bounded = if bounded < -20.0 { -20.0 } else { bounded };
            let square = bounded * bounded;
            let gate = sigmoid::<S>(SLOPE * bounded * fma::<S>(CUBIC, square, 1.0));
            let slope = SLOPE * fma::<S>(3.0 * CUBIC, square, 1.0);
            (x * gate, fma::<S>(x, slope * (gate * (1.0 - gate)), gate))
        }
    }
}
