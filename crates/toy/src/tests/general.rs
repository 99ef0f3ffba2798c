//! Tests of held-out classes, single-object scenes and general words.

use std::collections::BTreeSet;

use conifer_data::Sample;

use super::*;

fn quickstart_world(split: ToySplit) -> ToyWorld {
    let config = world(split).config();
    ToyWorld::new(ToyConfig { classes: ClassChoice::Seen, words: TextChoice::General, singles: 40, ..config }).unwrap()
}

/// Every text of a sample with a space before and after it, so that names match whole words only.
fn texts(sample: &Sample) -> Vec<String> {
    let tiers = sample.tiers.clone().unwrap();
    let phrases = sample.phrases.iter().map(|it| it.text.clone());
    let texts = sample.captions.iter().cloned().chain(tiers.positive).chain(tiers.negative).chain(phrases);
    texts.map(|text| format!(" {} ", text.replace(',', ""))).collect()
}

#[test]
fn seen_world_has_no_held_out_class() {
    let held_out: Vec<ToyClass> = ToyClass::all().filter(|class| class.is_held_out()).collect();
    assert_eq!(held_out.len(), HELD_OUT_CLASSES.len(), "every held-out name must be a class");
    let world = quickstart_world(ToySplit::Train);
    let mut shown = BTreeSet::new();
    for index in 0..1500 {
        let scene = world.scene(index);
        shown.extend(scene.objects.iter().map(|object| object.class));
        let negatives = hard_negatives(&scene).into_iter().map(|it| format!(" {} ", it.negative.replace(',', "")));
        let sample = world.sample(index);
        assert!(!HELD_OUT_CLASSES.contains(&sample.label.as_deref().unwrap()));
        for text in texts(&sample).into_iter().chain(negatives) {
            for class in &held_out {
                assert!(!text.contains(&format!(" {} ", class.name())), "{text}");
                assert!(!text.contains(&format!(" {}s ", class.name())), "{text}");
            }
        }
    }
    assert_eq!(shown.len(), ToyClass::COUNT - held_out.len(), "every other class must be shown");
    assert!(shown.iter().all(|class| !class.is_held_out()));
}

#[test]
fn parents_of_held_out_classes_have_seen_children() {
    for class in ToyClass::all().filter(|class| class.is_held_out()) {
        let parent = class.path()[2];
        assert!(ToyClass::all().any(|other| !other.is_held_out() && other.is_a(parent)), "{parent}");
    }
}

#[test]
fn held_out_world_has_one_in_every_scene() {
    let config = ToyConfig { classes: ClassChoice::HeldOut, ..world(ToySplit::Test).config() };
    let world = ToyWorld::new(config).unwrap();
    assert!((0..300).all(|index| world.scene(index).objects[0].class.is_held_out()));
    let gallery = world.gallery(3).unwrap();
    assert_eq!(gallery.len(), 3 * HELD_OUT_CLASSES.len());
    assert!((0..gallery.len()).all(|index| gallery.scene(index).objects[0].class.is_held_out()));
}

#[test]
fn seen_gallery_is_a_subset_of_the_full_gallery() {
    let config = world(ToySplit::Test).config();
    let all = world(ToySplit::Test).gallery(2).unwrap();
    let seen = ToyWorld::new(ToyConfig { classes: ClassChoice::Seen, ..config }).unwrap().gallery(2).unwrap();
    let whole: Vec<_> = (0..all.len()).map(|index| all.scene(index).objects).collect();
    for index in 0..seen.len() {
        let objects = seen.scene(index).objects;
        assert!(!objects[0].class.is_held_out() && whole.contains(&objects));
    }
}

#[test]
fn singles_sets_the_fraction_of_single_object_scenes() {
    let config = world(ToySplit::Train).config();
    let singles = |singles| {
        let world = ToyWorld::new(ToyConfig { singles, ..config }).unwrap();
        (0..1000).filter(|&index| world.scene(index).objects.len() == 1).count()
    };
    let (none, half, all) = (singles(0), singles(50), singles(100));
    assert!(none < 400 && half > 550 && half < 800, "{none} {half}");
    assert_eq!(all, 1000);
    let error = ToyWorld::new(ToyConfig { singles: 101, ..config }).unwrap_err().to_string();
    assert!(error.contains("`singles of the toy world` is 101; expected 0 to 100 per cent"), "{error}");
}

