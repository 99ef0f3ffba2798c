//! Tests of every layout, with minimal fabricated files.

use super::*;

#[test]
fn food101() {
    let folder = FixtureFolder::new();
    folder.write("food101/food-101/meta/classes.txt", labels(99) + "apple_pie\nhot_dog\n");
    folder.write("food101/food-101/meta/test.txt", "hot_dog/7\napple_pie/3\n");
    folder.write("food101/food-101/images/hot_dog/7.jpg", jpeg(4, 2));
    let source = open(&folder, "food101").unwrap();
    assert_eq!((source.name(), source.len(), source.complete()), ("food101", 2, Some(25_250)));
    assert_eq!(rows(&*source), pairs(&[("hot_dog/7.jpg", "hot_dog"), ("apple_pie/3.jpg", "apple_pie")]));
    assert_eq!(class(&*source, 99), ("apple_pie".into(), "apple pie".into()));
    assert!(pixel(&*source, 0, 3, 1).iter().all(|&c| c > 250)); // the right half is white up to JPEG loss
    // A missing photo remains a sample; opening it fails.
    let absent = source.get(1).unwrap().image.unwrap();
    assert!(matches!(&absent, ImageRef::File(path) if path.ends_with("food-101/images/apple_pie/3.jpg")));
    assert!(absent.open(&PixelLimits::default()).is_err());

    folder.write("food101/food-101/meta/test.txt", "hot_dog/7\napple_pie\n");
    assert!(message(&folder, "food101").contains("line 2 of"), "{}", message(&folder, "food101"));
    folder.write("food101/food-101/meta/test.txt", "cold_dog/7\n");
    let text = message(&folder, "food101");
    assert!(text.contains("photo `cold_dog/7.jpg` is of class `cold_dog`; expected one of the 101 classes"), "{text}");
    folder.write("food101/food-101/meta/test.txt", "hot_dog/7\n");
    folder.write("food101/food-101/meta/classes.txt", labels(99) + "hot_dog\n");
    assert!(message(&folder, "food101").ends_with("100 classes; expected 101 classes"));
    folder.write("food101/food-101/meta/classes.txt", labels(99) + "hot_dog\nhot_dog\n");
    assert!(message(&folder, "food101").contains("class `hot_dog` twice"));
    folder.write("food101/food-101/meta/classes.txt", labels(100) + "hot_dog\n");
    folder.write("food101/food-101/meta/test.txt", "\n");
    assert!(message(&folder, "food101").contains("holds no sample"));
}

#[test]
fn class_names_file_takes_precedence() {
    let folder = FixtureFolder::new();
    // The content of the archive may also be in the set's folder, without the archive's subfolder.
    folder.write("food101/meta/classes.txt", labels(101));
    folder.write("food101/meta/test.txt", "c000/1\n");
    let first = open(&folder, "food101").unwrap();
    assert_eq!(class(&*first, 100), ("c100".into(), "c100".into()));
    names(&folder, "class_names.json", &[("food101", 101)]);
    let second = open(&folder, "food101").unwrap();
    assert_eq!(class(&*second, 100), ("c100".into(), "name 100".into()));
    assert_ne!(first.fingerprint(), second.fingerprint());
    // The file in the set's folder takes precedence over the file in its parent folder. Entries of other sets have no
    // effect.
    names(&folder, "food101/class_names.json", &[("flowers", 102)]);
    assert_eq!(open(&folder, "food101").unwrap().fingerprint(), second.fingerprint());
    names(&folder, "food101/class_names.json", &[("food101", 100)]);
    let text = message(&folder, "food101");
    assert!(text.contains("100 names; expected 101 names, one for each class of food101"), "{text}");
}

#[test]
fn sun397() {
    let folder = FixtureFolder::new();
    let classes: String = (0..395).map(|i| format!("/c/c{i:03}\n")).collect();
    folder.write("sun397/SUN397/ClassName.txt", classes + "/a/abbey\n/a/apartment_building/outdoor\n");
    folder.write("sun397/Partitions/Testing_01.txt", "/a/apartment_building/outdoor/sun_a.jpg\n/a/abbey/sun_b.jpg\n");
    let source = open(&folder, "sun397").unwrap();
    let outdoor = ("a/apartment_building/outdoor/sun_a.jpg", "/a/apartment_building/outdoor");
    assert_eq!(rows(&*source), pairs(&[outdoor, ("a/abbey/sun_b.jpg", "/a/abbey")]));
    assert_eq!(class(&*source, 396).1, "apartment building outdoor");
    let ImageRef::File(path) = source.get(1).unwrap().image.unwrap() else { panic!("a file") };
    assert_eq!(path, folder.path().join("sun397/SUN397/a/abbey/sun_b.jpg"));
}

