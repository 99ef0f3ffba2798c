//! Makes one row of a batch: chooses texts and boxes, then reads and augments the images.

use std::cell::OnceCell;
use std::sync::Arc;

use rand::Rng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};

use super::cache::{DecodedPhoto, PixelCache, SampleImageKey};
use super::config::{CaptionChoice, ChainChoice, ChainSource, DataConfig, HardNegative, LoaderConfig};
use super::edges::{ClassBoxes, EdgeRow};
use super::regions::{PhotoRegion, RegionMode, VECTOR_SIZE, part_of};
use crate::hierarchy::Taxonomy;
use crate::picture::EncodedImage;
use crate::rng::{Stream, rng_for};
use crate::sample::guarded;
use crate::sample::{Broken, Cause, ImageRef, MissingRank, Phrase, Picture, PixelLimits, Sample, View};
use crate::source::Source;
use crate::tokenizer::Tokenizer;
use crate::transform::{crop_pixels, shrink};

/// Makes the rows of a batch. Shared by all reader threads.
pub(super) struct RowMaker {
    pub(super) source: Arc<dyn Source>,
    pub(super) tokenizer: Tokenizer,
    pub(super) config: LoaderConfig,
    pub(super) cache: Option<PixelCache>,
    /// Taxonomy of all samples, if negative taxa are drawn.
    pub(super) taxonomy: Option<Taxonomy>,
    /// Boxes of all samples by class, if boxes of other photos are drawn; otherwise empty.
    pub(super) classes: ClassBoxes,
    /// If set, batches refer to regions instead of holding pixels.
    pub(super) regions: Option<RegionMode>,
}

/// One row of each field of a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LoaderRow {
    pub(super) id: String,
    /// Photo and caption, for [`View::Pair`] and [`View::Boxes`].
    pub(super) photo: Option<ImageTextPair>,
    /// Photo without a caption, for [`View::Photo`] if the pair is not read.
    pub(super) photo_alone: Option<RowImage>,
    /// Box crop and its phrase, for [`View::Boxes`].
    pub(super) boxed: Option<ImageTextPair>,
    /// Token ids of the chain's texts, for [`View::Chain`].
    pub(super) chain: Option<ChainTokens>,
    /// Ranks that the chain lacks.
    pub(super) missing_ranks: Vec<MissingRank>,
    /// Crops and relations, for [`View::Edges`].
    pub(super) edges: Option<EdgeRow>,
}

