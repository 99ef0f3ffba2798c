//! MERU: contrastive loss by the negative Lorentz distance, with captions above photographs in entailment cones.
//!
//! Desai et al., "Hyperbolic Image-Text Representations", ICML 2023: `1/2 (L(I, T) + L(T, I)) + gamma * mean max(0,
//! ext(T, I) - aperture(T))`, with similarity `-d`. The loss works on any space that has cones.

use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::MethodEntry;
use super::clip::symmetric_contrast;
use super::objective::{Boxes, ConeTerm, Objective, ViewPart};
use super::settings::{self, MethodSettings, TermSwitches, number};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{ConeShape, Denominator};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "contrast by hyperbolic distance, captions above photographs in entailment cones",
    reference: REFERENCE,
    views: &[View::Pair],
    terms: &["contrast_image_text", "contrast_text_image", "cone_text_image"],
    root: RootKind::Origin,
    manifold: one_hyperboloid,
    from_config: |table| Ok(Box::new(build(&settings::parse(table)?)?)),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "meru";
const REFERENCE: &str = "Desai et al., ICML 2023, Sec. 3";

/// Settings in the `[method]` table, without `kind`. The defaults are the published values; each number names its
/// source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// No effect, because paper and released code agree.
    pub reference: bool,
    /// gamma: factor of the cone term in the total. 0.2 (released code).
    pub entailment_weight: f64,
    /// eta: factor on the half aperture. 1: the paper has no such factor. 0.7 on a product space gives PHyCLIP without
    /// boxes.
    pub aperture_scale: f64,
    /// K of the half aperture. 0.1 (HyCoCLIP, below Eq. 7).
    pub min_radius: f64,
    /// Whether boxes with their phrases join the batch as additional pairs ("w/ boxes" in HyCoCLIP Table 1). Default:
    /// none.
    pub boxes: Boxes,
    /// `contrast_image_text`, `contrast_text_image`, `cone_text_image` (parent text, child photograph). Default: all
    /// on.
    pub terms: TermSwitches,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self {
            reference,
            entailment_weight: 0.2,
            aperture_scale: 1.0,
            min_radius: 0.1,
            boxes: Boxes::None,
            terms: TermSwitches::all(ENTRY.terms),
        }
    }

    fn check(&self) -> Result<()> {
        number("entailment_weight", self.entailment_weight, |x| x >= 0.0, "0 or more")?;
        number("aperture_scale", self.aperture_scale, |x| x >= 0.0, "0 or more")?;
        number("min_radius", self.min_radius, |x| x > 0.0, "more than 0")?;
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
        cones: vec![ConeTerm {
            name: "cone_text_image",
            parent: ViewPart::Text,
            child: ViewPart::Image,
            shape: ConeShape {
                min_radius: config.min_radius,
                aperture_scale: config.aperture_scale,
                max_aperture: None,
            },
            weight: 1.0,
        }],
        entailment_weight: config.entailment_weight,
        denominator: Denominator::All,
        boxes: config.boxes,
    };
    objective.keep(|name| config.terms.on(name))
}

/// One Lorentz factor of dimension `dim`; the head sets its curvature.
pub(super) fn one_hyperboloid(dim: usize) -> ManifoldSpec {
    ManifoldSpec { curv: Vec::new(), ..ManifoldSpec::lorentz(dim, 1.0) }
}
