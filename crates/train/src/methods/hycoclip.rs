//! HyCoCLIP: entailment cones in which boxes are above wholes and texts above photographs.
//!
//! Pal et al., "Compositional Entailment Learning for Hyperbolic Vision-Language Models", ICLR 2025. I and T are the
//! photograph and its caption, Ib and Tb a box and its phrase:
//!
//! ```text
//! hCC = 1/4 ( L(I, T) + L(T, I) + L(Ib, T) + L(Tb, I) )                          Eq. 6; L: Eq. 5, similarity -d
//! hCE = E(T, I; inter) + E(Tb, Ib; inter) + E(Ib, I; intra) + E(Tb, T; intra)    Eq. 11; E(parent, child; eta): Eq. 10
//! hC  = hCC + gamma hCE                                                          Eq. 12
//! ```
//!
//! Boxes are queries and wholes are candidates. Boxes are not negatives of each other, because boxes of different
//! photographs often show the same kind of object.

use conifer_data::View;
use serde::{Deserialize, Serialize};

use super::MethodEntry;
use super::meru::one_hyperboloid;
use super::objective::{Boxes, ConeTerm, ContrastTerm, Objective, ViewPart};
use super::settings::{self, MethodSettings, TermSwitches, number};
use crate::Result;
use crate::root::RootKind;
use crate::terms::{ConeShape, Denominator};

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "MERU with boxes: boxes above wholes, texts above photographs, boxes contrasted with wholes",
    reference: REFERENCE,
    views: &[View::Pair, View::Boxes],
    terms: TERMS,
    root: RootKind::Origin,
    manifold: one_hyperboloid,
    from_config: |table| Ok(Box::new(build(&settings::parse(table)?)?)),
    resolve: settings::resolve::<Config>,
};

/// The eight losses of Table 4.
pub(super) const TERMS: &[&str] = &[
    "contrast_image_text",
    "contrast_text_image",
    "contrast_box_image_text",
    "contrast_box_text_image",
    "cone_text_image",
    "cone_box_text_box_image",
    "cone_box_image_image",
    "cone_box_text_text",
];

const NAME: &str = "hycoclip";
const REFERENCE: &str = "Pal et al., ICLR 2025, Eqs. 5-12";

/// Settings in the `[method]` table, without `kind`. PHyCLIP has the same settings with other defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Released behaviour: `entailment_weight` is 0.2 and multiplies *half* the sum of the cone terms.
    pub reference: bool,
    /// gamma of Eq. 12: factor of the plain sum of the cone terms. 0.1 (App. B).
    pub entailment_weight: f64,
    /// eta of Eq. 10: factors on the half apertures.
    pub aperture_scale: ApertureScale,
    /// K of Eq. 7: 0.1.
    pub min_radius: f64,
    /// Candidates for boxes: wholes (Eq. 6).
    pub box_candidates: BoxCandidates,
    /// Softmax denominator. Eq. 5 prints a sum without the positive. The default includes the positive, as the released
    /// code does.
    pub denominator: Denominator,
    /// The losses of Table 4: `contrast_<query>_<candidates>`, `cone_<parent>_<child>`. Default: all on. Switching one
    /// off does not change the weights of the others.
    pub terms: TermSwitches,
}

/// Factors on the half aperture of a parent (App. B).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApertureScale {
    /// Between modalities, text above photograph: 0.7.
    pub inter: f64,
    /// Within a modality, box above whole: 1.2.
    pub intra: f64,
}

/// The candidates for a box in the contrastive terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoxCandidates {
    /// A crop of a photograph against all captions, a phrase against all photographs (HyCoCLIP Eq. 6; the released code
    /// of HyCoCLIP and PHyCLIP).
    Wholes,
    /// A crop of a photograph against all phrases, a phrase against all crops (PHyCLIP Eq. 4).
    Boxes,
}

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self {
            reference,
            entailment_weight: if reference { 0.2 } else { 0.1 },
            aperture_scale: ApertureScale { inter: 0.7, intra: 1.2 },
            min_radius: 0.1,
            box_candidates: BoxCandidates::Wholes,
            denominator: Denominator::All,
            terms: TermSwitches::all(TERMS),
        }
    }

    fn check(&self) -> Result<()> {
        number("entailment_weight", self.entailment_weight, |x| x >= 0.0, "0 or more")?;
        number("aperture_scale.inter", self.aperture_scale.inter, |x| x >= 0.0, "0 or more")?;
        number("aperture_scale.intra", self.aperture_scale.intra, |x| x >= 0.0, "0 or more")?;
        number("min_radius", self.min_radius, |x| x > 0.0, "more than 0")?;
        self.terms.check(TERMS)
    }
}

/// Builds the objective from its settings.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if every term is switched off.
pub fn build(config: &Config) -> Result<Objective> {
    composition(NAME, REFERENCE, config, None)
}

/// Builds the [`Objective`] with the contrastive terms of Eq. 6 and the cone terms of Eq. 11, weighted as in Eq. 12.
/// PHyCLIP also uses this function, with `box_candidates` as in its Eq. 4.
pub(super) fn composition(
    method: &'static str,
    reference: &'static str,
    config: &Config,
    max_aperture: Option<f64>,
) -> Result<Objective> {
    use ViewPart::{BoxImage, BoxText, Image, Text};
    let (box_image_meets, box_text_meets) = match config.box_candidates {
        BoxCandidates::Wholes => (Text, Image),
        BoxCandidates::Boxes => (BoxText, BoxImage),
    };
    let contrast = |name, query, candidates| ContrastTerm { name, query, candidates, weight: 0.25 };
    let cone = |name, parent, child, aperture_scale| ConeTerm {
        name,
        parent,
        child,
        shape: ConeShape { min_radius: config.min_radius, aperture_scale, max_aperture },
        weight: if config.reference { 0.5 } else { 1.0 },
    };
    let ApertureScale { inter, intra } = config.aperture_scale;
    let objective = Objective {
        method,
        reference,
        contrasts: vec![
            contrast("contrast_image_text", Image, Text),
            contrast("contrast_text_image", Text, Image),
            contrast("contrast_box_image_text", BoxImage, box_image_meets),
            contrast("contrast_box_text_image", BoxText, box_text_meets),
        ],
        cones: vec![
            cone("cone_text_image", Text, Image, inter),
            cone("cone_box_text_box_image", BoxText, BoxImage, inter),
            cone("cone_box_image_image", BoxImage, Image, intra),
            cone("cone_box_text_text", BoxText, Text, intra),
        ],
        entailment_weight: config.entailment_weight,
        denominator: config.denominator,
        boxes: Boxes::None,
    };
    objective.keep(|name| config.terms.on(name))
}
