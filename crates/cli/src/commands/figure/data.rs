//! Boxes and classes of data sets.

use std::collections::BTreeMap;

use anyhow::ensure;
use conifer_data::sample::guarded;
use conifer_data::{Sample, Source};
use conifer_viz::figures::{FigureEntry, FigureTable, push_histogram};

use crate::arguments::{DataArgs, FigureArgs};
use crate::output::note;
use crate::progress;
use crate::request::open_source_of;

pub(super) fn box_areas(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let mut table = FigureTable::new(entry.columns);
    for input in &args.inputs {
        let source = opened(args, "INPUT", input)?;
        let mut areas = Vec::new();
        each_sample(source.as_ref(), |sample| {
            areas.extend(sample.phrases.iter().flat_map(|it| &it.boxes).map(|it| f64::from(it.area())));
        });
        ensure!(!areas.is_empty(), "{input}: no sample has boxes; expected a data set with boxes");
        push_histogram(&mut table, &super::title_of(args, input), &[(String::new(), areas)])?;
    }
    Ok(table)
}

pub(super) fn class_frequencies(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let [input] = &args.inputs[..] else {
        anyhow::bail!("{} inputs; expected one data set", args.inputs.len());
    };
    let source = opened(args, "INPUT", input)?;
    let (mut labels, mut texts) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    each_sample(source.as_ref(), |sample| {
        if let Some(label) = sample.label {
            *labels.entry(label).or_default() += 1;
        }
        for it in sample.phrases {
            *texts.entry(it.text).or_default() += it.boxes.len() + usize::from(it.crop.is_some());
        }
    });
    let counts = if labels.is_empty() { texts } else { labels };
    ensure!(!counts.is_empty(), "{input}: no sample has a label or boxes; expected a data set with classes");
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut table = FigureTable::new(entry.columns);
    for (class, count) in counts {
        table.push(vec![class.into(), (count as f64).into()])?;
    }
    Ok(table)
}

pub(super) fn opened(args: &FigureArgs, option: &str, input: &str) -> anyhow::Result<Box<dyn Source>> {
    let data = DataArgs {
        data: input.to_owned(),
        split: args.split.clone(),
        data_options: args.data_options.clone(),
        roots: args.roots.clone(),
    };
    open_source_of(option, &data)
}

/// Calls `each` with every readable sample, and prints the number of unreadable samples.
fn each_sample(source: &dyn Source, mut each: impl FnMut(Sample)) {
    let bar = progress::bar("samples", source.len());
    let (mut broken, mut first) = (0, None);
    for index in 0..source.len() {
        match guarded(|| format!("{}[{index}]", source.name()), || source.get(index)) {
            Ok(sample) => each(sample),
            Err(it) => {
                broken += 1;
                first.get_or_insert(it);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(first) = first {
        note(&format!("left out: {broken} of {} samples are broken (first: {first})", source.len()));
    }
}
