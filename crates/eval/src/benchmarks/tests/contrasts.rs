//! Tests of the compositional benchmarks on small items, with results computed by hand, and on the released SugarCrepe.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use conifer_data::{BBox, SourceSpec};

use super::*;
use crate::Outcomes;

/// Points of texts on a line. The photo (value 0) is at the origin. The similarity is minus the distance.
fn line() -> LookupEmbedder {
    euclidean(&[("near", [1.0, 0.0]), ("afar", [2.0, 0.0]), ("far", [-2.0, 0.0])], &[(0, [0.0, 0.0])])
}

fn item(subset: &str, label: &str, [right, wrong]: [&str; 2]) -> Sample {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Sample {
        captions: vec![right.into()],
        wrong: vec![wrong.into()],
        split: Some(subset.into()),
        label: Some(label.into()),
        ..sample(&format!("{subset}/{label}/{number}"), 0)
    }
}

/// The photo is nearer to the correct caption, "near".
const RIGHT: [&str; 2] = ["near", "far"];
const WRONG: [&str; 2] = ["far", "near"];
/// Both captions are at distance 2.
const TIE: [&str; 2] = ["afar", "far"];

fn with(name: &str, samples: &[Sample], options: &Options) -> Result<Vec<Record>> {
    measure(find(name)?, &Context::new(&line(), &BenchmarkSamples(samples.to_vec()), None, options))
}

fn record<'a>(records: &'a [Record], split: &str, protocol: &str, metric: &str) -> &'a Record {
    let is = |it: &&Record| it.split == split && it.protocol == protocol && it.metric == metric;
    records.iter().find(is).unwrap_or_else(|| panic!("{split}, {protocol}, {metric} in {records:#?}"))
}

fn close(record: &Record, value: f64, n: usize, baseline: (&str, f64)) {
    assert!((record.value - value).abs() < 1e-12 && record.n == n, "{value} {n}: {record:?}");
    let found = record.baseline.as_ref().unwrap();
    assert!(found.name == baseline.0 && (found.value - baseline.1).abs() < 1e-12, "{baseline:?}: {record:?}");
}

const SHORTER: &str = "the shorter caption (characters)";
const LONGER: &str = "the longer caption (characters)";

/// Three items of replace_obj, and one item of each of the other six subsets.
fn sugar() -> Vec<Sample> {
    let mut samples = vec![
        item("replace_obj", "1", RIGHT),
        item("replace_obj", "2", WRONG),
        item("replace_obj", "3", ["far", "afar"]),
        item("swap_att", "1", TIE),
        item("add_obj", "1", ["near", "afar"]),
    ];
    samples.extend(["replace_att", "replace_rel", "swap_obj", "add_att"].map(|it| item(it, "1", RIGHT)));
    samples
}

