use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::chart::escape;
use crate::palette::{Rgb, hex};

/// Font families of SVG files: fonts with the same letter widths as the embedded font.
const FAMILY: &str = "Arimo, Arial, Helvetica, Liberation Sans, sans-serif";

/// A drawing of lines, areas, texts and pictures. Lengths are in points (1/72 inch), and y points down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// Width, points.
    pub width: f64,
    /// Height, points.
    pub height: f64,
    pub(super) shapes: Vec<Shape>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// A filled polygon.
    Area {
        points: Vec<[f64; 2]>,
        colour: Rgb,
        opacity: f64,
    },
    /// A line through points.
    Line {
        points: Vec<[f64; 2]>,
        colour: Rgb,
        width: f64,
        dashed: bool,
    },
    Disc {
        center: [f64; 2],
        radius: f64,
        colour: Rgb,
    },
    /// Discs of one group. SVG viewers show its name as a tooltip.
    Marks {
        centers: Vec<[f64; 2]>,
        radius: f64,
        colour: Rgb,
        opacity: f64,
        name: String,
    },
    /// A line of text; `at` is on its baseline.
    Text {
        at: [f64; 2],
        size: f64,
        anchor: Anchor,
        colour: Rgb,
        text: String,
    },
    /// A PNG file, scaled to fit into a rectangle. The aspect ratio of the picture is kept.
    Picture {
        at: [f64; 2],
        size: [f64; 2],
        png: Vec<u8>,
    },
}

/// Which point of a text lies at its position (`text-anchor` of SVG).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    /// Left end of a text of this width that is anchored at `x`.
    pub(super) fn left(self, x: f64, width: f64) -> f64 {
        match self {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        }
    }
}

impl Drawing {
    pub(crate) fn new(width: f64) -> Self {
        Drawing { width, ..Self::default() }
    }

    pub(super) fn area(&mut self, points: Vec<[f64; 2]>, colour: Rgb, opacity: f64) {
        self.shapes.push(Shape::Area { points, colour, opacity });
    }

    pub(super) fn rectangle(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], colour: Rgb, opacity: f64) {
        self.area(vec![[x, y], [x + width, y], [x + width, y + height], [x, y + height]], colour, opacity);
    }

    pub(crate) fn line(&mut self, points: Vec<[f64; 2]>, colour: Rgb, width: f64) {
        self.shapes.push(Shape::Line { points, colour, width, dashed: false });
    }

    pub(super) fn dashes(&mut self, points: Vec<[f64; 2]>, colour: Rgb, width: f64) {
        self.shapes.push(Shape::Line { points, colour, width, dashed: true });
    }

    pub(super) fn disc(&mut self, center: [f64; 2], radius: f64, colour: Rgb) {
        self.shapes.push(Shape::Disc { center, radius, colour });
    }

    pub(crate) fn marks(&mut self, centers: Vec<[f64; 2]>, radius: f64, colour: Rgb, opacity: f64, name: &str) {
        if !centers.is_empty() {
            self.shapes.push(Shape::Marks { centers, radius, colour, opacity, name: name.to_owned() });
        }
    }

    pub(crate) fn text(&mut self, at: [f64; 2], size: f64, anchor: Anchor, colour: Rgb, text: &str) {
        if !text.is_empty() {
            self.shapes.push(Shape::Text { at, size, anchor, colour, text: text.to_owned() });
        }
    }

    pub(super) fn picture(&mut self, at: [f64; 2], size: [f64; 2], png: Vec<u8>) {
        self.shapes.push(Shape::Picture { at, size, png });
    }

    /// The drawing as a complete SVG file.
    pub fn svg(&self) -> String {
        let Drawing { width, height, .. } = self;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.2}pt\" height=\"{height:.2}pt\" viewBox=\"0 0 {width:.2} {height:.2}\" \
             font-family=\"{FAMILY}\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        self.shapes.iter().for_each(|shape| shape.svg(&mut svg));
        svg + "</svg>\n"
    }

    /// The first text that is partly outside the drawing, if there is one.
    #[cfg(test)]
    pub(crate) fn outside(&self, font: &super::font::FigureFont<'_>) -> Option<String> {
        self.shapes.iter().find_map(|shape| {
            let Shape::Text { at: [x, y], size, anchor, text, .. } = shape else { return None };
            let width = font.width(text, *size);
            let left = anchor.left(*x, width);
            let is_inside =
                left >= -0.01 && left + width <= self.width + 0.01 && *y <= self.height && y - size >= -0.01;
            (!is_inside).then(|| format!("`{text}` at {left:.1}..{:.1}, {y:.1}", left + width))
        })
    }
}

