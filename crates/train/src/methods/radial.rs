//! Radial embeddings: a specific text should lie straight behind the more general one, seen from the root.
//!
//! Alper and Averbuch-Elor, "Emergent Visual-Semantic Hierarchies in Image-Text Representations", ECCV 2024. r is the
//! root, P_1 .. P_T are the tiers of a chain (general to specific), N_i is a wrong text for tier i, and X the exterior
//! angle at the parent:
//!
//! ```text
//! positive = X_r(P_i, P_i+1)      negative = X_r(P_i, N_i)              i = 1 .. T-1
//! mean     = E[positive] - E[negative]                                  L_RE, over tiers and samples
//! minimax  = (positive - negative)[argmax positive] + (positive - negative)[argmin negative]
//! prior    = (1 - E[cos(e, e frozen)]) / 2                              over all texts; e frozen: before fine-tuning
//! total    = prior_weight prior + mean + minimax
//! ```
//!
//! A finite `margin` replaces the angles by cone losses of the supplement, + for positive and - for negative pairs:
//!
//! ```text
//! margin_form = "clamped"   max(-margin, +-(X - theta))                 supplement, Sec. 2.2; the default
//! margin_form = "hinge"     max(0, +-(X - theta + margin))              supplement, Sec. 3.5
//! sin theta = min(1, cone_radius / d_r)
//! ```
//!
//! Both forms are equal for margin 0. With the default infinite margin the losses omit theta, which cancels in the
//! difference of a positive and a negative pair.

use burn::tensor::{Bool, Tensor};
use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Chain, Loss, Method, MethodEntry};
use crate::root::RootKind;
use crate::{Error, Result};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "text tower fine-tuned with caption chains: angles at the parent, seen from the embedding of the empty text",
    reference: REFERENCE,
    views: &[View::Chain],
    terms: TERMS,
    manifold: ManifoldSpec::sphere,
    root: RootKind::Text,
    from_config: |table| Ok(Box::new(Radial { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "radial";
const REFERENCE: &str = "Alper and Averbuch-Elor, ECCV 2024, Sec. 2";
const TERMS: &[&str] = &["positive", "negative", "minimax", "prior"];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Released behaviour. Paper and code agree on the loss. The code gives NaN for equal texts in one chain; this is
    /// not reproduced.
    pub reference: bool,
    /// Weight of the prior: 10.
    pub prior_weight: f64,
    /// alpha of the supplement's cone losses, in radians. Infinite: the radial loss.
    pub margin: f64,
    /// Form of the cone losses with a finite margin.
    pub margin_form: MarginForm,
    /// epsilon of the supplement's cones: 0.05.
    pub cone_radius: f64,
    /// The terms. Without `data.chain.negatives` the `negative` term is absent, and the minimax term uses the positives
    /// alone.
    pub terms: TermSwitches,
}

/// The cone loss of a pair, with the angle X, the half-aperture theta and the margin alpha; + for positive and - for
/// negative pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarginForm {
    /// `max(-alpha, +-(X - theta))` (supplement, Sec. 2.2). The radial loss is its limit for infinite alpha.
    Clamped,
    /// `max(0, +-(X - theta + alpha))` (supplement, Sec. 3.5), as printed. The loss of a positive pair is 0 for angles
    /// up to `theta - alpha`, and the loss of a negative pair is 0 for angles from `theta - alpha` on.
    Hinge,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self {
            reference,
            prior_weight: 10.0,
            margin: f64::INFINITY,
            margin_form: MarginForm::Clamped,
            cone_radius: 0.05,
            terms: TermSwitches::all(TERMS),
        }
    }

    fn check(&self) -> Result<()> {
        number("prior_weight", self.prior_weight, |x| x >= 0.0, "0 or more")?;
        number("cone_radius", self.cone_radius, |x| x > 0.0, "more than 0")?;
        if self.margin.is_nan() || self.margin < 0.0 {
            return Err(Error::invalid("method.margin", self.margin, "0 or more, or inf"));
        }
        if self.margin_form == MarginForm::Hinge && self.margin.is_infinite() {
            let expected = "a finite number of radians for method.margin_form = \"hinge\", such as 0.3927 (pi/8)";
            return Err(Error::invalid("method.margin", self.margin, expected));
        }
        self.terms.check(TERMS)
    }
}

struct Radial {
    config: Config,
}

impl Radial {
    /// Returns the `angles`, `[T-1, B]`, or with a finite margin `sign` times the cone losses of
    /// [`Config::margin_form`]. `sign` is 1 for positive and -1 for negative pairs.
    fn violation(&self, space: &BatchSpace, parents: &[Tensor<2>], angles: Tensor<2>, sign: f64) -> Tensor<2> {
        let Config { margin, margin_form, cone_radius, .. } = self.config;
        if margin.is_infinite() {
            return angles;
        }
        let theta = parents.iter().map(|parent| space.manifold.half_aperture(parent.clone(), cone_radius, &space.root));
        let theta: Tensor<2> = Tensor::stack(theta.collect(), 0);
        let excess = angles - theta;
        let loss = match margin_form {
            MarginForm::Clamped => (excess * sign).clamp_min(-margin),
            MarginForm::Hinge => ((excess + margin) * sign).clamp_min(0.0),
        };
        // The sign is applied a second time because the caller subtracts the losses of negative pairs.
        loss * sign
    }
}

