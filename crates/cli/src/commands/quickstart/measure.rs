//! The metrics of a quickstart.

use conifer_data::hierarchy::ClassGraph;
use conifer_data::transform::EvalCrop;
use conifer_data::{ImageRef, Source};
use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_eval::benchmarks::find;
use conifer_eval::{Baseline, Context, EmbeddingModel as _, Options, Record, RecordKey};
use conifer_geometry::space;
use conifer_index::{Direction, Filter, FlatIndex, Query, Ranking};
use conifer_toy::ToyClass;

use super::unseen::{ClassTreeNode, TestData, nodes};
use crate::embedder::ModelEmbedder;

/// A record with a title for readers who do not know the metrics.
pub(super) struct TitledRecord {
    pub(super) title: String,
    pub(super) record: Record,
}

/// Number of search hits that precision is computed for.
const FIRST: usize = 10;
/// Minimum number of classes below an inner node for it to be used as a query.
const MIN_CLASSES: usize = 3;

/// Prompt templates that resemble captions: the class alone, with an article, and as a photo.
const PROMPTS: [&str; 3] = ["{}", "a {}", "a photo of a {}"];

/// Computes all metrics that do not need the embedding set.
pub(super) fn measure(embedder: &ModelEmbedder, unseen: &TestData) -> anyhow::Result<Vec<TitledRecord>> {
    let templates = PROMPTS.map(str::to_owned).to_vec();
    let options = Options { prompts: "quickstart".into(), templates, ..Options::default() };
    let classes = ClassGraph::from(&unseen.tree);
    let run = |name: &str, source: &dyn Source| -> anyhow::Result<Vec<Record>> {
        let context = Context::new(embedder, source, Some(&classes), &options);
        Ok(conifer_eval::measure(find(name)?, &context)?)
    };
    let mut measured = Vec::new();
    let mut keep = |title: &str, records: Vec<Record>, wanted: &dyn Fn(&Record) -> bool, split: Option<&str>| {
        for mut record in records.into_iter().filter(wanted) {
            if let Some(split) = split {
                record.split = split.to_owned();
            }
            measured.push(TitledRecord { title: title.replace("{}", &record.split.replace('_', " ")), record });
        }
    };
    let accuracy = |record: &Record| record.metric == "accuracy (macro)";
    let zero_shot = "zero_shot_classification";
    keep("class of a picture, 80 classes", run(zero_shot, &unseen.seen)?, &accuracy, Some("seen"));
    keep(
        "the same, colours and places held out",
        run(zero_shot, &unseen.combinations)?,
        &accuracy,
        Some("held_out_combinations"),
    );
    let classes = class_records(embedder, unseen)?;
    for (title, record) in classes {
        keep(&title, vec![record], &|_| true, None);
    }
    keep(
        "caption and photo find each other, {}",
        run("cross_modal_retrieval", &unseen.scenes)?,
        &|it| it.metric == "recall@10",
        None,
    );
    keep(
        "chains of captions in order of depth",
        run("hierarcaps", &unseen.scenes)?,
        &|it| it.split == "all" && it.protocol.contains("released, similarity") && it.metric.starts_with("tau"),
        None,
    );
    keep("nearer to the root, {}", run("depth_order", &unseen.scenes)?, &|_| true, None);
    Ok(measured)
}

