//! Compares the referring expressions of the built-in chunker with those of a file of `bench/spacy_chunks.py`: precision,
//! recall and F1 of equal spans, over the captions of the file. With --errors, examples of differences are listed.
//!
//!     cargo run --release -p conifer-construct --example expression_table -- CHUNKS.jsonl [--errors]
//!
//! Only expressions of chunks that both found count, so that the numbers say nothing about the chunks.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use conifer_construct::grounding::{ChunkTable, Chunker};

/// Number of listed differences.
const SHOWN: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let (flags, paths): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|it| it.starts_with("--"));
    let path = paths.first().ok_or("expected a file of bench/spacy_chunks.py")?;
    let (rules, table) = (Chunker::Rules(Arc::default()), Chunker::Table(ChunkTable::read(Path::new(path))?));
    let [mut captions, mut shared, mut own, mut other, mut equal, mut started] = [0_usize; 6];
    let mut differences = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let caption = line["caption"].as_str().ok_or("a line without caption")?;
        let text: Vec<char> = caption.chars().collect();
        let words = |range: &Option<Range<usize>>| range.clone().map(|it| text[it].iter().collect::<String>());
        captions += 1;
        let theirs: HashMap<Range<usize>, Option<Range<usize>>> =
            table.chunks(caption).unwrap_or_default().into_iter().map(|it| (it.range, it.expression)).collect();
        for chunk in rules.chunks(caption).unwrap_or_default() {
            let Some(theirs) = theirs.get(&chunk.range) else { continue };
            shared += 1;
            own += usize::from(chunk.expression.is_some());
            other += usize::from(theirs.is_some());
            started += usize::from(chunk.expression.is_some() && theirs.is_some());
            equal += usize::from(chunk.expression.is_some() && chunk.expression == *theirs);
            if chunk.expression != *theirs {
                differences.push(format!("{:?} | {:?} | {caption}", words(&chunk.expression), words(theirs)));
            }
        }
    }
    let share = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
    let f1 = 200.0 * equal as f64 / (own + other).max(1) as f64;
    println!("{captions} captions, {shared} chunks that both found; expressions: {own} by rules, {other} in the file");
    println!("  equal spans: precision {:.1} recall {:.1} F1 {f1:.1}", share(equal, own), share(equal, other));
    println!("  chunks with an expression: precision {:.1} recall {:.1}", share(started, own), share(started, other));
    if flags.iter().any(|it| it == "--errors") {
        for line in differences.iter().step_by((differences.len() / SHOWN).max(1)) {
            println!("    rules | file | caption: {line}");
        }
    }
    Ok(())
}
