use std::borrow::Cow;

use tiny_skia::{Path, PathBuilder};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::{Error, Result};

/// A subset of Arimo, which has the widths of Arial and Helvetica.
static ARIMO: &[u8] = include_bytes!("../../assets/arimo-subset.ttf");

/// Widths and outlines of the letters of a figure.
///
/// A letter is taken from the font of the user or, if that font lacks it, from the embedded font. A letter that both
/// lack is drawn as an empty box. Letters are not joined or reordered, so scripts such as Arabic need the SVG file.
pub struct FigureFont<'a> {
    faces: Vec<Face<'a>>,
}

impl Default for FigureFont<'_> {
    fn default() -> Self {
        FigureFont { faces: Face::parse(ARIMO, 0).into_iter().collect() }
    }
}

impl<'a> FigureFont<'a> {
    /// The font of a TrueType or OpenType file. `name` identifies the file in error messages.
    ///
    /// # Errors
    /// The bytes are not such a file.
    pub fn of_file(name: &str, bytes: &'a [u8]) -> Result<Self> {
        let face = Face::parse(bytes, 0).map_err(|cause| {
            Error::invalid(format!("font {name}"), cause, "a TrueType or OpenType file (.ttf, .otf, .ttc)")
        })?;
        let mut font = Self::default();
        font.faces.insert(0, face);
        Ok(font)
    }

    /// Width of a text.
    pub(crate) fn width(&self, text: &str, size: f64) -> f64 {
        text.chars().map(|c| self.advance(c)).sum::<f64>() * size
    }

    /// The text, shortened by an ellipsis if it is wider than `width`.
    pub(crate) fn fitted<'t>(&self, text: &'t str, size: f64, width: f64) -> Cow<'t, str> {
        if self.width(text, size) <= width {
            return Cow::Borrowed(text);
        }
        let mut left = width - self.width("\u{2026}", size);
        let fits = |c: &char| {
            left -= self.advance(*c) * size;
            left >= 0.0
        };
        let start: String = text.chars().take_while(fits).collect();
        Cow::Owned(start.trim_end().to_owned() + "\u{2026}")
    }

    /// Breaks a text into at most `lines` lines of at most `width`. A word that is wider than this is shortened, and so
    /// is the last line if the text does not fit.
    pub(crate) fn wrapped(&self, text: &str, size: f64, width: f64, lines: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match found.last_mut() {
                Some(line) if self.width(&format!("{line} {word}"), size) <= width => *line = format!("{line} {word}"),
                _ => found.push(word.to_owned()),
            }
        }
        let rest = found.split_off(found.len().min(lines));
        if let (Some(last), false) = (found.last_mut(), rest.is_empty()) {
            *last = format!("{last} {}", rest.join(" "));
        }
        found.iter().map(|line| self.fitted(line, size, width).into_owned()).collect()
    }

    /// The outlines of a text whose baseline starts at the origin; `None` if no letter has an outline.
    pub(crate) fn outline(&self, text: &str, size: f64) -> Option<Path> {
        let mut pen = GlyphPen { path: PathBuilder::new(), x: 0.0, scale: 1.0 };
        let mut x = 0.0;
        for c in text.chars() {
            pen.x = x as f32;
            if let Some((face, glyph)) = self.glyph(c) {
                pen.scale = (size / f64::from(face.units_per_em())) as f32;
                face.outline_glyph(glyph, &mut pen);
            }
            x += self.advance(c) * size;
        }
        pen.path.finish()
    }

    /// Width of a letter at size 1.
    fn advance(&self, c: char) -> f64 {
        let found = self.glyph(c);
        let of = |(face, glyph): (&Face<'_>, GlyphId)| {
            f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) / f64::from(face.units_per_em())
        };
        found.map_or(0.0, of)
    }

    /// The glyph of a letter in the first face that has it, else glyph 0 (a box) of the last face. `None` for control
    /// characters.
    fn glyph(&self, c: char) -> Option<(&Face<'a>, GlyphId)> {
        if c.is_control() {
            return None;
        }
        let found = self.faces.iter().find_map(|face| face.glyph_index(c).map(|glyph| (face, glyph)));
        found.or_else(|| self.faces.last().map(|face| (face, GlyphId(0))))
    }
}

struct GlyphPen {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl GlyphPen {
    /// Position on the drawing, where y points down.
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for GlyphPen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Arimo has the widths of Arial: 1479 / 2048 for H, 1139 / 2048 for e.
    #[test]
    fn the_embedded_font_has_the_widths_of_arial() {
        let font = FigureFont::default();
        assert_eq!(font.faces.len(), 1);
        assert!((font.width("He", 2048.0) - (1479.0 + 1139.0)).abs() < 1e-9);
        assert_eq!(font.width("\u{7}\n", 10.0), 0.0);
        assert!(font.width("\u{6c34}", 10.0) > 0.0, "a missing letter is a box");
        assert!(font.outline("Ag\u{3b1}", 8.0).unwrap().bounds().width() > 8.0);
        assert!(font.outline(" ", 8.0).is_none());
    }

    #[test]
    fn texts_are_shortened_to_their_width() {
        let font = FigureFont::default();
        assert_eq!(font.fitted("short", 8.0, 100.0), "short");
        let cut = font.fitted("a photograph of a dog", 8.0, 40.0);
        assert!(cut.ends_with('\u{2026}') && font.width(&cut, 8.0) <= 40.0, "{cut}");
        let lines = font.wrapped("a photograph of a dog in the snow", 8.0, 40.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| font.width(line, 8.0) <= 40.0) && lines[1].ends_with('\u{2026}'), "{lines:?}");
        assert_eq!(font.wrapped("one two", 8.0, 100.0, 3), ["one two"]);
        assert_eq!(font.wrapped("", 8.0, 100.0, 3), [""; 0]);
    }

    #[test]
    fn other_files_are_refused() {
        let error = FigureFont::of_file("a.ttf", b"no font").err().unwrap().to_string();
        assert!(error.contains("a.ttf") && error.contains("TrueType"), "{error}");
        assert_eq!(FigureFont::of_file("b", ARIMO).unwrap().faces.len(), 2);
    }
}
