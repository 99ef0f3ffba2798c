//! Tests of classes, splits and layouts.

use std::collections::BTreeSet;

use super::*;
use crate::held_out::backgrounds_of;

#[test]
fn all_leaves_are_at_depth_four() {
    let tree = tree().unwrap();
    assert_eq!(tree.name(tree.root()), ROOT);
    let leaves: Vec<usize> = tree.leaves().collect();
    assert!(leaves.len() >= 40);
    assert!(leaves.iter().all(|leaf| tree.depth(*leaf) == 4));
    let mut names: Vec<&str> = leaves.iter().map(|leaf| tree.name(*leaf)).collect();
    let mut classes = class_names();
    names.sort_unstable();
    classes.sort_unstable();
    assert_eq!(names, classes);
    let parrot = ToyClass::named("parrot").unwrap();
    assert_eq!(parrot.path(), ["animal", "bird", "land bird", "parrot"]);
    assert!(parrot.is_a("bird") && parrot.is_a(ROOT) && !parrot.is_a("water bird"));
}

#[test]
fn taxa_form_a_tree_of_seven_ranks() {
    let tree = conifer_data::hierarchy::Tree::from_paths("Eukarya", ToyClass::all().filter_map(taxon)).unwrap();
    assert!(tree.leaves().all(|leaf| tree.depth(leaf) == RANKS.len()));
}

#[test]
fn scenes_depend_on_seed_split_and_index_only() {
    let world = world(ToySplit::Train);
    let forth: Vec<Scene> = (0..50).map(|i| world.scene(i)).collect();
    let mut back: Vec<Scene> = (0..50).rev().map(|i| world.scene(i)).collect();
    back.reverse();
    assert_eq!(forth, back);
    let larger = ToyWorld::new(ToyConfig { size: 9, resolution: 224, ..world.config() }).unwrap();
    assert_eq!(forth[..9], (0..9).map(|i| larger.scene(i)).collect::<Vec<_>>());
    let reseeded = ToyWorld::new(ToyConfig { seed: 8, ..world.config() }).unwrap();
    assert_ne!(forth[0], reseeded.scene(0));
    for split in [ToySplit::Val, ToySplit::Test, ToySplit::HeldOut] {
        let other = ToyWorld::new(ToyConfig { split, ..world.config() }).unwrap();
        assert!((0..50).all(|i| other.scene(i) != forth[i]), "{split:?}");
    }
}

#[test]
fn scenes_contain_one_to_four_objects() {
    let mut counts = [0; 5];
    let mut kinds = BTreeSet::new();
    let mut mains = BTreeSet::new();
    for scene in scenes(ToySplit::Train, 3000) {
        let objects = &scene.objects;
        counts[objects.len()] += 1;
        mains.insert(objects[0].class);
        for (i, a) in objects.iter().enumerate() {
            a.bounds.check().unwrap();
            assert!(a.class.lives_in(scene.background));
            let side = (a.bounds.x2 - a.bounds.x1).max(a.bounds.y2 - a.bounds.y1);
            let expected = if side < 0.35 { ObjectSize::Small } else { ObjectSize::Large };
            assert_eq!(a.size, expected, "side {side}");
            assert!(objects[..i].iter().all(|b| b.class != a.class && b.colour != a.colour));
        }
        // n objects have n - 1 relations; the first relation has the main object as its subject.
        assert_eq!(scene.relations.len(), objects.len() - 1);
        assert!(scene.relations.first().is_none_or(|r| r.subject == 0));
        for relation in &scene.relations {
            assert!(scene.relates(relation.kind, relation.subject, relation.object), "{scene:?}");
            assert!(scene.relates(relation.kind.inverse(), relation.object, relation.subject));
            kinds.insert(relation.kind);
        }
    }
    // One to four objects are drawn with probabilities 5, 8, 5 and 2 of 20. Scenes whose objects do not fit are reduced
    // to one object.
    assert!(counts[1..].iter().all(|count| *count >= 150), "{counts:?}");
    assert_eq!(kinds.len(), RelationKind::ALL.len());
    assert_eq!(mains.len(), ToyClass::COUNT);
}

