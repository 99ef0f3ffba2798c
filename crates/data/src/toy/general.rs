//! General words said by themselves: "a bus", "a vehicle", "a photo of a bus".
//!
//! Without them every noun of a text has a colour, and a text encoder never reads "a bus" or "an animal" alone.

use serde::{Deserialize, Serialize};

use super::caption::mention;
use super::classes::Class;
use super::dice::Dice;
use super::grammar::{Description, Form, Mention, Said, Style, article};
use super::scene::Scene;
use crate::sample::{Phrase, Span};

/// Which texts a world has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Words {
    /// Five captions of the whole scene, and the phrases in them.
    #[default]
    Captions,
    /// Also captions and phrases that name one object by its class or by a node above it.
    ///
    /// The spans of such a phrase are the places where a caption names the object as specifically or more: "a vehicle" has a span at "a red
    /// bus". So a caption that is drawn for a phrase (`with_phrase`) always says at least what the phrase says.
    General,
    /// Names first: of five captions three say the class of an object alone, one a node above it, and one everything. A batch of such texts
    /// cannot be told apart by colours and places, so an image encoder has to look at shapes.
    Names,
}

/// A node of the is-a tree as a text: its name and the name with its article ("bird", "a bird"), general before specific.
///
/// Every node below the root once, in the order in which [`Class::all`] first meets it.
pub fn class_words() -> Vec<(&'static str, String)> {
    let mut words: Vec<(&'static str, String)> = Vec::new();
    for name in Class::all().flat_map(Class::path) {
        if words.iter().all(|(known, _)| *known != name) {
            words.push((name, with_article(name)));
        }
    }
    words
}

/// Captions beside the usual five, each of one object: its class alone, with a colour, with the place, as a photo, and a node above it.
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

/// Adds the names of every object, its class and the nodes above it, as phrases with its box. `told` are the captions with what they say, `owners`
/// the objects of the phrases that there are.
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
        // One of the four without its article, as labels and the most general tier are written.
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

/// Where captions call the object by one of these nouns.
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

// Purposes of the streams of choices; the captions, tiers and negatives have 1 to 3.
const GENERAL: u64 = 4;
const NAMES: u64 = 5;
