//! The drawing language: ellipses, polygons, rounded outlines and strokes on a 100 x 100 sheet, grouped into named
//! parts.
//!
//! Point lists use the SVG syntax: "12,50 30,42". x grows to the right and y downwards. Objects stand near y = 100 and
//! face right. A drawing may exceed the sheet or fill a part of it only: [`super::figure::ToyFigure`] measures the
//! actual extent.

use tiny_skia::{FillRule, LineCap, LineJoin, Path, PathBuilder, Stroke};

use super::palette::{CREAM, Ink, NIGHT};

/// Width of the rim around an object, in sheet units. The rim keeps a white cat visible on snow.
pub(crate) const RIM: f32 = 1.8;

/// Precision of stroke approximation (the `resolution_scale` of tiny-skia). Rims use a coarser value: they are less
/// visible than shapes and are the most expensive outlines to fill.
const FINENESS: f32 = 1.0;
const RIM_FINENESS: f32 = 0.4;

/// A point on the sheet.
pub(crate) type SheetPoint = (f32, f32);

/// A drawing under construction; later shapes cover earlier ones.
#[derive(Default)]
pub(crate) struct Sketch {
    pub(crate) shapes: Vec<SketchShape>,
    /// Names of the parts, in the order in which they were begun; one entry per instance ("wheel", "wheel").
    pub(crate) parts: Vec<&'static str>,
    /// Position of the middle of the bottom edge of a small object that stands on this object.
    pub(crate) perch: Option<SheetPoint>,
    part: Option<usize>,
}

pub(crate) struct SketchShape {
    pub(crate) path: Path,
    /// The outline of the shape extended by [`RIM`]; `None` for details inside the object.
    pub(crate) rim: Option<Path>,
    pub(crate) ink: Ink,
    /// Index in [`Sketch::parts`].
    pub(crate) part: Option<usize>,
}

impl Sketch {
    /// Groups everything that `draw` draws as one instance of the part `name`.
    pub(crate) fn part(&mut self, name: &'static str, draw: impl FnOnce(&mut Self)) {
        let outer = self.part;
        self.parts.push(name);
        self.part = Some(self.parts.len() - 1);
        draw(self);
        self.part = outer;
    }

    /// Sets the point on which a small object can sit.
    pub(crate) fn perch(&mut self, x: f32, y: f32) {
        self.perch = Some((x, y));
    }

    pub(crate) fn ellipse(&mut self, ink: Ink, cx: f32, cy: f32, rx: f32, ry: f32) {
        self.tilted(ink, (cx, cy), (rx, ry), 0.0);
    }

    pub(crate) fn circle(&mut self, ink: Ink, cx: f32, cy: f32, r: f32) {
        self.tilted(ink, (cx, cy), (r, r), 0.0);
    }

    /// An ellipse turned clockwise by `degrees`.
    pub(crate) fn tilted(&mut self, ink: Ink, (cx, cy): SheetPoint, (rx, ry): SheetPoint, degrees: f32) {
        let (sin, cos) = degrees.to_radians().sin_cos();
        let at = |u: f32, v: f32| {
            let (x, y) = (u * rx, v * ry);
            (cx + x * cos - y * sin, cy + x * sin + y * cos)
        };
        // Four cubic Bezier curves. With this constant the middle of each curve lies on the circle.
        const K: f32 = 0.552_284_8;
        let mut path = PathBuilder::new();
        path.move_to(at(1.0, 0.0).0, at(1.0, 0.0).1);
        for [a, b, c] in [
            [(1.0, K), (K, 1.0), (0.0, 1.0)],
            [(-K, 1.0), (-1.0, K), (-1.0, 0.0)],
            [(-1.0, -K), (-K, -1.0), (0.0, -1.0)],
            [(K, -1.0), (1.0, -K), (1.0, 0.0)],
        ] {
            let [a, b, c] = [at(a.0, a.1), at(b.0, b.1), at(c.0, c.1)];
            path.cubic_to(a.0, a.1, b.0, b.1, c.0, c.1);
        }
        path.close();
        self.fill(ink, path);
    }

    pub(crate) fn poly(&mut self, ink: Ink, corners: &str) {
        self.polygon(ink, points(corners));
    }

    fn polygon(&mut self, ink: Ink, corners: Vec<SheetPoint>) {
        let mut path = PathBuilder::new();
        for (i, &(x, y)) in corners.iter().enumerate() {
            if i == 0 {
                path.move_to(x, y);
            } else {
                path.line_to(x, y);
            }
        }
        path.close();
        self.fill(ink, path);
    }

    /// A rectangle from its left, top, right and bottom.
    pub(crate) fn rect(&mut self, ink: Ink, x1: f32, y1: f32, x2: f32, y2: f32) {
        self.polygon(ink, vec![(x1, y1), (x2, y1), (x2, y2), (x1, y2)]);
    }

    /// A rectangle with corners of radius `r`.
    pub(crate) fn slab(&mut self, ink: Ink, (x1, y1): SheetPoint, (x2, y2): SheetPoint, r: f32) {
        self.rounded(ink, vec![(x1, y1), (x2, y1), (x2, y2), (x1, y2)], r);
    }

    /// A polygon with corners of radius `r`, limited to half of the shorter adjacent edge.
    pub(crate) fn soft(&mut self, ink: Ink, r: f32, corners: &str) {
        self.rounded(ink, points(corners), r);
    }

