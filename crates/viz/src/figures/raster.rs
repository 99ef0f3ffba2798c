use png::{BitDepth, ColorType, Decoder, Encoder, PixelDimensions, Transformations, Unit};
use tiny_skia::{
    Color, FillRule, FilterQuality, IntSize, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PixmapPaint, Stroke,
    StrokeDash, Transform,
};

use super::drawing::{Drawing, Shape};
use super::font::FigureFont;
use crate::palette::Rgb;
use crate::{Error, Result};

/// Resolution of PNG files, as journals require it.
const DOTS_PER_INCH: f64 = 300.0;
/// Number of points (the unit of lengths) per inch.
const POINTS: f64 = 72.0;
/// Maximum number of pixels, which take 400 MB.
const MAX_PIXELS: f64 = 1e8;

impl Drawing {
    /// The drawing as a PNG file of 300 dots per inch. Texts are drawn as outlines of `font`.
    ///
    /// # Errors
    /// The drawing is too large; a picture is not a PNG file.
    pub fn png(&self, font: &FigureFont<'_>) -> Result<Vec<u8>> {
        let scale = DOTS_PER_INCH / POINTS;
        let [width, height] = [self.width, self.height].map(|it| (it * DOTS_PER_INCH / POINTS).ceil().max(1.0));
        let too_large = || {
            Error::invalid(
                "size of the PNG file",
                format!("{width} x {height} pixels"),
                format!("at most {MAX_PIXELS} pixels"),
            )
        };
        if width * height > MAX_PIXELS {
            return Err(too_large());
        }
        let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
        pixels.fill(Color::WHITE);
        let place = Transform::from_scale(scale as f32, scale as f32);
        for shape in &self.shapes {
            paint(&mut pixels, shape, font, place)?;
        }
        encoded(&pixels)
    }
}

fn paint(pixels: &mut Pixmap, shape: &Shape, font: &FigureFont<'_>, place: Transform) -> Result<()> {
    let fill = |pixels: &mut Pixmap, path: &Path, colour: Rgb, opacity: f64, place: Transform| {
        pixels.fill_path(path, &paint_of(colour, opacity), FillRule::Winding, place, None);
    };
    match shape {
        Shape::Area { points, colour, opacity } => {
            if let Some(path) = path(points, true) {
                fill(pixels, &path, *colour, *opacity, place);
            }
        }
        Shape::Line { points, colour, width, dashed } => {
            let stroke = Stroke {
                width: *width as f32,
                line_cap: LineCap::Butt,
                line_join: LineJoin::Round,
                dash: if *dashed { StrokeDash::new(vec![3.0, 2.0], 0.0) } else { None },
                ..Stroke::default()
            };
            if let Some(path) = path(points, false) {
                pixels.stroke_path(&path, &paint_of(*colour, 1.0), &stroke, place, None);
            }
        }
        Shape::Disc { center: [x, y], radius, colour } => {
            if let Some(path) = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32) {
                fill(pixels, &path, *colour, 1.0, place);
            }
        }
        Shape::Marks { centers, radius, colour, opacity, .. } => {
            for [x, y] in centers {
                if let Some(path) = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32) {
                    fill(pixels, &path, *colour, *opacity, place);
                }
            }
        }
        Shape::Text { at: [x, y], size, anchor, colour, text } => {
            let x = anchor.left(*x, font.width(text, *size));
            if let Some(path) = font.outline(text, *size) {
                fill(pixels, &path, *colour, 1.0, place.pre_translate(x as f32, *y as f32));
            }
        }
        Shape::Picture { at: [x, y], size: [width, height], png } => {
            let picture = decoded(png)?;
            // Keep the aspect ratio and centre the picture, as SVG does by default.
            let scale = (width / f64::from(picture.width())).min(height / f64::from(picture.height()));
            let left = x + (width - scale * f64::from(picture.width())) / 2.0;
            let top = y + (height - scale * f64::from(picture.height())) / 2.0;
            let place = place.pre_translate(left as f32, top as f32).pre_scale(scale as f32, scale as f32);
            let paint = PixmapPaint { quality: FilterQuality::Bilinear, ..PixmapPaint::default() };
            pixels.draw_pixmap(0, 0, picture.as_ref(), &paint, place, None);
        }
    }
    Ok(())
}

fn paint_of([r, g, b]: Rgb, opacity: f64) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, (255.0 * opacity).round() as u8);
    paint
}

