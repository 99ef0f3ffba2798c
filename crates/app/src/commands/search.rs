use burn::tensor::Device;
use conifer_index::{Filter, FlatIndex, Hit, Query as Points, Snapshot, conjunction};
use serde_json::{Value, json};

use crate::asker::Asker;
use crate::cli::Search;
use crate::output::{columns, note, print, print_json};
use crate::request::open_rows;

pub(crate) fn run(args: Search, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let set = open_rows(&args.set)?;
    let ranking = args.by.ranking(args.angle, args.within, "--").map_err(anyhow::Error::msg)?;
    let asker = Asker::new(&set, args.checkpoint.as_deref(), device);
    let mut query = asker.point(&args.query)?;
    if !args.and.is_empty() {
        for it in &args.and {
            query.extend(asker.named(it)?);
        }
        query = conjunction(&Points::new(&set.spec, &query))?;
    }
    let index = FlatIndex::on(&set)?;
    let rows = asker.rows(&index, &args.modality, &args.only)?;
    let count = args.k.saturating_add(args.offset);
    let mut hits = index.top_k(&Points::new(&set.spec, &query), ranking, count, &Filter::Set(&rows))?.concat();
    let found = hits.len();
    hits.drain(..args.offset.min(found));
    if found == 0 {
        note(&asker.nothing(&args.only, rows.len()));
    } else if hits.is_empty() {
        note(&format!("--offset is {}; {found} rows were found", args.offset));
    }
    if as_json {
        let row = |(i, hit): (usize, &Hit)| {
            let mut row = row_json(&set, hit.row, args.offset + i + 1, f64::from(hit.score));
            row["score_is"] = json!(args.by.score());
            row["depth"] = json!(index.space().depth(&set.row(hit.row), &set.root));
            row
        };
        return print_json(&hits.iter().enumerate().map(row).collect::<Vec<_>>());
    }
    let mut rows = vec![vec!["rank".into(), args.by.score().into(), "modality".into(), "id".into(), "text".into()]];
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

/// What a person reads of a row: its text, or the path of its photo.
pub(crate) fn label(set: &Snapshot, row: usize) -> Option<&str> {
    set.columns.get("text").map(|column| column[row].as_str()).filter(|it| !it.is_empty())
}

/// A row with everything known of it.
pub(crate) fn row_json(set: &Snapshot, row: usize, rank: usize, score: f64) -> Value {
    let columns: serde_json::Map<_, _> =
        set.columns.iter().map(|(name, values)| (name.clone(), json!(values[row]))).collect();
    json!({ "rank": rank, "score": score, "row": row, "id": set.ids[row], "modality": set.modality[row], "columns": columns })
}
