//! Pictures for visual inspection: a single class, or many pictures on one contact sheet.

use conifer_data::{BBox, Picture};

use super::backdrop::Background;
use super::choice::ClassChoice;
use super::classes::ToyClass;
use super::paint::draw;
use super::palette::Colour;
use super::scene::{ObjectSize, Scene, SceneObject};

/// Draws one class on a plain background, as large as it fits into `resolution` x `resolution` pixels.
pub fn portrait(class: ToyClass, colour: Colour, resolution: u32) -> Picture {
    let aspect = class.figure().map_or(1.0, |figure| figure.aspect);
    let (width, height) = (0.86 * aspect.min(1.0), 0.86 / aspect.max(1.0));
    let bounds = BBox {
        x1: (1.0 - width) / 2.0,
        y1: 0.93 - (0.86 + height) / 2.0,
        x2: (1.0 + width) / 2.0,
        y2: 0.93 - (0.86 - height) / 2.0,
    };
    let object = SceneObject { class, colour, size: ObjectSize::Large, flip: false, bounds };
    let scene = Scene {
        background: Background::Meadow,
        objects: vec![object],
        relations: Vec::new(),
        classes: ClassChoice::All,
        variant: 0,
    };
    draw(&scene, resolution, |canvas| canvas.fill(tiny_skia::Color::from_rgba8(226, 238, 218, 255)))
}

/// Arranges pictures in rows of `columns`, left to right and top to bottom; the rest of the last row is white. The
/// first picture determines the size; pictures of another size are skipped.
pub fn contact_sheet(pictures: &[Picture], columns: usize) -> Picture {
    let Some(first) = pictures.first() else {
        return Picture { width: 0, height: 0, rgb: Vec::new() };
    };
    let (width, height) = (first.width as usize, first.height as usize);
    let columns = columns.clamp(1, pictures.len());
    let rows = pictures.len().div_ceil(columns);
    let stride = 3 * width * columns;
    let mut rgb = vec![255; stride * height * rows];
    for (i, picture) in pictures.iter().enumerate() {
        if (picture.width, picture.height) == (first.width, first.height) {
            let corner = (i / columns) * height * stride + (i % columns) * 3 * width;
            for (y, line) in picture.rgb.chunks_exact(3 * width).enumerate() {
                rgb[corner + y * stride..][..3 * width].copy_from_slice(line);
            }
        }
    }
    Picture { width: (width * columns) as u32, height: (height * rows) as u32, rgb }
}
