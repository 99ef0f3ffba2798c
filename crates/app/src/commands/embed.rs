use std::sync::Arc;

use conifer_data::transform::{EvalCrop, crop_pixels};
use conifer_data::{ImageRef, PixelLimits, Sample};
use conifer_space::{EmbeddingSet, Modality};
use serde_json::json;

use crate::cli::{CropArg, Embed, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::output::{print, print_json};
use crate::progress;
use crate::request::open_source;

pub(crate) fn run(args: Embed, as_json: bool) -> anyhow::Result<()> {
    let embedder = ModelEmbedder::open(&args.checkpoint)?;
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
        eprintln!("skipped: {it}");
    }
    if as_json {
        return print_json(&json!({ "out": args.out, "rows": set.len(), "skipped": broken.len(), "space": set.spec }));
    }
    print(&format!("{} rows -> {} ({} samples skipped)\n", set.len(), args.out.display(), broken.len()))
}

/// Embeds the views of samples. Columns: `text` or `path`, `sample` (the id that ties views together), `label`.
/// A sample whose photo cannot be read goes to `broken`, whole.
pub(crate) fn embed_samples(
    embedder: &ModelEmbedder,
    samples: &[Sample],
    views: &[ViewArg],
    crop: EvalCrop,
    data: &str,
    broken: &mut Vec<conifer_data::Broken>,
) -> anyhow::Result<EmbeddingSet> {
    let with_pixels = views.iter().any(|it| matches!(it, ViewArg::Image | ViewArg::BoxImage));
    let mut images = Rows::default();
    let mut texts = Rows::default();
    for sample in samples {
        let Some(photo) = sample.image.clone().filter(|_| with_pixels) else {
            texts.add_texts(sample, views);
            continue;
        };
        // Boxes are cut here; a photo alone is only decoded once, when it is embedded.
        let picture = match photo.open(&PixelLimits::default()) {
            Ok(picture) => picture,
            Err(it) => {
                broken.push(it.within(&sample.id));
                continue;
            }
        };
        texts.add_texts(sample, views);
        if views.contains(&ViewArg::Image) {
            let path = match &photo {
                ImageRef::File(path) => path.display().to_string(),
                // A picture without a file reads best by its caption.
                other => sample.captions.first().cloned().unwrap_or_else(|| other.place()),
            };
            images.add(sample, sample.id.clone(), Modality::Image, photo, path);
        }
        if views.contains(&ViewArg::BoxImage) {
            for (p, phrase) in sample.phrases.iter().enumerate() {
                let cut =
                    phrase.boxes.iter().map(|it| crop_pixels(&picture, it.to_pixels(picture.width, picture.height)));
                let cut = cut.map(|picture| ImageRef::Pixels(Arc::new(picture))).chain(phrase.crop.clone());
                for (b, image) in cut.enumerate() {
                    images.add(
                        sample,
                        format!("{}#phrase{p}.box{b}", sample.id),
                        Modality::BoxImage,
                        image,
                        phrase.text.clone(),
                    );
                }
            }
        }
    }
    let mut parts = Vec::new();
    if !images.items.is_empty() {
        let bar = progress::bar("photos", images.items.len());
        let mut tick = |done: usize, _: usize| bar.set_position(done as u64);
        let mut set =
            embedder.inner().image_set(images.ids.clone(), &images.items, crop, Modality::Image, data, &mut tick)?;
        bar.finish_and_clear();
        images.finish(&mut set);
        parts.push(set);
    }
    if !texts.items.is_empty() {
        let bar = progress::bar("texts", texts.items.len());
        let mut tick = |done: usize, _: usize| bar.set_position(done as u64);
        let mut set = embedder.inner().text_set(texts.ids.clone(), &texts.items, Modality::Text, data, &mut tick)?;
        bar.finish_and_clear();
        texts.finish(&mut set);
        parts.push(set);
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
