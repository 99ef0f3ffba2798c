#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use conifer_data::fixtures::{FixtureFolder, jpeg, shared_data};
use conifer_data::{BBox, Cause, ImageRef, View};
use serde_json::json;

use super::*;

fn spec(kind: &str, path: impl Into<PathBuf>, options: serde_json::Value) -> SourceSpec {
    let options = serde_json::from_value(options).unwrap();
    SourceSpec { kind: kind.to_owned(), path: Some(path.into()), options, ..SourceSpec::default() }
}

fn split(spec: &SourceSpec, split: &str) -> SourceSpec {
    SourceSpec { split: Some(split.to_owned()), ..spec.clone() }
}

fn message(spec: &SourceSpec) -> String {
    open(spec).err().unwrap().to_string()
}

fn counts(source: &dyn Source) -> BTreeMap<(Option<String>, Option<String>), usize> {
    let mut counts = BTreeMap::new();
    for index in 0..source.len() {
        let sample = source.get(index).unwrap();
        *counts.entry((sample.split, sample.label)).or_default() += 1;
    }
    counts
}

#[test]
fn sugarcrepe() {
    let folder = FixtureFolder::new();
    folder.write("photos/000000000042.jpg", jpeg(40, 20));
    folder.write("photos/COCO_val2014_000000000043.jpg", jpeg(40, 20));
    let item = |photo: u32, right: &str, wrong: &str| json!({"filename": format!("{photo:012}.jpg"), "caption": right, "negative_caption": wrong});
    let swap = json!({"0": item(42, "a cat on a dog ", "a dog on a cat"), "10": item(43, "x", "y"), "2": {"filename": "a.jpg"}});
    folder.write("data/swap_obj.json", swap.to_string());
    let add = folder.write("data/add_att.json", json!({"0": item(44, "a", " a b")}).to_string());
    folder.write("data/LICENSE", "not an item");
    let all = spec("sugarcrepe", folder.path().join("data"), json!({"images": "../photos"}));

    let source = open(&all).unwrap();
    assert_eq!((source.name(), source.len(), source.views()), ("sugarcrepe", 4, &[View::Pair][..]));
    let file = |index: usize| match source.get(index).unwrap().image {
        Some(ImageRef::File(path)) => path.file_name().unwrap().to_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let (first, second) = (source.get(0).unwrap(), source.get(1).unwrap());
    assert_eq!((&*first.id, first.split.as_deref()), ("add_att/0", Some("add_att")));
    assert_eq!((&*first.captions[0], &*first.wrong[0]), ("a", "a b"));
    assert_eq!((&*second.id, &*second.captions[0]), ("swap_obj/0", "a cat on a dog"));
    // The first photo exists under the name in the file, and the second photo exists under its 2014 name. The third
    // photo does not exist, so the path has the name in the file.
    assert_eq!([file(1), file(2), file(0)], ["000000000042.jpg", "COCO_val2014_000000000043.jpg", "000000000044.jpg"]);
    let broken = source.get(3).unwrap_err();
    assert_eq!((&*broken.sample, broken.cause), ("swap_obj/2", Cause::BadRecord));
    assert!(broken.detail.contains("missing field `caption`; expected filename, caption"), "{broken}");

    assert_eq!(open(&split(&all, "add_att")).unwrap().len(), 1);
    let one = open(&spec("sugarcrepe", &add, json!({}))).unwrap();
    assert_eq!((one.len(), one.views(), one.get(0).unwrap().image), (1, &[][..], None));
    assert_ne!(one.fingerprint(), source.fingerprint());
    assert_eq!(open(&all).unwrap().fingerprint(), source.fingerprint());

    for (spec, expected) in [
        (split(&all, "swap"), "subset of SugarCrepe `swap` is unknown; expected one of: add_att, add_obj"),
        (split(&all, "add_obj"), "holds no sample; expected items of subset `add_obj`"),
        (
            spec("sugarcrepe", folder.path().join("data"), json!({"images": "nowhere"})),
            "`images of source sugarcrepe` is",
        ),
        (spec("sugarcrepe", folder.path().join("photos"), json!({})), "holds no sample; expected JSON files"),
    ] {
        assert!(message(&spec).contains(expected), "{}", message(&spec));
    }
    folder.write("data/add_att.json", "{}");
    assert!(message(&all).contains("add_att.json` holds no sample; expected filename, caption"), "{}", message(&all));
    folder.write("data/add_att.json", "[1]");
    assert!(message(&all).contains("add_att.json`: invalid type: sequence"), "{}", message(&all));
    fs::rename(&add, folder.path().join("data/add_verb.json")).unwrap();
    assert!(message(&all).contains("a file of subset `add_verb`; expected one of add_att"), "{}", message(&all));
}

#[test]
fn vl_checklist() {
    let folder = FixtureFolder::new();
    folder.write("photos/vg/VG_100K/1.jpg", jpeg(40, 20));
    folder.write("photos/2.jpg", jpeg(40, 20));
    let pair = |photo: &str, right: &[&str], wrong: &[&str]| json!([photo, {"POS": right, "NEG": wrong}]);
    let margin = json!([pair("VG_100K/1.jpg", &["cat IN box", "unused"], &[" sack"]), pair("2.jpg", &["b"], &[])]);
    folder.write("data/Object/Location/vg_location/vg_obj_margin.json", margin.to_string());
    let agent = json!([pair("2.jpg", &["c"], &["d"]), ["2.jpg"]]);
    let agent = folder.write("data/Object/Size/swig_size/swig_agent/swig_agent_small.json", agent.to_string());
    // Files of attributes and relations belong to other benchmarks and are ignored.
    folder.write("data/Attribute/vg/color.json", json!([pair("2.jpg", &["c"], &["d"])]).to_string());
    let all = spec("vl_checklist", folder.path().join("data"), json!({"images": "../photos"}));

    let source = open(&all).unwrap();
    assert_eq!((source.name(), source.len(), source.views()), ("vl_checklist", 4, &[View::Pair][..]));
    let one = source.get(0).unwrap();
    assert_eq!(
        (&*one.id, one.split.as_deref(), one.label.as_deref()),
        ("vg_obj_margin/0", Some("Location/margin"), Some("vg_obj"))
    );
    assert_eq!((&one.captions[..], &one.wrong[..]), (&["cat IN box".to_owned()][..], &["sack".to_owned()][..]));
    assert_eq!(one.image, Some(ImageRef::File(folder.path().join("data/../photos/vg/VG_100K/1.jpg"))));
    let broken = source.get(1).unwrap_err();
    assert_eq!((&*broken.sample, broken.cause), ("vg_obj_margin/1", Cause::NoCaption));
    let two = source.get(2).unwrap();
    assert_eq!(
        (&*two.id, two.split.as_deref(), two.label.as_deref()),
        ("swig_agent_small/0", Some("Size/small"), Some("swig_agent"))
    );
    assert_eq!(source.get(3).unwrap_err().cause, Cause::BadRecord);

    assert_eq!(open(&split(&all, "Size/small")).unwrap().len(), 2);
    assert_eq!(open(&spec("vl_checklist", agent, json!({}))).unwrap().get(0).unwrap().image, None);
    for (spec, expected) in [
        (split(&all, "small"), "subset of VL-CheckList `small` is unknown; expected one of: Location/center"),
        (split(&all, "Size/large"), "holds no sample; expected items of subset `Size/large`"),
        (spec("vl_checklist", folder.path().join("data/Attribute"), json!({})), "a file of the unknown subset `color`"),
    ] {
        assert!(message(&spec).contains(expected), "{}", message(&spec));
    }
    folder.write("data/Object/again/vg_obj_mid.json", "[]");
    assert!(message(&all).contains("vg_obj_mid.json` holds no sample"), "{}", message(&all));
    folder.write("data/Object/again/vg_obj_mid.json", margin.to_string());
    folder.write("data/Object/again/vg_obj_margin.json", margin.to_string());
    assert!(
        message(&all).contains("a second file `vg_obj_margin`; expected one file of each name"),
        "{}",
        message(&all)
    );
}

#[test]
fn vg_attribution() {
    let folder = FixtureFolder::new();
    folder.write("images/1.jpg", jpeg(300, 200));
    let item = |photo: &str, [x, y, w, h]: [i32; 4]| {
        json!({"image_path": photo, "bbox_x": x, "bbox_y": y, "bbox_w": w, "bbox_h": h, "attributes": ["open", "crouched"],
               "true_caption": "the crouched cat and the open door", "false_caption": "the open cat and the crouched door",
               "obj1_name": "cat", "obj2_name": "door"})
    };
    let mut nameless = item("1.jpg", [10, 20, 31, 17]);
    for name in ["obj1_name", "obj2_name"] {
        nameless.as_object_mut().unwrap().remove(name);
    }
    let mut single = item("1.jpg", [0, 0, 10, 10]);
    single["attributes"] = json!(["open"]);
    let items = json!([
        item("1.jpg", [13, 7, 101, 59]),
        item("1.jpg", [250, 150, 100, 100]),
        item("2.jpg", [0, 0, 10, 10]),
        item("1.jpg", [0, 0, 10, 0]),
        item("1.jpg", [300, 0, 10, 10]),
        single,
        nameless,
    ]);
    let path = folder.write("visual_genome_attribution.json", items.to_string());
    let all = spec("vg_attribution", &path, json!({}));
    let source = open(&all).unwrap();
    assert_eq!((source.name(), source.len(), source.views()), ("vg_attribution", 7, &[View::Pair, View::Boxes][..]));

    let one = source.get(0).unwrap();
    assert_eq!((&*one.id, one.split.as_deref(), one.label.as_deref()), ("0", None, Some("open_crouched")));
    assert_eq!((&*one.captions[0], &*one.phrases[0].text), ("the crouched cat and the open door", "cat and door"));
    // A box inside the photo is kept: left, top, left + width, top + height.
    assert_eq!(one.phrases[0].boxes[0].to_pixels(300, 200), [13, 7, 114, 66]);
    // 250 + 100 and 150 + 100 are outside the photo of 300 x 200, so the box is clipped.
    let cut = source.get(1).unwrap().phrases[0].boxes[0];
    assert_eq!(cut, BBox { x1: 250.0 / 300.0, y1: 0.75, x2: 1.0, y2: 1.0 });
    let causes: Vec<_> = (2..6).map(|index| source.get(index).unwrap_err().cause).collect();
    assert_eq!(causes, [Cause::MissingFile, Cause::BadBox, Cause::BadBox, Cause::BadRecord]);
    assert_eq!(&*source.get(4).unwrap_err().sample, "4");
    assert_eq!(source.get(6).unwrap().phrases[0].text, "the crouched cat and the open door");

    assert!(message(&split(&all, "test")).contains("files of this kind have no splits"));
    assert!(message(&spec("vg_attribution", &path, json!({"images": "no"}))).contains("a folder of photos"));
    folder.write("visual_genome_attribution.json", "[]");
    assert!(message(&all).contains("holds no sample; expected image_path, bbox_x"), "{}", message(&all));
}

/// The counts of the subsets come from Python's `len` over the seven files. 1,544 items refer to one of the 1,000
/// photos of HierarCaps.
#[test]
fn sugarcrepe_as_released() {
    let Some(path) = shared_data("sugarcrepe") else { return };
    let source = open(&spec("sugarcrepe", &path, json!({}))).unwrap();
    let expected = [
        ("add_att", 692),
        ("add_obj", 2062),
        ("replace_att", 788),
        ("replace_obj", 1652),
        ("replace_rel", 1406),
        ("swap_att", 666),
        ("swap_obj", 245),
    ];
    let found: Vec<_> = counts(&*source).into_iter().map(|((subset, _), count)| (subset.unwrap(), count)).collect();
    assert_eq!(found, expected.map(|(subset, count)| (subset.to_owned(), count)));
    assert_eq!(source.len(), 7511);

    let Some(photos) = shared_data("hierarcaps/images") else { return };
    let source = open(&spec("sugarcrepe", path, json!({"images": photos.canonicalize().unwrap()}))).unwrap();
    let there = |index: &usize| matches!(source.get(*index).unwrap().image, Some(ImageRef::File(it)) if it.is_file());
    assert_eq!((0..source.len()).filter(there).count(), 1544);
}

/// The counts come from Python's `len` over the two files of the shared data.
#[test]
fn vl_checklist_as_released() {
    let Some(path) = shared_data("vl_checklist") else { return };
    let source = open(&spec("vl_checklist", path, json!({}))).unwrap();
    let key = |subset: &str| (Some(subset.to_owned()), Some("vg_obj".to_owned()));
    assert_eq!(counts(&*source), BTreeMap::from([(key("Location/margin"), 8291), (key("Size/small"), 13702)]));
}
