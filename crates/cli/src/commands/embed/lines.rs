//! The rows of a sample: their ids, labels, texts and positions.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context as _;
use conifer_data::sample::guarded;
use conifer_data::transform::crop_box;
use conifer_data::{BBox, Broken, ImageRef, Picture, PixelLimits, Sample, Source};
use conifer_datasets::sources::class_name;
use conifer_embeddings::Modality;
use conifer_eval::TIERS_COLUMN;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments::{EmbedView, ViewArg};

/// A row of an embedding set without its point.
#[derive(Serialize, Deserialize)]
pub(super) struct RowMetadata {
    id: String,
    modality: Modality,
    /// The class of the sample for the photo and its captions, and the name of the rank for a taxon. Empty for boxes
    /// and phrases, because the class of a part of the photo is unknown, and for tiers.
    label: String,
    /// Id of the sample; it connects the views of one sample.
    sample: String,
    /// The text of the row; for a photo, a description of it (see [`description_of`]).
    pub(super) text: String,
    /// Position in the photo: left, top, width and height as fractions of the photo, separated by commas. Empty for a
    /// whole photo, a text, and a box that is stored as a separate photo.
    bounds: String,
    /// The caption chain of the sample as a JSON list of texts, for its photo; empty for other rows.
    tiers: String,
}

/// Names of the columns of every set, in alphabetical order.
const COLUMNS: [&str; 4] = ["box", "label", "sample", "text"];

/// Names of the columns of a set with these views, in alphabetical order. Only photos have a caption chain.
pub(super) fn columns(views: &[EmbedView]) -> Vec<String> {
    COLUMNS.into_iter().chain(with_chains(views).then_some(TIERS_COLUMN)).map(str::to_owned).collect()
}

fn with_chains(views: &[EmbedView]) -> bool {
    views.contains(&EmbedView::Tiers) && views.contains(&EmbedView::Modality(ViewArg::Image))
}

impl RowMetadata {
    fn new(sample: &Sample, id: String, modality: Modality, text: String) -> Self {
        let whole = matches!(modality, Modality::Image | Modality::Text);
        let label = sample.label.clone().filter(|_| whole).unwrap_or_default();
        let tiers = sample.tiers.as_ref().filter(|_| modality == Modality::Image);
        let tiers = tiers.map_or_else(String::new, |it| json!(it.positive).to_string());
        Self { id, modality, label, sample: sample.id.clone(), text, bounds: String::new(), tiers }
    }

    fn at(self, bounds: &BBox) -> Self {
        let BBox { x1, y1, x2, y2 } = bounds;
        Self { bounds: format!("{x1},{y1},{},{}", x2 - x1, y2 - y1), ..self }
    }

    /// Adds the row with the columns of [`columns`].
    pub(super) fn add_to(
        &self,
        draft: &mut conifer_embeddings::Draft,
        views: &[EmbedView],
    ) -> conifer_embeddings::Result<u64> {
        let all = [&self.bounds, &self.label, &self.sample, &self.text, &self.tiers].map(String::as_str);
        draft.add(&self.id, self.modality, &all[..COLUMNS.len() + usize::from(with_chains(views))])
    }
}

/// Applies `read` to sample `index`. If the reader panics, the sample counts as broken; otherwise one bad file would
/// stop the job every time it is resumed.
pub(super) fn of_sample<T>(
    source: &dyn Source,
    index: usize,
    read: impl FnOnce(Sample) -> Result<T, Broken>,
) -> Result<T, Broken> {
    guarded(|| format!("{}[{index}]", source.name()), || read(source.get(index)?))
}

/// The rows of the photo and the boxes of a sample, with their pixels as returned by `preprocess`.
///
/// # Errors
/// The photo, or a box that is stored as a separate photo, cannot be read.
pub(super) fn photos(
    sample: &Sample,
    views: &[EmbedView],
    preprocess: impl Fn(&Picture) -> Vec<u8>,
) -> Result<Vec<(RowMetadata, Vec<u8>)>, Broken> {
    let limits = PixelLimits::default();
    let (Some(picture), Some(image)) = (sample.photo(&limits)?, &sample.image) else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    if views.contains(&EmbedView::Modality(ViewArg::Image)) {
        let text = description_of(sample, image);
        rows.push((RowMetadata::new(sample, sample.id.clone(), Modality::Image, text), preprocess(&picture)));
    }
    if views.contains(&EmbedView::Modality(ViewArg::BoxImage)) {
        for (p, phrase) in sample.phrases.iter().enumerate() {
            let crop =
                phrase.crop.as_ref().map(|it| it.open(&limits).map_err(|it| it.within(&sample.id))).transpose()?;
            let cut = phrase.boxes.iter().map(|it| (crop_box(&picture, it), Some(it)));
            for (b, (picture, bounds)) in cut.chain(crop.map(|it| (it, None))).enumerate() {
                let id = format!("{}#phrase{p}.box{b}", sample.id);
                let line = RowMetadata::new(sample, id, Modality::BoxImage, phrase.text.clone());
                let line = match bounds {
                    Some(bounds) => line.at(bounds),
                    None => line,
                };
                rows.push((line, preprocess(&picture)));
            }
        }
    }
    Ok(rows)
}

