//! Visual hierarchies: contrastive loss by angles, with several positives per query, on photographs alone. It places a
//! part behind its whole.
//!
//! Wang et al., "Learning Visual Hierarchies in Hyperbolic Space for Image Retrieval", ICCV 2025. X is the exterior
//! angle at the first argument, W the wholes of the batch, P the parts of the batch, P_x the parts of x and W_y the
//! wholes of y:
//!
//! ```text
//! whole query: beta  = pi - X(x, y)    a part lies straight behind its whole
//! part query:  alpha = X(y, x)         the whole lies back towards the root, at an angle of pi
//! down_x = -log( sum_{y in P_x} exp(beta_xy / tau) / sum_{y in P} exp(beta_xy / tau) )          mean over x in W
//! up_y   = -log( sum_{x in W_y} exp(alpha_xy / tau) / sum_{x in W} exp(alpha_xy / tau) )        mean over y in P
//! loss   = down + up
//! ```
//!
//! A crop is never a candidate for itself, nor for another crop of the same object. In Euclidean space X is the angle
//! of Eq. 10, as in the paper's Euclidean model.

use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::settings::{self, MethodSettings, TermSwitches};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::Result;
use crate::root::RootKind;
use crate::terms::angle_contrast;

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "photographs alone: parts behind their wholes, by a contrast of exterior angles with several positives",
    reference: REFERENCE,
    views: &[View::Edges],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: |dim| ManifoldSpec { curv: Vec::new(), ..ManifoldSpec::lorentz(dim, 1.0) },
    from_config: |table| Ok(Box::new(VisualHierarchies { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "visual_hierarchies";
const REFERENCE: &str = "Wang et al., ICCV 2025, Sec. 3.2";
const TERMS: &[&str] = &["contrast_whole_part", "contrast_part_whole"];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because no code is released.
    pub reference: bool,
    /// The terms, one per direction: `contrast_<query>_<candidates>`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self { reference, terms: TermSwitches::all(TERMS) }
    }

    fn check(&self) -> Result<()> {
        self.terms.check(TERMS)
    }
}

struct VisualHierarchies {
    config: Config,
}

impl Method for VisualHierarchies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        &[View::Edges]
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let edges = batch.edges(NAME)?;
        let (down, up) = angle_contrast(space, &edges.points, &edges.pair_labels(NAME)?);
        let mut terms = vec![("contrast_whole_part", 1.0, down), ("contrast_part_whole", 1.0, up)];
        terms.retain(|(name, ..)| self.config.terms.on(name));
        Loss::of_terms(space, terms)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::{Device, Tensor, TensorData};
    use conifer_geometry::{Root, space};

    use super::super::testkit::{Features, method, numbers, space_f64};
    use super::super::{BatchPoints, Edges};
    use super::*;

    /// Three photos (objects 0, 1, 2) and five crops of four boxes: object 4 is part of photos 0 and 1 and of box 3,
    /// and has two crops.
    const THINGS: [u32; 8] = [0, 1, 2, 3, 4, 4, 5, 6];
    const PARTS: [[u32; 2]; 6] = [[0, 3], [0, 4], [1, 4], [3, 4], [1, 5], [2, 6]];

    /// Compares the loss with the equations of the paper, computed in f64 on slices.
    #[test]
    fn loss_follows_the_equations_of_the_paper() {
        let points = Features::random(21, 8, 6).0[0].clone();
        let flat: Vec<f64> = points.iter().flatten().map(|x| 0.3 * x).collect();
        let device = Device::flex();
        let batch = BatchPoints {
            edges: Some(Edges {
                points: Tensor::from_data(TensorData::new(flat.clone(), [8, 6]), (&device, burn::tensor::DType::F64)),
                things: THINGS.to_vec(),
                parts: PARTS.to_vec(),
            }),
            ..BatchPoints::default()
        };
        let scale = 1.0 / 0.07;
        for spec in [ManifoldSpec::lorentz(6, 0.7), ManifoldSpec::euclidean(6)] {
            let logit_scale = Tensor::from_data(TensorData::new(vec![scale], [1]), (&device, burn::tensor::DType::F64));
            let plain = space::<f64>(&spec).unwrap();
            let row = |i: usize| &flat[6 * i..6 * (i + 1)];
            let angle = |x: usize, y: usize| plain.exterior_angle(row(x), row(y), &Root::Origin);
            let is_part = |x: usize, y: usize| PARTS.contains(&[THINGS[x], THINGS[y]]);
            let wholes: Vec<usize> = (0..8).filter(|&x| (0..8).any(|y| is_part(x, y))).collect();
            let parts: Vec<usize> = (0..8).filter(|&y| (0..8).any(|x| is_part(x, y))).collect();
            let contrast =
                |query: usize, others: &[usize], right: &dyn Fn(usize) -> bool, kappa: &dyn Fn(usize) -> f64| {
                    let sum = |of: &dyn Fn(usize) -> bool| {
                        let kept = others.iter().filter(|&&it| THINGS[it] != THINGS[query] && of(it));
                        kept.map(|&it| (scale * kappa(it)).exp()).sum::<f64>()
                    };
                    (sum(&|_| true) / sum(right)).ln()
                };
            let down = wholes
                .iter()
                .map(|&x| contrast(x, &parts, &|y| is_part(x, y), &|y| std::f64::consts::PI - angle(x, y)))
                .sum::<f64>()
                / wholes.len() as f64;
            let up = parts.iter().map(|&y| contrast(y, &wholes, &|x| is_part(x, y), &|x| angle(y, x))).sum::<f64>()
                / parts.len() as f64;
            let loss = method("visual_hierarchies", "").loss(&batch, &space_f64(&spec, None, logit_scale)).unwrap();
            let found = numbers(&loss.total)[0];
            assert!((found - (down + up)).abs() < 1e-9 * (down + up), "{spec}: {found} {}", down + up);
        }
    }
}
