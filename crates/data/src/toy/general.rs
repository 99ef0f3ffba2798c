//! Captions and phrases that name one object by its class or an ancestor: "a bus", "a vehicle", "a photo of a bus".
//!
//! In the usual captions every noun has a colour. Without these texts a text encoder would never see "a bus" or "an
//! animal" alone.

use serde::{Deserialize, Serialize};

use super::caption::mention;
use super::classes::Class;
use super::dice::Dice;
use super::grammar::{Description, Form, Mention, Said, Style, article};
use super::scene::Scene;
use crate::sample::{Phrase, Span};

/// The kinds of texts of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Words {
    /// Five captions of the whole scene, and the phrases in them.
    #[default]
    Captions,
    /// Adds captions and phrases that name one object by its class or an ancestor of it.
    ///
    /// The spans of such a phrase are the places where a caption names the object at least as specifically: "a vehicle"
    /// has a span at "a red bus". A caption sampled for a phrase (`with_phrase`) therefore always implies the phrase.
    General,
    /// Mostly class names: of five captions, three name the class of one object, one names an ancestor, and one
    /// describes the whole scene. Colours and positions cannot distinguish the texts of such a batch, so an image
    /// encoder has to use shapes.
    Names,
}

/// Every node of the is-a tree below the root as texts: the name, and the name with its article ("bird", "a bird").
///
/// Ancestors come before descendants, in the order of [`Class::all`]; each node occurs once.
pub fn class_words() -> Vec<(&'static str, String)> {
    let mut words: Vec<(&'static str, String)> = Vec::new();
    for name in Class::all().flat_map(Class::path) {
        if words.iter().all(|(known, _)| *known != name) {
            words.push((name, with_article(name)));
        }
    }
    words
}

/// The five additional captions of [`Words::General`], each of one object: the class alone, with a colour, with the
/// background, as a photo, and an ancestor.
pub(super) fn descriptions(scene: &Scene) -> [(Description, Style); 5] {
    let mut dice = Dice::new([scene.variant, 0, 0, GENERAL]);
    let of = |dice: &mut Dice| Mention { colour: None, size: None, ..mention(scene, dice.below(scene.objects.len())) };
    let one =
        |mention: Mention| Description { mentions: vec![mention], relation: None, place: None, parts: Vec::new() };
    let style = |form: Form| Style { form, synonyms: false };

    let class = one(of(&mut dice));
    let mut coloured = one(of(&mut dice));
    coloured.mentions[0].colour = Some(scene.objects[coloured.mentions[0].object].colour);
    let mut placed = one(of(&mut dice));
    placed.place = Some(scene.background);
    let photo = one(of(&mut dice));
    let mut above = one(of(&mut dice));
    let node = &mut above.mentions[0];
    node.noun = scene.objects[node.object].class.path()[dice.below(3)];
    [
        (class, style(Form::Plain)),
        (coloured, style(dice.pick([Form::Plain, Form::Photo]))),
        (placed, style(dice.pick([Form::Plain, Form::Photo]))),
        (photo, style(dice.pick([Form::Photo, Form::Photo, Form::Picture]))),
        (above, style(dice.pick([Form::Plain, Form::Photo]))),
    ]
}

/// The captions of [`Words::Names`].
pub(super) fn names(scene: &Scene) -> Vec<(Description, Style)> {
    let mut dice = Dice::new([scene.variant, 0, 0, GENERAL]);
    let mut told: Vec<(Description, Style)> = [Form::Plain, Form::Photo, Form::Photo, Form::Plain]
        .map(|form| {
            let object = Mention { colour: None, size: None, ..mention(scene, dice.below(scene.objects.len())) };
            let one = Description { mentions: vec![object], relation: None, place: None, parts: Vec::new() };
            (one, Style { form, synonyms: false })
        })
        .into();
    let above = &mut told[3].0.mentions[0];
    above.noun = scene.objects[above.object].class.path()[dice.below(3)];
    told
}

/// Adds phrases with the names of every object (its class and ancestors) and its box. `told` holds the descriptions of
/// the captions, `owners` the object of each existing phrase.
pub(super) fn name_objects(
    scene: &Scene,
    told: &[(Description, Style)],
    said: &[Said],
    phrases: &mut Vec<Phrase>,
    owners: &[usize],
    words: Words,
) {
    let mut dice = Dice::new([scene.variant, 0, 0, NAMES]);
    for (index, object) in scene.objects.iter().enumerate() {
        let path = object.class.path();
        // One name without its article, which is the form of labels and of the most general tier.
        let (from, bare) = match words {
            Words::Names => (path.len() - 1, path.len() - 1),
            _ => (0, dice.below(path.len())),
        };
        let texts = path.iter().enumerate().skip(from).map(|(level, name)| (level, with_article(name)));
        for (level, text) in texts.chain([(bare, path[bare].to_owned())]) {
            let spans = spans(told, said, index, &path[level..]);
            let known = (0..owners.len()).find(|&i| phrases[i].text == text && owners[i] == index);
            match known {
                Some(known) => phrases[known].spans = spans,
                None => phrases.push(Phrase { text, boxes: vec![object.bounds], spans, ..Phrase::default() }),
            }
        }
    }
}

/// Spans where a caption names the object by one of these nouns.
fn spans(told: &[(Description, Style)], said: &[Said], object: usize, nouns: &[&str]) -> Vec<Span> {
    let mut spans = Vec::new();
    for (caption, ((description, _), said)) in told.iter().zip(said).enumerate() {
        let mentions = &description.mentions;
        if mentions.iter().any(|it| it.object == object && nouns.contains(&it.noun)) {
            let places = said.places.iter().filter(|place| place.object == object && place.part.is_none());
            spans.extend(places.map(|place| Span { caption, start: place.start, end: place.end }));
        }
    }
    spans
}

fn with_article(name: &str) -> String {
    format!("{} {name}", article(name))
}

// Purposes of random streams; captions, tiers and negatives use 1 to 3.
const GENERAL: u64 = 4;
const NAMES: u64 = 5;
