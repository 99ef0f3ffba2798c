use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::chart::escape;
use crate::{Error, Result};

/// A page of text, tables, charts and pictures in one file that loads nothing from the network.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Title of the page.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// Sections with their headings, in order.
    pub sections: Vec<(String, Vec<Block>)>,
}

/// A content block of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table. Columns after the first are right-aligned.
    Table {
        /// Column headers.
        head: Vec<String>,
        /// Rows of cells.
        rows: Vec<Vec<String>>,
    },
    /// SVG elements side by side, from [`crate::line_chart`] and [`crate::histogram`].
    Charts(Vec<String>),
    /// One SVG element over the whole width, from [`crate::forest()`].
    Chart(String),
    /// A row of pictures with captions.
    Strip {
        /// A line above the row.
        heading: String,
        /// The pictures, in order.
        figures: Vec<Figure>,
    },
}

/// A picture or a text in a strip.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// PNG bytes, or `None` for a text without a picture.
    pub png: Option<Vec<u8>>,
    /// Text below the picture, or instead of it.
    pub caption: String,
    /// A short note, such as a score or a rank.
    pub note: String,
    /// Highlights the figure as the correct answer.
    pub marked: bool,
}

impl Report {
    /// Renders the page as HTML.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>{STYLE}</style>\n<main><h1>{}</h1><p class=\"sub\">{}</p>\n",
            escape(&self.title),
            escape(&self.title),
            escape(&self.subtitle)
        );
        for (heading, blocks) in &self.sections {
            let _ = writeln!(out, "<section><h2>{}</h2>", escape(heading));
            blocks.iter().for_each(|block| block.write(&mut out));
            out.push_str("</section>\n");
        }
        out + "</main></html>\n"
    }

    /// Writes the page to `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.html()).map_err(|source| Error::Write { path: path.into(), source })
    }
}

impl Block {
    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => {
                let _ = writeln!(out, "<p>{}</p>", escape(text));
            }
            Self::Table { head, rows } => {
                let heads: String = head.iter().map(|cell| format!("<th>{}</th>", escape(cell))).collect();
                let _ = write!(out, "<div class=\"scroll\"><table><tr class=\"head\">{heads}</tr>");
                rows.iter().for_each(|row| {
                    let cells = row.iter().enumerate().map(|(i, cell)| table_cell(head.get(i), cell, i == 0));
                    let _ = write!(out, "<tr>{}</tr>", cells.collect::<String>());
                });
                out.push_str("</table></div>\n");
            }
            Self::Charts(charts) => {
                let _ = writeln!(out, "<div class=\"charts\">{}</div>", charts.concat());
            }
            Self::Chart(chart) => {
                let _ = writeln!(out, "<div class=\"wide\">{chart}</div>");
            }
            Self::Strip { heading, figures } => {
                let _ = write!(out, "<h3>{}</h3><div class=\"strip\">", escape(heading));
                figures.iter().for_each(|figure| figure.write(out));
                out.push_str("</div>\n");
            }
        }
    }
}

/// Renders a table cell. The words `better` and `worse` are coloured. On a narrow screen a row becomes a list, and each
/// cell except the first shows the header of its column.
fn table_cell(head: Option<&String>, text: &str, first: bool) -> String {
    let class = match text {
        "better" => " class=\"better\"",
        "worse" => " class=\"worse\"",
        _ => "",
    };
    let head = head.filter(|head| !first && !head.is_empty());
    let head = head.map_or_else(String::new, |head| format!(" data-head=\"{}: \"", escape(head)));
    format!("<td{class}{head}>{}</td>", escape(text))
}

