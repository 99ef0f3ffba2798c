//! What all shards say, as one index would say it. Shard `i` of `n` holds rows `i`, `i + n`, `i + 2 n` and so on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::error::{Answer, Refusal};

/// Values of a column that are told.
const MOST_VALUES: usize = 50;

/// The row of the whole set that is row `local` of a shard.
pub(crate) fn global(local: u64, shard: usize, of: usize) -> u64 {
    local * of as u64 + shard as u64
}

/// Gives a hit of a shard the number of its row in the whole set.
pub(crate) fn renumber(hit: &mut Value, shard: usize, of: usize) -> Answer<()> {
    let local =
        hit["row"].as_u64().ok_or_else(|| Refusal::unavailable(format!("shard {shard} told a hit without a row")))?;
    hit["row"] = json!(global(local, shard, of));
    Ok(())
}

/// The best of all hits, as one index orders them: by score, equal scores by row.
pub(crate) fn best(mut hits: Vec<Value>, large_first: bool, offset: usize, k: usize) -> Vec<Value> {
    let key = |hit: &Value| {
        let score = hit["score"].as_f64().unwrap_or(f64::NAN);
        (if large_first { -score } else { score }, hit["row"].as_u64())
    };
    hits.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
    });
    hits.into_iter().skip(offset).take(k).collect()
}

/// The stops of a path from what every shard finds at its points: at each the most similar row of all, the earlier one of equals. With
/// `each`, all of them; else rows in the order in which they are first met, and the root, where it is the end, last.
pub(crate) fn path(shards: &[Vec<Value>], to_root: bool, each: bool) -> Vec<Value> {
    let points = shards.iter().map(Vec::len).min().unwrap_or(0);
    let (mut stops, mut met, mut root) = (Vec::new(), BTreeSet::new(), None);
    for i in 0..points {
        let at = shards.first().map_or(Value::Null, |it| it[i]["at"].clone());
        let hits = shards.iter().filter_map(|it| it[i].get("hit").cloned()).collect();
        match best(hits, true, 0, 1).pop() {
            Some(hit) if each || met.insert(hit["row"].as_u64()) => stops.push(json!({ "at": at, "hit": hit })),
            Some(_) => {}
            None if each => stops.push(json!({ "at": at })),
            None => _ = root.get_or_insert(at),
        }
    }
    if to_root && !each {
        stops.push(json!({ "at": root.unwrap_or(json!(1.0)), "root": true }));
    }
    stops
}

/// What all shards are together. Counts add up; deciles of depth are the means of those of the shards, whose rows are as good as drawn
/// by lot; of a column with more values than shards tell, `distinct` is the most that one of them has, and `partial` is true.
pub(crate) fn info(shards: &[Value]) -> Answer<Value> {
    let first = shards.first().ok_or_else(|| Refusal::fault("no shard"))?;
    let mut all = first.as_object().cloned().unwrap_or_default();
    all.remove("shard");
    let sum = |of: &dyn Fn(&Value) -> Option<u64>| shards.iter().filter_map(of).sum::<u64>();
    all.insert("rows".to_owned(), json!(sum(&|it| it["rows"].as_u64())));
    let mut modalities: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in shards.iter().filter_map(|it| it["modalities"].as_object()).flatten() {
        *modalities.entry(name).or_insert(0) += count.as_u64().unwrap_or(0);
    }
    all.insert("modalities".to_owned(), json!(modalities));
    for name in ["text", "photo", "thumbnails", "tree"] {
        let everywhere = shards.iter().all(|it| it["can"][name] == true);
        // Texts and photos are the business of the first shard.
        let can =
            if matches!(name, "text" | "photo") { first["can"][name] == true } else { everywhere && name != "tree" };
        all["can"][name] = json!(can);
    }
    let columns = first["columns"].as_array().into_iter().flatten();
    all.insert("columns".to_owned(), columns.map(|it| column(&it["name"], shards)).collect());
    all.insert("depth".to_owned(), depth(shards));
    Ok(Value::Object(all))
}

