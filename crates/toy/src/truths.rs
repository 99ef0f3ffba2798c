//! Decides whether a text about one toy scene is also true of another scene. Used to evaluate search and traversal
//! results against the ground truth.

use std::collections::HashMap;

use super::caption::all_descriptions;
use super::classes::ROOT;
use super::general::{TextChoice, class_words};
use super::grammar::{Description, Mention, article};
use super::palette::Colour;
use super::scene::Scene;

/// Maps the texts of a set of scenes, and every name of the is-a tree with and without a colour, to the facts that they
/// state.
#[derive(Clone, Debug)]
pub struct GroundTruth {
    descriptions: HashMap<String, Description>,
}

impl GroundTruth {
    /// Collects the captions and phrases of `scenes` and the class words.
    pub fn of<'a>(scenes: impl IntoIterator<Item = &'a Scene>) -> Self {
        let mut descriptions = HashMap::new();
        for (name, text) in class_words() {
            descriptions.insert(text, class_description(name, None));
            descriptions.insert(name.to_owned(), class_description(name, None));
            for &colour in Colour::ALL {
                let coloured = format!("{} {name}", colour.name());
                descriptions
                    .insert(format!("{} {coloured}", article(&coloured)), class_description(name, Some(colour)));
            }
        }
        descriptions.insert(ROOT.to_owned(), class_description(ROOT, None));
        for scene in scenes {
            for (description, style) in all_descriptions(scene, TextChoice::General) {
                let sentence = description.say(style);
                for span in &sentence.spans {
                    let text: String = sentence.text.chars().skip(span.start).take(span.end - span.start).collect();
                    let mut mentions = description.mentions.iter().filter(|it| it.object == span.object);
                    if let Some(mention) = mentions.next() {
                        // For a part, keep only the noun of the object, because all objects of a class have the same
                        // parts.
                        let mention = match span.part {
                            Some(_) => Mention { colour: None, size: None, ..*mention },
                            None => *mention,
                        };
                        descriptions.entry(text).or_insert_with(|| mention_description(mention));
                    }
                }
                descriptions.entry(sentence.text).or_insert(description);
            }
        }
        Self { descriptions }
    }

    /// Returns whether the text is true of the scene; `None` if the text is unknown.
    pub fn holds(&self, text: &str, scene: &Scene) -> Option<bool> {
        self.descriptions.get(text).map(|description| description.holds(scene))
    }
}

/// Returns whether a scene shows an object of this name: a class, an ancestor node or the root.
pub fn shows(scene: &Scene, name: &str) -> bool {
    scene.objects.iter().any(|object| object.class.is_a(name))
}

fn class_description(noun: &'static str, colour: Option<Colour>) -> Description {
    mention_description(Mention { object: 0, noun, colour, size: None })
}

fn mention_description(mention: Mention) -> Description {
    Description { mentions: vec![mention], relation: None, place: None, parts: Vec::new() }
}
