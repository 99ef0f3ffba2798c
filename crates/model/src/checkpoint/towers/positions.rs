//! Resamples a table of learned positions to another number of patches, as PyTorch's bicubic `interpolate` does.

use super::super::state_dict::StateDict;
use crate::weight_array::{WeightArray, WeightValues};
use crate::{Error, Result};

/// The two bicubic filters of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionFilter {
    /// Cubic convolution of four neighbours with kernel parameter -3/4.
    Plain,
    /// `antialias = True`: kernel parameter -1/2. When shrinking, the kernel is stretched by the scale factor, as in
    /// Pillow.
    Antialias,
}

/// Maximum number of patches along one side, so that a wrong size in a config does not exhaust the memory. Published
/// models have at most 64.
const MAX_GRID: usize = 512;

/// Resamples the table `name`, `[.., before + grid^2, width]`, to `[1, before + to^2, width]`. The first `before` rows
/// are copied.
///
/// # Errors
/// [`Error::Format`] if the table is absent, boolean or of another shape, if its number of patches is not a square, or
/// if `to` is not 1 to [`MAX_GRID`].
pub(super) fn resample(
    stored: &mut StateDict,
    name: &str,
    before: usize,
    to: usize,
    filter: PositionFilter,
) -> Result<()> {
    let shape = stored.get(name)?.shape.clone();
    let [.., rows, width] = shape[..] else {
        return Err(Error::format(&stored.path, format!("`{name}` is {shape:?}; expected [1, positions, width]")));
    };
    let grid = grid(stored, name, rows, before)?;
    if !(1..=MAX_GRID).contains(&to) {
        let found = format!("the photographs have {to} patches along one side; expected 1 to {MAX_GRID}");
        return Err(Error::format(&stored.path, found));
    }
    let array = stored.weights.get_mut(name);
    let Some(WeightArray { values: WeightValues::F32(values), shape }) = array else {
        return Err(Error::format(&stored.path, format!("`{name}` is boolean; expected f32")));
    };
    // A file may declare more rows than it has values.
    if values.len() != rows * width {
        return Err(Error::format(&stored.path, format!("`{name}` is {shape:?}; expected [1, positions, width]")));
    }
    if grid != to {
        let patches = values.split_off(before * width);
        values.extend(resampled(&patches, width, grid, to, filter));
    }
    *shape = vec![1, before + to * to, width];
    Ok(())
}

/// Number of patches along one side.
///
/// # Errors
/// [`Error::Format`] if the number of patches is not a square.
pub(super) fn grid(stored: &StateDict, name: &str, rows: usize, before: usize) -> Result<usize> {
    let patches = rows.saturating_sub(before);
    let grid = patches.isqrt();
    if grid > 0 && grid * grid == patches {
        return Ok(grid);
    }
    let detail = format!("`{name}` has {rows} positions; expected a square number plus {before}");
    Err(Error::format(&stored.path, detail))
}

/// `[from^2, width] -> [to^2, width]`: columns first, then rows.
fn resampled(table: &[f32], width: usize, from: usize, to: usize, filter: PositionFilter) -> Vec<f32> {
    let taps: Vec<_> = (0..to).map(|i| taps(i, from, to, filter)).collect();
    let mix = |taps: &[(usize, f64)], row: &dyn Fn(usize) -> usize, table: &[f64], out: &mut Vec<f64>| {
        for channel in 0..width {
            out.push(taps.iter().map(|&(i, weight)| weight * table[row(i) * width + channel]).sum());
        }
    };
    let table: Vec<f64> = table.iter().map(|&x| f64::from(x)).collect();
    let mut narrowed = Vec::with_capacity(from * to * width);
    for y in 0..from {
        for taps in &taps {
            mix(taps, &|x| y * from + x, &table, &mut narrowed);
        }
    }
    let mut out = Vec::with_capacity(to * to * width);
    for taps in &taps {
        for x in 0..to {
            mix(taps, &|y| y * to + x, &narrowed, &mut out);
        }
    }
    out.into_iter().map(|x| x as f32).collect()
}

/// Source indices and weights of output `i`. Pixel centres are aligned (`align_corners = False`).
fn taps(i: usize, from: usize, to: usize, filter: PositionFilter) -> Vec<(usize, f64)> {
    let scale = from as f64 / to as f64;
    let centre = scale * (i as f64 + 0.5);
    match filter {
        PositionFilter::Plain => {
            let position = centre - 0.5;
            let first = position.floor() as i64 - 1;
            let tap = |j: i64| {
                let source = j.clamp(0, from as i64 - 1) as usize;
                (source, cubic(j as f64 - position, -0.75))
            };
            (first..first + 4).map(tap).collect()
        }
        PositionFilter::Antialias => {
            let widening = scale.max(1.0);
            let support = 2.0 * widening;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let last = ((centre + support + 0.5) as usize).min(from);
            let weights: Vec<f64> = (first..last).map(|j| cubic((j as f64 + 0.5 - centre) / widening, -0.5)).collect();
            let total: f64 = weights.iter().sum();
            (first..last).zip(weights).map(|(j, weight)| (j, weight / total)).collect()
        }
    }
}

/// Keys' cubic convolution kernel (1981) with parameter `a`.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.nn.functional.interpolate(x, size, mode="bicubic", align_corners=False, antialias=...)` of PyTorch 2.15
    /// for `x[y][x] = sin(1 + 5 y + 2 x)` with 3 x 3 values, in float64. The numbers are the first row of each result.
    #[test]
    fn positions_are_resampled_as_in_pytorch() {
        let table: Vec<f32> = (0..9).map(|i| f64::from(1 + 5 * (i / 3) + 2 * (i % 3)).sin() as f32).collect();
        let cases: [(usize, PositionFilter, &[f64]); 4] = [
            (2, PositionFilter::Plain, &[0.598354685, -0.630516216]),
            (2, PositionFilter::Antialias, &[0.525148585, -0.399616026]),
            (5, PositionFilter::Plain, &[1.034457234, 0.680201927, 0.059689137, -0.652114522, -1.100365613]),
            (5, PositionFilter::Antialias, &[0.990138958, 0.676086511, 0.077102028, -0.653885607, -1.070791664]),
        ];
        for (to, filter, expected) in cases {
            let found = resampled(&table, 1, 3, to, filter);
            assert_eq!(found.len(), to * to);
            for (found, expected) in found.iter().zip(expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-6, "{to} {filter:?}: {found}, expected {expected}");
            }
        }
    }
}
