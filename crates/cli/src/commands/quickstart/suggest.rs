//! Picks a search query to suggest to the user: one whose first hits in the embedding set are right.

use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_eval::EmbeddingModel as _;
use conifer_index::{Filter, FlatIndex, Query, Ranking};
use conifer_toy::Colour;
use serde::Serialize;

use super::unseen::{TestData, nodes};
use crate::embedder::ModelEmbedder;

/// Number of hits that are judged.
const FIRST: usize = 5;

/// A query text and its first hits among the photos.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Suggestion {
    pub(super) text: String,
    /// Number of hits that the text describes correctly.
    pub(super) right: usize,
    pub(super) of: usize,
    /// Row numbers of the hits.
    #[serde(skip)]
    pub(super) rows: Vec<usize>,
}

/// The first text whose first hits are all right, or else the text with the most right hits. Texts are tried in this
/// order: a class with a colour, a class, a general word. Only texts that are true of at least [`FIRST`] scenes of the
/// set are tried.
pub(super) fn suggest(embedder: &ModelEmbedder, unseen: &TestData, set: &EmbeddingSet) -> anyhow::Result<Suggestion> {
    let nodes = nodes();
    let leaves = || nodes.iter().filter(|node| node.is_leaf);
    let coloured = leaves().flat_map(|node| Colour::ALL.iter().map(move |colour| (node, colour)));
    let mut texts: Vec<String> = coloured
        .map(|(node, colour)| {
            let article =
                if ["a", "e", "i", "o", "u"].iter().any(|it| colour.name().starts_with(it)) { "an" } else { "a" };
            format!("{article} {} {}", colour.name(), node.name)
        })
        .collect();
    texts.extend(leaves().map(|node| node.text.clone()));
    texts.extend(nodes.iter().filter(|node| !node.is_leaf).map(|node| node.text.clone()));
    let is_there = |text: &str, scene| unseen.truths.holds(text, scene) == Some(true);
    texts.retain(|text| unseen.shown_scenes.iter().filter(|scene| is_there(text, scene)).count() >= FIRST);

    let points = embedder.texts(&texts)?;
    let photos = Filter::Modality(&[Modality::Image]);
    let hits = FlatIndex::new(set)?.top_k(&Query::new(&set.spec, &points), Ranking::Distance, FIRST, &photos)?;
    let mut best = Suggestion { text: "an animal".to_owned(), right: 0, of: FIRST, rows: Vec::new() };
    for (text, hits) in texts.into_iter().zip(hits) {
        let rows: Vec<usize> = hits.iter().map(|hit| hit.row).collect();
        let shown =
            |&&row: &&usize| unseen.scene(&set.columns["sample"][row]).is_some_and(|scene| is_there(&text, scene));
        let right = rows.iter().filter(shown).count();
        if right > best.right || best.rows.is_empty() {
            best = Suggestion { text, right, of: FIRST, rows };
        }
    }
    Ok(best)
}