/// Token ids of the texts of a chain. A chain has at least one text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChainTokens {
    pub(super) positive: Vec<Vec<u32>>,
    /// One text per text of `positive`; empty if negatives are not read.
    pub(super) negative: Vec<Vec<u32>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImageTextPair {
    pub(super) image: RowImage,
    pub(super) text: Vec<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RowImage {
    /// `[3, size, size]` bytes; empty if another process has read the row.
    Pixels(#[serde(skip)] Vec<u8>),
    /// A reference ([`RegionMode`]).
    Region(PhotoRegion),
}

struct DrawnBox<'a> {
    phrase: &'a Phrase,
    key: SampleImageKey,
    image: PhraseImage<'a>,
}

/// Source of the image of a phrase.
#[derive(Clone, Copy)]
pub(super) enum PhraseImage<'a> {
    /// A separately stored crop.
    Crop(&'a ImageRef),
    /// A rectangle of the original photo, in pixels.
    Pixels([u32; 4]),
}

impl RowMaker {
    /// The row of sample `index` in this epoch. It depends on the data, the configuration and the arguments, not on the
    /// thread or the content of the cache.
    pub(super) fn row(&self, epoch: u64, index: u64) -> Result<LoaderRow, Broken> {
        guarded(|| format!("{}[{index}]", self.source.name()), || self.try_row(epoch, index))
    }

    fn try_row(&self, epoch: u64, index: u64) -> Result<LoaderRow, Broken> {
        let reads = |view| self.config.views.contains(&view);
        if let Some(broken) = self.regions.as_ref().and_then(|mode| mode.broken.get(&index)) {
            return Err(broken.clone());
        }
        let sample = self.source.get(index as usize)?;
        let chain = reads(View::Chain).then(|| self.chain(epoch, index, &sample)).transpose()?;
        let pair = reads(View::Pair) || reads(View::Boxes);
        let (photo, boxed) = match pair {
            true => self.pair(epoch, index, &sample, reads(View::Boxes)).map(|(photo, boxed)| (Some(photo), boxed))?,
            false => (None, None),
        };
        let alone = reads(View::Photo) && !pair;
        let photo_alone = alone.then(|| self.photo_alone(epoch, index, &sample)).transpose()?;
        let edges = reads(View::Edges).then(|| self.edges(epoch, index, &sample)).transpose()?;
        let ranks = chain.is_some() && self.config.data.chain.of == ChainSource::Taxon;
        let missing_ranks = if ranks { sample.missing_ranks } else { Vec::new() };
        Ok(LoaderRow { id: sample.id, photo, photo_alone, boxed, chain, missing_ranks, edges })
    }

    /// The photo without a caption, with the same random draws as in [`RowMaker::pair`].
    fn photo_alone(&self, epoch: u64, index: u64, sample: &Sample) -> Result<RowImage, Broken> {
        let mut rng = rng_for(self.config.seed, epoch, index, Stream::Photo);
        if let Some(mode) = &self.regions {
            return Ok(mode.draw(index, 0, &mut rng));
        }
        let LoaderConfig { image_size, data: DataConfig { augment, limits, .. }, .. } = &self.config;
        let (size, decoded) = (*image_size as u32, self.decoded(sample)?);
        let encoded =
            if self.needs_only_a_part() { decoded.encoded().map_err(|it| it.within(&sample.id))? } else { None };
        let pixels = match encoded {
            Some(encoded) => {
                let place = || decoded.image.place();
                augment.open_encoded(encoded, limits, size, &mut rng, place).map_err(|it| it.within(&sample.id))?
            }
            None => {
                let whole = self.photo(sample, index, SampleImageKey::Whole, || decoded.get())?;
                augment.apply(&whole.picture, size, &mut rng)
            }
        };
        Ok(RowImage::Pixels(pixels))
    }

    /// Photo and caption, and with `with_box` also a box and its phrase.
    fn pair(
        &self,
        epoch: u64,
        index: u64,
        sample: &Sample,
        with_box: bool,
    ) -> Result<(ImageTextPair, Option<ImageTextPair>), Broken> {
        let rng = |stream| rng_for(self.config.seed, epoch, index, stream);
        if self.config.data.caption != CaptionChoice::Tier && !sample.captions.iter().any(|text| is_text(text)) {
            return Err(Broken::new(&sample.id, Cause::NoCaption, "no caption; expected at least one"));
        }
        if let Some(mode) = &self.regions {
            return self.region_pair(epoch, index, sample, with_box, mode);
        }
        let decoded = self.decoded(sample)?;
        let whole = || self.photo(sample, index, SampleImageKey::Whole, || decoded.get());
        // If only a crop of the photo is needed, decode only a part of the photo.
        let encoded =
            if self.needs_only_a_part() { decoded.encoded().map_err(|it| it.within(&sample.id))? } else { None };
        let size = match encoded {
            Some(encoded) => encoded.size(),
            None => whole()?.original,
        };
        let drawn = match with_box {
            true => Some(self.draw_box(sample, size, &mut rng(Stream::Box))?),
            false => None,
        };
        let caption = self.caption(sample, drawn.as_ref().map(|drawn| drawn.phrase), &mut rng(Stream::Caption))?;
        let boxed = match &drawn {
            None => None,
            Some(DrawnBox { phrase, key, image }) => {
                let open = || match image {
                    PhraseImage::Crop(image) => image.open(&self.config.data.limits).map(Arc::new),
                    PhraseImage::Pixels(pixels) => Ok(Arc::new(crop_pixels(&*decoded.get()?, *pixels))),
                };
                let crop = self.photo(sample, index, *key, open)?;
                Some(self.image_text(sample, &crop, &phrase.text, &mut rng(Stream::Crop))?)
            }
        };
        let cut = drawn.is_some_and(|drawn| matches!(drawn.image, PhraseImage::Pixels(_)));
        let rng = &mut rng(Stream::Photo);
        let LoaderConfig { image_size, data: DataConfig { augment, limits, .. }, .. } = &self.config;
        let photo = match encoded {
            Some(encoded) if !cut => {
                let place = || decoded.image.place();
                let image = augment.open_encoded(encoded, limits, *image_size as u32, rng, place);
                let image = RowImage::Pixels(image.map_err(|it| it.within(&sample.id))?);
                ImageTextPair { image, text: self.tokens(sample, &caption)? }
            }
            _ => self.image_text(sample, &whole()?, &caption, rng)?,
        };
        Ok((photo, boxed))
    }

    /// Like [`RowMaker::pair`], with regions instead of pixels. The photo is not decoded, and not even read if no box
    /// is needed.
    fn region_pair(
        &self,
        epoch: u64,
        index: u64,
        sample: &Sample,
        with_box: bool,
        mode: &RegionMode,
    ) -> Result<(ImageTextPair, Option<ImageTextPair>), Broken> {
        let rng = |stream| rng_for(self.config.seed, epoch, index, stream);
        let region = |part: u32, rng: &mut dyn Rng| mode.draw(index, part, rng);
        let drawn = match with_box {
            true => {
                let size = self.decoded(sample)?.size().map_err(|it| it.within(&sample.id))?;
                Some(self.draw_box(sample, size, &mut rng(Stream::Box))?)
            }
            false => None,
        };
        let caption = self.caption(sample, drawn.as_ref().map(|drawn| drawn.phrase), &mut rng(Stream::Caption))?;
        let boxed = match drawn {
            None => None,
            Some(DrawnBox { phrase, key, .. }) => Some(ImageTextPair {
                image: region(part_of(key), &mut rng(Stream::Crop)),
                text: self.tokens(sample, &phrase.text)?,
            }),
        };
        let photo = ImageTextPair { image: region(0, &mut rng(Stream::Photo)), text: self.tokens(sample, &caption)? };
        Ok((photo, boxed))
    }

    /// The caption of a row: a caption of the sample, or one of its tiers.
    fn caption(&self, sample: &Sample, phrase: Option<&Phrase>, rng: &mut impl Rng) -> Result<String, Broken> {
        match self.config.data.caption {
            CaptionChoice::Tier => {
                let link = self.links(sample).choose(rng).map(|(_, text)| text.clone());
                link.ok_or_else(|| {
                    Broken::new(&sample.id, Cause::NoChain, "no chain of texts; expected one (caption = \"tier\")")
                })
            }
            _ => Ok(self.draw_caption(sample, phrase, rng).to_owned()),
        }
    }

    /// True if a row may decode only a part of the photo. This is not possible with the pixel cache, which stores whole
    /// photos.
    fn needs_only_a_part(&self) -> bool {
        self.config.data.augment.needs_only_a_part() && self.config.data.cache_pixels.is_none()
    }

    /// All texts of the sample's chain of the configured kind, general to specific, each with the number of its tier or
    /// the position of its rank.
    fn links(&self, sample: &Sample) -> Vec<(usize, String)> {
        match self.config.data.chain.of {
            ChainSource::Tiers => {
                sample.tiers.iter().flat_map(|tiers| tiers.positive.iter().cloned().enumerate()).collect()
            }
            ChainSource::Taxon => sample.taxon_positions().into_iter().zip(sample.taxon_texts()).collect(),
        }
    }

    /// Token ids of the configured chain, general to specific, and of its negatives.
    fn chain(&self, epoch: u64, index: u64, sample: &Sample) -> Result<ChainTokens, Broken> {
        let ChainChoice { of, tiers, without, negatives, hard, hard_kind } = self.config.data.chain;
        let broken = |detail: String| Broken::new(&sample.id, Cause::NoChain, detail);
        let links = self.links(sample);
        let used: Vec<&(usize, String)> = links.iter().filter(|(place, _)| Some(*place) != without).collect();
        let first = match (of, used.len().checked_sub(tiers)) {
            (_, Some(first)) => first,
            (ChainSource::Taxon, None) if !used.is_empty() => 0,
            (ChainSource::Taxon, None) => {
                return Err(broken("no rank of the taxon has a name; expected at least one".to_owned()));
            }
            (ChainSource::Tiers, None) => {
                return Err(broken(format!("a chain of {}; expected at least {tiers} links", used.len())));
            }
        };
        let used = &used[first..];
        let wrong: Vec<String> = match (&self.taxonomy, negatives) {
            (_, false) => Vec::new(),
            (Some(taxonomy), true) => {
                let mut rng = rng_for(self.config.seed, epoch, index, Stream::Negative);
                let own = taxonomy.find(&sample.ranked_taxon());
                let mut other = |rank: usize| match (hard, hard_kind) {
                    (true, HardNegative::Sibling) => taxonomy.hard_negative(own?, rank, &mut rng),
                    (true, HardNegative::Cousin) => taxonomy.cousin_negative(own?, rank, &mut rng),
                    (false, _) => taxonomy.random_negative(own?, rank, &mut rng),
                };
                let others: Option<Vec<_>> = used.iter().map(|(rank, _)| other(*rank)).collect();
                let others = others
                    .ok_or_else(|| broken("no other taxon of the same rank; expected at least two".to_owned()))?;
                others.into_iter().map(|taxon| taxonomy.path(taxon).join(" ")).collect()
            }
            (None, true) if wrong_texts(sample).len() != links.len() => {
                return Err(broken("no negative chain; expected one (or set chain.negatives = false)".to_owned()));
            }
            (None, true) => used.iter().map(|(link, _)| wrong_texts(sample)[*link].clone()).collect(),
        };
        Ok(ChainTokens {
            positive: used.iter().map(|(_, text)| self.tokens(sample, text)).collect::<Result<_, _>>()?,
            negative: wrong.iter().map(|text| self.tokens(sample, text)).collect::<Result<_, _>>()?,
        })
    }

    /// The photo of a sample, decoded at most once, on first use.
    pub(super) fn decoded<'a>(&'a self, sample: &'a Sample) -> Result<LazyPhoto<'a>, Broken> {
        let image = sample.image.as_ref();
        let image = image.ok_or_else(|| Broken::new(&sample.id, Cause::NoImage, "no photo; expected one"))?;
        Ok(LazyPhoto::new(image, &self.config.data.limits))
    }

    fn tokens(&self, sample: &Sample, text: &str) -> Result<Vec<u32>, Broken> {
        let encoded = self.tokenizer.encode(text, self.config.context);
        encoded.map_err(|error| Broken::new(&sample.id, Cause::BadRecord, error.to_string()))
    }

    fn image_text(
        &self,
        sample: &Sample,
        photo: &DecodedPhoto,
        text: &str,
        rng: &mut impl Rng,
    ) -> Result<ImageTextPair, Broken> {
        let LoaderConfig { image_size, data: DataConfig { augment, .. }, .. } = &self.config;
        Ok(ImageTextPair {
            image: RowImage::Pixels(augment.apply(&photo.picture, *image_size as u32, rng)),
            text: self.tokens(sample, text)?,
        })
    }

    /// Returns an image of the sample before augmentation, from the cache or from `open`. The image is shrunk if a
    /// cache is configured.
    pub(super) fn photo(
        &self,
        sample: &Sample,
        index: u64,
        key: SampleImageKey,
        open: impl FnOnce() -> Result<Arc<Picture>, Broken>,
    ) -> Result<DecodedPhoto, Broken> {
        if let Some(photo) = self.cache.as_ref().and_then(|cache| cache.get(index, key)) {
            return Ok(photo);
        }
        let mut picture = open().map_err(|broken| broken.within(&sample.id))?;
        let original = (picture.width, picture.height);
        if let Some(cache) = self.config.data.cache_pixels {
            let limit = cache.shorter_side * self.config.image_size as f32;
            picture = shrink(&picture, limit.ceil() as u32).map_or(picture, Arc::new);
        }
        let photo = DecodedPhoto { picture, original };
        if let Some(cache) = &self.cache {
            cache.put(index, key, &photo);
        }
        Ok(photo)
    }

    /// The phrases of a sample that have a usable box or crop, each with its usable images. A box is usable if it has
    /// at least `least` pixels in the photo of `width` x `height`.
    pub(super) fn usable_boxes(
        sample: &Sample,
        (width, height): (u32, u32),
        least: u32,
    ) -> Vec<(&Phrase, Vec<(SampleImageKey, PhraseImage<'_>)>)> {
        let mut keys = (0..).map(SampleImageKey::Box);
        let large = |&[x1, y1, x2, y2]: &[u32; 4]| u64::from(x2 - x1) * u64::from(y2 - y1) >= u64::from(least);
        let mut usable = Vec::new();
        for phrase in sample.phrases.iter().filter(|phrase| is_text(&phrase.text)) {
            let pixels = phrase.boxes.iter().map(|bbox| bbox.to_pixels(width, height));
            let images: Vec<_> = match &phrase.crop {
                Some(crop) => keys.by_ref().zip([PhraseImage::Crop(crop)]).collect(),
                None => keys.by_ref().zip(pixels.filter(large).map(PhraseImage::Pixels)).collect(),
            };
            if !images.is_empty() {
                usable.push((phrase, images));
            }
        }
        usable
    }

    /// Draws a phrase uniformly from those with a usable box or crop, then one of its usable boxes.
    fn draw_box<'a>(
        &self,
        sample: &'a Sample,
        (width, height): (u32, u32),
        rng: &mut impl Rng,
    ) -> Result<DrawnBox<'a>, Broken> {
        let least = self.config.data.min_box_pixels;
        let usable = Self::usable_boxes(sample, (width, height), least);
        if let Some((phrase, images)) = usable.choose(rng)
            && let Some((key, image)) = images.choose(rng)
        {
            return Ok(DrawnBox { phrase, key: *key, image: *image });
        }
        let phrases = sample.phrases.len();
        let boxes: usize = sample.phrases.iter().map(|phrase| phrase.boxes.len()).sum();
        let expected = format!("a crop or a box of at least {least} pixels in the {width} x {height} photo");
        let detail = format!("{phrases} phrases with {boxes} boxes; expected a phrase with {expected}");
        Err(Broken::new(&sample.id, Cause::NoBox, detail))
    }

    /// Draws a caption. At least one caption must not be blank.
    fn draw_caption<'a>(&self, sample: &'a Sample, phrase: Option<&Phrase>, rng: &mut impl Rng) -> &'a str {
        let all = || sample.captions.iter().enumerate().filter(|(_, text)| is_text(text));
        let text = |(_, text): (usize, &'a String)| text.as_str();
        let named = |phrase: &Phrase| -> Vec<&'a str> {
            let by_span = all().filter(|(i, _)| phrase.spans.iter().any(|span| span.caption == *i));
            let words = phrase.text.to_lowercase();
            let by_words = all().filter(|(_, text)| text.to_lowercase().contains(&words));
            if phrase.spans.is_empty() { by_words.map(text).collect() } else { by_span.map(text).collect() }
        };
        let mut choice = match (self.config.data.caption, phrase) {
            (CaptionChoice::First, _) => all().take(1).map(text).collect(),
            (CaptionChoice::WithPhrase, Some(phrase)) => named(phrase),
            _ => Vec::new(),
        };
        if choice.is_empty() {
            choice = all().map(text).collect();
        }
        choice.choose(rng).copied().unwrap_or_default()
    }
}

