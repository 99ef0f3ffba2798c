//! What a command line asks of a set, in words, as points and rows.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_index::{Cone, Filter, FlatIndex, Query as Points, Snapshot};
use conifer_space::Modality;

use crate::cli::{Only, Query, ViewArg};
use crate::embedder::ModelEmbedder;

/// A set and the model that made it, which is opened when something has to be embedded.
pub(crate) struct Asker<'a> {
    set: &'a Snapshot,
    checkpoint: Option<&'a Path>,
    device: &'a Device,
    embedder: OnceCell<ModelEmbedder>,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(set: &'a Snapshot, checkpoint: Option<&'a Path>, device: &'a Device) -> Self {
        Self { set, checkpoint, device, embedder: OnceCell::new() }
    }

    /// The point of a text, a photo or a row.
    pub(crate) fn point(&self, query: &Query) -> anyhow::Result<Vec<f32>> {
        match (&query.text, &query.image, &query.id) {
            (Some(text), ..) => self.embedder()?.text(text),
            (_, Some(path), _) => self.embedder()?.image(path),
            (.., Some(id)) => Ok(self.set.row(self.row(id)?).into_owned()),
            _ => anyhow::bail!("expected one of --text, --image, --id"),
        }
    }

    /// The point of a text, or of a row that is named as `id:ID`.
    pub(crate) fn named(&self, words: &str) -> anyhow::Result<Vec<f32>> {
        match words.strip_prefix("id:") {
            Some(id) => Ok(self.set.row(self.row(id)?).into_owned()),
            None => self.embedder()?.text(words),
        }
    }

    /// The first row called `id`.
    pub(crate) fn row(&self, id: &str) -> anyhow::Result<usize> {
        let set = self.set;
        set.ids.iter().position(|it| it == id).with_context(|| {
            let example = set.ids.first().map_or("", |it| it);
            format!("no row has the id `{id}`; the set has {} rows, e.g. `{example}`", set.len())
        })
    }

    /// The rows of these modalities (of any, when none is named) that pass what `only` says.
    pub(crate) fn rows(&self, index: &FlatIndex, views: &[ViewArg], only: &Only) -> anyhow::Result<Vec<usize>> {
        let spec = &self.set.spec;
        let modalities: Vec<Modality> = views.iter().map(|&it| it.into()).collect();
        let mut columns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for it in &only.columns {
            let (name, value) = it
                .split_once('=')
                .with_context(|| format!("--where is `{it}`; expected a column and a value, such as label=car"))?;
            columns.entry(name).or_default().push(value);
        }
        let inside = only.inside.iter().map(|it| self.named(it)).collect::<anyhow::Result<Vec<_>>>()?;
        let not = only.not.iter().map(|it| self.named(it)).collect::<anyhow::Result<Vec<_>>>()?;
        let cone = |point| Filter::Inside(Points::new(spec, point), Cone::default());
        let excluded: Vec<Filter<'_>> = not.iter().map(|it| cone(it)).collect();

        let mut all: Vec<Filter<'_>> = Vec::new();
        if !modalities.is_empty() {
            all.push(Filter::Modality(&modalities));
        }
        for (name, wanted) in &columns {
            let column = self.set.columns.get(*name).with_context(|| {
                let known: Vec<&str> = self.set.columns.keys().map(String::as_str).collect();
                format!("no column is called `{name}`; the set has: {}", known.join(", "))
            })?;
            all.push(Filter::Column { column, wanted });
        }
        if let [least, most] = only.depth[..] {
            anyhow::ensure!(least <= most, "--depth is {least} {most}; expected the smaller one first");
            all.push(Filter::Depth(least, most));
        }
        all.extend(inside.iter().map(|it| cone(it)));
        all.extend(excluded.iter().map(Filter::Not));
        Ok(index.passing(&Filter::And(&all))?)
    }

    fn embedder(&self) -> anyhow::Result<&ModelEmbedder> {
        if let Some(it) = self.embedder.get() {
            return Ok(it);
        }
        let checkpoint = self
            .checkpoint
            .context("--text, --image and other texts need --checkpoint: the model that made the set")?;
        let embedder = ModelEmbedder::open(checkpoint, self.device)?;
        embedder.check_made(&self.set.spec, &self.set.source)?;
        Ok(self.embedder.get_or_init(|| embedder))
    }
}
