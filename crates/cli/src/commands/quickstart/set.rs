//! The embedding set of a quickstart: unseen scenes with boxes and texts, and the names of the classes.

use std::collections::BTreeMap;
use std::path::Path;

use conifer_data::ImageRef;
use conifer_data::transform::EvalCrop;
use conifer_embeddings::{Element, EmbeddingSet, Modality};
use conifer_eval::EmbeddingModel as _;
use conifer_train::ranks::Ranks;

use super::unseen::{TestData, nodes};
use super::walks::CLASS_WORDS;
use crate::arguments::{EmbedView, ViewArg};
use crate::commands::embed::{EmbedJob, embed_all};
use crate::embedder::ModelEmbedder;

/// Embeds the shown scenes and the class names, and writes the set to `folder`.
pub(super) fn embed(embedder: &ModelEmbedder, unseen: &TestData, folder: &Path) -> anyhow::Result<EmbeddingSet> {
    let views = [
        EmbedView::Modality(ViewArg::Image),
        EmbedView::Modality(ViewArg::Text),
        EmbedView::Modality(ViewArg::BoxImage),
        EmbedView::Modality(ViewArg::BoxText),
    ];
    let job = EmbedJob {
        embedder,
        source: &unseen.shown,
        views: &views,
        crop: EvalCrop::Center,
        data: "toy test split, without held-out classes",
        element: Element::F32,
        identity: BTreeMap::new(),
        ranks: Ranks::default(),
    };
    embed_all(&job, folder)?;
    let mut set = EmbeddingSet::load(folder)?;
    add_names(embedder, &mut set)?;
    set.save(folder)?;
    Ok(set)
}

/// A set in memory with only the photos and class names, which is enough for walks.
pub(super) fn of_walks(embedder: &ModelEmbedder, unseen: &TestData) -> anyhow::Result<EmbeddingSet> {
    let images: Vec<ImageRef> = unseen.shown_samples.iter().filter_map(|it| it.image.clone()).collect();
    let column = |of: &dyn Fn(&conifer_data::Sample) -> String| unseen.shown_samples.iter().map(of).collect::<Vec<_>>();
    let mut set = EmbeddingSet {
        spec: embedder.spec().clone(),
        root: embedder.root()?,
        ids: column(&|it| it.id.clone()),
        modality: vec![Modality::Image; images.len()],
        points: embedder.images(&images, EvalCrop::Center)?,
        columns: BTreeMap::from([
            ("box".to_owned(), vec![String::new(); images.len()]),
            ("label".to_owned(), column(&|it| it.label.clone().unwrap_or_default())),
            ("sample".to_owned(), column(&|it| it.id.clone())),
            ("text".to_owned(), column(&|it| it.captions[0].clone())),
        ]),
        source: Default::default(),
    };
    add_names(embedder, &mut set)?;
    Ok(set)
}

/// Adds the names of the classes and of their ancestors as text rows, so that a walk can stop at them.
fn add_names(embedder: &ModelEmbedder, set: &mut EmbeddingSet) -> anyhow::Result<()> {
    let nodes = nodes();
    let texts: Vec<String> = nodes.iter().map(|node| node.text.clone()).collect();
    set.points.extend(embedder.texts(&texts)?);
    for node in nodes {
        set.ids.push(format!("class/{}", node.name.replace(' ', "_")));
        set.modality.push(Modality::Text);
        for (name, values) in &mut set.columns {
            values.push(match name.as_str() {
                "label" => node.name.to_owned(),
                "sample" => CLASS_WORDS.to_owned(),
                "text" => node.text.clone(),
                _ => String::new(),
            });
        }
    }
    Ok(())
}
