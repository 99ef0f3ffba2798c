//! The predictions of photos, and how often they are right.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use conifer_data::Sample;
use conifer_eval::prediction::{
    AnswerStatistics, JudgedAnswer, PhotoPaths, PredictionTree, ScoredPath, StoredThreshold, TruePosition,
    answer_statistics,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::calibration::{genus, positions};
use super::photos::PhotoSet;
use crate::output::{columns, note, print, print_json};

/// Everything that `predict` reports.
#[derive(Serialize)]
pub(super) struct PredictionReport {
    /// Share of answers that may be wrong.
    risk: f64,
    threshold: Option<f64>,
    temperature: f64,
    /// Two sentences: the photos for which the risk is guaranteed, and the limits for photos of other classes.
    pub(super) guarantee: [String; 2],
    calibration: Value,
    /// Number of photos with an answer.
    photos: usize,
    left_out: usize,
    /// Number of photos that are calibration photos, too.
    shared_with_calibration: usize,
    /// Number of answers at each depth below the lowest common ancestor of all classes.
    pub(super) answers_by_depth: Vec<usize>,
    /// Empty without labels.
    pub(super) results: Vec<MethodResult>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) predictions: Vec<PhotoPrediction>,
}

/// The prediction of a photo.
#[derive(Serialize)]
pub(super) struct PhotoPrediction {
    pub(super) id: String,
    /// The deepest node whose probability exceeds the threshold.
    pub(super) answer: String,
    /// Depth of the answer below the lowest common ancestor of all classes.
    pub(super) depth: usize,
    /// Probability of the answer.
    pub(super) probability: f64,
    /// From the root down to a class; the answer is one of its nodes.
    pub(super) path: Vec<PathStep>,
    /// The most probable class.
    pub(super) class: String,
    pub(super) class_probability: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) right: Option<bool>,
}

#[derive(Serialize)]
pub(super) struct PathStep {
    pub(super) name: String,
    pub(super) probability: f64,
}

/// Statistics of a method on a group of photos.
#[derive(Serialize)]
pub(super) struct MethodResult {
    pub(super) method: &'static str,
    /// `all`, `seen` or `unseen`.
    pub(super) group: &'static str,
    pub(super) threshold: Option<f64>,
    #[serde(flatten)]
    pub(super) statistics: AnswerStatistics,
}

/// A method and the node that it answers for a photo.
struct PredictionMethod {
    name: &'static str,
    threshold: Option<f64>,
    answer: Box<dyn Fn(&PhotoPaths) -> usize>,
}

/// Seed of the bootstrap intervals.
const SEED: u64 = 0;

impl PredictionReport {
    /// # Errors
    /// Some labels are in the tree and others are not.
    pub(super) fn new(
        stored: &StoredThreshold,
        classes: &PredictionTree,
        photos: &PhotoSet,
        paths: &[PhotoPaths],
        shared: usize,
        ignore_labels: bool,
    ) -> anyhow::Result<Self> {
        let truths = if ignore_labels { vec![None; paths.len()] } else { truths(classes, &photos.samples)? };
        let name = |node: usize| classes.tree().name(node).to_owned();
        let mut answers_by_depth = Vec::new();
        let mut predictions = Vec::with_capacity(paths.len());
        for ((sample, paths), truth) in photos.samples.iter().zip(paths).zip(&truths) {
            let path = &paths.greedy;
            let len = path.answer_len(stored.threshold);
            let answer = path.nodes()[len - 1];
            let depth = classes.depth(answer);
            if answers_by_depth.len() <= depth {
                answers_by_depth.resize(depth + 1, 0);
            }
            answers_by_depth[depth] += 1;
            let steps = path.nodes().iter().zip(path.scores());
            predictions.push(PhotoPrediction {
                id: sample.id.clone(),
                answer: name(answer),
                depth,
                probability: path.scores()[len - 1],
                path: steps.map(|(&node, &probability)| PathStep { name: name(node), probability }).collect(),
                class: name(paths.class),
                class_probability: paths.class_probability,
                label: sample.label.clone().filter(|_| !ignore_labels),
                right: truth.map(|truth| classes.is_right(answer, truth.node)),
            });
        }
        Ok(Self {
            risk: stored.risk,
            threshold: stored.threshold,
            temperature: stored.temperature,
            guarantee: stored.guarantee(),
            calibration: calibration(stored),
            photos: paths.len(),
            left_out: photos.left_out,
            shared_with_calibration: shared,
            answers_by_depth,
            results: results(stored, classes, &photos.samples, paths, &truths),
            predictions,
        })
    }

