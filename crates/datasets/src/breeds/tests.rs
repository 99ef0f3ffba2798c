#![allow(clippy::unwrap_used)]
use conifer_data::fixtures::{FixtureFolder, shared_data};

use super::*;

/// Level 1 has beasts and tools. Beasts: cats a, b, c; dogs d, e; a bear f. Tools: one saw, which is too few for a task
/// with four subclasses.
fn folder() -> FixtureFolder {
    let folder = FixtureFolder::new();
    folder.write(
        "class_hierarchy.txt",
        "root beast\nroot tool\nbeast mammal\nmammal cat\nmammal dog\nmammal f\ncat a\ncat b\ncat c\ndog d\ndog e\ntool saw\n",
    );
    folder.write("node_names.txt", "root\tthing\nbeast\tbeast, wild beast\ncat\tcat\na\ttabby\n");
    let classes = ["a", "b", "c", "d", "e", "f", "saw", "gone"];
    let words = ["tabby, tiger cat", "tiger", "Persian cat", "pug", "puli", "bear, tiger", "handsaw", "lady's slipper"];
    let rows: Vec<_> = classes.iter().zip(words).enumerate().map(|(i, (wnid, words))| (i, wnid, words)).collect();
    folder.write("dataset_class_info.json", serde_json::to_string(&rows).unwrap());
    folder
}

const TASK: BreedsTask = BreedsTask { name: "made up", level: 1, ancestor: None, subclasses: 4 };

#[test]
fn halves_match_hand_calculation() {
    let folder = folder();
    let breeds = BreedsHierarchy::read(folder.path()).unwrap();
    let of = |split| {
        let all = breeds.superclasses(&TASK, split).unwrap();
        assert_eq!((all.len(), &*all[0].wnid), (1, "beast"), "tools have too few subclasses");
        let letters = |side: &[usize]| side.iter().map(|&i| &*breeds.classes()[i].wnid).collect::<Vec<_>>().join("");
        (letters(&all[0].source), letters(&all[0].target))
    };
    // The groups below the only child of beast are abc, de and f. `Good` gives one (3 / 2) of abc to the source and two
    // to the target, which is then full, so only the source gets a class of de.
    assert_eq!(of(BreedsSplit::Good), ("ad".to_owned(), "bc".to_owned()));
    // `Bad` keeps groups together: two of abc fill the source, and de is the target.
    assert_eq!(of(BreedsSplit::Bad), ("ab".to_owned(), "de".to_owned()));
    let (source, target) = of(BreedsSplit::Rand);
    let mut drawn: Vec<char> = (source.clone() + &target).chars().collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!((source.len(), target.len(), drawn.len()), (2, 2, 4));
    let (all, none) = of(BreedsSplit::None);
    // `None` and `Rand` draw the same four of six classes.
    assert_eq!((all, none), (source + &target, String::new()));
}

/// With one group of four, the classes that do not fit into the source fill the target. Groups of one class fill the
/// source first.
#[test]
fn spare_classes_fill_the_smaller_half() {
    assert_eq!(bad_halves(&[vec!["a", "b", "c", "d"]], 2), [vec!["a", "b"], vec!["c", "d"]]);
    assert_eq!(good_halves(&[vec!["a"], vec!["b"], vec!["c"], vec!["d"]], 2), [vec!["a", "b"], vec!["c", "d"]]);
}

#[test]
fn class_names_are_looked_up() {
    let folder = folder();
    let breeds = BreedsHierarchy::read(folder.path()).unwrap();
    for (name, found) in [
        ("a", NameLookup::Class(0)),
        ("PERSIAN_CAT", NameLookup::Class(2)),
        ("LADYS-SLIPPER", NameLookup::Class(7)),
        ("tiger", NameLookup::Several(vec![1, 5])),
        ("wild beast", NameLookup::Inner),
        ("dog", NameLookup::Inner),
        ("zebra", NameLookup::Unknown),
        ("", NameLookup::Unknown),
    ] {
        assert_eq!(breeds.look_up(name), found, "{name}");
    }
    assert_eq!((breeds.word("beast"), breeds.word("dog"), breeds.word("zebra")), ("beast", "dog", "zebra"));
}

#[test]
fn malformed_input_is_reported() {
    let folder = folder();
    let breeds = BreedsHierarchy::read(folder.path()).unwrap();
    let fails = |task: &BreedsTask, split| breeds.superclasses(task, split).unwrap_err().to_string();
    let text = fails(&BreedsTask { subclasses: 7, ..TASK }, BreedsSplit::None);
    assert!(text.contains("no superclass of made up; expected nodes of level 1 with 7 classes"), "{text}");
    assert!(fails(&BreedsTask { ancestor: Some("gone"), ..TASK }, BreedsSplit::None).contains("no node `gone`"));
    // Three subclasses cannot be halved.
    let text = fails(&BreedsTask { subclasses: 3, ..TASK }, BreedsSplit::Bad);
    assert!(text.contains("subclasses of `beast`; expected two halves of 3"), "{text}");
    for (json, message) in [
        ("[[1, \"a\", \"x\"]]", "class `a` has number 1; expected 0, its position in the list"),
        ("[[0, \"a\", \"x\"], [1, \"a\", \"x\"]]", "class `a` twice"),
        ("{}", "expected a list of [number"),
    ] {
        folder.write("dataset_class_info.json", json);
        let text = BreedsHierarchy::read(folder.path()).unwrap_err().to_string();
        assert!(text.contains(message) && text.contains("dataset_class_info.json"), "{text}");
    }
    assert!(BreedsTask::named("living18").unwrap_err().to_string().contains("entity13, entity30, living17"));
    assert!(BreedsSplit::named("worse").unwrap_err().to_string().contains("none, rand, good, bad"));
}

/// Compares with the output of the BREEDS code for the same files.
#[test]
fn the_four_tasks_as_published() {
    let (Some(info), Some(generated)) =
        (shared_data("breeds/modified"), shared_data("breeds/breeds_splits_generated.json"))
    else {
        return;
    };
    let breeds = BreedsHierarchy::read(&info).unwrap();
    let generated: serde_json::Value = serde_json::from_str(&fs::read_to_string(generated).unwrap()).unwrap();
    assert_eq!(breeds.classes().len(), 1000);
    let mut seen = 0;
    for task in BREEDS_TASKS {
        for split in BreedsSplit::ALL {
            let expected = &generated[task.name][split.name()];
            let found = breeds.superclasses(task, split).unwrap();
            let wnids: Vec<_> = found.iter().map(|it| it.wnid.as_str()).collect();
            assert_eq!(serde_json::to_value(&wnids).unwrap(), expected["superclasses"], "{}", task.name);
            let words: Vec<_> = found.iter().map(|it| breeds.word(&it.wnid)).collect();
            let names = expected["names"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
            assert_eq!(words, names.map(|it| it.split(", ").next().unwrap()).collect::<Vec<_>>());
            let source: Vec<_> = found.iter().map(|it| &it.source).collect();
            assert_eq!(serde_json::to_value(&source).unwrap(), expected["source"], "{} {split:?}", task.name);
            let target: Vec<_> = found.iter().map(|it| &it.target).collect();
            match split {
                BreedsSplit::None => assert!(target.iter().all(|it| it.is_empty())),
                _ => {
                    let expected = &expected["target"];
                    assert_eq!(serde_json::to_value(&target).unwrap(), *expected, "{} {split:?}", task.name);
                }
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 16);
}
