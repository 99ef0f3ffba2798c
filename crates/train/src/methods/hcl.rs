//! HCL: contrastive loss of objects by their directions, and of scenes and their objects by the hyperbolic distance.
//!
//! Ge et al., "Hyperbolic Contrastive Learning for Visual Representations beyond Objects", CVPR 2023. With two crops z,
//! z' of an object, a scene s and its objects o, d the distance of the space and S the cosine:
//!
//! ```text
//! object = -log( sum_{z' of the same} exp(S(z, z') / tau) / sum_{z'} exp(S(z, z') / tau) )       over crops of objects
//! scene  = -log( sum_{o in s} exp(-d(s, o) / tau) / sum_o exp(-d(s, o) / tau) )
//! total  = object + hyperbolic_weight scene
//! ```
//!
//! The paper takes its negatives from a queue of a momentum encoder (MoCo-v2). Here they are the other objects of the
//! batch, under the current weights (DEVIATIONS.md). With `data.edges.copies = 1` no object has a second crop, and the
//! term `object` is absent.

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use conifer_geometry_tensor::manifold;
use serde::{Deserialize, Serialize};

use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{masks, multi_positive_nce, select};

/// Registry entry.
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

/// Settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Released behaviour: the same loss, so this changes nothing.
    pub reference: bool,
    /// Weight of the hyperbolic term: 0.1.
    pub hyperbolic_weight: f64,
    /// The terms: `contrast_<query>_<candidates>`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self { reference, hyperbolic_weight: 0.1, terms: TermSwitches::all(TERMS) }
    }

    fn check(&self) -> Result<()> {
        number("hyperbolic_weight", self.hyperbolic_weight, |x| x >= 0.0, "0 or more")?;
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

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let edges = batch.edges(NAME)?;
        let labels = edges.pair_labels(NAME)?;
        let mut terms = Vec::new();
        if self.config.terms.on("contrast_object_object")
            && let Some(crops) = edges.same_part_crops(&labels)
        {
            let cosine = cosines(space, crops.points)?;
            let values = multi_positive_nce(cosine, space.logit_scale.clone(), crops.positive, crops.same);
            terms.push(("contrast_object_object", 1.0, values));
        }
        if self.config.terms.on("contrast_scene_object") {
            let [whole, part] = [labels.wholes(), labels.parts()].map(|rows| select(&edges.points, rows));
            let [positive, same] = masks(&labels, &edges.points.device());
            let similarity = space.manifold.pairwise_similarity(whole, part);
            let values = multi_positive_nce(similarity, space.logit_scale.clone(), positive, same);
            terms.push(("contrast_scene_object", self.config.hyperbolic_weight, values));
        }
        Loss::of_terms(terms)
    }
}

/// Cosines between the directions of points, seen from the origin: `[N, D] -> [N, N]`.
fn cosines(space: &BatchSpace, points: Tensor<2>) -> Result<Tensor<2>> {
    let sphere = manifold(&ManifoldSpec::sphere(points.dims()[1]), None)?;
    let directions = sphere.lift(space.manifold.unlift(points));
    Ok(sphere.pairwise_similarity(directions.clone(), directions))
}
