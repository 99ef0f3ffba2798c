//! Captions and phrases that name one object by its class or an ancestor: "a bus", "a vehicle", "a photo of a bus".
//!
//! In the usual captions every noun has a colour. Without these texts a text encoder would never see "a bus" or "an
//! animal" alone.

use conifer_data::{Phrase, Span};
use serde::{Deserialize, Serialize};

use super::caption::mention;
use super::classes::ToyClass;
use super::grammar::{Description, Mention, SentenceForm, SentenceStyle, SpannedSentence, article};
use super::rng::ToyRng;
use super::scene::Scene;

/// The kinds of texts of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextChoice {
    /// Five captions of the whole scene, and the phrases in them.
    #[default]
    Captions,
    /// Adds captions and phrases that name one object by its class or an ancestor of it.
    ///
    /// Such a phrase has a span in each caption that names the object at least as specifically: "a vehicle" has a span
    /// at "a red bus". A caption sampled for a phrase (`with_phrase`) therefore always implies the phrase.
    General,
    /// Mostly class names: of five captions, three name the class of one object, one names an ancestor of a class, and
    /// one describes the whole scene. Four of the five captions name neither a colour nor a position, so for most texts
    /// of a batch an image encoder has to use shapes.
    Names,
    /// Names of all levels: of five captions, two name the class of one object, two name ancestors of a class, and one
    /// describes the whole scene. With `with_phrase`, pairs such as "an animal" above "a bird" are frequent.
    Ancestors,
    /// [`TextChoice::General`] for half of the scenes, [`TextChoice::Ancestors`] for the others.
    Mixed,
}

impl TextChoice {
    /// Resolves the choice for one scene. The result is never [`TextChoice::Mixed`].
    pub(super) fn of(self, scene: &Scene) -> Self {
        match self {
            Self::Mixed if scene.variant.is_multiple_of(2) => Self::General,
            Self::Mixed => Self::Ancestors,
            other => other,
        }
    }
}

