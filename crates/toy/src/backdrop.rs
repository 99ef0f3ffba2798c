//! Backgrounds of scenes: the habitats that fit each background, the placement of objects, and the colour of their
//! outlines.
//!
//! Backgrounds are paler than the objects and have no outline, so that objects stand out.

use serde::{Deserialize, Serialize};

use super::classes::Habitat;
use super::palette::Rgb;

/// The background of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are self-explanatory
pub enum Background {
    Meadow,
    Forest,
    Desert,
    Snow,
    Beach,
    Street,
    Room,
    Night,
    Sky,
    Sea,
    Reef,
}

/// How objects are placed on a background.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ground {
    /// Objects stand on the ground. Their feet are lower in the picture than this y coordinate, a fraction of its
    /// height.
    Firm(f32),
    /// Objects float. Their waterline is lower in the picture than this y coordinate, a fraction of its height.
    Water(f32),
    /// Objects hover at any height.
    Nowhere,
}

impl Background {
    /// All backgrounds.
    pub const ALL: &[Self] = &[
        Self::Meadow,
        Self::Forest,
        Self::Desert,
        Self::Snow,
        Self::Beach,
        Self::Street,
        Self::Room,
        Self::Night,
        Self::Sky,
        Self::Sea,
        Self::Reef,
    ];

    /// The phrase that follows an object in a caption: "in a meadow".
    pub fn place(self) -> &'static str {
        match self {
            Self::Meadow => "in a meadow",
            Self::Forest => "in a forest",
            Self::Desert => "in the desert",
            Self::Snow => "in the snow",
            Self::Beach => "on a beach",
            Self::Street => "on a street",
            Self::Room => "in a room",
            Self::Night => "at night",
            Self::Sky => "in the sky",
            Self::Sea => "at sea",
            Self::Reef => "under the sea",
        }
    }

    /// The noun phrase for the background alone: "a meadow".
    pub fn setting(self) -> &'static str {
        match self {
            Self::Meadow => "a meadow",
            Self::Forest => "a forest",
            Self::Desert => "a desert",
            Self::Snow => "a snowy field",
            Self::Beach => "a beach",
            Self::Street => "a street",
            Self::Room => "a room",
            Self::Night => "a starry night",
            Self::Sky => "a cloudy sky",
            Self::Sea => "the open sea",
            Self::Reef => "an underwater reef",
        }
    }

    pub(crate) fn hosts(self, habitat: Habitat) -> bool {
        use Background::*;
        match habitat {
            Habitat::Land => !matches!(self, Sky | Sea | Reef),
            Habitat::Outdoors => !matches!(self, Sky | Sea | Reef | Room),
            Habitat::Pond => matches!(self, Meadow | Snow | Beach | Night | Sea),
            Habitat::Harbour => matches!(self, Beach | Room | Sea),
            Habitat::Deep => matches!(self, Beach | Sea | Reef),
            Habitat::Air => !matches!(self, Room | Reef),
        }
    }

    pub(crate) fn ground(self) -> Ground {
        match self {
            Self::Meadow => Ground::Firm(0.56),
            Self::Forest => Ground::Firm(0.64),
            Self::Desert => Ground::Firm(0.62),
            Self::Snow => Ground::Firm(0.60),
            Self::Beach => Ground::Firm(0.68),
            Self::Street => Ground::Firm(0.70),
            Self::Room => Ground::Firm(0.68),
            Self::Night => Ground::Firm(0.72),
            Self::Sea => Ground::Water(0.56),
            Self::Sky | Self::Reef => Ground::Nowhere,
        }
    }

    /// Colour of object outlines on this background, and the fraction by which it is mixed into the object's colour:
    /// dark by day, pale at night.
    pub(crate) fn rim(self) -> (Rgb, f32) {
        match self {
            Self::Night => (Rgb(224, 228, 250), 0.75),
            _ => (super::palette::SHADE, 0.72),
        }
    }
}
