use std::fmt::Write as _;

use crate::chart::escape;
use crate::palette::{COLOURS, OTHER, hex};

/// Number of groups with a colour of their own in a map; further ones are grey.
pub const MAP_COLOURS: usize = COLOURS.len();
/// Side of the drawing.
const SIDE: f64 = 640.0;
/// Space around the drawing.
const MARGIN: f64 = 16.0;
/// Height of the line of the title and of the legend.
const LINE: f64 = 20.0;

/// A map of points in the Poincare disc or in the plane.
#[derive(Clone, Debug, Default)]
pub struct MapPicture {
    /// Title.
    pub title: String,
    /// Lines below the title.
    pub notes: Vec<String>,
    /// True if the points are in the unit disc, which is then drawn.
    pub is_disc: bool,
    /// Positions.
    pub points: Vec<[f64; 2]>,
    /// Number of the group of each point in `names`.
    pub groups: Vec<usize>,
    /// Names of the groups, in the order of the legend.
    pub names: Vec<String>,
    /// Position of the root, drawn as a cross.
    pub root: Option<[f64; 2]>,
}

impl MapPicture {
    /// Draws the map as a complete SVG file.
    pub fn svg(&self) -> String {
        let top = LINE * (self.notes.len() + 2) as f64 + MARGIN;
        let (width, height) = (SIDE + 2.0 * MARGIN, top + SIDE + MARGIN);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{0}\" xmlns=\"http://www.w3.org/2000/svg\" \
             font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#333\"><rect width=\"100%\" height=\"100%\" \
             fill=\"#fff\"/><text x=\"{MARGIN}\" y=\"{LINE}\" font-size=\"15\" font-weight=\"600\">{0}</text>",
            escape(&self.title)
        );
        for (i, line) in self.notes.iter().enumerate() {
            let y = LINE * (i + 2) as f64;
            let _ = write!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(line));
        }
        let (mut x, y) = (MARGIN, LINE * (self.notes.len() + 2) as f64);
        for (i, name) in self.names.iter().enumerate() {
            let colour = hex(*COLOURS.get(i).unwrap_or(&OTHER));
            let _ = write!(
                svg,
                "<circle cx=\"{:.0}\" cy=\"{:.0}\" r=\"5\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{y:.0}\">{}</text>",
                x + 5.0,
                y - 4.0,
                x + 14.0,
                escape(name)
            );
            x += 32.0 + 7.0 * name.chars().count() as f64;
        }
        let ([left, low], scale) = self.frame();
        let place = |[px, py]: [f64; 2]| (MARGIN + (px - left) * scale, top + SIDE - (py - low) * scale);
        if self.is_disc {
            let (cx, cy) = place([0.0, 0.0]);
            let _ =
                write!(svg, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{scale:.1}\" fill=\"none\" stroke=\"#bbb\"/>");
        }
        let radius = if self.points.len() > 2000 { 1.6 } else { 3.0 };
        for (i, name) in self.names.iter().enumerate() {
            let colour = hex(*COLOURS.get(i).unwrap_or(&OTHER));
            let _ = write!(svg, "<g fill=\"{colour}\" fill-opacity=\".6\"><title>{}</title>", escape(name));
            for (point, _) in self.points.iter().zip(&self.groups).filter(|(_, group)| **group == i) {
                let (x, y) = place(*point);
                let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
            }
            svg.push_str("</g>");
        }
        if let Some((x, y)) = self.root.map(place) {
            let _ = write!(
                svg,
                "<path d=\"M{:.1},{y:.1}h12M{x:.1},{:.1}v12\" stroke=\"#000\" stroke-width=\"1.5\"><title>root</title></path>",
                x - 6.0,
                y - 6.0
            );
        }
        svg + "</svg>\n"
    }

    /// Lower left corner of the drawing, and pixels per unit.
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
/// and `y` (lists of numbers), `root` (`[x, y]` or null), `ids`, `labels` (lists of strings) and `columns` (an object of
/// lists: numbers are shown by a colour scale, strings by colours of groups) and `coloured` (an object of lists: the values
/// of a column of strings that have a colour, at most [`MAP_COLOURS`], in the order of the colours).
pub fn map_html(title: &str, data: &str) -> String {
    // `</script>` in a text of the data would end the script; `<` is valid in JSON only inside strings.
    let data = data.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    include_str!("map.html").replace("@TITLE@", &escape(title)).replace("@DATA@", &data)
}

#[cfg(test)]
mod tests {
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
            assert_eq!(svg.matches("r=\"3\"").count(), 3, "{svg}");
            assert!(svg.contains("a &lt; b") && svg.contains("&lt;text&gt;") && !svg.contains("NaN"), "{svg}");
            assert_eq!(svg, picture.svg());
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
}
