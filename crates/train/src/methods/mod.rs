//! Training objectives, one file per paper, and [`METHODS`], their registry.
//!
//! A method receives points, their space and the scalars of the current step. It has no access to encoders, files or
//! the optimiser. It returns per-sample terms and a total. [`Method::views`] declares which parts of a batch it reads.
//!
//! The file of a method holds its settings struct (the paper's values, with their source), the construction of its loss
//! terms, and its [`MethodEntry`]. Objectives that are weighted sums of contrastive terms and cones are *data*, an
//! [`objective::Objective`]; the others implement [`Method`] with the functions of [`terms`](crate::terms). Where paper
//! and released code differ, the settings follow the paper and `reference = true` follows the code; DEVIATIONS.md has
//! the list.

pub mod argent;
pub mod atmg;
pub mod chain;
pub mod clip;
pub mod edges;
pub mod euclip;
pub mod hcl;
pub mod hycoclip;
pub mod meru;
pub mod momentum;
pub mod objective;
pub mod phyclip;
pub mod poincare;
pub mod radial;
pub mod rcme;
mod settings;
pub mod uncha;
pub mod visual_hierarchies;

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::{ManifoldSpec, Registry};

pub use conifer_model::batch_space::{BatchSpace, RowShare};

use crate::root::RootKind;
use crate::terms::own_rows;
use crate::{Error, Result};

pub use chain::Chain;
pub use edges::Edges;
pub use momentum::{MomentumKeys, MomentumSettings};
pub use settings::TermSwitches;

/// A training objective.
pub trait Method: Send + Sync {
    /// Name in configurations, logs and reports: `"hycoclip"`.
    fn name(&self) -> &'static str;
    /// The paper, and the equations that the method implements.
    fn reference(&self) -> &'static str;
    /// Views that the batch must provide: exactly those that [`Method::loss`] reads with the method's settings.
    fn views(&self) -> &'static [View];
    /// True if the method compares the points with those of the initial model ([`BatchPoints::frozen_chain`]).
    fn reads_frozen(&self) -> bool {
        false
    }
    /// The momentum encoder whose points the method reads ([`BatchPoints::keys`]); `None` if it reads none.
    fn momentum(&self) -> Option<MomentumSettings> {
        None
    }
    /// Initial temperatures of the head if the method has [`SOFTMAXES`](conifer_model::head::SOFTMAXES) contrastive
    /// softmaxes, each with its own temperature. Empty: one temperature for all.
    fn temperatures(&self) -> &'static [f64] {
        &[]
    }
    /// Computes the loss of an embedded batch. The result depends only on the arguments.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a declared view is missing, [`Error::Shape`] if the shapes of the views do not match.
    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss>;
}

/// Points of one batch, `[B, D]` each (space components); row i of every view belongs to sample i.
#[derive(Clone, Debug, Default)]
pub struct BatchPoints {
    /// Whole photographs.
    pub image: Option<Tensor<2>>,
    /// Whole captions.
    pub text: Option<Tensor<2>>,
    /// One box cut out of each photograph. Row i is the box of sample i.
    pub box_image: Option<Tensor<2>>,
    /// The phrase of that box.
    pub box_text: Option<Tensor<2>>,
    /// A chain of texts for each sample.
    pub chain: Option<Chain>,
    /// The same chain as embedded by the model before its first step; a constant.
    pub frozen_chain: Option<Chain>,
    /// Crops of photographs with their whole-part pairs.
    pub edges: Option<Edges>,
    /// The points of the parts in `edges` under the momentum encoder, and the queue of earlier points; constants.
    pub keys: Option<MomentumKeys>,
}

impl BatchPoints {
    /// Returns the points of photographs and captions. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing, [`Error::Shape`] if their shapes differ or the batch is empty.
    pub fn pair(&self, method: &str) -> Result<(&Tensor<2>, &Tensor<2>)> {
        let missing = |name: &str| {
            let expected = format!("one point per sample ({method} reads the view `pair`)");
            Error::invalid(format!("{name} of the batch"), "missing", expected)
        };
        let image = self.image.as_ref().ok_or_else(|| missing("image"))?;
        let text = self.text.as_ref().ok_or_else(|| missing("text"))?;
        let expected = match (image.dims(), text.dims()) {
            ([0, _], _) => format!("a batch of at least 1 for {method}"),
            (one, other) if one == other => return Ok((image, text)),
            (image, _) => format!("{image:?}, as the other views of the batch"),
        };
        Err(Error::Shape { name: "text".to_owned(), found: text.dims().to_vec(), expected })
    }