/// As [`photos`], for samples whose photos and boxes are vectors. `read` returns the bytes of a vector.
///
/// # Errors
/// An image is not a vector that the model reads.
pub(super) fn vectors(
    sample: &Sample,
    views: &[EmbedView],
    read: impl Fn(&ImageRef) -> Result<Vec<u8>, Broken>,
) -> Result<Vec<(RowMetadata, Vec<u8>)>, Broken> {
    let read = |image: &ImageRef| read(image).map_err(|it| it.within(&sample.id));
    let Some(image) = &sample.image else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    if views.contains(&EmbedView::Modality(ViewArg::Image)) {
        let text = description_of(sample, image);
        rows.push((RowMetadata::new(sample, sample.id.clone(), Modality::Image, text), read(image)?));
    }
    if views.contains(&EmbedView::Modality(ViewArg::BoxImage)) {
        for (p, phrase) in sample.phrases.iter().enumerate() {
            let Some(crop) = &phrase.crop else { continue };
            let id = format!("{}#phrase{p}.box0", sample.id);
            let row = RowMetadata::new(sample, id, Modality::BoxImage, phrase.text.clone());
            rows.push((row, read(crop)?));
        }
    }
    Ok(rows)
}

/// The text shown for a photo in search results: its first caption, else its taxon and common name, else its class,
/// else its file name. It never contains the parent folders, because results are shown to other people.
fn description_of(sample: &Sample, image: &ImageRef) -> String {
    if let Some(caption) = sample.captions.first() {
        return caption.clone();
    }
    let label = sample.label.as_deref().filter(|it| !it.is_empty());
    match (label, sample.taxon.last()) {
        (Some(label), Some(last)) if label == last => label.to_owned(),
        (Some(label), Some(_)) => match class_name(&sample.taxon) {
            name if name == label => name,
            name => format!("{name} ({label})"),
        },
        (None, Some(_)) => class_name(&sample.taxon),
        (Some(label), None) => label.to_owned(),
        (None, None) => match image {
            ImageRef::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            ImageRef::Member { name, .. } => name.clone(),
            ImageRef::Vector(_) => sample.id.clone(),
            other => other.place(),
        },
    }
}

/// Collects the texts that many samples share: ranks of taxa and tiers of caption hierarchies. Each distinct text
/// becomes one row, whose id comes from the text and not from a sample.
pub(super) struct SharedTexts {
    seen: HashSet<(&'static str, String)>,
}

impl SharedTexts {
    /// Starts without any seen text.
    pub(super) fn new() -> Self {
        Self { seen: HashSet::new() }
    }

    /// The rows for the texts of `sample` that no earlier sample had.
    pub(super) fn rows(&mut self, sample: &Sample, views: &[EmbedView]) -> Vec<RowMetadata> {
        let mut rows = Vec::new();
        if views.contains(&EmbedView::Taxa) {
            let last = sample.taxon.len();
            for (rank, text) in sample.taxon_texts().into_iter().enumerate() {
                // The label of a rank is its name, so that a class tree can find it.
                let label = match &sample.label {
                    Some(label) if rank + 1 == last => label.clone(),
                    _ => class_name(&sample.taxon[..=rank]),
                };
                rows.extend(self.row("taxon", text, label));
            }
        }
        if let (true, Some(tiers)) = (views.contains(&EmbedView::Tiers), &sample.tiers) {
            rows.extend(tiers.positive.iter().filter_map(|text| self.row("tier", text.clone(), String::new())));
        }
        rows
    }

