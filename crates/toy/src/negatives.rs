//! Hard negative captions: an object, an attribute or a relation is replaced, swapped or added, which makes the caption
//! false.

use serde::{Deserialize, Serialize};

use super::caption::nucleus;
use super::classes::ToyClass;
use super::grammar::{Description, Mention, SentenceStyle};
use super::held_out::{held_out_background, held_out_colour};
use super::palette::Colour;
use super::rng::ToyRng;
use super::scene::{ObjectSize, RelationKind, Scene};

/// A true caption of a scene, and a false caption that differs by one edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NegativeCaption {
    /// The kind of the edit.
    pub kind: NegativeKind,
    /// A caption that is true of the scene.
    pub caption: String,
    /// A caption that is false of the scene.
    pub negative: String,
}

/// The edit that makes a caption false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NegativeKind {
    /// One object is replaced: "a red cat" for "a red dog".
    ReplaceObject,
    /// One colour or size is replaced.
    ReplaceAttribute,
    /// One relation is replaced.
    ReplaceRelation,
    /// Two objects are exchanged, together with their attributes.
    SwapObject,
    /// The colours of two objects are exchanged.
    SwapAttribute,
    /// An object that is not in the scene is added.
    AddObject,
    /// A wrong colour or size is added.
    AddAttribute,
}

impl NegativeKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::ReplaceObject,
        Self::ReplaceAttribute,
        Self::ReplaceRelation,
        Self::SwapObject,
        Self::SwapAttribute,
        Self::AddObject,
        Self::AddAttribute,
    ];

    /// The name used in reports: "replace_object".
    pub fn name(self) -> &'static str {
        match self {
            Self::ReplaceObject => "replace_object",
            Self::ReplaceAttribute => "replace_attribute",
            Self::ReplaceRelation => "replace_relation",
            Self::SwapObject => "swap_object",
            Self::SwapAttribute => "swap_attribute",
            Self::AddObject => "add_object",
            Self::AddAttribute => "add_attribute",
        }
    }
}

/// One hard negative of each kind that the scene allows (swaps and relations need two objects). The result is
/// deterministic for each scene.
pub fn hard_negatives(scene: &Scene) -> Vec<NegativeCaption> {
    let mut rng = ToyRng::new([scene.variant, 0, 0, NEGATIVES]);
    NegativeKind::ALL
        .iter()
        .filter_map(|&kind| {
            let mut caption = nucleus(scene);
            if kind == NegativeKind::AddAttribute {
                strip_attributes(&mut rng, &mut caption);
            }
            let negative = edit(&mut rng, scene, &caption, kind)?;
            Some(NegativeCaption {
                kind,
                caption: caption.say(SentenceStyle::PLAIN).text,
                negative: negative.say(SentenceStyle::PLAIN).text,
            })
        })
        .collect()
}

/// A false description that differs from a true description by one edit.
pub(super) fn contradict(rng: &mut ToyRng, scene: &Scene, truth: &Description) -> Description {
    let open: Vec<Description> = NegativeKind::ALL.iter().filter_map(|kind| edit(rng, scene, truth, *kind)).collect();
    // `ReplaceObject` is always possible: there are far more classes than objects.
    let chosen = rng.below(open.len());
    open.into_iter().nth(chosen).unwrap_or_else(|| truth.clone())
}

const NEGATIVES: u64 = 3;

