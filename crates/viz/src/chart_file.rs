use crate::chart::{Series, line_chart};

/// Colours and fonts of a chart outside of a page: those of the report, for light and dark mode.
const STYLE: &str = "<style>.title{font:600 12px system-ui,sans-serif;fill:#1d2430}.tick{font:10px system-ui,sans-serif;fill:#6b7480}\
    .grid{stroke:#dfe3e8;fill:none}.line{fill:none;stroke-width:1.6;stroke:var(--c)}.dot{fill:var(--c)}rect.back{fill:#fff}\
    .s0{--c:#2a78d6}.s1{--c:#e0662f}.s2{--c:#1b9e6b}.s3{--c:#8757d8}.s4{--c:#c79012}.s5{--c:#c2417c}.label{font:11px system-ui,sans-serif;fill:#1d2430}.whisker{stroke:var(--c);stroke-width:2}\
    .zero{stroke:#6b7480}@media(prefers-color-scheme:dark){.title{fill:#e4e8ee}.tick{fill:#98a2af}.grid{stroke:#2b323b}rect.back{fill:#14181e}\
    .s0{--c:#68a8f2}.s1{--c:#f2925f}.s2{--c:#4fcb98}.s3{--c:#b08cf0}.s4{--c:#e2b64a}.s5{--c:#ea7caa}.label{fill:#e4e8ee}.zero{stroke:#98a2af}}</style>\
    <rect class=\"back\" width=\"100%\" height=\"100%\"/>";

/// Draws lines over a common x axis as a complete SVG file: a [`line_chart`] with a style sheet.
pub fn line_chart_file(title: &str, x_label: &str, series: &[Series]) -> String {
    standalone(&line_chart(title, x_label, series))
}

/// A chart of a page as a complete SVG file.
pub(crate) fn standalone(chart: &str) -> String {
    // The title is escaped, so the first `>` ends the tag.
    let (tag, content) = chart.split_once('>').unwrap_or((chart, ""));
    format!("{tag} xmlns=\"http://www.w3.org/2000/svg\">{STYLE}{content}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_a_name_space_and_a_style() {
        let series = [Series { name: "a".into(), points: vec![(0.0, 1.0), (1.0, 0.5)] }];
        let svg = line_chart_file("p > r", "recall", &series);
        assert!(svg.starts_with("<svg class=\"chart\" viewBox=") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("aria-label=\"p &gt; r\" xmlns=\"http://www.w3.org/2000/svg\"><style>"), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 1);
    }
}
