//! Flips, rotation and blur.

use super::to_byte;
use crate::sample::Picture;

pub(super) fn flip_horizontal(picture: &mut Picture) {
    let width = picture.width as usize;
    for row in picture.rgb.chunks_exact_mut(width * 3) {
        for x in 0..width / 2 {
            for channel in 0..3 {
                row.swap(x * 3 + channel, (width - 1 - x) * 3 + channel);
            }
        }
    }
}

pub(super) fn flip_vertical(picture: &mut Picture) {
    let row_bytes = picture.width as usize * 3;
    let height = picture.height as usize;
    for y in 0..height / 2 {
        let (above, below) = picture.rgb.split_at_mut((height - 1 - y) * row_bytes);
        above[y * row_bytes..][..row_bytes].swap_with_slice(&mut below[..row_bytes]);
    }
}

/// Rotates anticlockwise by `degrees` around the centre. The size does not change, interpolation is bilinear, and
/// uncovered pixels are black (torchvision's fill).
pub(super) fn rotate(picture: &Picture, degrees: f32) -> Picture {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (mid_x, mid_y) = ((width as f32 - 1.0) / 2.0, (height as f32 - 1.0) / 2.0);
    let pixel = |x: isize, y: isize| -> [f32; 3] {
        let inside = (0..width as isize).contains(&x) && (0..height as isize).contains(&y);
        if !inside {
            return [0.0; 3];
        }
        let start = (y as usize * width + x as usize) * 3;
        let bytes = &picture.rgb[start..start + 3];
        [bytes[0], bytes[1], bytes[2]].map(f32::from)
    };
    let mut rgb = Vec::with_capacity(picture.rgb.len());
    for y in 0..height {
        for x in 0..width {
            // Source position of the pixel, by the inverse rotation. y points down.
            let (dx, dy) = (x as f32 - mid_x, y as f32 - mid_y);
            let (from_x, from_y) = (mid_x + cos * dx - sin * dy, mid_y + sin * dx + cos * dy);
            let (x0, y0) = (floor(from_x), floor(from_y));
            let (fx, fy) = (from_x - x0 as f32, from_y - y0 as f32);
            let (a, b) = (pixel(x0, y0), pixel(x0 + 1, y0));
            let (c, d) = (pixel(x0, y0 + 1), pixel(x0 + 1, y0 + 1));
            for channel in 0..3 {
                let above = a[channel] + (b[channel] - a[channel]) * fx;
                let below = c[channel] + (d[channel] - c[channel]) * fx;
                rgb.push(to_byte(above + (below - above) * fy));
            }
        }
    }
    Picture { rgb, ..*picture }
}

/// Like `x.floor()`, which is a C library call on baseline x86-64 (without SSE4.1). For negative integers the result is
/// one too low, which does not change the interpolation.
fn floor(x: f32) -> isize {
    x as isize - isize::from(x < 0.0)
}

/// Convolves with `exp(-x^2 / (2 sigma^2))` over `kernel` (odd) pixels per axis. Borders are mirrored without
/// repeating the edge (torchvision's `GaussianBlur`).
pub(super) fn blur(picture: &Picture, kernel: u32, sigma: f32) -> Picture {
    let radius = (kernel / 2) as isize;
    let weight = |offset: isize| (-0.5 * (offset as f32 / sigma).powi(2)).exp();
    let total: f32 = (-radius..=radius).map(weight).sum();
    let weights: Vec<f32> = (-radius..=radius).map(|offset| weight(offset) / total).collect();
    let row_bytes = picture.width as usize * 3;
    let mut across = Vec::with_capacity(picture.rgb.len());
    for row in picture.rgb.chunks_exact(row_bytes) {
        let row = with_borders(row, 3, radius);
        weighted_sum(&row, 3, &weights, row_bytes, &mut across);
    }
    let mut rgb = Vec::with_capacity(picture.rgb.len());
    let rows = with_borders(&across, row_bytes, radius);
    for y in 0..picture.height as usize {
        weighted_sum(&rows[y * row_bytes..], row_bytes, &weights, row_bytes, &mut rgb);
    }
    Picture { rgb, ..*picture }
}

/// Appends `sum over k of weights[k] * values[k * step + j]` for `j` in `0..n`.
fn weighted_sum(values: &[u8], step: usize, weights: &[f32], n: usize, result: &mut Vec<u8>) {
    let mut sums = vec![0.0; n];
    for (k, weight) in weights.iter().enumerate() {
        for (sum, value) in sums.iter_mut().zip(&values[k * step..]) {
            *sum += weight * f32::from(*value);
        }
    }
    result.extend(sums.into_iter().map(to_byte));
}

/// Elements of `step` bytes, extended by `radius` elements on both sides. The extension mirrors at the first and last
/// element without repeating them.
fn with_borders(values: &[u8], step: usize, radius: isize) -> Vec<u8> {
    let len = (values.len() / step) as isize;
    let period = (2 * (len - 1)).max(1);
    let mut result = Vec::with_capacity(values.len() + 2 * radius as usize * step);
    for index in -radius..len + radius {
        let folded = index.rem_euclid(period);
        let index = folded.min(period - folded).min(len - 1) as usize;
        result.extend_from_slice(&values[index * step..(index + 1) * step]);
    }
    result
}