    fn rounded(&mut self, ink: Ink, corners: Vec<SheetPoint>, r: f32) {
        let n = corners.len();
        let toward = |from: SheetPoint, to: SheetPoint| {
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = dx.hypot(dy).max(1e-3);
            let step = r.min(length / 2.0) / length;
            (from.0 + dx * step, from.1 + dy * step)
        };
        let mut path = PathBuilder::new();
        for i in 0..n {
            let (before, corner, after) = (corners[(i + n - 1) % n], corners[i], corners[(i + 1) % n]);
            let (enter, leave) = (toward(corner, before), toward(corner, after));
            if i == 0 {
                path.move_to(enter.0, enter.1);
            } else {
                path.line_to(enter.0, enter.1);
            }
            path.quad_to(corner.0, corner.1, leave.0, leave.1);
        }
        path.close();
        self.fill(ink, path);
    }

    /// A smooth closed outline through the points (a Catmull-Rom spline).
    pub(crate) fn blob(&mut self, ink: Ink, through: &str) {
        let points = points(through);
        let n = points.len();
        let mut path = PathBuilder::new();
        path.move_to(points[0].0, points[0].1);
        for i in 0..n {
            spline(&mut path, [points[(i + n - 1) % n], points[i], points[(i + 1) % n], points[(i + 2) % n]]);
        }
        path.close();
        self.fill(ink, path);
    }

    /// A polyline stroke with round ends.
    pub(crate) fn line(&mut self, ink: Ink, width: f32, through: &str) {
        let mut path = PathBuilder::new();
        for (i, (x, y)) in points(through).into_iter().enumerate() {
            if i == 0 {
                path.move_to(x, y);
            } else {
                path.line_to(x, y);
            }
        }
        self.stroke(ink, width, path);
    }

    /// A stroke with round ends along a smooth curve through the points.
    pub(crate) fn curve(&mut self, ink: Ink, width: f32, through: &str) {
        let through = points(through);
        let n = through.len();
        let mut path = PathBuilder::new();
        path.move_to(through[0].0, through[0].1);
        for i in 0..n - 1 {
            let before = through[i.saturating_sub(1)];
            let after = through[(i + 2).min(n - 1)];
            spline(&mut path, [before, through[i], through[i + 1], after]);
        }
        self.stroke(ink, width, path);
    }

    /// A circle outline with the given stroke width.
    pub(crate) fn ring(&mut self, ink: Ink, cx: f32, cy: f32, r: f32, width: f32) {
        let mut path = PathBuilder::new();
        path.push_circle(cx, cy, r);
        self.stroke(ink, width, path);
    }

    /// An eye with a glint, looking to the right.
    pub(crate) fn eye(&mut self, x: f32, y: f32, r: f32) {
        self.inside(|s| {
            s.circle(NIGHT, x, y, r);
            s.circle(CREAM, x + r * 0.35, y - r * 0.35, r * 0.36);
        });
    }

    /// Draws details that lie inside the object and so need no rim.
    pub(crate) fn inside(&mut self, draw: impl FnOnce(&mut Self)) {
        let first = self.shapes.len();
        draw(self);
        for shape in &mut self.shapes[first..] {
            shape.rim = None;
        }
    }

    fn fill(&mut self, ink: Ink, path: PathBuilder) {
        let Some(path) = path.finish() else { return };
        let rim = path.stroke(&pen(2.0 * RIM), RIM_FINENESS);
        self.push(ink, path, rim);
    }

    fn stroke(&mut self, ink: Ink, width: f32, path: PathBuilder) {
        let Some(spine) = path.finish() else { return };
        if let Some(path) = spine.stroke(&pen(width), FINENESS) {
            let rim = spine.stroke(&pen(width + 2.0 * RIM), RIM_FINENESS);
            self.push(ink, path, rim);
        }
    }

    fn push(&mut self, ink: Ink, path: Path, rim: Option<Path>) {
        self.shapes.push(SketchShape { path, rim, ink, part: self.part });
    }
}

/// With this rule, self-intersecting shapes have no holes.
pub(crate) const RULE: FillRule = FillRule::Winding;

fn pen(width: f32) -> Stroke {
    Stroke { width, line_cap: LineCap::Round, line_join: LineJoin::Round, ..Stroke::default() }
}

/// One segment of a Catmull-Rom spline, from `from` to `to`, as a cubic Bezier curve.
fn spline(path: &mut PathBuilder, [before, from, to, after]: [SheetPoint; 4]) {
    path.cubic_to(
        from.0 + (to.0 - before.0) / 6.0,
        from.1 + (to.1 - before.1) / 6.0,
        to.0 - (after.0 - from.0) / 6.0,
        to.1 - (after.1 - from.1) / 6.0,
        to.0,
        to.1,
    );
}

/// Parses "x,y x,y ...". The lists are literals of this crate, so malformed points are a bug here and are checked in
/// debug builds only.
fn points(text: &str) -> Vec<SheetPoint> {
    let read = |pair: &str| {
        let (x, y) = pair.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let points: Vec<SheetPoint> = text.split_whitespace().filter_map(read).collect();
    debug_assert_eq!(points.len(), text.split_whitespace().count(), "in {text:?}");
    points
}
