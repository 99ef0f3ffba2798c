//! UNCHA: HyCoCLIP with an uncertainty for each box. The uncertainty weights the contrastive loss of the box and is
//! calibrated by its cone loss.
//!
//! Kim et al., "Uncertainty-guided Compositional Alignment with Part-to-Whole Semantic Representativeness in Hyperbolic
//! Vision-Language Models", CVPR 2026 (arXiv 2603.22042). I and T are the photograph and its caption, Ib and Tb a box
//! and its phrase, X is the exterior angle at the parent, w the half aperture, d the distance and sg the stop-gradient
//! operator:
//!
//! ```text
//! u(x)     = log(1 + exp(-|x|))                              uncertainty: larger for points near the origin
//! L_s(A,B) = mean_i -log softmax_k(-s_i d(A_i, B_k))[i]
//! global   = 1/2 ( L_g(I, T) + L_g(T, I) )                   three temperatures: s = 1/tau_g, 1/tau_l,
//! local    = 1/2 ( L_l(Ib, Tb) + L_l(Tb, Ib) )               and 1/tau_m exp(-sg(u)/2) of the box
//! mixed    = 1/2 ( L_m(Ib, T) + L_m(Tb, I) )
//! r(P, C)  = max(0, X(P, C) - eta w(P)) + 0.1 X(P, C)        eta 0.7 between, 1.2 within modalities
//! cal(P,C) = sg(r(P, C)) / (2 exp(u(P))) + u(P)/2 + H        H: entropy of the softmax of u over the batch
//! entail   = 1/2 ( r(T, I) + r(Tb, Ib) ) + 1/4 ( r(Ib, I) + r(Tb, T) ) + 10 ( cal(Ib, I) + cal(Tb, T) )
//! total    = global + local + mixed + 0.2 entail
//! ```
//!
//! The released code clamps `exp(-u/2)` to `[0.1, 10]`. The clamp has no effect, because `u` lies in `(0, log 2]`.

use burn::tensor::{Tensor, activation};
use conifer_data::View;
use conifer_geometry::safe;
use serde::{Deserialize, Serialize};

use super::hycoclip::ApertureScale;
use super::meru::one_hyperboloid;
use super::objective::{ViewPart, views_of};
use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{ConeShape, Denominator, cone, contrast, squared_lengths};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "HyCoCLIP with an uncertainty per box: it weights the contrast of the box and is calibrated by its cone",
    reference: REFERENCE,
    views: &[View::Pair, View::Boxes],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: one_hyperboloid,
    from_config: |table| Ok(Box::new(build(table)?)),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "uncha";
const REFERENCE: &str = "Kim et al., CVPR 2026";
const TERMS: &[&str] = &[
    "contrast_image_text",
    "contrast_text_image",
    "contrast_box_image_box_text",
    "contrast_box_text_box_image",
    "contrast_box_image_text",
    "contrast_box_text_image",
    "cone_text_image",
    "cone_box_text_box_image",
    "cone_box_image_image",
    "cone_box_text_text",
    "calibration_box_image",
    "calibration_box_text",
];

/// The parts that each of [`TERMS`] compares.
const COMPARISONS: [PairTerm; TERMS.len()] = {
    use ViewPart::{BoxImage, BoxText, Image, Text};
    [
        PairTerm::Contrast { softmax: 0, query: Image, candidates: Text },
        PairTerm::Contrast { softmax: 0, query: Text, candidates: Image },
        PairTerm::Contrast { softmax: 1, query: BoxImage, candidates: BoxText },
        PairTerm::Contrast { softmax: 1, query: BoxText, candidates: BoxImage },
        PairTerm::Contrast { softmax: MIXED, query: BoxImage, candidates: Text },
        PairTerm::Contrast { softmax: MIXED, query: BoxText, candidates: Image },
        PairTerm::Cone { parent: Text, child: Image },
        PairTerm::Cone { parent: BoxText, child: BoxImage },
        PairTerm::Cone { parent: BoxImage, child: Image },
        PairTerm::Cone { parent: BoxText, child: Text },
        PairTerm::Calibration { parent: BoxImage, child: Image },
        PairTerm::Calibration { parent: BoxText, child: Text },
    ]
};

