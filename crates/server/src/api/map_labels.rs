//! `GET /api/map/labels`: words for the map, from general to specific.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use conifer_data::hierarchy::Tree;
use conifer_embeddings::Modality;

use crate::Server;
use crate::api::extract::QueryParams;
use crate::api::map_requests::MapLabelsParams;
use crate::api::replies::{LabelsReply, MapLabel};
use crate::body::json;
use crate::error::HttpResult;
use crate::set::state::{RowClasses, ServedSet};

/// Maximum number of rows from which labels are made, evenly sampled.
const MAX_ROWS: usize = 200_000;
/// Maximum number of labels that are classes, and of labels in all.
const MAX_CLASSES: usize = 3000;
const MAX_LABELS: usize = 4000;
/// Maximum number of characters of a text on the map.
const MAX_CHARACTERS: usize = 40;
/// Numbers of texts up to the end of each level; further texts have the next level.
const TEXT_LEVELS: [usize; 3] = [12, 60, 300];

/// The rows that labels are made from, with their positions.
struct LabelledRows<'a> {
    state: &'a ServedSet,
    rows: &'a [usize],
    positions: &'a [[f32; 2]],
}

/// `GET /api/map/labels`.
pub(crate) async fn labels(
    State(server): State<Arc<Server>>,
    QueryParams(params): QueryParams<MapLabelsParams>,
) -> HttpResult {
    server
        .work(move |server| {
            let (state, explorer) = server.mapped(params.beside)?;
            let layer = explorer.layers.find(params.layer.as_deref())?;
            let rows = layer.rows(state, MAX_ROWS);
            let positions = layer.positions(state, explorer, MAX_ROWS)?;
            let found = LabelledRows { state, rows: &rows, positions: &positions };
            let mut labels = state.tree.as_ref().map_or_else(Vec::new, |classes| found.classes(classes));
            let names: HashSet<String> = labels.iter().map(|it| it.text.to_lowercase()).collect();
            let room = MAX_LABELS - labels.len();
            labels.extend(found.texts(&names).into_iter().take(room));
            json(&LabelsReply { labels })
        })
        .await
}

impl<'a> LabelledRows<'a> {
    fn label(&self, text: &'a str, at: usize) -> MapLabel<'a> {
        let ([x, y], row) = (self.positions[at], self.rows[at]);
        let depth = self.state.depths[row];
        MapLabel { text, row, x, y, reach: 0.0, depth, rows: 1, level: 1, inner: false }
    }

    /// The classes below the root that have rows, by level, and those with more rows first. A class whose rows are all
    /// in one class below it is left out, because the name of that class is more specific and as true.
    fn classes(&self, RowClasses { tree, node_of }: &'a RowClasses) -> Vec<MapLabel<'a>> {
        // Number of rows, sums of x and y, and sum of x^2 + y^2 of each class.
        let mut sums = vec![[0.0_f64; 4]; tree.len()];
        let nodes = |row: usize| node_of[row].into_iter().flat_map(move |node| with_ancestors(tree, node as usize));
        for (row, [x, y]) in self.rows.iter().zip(self.positions.iter().map(|it| it.map(f64::from))) {
            for node in nodes(*row) {
                sums[node].iter_mut().zip([1.0, x, y, x * x + y * y]).for_each(|(sum, value)| *sum += value);
            }
        }
        let mean = |node: usize| {
            let [count, x, y, _] = sums[node];
            [x / count, y / count]
        };
        // A class is labelled at its row nearest to the mean. At the mean itself there may be no rows.
        let mut nearest = vec![(f64::INFINITY, 0); tree.len()];
        for (at, (row, [x, y])) in self.rows.iter().zip(self.positions.iter().map(|it| it.map(f64::from))).enumerate() {
            for node in nodes(*row) {
                let [mx, my] = mean(node);
                let far = (x - mx).powi(2) + (y - my).powi(2);
                if far < nearest[node].0 {
                    nearest[node] = (far, at);
                }
            }
        }
        let is_shown = |node: &usize| {
            let count = sums[*node][0];
            *node != tree.root() && count > 0.0 && tree.children(*node).all(|child| sums[child][0] < count)
        };
        let mut found: Vec<MapLabel<'a>> = (0..tree.len())
            .filter(is_shown)
            .map(|node| {
                let ([count, _, _, squares], [mx, my]) = (sums[node], mean(node));
                MapLabel {
                    reach: (squares / count - mx * mx - my * my).max(0.0).sqrt() as f32,
                    rows: count as usize,
                    level: tree.depth(node),
                    inner: tree.children(node).any(|child| sums[child][0] > 0.0),
                    ..self.label(tree.name(node), nearest[node].1)
                }
            })
            .collect();
        found.sort_by(|a, b| (a.level, b.rows, a.text).cmp(&(b.level, a.rows, b.text)));
        found.truncate(MAX_CLASSES);
        found
    }

    /// The short texts of the rows, each once at its most general row, by depth.
    fn texts(&self, names: &HashSet<String>) -> Vec<MapLabel<'a>> {
        let Some(texts) = self.state.columns.get("text") else { return Vec::new() };
        let mut found: BTreeMap<&str, MapLabel<'a>> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            let text = texts[*row].trim();
            let is_text = matches!(self.state.modality[*row], Modality::Text | Modality::BoxText);
            if !is_text || text.is_empty() || text.chars().nth(MAX_CHARACTERS).is_some() {
                continue;
            }
            let label = self.label(text, at);
            found
                .entry(text)
                .and_modify(|known| {
                    let rows = known.rows + 1;
                    if label.depth < known.depth {
                        *known = self.label(text, at);
                    }
                    known.rows = rows;
                })
                .or_insert(label);
        }
        let mut found: Vec<MapLabel<'a>> =
            found.into_values().filter(|it| !names.contains(&it.text.to_lowercase())).collect();
        found.sort_by(|a, b| a.depth.total_cmp(&b.depth).then(a.text.cmp(b.text)));
        found.truncate(MAX_LABELS);
        for (at, label) in found.iter_mut().enumerate() {
            label.level = 1 + TEXT_LEVELS.iter().filter(|end| at >= **end).count();
        }
        found
    }
}

fn with_ancestors(tree: &Tree, node: usize) -> impl Iterator<Item = usize> {
    std::iter::once(node).chain(tree.ancestors(node))
}
