//! Training curves of the quickstart's report.

use conifer_train::trainer::Event;
use conifer_viz::{Series, line_chart};

/// The logged series, by chart.
#[derive(Default)]
pub(super) struct TrainingCurves {
    loss: Vec<Series>,
    scalars: Vec<Series>,
    gradient: Vec<(f64, f64)>,
}

impl TrainingCurves {
    pub(super) fn add(&mut self, event: &Event<'_>) {
        let Event::Step(record) = event else { return };
        let step = record.step as f64;
        push(&mut self.loss, "total", step, record.loss);
        for (name, title) in
            [("contrastive", "which text belongs to which photo"), ("entailment", "general above specific")]
        {
            if let Some(value) = record.terms.get(name).and_then(serde_json::Value::as_f64) {
                push(&mut self.loss, title, step, value);
            }
        }
        for (name, value) in &record.scalars {
            // If there is one scalar per factor, plot the mean.
            let mean = match value.as_array() {
                Some(all) => all.iter().filter_map(serde_json::Value::as_f64).sum::<f64>() / all.len().max(1) as f64,
                None => value.as_f64().unwrap_or(f64::NAN),
            };
            push(&mut self.scalars, title_of(name), step, mean);
        }
        self.gradient.push((step, record.gradient_norm));
    }

    pub(super) fn charts(&self) -> Vec<String> {
        let mut charts = vec![line_chart("Loss: falls while the model learns", "training step", &self.loss)];
        charts.extend(self.scalars.iter().map(|it| line_chart(&it.name, "training step", std::slice::from_ref(it))));
        let norm = Series { name: "norm".into(), points: self.gradient.clone() };
        charts.push(line_chart("Size of the gradient", "training step", &[norm]));
        charts
    }
}

/// The chart title of a logged scalar.
fn title_of(name: &str) -> &str {
    match name {
        "logit_scale" => "Sharpness of the comparison (inverse temperature)",
        "curv" | "curvs" => "Curvature of the space",
        name if name.starts_with("visual") => "Scale of photos before they enter the space",
        name if name.starts_with("textual") => "Scale of texts before they enter the space",
        other => other,
    }
}

fn push(series: &mut Vec<Series>, name: &str, step: f64, value: f64) {
    match series.iter_mut().find(|it| it.name == name) {
        Some(it) => it.points.push((step, value)),
        None => series.push(Series { name: name.into(), points: vec![(step, value)] }),
    }
}
