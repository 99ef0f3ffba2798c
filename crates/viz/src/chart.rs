use std::fmt::Write as _;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 38.0;
/// Number of bins of a histogram. With a few hundred samples, finer bins would show noise.
const BINS: usize = 32;
/// Number of colours in the style sheet, from `--series-0`. Further series reuse them.
const COLOURS: usize = 6;

/// A named line of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// `(x, y)`, ascending in x. Points that are not finite are skipped.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines over a common x axis as an SVG element.
pub fn line_chart(title: &str, x_label: &str, series: &[Series]) -> String {
    let finite =
        |s: &Series| s.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect::<Vec<_>>();
    let lines: Vec<(String, Vec<(f64, f64)>)> = series.iter().map(|s| (s.name.clone(), finite(s))).collect();
    let all: Vec<(f64, f64)> = lines.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    let frame = ChartFrame::around(&all, false);
    let mut svg = frame.open(title, x_label, lines.iter().map(|(name, _)| name.as_str()));
    for (i, (name, points)) in lines.iter().enumerate() {
        let path: Vec<String> = points.iter().map(|&(x, y)| format!("{:.1},{:.1}", frame.x(x), frame.y(y))).collect();
        let _ = write!(
            svg,
            "<polyline class=\"line s{}\" points=\"{}\"><title>{}</title></polyline>",
            i % COLOURS,
            path.join(" "),
            escape(name)
        );
    }
    svg + "</svg>"
}

/// Draws overlaid histograms of groups of values as an SVG element. The height of a bin is the share of the values of
/// the group that lie in the bin.
pub fn histogram(title: &str, x_label: &str, groups: &[(String, Vec<f64>)]) -> String {
    let finite: Vec<(String, Vec<f64>)> =
        groups.iter().map(|(n, v)| (n.clone(), v.iter().copied().filter(|v| v.is_finite()).collect())).collect();
    let lo = finite.iter().flat_map(|(_, v)| v).copied().fold(f64::INFINITY, f64::min);
    let hi = finite.iter().flat_map(|(_, v)| v).copied().fold(f64::NEG_INFINITY, f64::max);
    let (lo, width) = match (lo.is_finite(), hi > lo) {
        (false, _) => (0.0, 1.0 / BINS as f64),
        (true, false) => (lo, 1.0 / BINS as f64),
        (true, true) => (lo, (hi - lo) / BINS as f64),
    };
    let shares = |values: &[f64]| {
        let mut count = [0usize; BINS];
        values.iter().for_each(|v| count[(((v - lo) / width) as usize).min(BINS - 1)] += 1);
        count.map(|c| c as f64 / values.len().max(1) as f64)
    };
    let bars: Vec<(&str, [f64; BINS])> = finite.iter().map(|(name, values)| (name.as_str(), shares(values))).collect();
    let mut corners = vec![(lo, 0.0), (lo + width * BINS as f64, 0.0)];
    corners.extend(bars.iter().flat_map(|(_, shares)| shares.iter().map(|&s| (lo, s))));
    let frame = ChartFrame::around(&corners, true);
    let mut svg = frame.open(title, x_label, bars.iter().map(|(name, _)| *name));
    for (i, (name, shares)) in bars.iter().enumerate() {
        let mut path = format!("M{:.1},{:.1}", frame.x(lo), frame.y(0.0));
        for (bin, &share) in shares.iter().enumerate() {
            let _ = write!(path, "V{:.1}H{:.1}", frame.y(share), frame.x(lo + width * (bin + 1) as f64));
        }
        let _ = write!(path, "V{:.1}Z", frame.y(0.0));
        let _ =
            write!(svg, "<path class=\"area s{}\" d=\"{path}\"><title>{}</title></path>", i % COLOURS, escape(name));
    }
    svg + "</svg>"
}

/// Escapes text for HTML and SVG, including attributes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

struct ChartFrame {
    x: [f64; 2],
    y: [f64; 2],
}

