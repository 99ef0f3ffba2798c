//! Filters of boxes, and the formats PASCAL VOC and GLIGEN.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

fn with_options(mut spec: ImportSpec, options: &[(&str, &str)]) -> ImportSpec {
    spec.options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    spec
}

/// Photo a has one box of area 0.005, one of area 0.95, and five of area 0.25: one without flags, one each with the
/// flags occluded, truncated and depiction, and one with occluded = -1 (unknown). Photo b has only an occluded box.
#[test]
fn openimages_filters() {
    let folder = FixtureFolder::new();
    folder.write("photos/a.jpg", jpeg(100, 50));
    folder.write("photos/b.jpg", jpeg(100, 50));
    let rows = [
        HEADER,
        "a,xclick,tiny,1,0.1,0.15,0.2,0.3,0,0,0,0,0",
        "a,xclick,free,1,0,0.5,0,0.5,0,0,0,0,0",
        "a,xclick,occluded,1,0,0.5,0,0.5,1,0,0,0,0",
        "a,xclick,truncated,1,0,0.5,0,0.5,0,1,0,0,0",
        "a,xclick,depiction,1,0,0.5,0,0.5,0,0,0,1,0",
        "a,xclick,unknown,1,0,0.5,0,0.5,-1,0,0,0,0",
        "a,xclick,large,1,0,0.95,0,1,0,0,0,0,0",
        "b,xclick,occluded,1,0,0.5,0,0.5,1,0,0,0,0",
    ];
    let boxes = folder.write("boxes.csv", rows.join("\n"));
    let plain = spec("openimages", &[("images", folder.path().join("photos")), ("boxes", boxes.clone())]);
    let texts = |sample: &Sample| sample.phrases.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
    let kept = |options: &[(&str, &str)]| {
        let (samples, faults) = split(&with_options(plain.clone(), options));
        assert!(faults.iter().all(|it| it.cause == Cause::Filtered), "{faults:?}");
        assert_eq!(samples.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(samples.iter().map(|it| it.phrases.len()).sum::<usize>() + faults.len(), 8);
        (texts(&samples[0]), texts(&samples[1]).len())
    };
    assert_eq!((kept(&[]).0.len(), kept(&[]).1), (7, 1));
    let paper = [("min_area", "0.01"), ("max_area", "0.9"), ("leave_out", "occluded,truncated,depiction")];
    assert_eq!(kept(&paper), (vec!["free".to_owned(), "unknown".to_owned()], 0));
    assert_eq!(kept(&[("leave_out", "truncated")]).0.len(), 6);

    let bare = folder.write("bare.csv", "ImageID,LabelName,XMin,XMax,YMin,YMax\na,cat,0,0.5,0,0.5\n");
    let inputs = [("images", folder.path().join("photos")), ("boxes", bare)];
    let text = message(&with_options(spec("openimages", &inputs), &[("leave_out", "truncated")]));
    assert!(
        text.ends_with("no column IsTruncated; expected one column IsTruncated, because leave_out names truncated"),
        "{text}"
    );
    assert_eq!(split(&with_options(spec("openimages", &inputs), &[("min_area", "0.3")])).0[0].phrases.len(), 0);
    let text = message(&with_options(plain, &[("area", "1")]));
    assert_eq!(text, "data: option `area` is unknown; expected one of: min_area, max_area, leave_out");
    let text = message(&with_options(spec("coco", &[]), &[("min_area", "1")]));
    assert_eq!(text, "data: option `min_area` is unknown; expected one of: no option of coco");
}

/// The source accepts options given as numbers and lists, and reports how many boxes it leaves out.
#[test]
fn imported_sources_take_options() {
    let folder = FixtureFolder::new();
    folder.write("photos/a.jpg", jpeg(100, 50));
    folder
        .write("boxes.csv", [HEADER, "a,x,cat,1,0,0.5,0,0.5,1,0,0,0,0", "a,x,dog,1,0,0.5,0,0.5,0,0,0,0,0"].join("\n"));
    let source = |options: &str| {
        let options = serde_json::from_str(options).unwrap();
        let path = Some(folder.path().to_owned());
        sources::open(&SourceSpec { kind: "imported".to_owned(), path, options, ..SourceSpec::default() })
    };
    let files = r#""importer": "openimages", "images": "photos", "boxes": "boxes.csv""#;
    let filtered = source(&format!(r#"{{{files}, "min_area": 0.1, "leave_out": ["occluded", "inside"]}}"#)).unwrap();
    assert_eq!(filtered.get(0).unwrap().phrases.len(), 1);
    assert_eq!(filtered.left_out().unwrap(), "without 1 boxes that the options of the importer leave out");
    let whole = source(&format!("{{{files}}}")).unwrap();
    assert_eq!((whole.get(0).unwrap().phrases.len(), whole.left_out()), (2, None));
    assert_ne!(whole.fingerprint(), filtered.fingerprint());
    let text = source(&format!(r#"{{{files}, "leave_out": true}}"#)).err().unwrap().to_string();
    assert!(text.contains("options of source imported"), "{text}");
}

/// COCO annotations: a crowd region, a box below `min_area` and a box above it.
#[test]
fn instances_filters() {
    let folder = FixtureFolder::new();
    folder.write("1.jpg", jpeg(100, 50));
    let path = folder.write(
        "a.json",
        r#"{"images": [{"id": 1, "file_name": "1.jpg", "width": 100, "height": 50}],
            "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 50, 25], "iscrowd": 1},
                            {"image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5]},
                            {"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10]}],
            "categories": [{"id": 1, "name": "cat"}]}"#,
    );
    let spec = spec("instances", &[("images", folder.path().to_owned()), ("instances", path)]);
    let count = |options: &[(&str, &str)]| split(&with_options(spec.clone(), options)).0[0].phrases.len();
    assert_eq!((count(&[]), count(&[("leave_out", "group")])), (3, 2));
    assert_eq!(count(&[("min_area", "0.01"), ("leave_out", "group")]), 1);
}

/// A photo of 100 x 50. Pixels count from 1: [11, 50] x [6, 25] is 0.1 to 0.5 of both sides; [1, 100] x [1, 50] is all.
#[test]
fn voc() {
    let folder = FixtureFolder::new();
    for photo in ["000001", "000002", "000004"] {
        folder.write(&format!("VOC2007/JPEGImages/{photo}.jpg"), jpeg(100, 50));
    }
    let object = |name: &str, flags: &str, [x1, y1, x2, y2]: [i32; 4]| {
        format!(
            "<object><name>{name}</name>{flags}<bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox>\
             <part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part></object>"
        )
    };
    let page = |objects: &str| {
        format!(
            "<annotation>\n<size><width>100</width><height>50</height><depth>3</depth></size>{objects}</annotation>\n"
        )
    };
    let objects = [
        object("dog", "<truncated>0</truncated><difficult>0</difficult>", [11, 6, 50, 25]),
        object("person", "<truncated>1</truncated><difficult>0</difficult>", [1, 1, 100, 50]),
        object("cat", "<difficult>1</difficult>", [11, 6, 50, 25]),
        object("cat", "", [60, 6, 50, 25]),
    ];
    folder.write("VOC2007/Annotations/000001.xml", page(&objects.concat()));
    folder.write("VOC2007/Annotations/000002.xml", page(&object("dog", "<difficult>2</difficult>", [1, 1, 9, 9])));
    folder.write("VOC2007/Annotations/000003.xml", page(""));
    folder.write("VOC2007/Annotations/000004.xml", "<annotation><size></annotation>");
    let list = folder.write("VOC2007/ImageSets/Main/test.txt", "000001\n000002  1\n000004 -1\n");
    let at = |name: &str| folder.path().join("VOC2007").join(name);
    let inputs = [("images", at("JPEGImages")), ("annotations", at("Annotations")), ("list", list.clone())];
    let (samples, faults) = split(&spec("voc", &inputs));
    let [one] = &samples[..] else { panic!("one usable photo in {samples:?}") };
    let found: Vec<_> = one.phrases.iter().map(|it| (it.text.as_str(), it.boxes[0])).collect();
    let part = BBox { x1: 0.1, y1: 0.1, x2: 0.5, y2: 0.5 };
    let whole = BBox { x1: 0.0, y1: 0.0, x2: 1.0, y2: 1.0 };
    assert_eq!(found, [("dog", part), ("person", whole), ("cat", part)]);
    let faults: Vec<_> = faults.iter().map(|it| (it.sample.as_str(), it.cause, it.detail.as_str())).collect();
    assert_eq!((faults[0].0, faults[0].1, faults.len()), ("000001", Cause::BadBox, 3));
    assert!(faults[1].2.contains("<difficult> is \"2\", neither 0 nor 1; expected a VOC annotation"), "{faults:?}");
    assert!(faults[2].2.contains("`</annotation>`, expected `</size>`, at byte 18"), "{faults:?}");

    let filtered = split(&with_options(spec("voc", &inputs), &[("leave_out", "difficult,truncated")])).0;
    assert_eq!(filtered[0].phrases.len(), 1);
    // Without a list, every annotated photo is a sample; photo 3 is missing.
    let (_, faults) = split(&spec("voc", &inputs[..2]));
    assert!(faults.iter().any(|it| (it.sample.as_str(), it.cause) == ("000003", Cause::MissingFile)), "{faults:?}");
    folder.write("VOC2007/ImageSets/Main/test.txt", "../000001\n");
    assert!(message(&spec("voc", &inputs)).ends_with("`../000001`; expected names of photos without a folder"));
    folder.write("VOC2007/ImageSets/Main/test.txt", "\n");
    assert!(message(&spec("voc", &inputs)).contains("photos, one per line"));
}

/// Caption "Two men and a hat": "Two men" is [0, 7], "a hat" [12, 17]. Boxes are left, top, width, height in 100 x 50.
#[test]
fn gligen() {
    let folder = FixtureFolder::new();
    let image = STANDARD.encode(jpeg(100, 50));
    let record = |id: &str, annos: &str| {
        format!(
            "{id}\t{{\"file_name\": \"x\", \"image\": \"{image}\", \"caption\": \"Two men and a hat\", \"annos\": {annos}}}\n"
        )
    };
    let annos = r#"[{"bbox": [10, 5, 40, 20], "tokens_positive": [[0, 7]], "area": 800},
        {"bbox": [50, 25, 50, 25], "tokens_positive": [[0, 7]]},
        {"bbox": [10, 5, 40, 20], "tokens_positive": [[0, 3], [12, 17]]},
        {"bbox": [10, 5, 40, 20], "tokens_positive": [[12, 30]]},
        {"bbox": [10, 5, 40, 20], "tokens_positive": []},
        {"bbox": [10, 5, 400, 20], "tokens_positive": [[12, 17]]}]"#
        .replace('\n', " ");
    let first = record("7", &annos) + "\n8 no tab\n" + &record("9", "[]").replace(&image, "/9j/****");
    folder.write("tsv/train-0000.tsv", first);
    folder.write("tsv/train-0001.tsv", record("10", "[]"));
    folder.write("tsv/readme.md", "not a table");
    let (samples, faults) = split(&spec("gligen", &[("records", folder.path().join("tsv"))]));
    assert_eq!(samples.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["7", "10"]);
    assert_eq!(samples[0].captions, ["Two men and a hat"]);
    let [men, both] = &samples[0].phrases[..] else { panic!("two phrases in {:?}", samples[0].phrases) };
    let left = BBox { x1: 0.1, y1: 0.1, x2: 0.5, y2: 0.5 };
    assert_eq!((men.text.as_str(), both.text.as_str()), ("Two men", "Two a hat"));
    assert_eq!(men.boxes, [left, BBox { x1: 0.5, y1: 0.5, x2: 1.0, y2: 1.0 }]);
    assert_eq!(men.spans, [Span { caption: 0, start: 0, end: 7 }]);
    assert_eq!((both.spans.len(), both.boxes.len()), (2, 1));
    assert!(samples[0].image.as_ref().unwrap().open(&PixelLimits::default()).is_ok());
    let causes: Vec<_> = faults.iter().map(|it| it.cause).collect();
    let record = Cause::BadRecord;
    assert_eq!(causes, [Cause::BadSpan, Cause::BadSpan, Cause::BadBox, record, record], "{faults:?}");
    assert!(faults[3].sample.starts_with("line 3 of `") && faults[3].detail.starts_with("no tab; expected an id"));
    assert!(faults[4].detail.starts_with("image: "), "{}", faults[4]);

    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(message(&spec("gligen", &[("records", empty)])).contains(".tsv files"));
}
