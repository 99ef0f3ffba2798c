//! HCL: contrastive loss of objects by their directions, and of scenes and their objects by the hyperbolic distance.
//!
//! Ge et al., "Hyperbolic Contrastive Learning for Visual Representations beyond Objects", CVPR 2023. z and z' are
//! crops of objects, s a scene, o objects, d the distance of the space and S the cosine:
//!
//! ```text
//! object = -log( sum_{z' of the same} exp(S(z, z') / tau) / sum_{z'} exp(S(z, z') / tau) )       over crops of objects
//! scene  = -log( sum_{o in s} exp(-d(s, o) / tau) / sum_o exp(-d(s, o) / tau) )
//! total  = object + hyperbolic_weight scene
//! ```
//!
//! z and s are points of the trained model. With `negatives = "queue"`, the paper's form, z' and o are points of a
//! momentum encoder ([`MomentumKeys`]): the positives come from the batch, and the negatives from earlier batches. With
//! `negatives = "batch"`, z' and o are points of the batch, embedded by the trained model. With `data.edges.copies = 1`
//! no object has a second crop, and the term `object` is absent. DEVIATIONS.md has the differences to the released
//! code.

use burn::tensor::{Bool, Tensor};
use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use conifer_geometry_tensor::manifold;
use conifer_kernels::PairLabels;
use serde::{Deserialize, Serialize};

use super::edges::SamePartCrops;
use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Edges, Loss, Method, MethodEntry, MomentumKeys, MomentumSettings};
use crate::root::RootKind;
use crate::terms::{masks, multi_positive_contrast, select};
use crate::{Error, Result};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "photographs alone: two crops of an object by their cosine, scenes and objects by the hyperbolic distance",
    reference: REFERENCE,
    views: &[View::Edges],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: |dim| ManifoldSpec { curv: Vec::new(), ..ManifoldSpec::lorentz(dim, 1.0) },
    from_config: |table| Ok(Box::new(Hcl { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "hcl";
const REFERENCE: &str = "Ge et al., CVPR 2023, Sec. 3";
const TERMS: &[&str] = &["contrast_object_object", "contrast_scene_object"];

/// Largest queue: 2^24 points, 8 GB at 128 dimensions.
const MAX_QUEUE: usize = 1 << 24;

/// Source of the negatives of both contrastive terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Negatives {
    /// A queue of points of a momentum encoder.
    Queue,
    /// The batch. The method then has no momentum encoder.
    Batch,
}

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because paper and released code agree on the loss.
    pub reference: bool,
    /// Where the negatives come from: `queue`.
    pub negatives: Negatives,
    /// Momentum of the momentum encoder: 0.999, as in MoCo v2. Used only with a queue.
    pub momentum: f64,
    /// Number of points in the queue: 65,536, as in MoCo v2. Used only with a queue.
    pub queue_size: usize,
    /// Weight of the hyperbolic term: 0.1.
    pub hyperbolic_weight: f64,
    /// The terms: `contrast_<query>_<candidates>`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self {
            reference,
            negatives: Negatives::Queue,
            momentum: 0.999,
            queue_size: 65_536,
            hyperbolic_weight: 0.1,
            terms: TermSwitches::all(TERMS),
        }
    }

    fn check(&self) -> Result<()> {
        number("hyperbolic_weight", self.hyperbolic_weight, |x| x >= 0.0, "0 or more")?;
        number("momentum", self.momentum, |x| (0.0..1.0).contains(&x), "at least 0 and less than 1")?;
        if !(1..=MAX_QUEUE).contains(&self.queue_size) {
            return Err(Error::invalid("method.queue_size", self.queue_size, format!("1 to {MAX_QUEUE}")));
        }
        self.terms.check(TERMS)
    }
}

struct Hcl {
    config: Config,
}

impl Method for Hcl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        &[View::Edges]
    }

    fn momentum(&self) -> Option<MomentumSettings> {
        let Config { negatives, momentum, queue_size, .. } = self.config;
        (negatives == Negatives::Queue).then_some(MomentumSettings { momentum, queue_size })
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let edges = batch.edges(NAME)?;
        let labels = edges.pair_labels(NAME)?;
        let keys = match self.config.negatives {
            Negatives::Queue => Some(batch.keys(NAME)?),
            Negatives::Batch => None,
        };
        if let Some(keys) = keys {
            keys.check(labels.parts().len(), edges.points.dims()[1])?;
        }
        let mut terms = Vec::new();
        if self.config.terms.on("contrast_object_object")
            && let Some(crops) = edges.same_part_crops(&labels)
        {
            terms.push(("contrast_object_object", 1.0, object_term(space, crops, keys)?));
        }
        if self.config.terms.on("contrast_scene_object") {
            let values = scene_term(space, edges, &labels, keys);
            terms.push(("contrast_scene_object", self.config.hyperbolic_weight, values));
        }
        Loss::of_terms(space, terms)
    }
}

/// Contrastive loss of crops by their cosine; the positives are the other crops of the same object.
fn object_term(space: &BatchSpace, crops: SamePartCrops, keys: Option<&MomentumKeys>) -> Result<Tensor<1>> {
    let SamePartCrops { points, positions, positive, same } = crops;
    let candidates = keys.map_or_else(|| points.clone(), |keys| keys.candidates(&positions));
    let [positive, left_out] = candidate_masks(positive, same, keys);
    let sphere = manifold(&ManifoldSpec::sphere(points.dims()[1]), None)?;
    // The cosines between the directions of points as seen from the origin.
    let directions = |points| sphere.lift(space.manifold.unlift(points));
    let cosines = |query| sphere.pairwise_similarity(directions(query), directions(candidates));
    Ok(multi_positive_contrast(space, &points, &positive, &left_out, cosines))
}

/// Contrastive loss of scenes and objects by the distance; the positives are the objects in the scene.
fn scene_term(space: &BatchSpace, edges: &Edges, labels: &PairLabels, keys: Option<&MomentumKeys>) -> Tensor<1> {
    let [scenes, objects] = [labels.wholes(), labels.parts()].map(|rows| select(&edges.points, rows));
    let every: Vec<u32> = (0..labels.parts().len() as u32).collect();
    let candidates = keys.map_or(objects, |keys| keys.candidates(&every));
    let [positive, same] = masks(labels, &edges.points.device());
    let [positive, left_out] = candidate_masks(positive, same, keys);
    let similarity = |query| space.manifold.pairwise_similarity(query, candidates);
    multi_positive_contrast(space, &scenes, &positive, &left_out, similarity)
}

/// Masks of the positives and of the candidates that are left out. With a queue, all negatives come from the queue, so
/// the objects of the batch that are not positives are left out.
fn candidate_masks(
    positive: Tensor<2, Bool>,
    same: Tensor<2, Bool>,
    keys: Option<&MomentumKeys>,
) -> [Tensor<2, Bool>; 2] {
    match keys {
        Some(keys) => [keys.widened(positive.clone()), keys.widened(positive.bool_not())],
        None => [positive, same],
    }
}

#[cfg(test)]
mod tests;
