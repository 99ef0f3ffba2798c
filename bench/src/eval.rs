//! Cases `eval_*`: the scoring of the evaluation on given points, without encoders. `torch_eval.py` computes the same
//! points with the same formula.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, ImageRef, Picture, Sample, Source, View};
use conifer_eval::benchmarks::{HierarcapsPoints, find, hierarcaps_records};
use conifer_eval::{Context, EmbeddingModel, Error, Options, Record, Score, measure};
use conifer_geometry::{ManifoldSpec, Root, space};

use crate::BenchNumbers;

const DIM: usize = 512;
const FACTORS: usize = 64;
const PHOTOS: usize = 50_000;
const CLASSES: usize = 1_000;
const RETRIEVED: usize = 5_000;
const CAPTIONS: usize = 5;
const CHAINS: usize = 1_000;
const TIERS: usize = 4;
const LEVELS: usize = 50;

/// Builds the case `classify_SPACE`, `retrieve_SPACE` or `hierarcaps`. Its result is the numbers on which both sides
/// must agree.
pub(crate) fn case(name: &str) -> anyhow::Result<BenchNumbers> {
    let mut reported = false;
    let (run, wanted): (EvalRun, &'static [[&str; 2]]) = match name.split_once('_') {
        Some(("classify", kind)) => (classify(kind)?, &[["all", "accuracy (macro)"]]),
        Some(("retrieve", kind)) => (
            retrieve(kind)?,
            &[
                ["image_to_text", "recall@1"],
                ["image_to_text", "recall@5"],
                ["image_to_text", "recall@10"],
                ["text_to_image", "recall@1"],
                ["text_to_image", "recall@5"],
                ["text_to_image", "recall@10"],
            ],
        ),
        _ if name == "hierarcaps" => (hierarcaps()?, &[["all", "precision"], ["all", "recall"], ["all", "tau_d"]]),
        _ => bail!("unknown case `eval_{name}`"),
    };
    let name = name.to_owned();
    Ok(Box::new(move || {
        let records = run()?;
        if !reported {
            reported = true;
            let start = Instant::now();
            let there = records
                .iter()
                .filter_map(|it| {
                    let outcomes = it.outcomes.as_ref()?;
                    outcomes.interval(&outcomes.units(it.clusters.as_deref()), 0)
                })
                .count();
            let ms = start.elapsed().as_secs_f64() * 1e3;
            writeln!(std::io::stderr(), "eval_{name}: {ms:.1} ms of this time are spent on {there} intervals")?;
        }
        // The first matching record belongs to the first protocol, which is the released one for HierarCaps.
        let value = |[split, metric]: &[&str; 2]| {
            let record = records.iter().find(|it| it.split == *split && it.metric == *metric);
            record.map(|it| it.value).with_context(|| format!("no {metric} of {split}"))
        };
        wanted.iter().map(value).collect()
    }))
}

type EvalRun = Box<dyn Fn() -> conifer_eval::Result<Vec<Record>>>;

/// 50,000 photos and 1,000 classes with one prompt each. The tangent vector of a photo is 0.2 times that of its class
/// plus noise of full size.
fn classify(kind: &str) -> anyhow::Result<EvalRun> {
    let spec = spec(kind)?;
    let scale = scale(kind);
    let photo = |i: usize, j: usize| scale * (0.2 * noise(0, i % CLASSES, j) + noise(1, i, j));
    let texts = points(&spec, CLASSES, |i, j| scale * noise(0, i, j))?;
    let images = points(&spec, PHOTOS, photo)?;
    let sample = |i: usize| Sample { label: Some(format!("class {:04}", i % CLASSES)), ..bare(i) };
    run("zero_shot_classification", FixedEmbedder { spec, texts, images }, (0..PHOTOS).map(sample).collect())
}

/// 5,000 photos with five captions each. The tangent vector of a caption is 0.2 times that of its photo plus noise of
/// full size.
fn retrieve(kind: &str) -> anyhow::Result<EvalRun> {
    let spec = spec(kind)?;
    let scale = scale(kind);
    let caption = |i: usize, j: usize| scale * (0.2 * noise(2, i / CAPTIONS, j) + noise(3, i, j));
    let images = points(&spec, RETRIEVED, |i, j| scale * noise(2, i, j))?;
    let texts = points(&spec, RETRIEVED * CAPTIONS, caption)?;
    let sample =
        |i: usize| Sample { captions: (0..CAPTIONS).map(|k| format!("caption {k} of photo {i}")).collect(), ..bare(i) };
    run("cross_modal_retrieval", FixedEmbedder { spec, texts, images }, (0..RETRIEVED).map(sample).collect())
}

/// The benchmark as a user runs it, including the intervals, with an embedder that returns the given points.
fn run(benchmark: &'static str, given: FixedEmbedder, samples: Vec<Sample>) -> anyhow::Result<EvalRun> {
    let benchmark = find(benchmark)?;
    let options = Options { templates: vec!["{}".into()], ..Options::default() };
    let source = SampleList(samples);
    Ok(Box::new(move || measure(benchmark, &Context::new(&given, &source, None, &options))))
}

