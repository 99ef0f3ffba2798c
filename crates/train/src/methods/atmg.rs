//! ATMG: contrastive loss by the exterior angle alone, so a caption and its photograph need not be near each other.
//!
//! Ramasinghe et al., "Accept the Modality Gap: An Exploration in the Hyperbolic Space", CVPR 2024. X is the exterior
//! angle at the first argument, seen from the root, and L the cross entropy of a row of logits:
//!
//! ```text
//! text query:  similarity -X(T, I)      a photograph lies straight behind its caption
//! photo query: similarity +X(I, T)      the caption lies back towards the root, at an angle of pi
//! loss = 1/2 (L(text query) + L(photo query))
//! ```
//!
//! With `towards_root = false` both directions use `-X`, as in RCME's baseline.

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::settings::{self, MethodSettings, TermSwitches};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{Denominator, contrast};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "contrast by exterior angles instead of distances, which accepts the gap between the modalities",
    reference: REFERENCE,
    views: &[View::Pair],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: |dim| ManifoldSpec { curv: Vec::new(), ..ManifoldSpec::lorentz(dim, 1.0) },
    from_config: |table| Ok(Box::new(Atmg { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "atmg";
const REFERENCE: &str = "Ramasinghe et al., CVPR 2024";
const TERMS: &[&str] = &["contrast_text_image", "contrast_image_text"];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect: the released loss is that of the paper. The released code also fixes the curvature: `head.curv = 0.1`
    /// and `head.learn_curv = false`.
    pub reference: bool,
    /// Whether the caption of a photograph is expected towards the root (true: official code) or away from the root
    /// (false: baseline of RCME).
    pub towards_root: bool,
    /// The terms, one per direction: `contrast_<query>_<candidates>`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self { reference, towards_root: true, terms: TermSwitches::all(TERMS) }
    }

    fn check(&self) -> Result<()> {
        self.terms.check(TERMS)
    }
}

struct Atmg {
    config: Config,
}

impl Method for Atmg {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        &[View::Pair]
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let (image, text) = batch.pair(NAME)?;
        let mut terms = Vec::new();
        let mut add = |name, query: &Tensor<2>, candidates: &Tensor<2>, sign: f64| {
            let similarity =
                |query, candidates| space.manifold.pairwise_exterior_angle(query, candidates, &space.root) * sign;
            if self.config.terms.on(name) {
                let scale = space.logit_scale.clone();
                let values = contrast(space, scale, Denominator::All, query, candidates, similarity);
                terms.push((name, 0.5, values));
            }
        };
        add("contrast_text_image", text, image, -1.0);
        add("contrast_image_text", image, text, if self.config.towards_root { 1.0 } else { -1.0 });
        Loss::of_terms(space, terms)
    }
}
