//! Merges the responses of all shards into the response of one index.
//!
//! Shard `i` of `n` holds rows `i`, `i + n`, `i + 2 n` and so on.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::info::{ColumnSummary, DepthSummary, MAX_VALUES, ServerInfo};
use crate::api::replies::{RowReply, StopReply};

/// The sort key of a hit, in ascending order: the score, then the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HitKey {
    score: f32,
    row: usize,
}

impl HitKey {
    /// `large_first` negates the score.
    pub(crate) fn of(hit: &RowReply<'_>, large_first: bool) -> Self {
        let score = hit.score.unwrap_or(f32::NAN);
        HitKey { score: if large_first { -score } else { score }, row: hit.row }
    }
}

impl Ord for HitKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for HitKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for HitKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HitKey {}

/// Merges the stops of a path over all shards. Every shard has one stop per point of the path. At each point the most
/// similar row of all shards is kept; ties go to the lower row number. With `each`, the result has one stop per point.
/// Otherwise it lists each row once, where it first occurs, and ends with the root if the path goes to the root.
pub(crate) fn path(shards: &[Vec<StopReply<'static>>], to_root: bool, each: bool) -> Vec<StopReply<'static>> {
    let (mut stops, mut met, mut root) = (Vec::new(), BTreeSet::new(), None);
    for (i, first) in shards.first().into_iter().flatten().enumerate() {
        let at = first.at;
        let hits = shards.iter().filter_map(|it| it.get(i)?.hit.as_ref());
        match hits.min_by_key(|it| HitKey::of(it, true)) {
            Some(hit) if each || met.insert(hit.row) => {
                stops.push(StopReply { at, root: false, hit: Some(hit.clone()) });
            }
            Some(_) => {}
            None if each => stops.push(StopReply { at, root: false, hit: None }),
            None => _ = root.get_or_insert(at),
        }
    }
    if to_root && !each {
        stops.push(StopReply { at: root.unwrap_or(1.0), root: true, hit: None });
    }
    stops
}

/// Merges the responses of all shards to `GET /api/info`. Counts are added. The minimum and maximum depth are exact.
/// The deciles between them are means over the shards, an approximation: interleaved shards have similar distributions
/// of depth. If a shard does not list all values of a column, `distinct` is a lower bound and `partial` is true.
pub(crate) fn info(shards: &[ServerInfo]) -> Option<ServerInfo> {
    let mut all = shards.first()?.clone();
    all.shard = None;
    all.rows = shards.iter().map(|it| it.rows).sum();
    all.modalities = BTreeMap::new();
    for (name, count) in shards.iter().flat_map(|it| &it.modalities) {
        *all.modalities.entry(name.clone()).or_insert(0) += count;
    }
    // Only the first shard embeds texts and photos, so `text` and `photo` are those of the first shard.
    all.can.thumbnails = shards.iter().all(|it| it.can.thumbnails);
    all.can.tree = false;
    all.can.predict = false;
    all.columns = all.columns.iter().map(|it| column(&it.name, shards.iter().map(|it| &it.columns[..]))).collect();
    all.depth = depth(shards.iter().filter(|it| it.rows > 0).map(|it| &it.depth));
    Some(all)
}

fn column<'a>(name: &str, shards: impl Iterator<Item = &'a [ColumnSummary]>) -> ColumnSummary {
    let parts = shards.filter_map(|it| it.iter().find(|it| it.name == name));
    let (mut counts, mut whole, mut max_distinct): (BTreeMap<&str, usize>, bool, usize) = (BTreeMap::new(), true, 0);
    for part in parts {
        whole &= part.distinct <= part.values.len();
        max_distinct = max_distinct.max(part.distinct);
        for (value, count) in &part.values {
            *counts.entry(value).or_insert(0) += count;
        }
    }
    let distinct = max_distinct.max(counts.len());
    let mut values: Vec<(String, usize)> = counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect();
    values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    values.truncate(MAX_VALUES);
    ColumnSummary { name: name.to_owned(), distinct, values, partial: !whole }
}

fn depth<'a>(shards: impl Iterator<Item = &'a DepthSummary>) -> DepthSummary {
    let shards: Vec<&DepthSummary> = shards.collect();
    let Some(first) = shards.first() else { return DepthSummary { min: 0.0, max: 0.0, deciles: Vec::new() } };
    let decile = |i: usize| {
        let each: Vec<f64> = shards.iter().filter_map(|it| it.deciles.get(i).copied().map(f64::from)).collect();
        (each.iter().sum::<f64>() / each.len() as f64) as f32
    };
    let min = shards.iter().map(|it| it.min).fold(f32::INFINITY, f32::min);
    let max = shards.iter().map(|it| it.max).fold(f32::NEG_INFINITY, f32::max);
    let mut deciles: Vec<f32> = (0..first.deciles.len()).map(decile).collect();
    if let [first, .., last] = &mut deciles[..] {
        (*first, *last) = (min, max);
    }
    DepthSummary { min, max, deciles }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(row: usize, score: f32) -> RowReply<'static> {
        let hit = serde_json::json!({
            "row": row, "score": score, "id": "a", "modality": "text", "depth": 1.0, "columns": {}, "thumbnail": false,
        });
        serde_json::from_value(hit).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn merged_path_lists_each_row_once_and_ends_at_the_root() {
        let at = |i: usize| i as f32 / 3.0;
        let hit =
            |i: usize, row: usize, score: f32| StopReply { at: at(i), root: false, hit: Some(example(row, score)) };
        let none = |i: usize| StopReply { at: at(i), root: false, hit: None };
        // A tie at the first point, and no hit at the third.
        let shards = [
            vec![hit(0, 6, -0.5), hit(1, 6, -0.9), none(2), none(3)],
            vec![hit(0, 1, -0.5), hit(1, 3, -0.7), none(2), hit(3, 1, -0.1)],
        ];
        let root = StopReply { at: at(2), root: true, hit: None };
        assert_eq!(path(&shards, true, false), [hit(0, 1, -0.5), hit(1, 3, -0.7), root]);
        assert_eq!(path(&shards, false, true), [hit(0, 1, -0.5), hit(1, 3, -0.7), none(2), hit(3, 1, -0.1)]);
        assert_eq!(path(&shards, false, false).len(), 2);
        let last = path(&[vec![hit(0, 1, -0.5)]], true, false);
        assert_eq!(last[1], StopReply { at: 1.0, root: true, hit: None });
    }

    #[test]
    fn incomplete_columns_are_marked_partial() {
        let shard = |distinct: usize, values: &[(&str, usize)]| {
            let values = values.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect();
            vec![ColumnSummary { name: "label".to_owned(), distinct, values, partial: false }]
        };
        let of = |shards: &[Vec<ColumnSummary>]| column("label", shards.iter().map(|it| &it[..]));
        let whole = [shard(2, &[("car", 3), ("bus", 1)]), shard(1, &[("bus", 4)])];
        assert_eq!(of(&whole), shard(2, &[("bus", 5), ("car", 3)]).remove(0));
        let part = [shard(7, &[("car", 3)]), shard(1, &[("bus", 4)])];
        let merged = of(&part);
        assert_eq!((merged.distinct, merged.partial), (7, true));
    }
}
