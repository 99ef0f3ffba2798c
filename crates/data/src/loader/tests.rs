#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;

use rand::Rng;

use super::*;
use crate::rng::{Stream, rng_for};
use crate::sample::{BBox, Broken, Cause, ImageRef, Phrase, Picture, PixelLimits, Sample, Span, Tiers};
use crate::transform::{Augment, Crop, EvalCrop, crop_pixels, evaluate};

/// Samples in memory; reading a `None` panics.
struct MemorySource(Vec<Option<Sample>>);

impl Source for MemorySource {
    fn name(&self) -> &str {
        "memory"
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        Ok(self.0[index].clone().expect("a broken reader"))
    }
    fn views(&self) -> &[View] {
        &[View::Pair, View::Boxes, View::Chain, View::Edges]
    }
    fn fingerprint(&self) -> String {
        String::new()
    }
}

fn picture(seed: u64) -> Picture {
    let (width, height) = (24 + 4 * (seed as u32 % 3), 20);
    let mut rgb = vec![0; (width * height * 3) as usize];
    rng_for(seed, 0, 0, Stream::Photo).fill_bytes(&mut rgb);
    Picture { width, height, rgb }
}

const BOXES: [BBox; 3] = [
    BBox { x1: 0.0, y1: 0.0, x2: 0.5, y2: 0.5 },
    BBox { x1: 0.25, y1: 0.5, x2: 1.0, y2: 1.0 },
    // This box covers 1 to 4 pixels of the photos, which have 24 to 32 x 20 pixels.
    BBox { x1: 0.0, y1: 0.0, x2: 0.05, y2: 0.05 },
];

fn sample(number: u64) -> Sample {
    let phrase = |text: &str, boxes: &[BBox], caption| Phrase {
        text: text.to_owned(),
        boxes: boxes.to_vec(),
        spans: vec![Span { caption, start: 0, end: 1 }],
        ..Phrase::default()
    };
    Sample {
        id: format!("s{number}"),
        image: Some(ImageRef::Pixels(Arc::new(picture(number)))),
        captions: vec!["a dog on snow".to_owned(), " ".to_owned(), "a cat and a dog".to_owned()],
        phrases: vec![phrase("dog", &BOXES[..2], 0), phrase("cat", &BOXES[1..], 2), phrase("speck", &BOXES[2..], 0)],
        ..Sample::default()
    }
}

fn samples(n: u64) -> Vec<Option<Sample>> {
    (0..n).map(|number| Some(sample(number))).collect()
}

fn tokenizer() -> Tokenizer {
    Tokenizer::train(["a dog on snow", "a dog and a cat", "a cat"], 530).unwrap()
}

fn config() -> LoaderConfig {
    LoaderConfig {
        batch_size: 4,
        image_size: 8,
        context: 12,
        seed: 5,
        data: DataConfig { workers: 2, min_box_pixels: 9, ..DataConfig::default() },
        ..LoaderConfig::default()
    }
}

fn loader(samples: Vec<Option<Sample>>, config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(MemorySource(samples)), tokenizer(), config).unwrap()
}

fn take(loader: &mut Loader, n: usize) -> Vec<Batch> {
    loader.take(n).map(Result::unwrap).collect()
}

#[test]
fn tiers_as_captions() {
    let chain = ["dog", "cat"].map(str::to_owned).to_vec();
    let tiers = Tiers { positive: chain.clone(), negative: Vec::new() };
    let with = Sample { captions: Vec::new(), tiers: Some(tiers), ..sample(0) };
    let config = || LoaderConfig {
        batch_size: 1,
        data: DataConfig { caption: CaptionChoice::Tier, max_broken_share: 1.0, ..config().data },
        ..config()
    };
    let mut loader_of = loader(vec![Some(with), Some(sample(1))], config());
    let tokenizer = tokenizer();
    let mut seen = BTreeSet::new();
    for batch in take(&mut loader_of, 40) {
        assert_eq!(batch.ids, ["s0"], "the other sample has no chain");
        seen.insert(batch.texts.unwrap().ids);
    }
    let expected = chain.iter().map(|text| tokenizer.encode(text, 12).unwrap()).collect();
    assert_eq!(seen, expected);
    let message = loader(vec![Some(sample(1))], config()).next().unwrap().unwrap_err().to_string();
    assert!(message.contains("no_chain 1"), "{message}");
}