#[test]
fn sugarcrepe_by_hand() {
    let records = with("sugarcrepe", &sugar(), &Options::default()).unwrap();
    let protocol = "similarity, crop center";
    assert_eq!(records.len(), 9, "seven subsets, micro, mean");
    // The model is right on one of three items, and the third is a tie. The correct caption is the longer one (near,
    // far) only in the first item.
    close(record(&records, "replace_obj", protocol, "accuracy"), 1.0 / 3.0, 3, (SHORTER, 2.0 / 3.0));
    // A tie is wrong. The correct caption has four characters, the wrong one three.
    close(record(&records, "swap_att", protocol, "accuracy"), 0.0, 1, (LONGER, 1.0));
    // If both captions have the same length, the baseline counts 1/2.
    close(record(&records, "add_obj", protocol, "accuracy"), 1.0, 1, ("chance", 0.5));
    // The model is right on one item of replace_obj, on add_obj and on four others. The correct caption is longer in
    // one item of replace_obj, in swap_att, by half in add_obj (equal lengths), and in four others.
    close(record(&records, "all", protocol, "accuracy (micro)"), 6.0 / 9.0, 9, (LONGER, 6.5 / 9.0));
    let mean = record(&records, "all", protocol, "accuracy (mean over 7 subsets)");
    close(mean, (1.0 / 3.0 + 0.0 + 5.0) / 7.0, 9, (LONGER, (1.0 / 3.0 + 1.0 + 0.5 + 4.0) / 7.0));
    let subsets: Vec<&str> = records.iter().map(|it| &*it.split).take(7).collect();
    assert_eq!(subsets, ["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]);
    let Some(Outcomes::Mean { values }) = &records[0].outcomes else { panic!("{:?}", records[0]) };
    assert_eq!(values, &[1.0, 0.0, 0.0]);
}

#[test]
fn sugarcrepe_names_what_is_wrong_with_the_data() {
    let message = |samples: &[Sample]| with("sugarcrepe", samples, &Options::default()).unwrap_err().to_string();
    let mut samples = sugar();
    let last = samples.pop().unwrap();
    let text = message(&samples);
    assert!(text.contains("sugarcrepe: every sample of 1 of 7 subsets (add_att) is missing"), "{text}");
    let partial = Options { partial: true, ..Options::default() };
    let records = with("sugarcrepe", &samples, &partial).unwrap();
    let protocol = "similarity, crop center, partial: 6 of 7 subsets";
    close(record(&records, "all", protocol, "accuracy (micro)"), 5.0 / 8.0, 8, (LONGER, 5.5 / 8.0));
    assert_eq!(record(&records, "all", protocol, "accuracy (mean over 6 subsets)").n, 8);

    for (bad, expected) in [
        (Sample { split: Some("add_verb".into()), ..last.clone() }, "a subset is `add_verb`; expected replace_obj, "),
        (Sample { split: None, ..last.clone() }, "the split (its subset) of sample `add_att/1/"),
        (Sample { wrong: Vec::new(), ..last.clone() }, "the wrong caption of sample `add_att/1/"),
        (Sample { captions: Vec::new(), ..last.clone() }, "the caption of sample `add_att/1/"),
        (Sample { image: None, ..last.clone() }, "the photo of sample `add_att/1/"),
        (
            Sample { captions: vec!["near".into(); 2], wrong: vec!["far".into(); 2], ..last.clone() },
            "captions of sample `add_att/1/",
        ),
    ] {
        let text = message(&[&samples[..], &[bad]].concat());
        assert!(text.starts_with("sugarcrepe: ") && text.contains(expected), "{text}");
    }
    let nan = LookupEmbedder { images: [(0, [f32::NAN, 0.0])].into(), ..line() };
    let error = run("sugarcrepe", &nan, sugar(), None).unwrap_err().to_string();
    assert!(error.contains("a score is not a number"), "{error}");
}

/// "on" is nearest to the photo at (1, 0), but "off" has the larger inner product.
#[test]
fn score_and_crop_are_used_and_named() {
    let embedder = euclidean(&[("on", [1.0, 0.0]), ("off", [5.0, 0.0])], &[(0, [1.0, 0.0])]);
    let samples = BenchmarkSamples(vec![item("my own", "1", ["on", "off"])]);
    for (score, value, protocol) in
        [(Score::Similarity, 1.0, "similarity, crop squeeze"), (Score::Inner, 0.0, "inner product, crop squeeze")]
    {
        let options = Options { score, crop: EvalCrop::Squeeze, ..Options::default() };
        let context = Context::new(&embedder, &samples, None, &options);
        let records = measure(find("sugarcrepe").unwrap(), &context).unwrap();
        assert_eq!(record(&records, "my own", protocol, "accuracy").value, value);
    }
}

const BOXES: [&str; 6] =
    ["Location/center", "Location/mid", "Location/margin", "Size/large", "Size/medium", "Size/small"];

/// vg_obj has 1,002 items at Location/margin, of which the last two are wrong, and one right item in each other subset.
/// hake_obj has one right item in each subset, and also a wrong one at Location/margin.
fn checklist() -> Vec<Sample> {
    let mut samples = Vec::new();
    for subset in BOXES {
        samples.extend([item(subset, "vg_obj", RIGHT), item(subset, "hake_obj", RIGHT)]);
    }
    samples.extend((0..999).map(|_| item("Location/margin", "vg_obj", RIGHT)));
    samples.extend((0..2).map(|_| item("Location/margin", "vg_obj", WRONG)));
    samples.push(item("Location/margin", "hake_obj", WRONG));
    samples
}

#[test]
fn vl_checklist_by_hand() {
    let records = with("vl_checklist", &checklist(), &Options::default()).unwrap();
    // There are six subsets and their mean. Each is measured for both corpora over items, for both corpora over files,
    // and for vg_obj alone, each with all items and with the first 1,000.
    assert_eq!(records.len(), 7 * (2 + 1) * 2);
    let of = |corpora: &str, which: &str| format!("{corpora}, {which}, similarity, crop center");
    let (all, first) = ("all items", "first 1000 items of each file");
    let both = "hake_obj + vg_obj, mean over ";
    for (corpora, which, margin, n) in [
        (&*format!("{both}items"), all, 1001.0 / 1004.0, 1004),
        (&*format!("{both}items"), first, 1001.0 / 1002.0, 1002),
        (&*format!("{both}files"), all, (1000.0 / 1002.0 + 0.5) / 2.0, 1004),
        (&*format!("{both}files"), first, (1.0 + 0.5) / 2.0, 1002),
        ("vg_obj", all, 1000.0 / 1002.0, 1002),
        ("vg_obj", first, 1.0, 1000),
    ] {
        // The longer caption ("near" against "far") is correct exactly where the model is right, so both have the same
        // accuracy.
        let protocol = of(corpora, which);
        close(record(&records, "Location/margin", &protocol, "accuracy"), margin, n, (LONGER, margin));
        assert_eq!(record(&records, "Size/small", &protocol, "accuracy").value, 1.0);
        // In the other five subsets all items are right. Every subset has the same number of files, so the mean over
        // twelve files equals the mean over six subsets.
        let files =
            if corpora.ends_with("files") { "accuracy (mean over 12 files)" } else { "accuracy (mean over 6 subsets)" };
        let others = if corpora == "vg_obj" { 5 } else { 10 };
        let mean = (margin + 5.0) / 6.0;
        close(record(&records, "all", &protocol, files), mean, n + others, (LONGER, mean));
    }
}

#[test]
fn vl_checklist_asks_for_every_file() {
    let message = |samples: &[Sample]| with("vl_checklist", samples, &Options::default()).unwrap_err().to_string();
    let samples: Vec<Sample> = BOXES.map(|it| item(it, "vg_obj", RIGHT)).to_vec();
    let text = message(&samples[..5]);
    assert!(text.contains("vl_checklist: every sample of 1 of 6 subsets (Size/small) is missing"), "{text}");
    let uneven = [&samples[..], &[item("Size/large", "swig_tool", WRONG)]].concat();
    let text = message(&uneven);
    assert!(text.contains("every sample of 5 of 12 files (swig_tool at Location/center, "), "{text}");
    let nameless = Sample { label: None, ..item("Size/small", "x", RIGHT) };
    let text = message(&[&samples[..5], &[nameless]].concat());
    assert!(text.contains("the label (its corpus) of sample `Size/small/x/"), "{text}");

    // In Size/large, one of two items is right, and each file has one item. In total, six of the seven files are right.
    let records = with("vl_checklist", &uneven, &Options { partial: true, ..Options::default() }).unwrap();
    let protocol = "swig_tool + vg_obj, mean over files, all items, similarity, crop center, partial: 7 of 12 files";
    close(record(&records, "Size/large", protocol, "accuracy"), 0.5, 2, ("chance", 0.5));
    close(record(&records, "all", protocol, "accuracy (mean over 7 files)"), 6.0 / 7.0, 7, (LONGER, 6.0 / 7.0));
}

/// A photo of 10 x 10 pixels with one box, its right half. The first pixel of the photo is 0, for which the embedder
/// has no point, so only the box can be embedded.
fn boxed(pair: &str, texts: [&str; 2]) -> Sample {
    let rgb = (0..100).flat_map(|i| [if i % 10 < 5 { 0 } else { 7 }; 3]).collect();
    let bbox = BBox { x1: 0.5, y1: 0.0, x2: 1.0, y2: 1.0 };
    Sample {
        image: Some(ImageRef::Pixels(std::sync::Arc::new(Picture { width: 10, height: 10, rgb }))),
        phrases: vec![Phrase { text: "cat and door".into(), boxes: vec![bbox], ..Phrase::default() }],
        split: None,
        ..item("", pair, texts)
    }
}

#[test]
fn vg_attribution_by_hand() {
    let texts: &[(&str, [f32; 2])] = &[("red a, blue b", [1.0, 0.0]), ("blue a, red b", [2.0, 0.0])];
    let embedder = euclidean(texts, &[(7, [0.0, 0.0])]);
    let (right, wrong) = ([texts[0].0, texts[1].0], [texts[1].0, texts[0].0]);
    // 20 of 25 items of red_blue are right, and 1 of 4 items of blue_red. These are different pairs.
    let mut samples: Vec<Sample> = (0..25).map(|i| boxed("red_blue", if i < 20 { right } else { wrong })).collect();
    samples.extend((0..4).map(|i| boxed("blue_red", if i < 1 { right } else { wrong })));
    let measured = |samples: &[Sample], partial: bool| {
        let options = Options { partial, ..Options::default() };
        measure(find("vg_attribution")?, &Context::new(&embedder, &BenchmarkSamples(samples.to_vec()), None, &options))
    };
    let records = measured(&samples, false).unwrap();
    let protocol = "boxes, similarity, crop center";
    let metric = |name: &str| record(&records, "all", protocol, name);
    assert_eq!(records.len(), 5);
    let pair = |name: &str| record(&records, name, protocol, "accuracy of the attribute pair");
    close(pair("red_blue"), 0.8, 25, ("chance", 0.5));
    close(pair("blue_red"), 0.25, 4, ("chance", 0.5));
    assert_eq!((records[3].split.as_str(), records[4].split.as_str()), ("red_blue", "blue_red"));
    close(metric("accuracy (micro)"), 21.0 / 29.0, 29, ("chance", 0.5));
    close(metric("accuracy (mean over attribute pairs)"), (0.8 + 0.25) / 2.0, 29, ("chance", 0.5));
    close(metric("accuracy (mean over attribute pairs of 25 items)"), 0.8, 25, ("chance", 0.5));

    let text = measured(&samples[1..], false).unwrap_err().to_string();
    assert!(text.contains("every attribute pair with 25 items (the most frequent has 24) is missing"), "{text}");
    let records = measured(&samples[1..], true).unwrap();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|it| it.protocol == format!("{protocol}, partial: no attribute pair has 25 items")));
    samples[3].phrases.clear();
    let text = measured(&samples, false).unwrap_err().to_string();
    assert!(text.contains("vg_attribution: the phrase with a box of sample `/red_blue/"), "{text}");
}