/// 1,000 photos, 4,000 texts and 50 levels. A text is the root plus an offset that grows with its specificity. The
/// direction of the offset is the vector of its photo plus noise of three times that magnitude. All protocols of the
/// benchmark are measured, each with the baseline of shuffled photos.
fn hierarcaps() -> anyhow::Result<EvalRun> {
    let spec = ManifoldSpec::sphere(DIM);
    let root = points(&spec, 1, |_, j| noise(4, 0, j))?;
    let images = points(&spec, CHAINS, |i, j| noise(5, i, j))?;
    let text = |i: usize, j: usize| {
        let (photo, tier) = (i / TIERS, i % TIERS);
        let out = 0.2 * (tier + 1) as f64 * (1.0 + 0.2 * noise(6, i, 0));
        noise(4, 0, j) + out * (noise(5, photo, j) + 3.0 * noise(7, i, j))
    };
    let texts = points(&spec, CHAINS * TIERS, text)?;
    let tier = |photo: usize, tier: usize| format!("{}text of photo {photo}", "more ".repeat(tier));
    let tiers: Vec<Vec<String>> = (0..CHAINS).map(|i| (0..TIERS).map(|k| tier(i, k)).collect()).collect();
    let root = Root::Point(root.into_iter().map(f64::from).collect());
    Ok(Box::new(move || {
        let points = HierarcapsPoints {
            spec: &spec,
            root: &root,
            tiers: &tiers,
            texts: &texts,
            more_texts: &[],
            more_points: &[],
            images: &images,
        };
        hierarcaps_records(&points, &[LEVELS], Score::Similarity, 0)
    }))
}

/// The factors of a product have different curvatures, from 0.5 to 1.5.
fn spec(kind: &str) -> anyhow::Result<ManifoldSpec> {
    let curv: Vec<f64> = (0..FACTORS).map(|i| 0.5 + i as f64 / (FACTORS - 1) as f64).collect();
    Ok(match kind {
        "sphere" => ManifoldSpec::sphere(DIM),
        "euclidean" => ManifoldSpec::euclidean(DIM),
        "lorentz" => ManifoldSpec::lorentz(DIM, 1.0),
        "product_l1" => ManifoldSpec::product_l1(FACTORS, DIM / FACTORS, curv),
        "product_l2" => ManifoldSpec::product_l2(FACTORS, DIM / FACTORS, curv),
        _ => bail!("no case for the space `{kind}`"),
    })
}

/// Scale for tangent vectors of length about 1, in a product about 1 in each factor.
fn scale(kind: &str) -> f64 {
    if kind.starts_with("product") { 0.5 } else { 0.08 }
}

/// Points of `spec` from tangent vectors, computed in f64 and rounded once.
fn points(spec: &ManifoldSpec, rows: usize, tangent: impl Fn(usize, usize) -> f64) -> anyhow::Result<Vec<f32>> {
    let space = space::<f64>(spec)?;
    let (mut vector, mut point) = (vec![0.0; DIM], vec![0.0; DIM]);
    let mut all = Vec::with_capacity(rows * DIM);
    for i in 0..rows {
        vector.iter_mut().enumerate().for_each(|(j, v)| *v = tangent(i, j));
        space.lift(&vector, &mut point);
        all.extend(point.iter().map(|&v| v as f32));
    }
    Ok(all)
}

/// Deterministic noise in [-1, 1): lowbias32 (C. Wellons) of the position in the list with index `list`.
fn noise(list: u32, row: usize, column: usize) -> f64 {
    let mut x = (row * DIM + column) as u32 + (list << 26);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    f64::from(x ^ (x >> 16)) / f64::from(1_u32 << 31) - 1.0
}

/// A sample with a photo that is never opened.
fn bare(i: usize) -> Sample {
    let photo = Picture { width: 1, height: 1, rgb: vec![0; 3] };
    Sample { id: i.to_string(), image: Some(ImageRef::Pixels(Arc::new(photo))), ..Sample::default() }
}

/// Points of all texts and photos, in the order of the data set.
struct FixedEmbedder {
    spec: ManifoldSpec,
    texts: Vec<f32>,
    images: Vec<f32>,
}

impl FixedEmbedder {
    fn all(points: &[f32], asked: usize) -> conifer_eval::Result<Vec<f32>> {
        match asked == points.len() / DIM {
            true => Ok(points.to_vec()),
            false => Err(Error::Embedder(format!("{asked} points requested, {} available", points.len() / DIM))),
        }
    }
}

impl EmbeddingModel for FixedEmbedder {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }
    fn root(&self) -> conifer_eval::Result<Root> {
        Ok(Root::Origin)
    }
    fn texts(&self, texts: &[String]) -> conifer_eval::Result<Vec<f32>> {
        Self::all(&self.texts, texts.len())
    }
    fn images(&self, images: &[ImageRef], _: EvalCrop) -> conifer_eval::Result<Vec<f32>> {
        Self::all(&self.images, images.len())
    }
}

struct SampleList(Vec<Sample>);

impl Source for SampleList {
    fn name(&self) -> &str {
        "bench"
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Result<Sample, Broken> {
        Ok(self.0[index].clone())
    }
    fn views(&self) -> &[View] {
        &[View::Pair]
    }
    fn fingerprint(&self) -> String {
        String::new()
    }
}
