//! EuCLIP: Euclidean space, logits from squared distances, and cones of captions that contain their photographs.
//!
//! Chou and Alam, "Embedding Geometries of Contrastive Language-Image Pre-Training", 2024. d is the Euclidean distance,
//! L the cross entropy of a row of logits, and `cone` is [`terms::cone`](crate::terms::cone()):
//!
//! ```text
//! total = 1/2 (L(-d^2(I, T)) + L(-d^2(T, I))) + entailment_weight cone(T, I)
//! ```
//!
//! A baseline for MERU without curvature.

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{ConeShape, Denominator, cone, contrast};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "contrast by squared distances in flat space, with flat cones: MERU without curvature",
    reference: REFERENCE,
    views: &[View::Pair],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: ManifoldSpec::euclidean,
    from_config: |table| Ok(Box::new(Euclip { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "euclip";
const REFERENCE: &str = "Chou and Alam, 2024";
const TERMS: &[&str] = &["contrast_image_text", "contrast_text_image", "cone_text_image"];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because paper and released code agree.
    pub reference: bool,
    /// Whether the logits use `-d^2` (the paper's choice) or `-d`.
    pub squared: bool,
    /// Factor of the cone term: 0.2, as in MERU.
    pub entailment_weight: f64,
    /// K of the half aperture `asin(K / |parent|)`: 0.1.
    pub min_radius: f64,
    /// The terms: `contrast_<query>_<candidates>`, `cone_<parent>_<child>`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self { reference, squared: true, entailment_weight: 0.2, min_radius: 0.1, terms: TermSwitches::all(TERMS) }
    }

    fn check(&self) -> Result<()> {
        number("entailment_weight", self.entailment_weight, |x| x >= 0.0, "0 or more")?;
        number("min_radius", self.min_radius, |x| x > 0.0, "more than 0")?;
        self.terms.check(TERMS)
    }
}

struct Euclip {
    config: Config,
}

impl Method for Euclip {
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
        let on = |term: &str| self.config.terms.on(term);
        let similarity = |query, candidates| {
            let distance: Tensor<2> = space.manifold.pairwise_dist(query, candidates);
            -if self.config.squared { distance.square() } else { distance }
        };
        let contrast = |query, candidates| {
            contrast(space, space.logit_scale.clone(), Denominator::All, query, candidates, similarity)
        };
        let mut terms: Vec<(&'static str, f64, Tensor<1>)> = Vec::new();
        if on("contrast_image_text") {
            terms.push(("contrast_image_text", 0.5, contrast(image, text)));
        }
        if on("contrast_text_image") {
            terms.push(("contrast_text_image", 0.5, contrast(text, image)));
        }
        if on("cone_text_image") {
            let shape = ConeShape { min_radius: self.config.min_radius, aperture_scale: 1.0, max_aperture: None };
            let values = cone(space, text.clone(), image.clone(), &shape)?;
            terms.push(("cone_text_image", self.config.entailment_weight, values));
        }
        Loss::of_terms(space, terms)
    }
}
