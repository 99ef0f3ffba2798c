//! Compiled drawings of object classes: measured once, scaled to the unit square, then painted in any colour and
//! position.

use conifer_data::BBox;
use tiny_skia::{
    Color, GradientStop, LinearGradient, Paint, Path, Pixmap, PixmapMut, Point, Rect, Shader, SpreadMode, Transform,
};

use super::palette::{GLOW, Ink, Rgb, SHADE};
use super::shape::{RULE, SheetPoint, Sketch};
use super::silhouette;

/// Side length of the raster on which outlines and the visible extent of parts are measured, in pixels.
const GRID: u32 = 512;

/// Minimum visible fraction of a part, after later shapes are drawn, for the part to be listed.
const VISIBLE: f32 = 0.3;

/// A measured drawing. All coordinates are fractions of its frame: the tight box around all shapes, rims included.
pub(crate) struct ToyFigure {
    /// Width over height of the frame.
    pub(crate) aspect: f32,
    /// The point on which a small object can sit, if there is one.
    pub(crate) perch: Option<SheetPoint>,
    pub(crate) parts: Vec<FigurePart>,
    rim: Path,
    shapes: Vec<(Path, Ink)>,
}

pub(crate) struct FigurePart {
    pub(crate) name: &'static str,
    pub(crate) bounds: BBox,
}

/// The colours of one object.
#[derive(Clone, Copy)]
pub(crate) struct Tint {
    pub(crate) body: Rgb,
    pub(crate) rim: Rgb,
}

impl ToyFigure {
    /// Draws and measures the figure. `None` if nothing was drawn.
    pub(crate) fn new(draw: fn(&mut Sketch)) -> Option<Self> {
        let mut sketch = Sketch::default();
        draw(&mut sketch);
        let frame =
            sketch.shapes.iter().filter_map(|shape| shape.rim.as_ref()?.compute_tight_bounds()).reduce(|a, b| {
                let (left, top) = (a.left().min(b.left()), a.top().min(b.top()));
                Rect::from_ltrb(left, top, a.right().max(b.right()), a.bottom().max(b.bottom())).unwrap_or(a)
            })?;
        let to_unit =
            Transform::from_translate(-frame.x(), -frame.y()).post_scale(1.0 / frame.width(), 1.0 / frame.height());
        let rim = outline(&sketch, to_unit)?;
        let mut shapes = Vec::with_capacity(sketch.shapes.len());
        let mut owner = Vec::with_capacity(sketch.shapes.len());
        for shape in sketch.shapes {
            shapes.push((shape.path.transform(to_unit)?, shape.ink));
            owner.push(shape.part);
        }
        Some(Self {
            aspect: frame.width() / frame.height(),
            perch: sketch.perch.map(|(x, y)| ((x - frame.x()) / frame.width(), (y - frame.y()) / frame.height())),
            parts: visible_parts(&shapes, &owner, &sketch.parts)?,
            rim,
            shapes,
        })
    }

    /// Paints the drawing so that its frame fills `bounds` (left, top, right, bottom in pixels).
    pub(crate) fn paint(&self, canvas: &mut PixmapMut<'_>, bounds: [f32; 4], flip: bool, tint: Tint) {
        let [x1, y1, x2, y2] = bounds;
        let place = if flip {
            Transform::from_row(x1 - x2, 0.0, 0.0, y2 - y1, x2, y1)
        } else {
            Transform::from_row(x2 - x1, 0.0, 0.0, y2 - y1, x1, y1)
        };
        fill(canvas, &self.rim, solid(tint.rim), place);
        // Lighting common to all objects: each tone runs from warm and pale at the top to cool and dark at the bottom.
        let tones = [tint.body, tint.body.mix(GLOW, 0.42), tint.body.mix(SHADE, 0.26)].map(shaded);
        for (path, ink) in &self.shapes {
            let shader = match ink {
                Ink::Body => tones[0].clone(),
                Ink::Light => tones[1].clone(),
                Ink::Dark => tones[2].clone(),
                Ink::Fixed(rgb) => solid(*rgb),
            };
            fill(canvas, path, shader, place);
        }
    }
}

