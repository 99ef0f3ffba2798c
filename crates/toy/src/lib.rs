//! The toy world: synthetic drawings of objects in scenes, with full ground truth (classes, boxes, parts, relations,
//! captions). It serves as training data where no data set is available.
//!
//! ```text
//! classes (drawings: shape, figure, palette)   backdrop, vista
//!     \                                          /
//!      layout: random numbers -> Scene { background, objects, relations }
//!       | paint::render                 | grammar, caption, negatives, taxonomy
//!       v                               v
//!     Picture                     captions, phrases with boxes, tiers, hard negatives
//! ```
//!
//! * **Is-a tree** with four levels below the root "thing": animal, bird, land bird, parrot. See [`tree`] and
//!   [`ToyClass`].
//! * **Parts** of objects have their own boxes: the wheels of a car, the beak of a parrot.
//! * **Scenes** show one to four objects of different classes and colours, with relations between them ([`Scene`]).
//! * **Held-out pairs**: one colour and one background of each class occur only in the split `held_out`
//!   ([`is_held_out`]).
//! * **Held-out classes**: a world with the choice `seen` neither shows nor names eight of the classes
//!   ([`HELD_OUT_CLASSES`]).
//! * **General words**: optional captions and phrases that name one object without attributes ([`TextChoice`]).
//! * Scene `i` is a pure function of (seed, split, i) and the options `classes` and `singles`. It does not depend on
//!   the size of the world, the resolution, or the order of the calls.
//!
//! ```
//! use conifer_toy::{ToyConfig, ToyWorld, tree};
//!
//! let world = ToyWorld::new(ToyConfig { size: 10, ..ToyConfig::default() })?;
//! let sample = world.sample(0);
//! let label = sample.label.expect("every scene has a main object");
//! assert!(tree()?.find(&label).is_some());
//! assert_eq!((sample.captions.is_empty(), sample.image.is_some()), (false, true));
//! # Ok::<(), conifer_data::Error>(())
//! ```

mod backdrop;
mod caption;
mod choice;
mod classes;
mod contrasts;
mod figure;
mod general;
mod grammar;
mod held_out;
mod layout;
mod negatives;
mod paint;
mod palette;
mod rng;
mod scene;
mod shape;
mod sheet;
mod silhouette;
mod source;
mod taxonomy;
mod truths;
mod vista;
mod world;

pub use backdrop::Background;
pub use caption::{Captions, captions, captions_in, tiers};
pub use choice::{ClassChoice, HELD_OUT_CLASSES};
pub use classes::{ROOT, ToyClass};
pub use contrasts::ToyContrasts;
pub use general::{TextChoice, class_words};
pub use held_out::{held_out_background, held_out_colour, is_held_out};
pub use negatives::{NegativeCaption, NegativeKind, hard_negatives};
pub use paint::render;
pub use palette::Colour;
pub use scene::{ObjectSize, Relation, RelationKind, Scene, SceneObject};
pub use sheet::{contact_sheet, portrait};
pub use source::{ENTRY, write_folder};
pub use taxonomy::{RANKS, taxon};
pub use truths::{GroundTruth, shows};
pub use world::{Gallery, ToyConfig, ToySplit, ToyWorld, class_names, tree};

#[cfg(test)]
mod tests;
