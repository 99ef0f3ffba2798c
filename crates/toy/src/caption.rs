//! Texts of a scene: captions, the phrases in them, and tiers from general to specific.

use std::collections::BTreeMap;

use conifer_data::{BBox, Phrase, Span, Tiers};

use super::classes::{ROOT, ToyClass};
use super::general::{self as general_words, TextChoice};
use super::grammar::{Description, Mention, PartMention, SentenceForm, SentenceStyle, SpannedSentence, article};
use super::negatives;
use super::paint::painting_order;
use super::rng::ToyRng;
use super::scene::{Scene, SceneObject};

/// Minimum width and height of a part's box for the part to become a phrase, as a fraction of the picture: 2.6 pixels
/// in a picture of 64 x 64.
const MIN_PART_SIDE: f32 = 0.04;

/// Maximum number of instances of a part. A part with more instances is treated as a texture, such as the petals of a
/// sunflower, and gets no phrase.
const MAX_INSTANCES: usize = 6;

/// Captions of a scene, and the phrases in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Captions {
    /// True captions. With [`TextChoice::Captions`] there are five: the full description; another sentence form; the
    /// view from another object of a relation; general class names; a description with parts. The other variants of
    /// [`TextChoice`] add or replace captions.
    pub texts: Vec<String>,
    /// Phrases of the objects, then phrases of their parts. Except with [`TextChoice::Captions`], class names follow.
    pub phrases: Vec<Phrase>,
}

/// Captions and phrases of a scene with [`TextChoice::Captions`]. The result is deterministic for each scene.
pub fn captions(scene: &Scene) -> Captions {
    captions_in(scene, TextChoice::Captions)
}

/// Captions and phrases of a scene with the given kinds of texts.
pub fn captions_in(scene: &Scene, words: TextChoice) -> Captions {
    let words = words.of(scene);
    let descriptions = all_descriptions(scene, words);
    let sentences: Vec<SpannedSentence> =
        descriptions.iter().map(|(description, style)| description.say(*style)).collect();
    let (mut phrases, owners) = phrases(scene, &sentences);
    if words != TextChoice::Captions {
        general_words::name_objects(scene, &descriptions, &sentences, &mut phrases, &owners, words);
    }
    Captions { phrases, texts: sentences.into_iter().map(|sentence| sentence.text).collect() }
}

/// Descriptions and styles of all captions of a scene.
pub(super) fn all_descriptions(scene: &Scene, words: TextChoice) -> Vec<(Description, SentenceStyle)> {
    let whole = descriptions(scene);
    match words {
        TextChoice::Captions => whole.into(),
        TextChoice::General => whole.into_iter().chain(general_words::descriptions(scene)).collect(),
        TextChoice::Names => general_words::names(scene).into_iter().chain(whole.into_iter().take(1)).collect(),
        TextChoice::Ancestors => general_words::ancestors(scene).into_iter().chain(whole.into_iter().take(1)).collect(),
        TextChoice::Mixed => all_descriptions(scene, words.of(scene)),
    }
}

/// Descriptions and styles of the five captions of the whole scene.
pub(super) fn descriptions(scene: &Scene) -> [(Description, SentenceStyle); 5] {
    let mut rng = ToyRng::new([scene.variant, 0, 0, CAPTIONS]);
    [
        (full(scene), SentenceStyle::PLAIN),
        rephrased(scene, &mut rng),
        reversed(scene, &mut rng),
        general(scene, &mut rng),
        (with_parts(scene, &mut rng), SentenceStyle::PLAIN),
    ]
}

/// Four true captions from general to specific, each implied by the next, and four false captions, each with one small
/// change that makes it false.
///
/// Example: "animal", "a land bird", "a red parrot", "a small red parrot to the left of a blue car in a meadow".
pub fn tiers(scene: &Scene) -> Tiers {
    let mut rng = ToyRng::new([scene.variant, 0, 0, TIERS]);
    let main = scene.objects[0].class;
    let [top, ..] = main.path();
    let level = 1 + rng.below(2);
    let middle = main.path()[level];
    let specific = nucleus(scene);
    let mut plain = Description { mentions: vec![mention(scene, 0)], relation: None, place: None, parts: Vec::new() };
    plain.mentions[0].size = None;
    if rng.chance(0.5) {
        plain.place = Some(scene.background);
    }
    let with_article = |noun: &str| format!("{} {noun}", article(noun));
    let wrong =
        |rng: &mut ToyRng, truth: &Description| negatives::contradict(rng, scene, truth).say(SentenceStyle::PLAIN).text;
    let negative = vec![
        absent_name(&mut rng, scene, main, 0).to_owned(),
        with_article(absent_name(&mut rng, scene, main, level)),
        wrong(&mut rng, &plain),
        wrong(&mut rng, &specific),
    ];
    Tiers {
        positive: vec![
            top.to_owned(),
            with_article(middle),
            plain.say(SentenceStyle::PLAIN).text,
            specific.say(SentenceStyle::PLAIN).text,
        ],
        negative,
    }
}