    /// Prints the summary, and the predictions if `with_predictions`.
    pub(super) fn print(mut self, as_json: bool, with_predictions: bool) -> anyhow::Result<()> {
        if self.shared_with_calibration > 0 {
            note(&format!(
                "{} of {} photos are calibration photos, too; the risk is kept only for other photos",
                self.shared_with_calibration, self.photos
            ));
        }
        if as_json {
            if !with_predictions {
                self.predictions.clear();
            }
            return print_json(&self);
        }
        let mut text = String::new();
        if with_predictions {
            text = columns(&self.rows()) + "\n";
        }
        text += &self.lines().join("\n");
        text += "\n";
        if !self.results.is_empty() {
            text += &format!("\n{}", columns(&self.table()));
        }
        print(&text)
    }

    /// Lines with the number of answers at each depth, the threshold, and the photos for which the risk is guaranteed.
    pub(super) fn lines(&self) -> Vec<String> {
        let answered = self.answers_by_depth.iter().enumerate();
        let answered: Vec<String> = answered.map(|(depth, count)| format!("{count} at depth {depth}")).collect();
        let threshold = self.threshold.map_or("none (only the root is answered)".into(), |it| format!("{it:.4}"));
        let [seen, unseen] = &self.guarantee;
        vec![
            format!("{} photos: {}", self.photos, answered.join(", ")),
            format!("threshold {threshold}, temperature {:.4}", self.temperature),
            seen.clone(),
            unseen.clone(),
        ]
    }

    /// Table of the predictions; the first row is the header.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let labelled = self.predictions.iter().any(|it| it.right.is_some());
        let mut head = vec!["id", "answer", "probability", "most probable class", "probability"];
        head.extend(labelled.then_some(["label", "right"]).into_iter().flatten());
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        rows.extend(self.predictions.iter().map(|it| {
            let mut row = vec![
                it.id.clone(),
                it.answer.clone(),
                format!("{:.3}", it.probability),
                it.class.clone(),
                format!("{:.3}", it.class_probability),
            ];
            if labelled {
                row.push(it.label.clone().unwrap_or_default());
                row.push(it.right.map_or("", |right| if right { "yes" } else { "no" }).to_owned());
            }
            row
        }));
        rows
    }

    /// Table of the results; the first row is the header.
    pub(super) fn table(&self) -> Vec<Vec<String>> {
        let head = ["method", "photos of", "n", "risk", "95 % interval", "mean depth", "right branch", "threshold"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.results.iter().map(|it| {
            let of = &it.statistics;
            vec![
                it.method.to_owned(),
                format!("{} classes", it.group),
                of.photos.to_string(),
                format!("{:.3}", of.risk),
                of.risk_interval.map_or_else(String::new, |[low, high]| format!("{low:.3} .. {high:.3}")),
                format!("{:.2}", of.mean_depth),
                format!("{:.3}", of.right_branch),
                it.threshold.map_or_else(String::new, |it| format!("{it:.4}")),
            ]
        }));
        rows
    }
}