#[test]
fn aircraft() {
    let folder = FixtureFolder::new();
    let data = "aircraft/fgvc-aircraft-2013b/data";
    folder.write(&format!("{data}/variants.txt"), labels(98) + "707-320\nBAE 146-200\n");
    folder.write(&format!("{data}/images_variant_test.txt"), "0061581 BAE 146-200\n0000007 707-320\n");
    let source = open(&folder, "aircraft").unwrap();
    assert_eq!(rows(&*source), pairs(&[("0061581.jpg", "BAE 146-200"), ("0000007.jpg", "707-320")]));
    assert_eq!(class(&*source, 98), ("707-320".into(), "707-320".into()));
    folder.write(&format!("{data}/images_variant_test.txt"), "0061581\n");
    assert!(message(&folder, "aircraft").ends_with("`0061581`; expected <number> <variant>"));
}

#[test]
fn dtd_and_pets_take_classes_from_the_list() {
    let folder = FixtureFolder::new();
    let list = |count: usize| (0..count).rev().map(|i| format!("c{i:03}/c{i:03}_0001.jpg\n")).collect::<String>();
    folder.write("dtd/dtd/labels/test1.txt", list(47));
    let source = open(&folder, "dtd").unwrap();
    assert_eq!((source.len(), class(&*source, 0).0, rows(&*source)[46].1.as_str()), (47, "c000".into(), "c000"));
    folder.write("dtd/dtd/labels/test1.txt", list(46)); // one class is missing
    assert!(message(&folder, "dtd").ends_with("46 classes; expected 47 classes"));

    let breeds = "Bengal_2 3 1 2\namerican_bulldog_201 2 2 1\nAbyssinian_1 1 1 1\n".to_owned();
    let more: String = (4..=37).map(|i| format!("c{i:03}_1 {i} 2 1\n")).collect();
    folder.write("pets/annotations/test.txt", breeds + &more);
    let source = open(&folder, "pets").unwrap();
    assert_eq!(rows(&*source)[1], ("american_bulldog_201.jpg".into(), "american_bulldog".into()));
    let firsts = [0, 1, 2].map(|i| class(&*source, i).1);
    assert_eq!(firsts, ["Abyssinian", "american bulldog", "Bengal"]); // same order as the class numbers in the file
}

#[test]
fn cub2011() {
    let folder = FixtureFolder::new();
    let write = |name: &str, text: &str| folder.write(&format!("cub2011/CUB_200_2011/{name}"), text);
    let classes: String = (2..=200).map(|i| format!("{i} {i:03}.c_{i}\n")).collect();
    write("classes.txt", &format!("1 001.Black_footed_Albatross\n{classes}"));
    write("images.txt", "1 001.Black_footed_Albatross/a.jpg\n2 001.Black_footed_Albatross/b.jpg\n3 200.c_200/c.jpg\n");
    write("image_class_labels.txt", "1 1\n2 1\n3 200\n");
    write("train_test_split.txt", "1 0\n2 1\n3 0\n");
    let source = open(&folder, "cub2011").unwrap();
    let albatross = "001.Black_footed_Albatross";
    assert_eq!(
        rows(&*source),
        pairs(&[("001.Black_footed_Albatross/a.jpg", albatross), ("200.c_200/c.jpg", "200.c_200")])
    );
    assert_eq!(class(&*source, 0), (albatross.into(), "Black footed Albatross".into()));
    write("train_test_split.txt", "1 0\n2 1\n");
    let text = message(&folder, "cub2011");
    assert!(text.contains("photo 3 (`200.c_200/c.jpg`): train_test_split.txt gives None"), "{text}");
    write("images.txt", "1\n");
    assert!(message(&folder, "cub2011").contains("images.txt`: `1`; expected <number> <value>"));
}

