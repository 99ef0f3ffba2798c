//! Colours: the ten colour words of the captions, and fixed colours of details such as beaks, tyres and window panes.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rgb(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// A colour word of the toy world. Every object has exactly one colour word, for the colour of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are self-explanatory
pub enum Colour {
    Red,
    Orange,
    Yellow,
    Green,
    Blue,
    Purple,
    Pink,
    Brown,
    White,
    Black,
}

impl Colour {
    /// All colour words.
    pub const ALL: &[Self] = &[
        Self::Red,
        Self::Orange,
        Self::Yellow,
        Self::Green,
        Self::Blue,
        Self::Purple,
        Self::Pink,
        Self::Brown,
        Self::White,
        Self::Black,
    ];

    /// The colour word in captions, such as "red".
    pub fn name(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Orange => "orange",
            Self::Yellow => "yellow",
            Self::Green => "green",
            Self::Blue => "blue",
            Self::Purple => "purple",
            Self::Pink => "pink",
            Self::Brown => "brown",
            Self::White => "white",
            Self::Black => "black",
        }
    }

    pub(crate) fn rgb(self) -> Rgb {
        match self {
            Self::Red => Rgb(222, 60, 58),
            Self::Orange => Rgb(246, 142, 44),
            Self::Yellow => Rgb(252, 208, 62),
            Self::Green => Rgb(76, 168, 84),
            Self::Blue => Rgb(58, 118, 214),
            Self::Purple => Rgb(138, 84, 190),
            Self::Pink => Rgb(250, 150, 188),
            Self::Brown => Rgb(142, 92, 58),
            Self::White => Rgb(248, 246, 240),
            Self::Black => Rgb(62, 60, 72),
        }
    }
}

impl Rgb {
    /// Linear interpolation towards `other`, with `weight` in [0, 1].
    pub(crate) fn mix(self, other: Self, weight: f32) -> Self {
        let mix = |a: u8, b: u8| (f32::from(a) + (f32::from(b) - f32::from(a)) * weight).round() as u8;
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    pub(crate) fn skia(self) -> tiny_skia::Color {
        tiny_skia::Color::from_rgba8(self.0, self.1, self.2, 255)
    }
}

/// The colour that shadows are mixed with: a cool dark tone. No shape uses pure black or white, which keeps the
/// pictures soft.
pub(crate) const SHADE: Rgb = Rgb(38, 32, 58);
/// The colour that highlights are mixed with: a warm pale tone.
pub(crate) const GLOW: Rgb = Rgb(255, 250, 236);

/// How a shape is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The colour of the object.
    Body,
    /// The colour of the object, lighter: bellies, highlights.
    Light,
    /// The colour of the object, darker: far legs, folds.
    Dark,
    /// A fixed colour, independent of the colour of the object.
    Fixed(Rgb),
}

pub(crate) use Ink::{Body, Dark, Light};

/// Colour of pupils, noses and dark outlines.
pub(crate) const NIGHT: Ink = Ink::Fixed(Rgb(46, 42, 56));
/// Colour of the whites of eyes, teeth and pages.
pub(crate) const CREAM: Ink = Ink::Fixed(Rgb(255, 251, 240));
/// Colour of beaks and feet.
pub(crate) const BEAK: Ink = Ink::Fixed(Rgb(244, 156, 50));
/// Colour of hooves and tyres.
pub(crate) const TYRE: Ink = Ink::Fixed(Rgb(58, 56, 66));
/// Colour of hubs, rails and blades.
pub(crate) const STEEL: Ink = Ink::Fixed(Rgb(186, 194, 206));
/// Colour of steel in shadow.
pub(crate) const IRON: Ink = Ink::Fixed(Rgb(122, 128, 144));
/// Colour of window panes.
pub(crate) const GLASS: Ink = Ink::Fixed(Rgb(196, 232, 246));
/// Colour of trunks, handles and doors.
pub(crate) const WOOD: Ink = Ink::Fixed(Rgb(150, 104, 66));
/// Colour of wood in shadow.
pub(crate) const BARK: Ink = Ink::Fixed(Rgb(116, 78, 52));
/// Fixed green for leaves and other details to which the colour named in the caption does not apply.
pub(crate) const LEAF: Ink = Ink::Fixed(Rgb(94, 166, 80));
/// Fixed dark green for stems and for the shaded side of green parts.
pub(crate) const MOSS: Ink = Ink::Fixed(Rgb(66, 130, 70));
/// Colour of brass, straw and crusts.
pub(crate) const GOLD: Ink = Ink::Fixed(Rgb(238, 190, 76));
/// Colour of snouts, tongues and inner ears.
pub(crate) const ROSY: Ink = Ink::Fixed(Rgb(244, 164, 164));
/// Colour of red details.
pub(crate) const CHERRY: Ink = Ink::Fixed(Rgb(206, 58, 62));
/// Colour of headlamps, stars and flames.
pub(crate) const LAMP: Ink = Ink::Fixed(Rgb(255, 236, 150));
