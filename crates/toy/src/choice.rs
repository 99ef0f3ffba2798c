//! Class filters of a toy world, and the classes that are held out of training.

use serde::{Deserialize, Serialize};

use super::classes::ToyClass;

/// The classes that the scenes of a world show and its texts name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassChoice {
    /// Scenes and texts may contain every class.
    #[default]
    All,
    /// Every class except [`HELD_OUT_CLASSES`]. Neither the pictures nor the texts, positive or negative, contain a
    /// held-out class.
    Seen,
    /// The main object of every scene is one of [`HELD_OUT_CLASSES`]; other objects may be of any class.
    HeldOut,
}

/// Classes that a world with the choice `seen` never shows or names. Each has a sibling that is not held out and has a
/// similar drawing, so that a model can infer the parent of the held-out class.
pub const HELD_OUT_CLASSES: [&str; 8] = ["swan", "parrot", "cow", "willow", "truck", "pear", "mug", "axe"];

impl ClassChoice {
    /// Returns whether the main object of a scene may be of this class.
    pub fn admits_main(self, class: ToyClass) -> bool {
        match self {
            Self::All => true,
            Self::Seen => !class.is_held_out(),
            Self::HeldOut => class.is_held_out(),
        }
    }

    /// Returns whether the other objects and the texts of a scene may be of this class.
    pub fn admits(self, class: ToyClass) -> bool {
        self != Self::Seen || !class.is_held_out()
    }
}

impl ToyClass {
    /// Returns whether the class is one of [`HELD_OUT_CLASSES`].
    pub fn is_held_out(self) -> bool {
        HELD_OUT_CLASSES.contains(&self.name())
    }
}
