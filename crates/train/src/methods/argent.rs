//! ARGENT: HyCoCLIP's contrast with angles instead of cones, and a regulariser that keeps points away from the origin.
//!
//! Huynh et al., "ARGENT: Adaptive Hierarchical Image-Text Representations", 2026 (arXiv 2603.23311). A cone becomes a
//! half space as its apex approaches the origin, and then constrains nothing ("cone collapse"). ARGENT has no
//! apertures. I and T are the photograph and its caption, Ib and Tb a box and its phrase, X the exterior angle at the
//! parent, d the distance, L the contrastive loss of HyCoCLIP (Eq. 5 there), and `|x|` the length of the space
//! components:
//!
//! ```text
//! contrast = 1/4 ( L(I, T) + L(T, I) + L(Ib, T) + L(Tb, I) )
//! w(P, C)  = 1 - exp(-d(P, C)) within a modality, 1 between modalities
//! E(P, C)  = Huber( w(P, C) X(P, C) )                    h(a) = a^2/2 up to delta, delta (a - delta/2) beyond
//! entail   = E(T, I) + E(Tb, Ib) + E(Ib, I) + E(Tb, T)
//! norm     = |x|^2 - log |x|^2                           mean over the four views; smallest at |x| = 1
//! total    = contrast + entailment_weight entail + norm_weight norm
//! ```
//!
//! The weight w is small for almost equal points, because their angle carries no information and would push them apart.
//! No code is released; DEVIATIONS.md lists what the available description leaves open.

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::safe;
use serde::{Deserialize, Serialize};

use super::hycoclip;
use super::meru::one_hyperboloid;
use super::objective::{Objective, ViewPart, views_of};
use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{mean, squared_lengths};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "HyCoCLIP with weighted angles instead of cones, and a regulariser of the norms against cone collapse",
    reference: REFERENCE,
    views: &[View::Pair, View::Boxes],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: one_hyperboloid,
    from_config: |table| Ok(Box::new(build(settings::parse(table)?)?)),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "argent";
const REFERENCE: &str = "Huynh et al., 2026";
const TERMS: &[&str] = &[
    "contrast_image_text",
    "contrast_text_image",
    "contrast_box_image_text",
    "contrast_box_text_image",
    "angle_text_image",
    "angle_box_text_box_image",
    "angle_box_image_image",
    "angle_box_text_text",
    NORM,
];

/// Name, parent and child of each angle.
const ANGLES: [(&str, ViewPart, ViewPart); 4] = [
    ("angle_text_image", ViewPart::Text, ViewPart::Image),
    ("angle_box_text_box_image", ViewPart::BoxText, ViewPart::BoxImage),
    ("angle_box_image_image", ViewPart::BoxImage, ViewPart::Image),
    ("angle_box_text_text", ViewPart::BoxText, ViewPart::Text),
];

const NORM: &str = "norm";
const ALL_PARTS: [ViewPart; 4] = [ViewPart::Image, ViewPart::Text, ViewPart::BoxImage, ViewPart::BoxText];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because no code is released.
    pub reference: bool,
    /// Factor of the sum of the angle terms: 0.1, as for HyCoCLIP's cones (the value in ARGENT is not known).
    pub entailment_weight: f64,
    /// Factor of the regulariser: 0.01 (the value in ARGENT is not known).
    pub norm_weight: f64,
    /// delta of the Huber function, radians: 1.
    pub huber_delta: f64,
    /// The terms: `contrast_<query>_<candidates>`, `angle_<parent>_<child>`, `norm`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self { reference, entailment_weight: 0.1, norm_weight: 0.01, huber_delta: 1.0, terms: TermSwitches::all(TERMS) }
    }

    fn check(&self) -> Result<()> {
        number("entailment_weight", self.entailment_weight, |x| x >= 0.0, "0 or more")?;
        number("norm_weight", self.norm_weight, |x| x >= 0.0, "0 or more")?;
        number("huber_delta", self.huber_delta, |x| x > 0.0, "more than 0")?;
        self.terms.check(TERMS)
    }
}

struct Argent {
    config: Config,
    /// The enabled contrastive terms of HyCoCLIP.
    contrasts: Objective,
}

fn build(config: Config) -> Result<Argent> {
    let mut contrasts = hycoclip::build(&hycoclip::Config::defaults(false))?;
    contrasts.method = NAME;
    contrasts.contrasts.retain(|term| config.terms.on(term.name));
    Ok(Argent { config, contrasts })
}

impl Method for Argent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        views_of(&self.parts())
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        batch.check_parts(NAME, &self.parts(), 1)?;
        let contrasts = self.contrasts.contrast_losses(batch, space)?;
        let mut entailment = Vec::new();
        for (name, parent, child) in self.angles() {
            let [general, specific] = [batch.part(NAME, parent)?, batch.part(NAME, child)?];
            let mut angle = space.manifold.exterior_angle(general.clone(), specific.clone(), &space.root);
            let is_within_modality = parent.is_box() && !child.is_box();
            if is_within_modality {
                let distance = space.manifold.dist(general.clone(), specific.clone());
                angle = angle * (-(-distance).exp() + 1.0);
            }
            entailment.push((name, 1.0, huber(angle, self.config.huber_delta)));
        }
        let mut norms = Vec::new();
        if self.config.terms.on(NORM) {
            let views: Result<Vec<_>> = ALL_PARTS.iter().map(|part| Ok(norm(batch.part(NAME, *part)?))).collect();
            norms.push((NORM, 1.0, mean(views?)));
        }
        let Config { entailment_weight, norm_weight, .. } = self.config;
        Loss::of_groups(
            space,
            vec![
                ("contrastive", 1.0, contrasts),
                ("entailment", entailment_weight, entailment),
                ("regulariser", norm_weight, norms),
            ],
        )
    }
}

impl Argent {
    fn angles(&self) -> impl Iterator<Item = (&'static str, ViewPart, ViewPart)> {
        ANGLES.into_iter().filter(|(name, ..)| self.config.terms.on(name))
    }

    fn parts(&self) -> Vec<ViewPart> {
        if self.config.terms.on(NORM) {
            return ALL_PARTS.to_vec();
        }
        let contrasts = self.contrasts.contrasts.iter().flat_map(|term| [term.query, term.candidates]);
        contrasts.chain(self.angles().flat_map(|(_, parent, child)| [parent, child])).collect()
    }
}

/// Huber function of values that are 0 or more: `a^2 / 2` up to `delta`, `delta (a - delta / 2)` beyond.
fn huber(values: Tensor<1>, delta: f64) -> Tensor<1> {
    let inner = values.clone().clamp_max(delta);
    inner.clone() * (values - inner * 0.5)
}

/// `|x|^2 - log |x|^2` of each row, `[B, D] -> [B]`. A row shorter than 1e-6 counts as a row of length 1e-6 and has no
/// gradient.
fn norm(points: &Tensor<2>) -> Tensor<1> {
    let squares = squared_lengths(points, f64::from(safe::EPS_F32).powi(2));
    squares.clone() - squares.log()
}
