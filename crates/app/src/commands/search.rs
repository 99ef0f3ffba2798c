use anyhow::Context as _;
use burn::tensor::Device;
use conifer_index::{Direction, Filter, FlatIndex, Query as Points, Ranking, Snapshot};
use conifer_space::Modality;
use serde_json::{Value, json};

use crate::cli::{By, Query, Search, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::output::{columns, print, print_json};

pub(crate) fn run(args: Search, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let set = Snapshot::open(&args.set)?;
    let query = query_point(&set, &args.query, args.checkpoint.as_deref(), device)?;
    let ranking = match args.by {
        By::Distance => Ranking::Distance,
        By::Narrower => Ranking::Angle(Direction::Down),
        By::Broader => Ranking::Angle(Direction::Up),
    };
    let modalities = modalities(&args.modality);
    let points = Points::new(&set.spec, &query);
    let hits = FlatIndex::on(&set)?.top_k(&points, ranking, args.k, &filter(&modalities))?.concat();
    if as_json {
        let rows: Vec<Value> =
            hits.iter().enumerate().map(|(i, hit)| row_json(&set, hit.row, i + 1, f64::from(hit.score))).collect();
        return print_json(&rows);
    }
    let score = match args.by {
        By::Distance => "distance",
        By::Narrower | By::Broader => "angle",
    };
    let mut rows = vec![vec!["rank".into(), score.into(), "modality".into(), "id".into(), "text".into()]];
    rows.extend(hits.iter().enumerate().map(|(i, hit)| {
        vec![
            (i + 1).to_string(),
            format!("{:.4}", hit.score),
            set.modality[hit.row].name().into(),
            set.ids[hit.row].clone(),
            label(&set, hit.row).unwrap_or_default().to_owned(),
        ]
    }));
    print(&columns(&rows))
}

/// The point of a text, a photo or a row.
pub(crate) fn query_point(
    set: &Snapshot,
    query: &Query,
    checkpoint: Option<&std::path::Path>,
    device: &Device,
) -> anyhow::Result<Vec<f32>> {
    if let Some(id) = &query.id {
        return Ok(set.row(row_of(set, id)?).into_owned());
    }
    let checkpoint = checkpoint.context("--text and --image need --checkpoint: the model that made the set")?;
    let embedder = ModelEmbedder::open(checkpoint, device)?;
    embedder.check_made(&set.spec, &set.source)?;
    match (&query.text, &query.image) {
        (Some(text), _) => embedder.text(text),
        (_, Some(path)) => embedder.image(path),
        _ => anyhow::bail!("expected one of --text, --image, --id"),
    }
}

/// The first row called `id`.
pub(crate) fn row_of(set: &Snapshot, id: &str) -> anyhow::Result<usize> {
    set.ids.iter().position(|it| it == id).with_context(|| {
        format!(
            "no row has the id `{id}`; the set has {} rows, e.g. `{}`",
            set.len(),
            set.ids.first().map_or("", |it| it)
        )
    })
}

/// The modalities asked for.
pub(crate) fn modalities(views: &[ViewArg]) -> Vec<Modality> {
    views.iter().map(|&it| it.into()).collect()
}

/// Rows of these modalities; of any, when none is named.
pub(crate) fn filter(modalities: &[Modality]) -> Filter<'_> {
    if modalities.is_empty() { Filter::All } else { Filter::Modality(modalities) }
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