fn solid(rgb: Rgb) -> Shader<'static> {
    Shader::SolidColor(rgb.skia())
}

fn shaded(rgb: Rgb) -> Shader<'static> {
    let stops =
        vec![GradientStop::new(0.0, rgb.mix(GLOW, 0.16).skia()), GradientStop::new(1.0, rgb.mix(SHADE, 0.18).skia())];
    LinearGradient::new(
        Point::from_xy(0.0, 0.0),
        Point::from_xy(0.0, 1.0),
        stops,
        SpreadMode::Pad,
        Transform::identity(),
    )
    .unwrap_or_else(|| solid(rgb))
}

fn fill(canvas: &mut PixmapMut<'_>, path: &Path, shader: Shader<'_>, place: Transform) {
    let paint = Paint { shader, ..Paint::default() };
    canvas.fill_path(path, &paint, RULE, place, None);
}

/// One outline around the union of all shapes and their rims.
fn outline(sketch: &Sketch, to_unit: Transform) -> Option<Path> {
    let mut grid = Pixmap::new(GRID, GRID)?;
    let place = to_unit.post_scale(GRID as f32, GRID as f32);
    let ink = numbered(1);
    for shape in &sketch.shapes {
        for path in std::iter::once(&shape.path).chain(&shape.rim) {
            grid.fill_path(path, &ink, RULE, place, None);
        }
    }
    let mask: Vec<bool> = grid.pixels().iter().map(|pixel| pixel.red() > 0).collect();
    silhouette::trace(&mask, GRID as usize)
}

/// Paint for measurements: writes `number` to the red channel, without anti-aliasing.
fn numbered(number: u8) -> Paint<'static> {
    Paint { shader: Shader::SolidColor(Color::from_rgba8(number, 0, 0, 255)), anti_alias: false, ..Paint::default() }
}

/// Bounding boxes of the visible parts: paints every shape with the number of its part, then measures the pixels that
/// remain of each number.
fn visible_parts(shapes: &[(Path, Ink)], owner: &[Option<usize>], names: &[&'static str]) -> Option<Vec<FigurePart>> {
    let mut grid = Pixmap::new(GRID, GRID)?;
    let place = Transform::from_scale(GRID as f32, GRID as f32);
    let mut drawn = vec![0_u32; names.len()];
    for ((path, _), part) in shapes.iter().zip(owner) {
        let number = part.map_or(0, |part| part + 1) as u8;
        grid.fill_path(path, &numbered(number), RULE, place, None);
        if let Some(part) = *part {
            let bounds = path.compute_tight_bounds()?;
            drawn[part] += (bounds.width() * bounds.height() * (GRID * GRID) as f32) as u32;
        }
    }
    let mut visible = vec![([GRID, GRID, 0, 0], 0_u32); names.len()];
    for (i, pixel) in grid.pixels().iter().enumerate() {
        if pixel.red() > 0 {
            let (bounds, count) = &mut visible[usize::from(pixel.red()) - 1];
            let (x, y) = (i as u32 % GRID, i as u32 / GRID);
            *bounds = [bounds[0].min(x), bounds[1].min(y), bounds[2].max(x + 1), bounds[3].max(y + 1)];
            *count += 1;
        }
    }
    let parts = names.iter().zip(&visible).zip(&drawn);
    Some(
        parts
            .filter(|((_, (_, count)), drawn)| *count as f32 >= VISIBLE * **drawn as f32)
            .filter(|((_, (_, count)), _)| *count > 0)
            .map(|((name, (bounds, _)), _)| FigurePart {
                name,
                bounds: BBox::from_pixels(bounds.map(|v| v as f32), GRID as f32, GRID as f32),
            })
            .collect(),
    )
}
