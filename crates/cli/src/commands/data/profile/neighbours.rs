//! The nearest other photo of each photo in an embedding set.

use std::collections::HashMap;

use anyhow::ensure;
use conifer_embeddings::Modality;
use conifer_index::{Filter, FlatIndex, Query, Ranking, Snapshot};
use serde_json::{Value, json};

use super::ProfiledPhoto;
use super::counts::quartiles;

/// A pair of photos counts as near if its distance is at most this share of the median distance to the nearest photo.
const NEAR: f64 = 0.25;
/// Number of rows per search.
const BATCH: usize = 256;

/// Two photos and their distance.
pub(super) struct NearPair {
    pub(super) rows: [String; 2],
    pub(super) samples: [String; 2],
    pub(super) distance: f64,
    pub(super) is_across: bool,
}

/// Distances of photos to their nearest neighbours.
pub(super) struct EmbeddingNeighbours {
    /// Distance of each photo to the nearest other one.
    pub(super) distances: Vec<f64>,
    /// The near pairs, nearest first.
    pub(super) pairs: Vec<NearPair>,
    pub(super) limit: f64,
}

/// Finds the near pairs of a set. The split of a row is that of the sample whose id is in the column `sample`.
pub(super) fn find(set: &Snapshot, photos: &[ProfiledPhoto]) -> anyhow::Result<EmbeddingNeighbours> {
    set.check()?;
    let rows: Vec<usize> = (0..set.len()).filter(|row| set.modality[*row] == Modality::Image).collect();
    ensure!(rows.len() > 1, "the set has {} photos; expected at least 2", rows.len());
    let index = FlatIndex::on(set)?;
    let only = Filter::Modality(&[Modality::Image]);
    let bar = crate::progress::bar("neighbours", rows.len());
    let mut nearest: Vec<(usize, usize, f64)> = Vec::new();
    for chunk in rows.chunks(BATCH) {
        let points: Vec<f32> = chunk.iter().flat_map(|row| set.row(*row).into_owned()).collect();
        let hits = index.top_k(&Query::new(&set.spec, &points), Ranking::Distance, 2, &only)?;
        for (row, hits) in chunk.iter().zip(hits) {
            // The row itself is usually the first hit, but not if another row has the same point.
            if let Some(hit) = hits.iter().find(|hit| hit.row != *row) {
                nearest.push((*row, hit.row, f64::from(hit.score).abs()));
            }
        }
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    let distances: Vec<f64> = nearest.iter().map(|it| it.2).collect();
    let limit = NEAR * quartiles(&distances).map_or(0.0, |it| it[2]);
    let split_of: HashMap<&str, &str> = photos.iter().map(|it| (it.id.as_str(), it.split.as_str())).collect();
    let sample =
        |row: usize| set.columns.get("sample").map_or_else(|| set.ids[row].clone(), |column| column[row].clone());
    let nearest_of: HashMap<usize, usize> = nearest.iter().map(|(row, other, _)| (*row, *other)).collect();
    let mut pairs = Vec::new();
    for (row, other, distance) in &nearest {
        // A mutual pair is listed once.
        let is_mutual = nearest_of.get(other) == Some(row);
        if *distance <= limit && (row < other || !is_mutual) {
            let samples = [*row, *other].map(sample);
            let splits = [0, 1].map(|at| split_of.get(samples[at].as_str()).copied().unwrap_or_default());
            let rows = [*row, *other].map(|row| set.ids[row].clone());
            pairs.push(NearPair { rows, samples, distance: *distance, is_across: splits[0] != splits[1] });
        }
    }
    pairs.sort_by(|a, b| a.distance.total_cmp(&b.distance).then_with(|| a.rows.cmp(&b.rows)));
    Ok(EmbeddingNeighbours { distances, pairs, limit })
}

impl EmbeddingNeighbours {
    pub(super) fn lines(&self) -> Vec<String> {
        let across = self.pairs.iter().filter(|it| it.is_across).count();
        vec![format!(
            "{} near pairs by embedding (distance up to {:.4}, {NEAR} of the median to the nearest photo), {across} across splits",
            self.pairs.len(),
            self.limit
        )]
    }

    pub(super) fn json(&self) -> Value {
        let pair = |it: &NearPair| json!({ "rows": it.rows, "samples": it.samples, "distance": it.distance, "across_splits": it.is_across });
        json!({
            "nearest_distance": quartiles(&self.distances),
            "limit": self.limit,
            "pairs": self.pairs.iter().map(pair).collect::<Vec<_>>(),
        })
    }
}
