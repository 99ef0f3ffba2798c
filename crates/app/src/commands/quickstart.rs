//! The whole way in a minute or two: toy world, training, numbers, pictures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use conifer_atlas::{Block, Figure, Report, Series, histogram, line_chart};
use conifer_data::toy::{Split, ToyConfig, ToyWorld, tree};
use conifer_data::transform::EvalCrop;
use conifer_data::{Sample, Source};
use conifer_eval::benchmarks::find;
use conifer_eval::{Context, Options, Record};
use conifer_index::{Filter, FlatIndex, Place, Query, Ranking, Traversal};
use conifer_learn::config::Config;
use conifer_learn::embed::Embedder;
use conifer_learn::train::{Event, Outcome, Trainer};
use conifer_space::points::Element;
use conifer_space::{EmbeddingSet, Modality, space};

use super::embed::{Job, embed_all};
use super::train::watch;
use crate::cli::{EmbedView, Quickstart};
use crate::embedder::ModelEmbedder;
use crate::output::{columns, note, print, print_json};
use crate::pictures::thumbnail;
use crate::signal;

const CONFIG: &str = include_str!("../../../../configs/quickstart.toml");

/// Test scenes, and pictures of each class: enough that chance is far below what is learnt, few enough for seconds.
const SCENES: usize = 200;
const PER_CLASS: usize = 4;

pub(crate) fn run(args: Quickstart, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut config = Config::parse("quickstart.toml", CONFIG, &[])?;
    config.train.out = args.out.clone();
    if let Some(steps) = args.steps {
        config.train.steps = steps as u64;
        config.optim.warmup_steps = config.optim.warmup_steps.min(config.train.steps / 5);
    }
    config.check()?;
    prepare_folder(&args)?;
    let world: Arc<dyn Source> = conifer_data::open(&config.source())?.into();
    let mut trainer = Trainer::new(config, world, device)?;
    let test = TestData::new(trainer.config().model.visual.reads().image_size as u32)?;

    note("measuring the untrained model");
    let embedder = Embedder::new("untrained", trainer.model(), trainer.manifest(), trainer.tokenizer().clone())?;
    let untrained = measure(&ModelEmbedder::new(embedder), &test)?;
    let mut curves = Curves::default();
    let (outcome, _) = watch(&mut trainer, signal::stop_flag()?.as_ref(), &mut |event| curves.add(event))?;
    if outcome == Outcome::Stopped {
        bail!("stopped; go on with: conifer train --resume {}", args.out.display());
    }
    drop(trainer);

    let embedder = ModelEmbedder::open(&args.out, device)?;
    note("measuring the trained model");
    let trained = measure(&embedder, &test)?;
    let views = [EmbedView::Image, EmbedView::Text, EmbedView::BoxImage, EmbedView::BoxText];
    let job = Job {
        embedder: &embedder,
        source: &test.scenes,
        views: &views,
        crop: EvalCrop::Center,
        data: "toy test split",
        element: Element::F32,
        identity: BTreeMap::new(),
    };
    let set = args.out.join("embeddings");
    embed_all(&job, &set)?;
    let set = EmbeddingSet::load(&set)?;

    let seconds = started.elapsed().as_secs_f64();
    let page = args.out.join("report.html");
    report(&test, &set, &untrained, &trained, &curves, seconds)?.write(&page)?;
    if as_json {
        return print_json(
            &serde_json::json!({ "seconds": seconds, "untrained": untrained, "trained": trained, "report": page }),
        );
    }
    print(&format!(
        "{}\nreport      {}\ncheckpoint  {}\nembeddings  {}\n\n{seconds:.0} s. Try: conifer search {} --checkpoint {} --text \"a red car\" --modality image\n",
        columns(&comparison(&untrained, &trained)),
        page.display(),
        embedder.inner().name(),
        args.out.join("embeddings").display(),
        args.out.join("embeddings").display(),
        args.out.display(),
    ))
}

/// What a quickstart leaves in its folder.
const LEFT: [&str; 6] =
    ["config.toml", "metrics.jsonl", "checkpoints", "embeddings", "report.html", "events.out.tfevents"];

/// An earlier quickstart is only replaced when asked to, and nothing else ever is.
fn prepare_folder(args: &Quickstart) -> anyhow::Result<()> {
    let out = &args.out;
    let place = || out.display().to_string();
    if !out.exists() {
        return Ok(());
    }
    let entries = std::fs::read_dir(out).with_context(place)?.collect::<Result<Vec<_>, _>>().with_context(place)?;
    if entries.is_empty() {
        return Ok(());
    }
    if !args.fresh {
        bail!("{} is not empty; --fresh replaces an earlier quickstart, --out names another folder", place());
    }
    let names: Vec<String> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if let Some(other) = names.iter().find(|name| !LEFT.iter().any(|known| name.starts_with(known))) {
        bail!("{} holds `{other}`, which no quickstart made; --fresh deletes only what one leaves", place());
    }
    if !out.join("checkpoints").is_dir() {
        bail!("{} holds no run of conifer; --fresh deletes only those", place());
    }
    std::fs::remove_dir_all(out).with_context(place)
}