impl ChartFrame {
    fn around(points: &[(f64, f64)], from_zero: bool) -> Self {
        let range = |values: &mut dyn Iterator<Item = f64>| {
            let (lo, hi) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
            match (lo.is_finite(), hi > lo) {
                (false, _) => [0.0, 1.0],
                (true, true) => [lo, hi],
                (true, false) => [lo - 0.5, hi + 0.5],
            }
        };
        let x = range(&mut points.iter().map(|p| p.0));
        let [lo, hi] = range(&mut points.iter().map(|p| p.1));
        let margin = 0.06 * (hi - lo);
        Self { x, y: [if from_zero { 0.0 } else { lo - margin }, hi + margin] }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)
    }

    fn open<'a>(&self, title: &str, x_label: &str, names: impl Iterator<Item = &'a str>) -> String {
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(title)
        );
        let _ = write!(svg, "<text class=\"title\" x=\"{LEFT}\" y=\"12\">{}</text>", escape(title));
        for tick in ticks(self.y, 4) {
            let y = self.y(tick);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT},{y:.1}H{:.1}\"/><text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 3.5,
                number(tick)
            );
        }
        for tick in ticks(self.x, 5) {
            let _ = write!(
                svg,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                self.x(tick),
                HEIGHT - BOTTOM + 15.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(x_label)
        );
        let mut x = LEFT;
        let names: Vec<&str> = names.collect();
        if names.len() > 1 {
            for (i, name) in names.iter().enumerate() {
                let _ = write!(
                    svg,
                    "<circle class=\"dot s{}\" cx=\"{:.1}\" cy=\"21\" r=\"4\"/><text class=\"tick\" x=\"{:.1}\" y=\"24.5\">{}</text>",
                    i % COLOURS,
                    x + 4.0,
                    x + 11.0,
                    escape(name)
                );
                x += 22.0 + 5.6 * name.chars().count() as f64;
            }
        }
        svg
    }
}

/// Round numbers inside `range`, about `count` of them, at a distance of 1, 2 or 5 times a power of ten.
pub(crate) fn ticks([lo, hi]: [f64; 2], count: usize) -> Vec<f64> {
    let raw = (hi - lo) / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|&s| s >= raw).unwrap_or(10.0 * power);
    let first = (lo / step).ceil() as i64;
    let last = (hi / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Formats the number of a tick without superfluous digits.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e5 || (magnitude > 0.0 && magnitude < 1e-3) {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks([0.0, 1.0], 4), [0.0, 0.5, 1.0]);
        assert_eq!(ticks([3.0, 97.0], 5), [20.0, 40.0, 60.0, 80.0]);
        assert_eq!(number(0.30000000000000004), "0.3");
        assert_eq!(number(-0.0), "0");
        assert_eq!(number(2e6), "2e6");
    }

    #[test]
    fn charts_survive_any_values() {
        for points in
            [vec![], vec![(1.0, 1.0)], vec![(0.0, f64::NAN), (1.0, f64::INFINITY)], vec![(0.0, -1e300), (1.0, 1e300)]]
        {
            let svg = line_chart("<loss> & \"co\"", "step", &[Series { name: "a<b".into(), points: points.clone() }]);
            assert!(svg.ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("&lt;loss&gt; &amp; &quot;co&quot;"));
            let svg = histogram("depth", "d", &[("x".into(), points.iter().map(|p| p.1).collect())]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_histogram_puts_values_into_their_bins() {
        // Two groups of equal size, one at each end: the first bin is at full height for one group and empty for the
        // other.
        let svg = histogram("t", "x", &[("low".into(), vec![0.0; 4]), ("high".into(), vec![1.0; 4])]);
        let paths: Vec<&str> = svg.match_indices("<path class=\"area").map(|(i, _)| &svg[i..]).collect();
        let first_bin =
            |path: &str| path.split('V').nth(1).and_then(|v| v.split('H').next()).and_then(|v| v.parse::<f64>().ok());
        assert!(first_bin(paths[0]) < first_bin(paths[1]));
    }
}