const CAPTIONS: u64 = 1;
const TIERS: u64 = 2;

/// Mentions an object with its class, colour and size.
pub(super) fn mention(scene: &Scene, object: usize) -> Mention {
    let SceneObject { class, colour, size, .. } = scene.objects[object];
    Mention { object, noun: class.name(), colour: Some(colour), size: Some(size) }
}

/// The core of a caption: the main object, its relation and the background, such as "a small red parrot to the left of
/// a blue car in a meadow".
pub(super) fn nucleus(scene: &Scene) -> Description {
    let mut mentions = vec![mention(scene, 0)];
    let relation = scene.relations.first();
    if let Some(relation) = relation {
        mentions.push(Mention { size: None, ..mention(scene, relation.object) });
    }
    Description {
        mentions,
        relation: relation.map(|relation| relation.kind),
        place: Some(scene.background),
        parts: Vec::new(),
    }
}

/// Like [`nucleus`], but also mentions all other objects.
fn full(scene: &Scene) -> Description {
    let mut description = nucleus(scene);
    for object in 0..scene.objects.len() {
        if description.mentions.iter().all(|m| m.object != object) {
            description.mentions.push(Mention { size: None, ..mention(scene, object) });
        }
    }
    description
}

/// The description of [`nucleus`] in another sentence form, with synonyms and sometimes without the size.
fn rephrased(scene: &Scene, rng: &mut ToyRng) -> (Description, SentenceStyle) {
    let mut description = nucleus(scene);
    if rng.chance(0.5) {
        description.mentions[0].size = None;
    }
    (description, SentenceStyle { form: rng.pick([SentenceForm::PlaceFirst, SentenceForm::Setting]), synonyms: true })
}

/// A relation of the scene with subject and object exchanged. A scene with one object becomes "a picture of ...".
fn reversed(scene: &Scene, rng: &mut ToyRng) -> (Description, SentenceStyle) {
    let Some(relation) = rng.choose(&scene.relations) else {
        let lone = Description { mentions: vec![Mention { size: None, ..mention(scene, 0) }], ..nucleus(scene) };
        return (lone, SentenceStyle { form: SentenceForm::Picture, synonyms: false });
    };
    let description = Description {
        mentions: [relation.object, relation.subject].map(|object| mention(scene, object)).to_vec(),
        relation: Some(relation.kind.inverse()),
        place: rng.chance(0.6).then_some(scene.background),
        parts: Vec::new(),
    };
    (
        description,
        SentenceStyle { form: rng.pick([SentenceForm::Plain, SentenceForm::Picture]), synonyms: rng.chance(0.5) },
    )
}

/// A description of all objects with more general class names.
fn general(scene: &Scene, rng: &mut ToyRng) -> (Description, SentenceStyle) {
    let alone = scene.objects.len() == 1;
    let mentions = (0..scene.objects.len())
        .map(|object| Mention {
            noun: scene.objects[object].class.path()[1 + rng.below(2)],
            size: None,
            // With several objects, the colours are needed, for example to distinguish two birds.
            colour: (!alone || rng.chance(0.5)).then_some(scene.objects[object].colour),
            ..mention(scene, object)
        })
        .collect();
    let description = Description { mentions, relation: None, place: Some(scene.background), parts: Vec::new() };
    (
        description,
        SentenceStyle {
            form: rng.pick([SentenceForm::Setting, SentenceForm::Plain, SentenceForm::PlaceFirst]),
            synonyms: false,
        },
    )
}