#[test]
fn imagenet() {
    let folder = FixtureFolder::new();
    for i in 0..1000 {
        fs::create_dir_all(folder.path().join(format!("imagenet/val/n{i:08}"))).unwrap();
    }
    folder.write("imagenet/val/n00000007/ILSVRC2012_val_1.JPEG", jpeg(4, 2));
    let text = message(&folder, "imagenet");
    assert!(
        text.contains("class_names.json`: not found, or has no entry for this set; expected {\"imagenet1k\": [1000"),
        "{text}"
    );
    assert!(text.contains("LAION-AI/CLIP_benchmark"), "{text}");
    names(&folder, "class_names.json", &[("imagenet1k", 1000)]);
    let source = open(&folder, "imagenet").unwrap();
    assert_eq!(rows(&*source), pairs(&[("n00000007/ILSVRC2012_val_1.JPEG", "n00000007")]));
    assert_eq!((source.classes().len(), class(&*source, 7)), (1000, ("n00000007".into(), "name 7".into())));
    // If a folder is missing, the order of the classes is unknown unless they are listed.
    fs::remove_dir(folder.path().join("imagenet/val/n00000003")).unwrap();
    assert!(message(&folder, "imagenet").contains("999 class folders; expected 1000"));
    let listed: String = (0..1000).map(|i| format!("n{i:08} some name, another\n")).collect();
    folder.write("imagenet/LOC_synset_mapping.txt", listed);
    assert_eq!(class(&*open(&folder, "imagenet").unwrap(), 7).1, "name 7");
}

#[test]
fn folders_of_classes() {
    let folder = FixtureFolder::new();
    // (set, folder of the classes, two (class, name) pairs)
    let cases = [
        ("eurosat", "2750", [("AnnualCrop", "annual crop land"), ("SeaLake", "lake or sea")]),
        ("sst2", "rendered-sst2/test", [("negative", "negative"), ("positive", "positive")]),
        ("pcam", "test", [("0", "lymph node"), ("1", "lymph node containing metastatic tumor tissue")]),
        ("resisc45", "NWPU-RESISC45", [("c000", "c000"), ("sea_ice", "sea ice")]),
        ("country211", "country211/test", [("c000", "name 0"), ("c210", "name 210")]),
        ("caltech101", "101_ObjectCategories", [("BACKGROUND_Google", "name 0"), ("c001", "name 1")]),
    ];
    names(&folder, "class_names.json", &[("country211", 211), ("caltech101", 102)]);
    for (set, inner, two) in cases {
        let count = find(set).unwrap().classes;
        if count > 10 {
            let others = labels(count);
            let last = (set == "resisc45").then_some("sea_ice");
            let first = (set == "caltech101").then_some("BACKGROUND_Google");
            let others = others.lines().skip(usize::from(first.is_some())).take(count - usize::from(last.is_some()));
            for label in first.into_iter().chain(others).chain(last) {
                fs::create_dir_all(folder.path().join(format!("{set}/{inner}/{label}"))).unwrap();
            }
        }
        for (label, _) in two {
            folder.write(&format!("{set}/{inner}/{label}/1.png"), jpeg(4, 2));
            folder.write(&format!("{set}/{inner}/{label}/notes.txt"), "no photo");
        }
        let source = open(&folder, set).unwrap();
        let expected: Vec<_> = two.map(|(label, _)| (format!("{label}/1.png"), label.to_owned())).to_vec();
        assert_eq!(rows(&*source), expected, "{set}");
        let classes = source.classes();
        assert_eq!(classes.len(), count, "{set}");
        for (label, name) in two {
            assert_eq!(classes.iter().find(|class| class.label == label).unwrap().name, name, "{set}");
        }
    }
    // One class folder too many.
    folder.write("eurosat/2750/Moon/1.jpg", jpeg(4, 2));
    assert!(message(&folder, "eurosat").contains("photo `Moon/1.jpg` is of class `Moon`; expected one of the 10"));
    // One class folder too few, in a set whose folders are the only class list.
    fs::remove_dir_all(folder.path().join("country211/country211/test/c007")).unwrap();
    assert!(message(&folder, "country211").contains("210 class folders; expected 211"));
}

/// Pixels of a record of `side` x `side`: channel c at (x, y) is `40 c + 2 x + y` (modulo 256).
fn planes(side: usize, by_column: bool) -> Vec<u8> {
    let value = |c: usize, x: usize, y: usize| (40 * c + 2 * x + y) as u8;
    let at = |c, i: usize| if by_column { value(c, i / side, i % side) } else { value(c, i % side, i / side) };
    (0..3).flat_map(|c| (0..side * side).map(move |i| at(c, i))).collect()
}