impl Shape {
    /// Appends the shape. Writing to a `String` cannot fail, so the results are ignored.
    fn svg(&self, out: &mut String) {
        match self {
            Shape::Area { points, colour, opacity } => {
                let _ = writeln!(
                    out,
                    "<path d=\"{}Z\" fill=\"{}\" fill-opacity=\"{opacity}\"/>",
                    path(points),
                    hex(*colour)
                );
            }
            Shape::Line { points, colour, width, dashed } => {
                let dashes = if *dashed { " stroke-dasharray=\"3 2\"" } else { "" };
                let (path, colour) = (path(points), hex(*colour));
                let _ = writeln!(
                    out,
                    "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>"
                );
            }
            Shape::Disc { center: [x, y], radius, colour } => {
                let _ = writeln!(out, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{}\"/>", hex(*colour));
            }
            Shape::Marks { centers, radius, colour, opacity, name } => {
                let (colour, name) = (hex(*colour), escape(&printable(name)));
                let _ = writeln!(out, "<g fill=\"{colour}\" fill-opacity=\"{opacity}\"><title>{name}</title>");
                for [x, y] in centers {
                    let _ = write!(out, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\"/>");
                }
                out.push_str("</g>\n");
            }
            Shape::Text { at: [x, y], size, anchor, colour, text } => {
                let anchor = match anchor {
                    Anchor::Start => "",
                    Anchor::Middle => " text-anchor=\"middle\"",
                    Anchor::End => " text-anchor=\"end\"",
                };
                let (colour, text) = (hex(*colour), escape(&printable(text)));
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\"{anchor} fill=\"{colour}\">{text}</text>"
                );
            }
            Shape::Picture { at: [x, y], size: [width, height], png } => {
                let data = STANDARD.encode(png);
                let _ = writeln!(
                    out,
                    "<image x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" href=\"data:image/png;base64,{data}\"/>"
                );
            }
        }
    }
}

/// Removes control characters, which XML does not allow even in escaped form.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

fn path(points: &[[f64; 2]]) -> String {
    let mut out = String::new();
    for (at, [x, y]) in points.iter().enumerate() {
        let _ = write!(out, "{}{x:.2},{y:.2}", if at == 0 { 'M' } else { 'L' });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::font::FigureFont;
    use super::*;

    #[test]
    fn texts_are_escaped_and_without_control_characters() {
        let mut drawing = Drawing::new(100.0);
        drawing.text([1.0, 8.0], 8.0, Anchor::Start, [0; 3], "a <b> & \u{1b}\"c\"");
        drawing.line(vec![[0.0, 0.0], [1.0, 2.0]], [1, 2, 3], 0.5);
        let svg = drawing.svg();
        assert!(svg.contains(">a &lt;b&gt; &amp; &quot;c&quot;</text>"), "{svg}");
        assert!(svg.contains("d=\"M0.00,0.00L1.00,2.00\"") && svg.contains("#010203"), "{svg}");
    }

    #[test]
    fn texts_outside_are_found() {
        let font = FigureFont::default();
        let mut drawing = Drawing { height: 20.0, ..Drawing::new(30.0) };
        drawing.text([1.0, 10.0], 8.0, Anchor::Start, [0; 3], "in");
        assert_eq!(drawing.outside(&font), None);
        drawing.text([1.0, 10.0], 8.0, Anchor::End, [0; 3], "out");
        assert!(drawing.outside(&font).is_some());
    }
}
