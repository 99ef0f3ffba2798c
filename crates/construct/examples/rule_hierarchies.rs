//! Measures the rules on captions: captions per second, the share of captions of at least ten words that get four valid
//! tiers and four negative ones, and a sample of hierarchies to read.
//!
//!     cargo run --release -p conifer-construct --example rule_hierarchies -- captions.csv [SHOWN [WORDNET]]
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use conifer_construct::pipeline::{HierarchyRow, Pipeline, PipelineModels, PipelineSettings, Stage, WorkFolder};
use conifer_construct::{Hypernyms, WordNetNouns};
use conifer_data::SourceSpec;
use conifer_data::sources::csv_pairs;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("expected a CSV file with the columns image and caption")?;
    let shown: usize = args.next().map_or(Ok(50), |it| it.parse())?;
    let wordnet = args.next().map(|folder| WordNetNouns::read(Path::new(&folder))).transpose()?;
    let source = csv_pairs::ENTRY.open(&SourceSpec { path: Some(path.into()), ..SourceSpec::default() })?;
    let work = std::env::temp_dir().join(format!("rule_hierarchies_{}", std::process::id()));
    let settings = PipelineSettings {
        work: work.clone(),
        seed: 0,
        min_words: 10,
        hypernym_steps: 1,
        keep_other_languages: false,
        seed_hierarchies: None,
        seed_captions: 0,
        grow_count: 0,
        candidates: 0,
        review: Vec::new(),
    };
    let stop = AtomicBool::new(false);
    let pipeline = Pipeline::new(settings, Hypernyms::new(wordnet), PipelineModels::default(), &stop);
    let started = Instant::now();
    let mut selected = 0;
    for stage in pipeline.stages() {
        let report = pipeline.run(stage, source.as_ref())?;
        if stage == Stage::Captions {
            selected = report.left;
        }
        let dropped: BTreeMap<_, _> = report.dropped.iter().map(|(cause, it)| (cause.name(), it.count)).collect();
        println!("{}: {} in, {} out, {:.2} s, {dropped:?}", stage.name(), report.entered, report.left, report.seconds);
        if stage != Stage::Captions {
            println!("  {:.1} % of the selected captions", 100.0 * report.left as f64 / selected.max(1) as f64);
            for (cause, it) in &report.dropped {
                println!("  {}: {:#?}", cause.name(), it.examples);
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{selected} selected captions in {seconds:.2} s: {:.0} captions/s", selected as f64 / seconds);
    let folder = WorkFolder::open(&work)?;
    let rows = folder.rows::<HierarchyRow>(Stage::Negatives)?.collect::<Result<Vec<_>, _>>()?;
    for row in rows.iter().step_by((rows.len() / shown.max(1)).max(1)).take(shown) {
        println!("+ {}", row.positive.join(" => "));
        println!("- {}", row.negative.as_ref().map(|it| it.join(" => ")).unwrap_or_default());
    }
    std::fs::remove_dir_all(&work)?;
    Ok(())
}
