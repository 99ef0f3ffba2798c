#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, ImageRef, Phrase, Picture, Sample, Source, Tiers, View, hierarchy::ClassGraph};
use conifer_geometry::{ManifoldSpec, Root};

use super::*;

/// Embedder with two-dimensional points, looked up by text or by the first pixel of a picture. Tests can compute
/// results on it by hand.
struct LookupEmbedder {
    spec: ManifoldSpec,
    texts: BTreeMap<String, [f32; 2]>,
    images: BTreeMap<u8, [f32; 2]>,
}

impl EmbeddingModel for LookupEmbedder {
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

struct BenchmarkSamples(Vec<Sample>);

impl Source for BenchmarkSamples {
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

fn run(name: &str, embedder: &LookupEmbedder, samples: Vec<Sample>, graph: Option<&ClassGraph>) -> Result<Vec<Record>> {
    let options = Options { templates: vec!["{}".into()], ..Options::default() };
    measure(find(name)?, &Context::new(embedder, &BenchmarkSamples(samples), graph, &options))
}

fn value(records: &[Record], split: &str, metric: &str) -> f64 {
    records
        .iter()
        .find(|r| r.split == split && r.metric == metric)
        .unwrap_or_else(|| panic!("{split} {metric} in {records:?}"))
        .value
}

fn euclidean(texts: &[(&str, [f32; 2])], images: &[(u8, [f32; 2])]) -> LookupEmbedder {
    LookupEmbedder {
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
    // Sample b is a dog, but nearest to cat. The other three are classified correctly.
    let samples = vec![label("a", 0, "cat"), label("b", 1, "dog"), label("c", 2, "taxi"), label("d", 0, "cat")];
    let records = run("zero_shot_classification", &embedder, samples.clone(), None).unwrap();
    assert_eq!(value(&records, "all", "accuracy (micro)"), 0.75);
    assert!((value(&records, "all", "accuracy (macro)") - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(records[0].baseline.as_ref().unwrap().value, 1.0 / 3.0);

    let edges = [("root", "animal"), ("animal", "cat"), ("animal", "dog"), ("root", "taxi")]
        .map(|(p, c)| (p.to_owned(), c.to_owned()));
    let tree = ClassGraph::from_edges(edges).unwrap();
    let records = run("hierarchical_classification", &embedder, samples.clone(), Some(&tree)).unwrap();
    assert_eq!(value(&records, "all", "TIE"), 0.5); // one of four answers is a sibling, at distance 2
    let error = run("hierarchical_classification", &embedder, samples, None).unwrap_err().to_string();
    assert!(error.contains("class tree"), "{error}");
    let mut unknown = vec![label("a", 0, "cat")];
    unknown[0].label = Some("dog".into());
    let small = ClassGraph::from_edges([("root".to_owned(), "cat".to_owned())]).unwrap();
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
    assert!((value(&records, "text_to_image", "recall@1") - 2.0 / 3.0).abs() < 1e-12); // a2 retrieves photo b first
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

/// `paper` levels go from the root to the text most similar to the photo; `released` levels go from the shallowest to
/// the deepest text of the data set.
#[test]
fn hierarcaps_levels_by_hand() {
    let spec = ManifoldSpec::euclidean(2);
    let tiers = [["a", "b"], ["c", "d"]].map(|row| row.map(str::to_owned).to_vec());
    let texts = [1.0, 0.0, 2.0, 0.0, 0.0, 4.0, 0.0, 8.0]; // texts a, b, c, d at depths 1, 2, 4, 8
    let images = [2.0, 0.1, 0.0, 4.1]; // photo x is nearest to text b; photo y to c, then to a, then to b
    let points = HierarcapsPoints {
        spec: &spec,
        root: &Root::Origin,
        tiers: &tiers,
        texts: &texts,
        more_texts: &[],
        more_points: &[],
        images: &images,
    };
    let records = hierarcaps_records(&points, &[50, 2], Score::Similarity, 0).unwrap();
    let of = |protocol: &str| {
        let find = |metric: &str| {
            let is = |it: &&Record| it.protocol == format!("{protocol}, similarity") && it.metric == metric;
            records.iter().find(is).unwrap_or_else(|| panic!("{protocol} {metric} in {records:?}")).value
        };
        (find("precision"), find("recall"))
    };
    // Photo x retrieves its own chain a, b. Photo y retrieves a and c; its own chain is c, d.
    assert_eq!(of("50 levels, released"), (0.75, 0.75));
    // Without text a, the chain of x is b, and the chain of y is c.
    assert_eq!(of("50 levels, paper"), (1.0, 0.5));
    assert_eq!(of("50 levels, released, first left out"), (1.0, 0.5));
    // The two released levels, 1 and 8, retrieve the same texts as fifty levels. With two paper levels, 0 and the depth
    // of the closest text, only the closest text is retrieved.
    assert_eq!(of("2 levels, released"), (0.75, 0.75));
    assert_eq!(of("2 levels, paper, first kept"), (1.0, 0.5));
    assert_eq!(of("2 levels, paper"), (0.0, 0.0));
    let tau = records.iter().find(|it| it.metric == "tau_d").unwrap();
    assert_eq!((tau.value, tau.n), (1.0, 2));
    let error = hierarcaps_records(&points, &[0], Score::Similarity, 0).unwrap_err().to_string();
    assert!(error.contains("steps is [0]"), "{error}");
}

#[test]
fn part_retrieval_by_hand() {
    use conifer_data::BBox;
    let painted = |photo: u8, left: u8, right: u8| {
        let pixel = |x: usize, y: usize| match (x, y) {
            (0, 0) => photo,
            (x, 1..) if x < 5 => left,
            _ => right,
        };
        let rgb = (0..100).flat_map(|i| [pixel(i % 10, i / 10); 3]).collect();
        Some(ImageRef::Pixels(std::sync::Arc::new(Picture { width: 10, height: 10, rgb })))
    };
    let half = |x1: f32, x2: f32| vec![BBox { x1, y1: 0.5, x2, y2: 1.0 }];
    let phrase = |text: &str, boxes: Vec<BBox>| Phrase { text: text.into(), boxes, ..Phrase::default() };
    let tiny = BBox { x1: 0.0, y1: 0.0, x2: 0.05, y2: 0.05 };
    let samples = vec![
        Sample {
            image: painted(0, 1, 2),
            phrases: vec![phrase("dog", half(0.0, 0.5)), phrase("cat", half(0.5, 1.0)), phrase("speck", vec![tiny])],
            ..sample("a", 0)
        },
        Sample { image: painted(5, 6, 6), phrases: vec![phrase("dog", half(0.0, 0.5))], ..sample("b", 0) },
    ];
    // Photo a is at (1, 0). Its dog lies straight behind it (seen from the origin), and its cat to the side. Photo b is
    // at (0, 1), with its dog straight behind it.
    let embedder =
        euclidean(&[], &[(0, [1.0, 0.0]), (1, [2.0, 0.0]), (2, [1.0, 2.0]), (5, [0.0, 1.0]), (6, [0.0, 2.0])]);
    let records = run("part_retrieval", &embedder, samples.clone(), None).unwrap();
    // The records are: 2 directions x 10 rankings x 4 metrics at small k; 8 rankings x 9 metrics (boxes) and 8 x 3
    // (photos) at large k; 2 directions x 4 rankings x 4 metrics over thresholds.
    assert_eq!(records.len(), 208);
    let value = |split: &str, protocol: &str| {
        let is = |it: &&Record| it.split == split && it.protocol == protocol && it.metric == "same class, top 5";
        records.iter().find(is).unwrap_or_else(|| panic!("{split} {protocol} in {records:?}")).clone()
    };
    // All three boxes are within the first five. All are correct for photo a, and the two dogs are correct for photo b.
    let found = value("photo_to_box", "cosine");
    assert!((found.value - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12 && found.n == 2, "{found:?}");
    assert_eq!(found.baseline.unwrap().value, found.value, "the first five of three boxes are all boxes");
    // With "other photos", photo a retrieves the dog of b (correct), and photo b retrieves the dog (correct) and the
    // cat (wrong) of a.
    let found = value("photo_to_box", "angle, other photos");
    assert!((found.value - (1.0 + 0.5) / 2.0).abs() < 1e-12, "{found:?}");
    // With boxes as queries, the dog of photo a retrieves photo b, which has a dog (correct). The cat of photo a also
    // retrieves b (wrong). The dog of photo b retrieves a (correct).
    let found = value("box_to_photo", "gated angle 2.5, other photos");
    assert!((found.value - 2.0 / 3.0).abs() < 1e-12 && found.n == 3, "{found:?}");

    let alone = run("part_retrieval", &embedder, samples[..1].to_vec(), None).unwrap_err().to_string();
    assert!(alone.contains("two photos with boxes"), "{alone}");
}

#[test]
fn a_gate_comes_before_the_cosine() {
    // There are six photos with a cat and six with a dog.
    use conifer_data::BBox;
    let painted = |photo: u8, part: u8| {
        let rgb = (0..100).flat_map(|i| [if i < 50 { photo } else { part }; 3]).collect();
        Some(ImageRef::Pixels(std::sync::Arc::new(Picture { width: 10, height: 10, rgb })))
    };
    let lower = vec![BBox { x1: 0.0, y1: 0.5, x2: 1.0, y2: 1.0 }];
    let one = |i: u8, class: &str| Sample {
        image: painted(2 * i, 2 * i + 1),
        phrases: vec![Phrase { text: class.into(), boxes: lower.clone(), ..Phrase::default() }],
        ..sample(&i.to_string(), 0)
    };
    let samples: Vec<Sample> = (0..12).map(|i| one(i, if i < 6 { "cat" } else { "dog" })).collect();
    // Cat photos lie between the root and the cat boxes. Dog photos lie in the same direction, but beyond the cat
    // boxes.
    let points: Vec<(u8, [f32; 2])> = (0..12)
        .flat_map(|i| {
            let (photo, part) = match i < 6 {
                true => ([1.0, 0.1 * f32::from(i)], [2.0, 0.0]),
                false => ([3.0, 0.0], [0.0, -2.0]),
            };
            [(2 * i, photo), (2 * i + 1, part)]
        })
        .collect();
    let records = run("part_retrieval", &euclidean(&[], &points), samples, None).unwrap();
    let cats = |protocol: &str| {
        let is =
            |it: &&Record| it.split == "box_to_photo" && it.protocol == protocol && it.metric == "same class, top 5";
        records.iter().find(is).unwrap().value
    };
    // The cosine prefers the dog photos, which do not pass the gate.
    assert!(cats("gated angle 2.5") > cats("cosine"), "{} {}", cats("gated angle 2.5"), cats("cosine"));
}

#[test]
fn empty_data_are_an_error() {
    let embedder = euclidean(&[], &[]);
    for benchmark in &BENCHMARKS {
        let error = run(
            benchmark.name(),
            &embedder,
            Vec::new(),
            Some(&ClassGraph::from_edges([("a".to_owned(), "b".to_owned())]).unwrap()),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains(benchmark.name()), "{error}");
    }
    assert!(find("nonsense").err().unwrap().to_string().contains("cross_modal_retrieval"));
}

#[test]
fn hierarcaps_and_depth_by_hand() {
    // The texts lie on a line at depths 1, 2 and 3. The photo at 3.2 retrieves all of them.
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
    // Without its first text, a chain of three has a third less recall and the same precision.
    let of = |protocol: &str, metric: &str| {
        let is = |it: &&Record| it.protocol == format!("50 levels, {protocol}, similarity") && it.metric == metric;
        records.iter().find(is).unwrap_or_else(|| panic!("{protocol} {metric} in {records:?}")).value
    };
    for protocol in ["released, first left out", "paper"] {
        assert_eq!((of(protocol, "precision"), of(protocol, "recall")), (1.0, 2.0 / 3.0), "{protocol}");
    }
    assert_eq!((of("paper, first kept", "precision"), of("paper, first kept", "recall")), (1.0, 1.0));
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

/// Compares with the released evaluator on random embeddings (`goldens/metrics/hierarcaps_retrieval_n400_steps50`).
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
        more_texts: &[],
        more_points: &[],
        images: &images,
    };
    let records = hierarcaps_records(&points, &[50], Score::Similarity, 0).unwrap();
    for (metric, key) in [("precision", "out.precision"), ("recall", "out.recall"), ("tau_d", "out.tau_d")] {
        let (found, expected) = (value(&records, "all", metric), f64_of(key));
        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{metric}: {found} vs {expected}");
    }
}

/// The sample of COCO val2017 in the shared data: 79 photos with 624 regions, 5 of which are crowds. `None` if the
/// folder is absent.
fn coco_mini() -> Option<Vec<Sample>> {
    use conifer_datasets::import;
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/coco_mini"));
    if !folder.exists() {
        eprintln!("skipped: {} not found", folder.display());
        return None;
    }
    let inputs = [("images", "val2017"), ("instances", "annotations/instances_val2017.json")];
    let spec = import::ImportSpec {
        kind: "instances".into(),
        inputs: inputs.map(|(name, path)| (name.to_owned(), folder.join(path))).into_iter().collect(),
        ..Default::default()
    };
    Some(import::read(&spec).unwrap().map(|it| it.unwrap()).collect())
}

/// Samples with the metadata of a data set.
struct DescribedSamples {
    name: &'static str,
    list: BenchmarkSamples,
    classes: Vec<ClassEntry>,
    complete: Option<usize>,
    left_out: Option<String>,
}

impl Source for DescribedSamples {
    fn name(&self) -> &str {
        self.name
    }
    fn len(&self) -> usize {
        self.list.len()
    }
    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        self.list.get(index)
    }
    fn views(&self) -> &[View] {
        self.list.views()
    }
    fn fingerprint(&self) -> String {
        self.list.fingerprint()
    }
    fn classes(&self) -> Vec<ClassEntry> {
        self.classes.clone()
    }
    fn complete(&self) -> Option<usize> {
        self.complete
    }
    fn left_out(&self) -> Option<String> {
        self.left_out.clone()
    }
}

/// Embedder whose points are hashes of the text, or of the pixels of a picture.
struct HashEmbedder;

impl HashEmbedder {
    const SPEC: fn() -> ManifoldSpec = || ManifoldSpec::lorentz(4, 1.0);

    fn point(bytes: &[u8]) -> [f32; 4] {
        std::array::from_fn(|i| {
            let sum = bytes.iter().fold(i as u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            (sum >> 40) as f32 / (1 << 24) as f32 - 0.5
        })
    }
}

impl EmbeddingModel for HashEmbedder {
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

/// Runs every benchmark on the toy world: checks the records, that the numbers are deterministic, and that missing
/// inputs are reported.
#[test]
fn every_benchmark_obeys_the_laws() {
    use conifer_toy::{ToyConfig, ToySplit, ToyWorld, tree};
    let world =
        ToyWorld::new(ToyConfig { size: 12, resolution: 32, split: ToySplit::Test, ..ToyConfig::default() }).unwrap();
    let gallery = world.gallery(1).unwrap();
    // 40 scenes are enough for a label with 25 samples, which vg_attribution requires.
    let contrasts = ToyConfig { size: 40, resolution: 32, split: ToySplit::Test, ..ToyConfig::default() };
    let contrasts = ToyWorld::new(contrasts).unwrap().contrasts();
    let grade = |index: usize| Sample { grade: Some((index % 4) as f64), ..world.get(index).unwrap() };
    let graded = BenchmarkSamples((0..Source::len(&world)).map(grade).collect());
    let tree = ClassGraph::from(&tree().unwrap());
    let mut names = Vec::new();
    for benchmark in &BENCHMARKS {
        let name = benchmark.name();
        names.push(name);
        assert!(!benchmark.summary().is_empty() && !benchmark.reference().is_empty(), "{name}");
        let of_classes = benchmark.needs().iter().any(|it| matches!(it, RequiredInput::Labels | RequiredInput::Taxa));
        let needs = benchmark.needs();
        let source: &dyn Source = match needs {
            [RequiredInput::GradedChains] => &graded,
            _ if needs.contains(&RequiredInput::WrongCaptions) => &contrasts,
            _ if of_classes => &gallery,
            _ => &world,
        };
        let options = Options::default();
        let context = Context::new(&HashEmbedder, source, Some(&tree), &options);
        let records = measure(*benchmark, &context).unwrap();
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
        assert!(records.iter().any(|record| record.baseline.is_some()), "{name}: no number has a baseline");
        assert!(records.iter().any(|record| record.interval.is_some()), "{name}: no number has an interval");
        let mut keys: Vec<_> = records
            .iter()
            .map(|it| (&it.split, &it.protocol, &it.metric, it.baseline.as_ref().map(|b| &b.name)))
            .collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), records.len(), "{name}: two records have the same name");
        assert_eq!(measure(*benchmark, &context).unwrap(), records, "{name}: the same seed gives the same numbers");

        let bare = |sample: Sample| Sample { id: sample.id, ..Sample::default() };
        let lacking = BenchmarkSamples((0..source.len()).map(|index| bare(source.get(index).unwrap())).collect());
        let message =
            benchmark.run(&Context::new(&HashEmbedder, &lacking, Some(&tree), &options)).unwrap_err().to_string();
        assert!(message.contains(name), "{name}: {message}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), BENCHMARKS.iter().len());
}

mod breeds;
mod contrasts;
mod detection;
mod hierarcaps;
mod hyperlex;
mod part_retrieval;
mod pep;
mod prompts;
mod taxonomic_ranks;