    /// Returns the points of photographs alone. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing, [`Error::Shape`] if the batch is empty.
    pub fn photo(&self, method: &str) -> Result<&Tensor<2>> {
        let expected = || format!("one point per sample ({method} reads the view `photo`)");
        let image = self.image.as_ref().ok_or_else(|| Error::invalid("image of the batch", "missing", expected()))?;
        match image.dims() {
            [0, _] => {
                let expected = format!("a batch of at least 1 for {method}");
                Err(Error::Shape { name: "image".to_owned(), found: image.dims().to_vec(), expected })
            }
            _ => Ok(image),
        }
    }

    /// Returns the chains as the initial model embedded them. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing.
    pub fn frozen_chain(&self, method: &str) -> Result<&Chain> {
        let expected = || format!("the points of the model before its first step ({method} regularises towards them)");
        self.frozen_chain.as_ref().ok_or_else(|| Error::invalid("frozen chain of the batch", "missing", expected()))
    }

    /// Returns the crops with their whole-part pairs. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing.
    pub fn edges(&self, method: &str) -> Result<&Edges> {
        let expected = || format!("photographs and boxes cut out of them ({method} reads the view `edges`)");
        self.edges.as_ref().ok_or_else(|| Error::invalid("edges of the batch", "missing", expected()))
    }

    /// Returns the points of the momentum encoder. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing.
    pub fn keys(&self, method: &str) -> Result<&MomentumKeys> {
        let expected = || format!("the points of a momentum encoder ({method} takes its negatives from their queue)");
        self.keys.as_ref().ok_or_else(|| Error::invalid("keys of the batch", "missing", expected()))
    }

    /// Returns the chains of the batch. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing, have fewer than two links, have wrong texts for only some links, or have
    /// lengths that are out of range or not one per sample; [`Error::Shape`] if the shapes of the links differ.
    pub fn chain(&self, method: &str) -> Result<&Chain> {
        let Some(chain) = &self.chain else {
            let expected = format!("two links or more for each sample ({method} reads the view `chain`)");
            return Err(Error::invalid("chain of the batch", "missing", expected));
        };
        let links = chain.positive.len();
        if links < 2 || !(chain.negative.is_empty() || chain.negative.len() == links) {
            let found = format!("{links} links and {} wrong texts", chain.negative.len());
            return Err(Error::invalid(
                "chain of the batch",
                found,
                "at least 2 links, and one wrong text per link or none",
            ));
        }
        let shape = chain.positive[0].dims();
        chain.check_lengths(shape[0])?;
        match chain.positive.iter().chain(&chain.negative).find(|link| link.dims() != shape) {
            None => Ok(chain),
            Some(link) => Err(Error::Shape {
                name: "link of a chain".to_owned(),
                found: link.dims().to_vec(),
                expected: format!("{shape:?}, as the first link"),
            }),
        }
    }
}

/// A loss and its terms. If [`BatchSpace::rows`] is a part of the rows, this is the contribution of these rows: the
/// contributions of all parts add up to the loss. [`Loss::of_terms`] removes the other rows from each term.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// The value to minimise, `[1]`.
    pub total: Tensor<1>,
    /// Named terms for the log, before their weights: groups (`contrastive`, `entailment`) as `[1]`, single terms per
    /// sample, `[B]`.
    pub terms: Vec<(&'static str, Tensor<1>)>,
}

/// An entry of [`METHODS`].
pub struct MethodEntry {
    /// Name in `[method] kind = "..."`.
    pub name: &'static str,
    /// One sentence for `conifer methods`.
    pub summary: &'static str,
    /// The paper, and the equations that the method implements.
    pub reference: &'static str,
    /// Views read with the default settings.
    pub views: &'static [View],
    /// Keys of the `[method.terms]` table. A key set to `false` switches its term off.
    pub terms: &'static [&'static str],
    /// Default root of the cones; the config can select another.
    pub root: RootKind,
    /// The paper's space for embeddings of the given dimension. The head sets the curvature.
    pub manifold: fn(dim: usize) -> ManifoldSpec,
    /// Builds the method from its settings (the `[method]` table without `kind`). Absent keys take the paper's values;
    /// unknown keys are an error.
    pub from_config: fn(&toml::Table) -> Result<Box<dyn Method>>,
    /// Adds the defaults to the settings. The result is stored with every measurement.
    pub resolve: fn(&toml::Table) -> Result<toml::Table>,
}

