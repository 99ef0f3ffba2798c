//! Turns descriptions into sentences and records the character span of every object. A sentence may be false of its
//! scene, as hard negatives are by design; [`Description::holds`] checks a description.

use super::backdrop::Background;
use super::palette::Colour;
use super::scene::{ObjectSize, RelationKind, Scene};

/// The content of a caption.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    /// The objects, at least one.
    pub(crate) mentions: Vec<Mention>,
    /// The relation of the first object to the second.
    pub(crate) relation: Option<RelationKind>,
    pub(crate) place: Option<Background>,
    pub(crate) parts: Vec<PartMention>,
}

/// An object with the attributes that a caption states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mention {
    /// Index of the object in the scene.
    pub(crate) object: usize,
    /// The class or an ancestor of it.
    pub(crate) noun: &'static str,
    pub(crate) colour: Option<Colour>,
    pub(crate) size: Option<ObjectSize>,
}

/// A mention of a part: "the wheels of the car".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PartMention {
    /// Index of the object in the scene.
    pub(crate) object: usize,
    pub(crate) noun: &'static str,
    pub(crate) part: &'static str,
    /// True if the part is written in the plural.
    pub(crate) many: bool,
}

/// The sentence pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentenceForm {
    /// "a cat on a sofa in a room"
    Plain,
    /// "in a room, a cat is on a sofa"
    PlaceFirst,
    /// "a room with a cat on a sofa"
    Setting,
    /// "a picture of a cat on a sofa in a room"
    Picture,
    /// "a photo of a cat on a sofa in a room"
    Photo,
}

/// The wording of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentenceStyle {
    pub(crate) form: SentenceForm,
    /// True if synonyms are used: "little", "big", "beside", "on top of", ...
    pub(crate) synonyms: bool,
}

/// A sentence with the spans of the objects and parts that it mentions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpannedSentence {
    pub(crate) text: String,
    pub(crate) spans: Vec<MentionSpan>,
}

/// The span of an object or of one of its parts: characters `start..end`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MentionSpan {
    pub(crate) object: usize,
    pub(crate) part: Option<&'static str>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl SentenceStyle {
    pub(crate) const PLAIN: Self = Self { form: SentenceForm::Plain, synonyms: false };
}

impl Description {
    pub(crate) fn say(&self, style: SentenceStyle) -> SpannedSentence {
        let mut s = SentenceBuilder {
            sentence: SpannedSentence { text: String::new(), spans: Vec::new() },
            length: 0,
            synonyms: style.synonyms,
        };
        match (style.form, self.place) {
            (SentenceForm::PlaceFirst, Some(place)) => {
                s.words(place.place());
                s.words(if self.relation.is_some() { ", " } else { " there is " });
                let rest = self.core(&mut s, " is ");
                s.list(" with ", rest);
            }
            (SentenceForm::Setting, Some(place)) => {
                s.words(place.setting());
                s.words(" with ");
                let rest = self.core(&mut s, " ");
                s.list(" and ", rest);
            }
            (form, place) => {
                match form {
                    SentenceForm::Picture => s.words("a picture of "),
                    SentenceForm::Photo => s.words("a photo of "),
                    SentenceForm::Plain | SentenceForm::PlaceFirst | SentenceForm::Setting => {}
                }
                let rest = self.core(&mut s, " ");
                if let Some(place) = place {
                    s.words(" ");
                    s.words(place.place());
                }
                s.list(" with ", rest);
            }
        }
        for (i, part) in self.parts.iter().enumerate() {
            s.words(if i == 0 { ", showing " } else { " and " });
            s.part(part);
        }
        s.sentence
    }

    /// Returns whether the description is true of the scene. Parts are ignored.
    pub(crate) fn holds(&self, scene: &Scene) -> bool {
        self.place.is_none_or(|place| place == scene.background) && self.assign(scene, &mut Vec::new())
    }