/// Chains come from tiers or from the names of a taxon, and use the last texts of a longer chain. A sample that lacks
/// a tier is broken; a taxon that lacks a rank is a shorter chain, which repeats its last text.
#[test]
fn chains_are_ordered_by_tier() {
    let chained = |id: &str, links: &[&str], negatives: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Sample {
            id: id.to_owned(),
            taxon: texts(links),
            tiers: Some(Tiers { positive: texts(links), negative: texts(negatives) }),
            ..Sample::default()
        }
    };
    let samples = || {
        vec![
            Some(chained("a", &["a", "dog", "cat"], &["on", "snow", "and"])),
            Some(chained("b", &["and", "a", "dog", "cat"], &["a", "on", "snow", "and"])),
            Some(chained("short", &["a"], &["dog"])),
            Some(chained("right", &["dog", "and", "cat"], &[])),
        ]
    };
    let batch = |chain: ChainChoice| {
        let views = vec![View::Chain];
        let mut loader = loader(
            samples(),
            LoaderConfig {
                views,
                batch_size: 2,
                data: DataConfig { chain, max_broken_share: 1.0, ..config().data },
                ..config()
            },
        );
        let batch = loader.next().unwrap().unwrap();
        assert!(batch.images.is_none() && batch.texts.is_none());
        (batch.ids, batch.chains.unwrap())
    };
    let tokenizer = tokenizer();
    let words = |chains: &ChainBatch, row: usize| {
        let ids = &chains.texts.ids[row * chains.texts.len..][..chains.texts.end[row] as usize + 1];
        ids.to_vec()
    };
    let (ids, chains) = batch(ChainChoice { tiers: 2, ..ChainChoice::default() });
    assert!(ids.iter().all(|id| id == "a" || id == "b"), "{ids:?}");
    assert_eq!((chains.tiers, chains.negatives, chains.texts.n), (2, true, 8));
    for (row, text) in ["dog", "dog", "cat", "cat", "snow", "snow", "and", "and"].into_iter().enumerate() {
        assert_eq!(words(&chains, row), tokenizer.encode(text, 12).unwrap(), "row {row}: {text}");
    }
    let (ids, chains) =
        batch(ChainChoice { of: ChainSource::Taxon, tiers: 3, negatives: false, ..ChainChoice::default() });
    assert_eq!((chains.tiers, chains.negatives, chains.texts.n), (3, false, 6));
    let expected = |id: &str| match id {
        "a" => ["a", "a dog", "a dog cat"],
        "b" => ["and a", "and a dog", "and a dog cat"],
        "short" => ["a", "a", "a"],
        _ => ["dog", "dog and", "dog and cat"],
    };
    for (column, id) in ids.iter().enumerate() {
        for (link, text) in expected(id).into_iter().enumerate() {
            assert_eq!(words(&chains, 2 * link + column), tokenizer.encode(text, 12).unwrap(), "{id} {link}");
        }
    }

    let length = |id: &String| if id == "short" { 1 } else { 3 };
    let lengths: Vec<usize> = ids.iter().map(length).collect();
    assert_eq!(chains.lengths, if lengths == [3, 3] { Vec::new() } else { lengths });

    // Leave out the middle of three tiers, together with its negative.
    let (ids, chains) = batch(ChainChoice { tiers: 2, without: Some(1), ..ChainChoice::default() });
    let expected = |id: &str| if id == "a" { ["a", "cat", "on", "and"] } else { ["dog", "cat", "snow", "and"] };
    for (column, id) in ids.iter().enumerate() {
        for (link, text) in expected(id).into_iter().enumerate() {
            assert_eq!(words(&chains, 2 * link + column), tokenizer.encode(text, 12).unwrap(), "{id} {link}");
        }
    }

    // Negative taxa are drawn for both tiers.
    let (ids, chains) = batch(ChainChoice { of: ChainSource::Taxon, tiers: 2, ..ChainChoice::default() });
    assert_eq!((chains.tiers, chains.negatives, chains.texts.n), (2, true, 8));
    for (column, id) in ids.iter().enumerate() {
        for link in 0..2 {
            let (right, wrong) = (words(&chains, 2 * link + column), words(&chains, 4 + 2 * link + column));
            assert_ne!(right, wrong, "{id}: link {link}");
        }
    }
}

