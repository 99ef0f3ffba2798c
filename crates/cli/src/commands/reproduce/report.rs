//! claims.json, claims.html, claims.md and the forest plots.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use conifer_eval::ClaimVerdict;
use conifer_viz::{Block, ForestMark, ForestRow, Report, forest, forest_file};
use serde_json::json;

use super::result::ClaimResult;

/// The rule of the verdicts, as shown on the page.
pub(super) const RULE: &str = "Each claim names two models (or a model and a trivial answer), one number and a margin, which is 0 unless it is \
    shown. The difference is taken in the claim's direction, as the mean over the seeds. Its 95 % interval is a bootstrap that draws seeds, and \
    queries for all seeds and both models together. A claim holds if the interval lies above the margin, and does not hold if it lies below. It \
    cannot be decided here if the interval contains the margin, if the better of the two models does not beat the trivial answer, or if there are \
    fewer than six independent queries. Intervals are for one claim alone: of a hundred claims without any effect, about five would be decided.";

const X_LABEL: &str = "difference in the claim's direction minus the margin, points of 100 (95 % interval)";

/// Writes all files of the report to `out`.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(out: &Path, results: &[ClaimResult], seeds: u64) -> anyhow::Result<()> {
    let keep = |name: &str, text: &str| {
        let path = out.join(name);
        conifer_files::write_whole(&path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
    };
    let all = json!({
        "conifer": env!("CARGO_PKG_VERSION"), "seeds": (0..seeds).collect::<Vec<_>>(), "rule": RULE, "claims": results,
    });
    keep("claims.json", &(serde_json::to_string_pretty(&all)? + "\n"))?;
    keep("claims.html", &page(results, seeds).html())?;
    keep("claims.md", &markdown(results, seeds, None))?;
    write_forests(out, results)
}

