//! Tests of captions, phrases, tiers and negatives.

use std::collections::BTreeSet;

use conifer_data::Sample;

use super::*;
use crate::caption::{descriptions, nucleus};
use crate::grammar::{SentenceForm, SentenceStyle, plural};

fn words(text: &str) -> Vec<String> {
    let words = text.split(' ').map(|word| word.trim_matches(',').to_owned());
    words.filter(|word| word != "a" && word != "an").collect()
}

fn is_subsequence(part: &[String], whole: &[String]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|word| rest.any(|other| other == word))
}

#[test]
fn captions_are_true_and_distinct() {
    for split in [ToySplit::Train, ToySplit::HeldOut] {
        for scene in scenes(split, 1500) {
            for (description, _) in descriptions(&scene) {
                assert!(description.holds(&scene), "{description:?} of {scene:?}");
            }
            let texts = captions(&scene).texts;
            let different: BTreeSet<&String> = texts.iter().collect();
            assert!(different.len() >= texts.len() - 1, "{texts:?}");
        }
    }
}

#[test]
fn samples_are_valid_and_spans_match_phrases() {
    let world = world(ToySplit::Train);
    let (mut parts, mut several) = (0, 0);
    for index in 0..300 {
        let sample = world.sample(index);
        sample.check().unwrap();
        assert!(sample.label.is_some() && sample.captions.len() == 5);
        for phrase in &sample.phrases {
            assert!(!phrase.boxes.is_empty() && !phrase.spans.is_empty());
            for span in &phrase.spans {
                assert_eq!(span.text(&sample.captions), Some(phrase.text.as_str()));
            }
            if let Some(whole) = phrase.part_of {
                parts += 1;
                several += usize::from(phrase.boxes.len() > 1);
                let whole = &sample.phrases[whole];
                assert!(whole.part_of.is_none());
                for part in &phrase.boxes {
                    let b = whole.boxes[0];
                    assert!(part.x1 >= b.x1 && part.y1 >= b.y1 && part.x2 <= b.x2 + 1e-6 && part.y2 <= b.y2 + 1e-6);
                }
            }
        }
    }
    assert!(parts > 300 && several > 50, "{parts} {several}");
}

#[test]
fn phrases_have_the_box_of_their_object() {
    for scene in scenes(ToySplit::Val, 300) {
        for phrase in captions(&scene).phrases.iter().filter(|phrase| phrase.part_of.is_none()) {
            let named = scene.objects.iter().filter(|object| {
                let noun = object.class.path().into_iter().any(|name| phrase.text.ends_with(name));
                let colour = words(&phrase.text).contains(&object.colour.name().to_owned());
                noun && (colour || scene.objects.len() == 1)
            });
            let boxes: Vec<_> = named.map(|object| object.bounds).collect();
            assert_eq!(boxes, phrase.boxes, "{} in {scene:?}", phrase.text);
        }
    }
}

#[test]
fn tiers_go_from_general_to_specific() {
    let mut middles = BTreeSet::new();
    for scene in scenes(ToySplit::Train, 1000) {
        let [top, middle, specific, full] = tiers(&scene).positive.try_into().unwrap();
        let class = scene.objects[0].class;
        let [general, bird, land_bird, parrot] = class.path();
        assert_eq!(top, general);
        let middle = words(&middle).join(" ");
        assert!(middle == bird || middle == land_bird, "{middle}");
        middles.insert(middle);
        let (specific, full) = (words(&specific), words(&full));
        assert!(specific.join(" ").contains(&format!("{} {parrot}", scene.objects[0].colour.name())));
        assert!(is_subsequence(&specific, &full) && specific.len() < full.len(), "{specific:?} {full:?}");
    }
    assert!(middles.len() > 40, "{middles:?}");
}

#[test]
fn negative_tiers_contradict_the_scene() {
    for split in [ToySplit::Test, ToySplit::HeldOut] {
        for scene in scenes(split, 1000) {
            let tiers = tiers(&scene);
            assert_eq!(tiers.negative.len(), 4);
            for (positive, negative) in tiers.positive.iter().zip(&tiers.negative) {
                assert!(!negative.trim().is_empty());
                assert_ne!(positive, negative);
            }
            for general in &tiers.negative[..2] {
                let name = words(general).join(" ");
                assert!(scene.objects.iter().all(|object| !object.class.is_a(&name)), "{name} in {scene:?}");
                assert!(ToyClass::all().any(|class| class.is_a(&name)));
            }
        }
    }
}

#[test]
fn training_texts_name_no_held_out_pair() {
    let world = world(ToySplit::Train);
    let names = |sample: &Sample| -> Vec<String> {
        let tiers = sample.tiers.clone().unwrap();
        let texts = [sample.captions.clone(), tiers.positive, tiers.negative].concat();
        texts.iter().map(|text| format!(" {} ", words(text).join(" "))).collect()
    };
    for index in 0..600 {
        let sample = world.sample(index);
        for text in names(&sample) {
            for class in ToyClass::all() {
                let pair = format!(" {} {} ", held_out_colour(class).name(), class.name());
                assert!(!text.contains(&pair), "{text}");
            }
        }
    }
}