/// What the model has not seen.
struct TestData {
    scenes: ToyWorld,
    samples: Vec<Sample>,
    gallery: Box<dyn Source>,
    tree: conifer_data::hierarchy::Tree,
}

impl TestData {
    fn new(resolution: u32) -> anyhow::Result<Self> {
        let scenes = ToyWorld::new(ToyConfig { size: SCENES, resolution, split: Split::Test, ..ToyConfig::default() })?;
        let samples = (0..SCENES).map(|index| scenes.sample(index)).collect();
        Ok(Self { gallery: Box::new(scenes.gallery(PER_CLASS)?), scenes, samples, tree: tree()? })
    }
}

/// Retrieval, tiers and depth on scenes; classification on single objects.
fn measure(embedder: &ModelEmbedder, test: &TestData) -> anyhow::Result<Vec<Record>> {
    // The world's captions never say "a photo of".
    let options = Options { prompts: "a {}".into(), templates: vec!["a {}".into()], ..Options::default() };
    let mut records = Vec::new();
    let plan: [(&str, &dyn Source); 5] = [
        ("cross_modal_retrieval", &test.scenes),
        ("zero_shot_classification", test.gallery.as_ref()),
        ("hierarchical_classification", test.gallery.as_ref()),
        ("hierarcaps", &test.scenes),
        ("depth_order", &test.scenes),
    ];
    for (name, source) in plan {
        let context = Context::new(embedder, source, Some(&test.tree), &options);
        let measured = conifer_eval::measure(find(name)?, &context)?;
        // HierarCaps' other protocols and subsets say little of a toy world.
        let shown =
            |it: &Record| name != "hierarcaps" || (it.split == "all" && it.protocol.contains("released, similarity"));
        records.extend(measured.into_iter().filter(shown));
    }
    Ok(records)
}

/// Trained beside untrained beside trivial, one row per number.
fn comparison(untrained: &[Record], trained: &[Record]) -> Vec<Vec<String>> {
    let mut rows =
        vec![["benchmark", "split", "metric", "trained", "95 %", "untrained", "trivial"].map(String::from).to_vec()];
    for (before, after) in untrained.iter().zip(trained) {
        rows.push(vec![
            after.benchmark.clone(),
            after.split.clone(),
            after.metric.clone(),
            format!("{:.3}", after.value),
            after.interval.map_or_else(String::new, |[lo, hi]| format!("{lo:.3} .. {hi:.3}")),
            format!("{:.3}", before.value),
            after.baseline.as_ref().map_or_else(String::new, |it| format!("{:.3} {}", it.value, it.name)),
        ]);
    }
    rows
}

/// What training logged, over steps.
#[derive(Default)]
struct Curves {
    loss: Vec<Series>,
    scalars: Vec<Series>,
    gradient: Vec<(f64, f64)>,
}

impl Curves {
    fn add(&mut self, event: &Event<'_>) {
        let Event::Step(record) = event else { return };
        let step = record.step as f64;
        push(&mut self.loss, "loss", step, record.loss);
        for name in ["contrastive", "entailment"] {
            if let Some(value) = record.terms.get(name).and_then(serde_json::Value::as_f64) {
                push(&mut self.loss, name, step, value);
            }
        }
        for (name, value) in &record.scalars {
            // Of one scalar per factor, the mean is drawn.
            let mean = match value.as_array() {
                Some(all) => all.iter().filter_map(serde_json::Value::as_f64).sum::<f64>() / all.len().max(1) as f64,
                None => value.as_f64().unwrap_or(f64::NAN),
            };
            push(&mut self.scalars, name, step, mean);
        }
        self.gradient.push((step, record.gradient_norm));
    }

    fn charts(&self) -> Vec<String> {
        let mut charts = vec![line_chart("Loss", "step", &self.loss)];
        charts.extend(self.scalars.iter().map(|it| line_chart(&it.name, "step", std::slice::from_ref(it))));
        charts.push(line_chart(
            "Gradient norm",
            "step",
            &[Series { name: "norm".into(), points: self.gradient.clone() }],
        ));
        charts
    }
}

fn push(series: &mut Vec<Series>, name: &str, step: f64, value: f64) {
    match series.iter_mut().find(|it| it.name == name) {
        Some(it) => it.points.push((step, value)),
        None => series.push(Series { name: name.into(), points: vec![(step, value)] }),
    }
}

