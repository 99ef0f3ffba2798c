//! Independent implementations of UNCHA and ARGENT in f64 on plain vectors with an explicit time component, as in
//! [`oracle`](super::oracle).
#![allow(clippy::unwrap_used)]

use conifer_geometry::ManifoldSpec;
use conifer_model::head::HeadConfig;

use super::oracle::follows;
use super::testkit::{Features, head, head_with, method, scalars_of};

/// A point of the hyperboloid, its time component first.
type HyperboloidPoint = Vec<f64>;

/// The four views as points, and the values of the scalars.
struct LaterBatch {
    curv: f64,
    image: Vec<HyperboloidPoint>,
    text: Vec<HyperboloidPoint>,
    box_image: Vec<HyperboloidPoint>,
    box_text: Vec<HyperboloidPoint>,
    logit_scales: Vec<f64>,
}

impl LaterBatch {
    /// `scalars`: logarithms of the curvature, the visual scale, the textual scale and the logit scales.
    fn new(features: &Features, scalars: &[Vec<f64>; 4]) -> Self {
        let curv = scalars[0][0].exp();
        let lift = |view: usize| {
            let scale = scalars[1 + view % 2][0].exp();
            let row = |feature: &Vec<f64>| {
                let tangent: Vec<f64> = feature.iter().map(|x| x * scale).collect();
                let rapidity = curv.sqrt() * tangent.iter().map(|x| x * x).sum::<f64>().sqrt();
                let space = tangent.iter().map(|x| rapidity.sinh() / rapidity * x);
                std::iter::once(rapidity.cosh() / curv.sqrt()).chain(space).collect()
            };
            features.0[view].iter().map(row).collect::<Vec<_>>()
        };
        Self {
            curv,
            image: lift(0),
            text: lift(1),
            box_image: lift(2),
            box_text: lift(3),
            logit_scales: scalars[3].iter().map(|log| log.exp()).collect(),
        }
    }

    /// The Lorentzian inner product times the curvature: `c <x, y>_L`.
    fn inner(&self, x: &HyperboloidPoint, y: &HyperboloidPoint) -> f64 {
        self.curv * (x[1..].iter().zip(&y[1..]).map(|(a, b)| a * b).sum::<f64>() - x[0] * y[0])
    }

    fn dist(&self, x: &HyperboloidPoint, y: &HyperboloidPoint) -> f64 {
        (-self.inner(x, y)).acosh() / self.curv.sqrt()
    }

    fn angle(&self, parent: &HyperboloidPoint, child: &HyperboloidPoint) -> f64 {
        let inner = self.inner(parent, child);
        ((child[0] + parent[0] * inner) / (length(parent) * (inner * inner - 1.0).sqrt())).acos()
    }

    fn aperture(&self, parent: &HyperboloidPoint) -> f64 {
        (0.2 / (self.curv.sqrt() * length(parent))).min(1.0).asin()
    }

    /// Mean over queries of the cross entropy, with the logits of query i multiplied by `weight(i)`.
    fn contrast(
        &self,
        queries: &[HyperboloidPoint],
        candidates: &[HyperboloidPoint],
        scale: f64,
        weight: impl Fn(usize) -> f64,
    ) -> f64 {
        let row = |(i, query): (usize, &HyperboloidPoint)| {
            let logit = |k: usize| -scale * weight(i) * self.dist(query, &candidates[k]);
            (0..candidates.len()).map(|k| (logit(k) - logit(i)).exp()).sum::<f64>().ln()
        };
        queries.iter().enumerate().map(row).sum::<f64>() / queries.len() as f64
    }

    /// `max(0, X - eta w) + 0.1 X` of each row, with the exterior angle X and the half aperture w.
    fn residuals(&self, parents: &[HyperboloidPoint], children: &[HyperboloidPoint], eta: f64) -> Vec<f64> {
        let pairs = parents.iter().zip(children);
        pairs
            .map(|(parent, child)| {
                let angle = self.angle(parent, child);
                (angle - eta * self.aperture(parent)).max(0.0) + 0.1 * angle
            })
            .collect()
    }

