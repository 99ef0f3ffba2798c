//! `conifer hierarchy`: the chain of texts that is retrieved for a photo or a text, beside the true chain.

use anyhow::{Context as _, bail, ensure};
use burn::tensor::Device;
use conifer_embeddings::Modality;
use conifer_eval::metrics::{ChainRetrieval, chain_precision_recall};
use conifer_eval::{ChainProtocol, ChainQuery, RetrievedChain, RetrievedText, retrieve_text_chain};
use conifer_geometry::Root;
use conifer_index::{FlatIndex, Snapshot};
use serde_json::{Value, json};

use super::search::label;
use crate::arguments::{ChainProtocolArg, HierarchyArgs, ViewArg};
use crate::output::{columns, note, print, print_json};
use crate::query_resolver::QueryResolver;
use crate::request::open_rows;
use crate::set_model::set_of;
use crate::true_chain::{chain_of_row, row_of_photo};

/// Largest difference between the coordinates of two roots that count as equal. The root can be an embedded text, whose
/// coordinates differ between devices by rounding.
const SAME_ROOT: f64 = 1e-3;

pub(crate) fn run(args: HierarchyArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let set = open_rows(&args.set)?;
    let place = set_of(&args.set);
    let other = args.candidates.as_deref().map(|path| open_rows(path).context("--candidates")).transpose()?;
    if let (Some(other), Some(path)) = (&other, &args.candidates) {
        comparable(&set, other)
            .with_context(|| format!("--candidates {} beside {}", path.display(), args.set.display()))?;
    }
    let resolver = QueryResolver::new(&set, &place, &args.embedder, device);
    let point = resolver.point(&args.query)?;

    let candidates = other.as_ref().unwrap_or(&set);
    let candidates_path = args.candidates.as_deref().map_or_else(|| place.clone(), set_of);
    let rows = {
        let resolver = QueryResolver::new(candidates, &candidates_path, &args.embedder, device);
        let rows = resolver.rows(&FlatIndex::on(candidates)?, &args.modality, &args.only)?;
        if rows.is_empty() {
            let shown = candidates_path.display();
            bail!("{shown}: {}", no_candidates(candidates, &args.modality, &resolver.nothing_found(&args.only, 0)));
        }
        rows
    };
    let texts: Vec<&str> = rows.iter().map(|&row| text_of(candidates, row)).collect();
    let protocol = ChainProtocol::from(args.protocol);
    let query = ChainQuery { spec: &set.spec, root: &set.root, point: &point, protocol, steps: args.steps };
    let chain = retrieve_text_chain(&query, &texts, |i| candidates.row(rows[i]))?;

    let truth = true_chain(&set, &args, &resolver, &point)?;
    let found: Vec<&str> = chain.tiers.iter().map(|it| texts[it.candidate]).collect();
    let scores = truth.as_ref().map(|truth| {
        let tiers: Vec<Vec<&str>> = truth.iter().map(|text| vec![text.as_str()]).collect();
        chain_precision_recall(&found, &tiers)
    });
    let printed =
        PrintedChain { candidates, rows: &rows, texts: &texts, chain: &chain, truth: truth.as_deref(), scores };
    if as_json {
        return print_json(&printed.json(protocol, args.steps));
    }
    if chain.tiers.is_empty() {
        note(&match &chain.left_out {
            Some(first) => format!(
                "every radius retrieves the same text, `{}`, which this protocol leaves out; --protocol paper-first-kept keeps it",
                texts[first.candidate]
            ),
            None => "no candidate is within any radius; use more --steps, or --protocol released".to_owned(),
        });
    }
    print(&printed.table())
}