/// Every node of the is-a tree below the root as texts: the name, and the name with its article ("bird", "a bird").
///
/// Ancestors come before descendants, in the order of [`ToyClass::all`]; each node occurs once.
pub fn class_words() -> Vec<(&'static str, String)> {
    let mut words: Vec<(&'static str, String)> = Vec::new();
    for name in ToyClass::all().flat_map(ToyClass::path) {
        if words.iter().all(|(known, _)| *known != name) {
            words.push((name, with_article(name)));
        }
    }
    words
}

/// The five additional captions of [`TextChoice::General`], each of one object: the class alone, with a colour, with
/// the background, as a photo, and an ancestor.
pub(super) fn descriptions(scene: &Scene) -> [(Description, SentenceStyle); 5] {
    let mut rng = ToyRng::new([scene.variant, 0, 0, GENERAL]);
    let of = |rng: &mut ToyRng| Mention { colour: None, size: None, ..mention(scene, rng.below(scene.objects.len())) };
    let one =
        |mention: Mention| Description { mentions: vec![mention], relation: None, place: None, parts: Vec::new() };
    let style = |form: SentenceForm| SentenceStyle { form, synonyms: false };

    let class = one(of(&mut rng));
    let mut coloured = one(of(&mut rng));
    coloured.mentions[0].colour = Some(scene.objects[coloured.mentions[0].object].colour);
    let mut placed = one(of(&mut rng));
    placed.place = Some(scene.background);
    let photo = one(of(&mut rng));
    let mut above = one(of(&mut rng));
    let node = &mut above.mentions[0];
    node.noun = scene.objects[node.object].class.path()[rng.below(3)];
    [
        (class, style(SentenceForm::Plain)),
        (coloured, style(rng.pick([SentenceForm::Plain, SentenceForm::Photo]))),
        (placed, style(rng.pick([SentenceForm::Plain, SentenceForm::Photo]))),
        (photo, style(rng.pick([SentenceForm::Photo, SentenceForm::Photo, SentenceForm::Picture]))),
        (above, style(rng.pick([SentenceForm::Plain, SentenceForm::Photo]))),
    ]
}

/// The four captions of [`TextChoice::Names`] that describe one object each.
pub(super) fn names(scene: &Scene) -> Vec<(Description, SentenceStyle)> {
    let mut rng = ToyRng::new([scene.variant, 0, 0, GENERAL]);
    let mut descriptions: Vec<(Description, SentenceStyle)> =
        [SentenceForm::Plain, SentenceForm::Photo, SentenceForm::Photo, SentenceForm::Plain]
            .map(|form| {
                let object = Mention { colour: None, size: None, ..mention(scene, rng.below(scene.objects.len())) };
                let one = Description { mentions: vec![object], relation: None, place: None, parts: Vec::new() };
                (one, SentenceStyle { form, synonyms: false })
            })
            .into();
    let above = &mut descriptions[3].0.mentions[0];
    above.noun = scene.objects[above.object].class.path()[rng.below(3)];
    descriptions
}

/// The four captions of [`TextChoice::Ancestors`] that describe one object each.
pub(super) fn ancestors(scene: &Scene) -> Vec<(Description, SentenceStyle)> {
    let mut rng = ToyRng::new([scene.variant, 0, 0, GENERAL]);
    let mut one = |level: Option<usize>, form| {
        let mut object = Mention { colour: None, size: None, ..mention(scene, rng.below(scene.objects.len())) };
        if let Some(level) = level {
            object.noun = scene.objects[object.object].class.path()[level];
        }
        let description = Description { mentions: vec![object], relation: None, place: None, parts: Vec::new() };
        (description, SentenceStyle { form, synonyms: false })
    };
    vec![
        one(None, SentenceForm::Plain),
        one(None, SentenceForm::Photo),
        one(Some(2), SentenceForm::Plain),
        one(Some(1), SentenceForm::Plain),
    ]
}

/// Adds phrases with the names of every object (its class and ancestors; for [`TextChoice::Names`] the class only) and
/// its box. `descriptions` and `sentences` have one entry per caption. `owners` has the object of each existing phrase.
pub(super) fn name_objects(
    scene: &Scene,
    descriptions: &[(Description, SentenceStyle)],
    sentences: &[SpannedSentence],
    phrases: &mut Vec<Phrase>,
    owners: &[usize],
    words: TextChoice,
) {
    let mut rng = ToyRng::new([scene.variant, 0, 0, NAMES]);
    for (index, object) in scene.objects.iter().enumerate() {
        let path = object.class.path();
        // One name is also added without its article, which is the form of labels and of the most general tier.
        let (from, bare) = match words {
            TextChoice::Names => (path.len() - 1, path.len() - 1),
            _ => (0, rng.below(path.len())),
        };
        let texts = path.iter().enumerate().skip(from).map(|(level, name)| (level, with_article(name)));
        for (level, text) in texts.chain([(bare, path[bare].to_owned())]) {
            let spans = spans(descriptions, sentences, index, &path[level..]);
            let known = (0..owners.len()).find(|&i| phrases[i].text == text && owners[i] == index);
            match known {
                Some(known) => phrases[known].spans = spans,
                None => phrases.push(Phrase { text, boxes: vec![object.bounds], spans, ..Phrase::default() }),
            }
        }
    }
}

/// Spans where a caption names the object by one of these nouns.
fn spans(
    descriptions: &[(Description, SentenceStyle)],
    sentences: &[SpannedSentence],
    object: usize,
    nouns: &[&str],
) -> Vec<Span> {
    let mut spans = Vec::new();
    for (caption, ((description, _), sentence)) in descriptions.iter().zip(sentences).enumerate() {
        let mentions = &description.mentions;
        if mentions.iter().any(|it| it.object == object && nouns.contains(&it.noun)) {
            let named = sentence.spans.iter().filter(|it| it.object == object && it.part.is_none());
            spans.extend(named.map(|it| Span { caption, start: it.start, end: it.end }));
        }
    }
    spans
}

fn with_article(name: &str) -> String {
    format!("{} {name}", article(name))
}

// Purposes of random streams ([`ToyRng::new`]); captions, tiers and negatives use 1 to 3.
const GENERAL: u64 = 4;
const NAMES: u64 = 5;