#[test]
fn cifar() {
    let folder = FixtureFolder::new();
    let record = |labels: &[u8]| [labels, &planes(32, false)].concat();
    folder.write("cifar10/cifar-10-batches-bin/batches.meta.txt", labels(9) + "truck\n\n");
    let test = folder.write("cifar10/cifar-10-batches-bin/test_batch.bin", [record(&[9]), record(&[0])].concat());
    let source = open(&folder, "cifar10").unwrap();
    assert_eq!(rows(&*source), pairs(&[("test_batch.bin/0", "truck"), ("test_batch.bin/1", "c000")]));
    assert_eq!(pixel(&*source, 1, 5, 3), [13, 53, 93]); // 2 * 5 + 3, and 40 more for each channel
    fs::write(&test, [record(&[9]), vec![0]].concat()).unwrap();
    assert!(message(&folder, "cifar10").contains("3074 bytes; expected 0 and a multiple of 3073"));
    fs::write(&test, [record(&[9]), record(&[10])].concat()).unwrap();
    assert!(
        message(&folder, "cifar10").contains("record 1 has class number 10, counted from 0; expected less than 10")
    );

    folder.write("cifar100/cifar-100-binary/fine_label_names.txt", labels(98) + "aquarium_fish\nworm\n");
    folder.write("cifar100/cifar-100-binary/test.bin", record(&[3, 98]));
    let source = open(&folder, "cifar100").unwrap();
    assert_eq!(rows(&*source), pairs(&[("test.bin/0", "aquarium_fish")]));
    assert_eq!(class(&*source, 98).1, "aquarium fish");
    assert_eq!(pixel(&*source, 0, 5, 3), [13, 53, 93]);
}

#[test]
fn stl10() {
    let folder = FixtureFolder::new();
    let write = |name: &str, bytes: &[u8]| folder.write(&format!("stl10/stl10_binary/{name}"), bytes);
    write("class_names.txt", labels(10).as_bytes());
    let pixels = write("test_X.bin", &[planes(96, true), planes(96, true)].concat());
    write("test_y.bin", &[10, 1]);
    let source = open(&folder, "stl10").unwrap();
    assert_eq!(rows(&*source), pairs(&[("test_X.bin/0", "c009"), ("test_X.bin/1", "c000")]));
    assert_eq!(pixel(&*source, 1, 5, 3), [13, 53, 93]);
    // The file is truncated after opening: only the sample beyond its new end is broken.
    fs::write(&pixels, planes(96, true)).unwrap();
    assert!(source.get(0).is_ok());
    assert!(source.get(1).unwrap_err().to_string().contains("torn_shard"), "{:?}", source.get(1));
    assert!(message(&folder, "stl10").ends_with("2 labels; expected 1, one per photo"));
    write("test_y.bin", &[0]);
    assert!(message(&folder, "stl10").contains("has class number 4294967295"));
}

#[test]
fn mnist_compressed_or_not() {
    let folder = FixtureFolder::new();
    let header = |count: u8| [0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28];
    let mut images = header(2).to_vec();
    images.extend((0..2 * 784).map(|i| (i % 251) as u8));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&images).unwrap();
    folder.write("mnist/MNIST/raw/t10k-images-idx3-ubyte.gz", packed.finish().unwrap());
    folder.write("mnist/MNIST/raw/t10k-labels-idx1-ubyte", [0, 0, 8, 1, 0, 0, 0, 2, 7, 0]);
    let source = open(&folder, "mnist").unwrap();
    assert_eq!(rows(&*source).iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>(), ["7", "0"]);
    assert_eq!(pixel(&*source, 1, 2, 1), [61; 3]); // (784 + 28 + 2) % 251
    assert_eq!(class(&*source, 7), ("7".into(), "7".into()));
    images[7] = 3;
    folder.write("mnist/MNIST/raw/t10k-images-idx3-ubyte", &images);
    assert!(message(&folder, "mnist").contains("[2051, 3, 28, 28]; expected [2051, 2, 28, 28]"));
    images[7] = 2;
    folder.write("mnist/MNIST/raw/t10k-images-idx3-ubyte", &images);
    folder.write("mnist/MNIST/raw/t10k-labels-idx1-ubyte", [0, 0, 8, 1, 0, 0, 0, 2, 7]);
    assert!(message(&folder, "mnist").contains("9 bytes; expected 2049"));
}

