//! PHyCLIP: HyCoCLIP's composition of terms on a product of hyperbolic spaces.
//!
//! "PHyCLIP: l1-Product of Hyperbolic Factors Unifies Hierarchy and Compositionality in Vision-Language Representation
//! Learning", ICLR 2026. A point is a tuple of K points, one per factor:
//!
//! ```text
//! d   = mean_i d_i                                                     Eq. 2 (`product_l1`); `product_l2`: rms
//! L   = 1/4 ( L(I, T) + L(T, I) + L(Ib, Tb) + L(Tb, Ib) )              Eq. 4; terms: Eq. 3, similarity -d
//! E   = mean_i max(0, ext_i - eta aperture_i), summed over the pairs   Eqs. 5-6
//! all = L + gamma E                                                    Eq. 1
//! ```
//!
//! The manifold sets l1 or l2, the number of factors and their dimension. With one factor this is HyCoCLIP with boxes
//! contrasted with boxes.

use conifer_data::View;
use conifer_geometry::ManifoldSpec;
use serde::{Deserialize, Serialize};

use super::MethodEntry;
use super::hycoclip::{self, BoxCandidates, composition};
use super::objective::Objective;
use super::settings::{self, MethodSettings};
use crate::Result;
use crate::root::RootKind;

/// The entry of this method in [`METHODS`](super::METHODS).
pub const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    summary: "HyCoCLIP's terms on an l1 or l2 product of hyperbolic spaces, boxes contrasted with boxes",
    reference: REFERENCE,
    views: &[View::Pair, View::Boxes],
    terms: hycoclip::TERMS,
    root: RootKind::Origin,
    manifold: factors_of_eight,
    from_config: |table| Ok(Box::new(build(&settings::parse(table)?)?)),
    resolve: settings::resolve::<Config>,
};

const NAME: &str = "phyclip";
const REFERENCE: &str = "PHyCLIP, ICLR 2026, Eqs. 1-6";

/// The settings of HyCoCLIP with other defaults.
///
/// * `entailment_weight`: gamma of Eq. 1, 0.2 (App. C.3). It multiplies the plain sum of Eq. 6; with `reference`, half
///   that sum.
/// * `box_candidates`: `boxes` (Eq. 4); with `reference`: `wholes`.
/// * With `boxes`, `contrast_box_image_text` compares the crop of a box with phrases, and `contrast_box_text_image` a
///   phrase with crops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub hycoclip::Config);

impl MethodSettings for Config {
    const METHOD: &'static str = NAME;

    fn defaults(reference: bool) -> Self {
        Self(hycoclip::Config {
            entailment_weight: 0.2,
            box_candidates: if reference { BoxCandidates::Wholes } else { BoxCandidates::Boxes },
            ..hycoclip::Config::defaults(reference)
        })
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}

/// Builds the objective from its settings.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if every term is switched off.
pub fn build(config: &Config) -> Result<Objective> {
    composition(NAME, REFERENCE, &config.0, config.0.reference.then(released_max_aperture))
}

/// The released code clamps the sine of a half aperture to `1 - 1e-6`, in f32. The half aperture at a point near the
/// origin is then 1.42e-3 radians less than pi/2.
fn released_max_aperture() -> f64 {
    f64::from((1.0 - 1e-6) as f32).asin()
}

/// K = D/8 factors of dimension 8 each (Sec. 4.1 has K = 64). The head sets the curvatures.
fn factors_of_eight(dim: usize) -> ManifoldSpec {
    ManifoldSpec { dim, ..ManifoldSpec::product_l1((dim / 8).max(1), 8, Vec::new()) }
}
