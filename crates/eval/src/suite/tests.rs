#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use conifer_data::hierarchy::ClassGraph;
use conifer_data::{Broken, ImageRef, Picture, Sample, Source, View};
use conifer_geometry::{ManifoldSpec, Root};

use super::*;
use crate::{BENCHMARKS, EmbeddingModel, TreeFile};

fn suites() -> Vec<Suite> {
    SUITES.iter().map(|(name, _)| Suite::find(name).unwrap()).collect()
}

#[test]
fn suites_of_the_five_papers_are_valid() {
    for suite in suites() {
        assert!(SUITES.iter().any(|(name, _)| *name == suite.name));
        assert!(!suite.tables.is_empty() && !suite.title.is_empty(), "{}", suite.name);
        for task in &suite.tasks {
            let what = format!("{}: {}", suite.name, task.id);
            let known = BENCHMARKS.iter().any(|it| it.name() == task.benchmark);
            assert!(known, "{what}: {}", task.benchmark);
            assert!(conifer_datasets::sets::find(&task.data).is_ok(), "{what}: {}", task.data);
            assert!(!task.paper.is_empty() && !task.released.is_empty(), "{what}");
            let used = suite.tables.iter().flat_map(|table| &table.columns);
            let used = used.flat_map(|it| it.task.iter().chain(&it.tasks)).any(|it| *it == task.id);
            assert!(used, "{what} fills no column");
        }
    }
    let error = Suite::find("paper:clip").unwrap_err().to_string();
    assert!(error.contains("`paper:clip`") && error.contains("paper:hycoclip"), "{error}");
}