/// A photo that is decoded on first use; see [`RowMaker::decoded`].
pub(super) struct LazyPhoto<'a> {
    image: &'a ImageRef,
    limits: &'a PixelLimits,
    encoded: OnceCell<Option<EncodedImage<'a>>>,
    picture: OnceCell<Arc<Picture>>,
}

impl<'a> LazyPhoto<'a> {
    pub(super) fn new(image: &'a ImageRef, limits: &'a PixelLimits) -> Self {
        Self { image, limits, encoded: OnceCell::new(), picture: OnceCell::new() }
    }

    /// The file with its parsed header, read once; `None` for decoded pixels.
    fn encoded(&self) -> Result<Option<&EncodedImage<'a>>, Broken> {
        if self.encoded.get().is_none() {
            let encoded = self.image.encoded(self.limits)?;
            return Ok(self.encoded.get_or_init(|| encoded).as_ref());
        }
        Ok(self.encoded.get().and_then(Option::as_ref))
    }

    /// Width and height, without decoding a photo that has a file.
    pub(super) fn size(&self) -> Result<(u32, u32), Broken> {
        if let ImageRef::Vector(_) = self.image {
            return Ok(VECTOR_SIZE);
        }
        match self.encoded()? {
            Some(encoded) => Ok(encoded.size()),
            None => self.get().map(|picture| (picture.width, picture.height)),
        }
    }

    pub(super) fn get(&self) -> Result<Arc<Picture>, Broken> {
        if let Some(picture) = self.picture.get() {
            return Ok(Arc::clone(picture));
        }
        let picture = match self.encoded.get() {
            Some(Some(encoded)) => encoded.whole(self.limits, || self.image.place())?,
            _ => self.image.open(self.limits)?,
        };
        Ok(self.picture.get_or_init(|| Arc::new(picture)).clone())
    }
}

fn wrong_texts(sample: &Sample) -> &[String] {
    sample.tiers.as_ref().map_or(&[], |tiers| &tiers.negative)
}

fn is_text(text: &str) -> bool {
    !text.trim().is_empty()
}
