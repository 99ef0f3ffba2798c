use std::collections::HashSet;
use std::sync::Arc;

use burn::tensor::Device;
use conifer_data::transform::{EvalCrop, crop_box};
use conifer_data::{Broken, ImageRef, Picture, PixelLimits, Sample};
use conifer_space::{EmbeddingSet, Modality};
use rayon::prelude::*;
use serde_json::json;

use crate::cli::{CropArg, Embed, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::output::{note, print, print_json};
use crate::progress;
use crate::request::open_source;

pub(crate) fn run(args: Embed, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let embedder = ModelEmbedder::open(&args.checkpoint, device)?.with_root_text(args.root_text.as_deref());
    let source = open_source(&args.data)?;
    let mut samples = Vec::new();
    let mut broken = Vec::new();
    for index in 0..source.len() {
        match source.get(index) {
            Ok(sample) => samples.push(sample),
            Err(it) => broken.push(it),
        }
    }
    let set = embed_samples(&embedder, &samples, &args.views, args.crop.into(), &args.data.data, &mut broken)?;
    set.save(&args.out)?;
    for it in broken.iter().take(5) {
        note(&format!("skipped: {it}"));
    }
    let mut seen = HashSet::new();
    let again: Vec<_> = set.ids.iter().filter(|&id| !seen.insert(id)).collect();
    if let Some(first) = again.first() {
        note(&format!("{} x the id of an earlier one (`{first}`): a search by it finds the earliest", again.len()));
    }
    if as_json {
        return print_json(&json!({ "out": args.out, "rows": set.len(), "skipped": broken.len(), "space": set.spec }));
    }
    print(&format!("{} rows -> {} ({} samples skipped)\n", set.len(), args.out.display(), broken.len()))
}

/// Samples whose photos are in memory at a time.
const CHUNK: usize = 32;

/// Embeds the views of samples. Columns: `text` or `path`, `sample` (the id that ties views together), `label`.
/// A sample whose photo cannot be read goes to `broken`, whole.
pub(crate) fn embed_samples(
    embedder: &ModelEmbedder,
    samples: &[Sample],
    views: &[ViewArg],
    crop: EvalCrop,
    data: &str,
    broken: &mut Vec<Broken>,
) -> anyhow::Result<EmbeddingSet> {
    let with_pixels = views.iter().any(|it| matches!(it, ViewArg::Image | ViewArg::BoxImage));
    let mut parts = Vec::new();
    let mut texts = Rows::default();
    let bar = progress::bar("samples", samples.len());
    for chunk in samples.chunks(CHUNK) {
        let open = |sample: &Sample| if with_pixels { sample.photo(&PixelLimits::default()) } else { Ok(None) };
        let opened: Vec<_> = chunk.par_iter().map(open).collect();
        let mut images = Rows::default();
        for (sample, picture) in chunk.iter().zip(opened) {
            match picture {
                Ok(picture) => {
                    images.add_images(sample, picture.map(Arc::new), views);
                    texts.add_texts(sample, views);
                }
                Err(it) => broken.push(it),
            }
        }
        if !images.items.is_empty() {
            let (ids, items) = (images.ids.clone(), &images.items);
            let mut set = embedder.inner().image_set(ids, items, crop, Modality::Image, data, &mut |_, _| {})?;
            images.finish(&mut set);
            parts.push(set);
        }
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    if !texts.items.is_empty() {
        let bar = progress::bar("texts", texts.items.len());
        let mut tick = |done: usize, _: usize| bar.set_position(done as u64);
        let mut set = embedder.inner().text_set(texts.ids.clone(), &texts.items, Modality::Text, data, &mut tick)?;
        bar.finish_and_clear();
        texts.finish(&mut set);
        parts.push(set);
    }
    if let (true, Some(first)) = (parts.is_empty(), broken.first()) {
        anyhow::bail!("nothing to embed: {} of {} samples are broken. First: {first}", broken.len(), samples.len());
    }
    anyhow::ensure!(!parts.is_empty(), "nothing to embed: no sample has any of the views asked for");
    Ok(EmbeddingSet::concat(&parts.iter().collect::<Vec<_>>())?)
}

/// Rows of one embedding set in the making.
struct Rows<T> {
    ids: Vec<String>,
    items: Vec<T>,
    modality: Vec<Modality>,
    columns: [Vec<String>; 3],
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { ids: Vec::new(), items: Vec::new(), modality: Vec::new(), columns: [const { Vec::new() }; 3] }
    }
}

impl<T> Rows<T> {
    fn add(&mut self, sample: &Sample, id: String, modality: Modality, item: T, words: String) {
        self.ids.push(id);
        self.modality.push(modality);
        self.items.push(item);
        let label = sample.label.clone().unwrap_or_default();
        for (column, value) in self.columns.iter_mut().zip([words, sample.id.clone(), label]) {
            column.push(value);
        }
    }

    fn finish(self, set: &mut EmbeddingSet) {
        set.modality = self.modality;
        let [words, sample, label] = self.columns;
        set.columns.insert("text".into(), words);
        set.columns.insert("sample".into(), sample);
        set.columns.insert("label".into(), label);
    }
}

impl Rows<ImageRef> {
    fn add_images(&mut self, sample: &Sample, picture: Option<Arc<Picture>>, views: &[ViewArg]) {
        let (Some(picture), Some(image)) = (picture, &sample.image) else { return };
        if views.contains(&ViewArg::Image) {
            let path = match image {
                ImageRef::File(path) => path.display().to_string(),
                // A picture without a file reads best by its caption.
                other => sample.captions.first().cloned().unwrap_or_else(|| other.place()),
            };
            self.add(sample, sample.id.clone(), Modality::Image, ImageRef::Pixels(picture.clone()), path);
        }
        if views.contains(&ViewArg::BoxImage) {
            for (p, phrase) in sample.phrases.iter().enumerate() {
                let cut = phrase.boxes.iter().map(|it| crop_box(&picture, it));
                let cut = cut.map(|it| ImageRef::Pixels(Arc::new(it))).chain(phrase.crop.clone());
                for (b, image) in cut.enumerate() {
                    let id = format!("{}#phrase{p}.box{b}", sample.id);
                    self.add(sample, id, Modality::BoxImage, image, phrase.text.clone());
                }
            }
        }
    }
}

impl Rows<String> {
    fn add_texts(&mut self, sample: &Sample, views: &[ViewArg]) {
        if views.contains(&ViewArg::Text) {
            for (i, caption) in sample.captions.iter().enumerate() {
                self.add(sample, format!("{}#caption{i}", sample.id), Modality::Text, caption.clone(), caption.clone());
            }
        }
        if views.contains(&ViewArg::BoxText) {
            for (i, phrase) in sample.phrases.iter().enumerate() {
                self.add(
                    sample,
                    format!("{}#phrase{i}", sample.id),
                    Modality::BoxText,
                    phrase.text.clone(),
                    phrase.text.clone(),
                );
            }
        }
    }
}

impl From<CropArg> for EvalCrop {
    fn from(it: CropArg) -> Self {
        match it {
            CropArg::Center => Self::Center,
            CropArg::Squeeze => Self::Squeeze,
        }
    }
}

impl From<ViewArg> for Modality {
    fn from(it: ViewArg) -> Self {
        match it {
            ViewArg::Image => Self::Image,
            ViewArg::Text => Self::Text,
            ViewArg::BoxImage => Self::BoxImage,
            ViewArg::BoxText => Self::BoxText,
        }
    }
}
