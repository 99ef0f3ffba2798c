//! CLIP: symmetric contrastive loss of photographs and captions by cosine similarity.
//!
//! Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", ICML 2021. This is the form
//! of the baselines of MERU, HyCoCLIP and PHyCLIP: `1/2 (L(I, T) + L(T, I))`, with the cosine on the unit sphere as
//! similarity.

use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::MethodEntry;
use super::objective::{Boxes, ContrastTerm, Objective, ViewPart};
use super::settings::{self, MethodSettings, TermSwitches};
use crate::Result;
use crate::root::RootKind;
use crate::terms::Denominator;

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "symmetric contrast of photograph and caption on the sphere",
    reference: REFERENCE,
    views: &[View::Pair],
    terms: &["contrast_image_text", "contrast_text_image"],
    root: RootKind::Origin,
    manifold: ManifoldSpec::sphere,
    from_config: |table| Ok(Box::new(build(&settings::parse(table)?)?)),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "clip";
const REFERENCE: &str = "Radford et al., ICML 2021; baseline of HyCoCLIP Table 1";

/// Settings in the `[method]` table, without `kind`. The defaults are the values of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because paper and released code agree.
    pub reference: bool,
    /// Whether boxes with their phrases join the batch as additional pairs ("w/ boxes" in HyCoCLIP Table 1). Default:
    /// none.
    pub boxes: Boxes,
    /// `contrast_image_text`: photographs are queries, captions are candidates. `contrast_text_image`: the reverse.
    /// Default: both on.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self { reference, boxes: Boxes::None, terms: TermSwitches::all(ENTRY.terms) }
    }

    fn check(&self) -> Result<()> {
        self.terms.check(ENTRY.terms)
    }
}

/// Builds the objective from its settings.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if every term is switched off.
pub fn build(config: &Config) -> Result<Objective> {
    let objective = Objective {
        method: NAME,
        reference: REFERENCE,
        contrasts: symmetric_contrast(),
        cones: Vec::new(),
        entailment_weight: 0.0,
        denominator: Denominator::All,
        boxes: config.boxes,
    };
    objective.keep(|name| config.terms.on(name))
}

/// `1/2 (L(I, T) + L(T, I))`.
pub(super) fn symmetric_contrast() -> Vec<ContrastTerm> {
    let contrast = |name, query, candidates| ContrastTerm { name, query, candidates, weight: 0.5 };
    vec![
        contrast("contrast_image_text", ViewPart::Image, ViewPart::Text),
        contrast("contrast_text_image", ViewPart::Text, ViewPart::Image),
    ]
}