/// White padding, flips, rotation and two views, across the end of an epoch: 22 samples make 5 batches of 4.
#[test]
fn batches_do_not_depend_on_workers_or_interruptions() {
    for view in [View::Pair, View::Boxes] {
        let config = |workers, prefetch| LoaderConfig {
            views: vec![view],
            data: DataConfig {
                workers,
                prefetch,
                augment: Augment { white_pad: true, hflip: 0.5, rotation: 10.0, ..Augment::default() },
                ..config().data
            },
            ..config()
        };
        let mut one = loader(samples(22), config(1, 1));
        let batches = take(&mut one, 7);
        assert_eq!(batches.iter().map(|b| b.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(one.state(), LoaderState { epoch: 1, position: 8 });
        assert_eq!(take(&mut loader(samples(22), config(4, 3)), 7), batches);

        let mut stopped = loader(samples(22), config(2, 2));
        take(&mut stopped, 3);
        let state = serde_json::to_string(&stopped.state()).unwrap();
        drop(stopped);
        let mut resumed = loader(samples(22), config(3, 2));
        resumed.resume(serde_json::from_str(&state).unwrap()).unwrap();
        assert_eq!(take(&mut resumed, 4), batches[3..]);
        resumed.resume(LoaderState::default()).unwrap();
        assert_eq!(take(&mut resumed, 1), batches[..1]);
    }
}

mod parts;
mod ranks;
mod relations;

#[test]
fn epochs_contain_every_sample_once() {
    let config = LoaderConfig { data: DataConfig { drop_last: false, ..config().data }, ..config() };
    let mut loader = loader(samples(10), config);
    assert_eq!(loader.batches_per_epoch(), 3);
    let batches = take(&mut loader, 6);
    let ids = |range: std::ops::Range<usize>| batches[range].iter().flat_map(|b| b.ids.clone()).collect::<Vec<_>>();
    assert_eq!(batches[2].ids.len(), 2);
    assert_eq!(batches[2].images.as_ref().unwrap().n, 2);
    for epoch in [ids(0..3), ids(3..6)] {
        assert_eq!((epoch.len(), epoch.iter().collect::<BTreeSet<_>>().len()), (10, 10));
    }
    assert_ne!(ids(0..3), ids(3..6));
}

/// Without randomness in the transform, each row must be exactly the photo, one of the large enough boxes, and its
/// phrase.
#[test]
fn rows_match_their_samples() {
    let tokenizer = tokenizer();
    let texts = |texts: &[&str]| texts.iter().map(|text| tokenizer.encode(text, 12).unwrap()).collect::<Vec<_>>();
    let config = LoaderConfig {
        views: vec![View::Boxes],
        data: DataConfig { augment: Augment { crop: Crop::Squeeze {}, ..Augment::default() }, ..config().data },
        ..config()
    };
    let captions = texts(&["a dog on snow", "a cat and a dog"]);
    let mut seen = BTreeSet::new();
    for batch in take(&mut loader(samples(8), config), 40) {
        let (images, boxes) = (batch.images.unwrap(), batch.box_images.unwrap());
        let (captioned, phrased) = (batch.texts.unwrap(), batch.box_texts.unwrap());
        for (i, id) in batch.ids.iter().enumerate() {
            let photo = picture(id[1..].parse().unwrap());
            let row = |batch: &ImageBatch| batch.data[i * 192..(i + 1) * 192].to_vec();
            let text = |batch: &TokenBatch| batch.ids[i * batch.len..=i * batch.len + batch.end[i] as usize].to_vec();
            assert_eq!(row(&images), evaluate(&photo, 8, EvalCrop::Squeeze));
            let caption = captions.iter().position(|caption| *caption == text(&captioned)).unwrap();
            let phrase = texts(&["dog", "cat"]).iter().position(|phrase| *phrase == text(&phrased)).unwrap();
            let boxed = BOXES[..2].iter().position(|bbox| {
                let crop = crop_pixels(&photo, bbox.to_pixels(photo.width, photo.height));
                evaluate(&crop, 8, EvalCrop::Squeeze) == row(&boxes)
            });
            seen.insert((caption, phrase, boxed.unwrap()));
        }
    }
    // Caption 0 or 2, with "dog" in either box or "cat" in its large box: exactly these six combinations.
    let expected = [0, 1].iter().flat_map(|&c| [(c, 0, 0), (c, 0, 1), (c, 1, 1)]);
    assert_eq!(seen, expected.collect());
}

#[test]
fn with_phrase_chooses_a_matching_caption() {
    let with = |caption, strip: bool| {
        let mut samples = samples(8);
        if strip {
            let phrases = samples.iter_mut().flatten().flat_map(|sample| &mut sample.phrases);
            phrases.for_each(|phrase| phrase.spans.clear());
        }
        let config =
            LoaderConfig { views: vec![View::Boxes], data: DataConfig { caption, ..config().data }, ..config() };
        let batches = take(&mut loader(samples, config), 20);
        let pairs = batches.into_iter().flat_map(|batch| {
            let (texts, boxes) = (batch.texts.unwrap(), batch.box_texts.unwrap());
            (0..4).map(move |i| (texts.ids[i * texts.len + 3], boxes.ids[i * boxes.len + 1])).collect::<Vec<_>>()
        });
        pairs.collect::<BTreeSet<_>>()
    };
    let any = with(CaptionChoice::Random, false);
    assert_eq!(any.len(), 4, "two captions, two phrases");
    // According to the spans, only the first caption contains "dog". According to the words, both captions contain it.
    assert_eq!(with(CaptionChoice::WithPhrase, false).len(), 2);
    assert_eq!(with(CaptionChoice::WithPhrase, true).len(), 3);
    assert_eq!(with(CaptionChoice::First, false).len(), 2);
}

#[test]
fn stored_crops_are_used() {
    let mut samples = samples(4);
    for sample in samples.iter_mut().flatten() {
        let crop = ImageRef::Pixels(Arc::new(picture(99)));
        sample.phrases = vec![Phrase { text: "thing".to_owned(), crop: Some(crop), ..Phrase::default() }];
    }
    let config = LoaderConfig {
        views: vec![View::Boxes],
        data: DataConfig { augment: Augment { crop: Crop::Center {}, ..Augment::default() }, ..config().data },
        ..config()
    };
    let batch = take(&mut loader(samples, config), 1).remove(0);
    assert_eq!(batch.box_images.unwrap().data, evaluate(&picture(99), 8, EvalCrop::Center).repeat(4));
}

/// The third epoch uses photos cached by the first two. A cache of 600 bytes holds almost no photo.
#[test]
fn cache_size_does_not_change_batches() {
    let with = |bytes, shorter_side| {
        let cache_pixels = Some(PixelCacheConfig { bytes, shorter_side });
        let config =
            LoaderConfig { views: vec![View::Boxes], data: DataConfig { cache_pixels, ..config().data }, ..config() };
        take(&mut loader(samples(9), config), 6)
    };
    assert_eq!(with(1 << 20, 1.5), with(600, 1.5));
    assert_ne!(with(1 << 20, 1.5), with(1 << 20, 1.0));
    // The cache shrinks the shorter side to 3 * 8 = 24 pixels at most. The shorter side of these photos is 20 pixels,
    // so they stay unchanged, and the batches equal those without a cache.
    let config = LoaderConfig { views: vec![View::Boxes], ..config() };
    assert_eq!(with(1 << 20, 3.0), take(&mut loader(samples(9), config), 6));
}

/// Covers the ways in which a sample can be broken. Each broken sample is replaced by a valid sample, which appears
/// once per batch.
#[test]
fn broken_samples_are_replaced_and_counted() {
    let mut samples = samples(40);
    let png = |picture: &Picture| {
        let png = crate::picture::encode_png(picture).unwrap();
        Some(ImageRef::Encoded(png.into()))
    };
    let mut torn = crate::picture::encode_jpeg(&picture(1), 90).unwrap();
    torn.truncate(torn.len() / 2);
    let noise = picture(2).rgb;
    let mut change = |number: usize, change: &dyn Fn(&mut Sample)| change(samples[number].as_mut().unwrap());
    change(0, &|sample| sample.image = None);
    change(1, &|sample| sample.image = Some(ImageRef::Encoded(torn.clone().into())));
    change(2, &|sample| sample.image = Some(ImageRef::Encoded(noise.clone().into())));
    change(3, &|sample| sample.image = png(&Picture { width: 1, height: 1, rgb: vec![9; 3] }));
    change(4, &|sample| sample.image = png(&Picture { width: 20_000, height: 2, rgb: vec![9; 120_000] }));
    change(5, &|sample| sample.captions = vec![" \n".to_owned()]);
    change(6, &|sample| sample.phrases.clear());
    change(7, &|sample| sample.phrases.retain(|phrase| phrase.text == "speck"));
    change(9, &|sample| sample.image = png(&picture(9)));
    samples[8] = None;
    let config = LoaderConfig {
        views: vec![View::Boxes],
        batch_size: 8,
        data: DataConfig { max_broken_share: 0.5, ..config().data },
        ..config()
    };
    let mut one = loader(
        samples.clone(),
        LoaderConfig { data: DataConfig { workers: 1, ..config.clone().data }, ..config.clone() },
    );
    let mut four = loader(samples, LoaderConfig { data: DataConfig { workers: 4, ..config.data }, ..config });
    let batches = take(&mut one, 5);
    assert_eq!(take(&mut four, 5), batches);
    for batch in &batches {
        assert_eq!(batch.ids.iter().collect::<BTreeSet<_>>().len(), 8, "{:?}", batch.ids);
    }
    let ids: BTreeSet<_> = batches.iter().flat_map(|batch| &batch.ids).cloned().collect();
    let sound: BTreeSet<_> = (9..40).map(|number| format!("s{number}")).collect();
    assert_eq!(ids, sound);

    let report = one.report();
    assert_eq!(four.report(), report);
    // 40 rows were returned, and every broken sample was one more request. Each of the nine broken samples was read at
    // least once.
    assert_eq!(report.seen, 40 + report.broken());
    assert!(report.broken() >= 9);
    let causes: Vec<_> = report.counts.keys().copied().collect();
    assert_eq!(
        causes,
        [
            Cause::UndecodableImage,
            Cause::ImageTooSmall,
            Cause::ImageTooNarrow,
            Cause::NoImage,
            Cause::NoCaption,
            Cause::NoBox
        ]
    );
    assert_eq!(report.examples.len(), 3);
    assert!(report.to_string().contains("samples were broken (undecodable_image"), "{report}");
}

#[test]
fn too_many_broken_samples_stop_the_run() {
    let mut samples = samples(50);
    for sample in samples.iter_mut().take(20).flatten() {
        sample.captions.clear();
    }
    let with = |max_broken_share| {
        loader(samples.clone(), LoaderConfig { data: DataConfig { max_broken_share, ..config().data }, ..config() })
    };
    assert_eq!(take(&mut with(0.6), 60).len(), 60);
    let mut strict = with(0.1);
    let results: Vec<_> = strict.by_ref().take(60).collect();
    // The error comes after at least 100 samples; after it the iterator ends.
    assert!(results.len() > 10 && results.len() < 26, "{}", results.len());
    let message = results.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(message.contains("samples are broken (no_caption ") && message.contains("at most 10.0 %"), "{message}");
    assert_eq!(message.matches("sample `s").count(), 3, "{message}");
    assert!(strict.next().is_none());
}

#[test]
fn only_broken_samples_is_an_error() {
    let mut samples = samples(6);
    samples.iter_mut().flatten().for_each(|sample| sample.phrases.clear());
    let mut loader = loader(
        samples,
        LoaderConfig {
            views: vec![View::Boxes],
            data: DataConfig { max_broken_share: 1.0, ..config().data },
            ..config()
        },
    );
    let message = loader.next().unwrap().unwrap_err().to_string();
    assert!(message.contains("6 of 6 samples are broken (no_box 6)"), "{message}");
    assert!(loader.next().is_none());
}

#[test]
fn invalid_requests_are_rejected() {
    let new = |config| {
        Loader::new(Arc::new(MemorySource(samples(6))), tokenizer(), config).map(|_| ()).unwrap_err().to_string()
    };
    for (config, expected) in [
        (LoaderConfig { views: vec![], ..config() }, "`views` is none; expected pair, boxes, chain or edges"),
        (
            LoaderConfig {
                data: DataConfig { edges: EdgeChoice { boxes: 0, ..EdgeChoice::default() }, ..config().data },
                ..config()
            },
            "`edges.boxes` is 0",
        ),
        (
            LoaderConfig {
                data: DataConfig { edges: EdgeChoice { copies: 0, ..EdgeChoice::default() }, ..config().data },
                ..config()
            },
            "`edges.copies` is 0",
        ),
        (LoaderConfig { batch_size: 7, ..config() }, "`batch_size` is 7; expected 1 to 6"),
        (LoaderConfig { context: 1, ..config() }, "`context` is 1; expected at least 2"),
        (LoaderConfig { image_size: 0, ..config() }, "`image_size` is 0; expected 1 to 8192"),
        (LoaderConfig { data: DataConfig { prefetch: 0, ..config().data }, ..config() }, "`prefetch` is 0"),
        (
            LoaderConfig { data: DataConfig { max_broken_share: f64::NAN, ..config().data }, ..config() },
            "`max_broken_share` is NaN; expected 0 to 1",
        ),
        (
            LoaderConfig {
                data: DataConfig { augment: Augment { hflip: 2.0, ..Augment::default() }, ..config().data },
                ..config()
            },
            "`augment.hflip` is 2",
        ),
    ] {
        let message = new(config);
        assert!(message.contains(expected), "{message}");
    }
    assert!(loader(samples(6), config()).resume(LoaderState { epoch: u64::MAX, position: 0 }).is_err());
    for position in [3, 4, 40] {
        let message = loader(samples(6), config()).resume(LoaderState { epoch: 0, position }).unwrap_err().to_string();
        assert!(
            message.contains(&format!("position` is {position}; expected a multiple of batch_size 4 from 0 to 0")),
            "{message}"
        );
    }
    assert!(serde_json::from_str::<LoaderConfig>(r#"{"batchsize": 4}"#).is_err());
    assert!(serde_json::from_str::<LoaderConfig>(r#"{"cache_pixels": {"megabytes": 4}}"#).is_err());
    assert_eq!(serde_json::from_str::<LoaderConfig>("{}").unwrap(), LoaderConfig::default());
}

#[test]
fn eval_batches_keep_the_order() {
    let mut images: Vec<_> = (0..7).map(|seed| ImageRef::Pixels(Arc::new(picture(seed)))).collect();
    images[2] = ImageRef::File("nowhere.jpg".into());
    let limits = PixelLimits::default();
    for workers in [1, 3] {
        let batches: Vec<_> = eval_batches(images.clone(), 8, EvalCrop::Center, limits, 3, workers).collect();
        let rows: Vec<_> = batches.iter().map(|batch| batch.rows.clone()).collect();
        assert_eq!(rows, [vec![0, 1], vec![3, 4, 5], vec![6]]);
        let broken: Vec<_> = batches.iter().flat_map(|batch| &batch.broken).collect();
        assert_eq!((broken.len(), broken[0].0, broken[0].1.cause), (1, 2, Cause::MissingFile));
        let pixels = eval_pixels(&images[4], 8, EvalCrop::Center, &limits).unwrap();
        assert_eq!(batches[1].images.data[192..384], pixels);
    }
    assert_eq!(eval_batches(Vec::new(), 8, EvalCrop::Center, limits, 3, 1).count(), 0);
}

/// Decoding at a scale gives the same batches for any number of threads. Pixels differ from full-size decoding, but
/// all draws are the same. Photos with box crops are decoded in full size.
#[test]
fn decoding_at_scale_changes_pixels_only() {
    let with_file = |number: u64| {
        let photo = Picture { width: 96, height: 80, rgb: picture(number).rgb.repeat(20)[..96 * 80 * 3].to_vec() };
        let bytes = crate::picture::encode_jpeg(&photo, 90).unwrap();
        Sample { image: Some(ImageRef::Encoded(bytes.into())), ..sample(number) }
    };
    let run = |view, workers, decode_at_scale| {
        let augment = Augment { hflip: 0.5, decode_at_scale, ..Augment::default() };
        let config =
            LoaderConfig { views: vec![view], data: DataConfig { workers, augment, ..config().data }, ..config() };
        let loader = loader((0..12).map(|number| Some(with_file(number))).collect(), config);
        loader.take(5).collect::<Result<Vec<_>>>().unwrap()
    };
    let scaled = run(View::Pair, 1, Some(1.5));
    assert_eq!(scaled, run(View::Pair, 3, Some(1.5)));
    for (scaled, full) in scaled.iter().zip(run(View::Pair, 2, None)) {
        assert_eq!((&scaled.ids, &scaled.texts), (&full.ids, &full.texts));
        assert_ne!(scaled.images, full.images);
    }
    assert_eq!(run(View::Boxes, 2, Some(1.5)), run(View::Boxes, 2, None));
}