/// Checks that points of both sets can be compared.
fn comparable(set: &Snapshot, candidates: &Snapshot) -> anyhow::Result<()> {
    let (ours, theirs) = (&set.spec, &candidates.spec);
    let todo = "embed both with the same model";
    if ours != theirs {
        let (mut found, mut expected) = (theirs.to_string(), ours.to_string());
        // The short form shows only the smallest and the largest curvature.
        if found == expected {
            (found, expected) = (format!("{theirs:?}"), format!("{ours:?}"));
        }
        bail!("the space of the candidates is {found}; expected {expected}, the space of the set; {todo}");
    }
    let (ours, theirs) = (&set.source.weights, &candidates.source.weights);
    ensure!(
        ours.is_empty() || theirs.is_empty() || ours == theirs,
        "the candidates were made by {} with the weights {theirs}; expected {ours}, the weights that made the set; {todo}",
        candidates.source.model
    );
    let difference = match (&set.root, &candidates.root) {
        (Root::Origin, Root::Origin) => 0.0,
        (Root::Point(a), Root::Point(b)) => a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max),
        _ => f64::INFINITY,
    };
    let shown = |root: &Root| match root {
        Root::Origin => "the origin".to_owned(),
        Root::Point(point) => format!("the point {:.4?} ..", &point[..point.len().min(4)]),
    };
    ensure!(
        difference <= SAME_ROOT,
        "the root of the candidates is {}; expected {}, the root of the set; embed both with the same --root-text",
        shown(&candidates.root),
        shown(&set.root)
    );
    Ok(())
}

/// Message for a set without a candidate. `filtered` is the message about the filters.
fn no_candidates(set: &Snapshot, views: &[ViewArg], filtered: &str) -> String {
    let wanted: Vec<Modality> = views.iter().map(|&it| it.into()).collect();
    if set.modality.iter().any(|it| wanted.contains(it)) {
        return filtered.to_owned();
    }
    let wanted: Vec<&str> = wanted.iter().map(|it| it.name()).collect();
    format!(
        "none of its {} rows is a candidate (--modality {}); expected a set with texts, made by `conifer embed --views text` or `--views \
         tiers`",
        set.len(),
        wanted.join(",")
    )
}

/// The text by which candidates are compared; the id if the row has no text.
fn text_of(set: &Snapshot, row: usize) -> &str {
    label(set, row).unwrap_or(&set.ids[row])
}

/// The true chain of the row or photo of the query, if the set has one.
fn true_chain(
    set: &Snapshot,
    args: &HierarchyArgs,
    resolver: &QueryResolver<'_>,
    point: &[f32],
) -> anyhow::Result<Option<Vec<String>>> {
    let query = &args.query;
    let row = match &query.id {
        Some(id) => Some(resolver.row(id)?),
        None if query.image.is_some() || query.image_vector.is_some() => row_of_photo(set, point),
        None => None,
    };
    let Some(row) = row else { return Ok(None) };
    let chain = chain_of_row(set, row)?;
    if query.id.is_none() && chain.is_some() {
        note(&format!("the photo is row `{}` of the set; its true chain is shown", set.ids[row]));
    }
    Ok(chain)
}

/// A retrieved chain with all that is printed.
struct PrintedChain<'a> {
    candidates: &'a Snapshot,
    /// Rows of the candidates.
    rows: &'a [usize],
    texts: &'a [&'a str],
    chain: &'a RetrievedChain,
    truth: Option<&'a [String]>,
    scores: Option<ChainRetrieval>,
}

