//! Chooses the part of a photo that is used.

use rand::{Rng, RngExt};

use super::resample::ResampleRegion;

/// The window of a `width` x `height` photo that `Resize(size)` followed by `CenterCrop(size)` keeps. The shorter side
/// becomes `size`, the longer side becomes `floor(size * longer / shorter)`, and the central `size` pixels of the
/// longer side are used. An odd remainder is rounded half to even (torchvision). Only the window is resampled; a 20,000
/// x 1 photo is not first enlarged to 4,480,000 x 224.
pub(super) fn center(width: u32, height: u32, size: u32) -> ResampleRegion {
    let shorter = f64::from(width.min(height));
    let axis = |side: u32| {
        let side = f64::from(side);
        let resized = (f64::from(size) * side / shorter).floor();
        let skipped = ((resized - f64::from(size)) / 2.0).round_ties_even();
        let scale = side / resized;
        let start = skipped * scale;
        (start, (f64::from(size) * scale).min(side - start))
    };
    let ((left, width), (top, height)) = (axis(width), axis(height));
    ResampleRegion::Window { left, top, width, height }
}

/// A part with random area, shape and position: its area as a fraction of the photo's area is uniform in `scale`, width
/// / height is log-uniform in `ratio`, and the position is uniform. If ten drawn parts do not fit into the photo, the
/// result is the largest centred part whose width / height is in `ratio`, up to rounding. (torchvision's
/// `RandomResizedCrop.get_params`, after Szegedy et al. 2015.)
pub(super) fn random_resized(
    width: u32,
    height: u32,
    scale: [f32; 2],
    ratio: [f32; 2],
    rng: &mut impl Rng,
) -> ResampleRegion {
    let area = f64::from(width) * f64::from(height);
    let [low, high] = ratio.map(f64::from);
    for _ in 0..10 {
        let target = area * rng.random_range(f64::from(scale[0])..=f64::from(scale[1]));
        let shape = rng.random_range(low.ln()..=high.ln()).exp();
        let w = (target * shape).sqrt().round_ties_even();
        let h = (target / shape).sqrt().round_ties_even();
        if (1.0..=f64::from(width)).contains(&w) && (1.0..=f64::from(height)).contains(&h) {
            return placed(width, height, w as u32, h as u32, rng);
        }
    }
    let shape = f64::from(width) / f64::from(height);
    let (mut w, mut h) = (width, height);
    if shape < low {
        h = (f64::from(width) / low).round_ties_even() as u32;
    } else if shape > high {
        w = (f64::from(height) * high).round_ties_even() as u32;
    }
    let (w, h) = (w.clamp(1, width), h.clamp(1, height));
    ResampleRegion::Cut { left: (width - w) / 2, top: (height - h) / 2, width: w, height: h }
}

/// Chooses a `w` x `h` part at a uniformly random position.
fn placed(width: u32, height: u32, w: u32, h: u32, rng: &mut impl Rng) -> ResampleRegion {
    let top = rng.random_range(0..=height - h);
    let left = rng.random_range(0..=width - w);
    ResampleRegion::Cut { left, top, width: w, height: h }
}

/// A `size` x `size` window at a uniformly random position of the photo squeezed to `margin * size` (torchvision's
/// `Resize` of both sides and `RandomCrop`), in pixels of the original photo.
pub(super) fn random_window(width: u32, height: u32, size: u32, margin: f32, rng: &mut impl Rng) -> ResampleRegion {
    let resized = (f64::from(size) * f64::from(margin)).round().max(f64::from(size)) as u32;
    let mut axis = |side: u32| {
        let scale = f64::from(side) / f64::from(resized);
        let start = f64::from(rng.random_range(0..=resized - size)) * scale;
        (start, (f64::from(size) * scale).min(f64::from(side) - start))
    };
    let ((top, height), (left, width)) = (axis(height), axis(width));
    ResampleRegion::Window { left, top, width, height }
}