fn report(
    test: &TestData,
    set: &EmbeddingSet,
    untrained: &[Record],
    trained: &[Record],
    curves: &Curves,
    seconds: f64,
) -> anyhow::Result<Report> {
    let mut rows = comparison(untrained, trained);
    let head = rows.remove(0);
    let walks = (0..3).map(|i| walk(test, set, i)).collect::<anyhow::Result<Vec<_>>>()?;
    let finds = (0..4).map(|i| captions_of(test, set, i)).collect::<anyhow::Result<Vec<_>>>()?;
    let shown = (0..4).map(|i| photos_of(test, set, 20 * i)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Report {
        title: "conifer quickstart".into(),
        subtitle: format!(
            "PHyCLIP on the toy world, {} test scenes, {} rows embedded, {seconds:.0} s in all",
            SCENES,
            set.len()
        ),
        sections: vec![
            (
                "Numbers".into(),
                vec![
                    Block::Text("On scenes and pictures the model has not seen, beside the same model before training and a trivial answer.".into()),
                    Block::Table { head, rows },
                ],
            ),
            ("Training".into(), vec![Block::Charts(curves.charts())]),
            (
                "Depth: the general lies near the root".into(),
                vec![
                    Block::Text("Distance from the origin of every embedded photo, box, caption and phrase of the test scenes.".into()),
                    Block::Charts(vec![depths(set)?]),
                ],
            ),
            (
                "From a photo to the root".into(),
                std::iter::once(Block::Text(
                    "Walking the geodesic from a photo to the root: the texts whose cone contains the point, nearest first met.".into(),
                ))
                .chain(walks)
                .collect(),
            ),
            ("Captions found for photos".into(), finds),
            ("Photos found for captions".into(), shown),
        ],
    })
}

fn depths(set: &EmbeddingSet) -> anyhow::Result<String> {
    let space = space::<f64>(&set.spec)?;
    let of = |modality: Modality| {
        let rows = (0..set.len()).filter(|&row| set.modality[row] == modality);
        rows.map(|row| space.depth(&set.row(row).iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), &set.root))
            .collect::<Vec<_>>()
    };
    let groups = [Modality::BoxText, Modality::Text, Modality::BoxImage, Modality::Image]
        .map(|it| (it.name().replace('_', " "), of(it)));
    Ok(histogram("Depth", "distance from the root", &groups))
}

/// The strip from test photo `index` to the root.
fn walk(test: &TestData, set: &EmbeddingSet, index: usize) -> anyhow::Result<Block> {
    let sample = &test.samples[index];
    let row = row_of_photo(set, &sample.id)?;
    let filter = Filter::Modality(&[Modality::Text, Modality::BoxText]);
    let stops = FlatIndex::new(set)?.traverse_to_root(&Query::row(set, row), &Traversal::default(), &filter)?;
    let mut figures = vec![photo(sample, String::new(), false)];
    figures.extend(stops.iter().map(|stop| match stop.place {
        Place::Row(row) => Figure { caption: words(set, row), note: format!("at {:.2}", stop.at), ..Figure::default() },
        Place::Root => {
            Figure { caption: "[ROOT]".into(), note: format!("at {:.2}", stop.at), marked: true, ..Figure::default() }
        }
    }));
    Ok(Block::Strip { heading: sample.captions[0].clone(), figures })
}

/// A test photo and its five nearest captions.
fn captions_of(test: &TestData, set: &EmbeddingSet, index: usize) -> anyhow::Result<Block> {
    let sample = &test.samples[index];
    let query = Query::row(set, row_of_photo(set, &sample.id)?);
    let hits = FlatIndex::new(set)?.top_k(&query, Ranking::Distance, 5, &Filter::Modality(&[Modality::Text]))?.concat();
    let mut figures = vec![photo(sample, String::new(), false)];
    figures.extend(hits.iter().map(|hit| Figure {
        caption: words(set, hit.row),
        note: format!("{:.3}", hit.score),
        marked: set.columns["sample"][hit.row] == sample.id,
        png: None,
    }));
    Ok(Block::Strip { heading: format!("Photo {}", sample.id), figures })
}

/// A caption and its five nearest photos.
fn photos_of(test: &TestData, set: &EmbeddingSet, index: usize) -> anyhow::Result<Block> {
    let sample = &test.samples[index];
    let id = format!("{}#caption0", sample.id);
    let row = set.ids.iter().position(|it| *it == id).with_context(|| format!("no row `{id}`"))?;
    let hits = FlatIndex::new(set)?
        .top_k(&Query::row(set, row), Ranking::Distance, 5, &Filter::Modality(&[Modality::Image]))?
        .concat();
    let figures = hits
        .iter()
        .filter_map(|hit| {
            let found = test.samples.iter().find(|it| it.id == set.columns["sample"][hit.row])?;
            Some(photo(found, format!("{:.3}", hit.score), found.id == sample.id))
        })
        .collect();
    Ok(Block::Strip { heading: sample.captions[0].clone(), figures })
}

fn photo(sample: &Sample, note: String, marked: bool) -> Figure {
    Figure { png: sample.image.as_ref().and_then(|it| thumbnail(it, 160)), caption: String::new(), note, marked }
}

fn words(set: &EmbeddingSet, row: usize) -> String {
    set.columns["text"][row].clone()
}

fn row_of_photo(set: &EmbeddingSet, id: &str) -> anyhow::Result<usize> {
    (0..set.len())
        .find(|&row| set.modality[row] == Modality::Image && set.ids[row] == id)
        .with_context(|| format!("no photo `{id}` among the embeddings"))
}