impl PrintedChain<'_> {
    fn correct(&self, candidate: usize) -> Option<bool> {
        self.truth.map(|truth| truth.iter().any(|it| it == self.texts[candidate]))
    }

    fn table(&self) -> String {
        let mut header = vec!["radius", "similarity", "retrieved"];
        if self.truth.is_some() {
            header.extend(["correct", "true chain"]);
        }
        let mut table: Vec<Vec<String>> = vec![header.into_iter().map(String::from).collect()];
        let truth = self.truth.unwrap_or_default();
        for i in 0..self.chain.tiers.len().max(truth.len()) {
            let mut line = match self.chain.tiers.get(i) {
                Some(it) => {
                    vec![
                        format!("{:.3}", it.radius),
                        format!("{:.3}", it.similarity),
                        self.texts[it.candidate].to_owned(),
                    ]
                }
                None => vec![String::new(); 3],
            };
            if self.truth.is_some() {
                let correct = self.chain.tiers.get(i).and_then(|it| self.correct(it.candidate));
                line.push(correct.map_or("", |it| if it { "yes" } else { "no" }).to_owned());
                line.push(truth.get(i).cloned().unwrap_or_default());
            }
            table.push(line);
        }
        let mut text = columns(&table);
        if let Some(ChainRetrieval { precision, recall }) = self.scores {
            text += &format!("precision {precision:.3}, recall {recall:.3}\n");
        }
        text
    }

    fn json(&self, protocol: ChainProtocol, steps: usize) -> Value {
        let candidate = |i: usize| {
            let row = self.rows[i];
            json!({ "row": row, "id": self.candidates.ids[row], "text": self.texts[i] })
        };
        let text = |it: &RetrievedText| {
            let mut value = candidate(it.candidate);
            value["radius"] = json!(it.radius);
            value["depth"] = json!(it.depth);
            value["similarity"] = json!(it.similarity);
            if let Some(correct) = self.correct(it.candidate) {
                value["correct"] = json!(correct);
            }
            value
        };
        let levels = self.chain.levels.iter();
        let levels = levels.map(|it| json!({ "radius": it.radius, "candidate": it.candidate.map(candidate) }));
        json!({
            "protocol": protocol.name,
            "steps": steps,
            "candidates": self.rows.len(),
            "closest": candidate(self.chain.closest),
            "tiers": self.chain.tiers.iter().map(text).collect::<Vec<_>>(),
            "left_out": self.chain.left_out.as_ref().map(text),
            "true_chain": self.truth,
            "precision": self.scores.map(|it| it.precision),
            "recall": self.scores.map(|it| it.recall),
            "levels": levels.collect::<Vec<_>>(),
        })
    }
}

impl From<ChainProtocolArg> for ChainProtocol {
    fn from(it: ChainProtocolArg) -> Self {
        match it {
            ChainProtocolArg::Paper => Self::PAPER,
            ChainProtocolArg::PaperFirstKept => Self::PAPER_FIRST_KEPT,
            ChainProtocolArg::Released => Self::RELEASED,
            ChainProtocolArg::ReleasedFirstLeftOut => Self::RELEASED_FIRST_LEFT_OUT,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_embeddings::{EmbeddingSet, Provenance};
    use conifer_geometry::ManifoldSpec;

    use super::*;

    fn set(spec: ManifoldSpec, root: Root, weights: &str) -> Snapshot {
        let dim = spec.dim;
        let source = Provenance { weights: weights.to_owned(), ..Provenance::default() };
        let points = (0..dim).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect();
        let (ids, modality) = (vec!["a".to_owned()], vec![Modality::Image]);
        let columns = std::collections::BTreeMap::new();
        Snapshot::of(EmbeddingSet { spec, root, ids, modality, points, columns, source }).unwrap()
    }

    #[test]
    fn sets_of_other_models_are_refused() {
        let flat = || ManifoldSpec::euclidean(2);
        let said = |a: &Snapshot, b: &Snapshot| comparable(a, b).unwrap_err().to_string();
        let ours = set(flat(), Root::Origin, "aaaa");
        comparable(&ours, &set(flat(), Root::Origin, "aaaa")).unwrap();
        comparable(&ours, &set(flat(), Root::Origin, "")).unwrap();

        let space = said(&ours, &set(ManifoldSpec::euclidean(3), Root::Origin, "aaaa"));
        assert!(space.contains("the space of the candidates") && space.contains("expected"), "{space}");
        let weights = said(&ours, &set(flat(), Root::Origin, "bbbb"));
        assert!(weights.contains("bbbb; expected aaaa"), "{weights}");
        let root = said(&ours, &set(flat(), Root::Point(vec![0.5, 0.0]), "aaaa"));
        assert!(root.contains("the point [0.5000, 0.0000]") && root.contains("expected the origin"), "{root}");
        let near = set(flat(), Root::Point(vec![0.5, 0.0]), "aaaa");
        comparable(&near, &set(flat(), Root::Point(vec![0.5001, 0.0]), "aaaa")).unwrap();
        said(&near, &set(flat(), Root::Point(vec![0.6, 0.0]), "aaaa"));
    }

    #[test]
    fn a_set_without_texts_has_no_candidates() {
        let photos = set(ManifoldSpec::euclidean(2), Root::Origin, "");
        let said = no_candidates(&photos, &[ViewArg::Text], "filters");
        assert!(said.contains("none of its 1 rows") && said.contains("--modality text"), "{said}");
        assert_eq!(no_candidates(&photos, &[ViewArg::Image], "filters"), "filters");
    }
}