/// The description of [`nucleus`] with one or two kinds of parts.
fn with_parts(scene: &Scene, rng: &mut ToyRng) -> Description {
    let mut description = nucleus(scene);
    description.mentions[0].size = None;
    let mut open: Vec<PartMention> = description
        .mentions
        .iter()
        .flat_map(|mention| {
            visible_parts(scene, mention.object).into_iter().map(|(part, boxes)| PartMention {
                object: mention.object,
                noun: mention.noun,
                part,
                many: boxes.len() > 1,
            })
        })
        .collect();
    while description.parts.len() < 2 && !open.is_empty() {
        let next = open.remove(rng.below(open.len()));
        description.parts.push(next);
    }
    description
}

/// Kinds of clearly visible parts of an object, with the boxes of all their instances.
fn visible_parts(scene: &Scene, index: usize) -> BTreeMap<&'static str, Vec<BBox>> {
    let object = &scene.objects[index];
    let order = painting_order(scene);
    let covers: Vec<BBox> =
        order.iter().skip_while(|other| **other != index).skip(1).map(|other| scene.objects[*other].bounds).collect();
    let mut kinds: BTreeMap<&'static str, Option<Vec<BBox>>> = BTreeMap::new();
    for (name, part) in object.parts() {
        let clear = covers
            .iter()
            .all(|cover| part.x2 <= cover.x1 || cover.x2 <= part.x1 || part.y2 <= cover.y1 || cover.y2 <= part.y1);
        let big = (part.x2 - part.x1).min(part.y2 - part.y1) >= MIN_PART_SIDE;
        let kind = kinds.entry(name).or_insert_with(|| Some(Vec::new()));
        match kind {
            Some(boxes) if clear && big && boxes.len() < MAX_INSTANCES => boxes.push(part),
            // Drop the kind if an instance is hidden or too small, or if the instances are too many. Otherwise "the
            // wheels of the car" would have an incomplete set of boxes.
            _ => *kind = None,
        }
    }
    kinds.into_iter().filter_map(|(name, boxes)| Some((name, boxes?))).collect()
}

/// One phrase for each distinct text of an object or a part, with all its spans; and the index of the object of each
/// phrase.
fn phrases(scene: &Scene, sentences: &[SpannedSentence]) -> (Vec<Phrase>, Vec<usize>) {
    let mut phrases: Vec<Phrase> = Vec::new();
    let mut owners: Vec<usize> = Vec::new();
    for of_parts in [false, true] {
        for (caption, sentence) in sentences.iter().enumerate() {
            for mention in sentence.spans.iter().filter(|mention| mention.part.is_some() == of_parts) {
                let text: String =
                    sentence.text.chars().skip(mention.start).take(mention.end - mention.start).collect();
                let span = Span { caption, start: mention.start, end: mention.end };
                let known = (0..phrases.len()).find(|i| phrases[*i].text == text && owners[*i] == mention.object);
                match known {
                    Some(known) => phrases[known].spans.push(span),
                    None => {
                        phrases.push(Phrase {
                            text,
                            boxes: boxes(scene, mention.object, mention.part),
                            spans: vec![span],
                            part_of: mention.part.and_then(|_| owners.iter().position(|o| *o == mention.object)),
                            ..Phrase::default()
                        });
                        owners.push(mention.object);
                    }
                }
            }
        }
    }
    (phrases, owners)
}

fn boxes(scene: &Scene, object: usize, part: Option<&'static str>) -> Vec<BBox> {
    match part {
        None => vec![scene.objects[object].bounds],
        Some(name) => {
            scene.objects[object].parts().filter(|(other, _)| *other == name).map(|(_, bounds)| bounds).collect()
        }
    }
}

/// A name at depth `level` of the tree that applies to no object in the scene; preferably a sibling of
/// `class.path()[level]`.
fn absent_name(rng: &mut ToyRng, scene: &Scene, class: ToyClass, level: usize) -> &'static str {
    let parent = if level == 0 { ROOT } else { class.path()[level - 1] };
    let mut names: Vec<&'static str> = Vec::new();
    for below in [parent, ROOT] {
        names.extend(
            ToyClass::all()
                .filter(|other| scene.classes.admits(*other) && other.is_a(below))
                .map(|other| other.path()[level])
                .filter(|name| scene.objects.iter().all(|o| !o.class.is_a(name))),
        );
        if !names.is_empty() {
            break;
        }
    }
    names.dedup();
    rng.choose(&names).unwrap_or(ROOT)
}