/// The true position of each photo. All are `None` if no label is in the tree, because folders of photos have names
/// that are not classes.
///
/// # Errors
/// Some labels are in the tree and others are not.
fn truths(classes: &PredictionTree, samples: &[Sample]) -> anyhow::Result<Vec<Option<TruePosition>>> {
    let found: Vec<_> = samples.iter().map(|it| classes.position(it.label.as_deref(), &it.taxon)).collect();
    let labelled = samples.iter().filter(|it| it.label.is_some()).count();
    if found.iter().all(Option::is_none) {
        if labelled > 0 {
            note(&format!("--data: none of the {labelled} labels is in the class tree; the answers are not judged"));
        }
        return Ok(found);
    }
    for (sample, found) in samples.iter().zip(&found) {
        if sample.label.is_some() && found.is_none() {
            let error = positions("--data", classes, std::slice::from_ref(sample)).err();
            bail!("{}; or --ignore-labels, to predict only", error.map(|it| it.to_string()).unwrap_or_default());
        }
    }
    Ok(found)
}

/// Statistics of all methods on all labelled photos, on photos of the classes that the model chooses from (`seen`),
/// and on photos of other classes (`unseen`).
fn results(
    stored: &StoredThreshold,
    classes: &PredictionTree,
    samples: &[Sample],
    paths: &[PhotoPaths],
    truths: &[Option<TruePosition>],
) -> Vec<MethodResult> {
    let cut = |name, threshold: Option<f64>, path: fn(&PhotoPaths) -> &ScoredPath| PredictionMethod {
        name,
        threshold,
        answer: Box::new(move |paths| path(paths).answer(threshold)),
    };
    let methods = [
        cut("class tree", stored.threshold, |it| &it.greedy),
        cut("flat softmax, backing off", stored.flat.back_off, |it| &it.flat),
        cut("flat softmax, class or root", stored.flat.reject, |it| &it.reject),
        PredictionMethod { name: "top-1 class", threshold: None, answer: Box::new(|it| it.class) },
    ];
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut judged: Vec<(&PhotoPaths, TruePosition, u32)> = Vec::new();
    for ((sample, paths), truth) in samples.iter().zip(paths).zip(truths) {
        let Some(truth) = *truth else { continue };
        let next = numbers.len() as u32;
        judged.push((paths, truth, *numbers.entry(genus(classes.tree(), sample)).or_insert(next)));
    }
    let mixed = judged.iter().any(|it| it.1.seen) && judged.iter().any(|it| !it.1.seen);
    let mut results = Vec::new();
    for (group, seen) in [("all", None), ("seen", Some(true)), ("unseen", Some(false))] {
        // If all photos are `seen` or all are `unseen`, the group `all` equals that group.
        if seen.is_none() && !mixed {
            continue;
        }
        let group_photos: Vec<_> = judged.iter().filter(|it| seen.is_none_or(|seen| it.1.seen == seen)).collect();
        // Errors of photos of the same unseen genus are not independent, so the bootstrap of the risk draws genera.
        let genera: Option<Vec<u32>> = (seen == Some(false)).then(|| group_photos.iter().map(|it| it.2).collect());
        for PredictionMethod { name, threshold, answer } in &methods {
            let answers: Vec<JudgedAnswer> = group_photos
                .iter()
                .map(|(paths, truth, _)| JudgedAnswer { answer: answer(paths), truth: *truth })
                .collect();
            let statistics = answer_statistics(classes, &answers, genera.as_deref(), SEED);
            results.extend(statistics.map(|statistics| MethodResult {
                method: name,
                group,
                threshold: *threshold,
                statistics,
            }));
        }
    }
    results
}

fn calibration(stored: &StoredThreshold) -> Value {
    json!({ "seen": stored.calibration, "unseen": stored.unseen })
}

/// Prints the result of a calibration without photos to predict.
pub(super) fn print_calibration(stored: &StoredThreshold, path: &Path, as_json: bool) -> anyhow::Result<()> {
    let [seen, unseen] = stored.guarantee();
    if as_json {
        return print_json(&json!({
            "out": path,
            "risk": stored.risk,
            "threshold": stored.threshold,
            "temperature": stored.temperature,
            "guarantee": [seen, unseen],
            "calibration": calibration(stored),
        }));
    }
    let threshold = stored.threshold.map_or("none".to_owned(), |it| format!("{it:.4}"));
    print(&format!(
        "threshold {threshold}, temperature {:.4} -> {}\n{seen}\n{unseen}\n",
        stored.temperature,
        path.display()
    ))
}
