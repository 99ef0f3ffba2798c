//! Test helpers for the fused operations: random inputs, oracles and comparisons.

use burn::tensor::{Device, Tensor, TensorData};

/// Random numbers in [-1, 1), different for each seed (SplitMix64; Steele, Lea, Flood 2014). Sines of the index are not
/// suitable, because all rows would lie in one plane.
pub(crate) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed << 32;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Curvatures for `count` factors, from 0.5 to 2.
pub(crate) fn curvatures(count: usize) -> Vec<f32> {
    random(count, 9).into_iter().map(|v| 2_f32.powf(v)).collect()
}

/// An input of an operation: row-major numbers and their shape. A vector is a matrix with one row.
#[derive(Clone, Debug)]
pub(crate) struct TestInput(pub(crate) Vec<f32>, pub(crate) [usize; 2]);

/// The value, and the gradients of the sum of the outputs times `upstream` with respect to every input.
pub(crate) fn outcome<const D: usize>(
    inputs: &[TestInput],
    upstream: &[f32],
    run: impl Fn(Vec<Tensor<2>>) -> Tensor<D>,
) -> Vec<Vec<f64>> {
    let device = Device::flex().autodiff();
    let leaf = |it: &TestInput| Tensor::<2>::from_data(TensorData::new(it.0.clone(), it.1), &device).require_grad();
    let leaves: Vec<_> = inputs.iter().map(leaf).collect();
    let out = run(leaves.clone());
    let weights = Tensor::<D>::from_data(TensorData::new(upstream.to_vec(), out.dims()), &device);
    let gradients = (out.clone() * weights).sum().backward();
    let of = |leaf: &Tensor<2>| leaf.grad(&gradients).map_or_else(Vec::new, numbers);
    std::iter::once(numbers(out)).chain(leaves.iter().map(of)).collect()
}

/// Does the same as [`outcome`] for a function over `f64` slices. Gradients are central differences of four points
/// (error of order `h^4`, with `h` one part in 10^4 of the largest number of the input, or of 1e-3 if that is larger).
/// Each result is returned with a bound on its rounding error: 0 for the values; for a gradient, that of a difference
/// quotient whose values have an error of about 100 `f64::EPSILON`.
pub(crate) fn oracle(
    inputs: &[TestInput],
    upstream: &[f32],
    run: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) -> Vec<(Vec<f64>, f64)> {
    let wide: Vec<Vec<f64>> = inputs.iter().map(|it| it.0.iter().map(|&v| f64::from(v)).collect()).collect();
    let value = |at: &[Vec<f64>]| -> f64 { run(at).iter().zip(upstream).map(|(v, &g)| v * f64::from(g)).sum() };
    let mut moved = wide.clone();
    let values = run(&wide);
    let size: f64 = values.iter().zip(upstream).map(|(v, &g)| (v * f64::from(g)).abs()).sum();
    let mut all = vec![(values, 0.0)];
    for (input, start) in wide.iter().enumerate() {
        let step = 1e-4 * start.iter().fold(0.0_f64, |m, v| m.max(v.abs())).max(1e-3);
        let gradient = (0..start.len()).map(|i| {
            let mut at = |offset: f64| {
                moved[input][i] = start[i] + offset * step;
                let value = value(&moved);
                moved[input][i] = start[i];
                value
            };
            (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * step)
        });
        let gradient: Vec<f64> = gradient.collect();
        let rounding = 100.0 * f64::EPSILON * size / step * (gradient.len() as f64).sqrt();
        all.push((gradient, rounding));
    }
    all
}

/// Length of the difference less `rounding`, divided by the length of the expected vector.
pub(crate) fn error(found: &[f64], (expected, rounding): &(Vec<f64>, f64)) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|a| a * a).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    // The comparison is false for a NaN difference, so that a NaN does not count as equal.
    let beyond = if difference <= *rounding { 0.0 } else { difference - rounding };
    beyond / length(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)
}

/// Panics if the value or a gradient depends on the number of threads.
pub(crate) fn same_bits_on_any_number_of_threads(run: impl Fn() -> Vec<Vec<f64>> + Sync) {
    let on = |threads: usize| match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(&run),
        Err(e) => panic!("{e}"),
    };
    let one = on(1);
    for threads in [2, 3, 8] {
        assert!(on(threads) == one, "{threads} threads");
    }
}

pub(crate) fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}
