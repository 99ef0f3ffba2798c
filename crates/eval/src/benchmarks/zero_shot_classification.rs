use conifer_space::space;

use super::{Benchmark, Context, Input, images, lacking, prompts};
use crate::metrics::{accuracy, bootstrap_statistic};
use crate::record::{Baseline, Record};
use crate::score::similarity_rows;
use crate::{Error, Result};

/// Each photo goes to the class whose prompt ensemble is most similar.
///
/// A class is the mean of its prompts' points: `exp0(mean(log0(.)))` in a hyperbolic space, the normalised
/// mean on the sphere, which is what MERU and CLIP publish. Reported are the macro average (mean over
/// classes, what the MERU family prints for every data set) and the micro average.
pub(super) struct ZeroShotClassification;

impl Benchmark for ZeroShotClassification {
    fn name(&self) -> &'static str {
        "zero_shot_classification"
    }
    fn summary(&self) -> &'static str {
        "top-1 accuracy of photos against class prompts, macro and micro"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 1, PHyCLIP Table 1, MERU"
    }
    fn needs(&self) -> &'static [Input] {
        &[Input::Images, Input::Labels]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let it = classify(context, self.name())?;
        let classes = it.classes.len();
        let of = |rows: &[usize]| {
            let pick = |values: &[usize]| rows.iter().map(|&i| values[i]).collect::<Vec<_>>();
            accuracy(&pick(&it.predicted), &pick(&it.labels), classes)
        };
        let all: Vec<usize> = (0..it.labels.len()).collect();
        let value = of(&all);
        let record = |metric: &str, value: f64, interval| Record {
            benchmark: self.name().into(),
            split: "all".into(),
            protocol: it.protocol.clone(),
            metric: metric.into(),
            value,
            interval,
            n: all.len(),
            baseline: Baseline::chance(1.0 / classes as f64),
        };
        let seed = context.options.seed;
        Ok(vec![
            record(
                "accuracy (macro)",
                value.macro_average,
                bootstrap_statistic(all.len(), seed, |rows| of(rows).macro_average),
            ),
            record(
                "accuracy (micro)",
                value.micro_average,
                bootstrap_statistic(all.len(), seed, |rows| of(rows).micro_average),
            ),
        ])
    }
}

/// What a classifier answered.
pub(super) struct Classified {
    pub(super) classes: Vec<String>,
    pub(super) predicted: Vec<usize>,
    pub(super) labels: Vec<usize>,
    pub(super) protocol: String,
}

/// Classifies every photo of the data set.
pub(super) fn classify(context: &Context<'_>, benchmark: &'static str) -> Result<Classified> {
    let samples = context.samples(benchmark)?;
    let names = samples
        .iter()
        .map(|it| {
            it.label.clone().ok_or_else(|| lacking(benchmark, it, "the label", "each sample needs a class label"))
        })
        .collect::<Result<Vec<String>>>()?;
    let mut classes = names.clone();
    classes.sort();
    classes.dedup();
    let templates = &context.options.templates;
    if templates.is_empty() || templates.iter().any(|template| !template.contains("{}")) {
        return Err(Error::Argument {
            name: "templates".into(),
            found: format!("{templates:?}"),
            expected: "at least one, each with {} for the class name".into(),
        });
    }
    let labels = names.iter().map(|name| classes.partition_point(|class| class < name)).collect();

    let spec = context.embedder.spec();
    let space = space::<f32>(spec)?;
    let prompts: Vec<String> = classes.iter().flat_map(|class| prompts::fill(templates, class)).collect();
    let points = context.embedder.texts(&prompts)?;
    let mut centres = vec![0.0; classes.len() * spec.dim];
    for (centre, ensemble) in centres.chunks_mut(spec.dim).zip(points.chunks(spec.dim * templates.len())) {
        space.mean(&ensemble.chunks(spec.dim).collect::<Vec<_>>(), centre);
    }
    let photos = context.embedder.images(&images(benchmark, &samples)?, context.options.crop)?;
    let predicted =
        similarity_rows(space.as_ref(), context.options.score, &photos, &centres, |_, scores| first_maximum(scores));
    let protocol = format!("{} prompts, {}", templates.len(), context.options.score.name());
    Ok(Classified { classes, predicted, labels, protocol })
}

/// Index of the largest score, the first among equals.
pub(super) fn first_maximum(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, j| if scores[j] > scores[best] { j } else { best })
}
