//! [`Modality`]: the kind of input that a row embeds.

use serde::{Deserialize, Serialize};

/// The kind of input that a row embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    /// A whole image.
    Image,
    /// A whole text.
    Text,
    /// A box of an image.
    BoxImage,
    /// The phrase of a box.
    BoxText,
}

impl Modality {
    /// The name in files and tables: `image`, `text`, `box_image`, `box_text`.
    pub fn name(self) -> &'static str {
        match self {
            Modality::Image => "image",
            Modality::Text => "text",
            Modality::BoxImage => "box_image",
            Modality::BoxText => "box_text",
        }
    }
}