/// Checks the transcription of the tables: printed means and F1 values must agree with the numbers they are computed
/// from.
#[test]
fn published_numbers_agree_with_each_other() {
    let mut checked = 0;
    for suite in suites() {
        for table in &suite.tables {
            let at = |name: &str| table.columns.iter().position(|it| it.name() == name);
            let ulp = 10f64.powi(-(table.digits as i32));
            for row in &table.rows {
                let what = format!("{} {} {}", suite.name, table.source, row.model);
                for (column, &printed) in table.columns.iter().zip(&row.values) {
                    let parts: Vec<f64> = column.mean_of.iter().map(|name| row.values[at(name).unwrap()]).collect();
                    if !parts.is_empty() {
                        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
                        // If the paper itself is wrong, the note of the row states the correct mean.
                        let noted = row.note.as_ref().is_some_and(|note| note.contains(&format!("{mean:.2}")));
                        assert!((mean - printed).abs() <= 1.01 * ulp || noted, "{what}: {mean} {printed}");
                        checked += 1;
                    }
                }
                if let (Some(p), Some(r), Some(f)) = (at("P"), at("R"), at("F1")) {
                    let (p, r) = (row.values[p], row.values[r]);
                    // P and R are rounded, too, so F1 has a range.
                    let f1 = |p: f64, r: f64| 2.0 * p * r / (p + r);
                    let (low, high) = (f1(p - ulp / 2.0, r - ulp / 2.0), f1(p + ulp / 2.0, r + ulp / 2.0));
                    let (low, high) = (low - ulp, high + ulp);
                    assert!(low <= row.values[f] && row.values[f] <= high, "{what}: {low} {high} {}", row.values[f]);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 70, "{checked}");
}

#[test]
fn published_numbers_of_one_model_agree_between_tables() {
    let suite = Suite::find("paper:hycoclip").unwrap();
    let cell = |source: &str, model: &str, column: &str| {
        let table = suite.tables.iter().find(|it| it.source == source).unwrap();
        let at = table.columns.iter().position(|it| it.name() == column).unwrap();
        table.rows.iter().find(|it| it.model.starts_with(model)).unwrap().values[at]
    };
    // Table 8 repeats Tables 1, 2 and 5 for the small model. Its mean is the mean over the 16 data sets.
    let small = "HyCoCLIP ViT-S/16";
    for (column, source, name) in [
        ("classification ImageNet", "Table 1", "General ImageNet"),
        ("classification Food-101", "Table 1", "Fine-grained Food-101"),
        ("retrieval Text", "Table 2, left", "Text, COCO R@5"),
        ("retrieval Image", "Table 2, left", "Image, COCO R@5"),
        ("hierarchical TIE", "Table 2, right", "WordNet TIE"),
    ] {
        assert_eq!(cell("Table 8", small, column), cell(source, small, name), "{column}");
    }
    let table = suite.tables.iter().find(|it| it.source == "Table 1").unwrap();
    let row = &table.rows.iter().find(|it| it.model.starts_with(small)).unwrap().values;
    let mean = row.iter().sum::<f64>() / 16.0;
    assert!((mean - cell("Table 8", small, "classification Mean(16)")).abs() <= 0.05, "{mean}");
}

#[test]
fn inconsistent_suites_are_rejected() {
    let good = r#"
        name = "s"
        title = "t"
        reference = "r"
        [[task]]
        id = "pets"
        data = "animals"
        benchmark = "zero_shot_classification"
        paper = "p"
        released = "c"
        [[table]]
        title = "t"
        source = "Table 1"
        digits = 1
        columns = [{ header = "A", task = "pets", metric = "accuracy (micro)" }]
        rows = [{ model = "m", values = [1.0] }]
    "#;
    Suite::parse("mine.toml", good).unwrap();
    for (from, to, words) in [
        ("paper =", "papper =", "papper"),
        ("task = \"pets\"", "task = \"dogs\"", "`dogs`"),
        ("values = [1.0]", "values = [1.0, 2.0]", "2 values of `m` in 1 columns"),
        ("task = \"pets\", ", "", "one of task"),
        (", metric = \"accuracy (micro)\"", "", "a metric"),
        ("task = \"pets\"", "mean_of = [\"B\"]", "a column before it"),
        ("metric =", "better = \"bigger\", metric =", "bigger"),
        ("released =", "scores = []\nreleased =", "without scores"),
        ("digits = 1", "digits = 100000", "at most 12"),
        ("task = \"pets\"", "splits = [\"a\"], tasks = [\"pets\"]", "the task whose splits"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = Suite::parse("mine.toml", &good.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains("mine.toml") && error.contains(words), "{error}");
    }
}

/// Embeds photos by their first pixel and texts by their first letter, as points on a line.
struct LineEmbedder;

impl EmbeddingModel for LineEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        static SPEC: std::sync::OnceLock<ManifoldSpec> = std::sync::OnceLock::new();
        SPEC.get_or_init(|| ManifoldSpec::euclidean(1))
    }
    fn root(&self) -> Result<Root> {
        Ok(Root::Origin)
    }
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        Ok(texts.iter().map(|text| f32::from(text.as_bytes().first().copied().unwrap_or(0))).collect())
    }
    fn images(&self, images: &[ImageRef], _: EvalCrop) -> Result<Vec<f32>> {
        Ok(images.iter().map(|it| if let ImageRef::Pixels(it) = it { f32::from(it.rgb[0]) } else { 0.0 }).collect())
    }
}

struct SuiteSamples(Vec<Sample>);

impl Source for SuiteSamples {
    fn name(&self) -> &str {
        "list"
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        Ok(self.0[index].clone())
    }
    fn views(&self) -> &[View] {
        &[View::Pair]
    }
    fn fingerprint(&self) -> String {
        "0123".into()
    }
}

/// Three photos: two of class "a" (byte 97), and one of class "c" that looks like "a".
struct LettersFinder;

impl DataSetFinder for LettersFinder {
    fn data_set(&self, name: &str) -> Result<DataSetLookup> {
        let photo = |id: &str, pixel: u8, label: &str| Sample {
            id: id.into(),
            image: Some(ImageRef::Pixels(std::sync::Arc::new(Picture { width: 1, height: 1, rgb: vec![pixel; 3] }))),
            label: Some(label.into()),
            ..Sample::default()
        };
        match name {
            "letters" => Ok(DataSetLookup::Present {
                source: Box::new(SuiteSamples(vec![photo("1", 97, "a"), photo("2", 97, "a"), photo("3", 97, "c")])),
                tree: Some(TreeFile {
                    graph: ClassGraph::from_edges([("root", "a"), ("root", "c")])?,
                    path: "edges.txt".into(),
                    sha256: "t".into(),
                }),
            }),
            "nowhere" => {
                Ok(DataSetLookup::Absent { layout: "nowhere/photos.tar".into(), get: "https://example.org".into() })
            }
            _ => Err(Error::Invalid { name: "data set".into(), found: name.into(), expected: "letters".into() }),
        }
    }
}

const SMALL: &str = r#"
    name = "small"
    title = "A | title"
    reference = "we, 2026"
    notes = ["of every table"]
    [[task]]
    id = "letters"
    data = "letters"
    benchmark = "zero_shot_classification"
    prompts = "bare"
    scores = ["similarity", "inner"]
    paper = "p"
    released = "c"
    [[task]]
    id = "away"
    data = "nowhere"
    benchmark = "zero_shot_classification"
    paper = "p"
    released = "c"
    [[task]]
    id = "pairs"
    data = "letters"
    benchmark = "cross_modal_retrieval"
    paper = "p"
    released = "c"
    [[table]]
    title = "Accuracy of 100 % & more_"
    source = "Table 1"
    digits = 1
    factor = 100
    variants = [
        { name = "paper", protocol = ["similarity"] },
        { name = "other metric", protocol = ["similarity"], metrics = { "accuracy (macro)" = "accuracy (micro)" } },
        { name = "any", protocol = [] },
    ]
    columns = [
        { header = "letters", group = "easy", task = "letters", metric = "accuracy (macro)" },
        { header = "away", group = "easy", task = "away", metric = "accuracy (macro)" },
        { header = "R@1", task = "pairs", metric = "recall@1", better = "lower" },
        { header = "odd", task = "letters", metric = "no such metric" },
        { header = "mean", tasks = ["letters", "letters"], metric = "accuracy (macro)" },
        { header = "of", mean_of = ["easy letters", "mean"] },
    ]
    rows = [{ model = "CLIP", values = [60.0, nan, 1.0, 2.0, 3.0, 4.0], note = "odd, \"as\" printed" }]
"#;

fn small() -> (Suite, SuiteReport) {
    let suite = Suite::parse("small", SMALL).unwrap();
    let mut messages = Vec::new();
    let report =
        suite.run(&LineEmbedder, &LettersFinder, SuiteSettings::default(), &mut |line| messages.push(line.to_owned()));
    assert_eq!(messages.len(), 3);
    assert!(
        messages[0].contains("letters") && messages[1].contains("cross_modal_retrieval on letters"),
        "{messages:?}"
    );
    (suite, report)
}

#[test]
fn a_failing_task_does_not_stop_the_others() {
    let (_, report) = small();
    assert_eq!(report.measured.len(), 2, "two scores");
    assert!(report.measured.iter().all(|it| it.samples == 3 && it.data_sha256 == "0123"));
    assert_eq!(report.missing.len(), 1);
    assert_eq!((report.missing[0].task.as_str(), report.missing[0].layout.as_str()), ("away", "nowhere/photos.tar"));
    assert_eq!(report.failed.len(), 1);
    assert!(report.failed[0].error.contains("caption"), "{:?}", report.failed);

    let unknown = SMALL
        .replace("data = \"nowhere\"", "data = \"unheard of\"")
        .replace("prompts = \"bare\"", "prompts = \"meru\"");
    let suite = Suite::parse("small", &unknown).unwrap();
    let report = suite.run(&LineEmbedder, &LettersFinder, SuiteSettings::default(), &mut |_| {});
    assert!(report.measured.is_empty());
    let errors: BTreeMap<&str, &str> = report.failed.iter().map(|it| (it.task.as_str(), it.error.as_str())).collect();
    assert!(errors["letters"].contains("`meru`") && errors["away"].contains("unheard of"), "{errors:?}");
    assert_eq!(report.failed.len(), 3, "an error that both scores share is reported once");
}

#[test]
fn cells_by_hand() {
    let (suite, report) = small();
    let sheet = sheets(&suite, &report, "mine").remove(0);
    let ours: Vec<&SheetRow> = sheet.rows.iter().filter(|row| row.kind == SheetRowKind::Ours).collect();
    let note =
        |cell: &SheetCell| cell.notes.iter().map(|&note| sheet.notes[note - 1].as_str()).collect::<Vec<_>>().join("; ");
    assert_eq!(
        ours.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
        ["mine (paper)", "mine (other metric)", "mine (any)"]
    );
    // All three photos are classified as "a": the macro accuracy is (1 + 0) / 2, and the micro accuracy 2 / 3.
    assert_eq!((ours[0].cells[0].value, ours[0].cells[0].n), (Some(50.0), Some(3)));
    assert!((ours[1].cells[0].value.unwrap() - 200.0 / 3.0).abs() < 1e-9);
    assert!(ours[1].cells[0].half.unwrap() > 0.0);
    assert_eq!(note(&ours[0].cells[1]), "its data set is missing: see the end of the report");
    assert!(note(&ours[0].cells[2]).contains("task pairs failed"));
    assert!(note(&ours[0].cells[3]).contains("no number `no such metric`"));
    assert_eq!((ours[0].cells[4].value, ours[0].cells[5].value), (Some(50.0), Some(50.0)));
    // By inner product with 97 and 99, all photos are classified as "c": the macro accuracy is 1/2 again, and the micro
    // accuracy 1/3. Only the macro accuracy is the same in both runs.
    assert_eq!(ours[2].cells[0].value, Some(50.0));
    let trivial = sheet.rows.iter().find(|row| row.kind == SheetRowKind::Trivial).unwrap();
    assert_eq!(trivial.cells[0].value, Some(50.0));
    assert_eq!(note(&trivial.cells[0]), "trivial answer: chance");
    assert_eq!((trivial.name.as_str(), sheet.rows.last().unwrap().name.as_str()), ("chance / trivial", "n"));
    assert_eq!(sheet.rows.last().unwrap().cells[0].n, Some(3));
    assert_eq!(sheet.rows[0].cells[1].value, None);

    // If two runs have different values, the cell is empty and has a footnote.
    let micro = SMALL.replace("metric = \"accuracy (macro)\"", "metric = \"accuracy (micro)\"");
    let suite = Suite::parse("small", &micro).unwrap();
    let sheet = sheets(&suite, &report, "mine").remove(0);
    let any = sheet.rows.iter().filter(|row| row.kind == SheetRowKind::Ours).nth(2).unwrap();
    assert_eq!(any.cells[0].value, None);
    assert!(sheet.notes[any.cells[0].notes[0] - 1].contains("several numbers"), "{:?}", sheet.notes);
}

#[test]
fn partial_results_are_noted() {
    let (suite, mut report) = small();
    report.measured[0].records.iter_mut().for_each(|it| it.protocol += ", partial: 2 of 3 samples");
    let exact = SMALL.replace(
        "{ name = \"paper\", protocol = [\"similarity\"] }",
        "{ name = \"paper\", exact = \"bare prompts (1), similarity\" }",
    );
    for suite in [suite, Suite::parse("small", &exact).unwrap()] {
        let sheet = sheets(&suite, &report, "mine").remove(0);
        let cell = &sheet.rows.iter().find(|row| row.kind == SheetRowKind::Ours).unwrap().cells[0];
        assert_eq!(cell.value, Some(50.0));
        assert_eq!(sheet.notes[cell.notes[0] - 1], "letters: partial: 2 of 3 samples");
    }
}

#[test]
fn every_format_contains_all_results() {
    let (suite, report) = small();
    let all = |format| render(format, &suite, &report, "my_model");
    for format in [TableFormat::Text, TableFormat::Markdown, TableFormat::Csv, TableFormat::Latex] {
        let text = all(format);
        let words = ["50.0", "nowhere/photos.tar", "https://example.org", "Table 1", "of every table", "caption"];
        for word in words.iter().filter(|word| format != TableFormat::Csv || !["50.0", "of every table"].contains(word))
        {
            assert!(text.contains(word), "{format:?}: {word} is not in {text}");
        }
        assert!(text.ends_with('\n'), "{format:?}");
    }
    assert!(all(TableFormat::Markdown).contains("A \\| title") && all(TableFormat::Markdown).contains("| --- |"));
    let latex = all(TableFormat::Latex);
    assert!(latex.contains("100 \\% \\& more\\_") && latex.contains("my\\_model"), "{latex}");
    assert!(latex.contains("\\toprule") && latex.contains("$\\downarrow$") && latex.contains("$\\pm$"), "{latex}");
    assert!(latex.contains("\\multicolumn{2}{c}{easy}") && latex.contains("\\cmidrule(lr){2-3}"), "{latex}");
    let csv = all(TableFormat::Csv);
    assert!(csv.contains("Table 1,measured,my_model (paper),easy,letters,50,"), "{csv}");
    assert!(csv.contains("\"odd, \"\"as\"\" printed\""), "{csv}");
    assert!(csv.lines().all(|line| line.contains(',')), "{csv}");

    let by = serde_json::json!({ "checkpoint": "mine" });
    let lines = jsonl(&report, &by).unwrap();
    let read = crate::read_results("out.jsonl", &lines).unwrap();
    assert_eq!(read.len(), report.measured.iter().map(|it| it.records.len()).sum::<usize>());
    assert_eq!(read[0].record, report.measured[0].records[0]);
    assert_eq!(read[0].task.as_ref(), Some(&report.measured[0].setting));
    assert_eq!((read[0].data_sha256.as_str(), read[0].produced_by["checkpoint"].as_str()), ("0123", Some("mine")));
    // If a model is compared with itself, there are no differences, and each run is compared with the same run.
    let all = crate::compare_results(&read, &read, 0, &mut |_, _| {});
    assert_eq!(all.len(), read.len());
    assert!(
        all.iter().all(|it| matches!(it.verdict, crate::Verdict::Paired { p: 1.0, difference: 0.0, .. })),
        "{all:?}"
    );
}

#[test]
fn a_data_set_is_embedded_once() {
    struct CountingEmbedder(std::cell::Cell<usize>);
    impl EmbeddingModel for CountingEmbedder {
        fn spec(&self) -> &ManifoldSpec {
            LineEmbedder.spec()
        }
        fn root(&self) -> Result<Root> {
            LineEmbedder.root()
        }
        fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
            LineEmbedder.texts(texts)
        }
        fn images(&self, images: &[ImageRef], crop: EvalCrop) -> Result<Vec<f32>> {
            self.0.set(self.0.get() + 1);
            LineEmbedder.images(images, crop)
        }
    }
    let counting = CountingEmbedder(std::cell::Cell::new(0));
    let suite = Suite::parse("small", SMALL).unwrap();
    let report = suite.run(&counting, &LettersFinder, SuiteSettings::default(), &mut |_| {});
    assert_eq!((counting.0.get(), report.measured.len()), (1, 2));
}