impl Figure {
    fn write(&self, out: &mut String) {
        let picture = self.png.as_ref().map_or_else(String::new, |png| {
            format!("<img src=\"data:image/png;base64,{}\" alt=\"\">", STANDARD.encode(png))
        });
        let class = match (self.marked, self.png.is_some()) {
            (true, true) => " class=\"marked\"",
            (true, false) => " class=\"marked words\"",
            (false, false) => " class=\"words\"",
            (false, true) => "",
        };
        let _ = write!(
            out,
            "<figure{class}>{picture}<figcaption>{}<small>{}</small></figcaption></figure>",
            escape(&self.caption),
            escape(&self.note)
        );
    }
}

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1d2420;--soft:#66706a;--line:#dfe4e0;--page:#fbfcfa;--card:#fff;--mark:#2f8f5b;--bad:#b3402a;
--series-0:#2a78d6;--series-1:#e0662f;--series-2:#1b9e6b;--series-3:#8757d8;--series-4:#c79012;--series-5:#c2417c}
@media(prefers-color-scheme:dark){:root{--ink:#e9eeea;--soft:#9aa59e;--line:#303833;--page:#151917;--card:#1c211e;--mark:#5cc98c;--bad:#f08a70;
--series-0:#68a8f2;--series-1:#f2925f;--series-2:#4fcb98;--series-3:#b08cf0;--series-4:#e2b64a;--series-5:#ea7caa}}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1020px;margin:0 auto;padding:32px 20px 64px}h1{margin:0;font-size:28px}h2{margin:36px 0 8px;font-size:19px}h3{margin:20px 0 6px;font-size:14px;font-weight:600}
.sub,small,.tick{color:var(--soft)}p{max-width:72ch}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}th,td{padding:3px 12px 3px 0;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:500}th:first-child,td:first-child{text-align:left;white-space:normal;min-width:13em}
td.better{color:var(--mark)}td.worse{color:var(--bad)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:16px}.chart{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px;box-sizing:border-box;width:100%}
.chart .title{font:600 12px system-ui,sans-serif;fill:var(--ink)}.chart .tick{font:10px system-ui,sans-serif;fill:var(--soft)}.grid{stroke:var(--line);fill:none}
.label{font:11px system-ui,sans-serif;fill:var(--ink)}.whisker{stroke:var(--c);stroke-width:2}.zero{stroke:var(--soft)}.wide{margin:12px 0}
.line{fill:none;stroke-width:1.6}.area{fill-opacity:.22;stroke-width:1.4}
.s0{--c:var(--series-0)}.s1{--c:var(--series-1)}.s2{--c:var(--series-2)}.s3{--c:var(--series-3)}.s4{--c:var(--series-4)}.s5{--c:var(--series-5)}
.line,.area{stroke:var(--c)}.area,.dot{fill:var(--c)}
.strip{display:flex;flex-wrap:wrap;gap:10px;padding-bottom:6px;align-items:flex-start}figure{margin:0;width:124px;flex:none}
figure img{width:100%;aspect-ratio:1;object-fit:cover;border-radius:6px;display:block;background:var(--line)}
figure.words{border:1px solid var(--line);border-radius:6px;padding:8px;background:var(--card);box-sizing:border-box}
figcaption{font-size:12px;line-height:1.35;margin-top:4px;overflow-wrap:anywhere}figcaption small{display:block}
.marked img{outline:3px solid var(--mark);outline-offset:-3px}.marked.words{border-color:var(--mark);border-width:2px}
@media(max-width:560px){main{padding:20px 14px 48px}h1{font-size:23px}h2{margin-top:28px}.strip{gap:8px}figure{width:calc(33.3% - 6px)}
.charts{grid-template-columns:1fr}.chart .title{font-size:14px}.chart .tick{font-size:12px}
.scroll table,.scroll tbody,.scroll tr,.scroll td{display:block;border:0}.scroll tr.head{display:none}.scroll tr{border-bottom:1px solid var(--line);padding:8px 0}
.scroll td{text-align:left;white-space:normal;padding:1px 0}.scroll td:empty{display:none}.scroll td:first-child{font-weight:600}.scroll td::before{content:attr(data-head);color:var(--soft)}}
";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_is_self_contained_and_escaped() {
        let report = Report {
            title: "a <b>".into(),
            subtitle: String::new(),
            sections: vec![(
                "s & t".into(),
                vec![
                    Block::Text("x < y".into()),
                    Block::Table { head: vec!["h".into()], rows: vec![vec!["<script>".into()]] },
                    Block::Strip {
                        heading: "h".into(),
                        figures: vec![Figure { png: Some(vec![1, 2, 3]), caption: "c".into(), ..Figure::default() }],
                    },
                ],
            )],
        };
        let html = report.html();
        assert!(html.contains("x &lt; y") && html.contains("s &amp; t") && !html.contains("<script>"));
        assert!(html.contains("data:image/png;base64,AQID"));
        assert!(!html.contains("http://") && !html.contains("https://"), "the page must not reach for the network");
    }

    #[test]
    fn cells_have_the_header_of_their_column() {
        let head = ["what", "value", "better than trivial"].map(String::from).to_vec();
        let rows = vec![["a", "1", "worse"].map(String::from).to_vec()];
        let section = ("numbers".to_owned(), vec![Block::Table { head, rows }]);
        let html = Report { sections: vec![section], ..Report::default() }.html();
        assert!(html.contains("<td>a</td><td data-head=\"value: \">1</td>"), "{html}");
        assert!(html.contains("<td class=\"worse\" data-head=\"better than trivial: \">worse</td>"), "{html}");
        assert!(html.contains("@media(max-width:560px)"));
    }

    #[test]
    fn write_errors_name_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent/report.html");
        let error = Report::default().write(&path).unwrap_err().to_string();
        assert!(error.contains("absent"), "{error}");
    }
}
