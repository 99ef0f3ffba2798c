//! Brightness, contrast, saturation and hue, as torchvision's `ColorJitter` defines them on bytes (hue here without its
//! rounding to 8-bit HSV).

use super::to_byte;
use crate::sample::Picture;

/// Every value times `factor`.
pub(super) fn brightness(picture: &mut Picture, factor: f32) {
    blend(picture, factor, |_| 0.0);
}

/// Away from (`factor` > 1) or towards the picture's mean grey, a whole number of levels.
pub(super) fn contrast(picture: &mut Picture, factor: f32) {
    let pixels = picture.rgb.len() / 3;
    let sum: f64 = picture.rgb.chunks_exact(3).map(|p| f64::from(grey(p))).sum();
    let mean = (sum / pixels.max(1) as f64).round() as f32;
    blend(picture, factor, |_| mean);
}

/// Away from (`factor` > 1) or towards each pixel's own grey.
pub(super) fn saturation(picture: &mut Picture, factor: f32) {
    blend(picture, factor, grey);
}

/// The colour circle turned by `turn` of a full turn, in HSV; greys stay as they are.
pub(super) fn hue(picture: &mut Picture, turn: f32) {
    for pixel in picture.rgb.chunks_exact_mut(3) {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(f32::from);
        let value = r.max(g).max(b);
        let chroma = value - r.min(g).min(b);
        if chroma == 0.0 {
            continue;
        }
        // The position on the circle in sixths, red at 0.
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

/// ITU-R 601 luma, a whole number of levels.
fn grey(pixel: &[u8]) -> f32 {
    let luma = 0.299 * f32::from(pixel[0]) + 0.587 * f32::from(pixel[1]) + 0.114 * f32::from(pixel[2]);
    f32::from(to_byte(luma))
}

/// `base + factor * (value - base)`, cut to 0..=255.
fn blend(picture: &mut Picture, factor: f32, base: impl Fn(&[u8]) -> f32) {
    for pixel in picture.rgb.chunks_exact_mut(3) {
        let base = base(pixel);
        for value in pixel {
            *value = to_byte(base + factor * (f32::from(*value) - base));
        }
    }
}