    /// Writes the related pair, or all objects if there is no relation. Returns the mentions that remain to be written.
    fn core(&self, s: &mut SentenceBuilder, verb: &str) -> &[Mention] {
        match (self.relation, self.mentions.as_slice()) {
            (Some(kind), [first, second, rest @ ..]) => {
                s.mention(first);
                s.words(verb);
                s.words(relation_words(kind, s.synonyms));
                s.words(" ");
                s.mention(second);
                rest
            }
            (_, all) => {
                s.list("", all);
                &[]
            }
        }
    }

    /// Returns whether the remaining mentions can be assigned distinct objects that match them and satisfy the relation
    /// (a backtracking search).
    fn assign(&self, scene: &Scene, given: &mut Vec<usize>) -> bool {
        let Some(mention) = self.mentions.get(given.len()) else {
            return match (self.relation, given.as_slice()) {
                (Some(kind), &[first, second, ..]) => scene.relates(kind, first, second),
                _ => true,
            };
        };
        (0..scene.objects.len()).any(|index| {
            let object = &scene.objects[index];
            let fits = !given.contains(&index)
                && object.class.is_a(mention.noun)
                && mention.colour.is_none_or(|colour| colour == object.colour)
                && mention.size.is_none_or(|size| size == object.size);
            fits && {
                given.push(index);
                let found = self.assign(scene, given);
                given.pop();
                found
            }
        })
    }
}

/// "a" or "an", by the first letter. No name of this world is an exception.
pub(crate) fn article(next: &str) -> &'static str {
    if next.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

pub(crate) fn plural(noun: &str) -> String {
    match noun {
        "leaf" => "leaves".to_owned(),
        "foot" => "feet".to_owned(),
        "tooth" => "teeth".to_owned(),
        "antenna" => "antennae".to_owned(),
        _ => format!("{noun}s"),
    }
}

fn relation_words(kind: RelationKind, synonyms: bool) -> &'static str {
    if !synonyms {
        return kind.phrase();
    }
    match kind {
        RelationKind::LeftOf => "left of",
        RelationKind::RightOf => "right of",
        RelationKind::Above => "over",
        RelationKind::Below => "beneath",
        RelationKind::On => "on top of",
        RelationKind::Under => "underneath",
        RelationKind::NextTo => "beside",
        RelationKind::InFrontOf | RelationKind::Behind => kind.phrase(),
    }
}

fn size_word(size: ObjectSize, synonyms: bool) -> &'static str {
    match (size, synonyms) {
        (_, false) => size.name(),
        (ObjectSize::Small, true) => "little",
        (ObjectSize::Large, true) => "big",
    }
}

/// A sentence under construction; `length` counts characters.
struct SentenceBuilder {
    sentence: SpannedSentence,
    length: usize,
    synonyms: bool,
}

impl SentenceBuilder {
    fn words(&mut self, words: &str) {
        self.sentence.text.push_str(words);
        self.length += words.chars().count();
    }

    /// Writes "a, b and c" after `opening`; writes nothing for an empty list.
    fn list(&mut self, opening: &str, mentions: &[Mention]) {
        for (i, mention) in mentions.iter().enumerate() {
            self.words(match i {
                0 => opening,
                _ if i + 1 == mentions.len() => " and ",
                _ => ", ",
            });
            self.mention(mention);
        }
    }

    fn mention(&mut self, mention: &Mention) {
        let words = [
            mention.size.map(|size| size_word(size, self.synonyms)),
            mention.colour.map(Colour::name),
            Some(mention.noun),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        let words = words.join(" ");
        let start = self.length;
        self.words(article(&words));
        self.words(" ");
        self.words(&words);
        self.mark(mention.object, None, start);
    }

    fn part(&mut self, part: &PartMention) {
        let start = self.length;
        self.words("the ");
        if part.many {
            self.words(&plural(part.part));
        } else {
            self.words(part.part);
        }
        self.words(" of the ");
        self.words(part.noun);
        self.mark(part.object, Some(part.part), start);
    }

    fn mark(&mut self, object: usize, part: Option<&'static str>, start: usize) {
        let end = self.length;
        self.sentence.spans.push(MentionSpan { object, part, start, end });
    }
}
