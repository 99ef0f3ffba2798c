//! `conifer place`: places a query in a map that exists.

use std::path::Path;

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_geometry::space;
use conifer_index::{Hit, Snapshot};
use conifer_viz::projection::place_by_neighbours;
use serde_json::json;

use super::project::{ProjectedPart, StoredMap, part_of};
use super::search::label;
use crate::arguments::PlaceArgs;
use crate::output::{columns, print, print_json};
use crate::point_table::PointTable;
use crate::query_resolver::QueryResolver;
use crate::request::open_rows;
use crate::set_model::set_of;

/// Name of the table of a map.
const POINTS: &str = "points.parquet";

/// A placed query.
struct PlacedQuery {
    coordinates: Vec<f64>,
    /// The nearest rows of the map, with row numbers of the set, if the query was placed between them.
    nearest: Vec<Hit>,
}

pub(crate) fn run(args: &PlaceArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let set = open_rows(&args.set)?;
    let map = StoredMap::open(&args.into, &set)?;
    let path = set_of(&args.set);
    let point = QueryResolver::new(&set, &path, &args.embedder, device).point(&args.query)?;
    let (spec, root) = part_of(&set, map.factor)?;
    let start = map.factor.unwrap_or(0) * spec.dim;
    let point = &point[start..start + spec.dim];
    let (by, dim) = (map.by.clone(), map.dim);
    let placed = placed(map, &set, &args.into, point).with_context(|| format!("--into {}", args.into.display()))?;
    ensure!(
        placed.coordinates.len() == dim,
        "{}: {} coordinates; expected {dim}, the `dim` of the map",
        args.into.join(StoredMap::FILE).display(),
        placed.coordinates.len()
    );
    let wide: Vec<f64> = point.iter().map(|v| f64::from(*v)).collect();
    let depth = space::<f64>(&spec)?.depth(&wide, &root);
    if as_json {
        let nearest = placed.nearest.iter();
        let nearest: Vec<_> =
            nearest.map(|hit| json!({ "row": hit.row, "id": set.ids[hit.row], "distance": hit.score })).collect();
        return print_json(&json!({ "by": by, "coordinates": placed.coordinates, "depth": depth, "nearest": nearest }));
    }
    let coordinates = placed.coordinates.iter().enumerate().map(|(k, v)| format!("x{k} {v:.6}"));
    print(&format!("{}  depth {depth:.4}\n", coordinates.collect::<Vec<_>>().join("  ")))?;
    if placed.nearest.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["distance", "modality", "id", "text"].map(str::to_owned).to_vec()];
    rows.extend(placed.nearest.iter().map(|hit| {
        let text = label(&set, hit.row).unwrap_or_default().to_owned();
        vec![format!("{:.4}", hit.score), set.modality[hit.row].name().to_owned(), set.ids[hit.row].clone(), text]
    }));
    print(&columns(&rows))
}

fn placed(map: StoredMap, set: &Snapshot, dir: &Path, point: &[f32]) -> anyhow::Result<PlacedQuery> {
    let (spec, root) = part_of(set, map.factor)?;
    let (count, surface) = match map.placement.formula() {
        Ok(formula) => {
            return Ok(PlacedQuery { coordinates: formula.place(&spec, &root, point)?, nearest: Vec::new() });
        }
        Err(neighbours) => neighbours,
    };
    let PointTable { rows, positions } = PointTable::read(&dir.join(POINTS), &set.ids)?;
    let rows: Vec<usize> = rows.into_iter().map(|row| row as usize).collect();
    let mut nearest = ProjectedPart::new(set, &rows, map.factor)?.nearest(point, count.min(rows.len()))?;
    let neighbours: Vec<([f64; 2], f64)> =
        nearest.iter().map(|hit| (positions[hit.row], f64::from(hit.score))).collect();
    let coordinates = place_by_neighbours(surface.into(), &neighbours)?.to_vec();
    nearest.iter_mut().for_each(|hit| hit.row = rows[hit.row]);
    Ok(PlacedQuery { coordinates, nearest })
}