#[test]
fn clevr_counts_objects() {
    let folder = FixtureFolder::new();
    let scene = |photo: &str, objects: usize| {
        let objects = vec![serde_json::json!({"shape": "cube"}); objects];
        serde_json::json!({"image_filename": photo, "objects": objects, "split": "val"})
    };
    let write = |scenes: Vec<serde_json::Value>| {
        let file = serde_json::json!({"info": {}, "scenes": scenes}).to_string();
        folder.write("clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json", file)
    };
    write(vec![scene("CLEVR_val_000000.png", 10), scene("CLEVR_val_000001.png", 3)]);
    let source = open(&folder, "clevr").unwrap();
    assert_eq!(rows(&*source), pairs(&[("CLEVR_val_000000.png", "10"), ("CLEVR_val_000001.png", "3")]));
    assert_eq!((source.classes().len(), class(&*source, 7).1), (8, "10".into()));
    write((0..5001).map(|i| scene(&format!("{i}.png"), 4)).collect());
    assert_eq!(open(&folder, "clevr").unwrap().len(), 5000);
    write(vec![scene("a.png", 2)]);
    assert!(message(&folder, "clevr").contains("photo `a.png` is of class `2`; expected one of the 8 classes"));
}

#[test]
fn captions_of_coco_and_flickr() {
    let folder = FixtureFolder::new();
    let write = |captions: serde_json::Value| {
        let images = serde_json::json!([{"id": 9, "file_name": "9.jpg"}, {"id": 2, "file_name": "2.jpg"}]);
        let file = serde_json::json!({"images": images, "annotations": captions}).to_string();
        folder.write("coco/annotations/captions_val2017.json", file)
    };
    write(serde_json::json!([
        {"id": 5, "image_id": 9, "caption": "second\n"}, {"id": 4, "image_id": 9, "caption": "first"},
        {"id": 6, "image_id": 2, "caption": "a dog"}
    ]));
    let source = open(&folder, "coco").unwrap();
    assert_eq!((source.len(), source.complete(), source.classes().len()), (2, Some(5000), 0));
    assert_eq!(
        (source.get(0).unwrap().id, source.get(1).unwrap().captions),
        ("2.jpg".into(), vec!["first".into(), "second".into()])
    );
    write(serde_json::json!([{"id": 5, "image_id": 8, "caption": "lost"}]));
    assert!(message(&folder, "coco").contains("caption 5 of photo 8; expected this photo in the list of images"));

    let photo = |name: &str, split: &str, captions: usize| {
        let sentences: Vec<_> =
            (0..captions).map(|i| serde_json::json!({"raw": format!("{name} {i} "), "tokens": []})).collect();
        serde_json::json!({"filepath": "val2014", "filename": name, "split": split, "sentences": sentences})
    };
    let file =
        serde_json::json!({"images": [photo("a.jpg", "train", 1), photo("b.jpg", "test", 6)], "dataset": "coco"});
    folder.write("coco_karpathy/dataset_coco.json", file.to_string());
    let source = open(&folder, "coco_karpathy").unwrap();
    let sample = source.get(0).unwrap();
    assert_eq!(
        (source.name(), source.len(), sample.captions.len(), &*sample.captions[4]),
        ("coco_karpathy", 1, 5, "b.jpg 4")
    );
    let ImageRef::File(path) = sample.image.unwrap() else { panic!("a file") };
    assert_eq!(path, folder.path().join("coco_karpathy/val2014/b.jpg"));

    let file = serde_json::json!({"images": [{"filename": "c.jpg", "split": "test", "sentences": [{"raw": " "}]}]});
    folder.write("flickr30k/dataset_flickr30k.json", file.to_string());
    let source = open(&folder, "flickr30k").unwrap();
    assert!(source.get(0).unwrap_err().to_string().contains("caption 0 is empty"));
    assert_eq!((source.len(), source.complete()), (1, Some(1000)));
    folder.write(
        "flickr30k/dataset_flickr30k.json",
        r#"{"images": [{"filename": "c.jpg", "split": "val", "sentences": []}]}"#,
    );
    assert!(message(&folder, "flickr30k").ends_with("expected split `test` (there are: val)"));
}
