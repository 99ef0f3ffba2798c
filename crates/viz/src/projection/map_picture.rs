use std::collections::HashMap;

use crate::Result;
use crate::chart::escape;
use crate::figures::FigureFont;
use crate::figures::drawing::{Anchor, Drawing};
use crate::figures::plots::{PAGE, SIZE, SMALL, legend};
use crate::palette::{COLOURS, INK, SOFT, colour};

/// Number of groups that have different colours in a map. Further values are grey on the page of [`map_html`].
pub const MAP_COLOURS: usize = COLOURS.len();
/// Space around the drawing, points.
const MARGIN: f64 = 4.0;
/// Side of the drawing, points.
const SIDE: f64 = PAGE - 2.0 * MARGIN;
/// Height of a line of text, points.
const LINE: f64 = 11.0;
/// Number of straight lines that draw a circle.
const CORNERS: usize = 180;
/// Number of points above which the marks are smaller.
const MANY: usize = 2000;

/// A map of points in the Poincare disc or in the plane.
#[derive(Clone, Debug, Default)]
pub struct MapPicture {
    /// Title.
    pub title: String,
    /// Lines below the title.
    pub notes: Vec<String>,
    /// True if the points are in the unit disc, which is then drawn.
    pub is_disc: bool,
    /// Positions; y points upwards.
    pub points: Vec<[f64; 2]>,
    /// Group of each point, as an index into `names`.
    pub groups: Vec<usize>,
    /// Names of the groups, in the order of the legend: at most [`MAP_COLOURS`], because colours repeat.
    pub names: Vec<String>,
    /// Position of the root, drawn as a cross.
    pub root: Option<[f64; 2]>,
}

