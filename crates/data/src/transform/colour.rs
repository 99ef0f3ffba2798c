//! Brightness, contrast, saturation and hue as in torchvision's `ColorJitter` on bytes, except that hue is not
//! rounded to 8-bit HSV.

use super::to_byte;
use crate::sample::Picture;

/// Multiplies every value by `factor`.
pub(super) fn brightness(picture: &mut Picture, factor: f32) {
    blend(picture, factor, |_| 0.0);
}

/// Scales the difference to the mean grey of the picture by `factor`. The mean is rounded to a whole level.
pub(super) fn contrast(picture: &mut Picture, factor: f32) {
    let pixels = picture.rgb.len() / 3;
    let sum: f64 = picture.rgb.chunks_exact(3).map(|p| f64::from(grey(p))).sum();
    let mean = (sum / pixels.max(1) as f64).round() as f32;
    blend(picture, factor, |_| mean);
}

/// Scales the difference to each pixel's grey by `factor`.
pub(super) fn saturation(picture: &mut Picture, factor: f32) {
    blend(picture, factor, grey);
}

/// Rotates the hue by `turn` of a full turn in HSV. Greys do not change.
pub(super) fn hue(picture: &mut Picture, turn: f32) {
    for pixel in picture.rgb.chunks_exact_mut(3) {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(f32::from);
        let value = r.max(g).max(b);
        let chroma = value - r.min(g).min(b);
        if chroma == 0.0 {
            continue;
        }
        // Hue in sixths of a full turn, red at 0.
        let sixth = if value == r {
            (g - b) / chroma
        } else if value == g {
            (b - r) / chroma + 2.0
        } else {
            (r - g) / chroma + 4.0
        };
        let turned = sixth + 6.0 * turn;
        for (out, at) in pixel.iter_mut().zip([5.0, 3.0, 1.0]) {
            let k = (at + turned).rem_euclid(6.0);
            *out = to_byte(value - chroma * k.min(4.0 - k).clamp(0.0, 1.0));
        }
    }
}

/// ITU-R 601 luma, rounded to a whole level.
fn grey(pixel: &[u8]) -> f32 {
    let luma = 0.299 * f32::from(pixel[0]) + 0.587 * f32::from(pixel[1]) + 0.114 * f32::from(pixel[2]);
    f32::from(to_byte(luma))
}

/// `base + factor * (value - base)`, clamped to 0..=255.
fn blend(picture: &mut Picture, factor: f32, base: impl Fn(&[u8]) -> f32) {
    for pixel in picture.rgb.chunks_exact_mut(3) {
        let base = base(pixel);
        for value in pixel {
            *value = to_byte(base + factor * (f32::from(*value) - base));
        }
    }
}
