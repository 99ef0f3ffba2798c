//! RCME: entailment that is transitive along a chain of texts, with photographs aligned to the most specific text.
//!
//! Sastry et al., "Global and Local Entailment Learning for Natural World Imagery", ICCV 2025. r is the root, T_0 ..
//! T_N are the links of a chain, K_j is a wrong text for link j, X the exterior angle at the first argument, S = cos
//! X_r clamped to [0, 1] (Eq. 2), and I the photographs:
//!
//! ```text
//! local   = X_r(T_j, T_j+1) - X_r(T_j, K_j+1)                                       Eq. 5, mean over j = 0 .. N-1
//! global  = max(0, X_r(T_j-1, T_j+1) - arccos(S(T_j, T_j+1) S(T_j-1, T_j)) + alpha)    Eq. 6, mean over j = 1 .. N-1
//! align_i = -log( exp<T_N,i , I_i> / sum_m exp<T_N,i , I_m> )                        Eq. 8
//! total   = local + global + beta align (+ prior_weight prior)                      Eqs. 7, 9
//! ```
//!
//! Eq. 8 as printed sums the *matched* pairs of other samples in its denominator, which contrasts nothing. Here the sum
//! runs over the photographs of the batch, as in the released code and in every contrastive loss (DEVIATIONS.md). The
//! alignment uses the head's temperature.
//!
//! A chain that lacks ranks is shorter: its means run over its existing links, and its last link is aligned with the
//! photograph (DEVIATIONS.md).

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::{ManifoldSpec, safe};
use conifer_geometry_tensor::RootT;
use serde::{Deserialize, Serialize};

use super::radial::prior;
use super::settings::{self, MethodSettings, TermSwitches, number};
use super::{BatchPoints, BatchSpace, Chain, Loss, Method, MethodEntry};
use crate::root::RootKind;
use crate::terms::{Denominator, contrast};
use crate::{Error, Result};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "chains of texts whose entailment is transitive, photographs aligned with the most specific link",
    reference: REFERENCE,
    views: &[View::Photo, View::Chain],
    terms: TERMS,
    root: RootKind::Text,
    manifold: ManifoldSpec::sphere,
    from_config: |table| Ok(Box::new(Rcme { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "rcme";
const REFERENCE: &str = "Sastry et al., ICCV 2025, Eqs. 5-9";
const TERMS: &[&str] = &["local_positive", "local_negative", "global", "contrast_text_image"];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Released behaviour: from the second link on, the angles of the local term are measured from the previous link
    /// instead of the root. The released code does not run; its other differences are not reproduced (DEVIATIONS.md,
    /// L23 and L24).
    pub reference: bool,
    /// alpha of Eq. 6, in radians. With the default, pi/2, the hinge is never clamped.
    pub margin: f64,
    /// beta of Eq. 9: 0.1 when starting from BioCLIP. The paper uses 1.0 when starting from OpenCLIP.
    pub alignment_weight: f64,
    /// Weight of the prior towards the initial model, for the ablations without alignment. 0: no prior.
    pub prior_weight: f64,
    /// The terms; `contrast_text_image` is the alignment.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self {
            reference,
            margin: std::f64::consts::FRAC_PI_2,
            alignment_weight: 0.1,
            prior_weight: 0.0,
            terms: TermSwitches::all(TERMS),
        }
    }

    fn check(&self) -> Result<()> {
        number("margin", self.margin, |x| x >= 0.0, "0 or more")?;
        number("alignment_weight", self.alignment_weight, |x| x >= 0.0, "0 or more")?;
        number("prior_weight", self.prior_weight, |x| x >= 0.0, "0 or more")?;
        self.terms.check(TERMS)
    }
}

struct Rcme {
    config: Config,
}

impl Rcme {
    /// Mean of `X(T_j, child_j+1)` over j: `[B]`. The children are the links of the chain or the wrong texts.
    fn local(&self, space: &BatchSpace, chain: &Chain, children: &[Tensor<2>]) -> Tensor<1> {
        let links = &chain.positive;
        let angles = (0..links.len() - 1).map(|j| {
            let (parent, child) = (links[j].clone(), children[j + 1].clone());
            match j {
                1.. if self.config.reference => {
                    space.manifold.exterior_angle(parent, child, &RootT::Rows(links[j - 1].clone()))
                }
                _ => space.manifold.exterior_angle(parent, child, &space.root),
            }
        });
        chain.mean_of_terms(angles.collect(), 2)
    }

    /// Mean of Eq. 6 over all triples of consecutive links: `[B]`.
    fn global(&self, space: &BatchSpace, chain: &Chain) -> Tensor<1> {
        let angle = |a: &Tensor<2>, b: &Tensor<2>| space.manifold.exterior_angle(a.clone(), b.clone(), &space.root);
        // The clamp below 1 is large enough for f32. It keeps the absolute derivative of the arc cosine of the product
        // below 1000.
        let cosine = |a, b| angle(a, b).cos().clamp(0.0, 1.0 - f64::from(safe::EPS_F32));
        let hinges = chain.positive.windows(3).map(|triple| {
            let [first, middle, last] = [&triple[0], &triple[1], &triple[2]];
            let far = (cosine(middle, last) * cosine(first, middle)).acos();
            (angle(first, last) - far + self.config.margin).clamp_min(0.0)
        });
        chain.mean_of_terms(hinges.collect(), 3)
    }
}

impl Method for Rcme {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        if self.config.terms.on("contrast_text_image") { &[View::Photo, View::Chain] } else { &[View::Chain] }
    }

    fn reads_frozen(&self) -> bool {
        self.config.prior_weight > 0.0
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let chain = batch.chain(NAME)?;
        let on = |term: &str| self.config.terms.on(term);
        let mut terms: Vec<(&'static str, f64, Tensor<1>)> = Vec::new();
        if on("local_positive") {
            terms.push(("local_positive", 1.0, self.local(space, chain, &chain.positive)));
        }
        if on("local_negative") && !chain.negative.is_empty() {
            terms.push(("local_negative", -1.0, self.local(space, chain, &chain.negative)));
        }
        if on("global") && chain.positive.len() > 2 {
            terms.push(("global", 1.0, self.global(space, chain)));
        }
        if on("contrast_text_image") {
            let image = batch.photo(NAME)?;
            let text = chain.positive[chain.positive.len() - 1].clone();
            if image.dims() != text.dims() {
                let expected = format!("{:?}, as the links of the chain", text.dims());
                return Err(Error::Shape { name: "image".to_owned(), found: image.dims().to_vec(), expected });
            }
            let similarity = |query, candidates| space.manifold.pairwise_similarity(query, candidates);
            let scale = space.logit_scale.clone();
            let alignment = contrast(space, scale, Denominator::All, &text, image, similarity);
            terms.push(("contrast_text_image", self.config.alignment_weight, alignment));
        }
        if self.reads_frozen() {
            terms.push(("prior", self.config.prior_weight, prior(space, chain, batch.frozen_chain(NAME)?)));
        }
        Loss::of_terms(space, terms)
    }
}