/// Every published row occurs in the text of its paper with the same numbers.
#[test]
fn published_rows_occur_in_the_papers() {
    let papers = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/papers"));
    if !papers.is_dir() {
        eprintln!("skipped: no papers at {}", papers.display());
        return;
    }
    let mut rows = 0;
    for (suite, file) in [
        ("paper:hycoclip", "hycoclip.txt"),
        ("paper:phyclip", "phyclip.txt"),
        ("paper:hierarcaps", "hierarcaps-radial-embeddings-supplement.txt"),
        ("paper:rcme", "rcme.txt"),
        ("paper:visual-hierarchies", "visual-hierarchies.txt"),
    ] {
        let text = std::fs::read_to_string(papers.join(file)).unwrap();
        let printed: Vec<f64> =
            text.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|it| it.parse().ok()).collect();
        for table in Suite::find(suite).unwrap().tables {
            // This table is transposed here, because the paper has a row per data set.
            let turned = (suite, table.source.as_str()) == ("paper:visual-hierarchies", "Table 4");
            for row in table.rows.iter().filter(|_| !turned) {
                let values: Vec<f64> = row.values.iter().copied().filter(|it| !it.is_nan()).collect();
                assert!(printed.windows(values.len()).any(|it| it == values), "{suite} {}: {row:?}", table.source);
                rows += 1;
            }
        }
    }
    assert!(rows > 200, "{rows}");
}

