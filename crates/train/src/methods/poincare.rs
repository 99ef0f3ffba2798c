//! Poincare embeddings: contrastive loss on chains of texts by hyperbolic distance alone. It moves neighbouring links
//! of a chain together and wrong texts away.
//!
//! Nickel and Kiela, "Poincare Embeddings for Learning Hierarchical Representations", NeurIPS 2017, Eq. 5, for texts
//! instead of free points. P_1 .. P_T are the links of a chain, N_i is a wrong text for link P_i, d is the distance and
//! s is 1/temperature:
//!
//! ```text
//! l(u; v, n) = -log( exp(-s d(u, v)) / (exp(-s d(u, v)) + exp(-s d(u, n))) )
//! query child:  l(P_i+1; P_i, N_i)         query parent:  l(P_i; P_i+1, N_i+1)        mean over i = 1 .. T-1
//! ```
//!
//! This loss is a symmetric baseline for the entailment losses. It learns which texts are near each other, but not
//! which of them is the more general one.

use burn::tensor::{Tensor, activation};
use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::settings::{self, MethodSettings, TermSwitches};
use super::{BatchPoints, BatchSpace, Loss, Method, MethodEntry};
use crate::root::RootKind;
use crate::{Error, Result};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "chains of texts by distance alone: neighbours nearer than wrong texts",
    reference: REFERENCE,
    views: &[View::Chain],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: |dim| ManifoldSpec { curv: Vec::new(), ..ManifoldSpec::lorentz(dim, 1.0) },
    from_config: |table| Ok(Box::new(Poincare { config: settings::parse(table)? })),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "poincare";
const REFERENCE: &str = "Nickel and Kiela, NeurIPS 2017, Eq. 5";
const TERMS: &[&str] = &["contrast_child_parent", "contrast_parent_child"];

/// Settings in the `[method]` table, without `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because the released code has the same loss.
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

struct Poincare {
    config: Config,
}

impl Method for Poincare {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reference(&self) -> &'static str {
        REFERENCE
    }

    fn views(&self) -> &'static [View] {
        &[View::Chain]
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let chain = batch.chain(NAME)?;
        let (right, wrong) = (&chain.positive, &chain.negative);
        if wrong.is_empty() {
            let expected =
                format!("a wrong text for each link, as negatives of {NAME} (set data.chain.negatives = true)");
            return Err(Error::invalid("chain of the batch", "without wrong texts", expected));
        }
        // -log of a softmax over two logits is the softplus of their difference.
        let contrast = |query: &Tensor<2>, right: &Tensor<2>, wrong: &Tensor<2>| {
            let distance = |to: &Tensor<2>| space.manifold.dist(query.clone(), to.clone());
            activation::softplus((distance(right) - distance(wrong)) * space.logit_scale.clone(), 1.0)
        };
        let links = 0..right.len() - 1;
        let mut terms: Vec<(&'static str, f64, Tensor<1>)> = Vec::new();
        if self.config.terms.on("contrast_child_parent") {
            let values = links.clone().map(|i| contrast(&right[i + 1], &right[i], &wrong[i]));
            terms.push(("contrast_child_parent", 0.5, chain.mean_of_terms(values.collect(), 2)));
        }
        if self.config.terms.on("contrast_parent_child") {
            let values = links.map(|i| contrast(&right[i], &right[i + 1], &wrong[i + 1]));
            terms.push(("contrast_parent_child", 0.5, chain.mean_of_terms(values.collect(), 2)));
        }
        Loss::of_terms(space, terms)
    }
}
