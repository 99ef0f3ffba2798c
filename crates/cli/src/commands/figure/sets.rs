//! Distances from the root, from embedding sets.

use std::path::Path;

use anyhow::{Context as _, ensure};
use conifer_embeddings::Modality;
use conifer_geometry::space;
use conifer_index::Snapshot;
use conifer_viz::ProductFactors;
use conifer_viz::figures::{FigureEntry, FigureTable, push_histogram};

use crate::arguments::FigureArgs;
use crate::commands::project::chosen_rows;
use crate::output::note;
use crate::request::open_rows;

/// The views from general to specific, as the published models order them.
const VIEWS: [Modality; 4] = [Modality::BoxText, Modality::Text, Modality::BoxImage, Modality::Image];

/// Maximum number of factors of a figure.
const MAX_FACTORS: usize = 12;

pub(super) fn depths(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let mut table = FigureTable::new(entry.columns);
    for input in &args.inputs {
        let (set, rows) = opened(args, input)?;
        let geometry = space::<f64>(&set.spec)?;
        let depth = |row: usize| {
            let point: Vec<f64> = set.row(row).iter().map(|v| f64::from(*v)).collect();
            geometry.depth(&point, &set.root)
        };
        push_histogram(&mut table, &super::title_of(args, input), &by_view(&set, &rows, depth))
            .with_context(|| input.clone())?;
    }
    Ok(table)
}

pub(super) fn factor_depths(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let [input] = &args.inputs[..] else {
        anyhow::bail!("{} inputs; expected one embedding set", args.inputs.len());
    };
    let (set, rows) = opened(args, input)?;
    let factors = ProductFactors::new(&set.spec, &set.root)?;
    ensure!(factors.count() > 0, "{input}: the space is {}; expected a product space", set.spec);
    let summary = factors.summary(rows.len(), |i| set.row(rows[i]));
    let mut order: Vec<usize> = (0..factors.count()).collect();
    order.sort_by(|a, b| summary[*b].mean.total_cmp(&summary[*a].mean).then(a.cmp(b)));
    if order.len() > MAX_FACTORS {
        note(&format!("{} of {} factors: those of the largest mean distance", MAX_FACTORS, order.len()));
    }
    let mut table = FigureTable::new(entry.columns);
    for factor in order.into_iter().take(MAX_FACTORS) {
        let depth = |row: usize| f64::from(factors.depth(factor, &set.row(row)));
        push_histogram(&mut table, &format!("factor {factor}"), &by_view(&set, &rows, depth))?;
    }
    Ok(table)
}

fn opened(args: &FigureArgs, input: &str) -> anyhow::Result<(Snapshot, Vec<usize>)> {
    let set = open_rows(Path::new(input))?;
    set.check()?;
    // A set with fewer rows is used as a whole; the default number of rows would otherwise give a note for each set.
    let rows = chosen_rows(set.len(), (args.sample < set.len()).then_some(args.sample), args.seed)?;
    Ok((set, rows))
}

fn by_view(set: &Snapshot, rows: &[usize], depth: impl Fn(usize) -> f64) -> Vec<(String, Vec<f64>)> {
    let of = |view: Modality| {
        let own = rows.iter().filter(|row| set.modality[**row] == view);
        (view.name().to_owned(), own.map(|row| depth(*row)).collect())
    };
    VIEWS.map(of).into()
}