#[test]
fn hard_negatives_differ_by_one_edit() {
    let mut seen = BTreeSet::new();
    for scene in scenes(ToySplit::Test, 1200) {
        for NegativeCaption { kind, caption, negative } in hard_negatives(&scene) {
            seen.insert(kind);
            let (before, after) = (words(&caption), words(&negative));
            let sorted = |words: &[String]| {
                let mut words = words.to_vec();
                words.sort();
                words
            };
            let changed = || -> Vec<(&String, &String)> { before.iter().zip(&after).filter(|(a, b)| a != b).collect() };
            let is_colour = |word: &str| Colour::ALL.iter().any(|colour| colour.name() == word);
            let is_size = |word: &str| ["small", "large"].contains(&word);
            assert_ne!(caption, negative);
            match kind {
                NegativeKind::ReplaceObject => {
                    let classes = |text: &str| -> BTreeSet<&str> {
                        let text = format!(" {} ", words(text).join(" "));
                        class_names().into_iter().filter(|name| text.contains(&format!(" {name} "))).collect()
                    };
                    let (old, new) = (classes(&caption), classes(&negative));
                    assert_eq!(old.len(), new.len());
                    assert_eq!(old.difference(&new).count(), 1, "{caption} / {negative}");
                }
                NegativeKind::ReplaceAttribute => {
                    let [(old, new)] = changed()[..] else { unreachable!("{caption} / {negative}") };
                    assert!((is_colour(old) && is_colour(new)) || (is_size(old) && is_size(new)));
                }
                NegativeKind::ReplaceRelation => {
                    let relation = |text: &str| {
                        let text = text.trim_end_matches(scene.background.place());
                        let found =
                            RelationKind::ALL.iter().filter(|kind| text.contains(&format!(" {} ", kind.phrase())));
                        found.map(|kind| kind.phrase()).max_by_key(|phrase| phrase.len()).unwrap()
                    };
                    let (old, new) = (relation(&caption), relation(&negative));
                    assert_ne!(old, new);
                    assert_eq!(caption.replacen(&format!(" {old} "), &format!(" {new} "), 1), negative);
                }
                NegativeKind::SwapObject => assert_eq!(sorted(&before), sorted(&after)),
                NegativeKind::SwapAttribute => {
                    assert_eq!(sorted(&before), sorted(&after));
                    let swapped = changed();
                    assert_eq!(swapped.len(), 2);
                    assert!(swapped.iter().all(|(old, new)| is_colour(old) && is_colour(new)));
                }
                NegativeKind::AddObject => {
                    assert!(is_subsequence(&before, &after));
                    assert!(class_names().iter().any(|name| !caption.contains(name) && negative.contains(name)));
                }
                NegativeKind::AddAttribute => {
                    assert!(is_subsequence(&before, &after));
                    assert_eq!(after.len(), before.len() + 1);
                }
            }
        }
    }
    assert_eq!(seen.len(), NegativeKind::ALL.len());
}

#[test]
fn descriptions_are_checked_against_the_scene() {
    let scene = scenes(ToySplit::Train, 100)
        .find(|scene| scene.relations.first().is_some_and(|r| r.kind == RelationKind::LeftOf))
        .unwrap();
    let truth = nucleus(&scene);
    assert!(truth.holds(&scene));
    let mut wrong = truth.clone();
    wrong.relation = Some(RelationKind::RightOf);
    assert!(!wrong.holds(&scene));
    let mut wrong = truth.clone();
    wrong.mentions[1] = wrong.mentions[0];
    assert!(!wrong.holds(&scene), "one object must not match two mentions");
    let mut wrong = truth.clone();
    wrong.place = Background::ALL.iter().copied().find(|place| *place != scene.background);
    assert!(!wrong.holds(&scene));
    let mut general = truth;
    general.mentions[0].noun = ROOT;
    general.mentions[0].colour = None;
    assert!(general.holds(&scene));
}

#[test]
fn sentences_of_each_form() {
    // Any scene with two objects works: the test replaces their attributes.
    let scene = scenes(ToySplit::Train, 100).find(|scene| scene.objects.len() == 2).unwrap();
    let mut description = nucleus(&scene);
    description.relation = Some(RelationKind::NextTo);
    description.place = Some(Background::Meadow);
    (description.mentions[0].noun, description.mentions[1].noun) = ("owl", "car");
    (description.mentions[0].colour, description.mentions[1].colour) = (Some(Colour::Orange), Some(Colour::Blue));
    (description.mentions[0].size, description.mentions[1].size) = (Some(ObjectSize::Small), None);
    for (form, synonyms, expected) in [
        (SentenceForm::Plain, false, "a small orange owl next to a blue car in a meadow"),
        (SentenceForm::Plain, true, "a little orange owl beside a blue car in a meadow"),
        (SentenceForm::PlaceFirst, false, "in a meadow, a small orange owl is next to a blue car"),
        (SentenceForm::Setting, false, "a meadow with a small orange owl next to a blue car"),
        (SentenceForm::Picture, false, "a picture of a small orange owl next to a blue car in a meadow"),
    ] {
        assert_eq!(description.say(SentenceStyle { form, synonyms }).text, expected);
    }
    description.mentions[0].size = None;
    description.relation = None;
    assert_eq!(description.say(SentenceStyle::PLAIN).text, "an orange owl and a blue car in a meadow");
    assert_eq!(["leaf", "tooth", "wheel"].map(plural), ["leaves", "teeth", "wheels"]);
}