fn path(points: &[[f64; 2]], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (at, [x, y]) in points.iter().enumerate() {
        if at == 0 { path.move_to(*x as f32, *y as f32) } else { path.line_to(*x as f32, *y as f32) }
    }
    if is_closed && !points.is_empty() {
        path.close();
    }
    path.finish()
}

/// Encodes the pixels as an RGB PNG. The alpha channel is dropped, because all pixels are opaque.
fn encoded(pixels: &Pixmap) -> Result<Vec<u8>> {
    let rgb: Vec<u8> = pixels.data().as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect();
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, pixels.width(), pixels.height());
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let per_meter = (DOTS_PER_INCH / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(PixelDimensions { xppu: per_meter, yppu: per_meter, unit: Unit::Meter }));
    let failed = |cause: png::EncodingError| Error::invalid("PNG file", cause, "pixels that can be encoded");
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&rgb).and_then(|()| writer.finish()).map_err(failed)?;
    Ok(out)
}

/// Decodes a PNG file to premultiplied pixels with 8 bits per channel.
fn decoded(bytes: &[u8]) -> Result<Pixmap> {
    let failed = |found: String| Error::invalid("picture", found, "a PNG file");
    let mut decoder = Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(Transformations::normalize_to_color8() | Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(|it| failed(it.to_string()))?;
    let size = reader.output_buffer_size().filter(|size| *size as f64 <= 4.0 * MAX_PIXELS);
    let mut data = vec![0; size.ok_or_else(|| failed("too many pixels".to_owned()))?];
    let info = reader.next_frame(&mut data).map_err(|it| failed(it.to_string()))?;
    data.truncate(info.buffer_size());
    let rgba: Vec<u8> = match info.color_type {
        ColorType::GrayscaleAlpha => {
            data.as_chunks::<2>().0.iter().flat_map(|[v, a]| premultiplied([*v, *v, *v, *a])).collect()
        }
        _ => data.as_chunks::<4>().0.iter().flat_map(|pixel| premultiplied(*pixel)).collect(),
    };
    let size = IntSize::from_wh(info.width, info.height);
    size.and_then(|size| Pixmap::from_vec(rgba, size)).ok_or_else(|| failed("no pixels".to_owned()))
}

fn premultiplied([r, g, b, a]: [u8; 4]) -> [u8; 4] {
    let part = |v: u8| ((u32::from(v) * u32::from(a) + 127) / 255) as u8;
    [part(r), part(g), part(b), a]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::drawing::Anchor;
    use super::*;

    /// Pixel of a drawing of one square inch: 300 x 300 pixels.
    fn pixel(drawing: &Drawing, x: u32, y: u32) -> [u8; 4] {
        let pixels = decoded(&drawing.png(&FigureFont::default()).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (300, 300));
        let at = ((y * 300 + x) * 4) as usize;
        pixels.data()[at..at + 4].try_into().unwrap()
    }

    #[test]
    fn shapes_are_where_they_belong() {
        let inch = || Drawing { height: 72.0, ..Drawing::new(72.0) };
        let mut drawing = inch();
        drawing.rectangle([0.0, 0.0], [36.0, 36.0], [200, 10, 20], 1.0);
        assert_eq!((pixel(&drawing, 20, 20), pixel(&drawing, 200, 200)), ([200, 10, 20, 255], [255; 4]));
        // A picture of one green pixel in the lower right quarter, and then bytes that are not a PNG file.
        let mut green = Pixmap::new(1, 1).unwrap();
        green.fill(Color::from_rgba8(0, 128, 0, 255));
        drawing.picture([36.0, 36.0], [36.0, 36.0], encoded(&green).unwrap());
        assert_eq!(pixel(&drawing, 225, 225), [0, 128, 0, 255]);
        drawing.picture([0.0, 0.0], [1.0, 1.0], b"no picture".to_vec());
        let error = drawing.png(&FigureFont::default()).unwrap_err().to_string();
        assert!(error.contains("picture") && error.contains("PNG"), "{error}");
        // The stem of an I of one inch is black; the letter starts at the anchor.
        let mut text = inch();
        text.text([36.0, 72.0], 72.0, Anchor::Middle, [0; 3], "I");
        assert_eq!((pixel(&text, 150, 200), pixel(&text, 60, 200)), ([0, 0, 0, 255], [255; 4]));
    }

    #[test]
    fn a_drawing_that_is_too_large_is_refused() {
        let drawing = Drawing { height: 1e5, ..Drawing::new(1e5) };
        assert!(drawing.png(&FigureFont::default()).unwrap_err().to_string().contains("at most"));
    }
}
