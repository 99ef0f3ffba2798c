use burn::tensor::Device;
use conifer_index::{Filter, FlatIndex, Hit, Query as Points, Snapshot, conjunction};
use conifer_search::{RankingName, flat_search};
use serde_json::{Value, json};

use crate::arguments::SearchArgs;
use crate::output::{columns, note, print, print_json};
use crate::query_resolver::QueryResolver;
use crate::request::open_rows;
use crate::set_model::set_of;

pub(crate) fn run(args: SearchArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let set = open_rows(&args.set)?;
    let by = RankingName::from(args.by);
    let ranking = by.ranking(args.angle, args.within, "--").map_err(anyhow::Error::msg)?;
    let path = set_of(&args.set);
    let resolver = QueryResolver::new(&set, &path, &args.embedder, device);
    let mut query = resolver.point(&args.query)?;
    if !args.and.is_empty() {
        for it in &args.and {
            query.extend(resolver.named(it)?);
        }
        query = conjunction(&Points::new(&set.spec, &query))?;
    }
    let index = FlatIndex::on(&set)?;
    let rows = resolver.rows(&index, &args.modality, &args.only)?;
    let count = args.k.saturating_add(args.offset);
    let points = Points::new(&set.spec, &query);
    let mut hits = index.top_k(&points, ranking, count, &Filter::Set(&rows))?.concat();
    let found = hits.len();
    // Ignore the query's own row: its distance of 0 hides how close together the other rows are.
    let own = args.query.id.as_deref().map(|id| resolver.row(id)).transpose()?;
    let others: Vec<usize> = rows.iter().copied().filter(|row| Some(*row) != own).collect();
    let best = hits.iter().find(|hit| Some(hit.row) != own).map(|hit| hit.score);
    let flat = flat_search(&index, &points, ranking, &others, best, by.score())?;
    flat.iter().for_each(|it| note(&format!("note: {it}")));
    hits.drain(..args.offset.min(found));
    if found == 0 {
        note(&resolver.nothing_found(&args.only, rows.len()));
    } else if hits.is_empty() {
        note(&format!("--offset is {}, but only {found} rows were found", args.offset));
    }
    if as_json {
        let row = |(i, hit): (usize, &Hit)| {
            let mut row = row_json(&set, hit.row, args.offset + i + 1, f64::from(hit.score));
            row["score_is"] = json!(by.score());
            row["depth"] = json!(index.space().depth(&set.row(hit.row), &set.root));
            row
        };
        return print_json(&hits.iter().enumerate().map(row).collect::<Vec<_>>());
    }
    let mut rows = vec![vec!["rank".into(), by.score().into(), "modality".into(), "id".into(), "text".into()]];
    rows.extend(hits.iter().enumerate().map(|(i, hit)| {
        vec![
            (args.offset + i + 1).to_string(),
            format!("{:.4}", hit.score),
            set.modality[hit.row].name().into(),
            set.ids[hit.row].clone(),
            label(&set, hit.row).unwrap_or_default().to_owned(),
        ]
    }));
    print(&columns(&rows))
}

/// The text of a row in printed results: its text, or a description of its photo. `None` if the column `text` is
/// missing or empty.
pub(crate) fn label(set: &Snapshot, row: usize) -> Option<&str> {
    set.columns.get("text").map(|column| column[row].as_str()).filter(|it| !it.is_empty())
}

/// A row with its rank, score, id, modality and columns.
pub(crate) fn row_json(set: &Snapshot, row: usize, rank: usize, score: f64) -> Value {
    let columns: serde_json::Map<_, _> =
        set.columns.iter().map(|(name, values)| (name.clone(), json!(values[row]))).collect();
    json!({ "rank": rank, "score": score, "row": row, "id": set.ids[row], "modality": set.modality[row], "columns": columns })
}