/// Writes the forest plot of each paper to `folder`.
fn write_forests(folder: &Path, results: &[ClaimResult]) -> anyhow::Result<()> {
    for (paper, claims) in by_paper(results) {
        let path = folder.join(forest_name(&paper));
        let plot = forest_file(&paper, X_LABEL, &rows(&claims));
        conifer_files::write_whole(&path, plot.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// File name of a forest plot. The name of the paper in a user's claim may contain any characters.
fn forest_name(paper: &str) -> String {
    let name: String = paper.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
    format!("forest-{name}.svg")
}

/// Marker lines before and after the tables of a document.
const MARKERS: [&str; 2] = ["<!-- claims -->\n", "<!-- /claims -->"];

/// Folder of the forest plots, beside the document that shows them.
const PICTURES: &str = "pictures";

/// Replaces the text between the markers of a document by the tables and the forest plots.
///
/// # Errors
/// The document or a picture cannot be read or written, or the document lacks the markers.
pub(super) fn update(document: &Path, results: &[ClaimResult], seeds: u64) -> anyhow::Result<()> {
    let place = || format!("--update {}", document.display());
    let text = std::fs::read_to_string(document).with_context(place)?;
    let parts = text.split_once(MARKERS[0]).and_then(|(before, rest)| Some((before, rest.split_once(MARKERS[1])?.1)));
    let (before, after) = parts.with_context(|| {
        format!(
            "{} has no lines `{}` and `{}`; expected both around the tables",
            place(),
            MARKERS[0].trim(),
            MARKERS[1]
        )
    })?;
    let pictures = document.with_file_name(PICTURES);
    std::fs::create_dir_all(&pictures).with_context(|| format!("creating {}", pictures.display()))?;
    write_forests(&pictures, results)?;
    let text = [before, MARKERS[0], "\n", &markdown(results, seeds, Some(PICTURES)), "\n", MARKERS[1], after].concat();
    conifer_files::write_whole(document, text.as_bytes()).with_context(place)
}

/// Claims of each paper, in the order of the command line.
fn by_paper(results: &[ClaimResult]) -> Vec<(String, Vec<&ClaimResult>)> {
    let mut papers: Vec<(String, Vec<&ClaimResult>)> = Vec::new();
    for claim in results {
        let paper = if claim.paper.is_empty() { "unreadable claims" } else { &claim.paper };
        match papers.iter_mut().find(|(name, _)| name == paper) {
            Some((_, claims)) => claims.push(claim),
            None => papers.push((paper.to_owned(), vec![claim])),
        }
    }
    papers
}

fn rows(claims: &[&ClaimResult]) -> Vec<ForestRow> {
    let row = |claim: &&ClaimResult| ForestRow {
        name: claim.name.split_once('/').map_or(claim.name.as_str(), |it| it.1).to_owned(),
        estimate: claim.comparison.as_ref().map(|it| {
            let [low, high] = it.interval;
            [it.difference, low, high].map(|value| 100.0 * (value - claim.margin))
        }),
        note: claim.verdict.to_owned(),
        mark: match claim.decision() {
            Some(ClaimVerdict::Holds) => ForestMark::For,
            Some(ClaimVerdict::DoesNotHold) => ForestMark::Against,
            _ => ForestMark::Open,
        },
    };
    claims.iter().map(row).collect()
}

fn page(results: &[ClaimResult], seeds: u64) -> Report {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    results.iter().for_each(|it| *counts.entry(it.verdict).or_default() += 1);
    let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
    let mut sections = vec![("How a claim is decided".to_owned(), vec![Block::Text(RULE.to_owned())])];
    for (paper, claims) in by_paper(results) {
        let mut blocks = vec![Block::Chart(forest(&paper, X_LABEL, &rows(&claims)))];
        let head = HEAD.map(String::from).to_vec();
        blocks.push(Block::Table { head, rows: claims.iter().map(|it| cells(it)).collect() });
        for claim in claims {
            blocks.push(Block::Text(details(claim, results)));
        }
        sections.push((paper, blocks));
    }
    Report {
        title: "Claims".into(),
        subtitle: format!("{} claims, {seeds} seeds: {}.", results.len(), counts.join(", ")),
        sections,
    }
}

const HEAD: [&str; 7] = ["claim", "verdict", "difference (95 %)", "here", "paper", "number", "place"];

/// The cells of a claim in the table.
fn cells(claim: &ClaimResult) -> Vec<String> {
    let numbers = claim.paper_numbers.first().map_or_else(String::new, |it| match it.other {
        Some(other) => format!("{} against {other}", it.claimed),
        None => it.claimed.to_string(),
    });
    let row = claim.row.as_ref().map_or_else(String::new, |it| format!("{} {}", it.part, it.metric));
    let (here, difference) = match &claim.comparison {
        Some(it) => {
            let [low, high] = it.interval;
            let margin =
                if claim.margin == 0.0 { String::new() } else { format!(", margin {:+.1}", 100.0 * claim.margin) };
            (
                against(&it.values, 100.0),
                format!("{:+.1} ({:+.1} .. {:+.1}){margin}", 100.0 * it.difference, 100.0 * low, 100.0 * high),
            )
        }
        None => (String::new(), String::new()),
    };
    let sentence = if claim.sentence.is_empty() { claim.name.clone() } else { claim.sentence.clone() };
    vec![sentence, claim.verdict.to_owned(), difference, here, numbers, row, claim.place.clone()]
}

/// Mean and standard deviation over the seeds, of both sides.
fn against(values: &[[f64; 2]], scale: f64) -> String {
    format!(
        "{} against {}",
        spread(values.iter().map(|it| scale * it[0])),
        spread(values.iter().map(|it| scale * it[1]))
    )
}

fn spread(values: impl Iterator<Item = f64>) -> String {
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    if values.len() < 2 {
        return format!("{mean:.1}");
    }
    let squares = values.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
    format!("{mean:.1} \u{b1} {:.1}", (squares / (values.len() - 1) as f64).sqrt())
}

/// Factor of a number on the page: shares are in hundredths, distances keep their unit.
fn scale(metric: &str) -> f64 {
    if ["TIE", "LCA", "LCA released", "mean depth"].contains(&metric) { 1.0 } else { 100.0 }
}

/// The facts about a claim that the table does not show.
fn details(claim: &ClaimResult, results: &[ClaimResult]) -> String {
    let mut text = format!("{}: {} ({}).", claim.name, claim.verdict, claim.reason);
    if let Some(trivial) = claim.comparison.as_ref().and_then(|it| it.trivial.as_ref()) {
        text += &format!(" Trivial answer: {} {:.1}.", trivial.answer.name, 100.0 * trivial.answer.value);
    }
    if let Some(why) = &claim.ignore_trivial {
        text += &format!(" The trivial answer does not count: {why}");
    }
    if !claim.note.is_empty() {
        text += &format!(" {}", claim.note);
    }
    let shown = claim.shown.iter().map(|it| {
        let data = it.row.data.as_ref().map_or_else(String::new, |data| format!("{data}, "));
        format!("{data}{} {} {}", it.row.part, it.row.metric, against(&it.values, scale(&it.row.metric)))
    });
    let shown = shown.collect::<Vec<_>>().join("; ");
    if !shown.is_empty() {
        text += &format!(" Other numbers of the same runs: {shown}.");
    }
    text + &explanation(claim, results)
}

/// The reason why a claim does not hold, with the verdict of the claim that shows it.
fn explanation(claim: &ClaimResult, results: &[ClaimResult]) -> String {
    let Some(explanation) = &claim.explanation else { return String::new() };
    let other = results.iter().find(|it| it.name == explanation.shown_by);
    let verdict = other.map_or("not in this report", |it| it.verdict);
    format!(" Possible reason: {} See {} ({verdict}).", explanation.text, explanation.shown_by)
}

/// The claims of a paper.
fn by_name<'a>(results: &'a [ClaimResult], paper: &'a str) -> impl Iterator<Item = &'a ClaimResult> {
    results.iter().filter(move |it| it.paper == paper)
}

/// The tables, each below its forest plot if `pictures` names the folder of the plots.
fn markdown(results: &[ClaimResult], seeds: u64, pictures: Option<&str>) -> String {
    let mut text = format!("{} claims, {seeds} seeds.\n", results.len());
    for (paper, claims) in by_paper(results) {
        text += &format!("\n### {paper}\n");
        if let Some(folder) = pictures {
            text += &format!("\n![Claims of {paper}: differences with intervals]({folder}/{})\n", forest_name(&paper));
        }
        text += &format!("\n| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
        for claim in claims {
            let mut cells: Vec<String> =
                cells(claim).into_iter().map(|it| it.replace('|', "\\|").replace('\n', " ")).collect();
            if !claim.was_run() {
                cells.pop();
                cells.push(format!("{}: {}", claim.verdict, claim.reason.replace('|', "\\|").replace('\n', " ")));
            }
            text += &format!("| {} |\n", cells.join(" | "));
        }
        for claim in by_name(results, &paper).filter(|it| it.explanation.is_some()) {
            text += &format!("\n`{}`:{}\n", claim.name, explanation(claim, results));
        }
    }
    text
}
