#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, ImageRef, Phrase, Picture, Sample, Source, Tiers, View, hierarchy::Tree};
use conifer_space::{ManifoldSpec, Root};

use super::*;

/// Two-dimensional points looked up by text, or by the first pixel of a picture: everything can be worked out by hand.
struct Lookup {
    spec: ManifoldSpec,
    texts: BTreeMap<String, [f32; 2]>,
    images: BTreeMap<u8, [f32; 2]>,
}

impl Embedder for Lookup {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }
    fn root(&self) -> Result<Root> {
        Ok(Root::Origin)
    }
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        texts
            .iter()
            .map(|t| self.texts.get(t).copied().ok_or_else(|| Error::Embedder(format!("no text `{t}`"))))
            .collect::<Result<Vec<_>>>()
            .map(|v| v.concat())
    }
    fn images(&self, images: &[ImageRef], _: EvalCrop) -> Result<Vec<f32>> {
        let first = |it: &ImageRef| match it {
            ImageRef::Pixels(picture) => picture.rgb[0],
            _ => 255,
        };
        Ok(images.iter().flat_map(|it| self.images[&first(it)]).collect())
    }
}

struct List(Vec<Sample>);

impl Source for List {
    fn name(&self) -> &str {
        "list"
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        Ok(self.0[index].clone())
    }
    fn views(&self) -> &[View] {
        &[View::Pair]
    }
    fn fingerprint(&self) -> String {
        String::new()
    }
}

fn photo(value: u8) -> Option<ImageRef> {
    Some(ImageRef::Pixels(std::sync::Arc::new(Picture { width: 1, height: 1, rgb: vec![value; 3] })))
}

fn sample(id: &str, image: u8) -> Sample {
    Sample { id: id.into(), image: photo(image), ..Sample::default() }
}

fn run(name: &str, embedder: &Lookup, samples: Vec<Sample>, tree: Option<&Tree>) -> Result<Vec<Record>> {
    let options = Options { templates: vec!["{}".into()], ..Options::default() };
    find(name)?.run(&Context { embedder, source: &List(samples), tree, options: &options })
}

fn value(records: &[Record], split: &str, metric: &str) -> f64 {
    records
        .iter()
        .find(|r| r.split == split && r.metric == metric)
        .unwrap_or_else(|| panic!("{split} {metric} in {records:?}"))
        .value
}

fn euclidean(texts: &[(&str, [f32; 2])], images: &[(u8, [f32; 2])]) -> Lookup {
    Lookup {
        spec: ManifoldSpec::euclidean(2),
        texts: texts.iter().map(|&(t, p)| (t.to_owned(), p)).collect(),
        images: images.iter().copied().collect(),
    }
}