    fn row(&mut self, kind: &'static str, text: String, label: String) -> Option<RowMetadata> {
        if !self.seen.insert((kind, text.clone())) {
            return None;
        }
        let id = format!("{kind}:{text}");
        // The row belongs to no photo, so its sample id is unique.
        Some(RowMetadata {
            sample: id.clone(),
            id,
            modality: Modality::Text,
            label,
            text,
            bounds: String::new(),
            tiers: String::new(),
        })
    }
}

/// The text rows of a sample: captions and phrases.
pub(super) fn texts(sample: &Sample, views: &[EmbedView]) -> Vec<RowMetadata> {
    let mut rows = Vec::new();
    let mut add = |name: &str, i: usize, modality, text: &String| {
        rows.push(RowMetadata::new(sample, format!("{}#{name}{i}", sample.id), modality, text.clone()));
    };
    if views.contains(&EmbedView::Modality(ViewArg::Text)) {
        sample.captions.iter().enumerate().for_each(|(i, text)| add("caption", i, Modality::Text, text));
    }
    if views.contains(&EmbedView::Modality(ViewArg::BoxText)) {
        sample.phrases.iter().enumerate().for_each(|(i, it)| add("phrase", i, Modality::BoxText, &it.text));
    }
    rows
}

/// The number of rows whose id already occurs in an earlier row, and the first such id; `None` if all ids differ.
/// Compares 64-bit hashes of the ids, and keeps 8 bytes per row in memory.
pub(super) fn repeated(rows: &Path) -> anyhow::Result<Option<(usize, String)>> {
    let hash_of = |id: &str| {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        hasher.finish()
    };
    let mut hashes = Vec::new();
    each_id(rows, |id| {
        hashes.push(hash_of(id));
        true
    })?;
    hashes.sort_unstable();
    let again: HashSet<u64> = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    if again.is_empty() {
        return Ok(None);
    }
    let count = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let (mut seen, mut first) = (HashSet::new(), None);
    each_id(rows, |id| {
        let hash = hash_of(id);
        if again.contains(&hash) && !seen.insert(hash) {
            first = Some(id.to_owned());
        }
        first.is_none()
    })?;
    Ok(first.map(|id| (count, id)))
}

/// Passes the id of every line to `visit` until it returns false.
fn each_id(rows: &Path, mut visit: impl FnMut(&str) -> bool) -> anyhow::Result<()> {
    #[derive(serde::Deserialize)]
    struct RowId {
        id: String,
    }
    let place = || rows.display().to_string();
    let reader = BufReader::new(File::open(rows).with_context(place)?);
    for line in reader.lines() {
        let row: RowId = serde_json::from_str(&line.with_context(place)?).with_context(place)?;
        if !visit(&row.id) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::{SourceSpec, Tiers};
    use conifer_datasets::open;

    use super::*;

    #[test]
    fn panicking_reader_breaks_only_its_sample() {
        let options = [("size".to_owned(), 4.into()), ("resolution".to_owned(), 32.into())].into();
        let source = open(&SourceSpec { kind: "toy".to_owned(), options, ..SourceSpec::default() }).unwrap();
        let read = |sample: Sample| {
            assert!(!sample.id.ends_with('2'), "column 7 of 3");
            Ok(sample.captions.len())
        };
        let read: Vec<_> = (0..4).map(|index| of_sample(source.as_ref(), index, read)).collect();
        assert_eq!(read.iter().filter(|it| it.as_ref().is_ok_and(|&captions| captions > 0)).count(), 3);
        let message = read[2].as_ref().unwrap_err().to_string();
        assert_eq!(message, "sample `toy[2]`: undecodable_image: the parser panicked: column 7 of 3");
    }

    #[test]
    fn photo_text_is_caption_taxon_label_or_file_name() {
        let image = ImageRef::File("/home/me/photos/3.jpg".into());
        let names = |text: &str| text.split(' ').filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let describe = |captions: &[&str], taxon: &str, label: Option<&str>| {
            let captions = captions.iter().map(|&it| it.to_owned()).collect();
            let label = label.map(str::to_owned);
            description_of(&Sample { captions, taxon: names(taxon), label, ..Sample::default() }, &image)
        };
        assert_eq!(describe(&["a dog", "two"], "Aves Turdus merula", Some("x")), "a dog");
        assert_eq!(describe(&[], "Aves Turdus merula", Some("BLACKBIRD")), "Turdus merula (BLACKBIRD)");
        assert_eq!(describe(&[], "Aves Turdus merula", Some("Turdus merula")), "Turdus merula");
        assert_eq!(describe(&[], "Aves Turdus merula", None), "Turdus merula");
        assert_eq!(describe(&[], "Animal dog", Some("dog")), "dog");
        assert_eq!(describe(&[], "", Some("dog")), "dog");
        assert_eq!(describe(&[], "", None), "3.jpg");
    }

    #[test]
    fn shared_texts_become_rows_once() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let bird = |taxon: &str, label: Option<&str>| Sample {
            taxon: names(taxon),
            label: label.map(str::to_owned),
            tiers: Some(Tiers { positive: vec!["an animal".to_owned(), taxon.to_owned()], negative: Vec::new() }),
            ..Sample::default()
        };
        let mut shared = SharedTexts::new();
        let mut rows = |sample: &Sample, views: &[EmbedView]| -> Vec<(String, String, String)> {
            let rows = shared.rows(sample, views).into_iter();
            rows.map(|it| (it.id, it.label, it.text)).collect()
        };
        let row = |id: &str, label: &str, text: &str| (id.to_owned(), label.to_owned(), text.to_owned());
        let both = [EmbedView::Taxa, EmbedView::Tiers];
        assert_eq!(
            rows(&bird("Aves Turdus merula", Some("BLACKBIRD")), &both),
            [
                row("taxon:Aves", "Aves", "Aves"),
                row("taxon:Aves Turdus", "Turdus", "Aves Turdus"),
                row("taxon:Aves Turdus merula", "BLACKBIRD", "Aves Turdus merula"),
                row("tier:an animal", "", "an animal"),
                row("tier:Aves Turdus merula", "", "Aves Turdus merula"),
            ]
        );
        assert_eq!(
            rows(&bird("Aves Turdus alba", None), &[EmbedView::Taxa]),
            [row("taxon:Aves Turdus alba", "Turdus alba", "Aves Turdus alba")]
        );
        assert!(rows(&bird("Aves Turdus merula", None), &both).is_empty());
        assert!(rows(&bird("Aves Sula", None), &[EmbedView::Modality(ViewArg::Image)]).is_empty());
    }

    #[test]
    fn photos_have_their_chain_with_the_view_tiers() {
        let views = [EmbedView::Tiers, EmbedView::Modality(ViewArg::Image)];
        assert_eq!(columns(&views), ["box", "label", "sample", "text", "tiers"]);
        assert_eq!(columns(&views[..1]), ["box", "label", "sample", "text"]);
        assert_eq!(columns(&views[1..]), ["box", "label", "sample", "text"]);
        let positive = vec!["a \"dog\"".to_owned(), "a black dog".to_owned()];
        let sample = Sample { tiers: Some(Tiers { positive, negative: Vec::new() }), ..Sample::default() };
        let row = |modality| RowMetadata::new(&sample, String::new(), modality, String::new()).tiers;
        assert_eq!(row(Modality::Image), r#"["a \"dog\"","a black dog"]"#);
        assert_eq!(row(Modality::BoxImage), "");
        assert!(SharedTexts::new().rows(&sample, &views).iter().all(|it| it.tiers.is_empty()));
    }

    #[test]
    fn boxes_and_phrases_have_no_class() {
        let options = [("size".to_owned(), 1.into()), ("resolution".to_owned(), 32.into())].into();
        let source = open(&SourceSpec { kind: "toy".to_owned(), options, ..SourceSpec::default() }).unwrap();
        let sample = source.get(0).unwrap();
        let class = sample.label.clone().unwrap();
        let photo_rows =
            photos(&sample, &[EmbedView::Modality(ViewArg::Image), EmbedView::Modality(ViewArg::BoxImage)], |_| {
                Vec::new()
            })
            .unwrap();
        let text_rows = texts(&sample, &[EmbedView::Modality(ViewArg::Text), EmbedView::Modality(ViewArg::BoxText)]);
        let lines: Vec<&RowMetadata> = photo_rows.iter().map(|(line, _)| line).chain(&text_rows).collect();
        let (whole, parts): (Vec<&RowMetadata>, Vec<&RowMetadata>) =
            lines.into_iter().partition(|it| matches!(it.modality, Modality::Image | Modality::Text));
        assert!(whole.len() >= 2 && whole.iter().all(|it| it.label == class));
        assert!(parts.len() >= 2 && parts.iter().all(|it| it.label.is_empty()));
    }

    #[test]
    fn box_rows_have_bounds() {
        let options = [("size".to_owned(), 1.into()), ("resolution".to_owned(), 32.into())].into();
        let source = open(&SourceSpec { kind: "toy".to_owned(), options, ..SourceSpec::default() }).unwrap();
        let mut sample = source.get(0).unwrap();
        sample.phrases.truncate(1);
        // Multiples of 1/8, so that differences are exact in floating point.
        sample.phrases[0].boxes = vec![BBox { x1: 0.125, y1: 0.25, x2: 0.5, y2: 1.0 }];
        sample.phrases[0].crop = sample.image.clone();
        let rows =
            photos(&sample, &[EmbedView::Modality(ViewArg::Image), EmbedView::Modality(ViewArg::BoxImage)], |_| {
                Vec::new()
            })
            .unwrap();
        let places: Vec<&str> = rows.iter().map(|(line, _)| line.bounds.as_str()).collect();
        assert_eq!(places, ["", "0.125,0.25,0.375,0.75", ""]);
    }
}