/// Every training objective. A crate outside this workspace adds a method with [`Registry::register`].
pub static METHODS: Registry<MethodEntry> = Registry::new(
    "method",
    |entry| entry.name,
    &[
        clip::ENTRY,
        meru::ENTRY,
        hycoclip::ENTRY,
        phyclip::ENTRY,
        radial::ENTRY,
        rcme::ENTRY,
        visual_hierarchies::ENTRY,
        atmg::ENTRY,
        hcl::ENTRY,
        euclip::ENTRY,
        poincare::ENTRY,
        uncha::ENTRY,
        argent::ENTRY,
    ],
);

/// Returns the registry entry called `name`.
///
/// # Errors
/// [`Error::Unknown`], which lists the known names.
pub fn entry(name: &str) -> Result<&'static MethodEntry> {
    let unknown = || Error::Unknown { kind: "method", name: name.to_owned(), known: METHODS.names() };
    METHODS.find(name).ok_or_else(unknown)
}

impl Loss {
    /// The sum of `weight * mean(values)` over terms `(name, weight, values)`, where `values` is `[B]`. The values of
    /// rows that another process computes ([`BatchSpace::rows`]) count as 0.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no term.
    pub fn of_terms(space: &BatchSpace, terms: Vec<WeightedTerm>) -> Result<Self> {
        let terms = in_own_rows(space, terms);
        let total = weighted_sum(&terms).ok_or_else(no_terms)?;
        Ok(Self { total, terms: terms.into_iter().map(|(name, _, values)| (name, values)).collect() })
    }

    /// The sum of `weight * group` over groups `(name, weight, terms)`. The value of a group is the weighted sum of
    /// the means of its terms. Groups without a term are left out. [`Loss::terms`] lists the groups and then their
    /// terms.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no term.
    fn of_groups(space: &BatchSpace, groups: Vec<(&'static str, f64, Vec<WeightedTerm>)>) -> Result<Self> {
        let own = |(name, weight, terms)| (name, weight, in_own_rows(space, terms));
        let groups: Vec<_> = groups.into_iter().map(own).collect();
        let sum = |(name, weight, terms): &(_, _, Vec<_>)| Some((*name, *weight, weighted_sum(terms)?));
        let sums: Vec<WeightedTerm> = groups.iter().filter_map(sum).collect();
        let total = weighted_sum(&sums).ok_or_else(no_terms)?;
        let terms = sums.into_iter().chain(groups.into_iter().flat_map(|(.., terms)| terms));
        Ok(Self { total, terms: terms.map(|(name, _, values)| (name, values)).collect() })
    }

    /// The term called `name`, if the loss has it.
    pub fn term(&self, name: &str) -> Option<&Tensor<1>> {
        self.terms.iter().find(|(term, _)| *term == name).map(|(_, value)| value)
    }
}

/// Name, weight and values `[B]` of a term.
type WeightedTerm = (&'static str, f64, Tensor<1>);

/// The terms without the values of rows that another process computes.
fn in_own_rows(space: &BatchSpace, terms: Vec<WeightedTerm>) -> Vec<WeightedTerm> {
    terms.into_iter().map(|(name, weight, values)| (name, weight, own_rows(space, values))).collect()
}

fn no_terms() -> Error {
    Error::invalid("method.terms", "all false", "at least one term")
}

/// `sum_i weight_i mean(values_i)`, `[1]`; `None` if there are no terms.
fn weighted_sum(terms: &[WeightedTerm]) -> Option<Tensor<1>> {
    let weighted = terms.iter().map(|(_, weight, values)| values.clone().mean() * *weight);
    weighted.reduce(|sum, term| sum + term)
}

#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod later_oracle;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod radial_oracle;
#[cfg(test)]
mod released;
#[cfg(test)]
pub(crate) mod testkit;