#[test]
fn general_words_are_captions_and_phrases() {
    let world = quickstart_world(ToySplit::Train);
    let (mut phrases, mut captions) = (BTreeSet::new(), BTreeSet::new());
    for index in 0..3000 {
        let sample = world.sample(index);
        sample.check().unwrap();
        phrases.extend(sample.phrases.into_iter().map(|it| it.text));
        captions.extend(sample.captions);
    }
    for (name, text) in class_words() {
        if ToyClass::named(name).is_some_and(ToyClass::is_held_out) {
            assert!(!phrases.contains(&text) && !captions.contains(&text), "{text}");
            continue;
        }
        assert!(phrases.contains(&text) && phrases.contains(name), "{text}");
        assert!(captions.contains(&text) || captions.contains(&format!("a photo of {text}")), "{text}");
    }
    assert!(captions.contains("a photo of a bus"));
}

#[test]
fn mixed_words_name_ancestors_in_half_of_the_scenes() {
    let config = ToyConfig { classes: ClassChoice::Seen, singles: 40, ..world(ToySplit::Train).config() };
    let [mixed, general, ancestors] = [TextChoice::Mixed, TextChoice::General, TextChoice::Ancestors]
        .map(|words| ToyWorld::new(ToyConfig { words, ..config }).unwrap());
    let mut halves = [0, 0];
    for index in 0..400 {
        let captions = |world: &ToyWorld| world.sample(index).captions;
        let half = usize::from(captions(&mixed) != captions(&general));
        assert_eq!(captions(&mixed), captions([&general, &ancestors][half]));
        halves[half] += 1;
    }
    assert!(halves.iter().all(|&count| count > 150), "{halves:?}");
}

#[test]
fn captions_imply_their_phrases() {
    let world = quickstart_world(ToySplit::Train);
    let path_of = |noun: &str| ToyClass::all().map(ToyClass::path).find(|path| path.contains(&noun));
    let mut general = 0;
    for index in 0..400 {
        let (scene, sample) = (world.scene(index), world.sample(index));
        let truths = GroundTruth::of([&scene]);
        for phrase in &sample.phrases {
            assert!(!phrase.spans.is_empty(), "{}", phrase.text);
            assert_eq!(truths.holds(&phrase.text, &scene), Some(true), "{}", phrase.text);
            let name = phrase.text.trim_start_matches("an ").trim_start_matches("a ");
            let Some(path) = path_of(name) else { continue };
            general += 1;
            let level = path.iter().position(|node| *node == name).unwrap();
            for span in &phrase.spans {
                let named = span.text(&sample.captions).unwrap();
                // The noun of the caption is the node or a descendant of it.
                let below = ToyClass::all().map(ToyClass::path).filter(|other| other[..=level].contains(&name));
                let mut nouns = below.flat_map(|other| other[level..].to_vec());
                assert!(nouns.any(|noun| named.ends_with(noun)), "`{}` for `{named}`", phrase.text);
            }
        }
        assert!(sample.captions.iter().all(|text| truths.holds(text, &scene) == Some(true)));
    }
    assert!(general > 2000, "{general}");
}

#[test]
fn ground_truth_follows_the_scene() {
    let world = world(ToySplit::Test);
    let scenes: Vec<Scene> = (0..40).map(|index| world.scene(index)).collect();
    let truths = GroundTruth::of(&scenes);
    let scene = &scenes[0];
    let main = scene.objects[0];
    for name in main.class.path() {
        assert_eq!(truths.holds(name, scene), Some(true), "{name}");
    }
    let other = ToyClass::all().find(|class| scene.objects.iter().all(|object| object.class != *class)).unwrap();
    assert_eq!(truths.holds(other.name(), scene), Some(false));
    let wrong = [Colour::Blue, Colour::Green].into_iter().find(|colour| *colour != main.colour).unwrap();
    assert_eq!(truths.holds(&format!("a {} {}", wrong.name(), main.class.name()), scene), Some(false));
    assert_eq!(truths.holds("a shapeless form", scene), None);
    let false_ones = scenes[1..].iter().filter(|other| truths.holds(&captions(other).texts[0], scene) == Some(false));
    assert!(false_ones.count() >= 38, "the full captions of the other scenes must be false of this one");
}
