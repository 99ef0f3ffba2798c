//! Decides whether a text about one toy scene is also true of another scene. Search and traversal results are judged
//! with it against the ground truth.

use std::collections::HashMap;

use super::caption::told;
use super::classes::ROOT;
use super::general::{Words, class_words};
use super::grammar::{Description, Mention, article};
use super::palette::Colour;
use super::scene::Scene;

/// Maps the texts of a set of scenes, and every class name with and without a colour, to their meaning.
#[derive(Clone, Debug)]
pub struct Truths {
    meaning: HashMap<String, Description>,
}

impl Truths {
    /// Collects the captions and phrases of `scenes` and the class words.
    pub fn of<'a>(scenes: impl IntoIterator<Item = &'a Scene>) -> Self {
        let mut meaning = HashMap::new();
        for (name, text) in class_words() {
            meaning.insert(text, thing(name, None));
            meaning.insert(name.to_owned(), thing(name, None));
            for &colour in Colour::ALL {
                let coloured = format!("{} {name}", colour.name());
                meaning.insert(format!("{} {coloured}", article(&coloured)), thing(name, Some(colour)));
            }
        }
        meaning.insert(ROOT.to_owned(), thing(ROOT, None));
        for scene in scenes {
            for (description, style) in told(scene, Words::General) {
                let said = description.say(style);
                for place in &said.places {
                    let text: String = said.text.chars().skip(place.start).take(place.end - place.start).collect();
                    let mut mentions = description.mentions.iter().filter(|it| it.object == place.object);
                    if let Some(mention) = mentions.next() {
                        // Keep only the noun of the object a part belongs to: all objects of a class have the same
                        // parts.
                        let mention = match place.part {
                            Some(_) => Mention { colour: None, size: None, ..*mention },
                            None => *mention,
                        };
                        meaning.entry(text).or_insert_with(|| about(mention));
                    }
                }
                meaning.entry(said.text).or_insert(description);
            }
        }
        Self { meaning }
    }

    /// Returns whether the text is true of the scene; `None` if the text is unknown.
    pub fn holds(&self, text: &str, scene: &Scene) -> Option<bool> {
        self.meaning.get(text).map(|description| description.holds(scene))
    }
}

/// Returns whether a scene shows an object of this name: a class, an ancestor node or the root.
pub fn shows(scene: &Scene, name: &str) -> bool {
    scene.objects.iter().any(|object| object.class.is_a(name))
}

fn thing(noun: &'static str, colour: Option<Colour>) -> Description {
    about(Mention { object: 0, noun, colour, size: None })
}

fn about(mention: Mention) -> Description {
    Description { mentions: vec![mention], relation: None, place: None, parts: Vec::new() }
}