/// Metrics of the class tree: which inner node is nearest to photos of held-out classes, and the precision of searches
/// below an inner node.
fn class_records(embedder: &ModelEmbedder, unseen: &TestData) -> anyhow::Result<Vec<(String, Record)>> {
    let nodes = nodes();
    let inner: Vec<&ClassTreeNode> = nodes.iter().filter(|node| !node.is_leaf).collect();
    let texts: Vec<String> = inner.iter().map(|node| node.text.clone()).collect();
    let names = embedder.texts(&texts)?;
    let space = space::<f32>(embedder.spec())?;
    let dim = embedder.spec().dim;

    let (classes, photos) = pictures(embedder, &unseen.classes)?;
    let nearest = |photo: &[f32]| {
        let score = |i: usize| space.similarity(photo, &names[i * dim..(i + 1) * dim]);
        (0..inner.len()).max_by(|&a, &b| score(a).total_cmp(&score(b))).map(|it| inner[it].name)
    };
    let found: Vec<Option<&str>> = photos.chunks_exact(dim).map(nearest).collect();
    let share = |right: &dyn Fn(ToyClass, &str) -> bool| -> Vec<f64> {
        let hit = |(class, name): (&ToyClass, &Option<&str>)| name.is_some_and(|name| right(*class, name));
        classes.iter().zip(&found).map(|it| f64::from(u8::from(hit(it)))).collect()
    };
    let key = |split, metric| RecordKey { benchmark: "quickstart", split, protocol: "a + name", metric };
    let one_of = Baseline::chance(1.0 / inner.len() as f64);
    let ancestors = Baseline::chance(3.0 / inner.len() as f64);
    let parent = Record::of(
        key("held_out_classes", "nearest inner node is the parent"),
        share(&|class, name| class.path()[2] == name),
        one_of,
        0,
    );
    let above = Record::of(
        key("held_out_classes", "nearest inner node is above it"),
        share(&|class, name| class.is_a(name)),
        ancestors,
        0,
    );

    let (classes, photos) = pictures(embedder, &unseen.seen)?;
    let set = EmbeddingSet {
        spec: embedder.spec().clone(),
        root: embedder.root()?,
        ids: (0..classes.len()).map(|i| i.to_string()).collect(),
        modality: vec![Modality::Image; classes.len()],
        points: photos,
        columns: Default::default(),
        source: Default::default(),
    };
    let index = FlatIndex::new(&set)?;
    let (mut precision, mut chance) = (Vec::new(), 0.0);
    for (i, node) in inner.iter().enumerate() {
        if ToyClass::all().filter(|class| class.is_a(node.name)).count() < MIN_CLASSES {
            continue;
        }
        let query = Query::new(&set.spec, &names[i * dim..(i + 1) * dim]);
        let hits = index.top_k(&query, Ranking::Angle(Direction::Down), FIRST, &Filter::All)?.concat();
        let right = hits.iter().filter(|hit| classes[hit.row].is_a(node.name)).count();
        precision.push(right as f64 / FIRST as f64);
        chance += classes.iter().filter(|class| class.is_a(node.name)).count() as f64 / classes.len() as f64;
    }
    let chance = Baseline::chance(chance / precision.len().max(1) as f64);
    let narrower = Record::of(key("seen", "precision@10, narrower"), precision, chance, 0);
    Ok(vec![
        ("held-out class lies nearest to its parent".to_owned(), parent),
        ("held-out class lies nearest to a node above it".to_owned(), above),
        ("first ten photos below a general word are right".to_owned(), narrower),
    ])
}

/// The classes and points of the photos of a gallery.
fn pictures(embedder: &ModelEmbedder, gallery: &dyn Source) -> anyhow::Result<(Vec<ToyClass>, Vec<f32>)> {
    let samples = (0..gallery.len()).map(|index| gallery.get(index)).collect::<Result<Vec<_>, _>>()?;
    let classes = samples.iter().filter_map(|it| ToyClass::named(it.label.as_deref()?)).collect();
    let images: Vec<ImageRef> = samples.into_iter().filter_map(|it| it.image).collect();
    Ok((classes, embedder.images(&images, EvalCrop::Center)?))
}

/// Table rows: each metric after training, before training and of a trivial baseline.
pub(super) fn table(before: &[TitledRecord], after: &[TitledRecord]) -> Vec<Vec<String>> {
    let head = ["what", "trained", "95 %", "before", "trivial", "better than trivial"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (i, TitledRecord { title, record }) in after.iter().enumerate() {
        rows.push(vec![
            title.clone(),
            format!("{:.3}", record.value),
            record.interval.map_or_else(String::new, |[lo, hi]| format!("{lo:.3} .. {hi:.3}")),
            before.get(i).map_or_else(String::new, |it| format!("{:.3}", it.record.value)),
            record.baseline.as_ref().map_or_else(String::new, |it| format!("{:.3} {}", it.value, it.name)),
            better(record).unwrap_or_default().to_owned(),
        ]);
    }
    rows
}

/// Compares a record with its trivial baseline; differences within the confidence interval count as equal. `None` if
/// the record has no baseline.
pub(super) fn better(record: &Record) -> Option<&'static str> {
    let trivial = record.baseline.as_ref()?.value;
    let [low, high] = record.interval.unwrap_or([record.value; 2]);
    Some(match (low > trivial, high < trivial) {
        (true, _) => "better",
        (_, true) => "worse",
        _ => "as good",
    })
}
