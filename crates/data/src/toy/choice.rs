//! Which classes a world shows, and which of them a quickstart never sees.

use serde::{Deserialize, Serialize};

use super::classes::Class;

/// Which classes the scenes of a world show and its texts name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassChoice {
    /// Every class.
    #[default]
    All,
    /// Every class but [`HELD_OUT_CLASSES`]: neither pictures nor texts, true or false, contain one of those.
    Seen,
    /// The main object of every scene is one of [`HELD_OUT_CLASSES`]; everything else may be of any class.
    HeldOut,
}

/// Classes that a world of the choice `seen` never shows or names. The parent of each keeps a class that is drawn like it, so that a model
/// that knows the parent can place the class there.
pub const HELD_OUT_CLASSES: [&str; 8] = ["swan", "parrot", "cow", "willow", "truck", "pear", "mug", "axe"];

impl ClassChoice {
    /// Whether the main object of a scene may be of this class.
    pub fn admits_main(self, class: Class) -> bool {
        match self {
            Self::All => true,
            Self::Seen => !class.is_held_out(),
            Self::HeldOut => class.is_held_out(),
        }
    }

    /// Whether any other object, or a text, may be of this class.
    pub fn admits(self, class: Class) -> bool {
        self != Self::Seen || !class.is_held_out()
    }
}

impl Class {
    /// Whether it is one of [`HELD_OUT_CLASSES`].
    pub fn is_held_out(self) -> bool {
        HELD_OUT_CLASSES.contains(&self.name())
    }
}