#[test]
fn objects_hide_little_of_each_other() {
    for scene in scenes(ToySplit::Test, 2000) {
        for (i, a) in scene.objects.iter().enumerate() {
            for b in &scene.objects[..i] {
                let shared = (a.bounds.x2.min(b.bounds.x2) - a.bounds.x1.max(b.bounds.x1)).max(0.0)
                    * (a.bounds.y2.min(b.bounds.y2) - a.bounds.y1.max(b.bounds.y1)).max(0.0);
                let larger = a.bounds.area().max(b.bounds.area());
                assert!(shared <= 0.31 * larger, "{a:?} and {b:?}");
            }
        }
    }
}

#[test]
fn held_out_pairs_occur_in_their_split_only() {
    for split in [ToySplit::Train, ToySplit::Val, ToySplit::Test] {
        for scene in scenes(split, 3000) {
            let met = scene.objects.iter().any(|o| is_held_out(o.class, o.colour, scene.background));
            assert!(!met, "{split:?}: {scene:?}");
        }
    }
    let (mut rare_colours, mut rare_places) = (0, 0);
    for scene in scenes(ToySplit::HeldOut, 1000) {
        let [main, others @ ..] = scene.objects.as_slice() else { unreachable!("scenes have a main object") };
        assert!(is_held_out(main.class, main.colour, scene.background));
        assert!(others.iter().all(|o| !is_held_out(o.class, o.colour, scene.background)));
        rare_colours += usize::from(held_out_colour(main.class) == main.colour);
        rare_places += usize::from(held_out_background(main.class) == scene.background);
    }
    assert!(rare_colours > 500 && rare_places > 500, "{rare_colours} {rare_places}");
}

#[test]
fn every_class_has_other_colours_and_backgrounds() {
    for class in ToyClass::all() {
        assert!(backgrounds_of(class).count() >= 3, "{class:?}");
        assert!(class.lives_in(held_out_background(class)));
    }
    // Every colour and most backgrounds are held out for some class, so that no colour or background is rare overall.
    let colours: BTreeSet<Colour> = ToyClass::all().map(held_out_colour).collect();
    let places: BTreeSet<Background> = ToyClass::all().map(held_out_background).collect();
    assert_eq!(colours.len(), Colour::ALL.len());
    assert!(places.len() >= 9, "{places:?}");
}

#[test]
fn gallery_shows_every_class_alone() {
    let gallery = world(ToySplit::Test).gallery(2).unwrap();
    assert_eq!(gallery.len(), 2 * ToyClass::COUNT);
    for (index, class) in ToyClass::all().flat_map(|class| [class, class]).enumerate() {
        let scene = gallery.scene(index);
        assert_eq!(scene.objects.len(), 1);
        assert_eq!(scene.objects[0].class, class);
    }
    let larger = world(ToySplit::Test).gallery(5).unwrap();
    assert_eq!(gallery.scene(3), larger.scene(6));
    assert_eq!(gallery.sample(3).label.as_deref(), Some(class_names()[1]));
}

#[test]
fn empty_configuration_is_rejected() {
    for (config, message) in [
        (ToyConfig { size: 0, ..ToyConfig::default() }, "data: `size of the toy world` is 0; expected at least 1"),
        (
            ToyConfig { resolution: 8, ..ToyConfig::default() },
            "data: `resolution of the toy world` is 8; expected 16 to 4096",
        ),
    ] {
        assert_eq!(ToyWorld::new(config).unwrap_err().to_string(), message);
    }
    assert!(world(ToySplit::Train).gallery(0).is_err());
    assert!(ToySplit::named("tset").unwrap_err().to_string().contains("train, val, test, held_out"));
}