impl MapPicture {
    /// Draws the map at the width of a page.
    pub fn drawing(&self, font: &FigureFont<'_>) -> Drawing {
        let mut drawing = Drawing::new(PAGE);
        let title = font.fitted(&self.title, SIZE, SIDE);
        drawing.text([MARGIN, LINE], SIZE, Anchor::Start, INK, &title);
        let mut top = LINE + 4.0;
        for line in &self.notes {
            drawing.text([MARGIN, top + SMALL], SMALL, Anchor::Start, SOFT, &font.fitted(line, SMALL, SIDE));
            top += LINE;
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        top = legend(&mut drawing, font, &names, top + 2.0) + 4.0;
        drawing.height = top + SIDE + MARGIN;
        let ([left, low], scale) = self.frame();
        let place = |[x, y]: [f64; 2]| [MARGIN + (x - left) * scale, top + SIDE - (y - low) * scale];
        if self.is_disc {
            let turn = |at: usize| std::f64::consts::TAU * at as f64 / CORNERS as f64;
            let circle = (0..=CORNERS).map(|at| place([turn(at).cos(), turn(at).sin()])).collect();
            drawing.line(circle, SOFT, 0.5);
        }
        let radius = if self.points.len() > MANY { 0.9 } else { 1.7 };
        for (group, name) in self.names.iter().enumerate() {
            let own = self.points.iter().zip(&self.groups).filter(|(_, it)| **it == group);
            drawing.marks(own.map(|(point, _)| place(*point)).collect(), radius, colour(group), 0.6, name);
        }
        if let Some([x, y]) = self.root.map(place) {
            drawing.line(vec![[x - 4.0, y], [x + 4.0, y]], INK, 0.9);
            drawing.line(vec![[x, y - 4.0], [x, y + 4.0]], INK, 0.9);
        }
        drawing
    }

    /// The map as a complete SVG file.
    pub fn svg(&self) -> String {
        self.drawing(&FigureFont::default()).svg()
    }

    /// The map as a PNG file of 300 dots per inch.
    ///
    /// # Errors
    /// Returns the errors of [`Drawing::png`].
    pub fn png(&self) -> Result<Vec<u8>> {
        let font = FigureFont::default();
        self.drawing(&font).png(&font)
    }

    /// Lower left corner of the drawing, and points per unit.
    fn frame(&self) -> ([f64; 2], f64) {
        if self.is_disc {
            return ([-1.0, -1.0], SIDE / 2.0);
        }
        let all = || self.points.iter().chain(&self.root);
        let range = |k: usize| all().fold((f64::MAX, f64::MIN), |(lo, hi), p| (lo.min(p[k]), hi.max(p[k])));
        let [x, y] = [range(0), range(1)];
        let extent = (x.1 - x.0).max(y.1 - y.0);
        let extent = if extent.is_finite() && extent > 0.0 { 1.04 * extent } else { 1.0 };
        let middle = [x, y].map(|(lo, hi)| if lo <= hi { (lo + hi) / 2.0 } else { 0.0 });
        (middle.map(|m| m - extent / 2.0), SIDE / extent)
    }
}

/// A page that shows a map without the network: zoom, text of the point under the pointer, colour by a column, legend.
///
/// `data` is a JSON object: `title`, `notes` (list of strings), `disc` (true if the points are in the unit disc), `x`
/// and `y` (lists of numbers), `root` (`[x, y]` or null), `view` (what is shown at first: x and y of its middle and half
/// the shorter side of the picture; everything if it is null), `ids`, `labels` (lists of strings) and `columns` (an
/// object of lists: numbers are shown by a colour scale, strings by colours of groups; the first column is shown at
/// first) and `coloured` (an object of lists: the values of a column of strings that have a colour, at most
/// [`MAP_COLOURS`], in the order of the colours).
pub fn map_html(title: &str, data: &str) -> String {
    // `</script>` in a text of the data would end the script; `<` is valid in JSON only inside strings.
    let data = data.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    include_str!("map.html").replace("@TITLE@", &escape(title)).replace("@DATA@", &data)
}

/// The values of a column that have a colour, in the order of the colours: the most frequent ones of the whole set,
/// sorted by name. So a value has the same colour in every map of the set, whatever rows are drawn.
pub fn coloured_values<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let mut found: Vec<(&str, usize)> = counts.into_iter().collect();
    found.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut names: Vec<&str> = found.into_iter().take(MAP_COLOURS).map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn svg_draws_every_point_and_escapes_names() {
        for is_disc in [true, false] {
            let picture = MapPicture {
                title: "a < b".into(),
                notes: vec!["one".into()],
                is_disc,
                points: vec![[0.5, 0.0], [-0.5, 0.25], [0.0, 0.0]],
                groups: vec![0, 1, 0],
                names: vec!["image".into(), "<text>".into()],
                root: Some([0.0, 0.0]),
            };
            let svg = picture.svg();
            assert_eq!(svg.matches("r=\"1.7\"").count(), 3, "{svg}");
            assert!(svg.contains("a &lt; b") && svg.contains("&lt;text&gt;") && !svg.contains("NaN"), "{svg}");
            assert_eq!((svg, picture.png().unwrap()), (picture.svg(), picture.png().unwrap()));
            assert_eq!(picture.drawing(&FigureFont::default()).outside(&FigureFont::default()), None);
        }
        let none = MapPicture::default().svg();
        assert!(!none.contains("NaN") && !none.contains("inf"), "{none}");
        let one =
            MapPicture { points: vec![[3.0, 3.0]], groups: vec![0], names: vec!["a".into()], ..MapPicture::default() };
        assert!(!one.svg().contains("NaN") && !one.svg().contains("inf"), "{}", one.svg());
    }

    #[test]
    fn page_keeps_hostile_texts_inside_the_data() {
        let page = map_html("<b>", "{\"labels\":[\"</script><script>alert(1)\"]}");
        assert!(page.contains("\\u003c/script>\\u003cscript>") && page.contains("&lt;b&gt;"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("http://") && !page.contains("https://"));
    }

    #[test]
    fn colours_do_not_depend_on_the_rows_drawn() {
        assert_eq!(coloured_values(["b", "a", "b", "c"].into_iter()), ["a", "b", "c"]);
        let many: Vec<String> = (0..30).map(|i| format!("{:02}", i % 20)).collect();
        let found = coloured_values(many.iter().map(String::as_str));
        assert_eq!(found, ["00", "01", "02", "03", "04", "05", "06", "07"]);
        assert_eq!(coloured_values([].into_iter()), [""; 0]);
    }
}