/// Index in [`SOFTMAXES`](conifer_model::head::SOFTMAXES) of the softmax that compares boxes with wholes.
const MIXED: usize = 2;

#[derive(Clone, Copy)]
enum PairTerm {
    /// `softmax` is an index in [`SOFTMAXES`](conifer_model::head::SOFTMAXES).
    Contrast {
        softmax: usize,
        query: ViewPart,
        candidates: ViewPart,
    },
    Cone {
        parent: ViewPart,
        child: ViewPart,
    },
    Calibration {
        parent: ViewPart,
        child: ViewPart,
    },
}

impl PairTerm {
    fn parts(self) -> [ViewPart; 2] {
        match self {
            Self::Contrast { query, candidates, .. } => [query, candidates],
            Self::Cone { parent, child } | Self::Calibration { parent, child } => [parent, child],
        }
    }
}

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because the defaults are those of the released code.
    pub reference: bool,
    /// Factor of the entailment sum in the total: 0.2.
    pub entailment_weight: f64,
    /// Factor of the calibration terms in the entailment sum: 10.
    pub calibration_weight: f64,
    /// Factor of the plain angle in the residual: 0.1.
    pub angle_weight: f64,
    /// eta: 0.7 between and 1.2 within modalities.
    pub aperture_scale: ApertureScale,
    /// K of the half aperture: 0.1.
    pub min_radius: f64,
    /// Whether the weights of the contrast and the residuals of the calibration are constants: true, as published. With
    /// false, gradients flow through them.
    pub stop_gradients: bool,
    /// The terms: `contrast_<query>_<candidates>`, `cone_<parent>_<child>`, `calibration_<parent>`.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self {
            reference,
            entailment_weight: 0.2,
            calibration_weight: 10.0,
            angle_weight: 0.1,
            aperture_scale: ApertureScale { inter: 0.7, intra: 1.2 },
            min_radius: 0.1,
            stop_gradients: true,
            terms: TermSwitches::all(TERMS),
        }
    }

    fn check(&self) -> Result<()> {
        number("entailment_weight", self.entailment_weight, |x| x >= 0.0, "0 or more")?;
        number("calibration_weight", self.calibration_weight, |x| x >= 0.0, "0 or more")?;
        number("angle_weight", self.angle_weight, |x| x >= 0.0, "0 or more")?;
        number("aperture_scale.inter", self.aperture_scale.inter, |x| x >= 0.0, "0 or more")?;
        number("aperture_scale.intra", self.aperture_scale.intra, |x| x >= 0.0, "0 or more")?;
        number("min_radius", self.min_radius, |x| x > 0.0, "more than 0")?;
        self.terms.check(TERMS)
    }
}

pub(super) struct Uncha {
    config: Config,
}

/// Builds the method from its `[method]` table.
pub(super) fn build(table: &toml::Table) -> Result<Uncha> {
    Ok(Uncha { config: settings::parse(table)? })
}

impl Method for Uncha {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        views_of(&self.parts())
    }

    /// The initial values of the released code.
    fn temperatures(&self) -> &'static [f64] {
        &[0.07, 0.05, 0.06]
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        batch.check_parts(NAME, &self.parts(), 1)?;
        // One box per sample, so row i of the wholes is the whole of box i.
        self.objective(batch, batch, space)
    }
}