    /// The loss of UNCHA. `constant` is the batch for the values that have no gradient.
    fn uncha(&self, constant: &Self) -> f64 {
        let scale = |softmax: usize| self.logit_scales[softmax % self.logit_scales.len()];
        let one = |_: usize| 1.0;
        let weight = |held: &Vec<HyperboloidPoint>, i: usize| (-uncertainty(&held[i]) / 2.0).exp();
        let contrastive = self.contrast(&self.image, &self.text, scale(0), one)
            + self.contrast(&self.text, &self.image, scale(0), one)
            + self.contrast(&self.box_image, &self.box_text, scale(1), one)
            + self.contrast(&self.box_text, &self.box_image, scale(1), one)
            + self.contrast(&self.box_image, &self.text, scale(2), |i| weight(&constant.box_image, i))
            + self.contrast(&self.box_text, &self.image, scale(2), |i| weight(&constant.box_text, i));

        let cones = 0.5 * mean(&self.residuals(&self.text, &self.image, 0.7))
            + 0.5 * mean(&self.residuals(&self.box_text, &self.box_image, 0.7))
            + 0.25 * mean(&self.residuals(&self.box_image, &self.image, 1.2))
            + 0.25 * mean(&self.residuals(&self.box_text, &self.text, 1.2));
        let calibration = |boxes: &[HyperboloidPoint], residuals: Vec<f64>| {
            let u: Vec<f64> = boxes.iter().map(uncertainty).collect();
            let sum: f64 = u.iter().map(|u| u.exp()).sum();
            let entropy: f64 = u.iter().map(|u| u.exp() / sum * (sum.ln() - u)).sum();
            let rows: Vec<f64> = residuals.iter().zip(&u).map(|(r, u)| r / (2.0 * u.exp()) + u / 2.0).collect();
            mean(&rows) + entropy
        };
        let calibrations = calibration(&self.box_image, constant.residuals(&constant.box_image, &constant.image, 1.2))
            + calibration(&self.box_text, constant.residuals(&constant.box_text, &constant.text, 1.2));
        contrastive / 2.0 + 0.2 * (cones + 10.0 * calibrations)
    }

    fn argent(&self, delta: f64) -> f64 {
        let scale = self.logit_scales[0];
        let contrast = |queries, candidates| self.contrast(queries, candidates, scale, |_| 1.0);
        let contrastive = contrast(&self.image, &self.text)
            + contrast(&self.text, &self.image)
            + contrast(&self.box_image, &self.text)
            + contrast(&self.box_text, &self.image);
        let entail = |parents: &[HyperboloidPoint], children: &[HyperboloidPoint], within: bool| {
            let row = |(parent, child): (&HyperboloidPoint, &HyperboloidPoint)| {
                let weight = if within { 1.0 - (-self.dist(parent, child)).exp() } else { 1.0 };
                let a = weight * self.angle(parent, child);
                if a <= delta { a * a / 2.0 } else { delta * (a - delta / 2.0) }
            };
            mean(&parents.iter().zip(children).map(row).collect::<Vec<_>>())
        };
        let entailment = entail(&self.text, &self.image, false)
            + entail(&self.box_text, &self.box_image, false)
            + entail(&self.box_image, &self.image, true)
            + entail(&self.box_text, &self.text, true);
        let norms = [&self.image, &self.text, &self.box_image, &self.box_text].map(|view| {
            let rows: Vec<f64> = view.iter().map(|x| length(x).powi(2) - 2.0 * length(x).ln()).collect();
            mean(&rows)
        });
        contrastive / 4.0 + 0.1 * entailment + 0.01 * mean(&norms)
    }
}

/// Euclidean length of the space components.
fn length(point: &HyperboloidPoint) -> f64 {
    point[1..].iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn uncertainty(point: &HyperboloidPoint) -> f64 {
    (1.0 + (-length(point)).exp()).ln()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn uncha_follows_the_equations() {
    let spec = ManifoldSpec::lorentz(12, 1.0);
    let three = HeadConfig { temperatures: vec![0.07, 0.05, 0.06], ..HeadConfig::default() };
    for (i, (settings, config)) in
        [("", &three), ("reference = true", &HeadConfig::default()), ("stop_gradients = false", &three)]
            .into_iter()
            .enumerate()
    {
        let features = Features::random(300 + i as u64, 10, 12);
        let head = head_with(&spec, config, 2.3);
        let constant = LaterBatch::new(&features, &scalars_of(&head));
        let method = method("uncha", settings);
        follows(&format!("uncha with `{settings}`"), &head, method.as_ref(), &features, |features, scalars| {
            let batch = LaterBatch::new(features, scalars);
            let passes = settings.starts_with("stop");
            batch.uncha(if passes { &batch } else { &constant })
        });
    }
}

#[test]
fn argent_follows_the_equations() {
    let spec = ManifoldSpec::lorentz(12, 1.0);
    for (i, (settings, delta)) in
        [("", 1.0), ("huber_delta = 0.3", 0.3), ("huber_delta = 3.2", 3.2)].into_iter().enumerate()
    {
        let features = Features::random(400 + i as u64, 10, 12);
        let method = method("argent", settings);
        follows(&format!("argent with `{settings}`"), &head(&spec), method.as_ref(), &features, |features, scalars| {
            LaterBatch::new(features, scalars).argent(delta)
        });
    }
}
