//! The content of a picture: objects with boxes, their relations, and the background.

use conifer_data::BBox;
use serde::{Deserialize, Serialize};

use super::backdrop::Background;
use super::choice::ClassChoice;
use super::classes::ToyClass;
use super::palette::Colour;

/// The content of a picture. [`super::ToyWorld::scene`] generates it; [`super::render`] draws it at any resolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Background of the scene.
    pub background: Background,
    /// One to four objects of different classes and colours. The first is the main object, which gives the sample its
    /// label.
    pub objects: Vec<SceneObject>,
    /// Relations that captions may state, at most one per pair of objects; the first involves the main object.
    pub relations: Vec<Relation>,
    /// The classes that the texts of the scene may name, negatives included.
    pub classes: ClassChoice,
    /// Seed of background details and of the wording.
    pub variant: u64,
}

/// An object in a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SceneObject {
    /// Class of the object.
    pub class: ToyClass,
    /// Colour of the object's body.
    pub colour: Colour,
    /// Size category of the longer side of the box.
    pub size: ObjectSize,
    /// True if the object faces left (mirrored) instead of right.
    pub flip: bool,
    /// Full extent of the drawn outline, including parts hidden by other objects.
    pub bounds: BBox,
}

/// Size category. The longer side of the box is 0.26 to 0.32 (small) or 0.38 to 0.62 (large) of the side of the
/// picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are self-explanatory
pub enum ObjectSize {
    Small,
    Large,
}

/// The spatial relation of `subject` to `object`: "the subject is left of the object".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Kind of the relation.
    pub kind: RelationKind,
    /// Index of the subject in [`Scene::objects`].
    pub subject: usize,
    /// Index of the object in [`Scene::objects`].
    pub object: usize,
}

/// Kinds of spatial relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are self-explanatory
pub enum RelationKind {
    LeftOf,
    RightOf,
    Above,
    Below,
    On,
    Under,
    InFrontOf,
    Behind,
    NextTo,
}

/// Tolerance by which boxes may overlap and still count as separate, as a fraction of the picture.
const OVERLAP_TOLERANCE: f32 = 0.01;

/// Largest gap between two objects that are "next to" each other, as a fraction of the picture.
pub(crate) const MAX_NEIGHBOUR_GAP: f32 = 0.07;

impl ObjectSize {
    /// The word for the size in captions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }

    /// Range of the longer side of the box, in fractions of the picture.
    pub(crate) fn range(self) -> (f32, f32) {
        match self {
            Self::Small => (0.26, 0.32),
            Self::Large => (0.38, 0.62),
        }
    }
}

impl RelationKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::LeftOf,
        Self::RightOf,
        Self::Above,
        Self::Below,
        Self::On,
        Self::Under,
        Self::InFrontOf,
        Self::Behind,
        Self::NextTo,
    ];

    /// The words between two objects in a caption: "to the left of".
    pub fn phrase(self) -> &'static str {
        match self {
            Self::LeftOf => "to the left of",
            Self::RightOf => "to the right of",
            Self::Above => "above",
            Self::Below => "below",
            Self::On => "on",
            Self::Under => "under",
            Self::InFrontOf => "in front of",
            Self::Behind => "behind",
            Self::NextTo => "next to",
        }
    }

    /// The kind of the same relation with subject and object exchanged. Without the exchange, the inverse contradicts
    /// the relation, except for `NextTo`, which is symmetric.
    pub fn inverse(self) -> Self {
        match self {
            Self::LeftOf => Self::RightOf,
            Self::RightOf => Self::LeftOf,
            Self::Above => Self::Below,
            Self::Below => Self::Above,
            Self::On => Self::Under,
            Self::Under => Self::On,
            Self::InFrontOf => Self::Behind,
            Self::Behind => Self::InFrontOf,
            Self::NextTo => Self::NextTo,
        }
    }
}

impl Scene {
    /// Returns whether the relation holds between the objects `subject` and `object`, judged by their boxes.
    pub fn relates(&self, kind: RelationKind, subject: usize, object: usize) -> bool {
        let (Some(a), Some(b)) = (self.objects.get(subject), self.objects.get(object)) else {
            return false;
        };
        subject != object && a.relates(kind, b)
    }
}

impl SceneObject {
    /// Returns whether the relation holds between this object and another object.
    pub fn relates(&self, kind: RelationKind, other: &Self) -> bool {
        let (a, b) = (&self.bounds, &other.bounds);
        match kind {
            RelationKind::LeftOf => a.x2 <= b.x1 + OVERLAP_TOLERANCE && overlap(a.y1, a.y2, b.y1, b.y2) > 0.0,
            RelationKind::Above => {
                a.y2 <= b.y1 + OVERLAP_TOLERANCE && overlap(a.x1, a.x2, b.x1, b.x2) > 0.3 && !self.rests_on(other)
            }
            RelationKind::On => self.rests_on(other),
            RelationKind::InFrontOf => {
                a.y2 > b.y2 + 0.03
                    && a.y1 > b.y1
                    && a.y1 < b.y2
                    && overlap(a.x1, a.x2, b.x1, b.x2) > 0.3
                    && !self.rests_on(other)
            }
            RelationKind::NextTo => {
                let gap = (b.x1 - a.x2).max(a.x1 - b.x2);
                (-OVERLAP_TOLERANCE..=MAX_NEIGHBOUR_GAP).contains(&gap) && overlap(a.y1, a.y2, b.y1, b.y2) > 0.3
            }
            RelationKind::RightOf | RelationKind::Below | RelationKind::Under | RelationKind::Behind => {
                other.relates(kind.inverse(), self)
            }
        }
    }

    /// The visible parts: name and box, one entry per instance ("wheel", "wheel").
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, BBox)> {
        let BBox { x1, y1, x2, y2 } = self.bounds;
        let flip = self.flip;
        let parts = self.class.figure().map_or(&[][..], |figure| &figure.parts);
        parts.iter().map(move |part| {
            let b = part.bounds;
            let (left, right) = if flip { (1.0 - b.x2, 1.0 - b.x1) } else { (b.x1, b.x2) };
            let bounds = BBox {
                x1: x1 + left * (x2 - x1),
                y1: y1 + b.y1 * (y2 - y1),
                x2: x1 + right * (x2 - x1),
                y2: y1 + b.y2 * (y2 - y1),
            };
            (part.name, bounds)
        })
    }

    /// The point on which a small object can sit, in picture coordinates.
    pub(crate) fn perch(&self) -> Option<(f32, f32)> {
        let (x, y) = self.class.figure()?.perch?;
        let x = if self.flip { 1.0 - x } else { x };
        let BBox { x1, y1, x2, y2 } = self.bounds;
        Some((x1 + x * (x2 - x1), y1 + y * (y2 - y1)))
    }

    fn rests_on(&self, other: &Self) -> bool {
        let Some((x, y)) = other.perch() else {
            return false;
        };
        let BBox { x1, x2, y2, .. } = self.bounds;
        (x1..=x2).contains(&x) && (y2 - y).abs() < 0.03
    }
}

/// Overlap of two intervals as a fraction of the shorter interval; negative if they are disjoint.
pub(crate) fn overlap(a1: f32, a2: f32, b1: f32, b2: f32) -> f32 {
    (a2.min(b2) - a1.max(b1)) / (a2 - a1).min(b2 - b1)
}
