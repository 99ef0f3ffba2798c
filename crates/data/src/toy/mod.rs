//! The toy world: drawn pictures of things in places, with everything that is known about them. Whoever has no data set trains on it.
//!
//! ```text
//! classes (drawings: shape, figure, palette)   backdrop, vista
//!     \                                          /
//!      layout: dice -> Scene { background, objects, relations }
//!       | paint::render                 | grammar, caption, negatives, taxonomy
//!       v                               v
//!     Picture                     captions, phrases with boxes, tiers, hard negatives
//! ```
//!
//! * **Is-a tree** of four levels below "thing": animal, bird, land bird, parrot. See [`tree`] and [`Class`].
//! * **Parts** of objects have boxes of their own: the wheels of the car, the beak of the parrot.
//! * **Scenes** show one to four objects of different classes and colours, with relations between them ([`Scene`]).
//! * **Held-out pairs**: one colour and one background of each class are met in the split `held_out` only ([`is_held_out`]).
//! * **Held-out classes**: a world of seen classes neither shows nor names eight of them ([`HELD_OUT_CLASSES`]).
//! * **General words** by themselves, of boxes and of photos, where they are asked for ([`Words`]).
//! * Scene `i` of (seed, split) is a function of these three alone: not of the size of the world, its resolution, or who asked before.

mod backdrop;
mod caption;
mod choice;
mod classes;
mod contrasts;
mod dice;
mod figure;
mod general;
mod grammar;
mod held_out;
mod layout;
mod negatives;
mod paint;
mod palette;
mod scene;
mod shape;
mod sheet;
mod silhouette;
mod taxonomy;
mod truths;
mod vista;
mod world;

pub use backdrop::Background;
pub use caption::{Captions, captions, captions_in, tiers};
pub use choice::{ClassChoice, HELD_OUT_CLASSES};
pub use classes::{Class, ROOT};
pub use contrasts::Contrasts;
pub use general::{Words, class_words};
pub use held_out::{held_out_background, held_out_colour, is_held_out};
pub use negatives::{HardNegative, NegativeKind, hard_negatives};
pub use paint::render;
pub use palette::Colour;
pub use scene::{Object, Relation, RelationKind, Scene, Size};
pub use sheet::{contact_sheet, portrait};
pub use taxonomy::{RANKS, taxon};
pub use truths::{Truths, shows};
pub use world::{Gallery, Split, ToyConfig, ToyWorld, class_names, tree};

#[cfg(test)]
mod tests;