impl Uncha {
    /// The loss for any number of boxes. Row j of `wholes` holds the photograph and the caption of box j.
    pub(super) fn objective(&self, batch: &BatchPoints, wholes: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let (mut contrasts, mut entailment) = (Vec::new(), Vec::new());
        for (name, comparison) in self.comparisons() {
            let parts = comparison.parts();
            let is_part_of_whole = parts[0].is_box() && !parts[1].is_box();
            let first = batch.part(NAME, parts[0])?;
            let second = if is_part_of_whole { wholes } else { batch }.part(NAME, parts[1])?;
            let ApertureScale { inter, intra } = self.config.aperture_scale;
            let (eta, cone_weight) = if is_part_of_whole { (intra, 0.25) } else { (inter, 0.5) };
            match comparison {
                PairTerm::Contrast { softmax, .. } => {
                    contrasts.push((name, 0.5, self.contrast(space, first, second, softmax)));
                }
                PairTerm::Cone { .. } => {
                    entailment.push((name, cone_weight, self.residual(space, first, second, eta)?));
                }
                PairTerm::Calibration { .. } => {
                    let residual = self.held(self.residual(space, first, second, eta)?);
                    entailment.push((name, self.config.calibration_weight, calibration(residual, uncertainty(first))));
                }
            }
        }
        let weight = self.config.entailment_weight;
        Loss::of_groups(space, vec![("contrastive", 1.0, contrasts), ("entailment", weight, entailment)])
    }

    fn contrast(&self, space: &BatchSpace, query: &Tensor<2>, candidates: &Tensor<2>, softmax: usize) -> Tensor<1> {
        let similarity = |query: Tensor<2>, candidates| {
            let weights =
                (softmax == MIXED).then(|| (self.held(uncertainty(&query)) * -0.5).exp().unsqueeze_dim::<2>(1));
            let similarity = space.manifold.pairwise_similarity(query, candidates);
            match weights {
                Some(weights) => similarity * weights,
                None => similarity,
            }
        };
        // A checkpoint of another method has one temperature, which all softmaxes share.
        let scale = match space.logit_scale.dims() {
            [1] => space.logit_scale.clone(),
            _ => space.logit_scale.clone().slice(softmax..softmax + 1),
        };
        contrast(space, scale, Denominator::All, query, candidates, similarity)
    }

    fn residual(&self, space: &BatchSpace, parent: &Tensor<2>, child: &Tensor<2>, eta: f64) -> Result<Tensor<1>> {
        let shape = ConeShape { min_radius: self.config.min_radius, aperture_scale: eta, max_aperture: None };
        let angle = space.manifold.exterior_angle(parent.clone(), child.clone(), &space.root);
        Ok(cone(space, parent.clone(), child.clone(), &shape)? + angle * self.config.angle_weight)
    }

    fn held(&self, values: Tensor<1>) -> Tensor<1> {
        if self.config.stop_gradients { values.detach() } else { values }
    }

    fn comparisons(&self) -> impl Iterator<Item = (&'static str, PairTerm)> {
        let terms = TERMS.iter().copied().zip(COMPARISONS);
        terms.filter(|(name, _)| self.config.terms.on(name))
    }

    fn parts(&self) -> Vec<ViewPart> {
        self.comparisons().flat_map(|(_, comparison)| comparison.parts()).collect()
    }
}

/// `log(1 + exp(-|x|))` of each row, `[B, D] -> [B]`.
fn uncertainty(points: &Tensor<2>) -> Tensor<1> {
    let length = squared_lengths(points, f64::from(safe::TINY_F32).powi(2)).sqrt();
    activation::softplus(-length, 1.0)
}

/// `residual / (2 exp(u)) + u / 2 + H`, where H, the entropy of the softmax of u over the batch, is the same in each
/// row: `[B], [B] -> [B]`.
fn calibration(residual: Tensor<1>, uncertainty: Tensor<1>) -> Tensor<1> {
    let shares = activation::log_softmax(uncertainty.clone(), 0);
    let entropy = -(shares.clone().exp() * shares).sum();
    let rows = uncertainty.dims();
    (residual / uncertainty.clone().exp() + uncertainty) * 0.5 + entropy.expand(rows)
}