impl Method for Radial {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        &[View::Chain]
    }

    fn reads_frozen(&self) -> bool {
        self.config.terms.on("prior")
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let chain = batch.chain(NAME)?;
        let on = |term: &str| self.config.terms.on(term);

        let (parents, wrong) = (&chain.positive[..chain.positive.len() - 1], &chain.negative);
        let angles = |children: &[Tensor<2>]| -> Tensor<2> {
            let pairs = parents.iter().zip(children);
            let angle = |(parent, child): (&Tensor<2>, &Tensor<2>)| {
                space.manifold.exterior_angle(parent.clone(), child.clone(), &space.root)
            };
            Tensor::stack(pairs.map(angle).collect(), 0)
        };
        let positive_angles = angles(&chain.positive[1..]);
        let positive = self.violation(space, parents, positive_angles.clone(), 1.0);
        let negative_angles = (!wrong.is_empty()).then(|| angles(wrong));
        let negative = negative_angles.clone().map(|angles| self.violation(space, parents, angles, -1.0));

        let rows = positive.dims()[1];
        let absent = chain.absent(parents.len(), 2, &positive.device());
        let average = |terms: &Tensor<2>| chain.mean_of_rows(terms.clone(), 2);
        let mut terms: Vec<(&'static str, f64, Tensor<1>)> = Vec::new();
        if on("positive") {
            terms.push(("positive", 1.0, average(&positive)));
        }
        if let Some(negative) = negative.as_ref().filter(|_| on("negative")) {
            terms.push(("negative", -1.0, average(negative)));
        }
        if on("minimax") {
            // One number for the whole batch, repeated in every row; the mean over rows restores the number.
            let negatives = negative.zip(negative_angles);
            terms.push(("minimax", 1.0, minimax((positive, positive_angles), negatives, absent).expand([rows])));
        }
        if on("prior") {
            terms.push(("prior", self.config.prior_weight, prior(space, chain, batch.frozen_chain(NAME)?)));
        }
        Loss::of_terms(space, terms)
    }
}

/// `positive - negative` at the largest positive angle, plus `positive - negative` at the smallest negative angle:
/// losses and angles, `[T-1, B]` each, to `[1]`. The positions come from the angles, because a margin makes many losses
/// equal. Pairs that are `absent` are not considered, unless all pairs are absent.
fn minimax(
    positive: (Tensor<2>, Tensor<2>),
    negative: Option<(Tensor<2>, Tensor<2>)>,
    absent: Option<Tensor<2, Bool>>,
) -> Tensor<1> {
    // Angles are in [0, pi], so -1 is never the largest angle and 4 never the smallest.
    let without = |angles: Tensor<2>, other: f64| match &absent {
        Some(absent) => angles.mask_fill(absent.clone(), other),
        None => angles,
    };
    let flat = |values: Tensor<2>| {
        let count = values.shape().num_elements();
        values.reshape([count])
    };
    let (positive, worst_positive) = (flat(positive.0), flat(without(positive.1, -1.0)).argmax(0));
    let Some(negative) = negative else { return positive.gather(0, worst_positive) };
    let (negative, worst_negative) = (flat(negative.0), flat(without(negative.1, 4.0)).argmin(0));
    let contrast = positive - negative;
    contrast.clone().gather(0, worst_positive) + contrast.gather(0, worst_negative)
}

/// `(1 - similarity) / 2` between each text and its embedding by the initial model, averaged over the texts of a
/// sample: `[B]`.
pub(super) fn prior(space: &BatchSpace, chain: &Chain, frozen: &Chain) -> Tensor<1> {
    let similarities = |texts: &[Tensor<2>], before: &[Tensor<2>]| -> Vec<Tensor<1>> {
        let pairs = texts.iter().zip(before);
        pairs.map(|(text, before)| space.manifold.similarity(text.clone(), before.clone())).collect()
    };
    let mut positive = similarities(&chain.positive, &frozen.positive);
    let negative = similarities(&chain.negative, &frozen.negative);
    let mean = match (chain.lengths.is_empty(), negative.is_empty()) {
        (true, _) => {
            positive.extend(negative);
            chain.mean_of_terms(positive, 1)
        }
        (false, true) => chain.mean_of_terms(positive, 1),
        // A chain has as many wrong texts as links, so both means have the same weight.
        (false, false) => (chain.mean_of_terms(positive, 1) + chain.mean_of_terms(negative, 1)) * 0.5,
    };
    (-mean + 1.0) * 0.5
}