fn column(name: &Value, shards: &[Value]) -> Value {
    let parts = shards.iter().filter_map(|it| it["columns"].as_array()?.iter().find(|it| it["name"] == *name));
    let (mut counts, mut whole, mut most): (BTreeMap<&str, u64>, bool, u64) = (BTreeMap::new(), true, 0);
    for part in parts {
        let values = part["values"].as_array().map_or(&[][..], Vec::as_slice);
        let distinct = part["distinct"].as_u64().unwrap_or(0);
        whole &= distinct <= values.len() as u64;
        most = most.max(distinct);
        for value in values {
            *counts.entry(value[0].as_str().unwrap_or_default()).or_insert(0) += value[1].as_u64().unwrap_or(0);
        }
    }
    let distinct = most.max(counts.len() as u64);
    let mut values: Vec<(&str, u64)> = counts.into_iter().collect();
    values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    values.truncate(MOST_VALUES);
    let mut column = Map::from_iter([("name".to_owned(), name.clone()), ("distinct".to_owned(), json!(distinct))]);
    column.insert("values".to_owned(), json!(values));
    if !whole {
        column.insert("partial".to_owned(), json!(true));
    }
    Value::Object(column)
}

fn depth(shards: &[Value]) -> Value {
    let all = |name: &str| shards.iter().filter_map(|it| it["depth"][name].as_f64()).collect::<Vec<f64>>();
    let decile = |i: usize| {
        let each: Vec<f64> = shards.iter().filter_map(|it| it["depth"]["deciles"][i].as_f64()).collect();
        each.iter().sum::<f64>() / each.len().max(1) as f64
    };
    let least = all("min").into_iter().fold(f64::INFINITY, f64::min);
    let most = all("max").into_iter().fold(f64::NEG_INFINITY, f64::max);
    let mut deciles: Vec<f64> = (0..=10).map(decile).collect();
    (deciles[0], deciles[10]) = (least, most);
    json!({ "min": least, "max": most, "deciles": deciles })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ties_go_by_the_row_of_the_whole_set() {
        let hit = |row: u64, score: f64| json!({ "row": row, "score": score });
        let mut hits = Vec::new();
        // Shard 0 of 2 holds rows 0, 2, 4; shard 1 rows 1, 3.
        for (shard, local, score) in [(0, 2, 0.5), (0, 1, 0.25), (1, 0, 0.5), (1, 1, 0.25)] {
            let mut it = hit(local, score);
            renumber(&mut it, shard, 2).unwrap();
            hits.push(it);
        }
        let rows = |hits: Vec<Value>| hits.iter().map(|it| it["row"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(rows(best(hits.clone(), false, 0, 9)), [2, 3, 1, 4]);
        assert_eq!(rows(best(hits.clone(), true, 0, 9)), [1, 4, 2, 3]);
        assert_eq!(rows(best(hits, true, 1, 2)), [4, 2]);
        assert!(renumber(&mut json!({}), 0, 2).is_err());
    }

    #[test]
    fn a_path_meets_each_row_once_and_the_root_last() {
        let at = |i: usize| json!(i as f64 / 3.0);
        let hit = |i: usize, row: u64, score: f64| json!({ "at": at(i), "hit": { "row": row, "score": score } });
        let none = |i: usize| json!({ "at": at(i) });
        // Equally similar at the first point; nothing at the third.
        let shards = [
            vec![hit(0, 6, -0.5), hit(1, 6, -0.9), none(2), none(3)],
            vec![hit(0, 1, -0.5), hit(1, 3, -0.7), none(2), hit(3, 1, -0.1)],
        ];
        let root = json!({ "at": at(2), "root": true });
        assert_eq!(path(&shards, true, false), [hit(0, 1, -0.5), hit(1, 3, -0.7), root]);
        assert_eq!(path(&shards, false, true), [hit(0, 1, -0.5), hit(1, 3, -0.7), none(2), hit(3, 1, -0.1)]);
        assert_eq!(path(&shards, false, false).len(), 2);
        let last = path(&[vec![hit(0, 1, -0.5)]], true, false);
        assert_eq!(last[1], json!({ "at": 1.0, "root": true }));
    }

    #[test]
    fn columns_say_when_they_are_not_whole() {
        let shard = |distinct: u64, values: Value| json!({ "columns": [{ "name": "label", "distinct": distinct, "values": values }] });
        let whole = [shard(2, json!([["car", 3], ["bus", 1]])), shard(1, json!([["bus", 4]]))];
        let expected = json!({ "name": "label", "distinct": 2, "values": [["bus", 5], ["car", 3]] });
        assert_eq!(column(&json!("label"), &whole), expected);
        let part = [shard(7, json!([["car", 3]])), shard(1, json!([["bus", 4]]))];
        let told = column(&json!("label"), &part);
        assert_eq!((&told["distinct"], &told["partial"]), (&json!(7), &json!(true)));
    }
}