/// Variants with equal values share one measured row. If their baselines differ, the rows below are separate.
#[test]
fn different_baselines_have_separate_rows() {
    let tree = r#"
        name = "tree"
        title = "t"
        reference = "r"
        [[task]]
        id = "tree"
        data = "letters"
        benchmark = "hierarchical_classification"
        prompts = "bare"
        paper = "p"
        released = "c"
        [[table]]
        title = "t"
        source = "Table 1"
        digits = 2
        variants = [{ name = "told" }, { name = "released", metrics = { LCA = "LCA released" } }]
        columns = [
            { header = "TIE", task = "tree", metric = "TIE", better = "lower" },
            { header = "LCA", task = "tree", metric = "LCA", better = "lower" },
        ]
        rows = []
    "#;
    let suite = Suite::parse("tree", tree).unwrap();
    let mut report = suite.run(&LineEmbedder, &LettersFinder, SuiteSettings::default(), &mut |_| {});
    let rows = |report: &SuiteReport, kind: SheetRowKind| -> Vec<(String, Vec<Option<f64>>)> {
        let sheet = sheets(&suite, report, "mine").remove(0);
        let rows = sheet.rows.into_iter().filter(|row| row.kind == kind);
        rows.map(|row| (row.name, row.cells.iter().map(|cell| cell.value).collect())).collect()
    };
    // All photos are classified as "a". One of three is a "c", a sibling of "a": TIE 2/3, LCA 1/3. The released LCA is
    // 1, because it is 1 for correct answers, too.
    let ours = rows(&report, SheetRowKind::Ours);
    assert_eq!(ours[0].1, [Some(2.0 / 3.0), Some(1.0 / 3.0)]);
    assert_eq!(ours[1].1, [Some(2.0 / 3.0), Some(1.0)]);
    // A random answer is wrong half of the time: TIE 1, LCA 1/2, and released LCA 1.
    let trivial = rows(&report, SheetRowKind::Trivial);
    assert_eq!(trivial[0], ("chance / trivial (told)".into(), vec![Some(1.0), Some(0.5)]));
    assert_eq!(trivial[1], ("chance / trivial (released)".into(), vec![Some(1.0), Some(1.0)]));
    assert_eq!(rows(&report, SheetRowKind::Queries).len(), 1);

    // If a number has two baselines, the stronger one is shown. For TIE, the smaller value is stronger.
    let again = report.measured[0].records.iter().find(|it| it.metric == "TIE").unwrap().clone();
    let stronger = crate::Baseline::named("a clever one", 0.25);
    report.measured[0].records.push(crate::Record { baseline: stronger, ..again });
    assert_eq!(rows(&report, SheetRowKind::Trivial)[0].1[0], Some(0.25));
}
