//! Traces the outline of a pixel mask as polygons. One traced outline is faster to fill than a rim built from the
//! strokes of every shape.

use tiny_skia::{Path, PathBuilder};

/// Largest distance between a simplified line and the pixel steps that it replaces, in pixels of the mask. The value is
/// slightly larger than the staircase error of a slanted edge.
const TOLERANCE: f32 = 0.8;

/// Outlines of the true pixels of a `side` x `side` mask, in fractions of the side. Holes have the opposite
/// orientation. `None` for an empty mask.
pub(crate) fn trace(mask: &[bool], side: usize) -> Option<Path> {
    let mut steps = OutlineEdges::around(mask, side);
    let mut path = PathBuilder::new();
    for y in 0..=side {
        for x in 0..=side {
            while let Some(outline) = steps.walk((x, y)) {
                let scale = 1.0 / side as f32;
                for (i, (x, y)) in simplified(&outline).into_iter().enumerate() {
                    if i == 0 {
                        path.move_to(x * scale, y * scale);
                    } else {
                        path.line_to(x * scale, y * scale);
                    }
                }
                path.close();
            }
        }
    }
    path.finish()
}

/// For each corner of the pixel grid, a bit mask of the directions in which an outline leaves it: bit 0 right, 1 down,
/// 2 left, 3 up.
struct OutlineEdges {
    leaving: Vec<u8>,
    row: usize,
}

impl OutlineEdges {
    /// Edges between true and false pixels, directed so that the true pixels are on the right.
    fn around(mask: &[bool], side: usize) -> Self {
        let inside = |x: usize, y: usize| x < side && y < side && mask[y * side + x];
        let row = side + 1;
        let mut leaving = vec![0; row * row];
        for y in 0..side {
            for x in (0..side).filter(|&x| inside(x, y)) {
                for (direction, open, (from_x, from_y)) in [
                    (0, y == 0 || !inside(x, y - 1), (x, y)),
                    (1, !inside(x + 1, y), (x + 1, y)),
                    (2, !inside(x, y + 1), (x + 1, y + 1)),
                    (3, x == 0 || !inside(x - 1, y), (x, y + 1)),
                ] {
                    if open {
                        leaving[from_y * row + from_x] |= 1 << direction;
                    }
                }
            }
        }
        Self { leaving, row }
    }

    /// Removes one closed outline through `start` from the grid and returns it. Every corner has as many incoming as
    /// outgoing edges, so each walk ends at its start.
    fn walk(&mut self, start: (usize, usize)) -> Option<Vec<(f32, f32)>> {
        let mut outline = Vec::new();
        let (mut x, mut y) = start;
        loop {
            let leaving = &mut self.leaving[y * self.row + x];
            if *leaving == 0 {
                return (!outline.is_empty()).then_some(outline);
            }
            let direction = leaving.trailing_zeros();
            *leaving &= *leaving - 1;
            let from = (x, y);
            match direction {
                0 => x += 1,
                1 => y += 1,
                2 => x -= 1,
                _ => y -= 1,
            }
            // Use the midpoints of the steps, which turn a staircase along a slanted edge into nearly a straight line.
            outline.push(((from.0 + x) as f32 / 2.0, (from.1 + y) as f32 / 2.0));
        }
    }
}

/// Simplifies a closed outline with the Ramer-Douglas-Peucker algorithm; every dropped point is within [`TOLERANCE`].
fn simplified(outline: &[(f32, f32)]) -> Vec<(f32, f32)> {
    let n = outline.len();
    let far = (0..n).max_by(|&a, &b| {
        let reach = |i: usize| (outline[i].0 - outline[0].0).hypot(outline[i].1 - outline[0].1);
        reach(a).total_cmp(&reach(b))
    });
    let Some(far) = far else { return Vec::new() };
    let mut keep = vec![false; n + 1];
    (keep[0], keep[far]) = (true, true);
    let mut pieces = vec![(0, far), (far, n)];
    while let Some((from, to)) = pieces.pop() {
        let worst = (from + 1..to)
            .map(|i| (i, distance(outline[i], outline[from], outline[to % n])))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((i, off)) = worst
            && off > TOLERANCE
        {
            keep[i] = true;
            pieces.extend([(from, i), (i, to)]);
        }
    }
    (0..n).filter(|&i| keep[i]).map(|i| outline[i]).collect()
}

/// Distance of `p` from the line through `a` and `b`.
fn distance(p: (f32, f32), a: (f32, f32), b: (f32, f32)) -> f32 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return (p.0 - a.0).hypot(p.1 - a.1);
    }
    (dx * (p.1 - a.1) - dy * (p.0 - a.0)).abs() / length
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn outline_of_a_frame_keeps_extent_and_hole() {
        let side = 40;
        let within = |v: usize, border: usize| (border..side - border).contains(&v);
        let mask: Vec<bool> = (0..side * side)
            .map(|i| (i % side, i / side))
            .map(|(x, y)| within(x, 5) && within(y, 5) && !(within(x, 15) && within(y, 15)))
            .collect();
        let path = trace(&mask, side).unwrap();
        let bounds = path.bounds();
        assert_eq!([bounds.left(), bounds.bottom()], [0.125, 0.875]);
        // The midpoints cut half a pixel off each corner, so each of the eight corners may need two points.
        assert!((8..=16).contains(&path.points().len()), "{path:?}");
        let mut canvas = tiny_skia::Pixmap::new(40, 40).unwrap();
        let place = tiny_skia::Transform::from_scale(40.0, 40.0);
        let ink = tiny_skia::Paint::default();
        canvas.fill_path(&path, &ink, crate::shape::RULE, place, None);
        let covered = |x, y| canvas.pixel(x, y).is_some_and(|pixel| pixel.alpha() > 0);
        assert!(covered(10, 20) && !covered(20, 20) && !covered(2, 20));
    }

    #[test]
    fn an_empty_mask_has_no_outline() {
        assert!(trace(&[false; 9], 3).is_none());
    }
}