/// Applies an edit of this kind; `None` if it is not possible or does not make the description false.
fn edit(rng: &mut ToyRng, scene: &Scene, truth: &Description, kind: NegativeKind) -> Option<Description> {
    let mut edited = truth.clone();
    let which = rng.below(edited.mentions.len());
    match kind {
        NegativeKind::ReplaceObject => {
            let mention = &mut edited.mentions[which];
            mention.noun = absent_class(rng, scene, *mention)?.name();
        }
        NegativeKind::ReplaceAttribute => {
            let mention = &mut edited.mentions[which];
            match mention.size {
                Some(size) if rng.chance(0.3) => mention.size = Some(other_size(size)),
                _ => mention.colour = Some(other_colour(rng, scene, mention, mention.colour?)?),
            }
        }
        NegativeKind::ReplaceRelation => {
            edited.relation = Some(other_relation(rng, edited.relation?));
        }
        NegativeKind::SwapObject => {
            edited.relation?;
            edited.mentions.swap(0, 1);
        }
        NegativeKind::SwapAttribute => {
            let [first, second, ..] = edited.mentions.as_mut_slice() else {
                return None;
            };
            (first.colour, second.colour) = (Some(second.colour?), Some(first.colour?));
        }
        NegativeKind::AddObject => {
            let class = absent_class(rng, scene, edited.mentions[which])?;
            edited.mentions.push(Mention {
                object: scene.objects.len(),
                noun: class.name(),
                colour: rng.choose(&colours(class)),
                size: None,
            });
        }
        NegativeKind::AddAttribute => {
            let mention = &mut edited.mentions[which];
            let object = scene.objects.get(mention.object)?;
            match (mention.colour, mention.size) {
                (None, _) => {
                    mention.colour = Some(other_colour(rng, scene, mention, object.colour)?);
                }
                (_, None) => mention.size = Some(other_size(object.size)),
                _ => return None,
            }
        }
    }
    let fair = !names_held_out(&edited) || names_held_out(truth);
    (fair && truth.holds(scene) && !edited.holds(scene)).then_some(edited)
}

/// Returns whether the description names a class in its held-out colour. No text of a training split may do so.
fn names_held_out(description: &Description) -> bool {
    description.mentions.iter().any(|mention| {
        let class = ToyClass::named(mention.noun);
        class.is_some_and(|class| mention.colour == Some(held_out_colour(class)))
    })
}

/// Removes the sizes of all objects, and with probability 0.6 also the colours, so that [`NegativeKind::AddAttribute`]
/// can add one.
fn strip_attributes(rng: &mut ToyRng, description: &mut Description) {
    let colour = rng.chance(0.6);
    for mention in &mut description.mentions {
        if colour {
            mention.colour = None;
        }
        mention.size = None;
    }
}

/// A class that is not in the scene but may occur on its background, often one that is close in the tree to the class
/// of `mention`. It never forms a held-out pair with the background or the colour of `mention`.
fn absent_class(rng: &mut ToyRng, scene: &Scene, mention: Mention) -> Option<ToyClass> {
    let near = scene.objects.get(mention.object).map(|object| object.class);
    let mut candidates: Vec<ToyClass> = ToyClass::all()
        .filter(|class| scene.objects.iter().all(|object| object.class != *class))
        .filter(|class| scene.classes.admits(*class) && class.lives_in(scene.background))
        .filter(|class| held_out_background(*class) != scene.background)
        .filter(|class| mention.colour.is_none_or(|c| c != held_out_colour(*class)))
        .collect();
    let relatives: Vec<ToyClass> =
        candidates.iter().copied().filter(|class| near.is_some_and(|near| near.path()[1] == class.path()[1])).collect();
    if !relatives.is_empty() && rng.chance(0.6) {
        candidates = relatives;
    }
    rng.choose(&candidates)
}

fn colours(class: ToyClass) -> Vec<Colour> {
    let all = Colour::ALL.iter().copied();
    all.filter(|colour| *colour != held_out_colour(class)).collect()
}

/// Another colour that is allowed for the class; in half of the cases the colour of another object of the scene, if
/// possible.
fn other_colour(rng: &mut ToyRng, scene: &Scene, mention: &Mention, not: Colour) -> Option<Colour> {
    let class = ToyClass::named(mention.noun)?;
    let mut candidates = colours(class);
    candidates.retain(|colour| *colour != not);
    let present: Vec<Colour> =
        scene.objects.iter().map(|object| object.colour).filter(|colour| candidates.contains(colour)).collect();
    if !present.is_empty() && rng.chance(0.5) {
        candidates = present;
    }
    rng.choose(&candidates)
}

fn other_size(size: ObjectSize) -> ObjectSize {
    match size {
        ObjectSize::Small => ObjectSize::Large,
        ObjectSize::Large => ObjectSize::Small,
    }
}

fn other_relation(rng: &mut ToyRng, kind: RelationKind) -> RelationKind {
    match kind {
        RelationKind::NextTo => {
            rng.pick([RelationKind::On, RelationKind::Under, RelationKind::Above, RelationKind::Below])
        }
        _ => kind.inverse(),
    }
}