/// Embedder that prefers the longer text for every photo and counts the embedded photos.
struct TextLengthEmbedder {
    spec: ManifoldSpec,
    photos: AtomicUsize,
}

impl EmbeddingModel for TextLengthEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }
    fn root(&self) -> Result<Root> {
        Ok(Root::Origin)
    }
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        Ok(texts.iter().flat_map(|text| [text.chars().count() as f32, 0.0]).collect())
    }
    fn images(&self, images: &[ImageRef], _: EvalCrop) -> Result<Vec<f32>> {
        self.photos.fetch_add(images.len(), Ordering::Relaxed);
        Ok([1e4, 0.0].repeat(images.len()))
    }
}

/// 1,544 of the 7,511 items of SugarCrepe use the 1,000 photos of HierarCaps. The expected numbers of items, and of
/// items whose correct caption is longer or shorter (in characters, without surrounding blanks), were counted with
/// Python.
#[test]
fn sugarcrepe_on_the_photos_of_hierarcaps() {
    let shared = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let photos = shared.join("hierarcaps/images");
    let path = shared.join("sugarcrepe");
    if !path.exists() || !photos.exists() {
        eprintln!("skipped: {} or {} not found", path.display(), photos.display());
        return;
    }
    let images = serde_json::Value::from(photos.canonicalize().unwrap().to_str().unwrap());
    let options = [("images".to_owned(), images)].into();
    let spec = SourceSpec { kind: "sugarcrepe".into(), path: Some(path), options, ..SourceSpec::default() };
    let source = conifer_datasets::open(&spec).unwrap();
    let reader = TextLengthEmbedder { spec: ManifoldSpec::euclidean(2), photos: AtomicUsize::new(0) };

    let benchmark = find("sugarcrepe").unwrap();
    let options = Options::default();
    let error = measure(benchmark, &Context::new(&reader, &*source, None, &options)).unwrap_err().to_string();
    assert!(error.contains("sugarcrepe: 5967 of 7511 samples cannot be used"), "{error}");
    assert!(error.contains("missing_file"), "{error}");

    let options = Options { partial: true, ..Options::default() };
    let records = measure(benchmark, &Context::new(&reader, &*source, None, &options)).unwrap();
    assert_eq!(reader.photos.into_inner(), 335, "each photo once");
    let protocol = "similarity, crop center, partial: 1544 of 7511 samples";
    for (subset, n, longer, shorter) in [
        ("replace_obj", 346, 143, 164),
        ("replace_att", 159, 60, 68),
        ("replace_rel", 269, 74, 177),
        ("swap_obj", 48, 4, 13),
        ("swap_att", 149, 19, 41),
        ("add_obj", 449, 4, 445),
        ("add_att", 124, 1, 122),
    ] {
        let trivial = (n + shorter - longer) as f64 / 2.0 / n as f64;
        close(record(&records, subset, protocol, "accuracy"), longer as f64 / n as f64, n as usize, (SHORTER, trivial));
    }
    let trivial = (1544.0 + 1030.0 - 305.0) / 2.0 / 1544.0;
    close(record(&records, "all", protocol, "accuracy (micro)"), 305.0 / 1544.0, 1544, (SHORTER, trivial));
}