#[test]
fn zero_shot_and_tree_by_hand() {
    let embedder = euclidean(
        &[("cat", [0.0, 0.0]), ("dog", [1.0, 0.0]), ("taxi", [9.0, 0.0])],
        &[(0, [0.1, 0.0]), (1, [0.2, 0.0]), (2, [8.0, 0.0])],
    );
    let label = |id: &str, image, label: &str| Sample { label: Some(label.into()), ..sample(id, image) };
    // Photo 1 is a dog but nearest to cat; photos 0 and 2 are right; two photos of cats.
    let samples = vec![label("a", 0, "cat"), label("b", 1, "dog"), label("c", 2, "taxi"), label("d", 0, "cat")];
    let records = run("zero_shot_classification", &embedder, samples.clone(), None).unwrap();
    assert_eq!(value(&records, "all", "accuracy (micro)"), 0.75);
    assert!((value(&records, "all", "accuracy (macro)") - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(records[0].baseline.as_ref().unwrap().value, 1.0 / 3.0);

    let edges = [("root", "animal"), ("animal", "cat"), ("animal", "dog"), ("root", "taxi")]
        .map(|(p, c)| (p.to_owned(), c.to_owned()));
    let tree = Tree::from_edges(edges).unwrap();
    let records = run("hierarchical_classification", &embedder, samples.clone(), Some(&tree)).unwrap();
    assert_eq!(value(&records, "all", "TIE"), 0.5); // one sibling in four: 2 / 4
    let error = run("hierarchical_classification", &embedder, samples, None).unwrap_err().to_string();
    assert!(error.contains("class tree"), "{error}");
    let mut unknown = vec![label("a", 0, "cat")];
    unknown[0].label = Some("dog".into());
    let small = Tree::from_edges([("root".to_owned(), "cat".to_owned())]).unwrap();
    let error = run("hierarchical_classification", &embedder, unknown, Some(&small)).unwrap_err().to_string();
    assert!(error.contains("`dog` is not a node"), "{error}");
}

#[test]
fn retrieval_with_several_captions_by_hand() {
    let embedder =
        euclidean(&[("a1", [0.0, 0.0]), ("a2", [4.0, 0.0]), ("b1", [5.0, 0.0])], &[(0, [0.1, 0.0]), (1, [5.1, 0.0])]);
    let captions = |id: &str, image, captions: &[&str]| Sample {
        captions: captions.iter().map(|&c| c.into()).collect(),
        ..sample(id, image)
    };
    let records =
        run("cross_modal_retrieval", &embedder, vec![captions("a", 0, &["a1", "a2"]), captions("b", 1, &["b1"])], None)
            .unwrap();
    assert_eq!(value(&records, "image_to_text", "recall@1"), 1.0);
    assert!((value(&records, "text_to_image", "recall@1") - 2.0 / 3.0).abs() < 1e-12); // a2 finds photo b first
    let chance = records
        .iter()
        .find(|r| r.split == "image_to_text" && r.metric == "recall@1")
        .unwrap()
        .baseline
        .clone()
        .unwrap();
    assert!((chance.value - (2.0 / 3.0 + 1.0 / 3.0) / 2.0).abs() < 1e-12);
    let error = run("cross_modal_retrieval", &embedder, vec![sample("bare", 0)], None).unwrap_err().to_string();
    assert!(error.contains("`bare`"), "{error}");
}

#[test]
fn empty_data_are_an_error() {
    let embedder = euclidean(&[], &[]);
    for benchmark in BENCHMARKS {
        let error = run(
            benchmark.name(),
            &embedder,
            Vec::new(),
            Some(&Tree::from_edges([("a".to_owned(), "b".to_owned())]).unwrap()),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains(benchmark.name()), "{error}");
    }
    assert!(find("nonsense").err().unwrap().to_string().contains("cross_modal_retrieval"));
}

#[test]
fn hierarcaps_and_depth_by_hand() {
    // Texts on a line by depth 1, 2, 3; the photo at 3.2 finds each in turn.
    let embedder = euclidean(
        &[("animal", [1.0, 0.0]), ("dog", [2.0, 0.0]), ("a dog runs", [3.0, 0.0])],
        &[(0, [3.2, 0.0]), (7, [1.5, 0.0])],
    );
    let chain = Sample {
        tiers: Some(Tiers { positive: vec!["animal".into(), "dog".into(), "a dog runs".into()], negative: vec![] }),
        ..sample("a", 0)
    };
    let records = run("hierarcaps", &embedder, vec![chain], None).unwrap();
    for metric in ["precision", "recall", "F1", "tau_d"] {
        assert_eq!(value(&records, "all", metric), 1.0, "{metric}");
    }
    assert!(
        run("hierarcaps", &embedder, vec![sample("no tiers", 0)], None)
            .unwrap_err()
            .to_string()
            .contains("caption chain")
    );

    let phrase = Phrase { text: "dog".into(), crop: photo(7), ..Phrase::default() };
    let grounded = Sample { captions: vec!["a dog runs".into()], phrases: vec![phrase], ..sample("g", 0) };
    let records = run("depth_order", &embedder, vec![grounded], None).unwrap();
    assert_eq!(value(&records, "box_text < text", "parent is shallower"), 1.0);
    assert_eq!(value(&records, "box_image < image", "parent is shallower"), 1.0);
    assert_eq!(value(&records, "box_text < box_image", "parent is shallower"), 0.0);
}

/// `goldens/metrics/hierarcaps_retrieval_n400_steps50`: the released evaluator on random embeddings.
#[test]
fn golden_hierarcaps() {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let (Ok(bytes), Ok(csv)) = (
        std::fs::read(format!("{shared}/goldens/metrics/hierarcaps_retrieval_n400_steps50.safetensors")),
        std::fs::read_to_string(format!("{shared}/data/hierarcaps/hierarcaps_test.csv")),
    ) else {
        eprintln!("skipped: ../shared goldens or HierarCaps test file not found");
        return;
    };
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let f32s = |name: &str| {
        file.tensor(name)
            .unwrap()
            .data()
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect::<Vec<_>>()
    };
    let f64_of = |name: &str| f64::from_le_bytes(file.tensor(name).unwrap().data()[..8].try_into().unwrap());
    let ids: Vec<i64> =
        file.tensor("in.row_id").unwrap().data().chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
    let mut by_id = BTreeMap::new();
    for record in csv::Reader::from_reader(csv.as_bytes()).records() {
        let record = record.unwrap();
        by_id.insert(record[0].parse::<i64>().unwrap(), record[1].split(" => ").map(str::to_owned).collect::<Vec<_>>());
    }
    let tiers: Vec<Vec<String>> = ids.iter().map(|id| by_id[id].clone()).collect();
    let normalise = |v: Vec<f32>| {
        v.chunks(32)
            .flat_map(|row| {
                let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                row.iter().map(move |&x| (f64::from(x) / norm) as f32).collect::<Vec<_>>()
            })
            .collect::<Vec<f32>>()
    };
    let root = Root::Point(normalise(f32s("in.root")).iter().map(|&v| f64::from(v)).collect());
    let (texts, images) = (normalise(f32s("in.text")), normalise(f32s("in.image")));
    let points = HierarcapsPoints {
        spec: &ManifoldSpec::sphere(32),
        root: &root,
        tiers: &tiers,
        texts: &texts,
        images: &images,
    };
    let records = hierarcaps_records(&points, 50, Score::Similarity, 0).unwrap();
    for (metric, key) in [("precision", "out.precision"), ("recall", "out.recall"), ("tau_d", "out.tau_d")] {
        let (found, expected) = (value(&records, "all", metric), f64_of(key));
        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{metric}: {found} vs {expected}");
    }
}

/// Points that are a function of the words, or of the colours of a picture.
struct Hashed;

impl Hashed {
    const SPEC: fn() -> ManifoldSpec = || ManifoldSpec::lorentz(4, 1.0);

    fn point(bytes: &[u8]) -> [f32; 4] {
        std::array::from_fn(|i| {
            let sum = bytes.iter().fold(i as u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            (sum >> 40) as f32 / (1 << 24) as f32 - 0.5
        })
    }
}

impl Embedder for Hashed {
    fn spec(&self) -> &ManifoldSpec {
        static SPEC: std::sync::OnceLock<ManifoldSpec> = std::sync::OnceLock::new();
        SPEC.get_or_init(Self::SPEC)
    }
    fn root(&self) -> Result<Root> {
        Ok(Root::Origin)
    }
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>> {
        Ok(texts.iter().flat_map(|text| Self::point(text.as_bytes())).collect())
    }
    fn images(&self, images: &[ImageRef], _: EvalCrop) -> Result<Vec<f32>> {
        let open = |image: &ImageRef| Self::point(&image.open(&conifer_data::PixelLimits::default()).unwrap().rgb);
        Ok(images.iter().flat_map(open).collect())
    }
}

/// Every benchmark on the toy world: what a record promises, the same numbers twice, and each lack named.
#[test]
fn every_benchmark_obeys_the_laws() {
    use conifer_data::toy::{Split, ToyConfig, ToyWorld, tree};
    let world =
        ToyWorld::new(ToyConfig { size: 12, resolution: 32, split: Split::Test, ..ToyConfig::default() }).unwrap();
    let gallery = world.gallery(1).unwrap();
    let tree = tree().unwrap();
    let mut names = Vec::new();
    for benchmark in BENCHMARKS {
        let name = benchmark.name();
        names.push(name);
        assert!(!benchmark.summary().is_empty() && !benchmark.reference().is_empty(), "{name}");
        let source: &dyn Source = if benchmark.needs().contains(&Input::Labels) { &gallery } else { &world };
        let options = Options::default();
        let context = Context { embedder: &Hashed, source, tree: Some(&tree), options: &options };
        let records = benchmark.run(&context).unwrap();
        assert!(!records.is_empty(), "{name}");
        for record in &records {
            let what = format!("{name}: {record:?}");
            assert_eq!(record.benchmark, name);
            assert!(record.n > 0 && record.value.is_finite() && !record.protocol.is_empty(), "{what}");
            if let Some([low, high]) = record.interval {
                assert!(low <= record.value + 1e-9 && record.value <= high + 1e-9, "{what}");
            }
            if let Some(trivial) = &record.baseline {
                assert!(trivial.value.is_finite() && !trivial.name.is_empty(), "{what}");
            }
        }
        assert!(records.iter().any(|record| record.baseline.is_some()), "{name}: no trivial answer beside any number");
        assert!(records.iter().any(|record| record.interval.is_some()), "{name}: no interval on any number");
        let mut keys: Vec<_> =
            records.iter().map(|it| (&it.split, &it.metric, it.baseline.as_ref().map(|it| &it.name))).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), records.len(), "{name}: two records of one name");
        assert_eq!(benchmark.run(&context).unwrap(), records, "{name}: the same seed gives the same numbers");

        let bare = |sample: Sample| Sample { id: sample.id, ..Sample::default() };
        let lacking = List((0..source.len()).map(|index| bare(source.get(index).unwrap())).collect());
        let message = benchmark.run(&Context { source: &lacking, ..context }).unwrap_err().to_string();
        assert!(message.contains(name), "{name}: {message}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), BENCHMARKS.len());
}
