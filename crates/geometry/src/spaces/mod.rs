//! The built-in spaces. [`crate::SPACES`] lists them.

pub(crate) mod euclidean;
pub mod lorentz;
pub(crate) mod product;
pub(crate) mod sphere;
#[cfg(test)]
mod tests;

/// A curvature between 0.1 and 10 for the sample specs, evenly spaced on a log scale over seeds.
fn sample_curv(seed: u64) -> f64 {
    0.1 * 100_f64.powf((seed % 101) as f64 / 100.0)
}
