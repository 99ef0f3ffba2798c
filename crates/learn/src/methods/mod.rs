//! Training objectives, one file per paper, and [`METHODS`], the list of them.
//!
//! A method sees points, their space and this step's scalars; never an encoder, a file or an optimiser. It returns per-sample
//! terms and a total. What it reads of a batch it declares as [`View`]s.
//!
//! Each file holds a settings struct (the paper's values, with their source), the translation into terms, and an [`MethodEntry`].
//! Objectives that are weighted sums of contrasts and cones are *data*, an [`objective::Objective`]; others implement
//! [`Method`] with the functions of [`terms`](crate::terms). Where paper and released code differ, the settings follow the paper and
//! `reference = true` follows the code; DEVIATIONS.md has the list.

pub mod clip;
pub mod hycoclip;
pub mod meru;
pub mod objective;
pub mod phyclip;
mod settings;

use burn::tensor::Tensor;
use conifer_data::View;
use conifer_geometry::{Manifold, RootT};
use conifer_space::ManifoldSpec;

use crate::{Error, Result};

pub use settings::Terms;

/// One training objective.
pub trait Method: Send + Sync {
    /// Name in configurations, logs and reports: `"hycoclip"`.
    fn name(&self) -> &'static str;
    /// Paper and equations.
    fn reference(&self) -> &'static str;
    /// What the batch must provide: exactly the views that [`Method::loss`] reads with these settings.
    fn views(&self) -> &'static [View];
    /// The loss of an embedded batch; a pure function of its arguments.
    ///
    /// # Errors
    /// [`Error::Setting`] if a declared view is missing, [`Error::Shape`] if the views do not fit together.
    fn loss(&self, batch: &Embedded, space: &Space) -> Result<Loss>;
}

/// Points of one batch, `[B, D]` each (space components); row i of every view belongs to sample i.
#[derive(Clone, Debug, Default)]
pub struct Embedded {
    /// Whole photographs.
    pub image: Option<Tensor<2>>,
    /// Whole captions.
    pub text: Option<Tensor<2>>,
    /// One box cut out of each photograph.
    pub box_image: Option<Tensor<2>>,
    /// The phrase of that box.
    pub box_text: Option<Tensor<2>>,
}

/// The space of a batch and the scalars of this step.
pub struct Space {
    /// The manifold, with a curvature that carries gradient.
    pub manifold: Box<dyn Manifold>,
    /// Apex of the cone system.
    pub root: RootT,
    /// Curvatures c of the Lorentz factors, `[K]`, as the manifold uses them; absent where a space has none.
    pub curv: Option<Tensor<1>>,
    /// 1/temperature, `[1]`.
    pub logit_scale: Tensor<1>,
}

/// A loss and what it is made of.
#[derive(Clone, Debug)]
pub struct Loss {
    /// What is minimised, `[1]`.
    pub total: Tensor<1>,
    /// Named parts for the log, before their weights: groups (`contrastive`, `entailment`) as `[1]`, single terms per sample, `[B]`.
    pub terms: Vec<(&'static str, Tensor<1>)>,
}

/// One line of [`METHODS`].
pub struct MethodEntry {
    /// Name in `[method] kind = "..."`.
    pub name: &'static str,
    /// One sentence for `conifer methods`.
    pub summary: &'static str,
    /// Paper and equations.
    pub reference: &'static str,
    /// Views read with the default settings.
    pub views: &'static [View],
    /// Keys of the `[method.terms]` table; each switches one term off.
    pub terms: &'static [&'static str],
    /// The space of the paper, for embeddings of the given dimension (curvature left to the head).
    pub manifold: fn(dim: usize) -> ManifoldSpec,
    /// The method with these settings (the `[method]` table without `kind`); absent keys take the paper's values, unknown ones are refused.
    pub from_config: fn(&toml::Table) -> Result<Box<dyn Method>>,
    /// The complete settings that these stand for: what is stored beside every result.
    pub resolve: fn(&toml::Table) -> Result<toml::Table>,
}

/// Every training objective.
pub const METHODS: &[MethodEntry] = &[clip::ENTRY, meru::ENTRY, hycoclip::ENTRY, phyclip::ENTRY];

/// The registry line named `name`.
///
/// # Errors
/// [`Error::Unknown`] with the known names.
pub fn entry(name: &str) -> Result<&'static MethodEntry> {
    METHODS.iter().find(|entry| entry.name == name).ok_or_else(|| Error::Unknown {
        kind: "method",
        name: name.to_owned(),
        known: METHODS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

impl Loss {
    /// The part called `name`, if this method has it.
    pub fn term(&self, name: &str) -> Option<&Tensor<1>> {
        self.terms.iter().find(|(term, _)| *term == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod oracle;
#[cfg(test)]
pub(crate) mod testkit;
