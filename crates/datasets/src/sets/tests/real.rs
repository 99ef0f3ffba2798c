//! Tests with published files, if they are available locally.

use super::super::mat::{self, MatValue};
use super::*;

#[test]
fn eurosat() {
    let Some(subset) = shared_data("eurosat_subset") else { return };
    let source = find("eurosat").unwrap().open(&subset).unwrap();
    // The first 100 photos of each of the 10 classes.
    assert_eq!((source.len(), source.complete()), (1000, Some(27_000)));
    let own: Vec<_> = source.classes();
    for class in &own {
        assert_eq!(rows(&*source).iter().filter(|(_, label)| *label == class.label).count(), 100, "{}", class.label);
    }
    let picture = source.get(0).unwrap().image.unwrap().open(&PixelLimits::default()).unwrap();
    assert_eq!((picture.width, picture.height), (64, 64));

    // The published list has its classes in the order of the folders.
    let Some(list) = shared_data("prompts_classnames/clip_benchmark_en_classnames.json") else { return };
    let root = FixtureFolder::new();
    fs::copy(list, root.path().join("class_names.json")).unwrap();
    for class in &own {
        fs::create_dir_all(root.path().join("eurosat/2750").join(&class.label)).unwrap();
    }
    fs::copy(subset.join("River/River_1.jpg"), root.path().join("eurosat/2750/River/River_1.jpg")).unwrap();
    assert_eq!(open(&root, "eurosat").unwrap().classes(), own);
}

#[test]
fn published_class_names_match_the_sets() {
    let Some(list) = shared_data("prompts_classnames/clip_benchmark_en_classnames.json") else { return };
    let folder = FixtureFolder::new();
    fs::copy(list, folder.path().join("class_names.json")).unwrap();
    let cases = [
        ("imagenet", ["tench", "toilet paper"]),
        ("country211", ["Andorra", "Zimbabwe"]),
        ("caltech101", ["background", "yin and yang symbol"]),
        ("flowers102", ["pink primrose", "blackberry lily"]),
        ("mnist", ["0", "9"]),
        ("pcam", ["lymph node", "lymph node containing metastatic tumor tissue"]),
        ("pets", ["Abyssinian", "Yorkshire Terrier"]),
    ];
    for (set, ends) in cases {
        let path = folder.path().join(set);
        let names = archive::Archive::new(find(set).unwrap(), &path, &[]).names(None).unwrap();
        assert_eq!([names.first().unwrap(), names.last().unwrap()], ends, "{set}");
        // The classes of pets are numbered alphabetically, ignoring case, so their names must be in this order.
        assert!(set != "pets" || names.is_sorted_by_key(|name| name.to_lowercase()));
    }
}

#[test]
fn coco_val2017() {
    let Some(folder) = shared_data("coco_val2017_annotations") else { return };
    let source = find("coco").unwrap().open(&folder).unwrap();
    let captions: usize = (0..source.len()).map(|i| source.get(i).unwrap().captions.len()).sum();
    assert_eq!((source.len(), captions), (5000, 25_014));
}

#[test]
fn a_mat_file_of_matlab() {
    let Some(path) = shared_data("flickr8k_grounded/raw/bboxes.mat") else { return };
    let MatValue::Numbers(numbers) = mat::read(&path, "bboxes_arr").unwrap() else { panic!("numbers") };
    assert_eq!(numbers.len(), 4 * 35_896);
    let Some(table) = shared_data("flickr8k_grounded/phrase_boxes.tsv") else { return };
    let table = fs::read_to_string(table).unwrap();
    // Columns: image, phrase, xmin, ymin, xmax, ymax. The array is in column-major order.
    for (row, line) in table.lines().skip(1).enumerate().step_by(1000) {
        let boxes: Vec<f64> = line.rsplit('\t').take(4).map(|value| value.parse().unwrap()).collect();
        let found: Vec<_> = (0..4).rev().map(|column| numbers[column * 35_896 + row]).collect();
        assert_eq!(found, boxes, "{line}");
    }
}
