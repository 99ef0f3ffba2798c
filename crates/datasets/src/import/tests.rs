#![allow(clippy::unwrap_used)]
use conifer_data::export::CropSettings;
use conifer_data::fixtures::{FixtureFolder, jpeg, shared_data};
use conifer_data::shard::ShardSize;
use conifer_data::{BBox, Cause, SourceSpec, Span};

use super::*;
use crate::sources;

mod boxes;
mod truncated;

fn spec(kind: &str, inputs: &[(&str, PathBuf)]) -> ImportSpec {
    ImportSpec {
        kind: kind.to_owned(),
        inputs: inputs.iter().map(|(name, path)| ((*name).to_owned(), path.clone())).collect(),
        ..ImportSpec::default()
    }
}

fn split(spec: &ImportSpec) -> (Vec<Sample>, Vec<Broken>) {
    let (mut samples, mut faults) = (Vec::new(), Vec::new());
    for one in read(spec).unwrap() {
        match one {
            Ok(sample) => samples.push(sample),
            Err(broken) => faults.push(broken),
        }
    }
    (samples, faults)
}

fn message(spec: &ImportSpec) -> String {
    read(spec).err().unwrap().to_string()
}

#[test]
fn invalid_requests_are_rejected() {
    let names: Vec<_> = IMPORTERS.iter().map(|entry| entry.name).collect();
    assert_eq!(
        message(&spec("yolo", &[])),
        format!("data: importer `yolo` is unknown; expected one of: {}", names.join(", "))
    );
    let folder = FixtureFolder::new();
    let here = folder.path().to_owned();
    assert_eq!(
        message(&spec("coco", &[("image", here.clone())])),
        "data: input `image` is unknown; expected one of: images, instances, captions"
    );
    assert_eq!(
        message(&spec("coco", &[])),
        "data: `input images of coco` is not given; expected the folder of the photos"
    );
    assert_eq!(
        message(&spec("coco", &[("images", here.clone())])),
        "data: `inputs of coco` is images alone; expected instances, captions, or both"
    );
    let missing = spec("coco", &[("images", here), ("captions", "no/such.json".into())]);
    assert!(message(&missing).starts_with("data: cannot read `no/such.json`: "));
}

#[test]
fn every_importer_documents_its_inputs() {
    for entry in IMPORTERS {
        assert!(entry.inputs.iter().any(|input| input.required), "{}", entry.name);
        let inputs = (entry.inputs.iter()).map(|input| (input.name, PathBuf::from("no/such/file"))).collect::<Vec<_>>();
        assert!(message(&spec(entry.name, &inputs)).contains("no/such/file"), "{}", entry.name);
    }
}

/// Two photos of 100 x 50. Boxes [x, y, width, height]: one exceeds the border, one has width 0, one is a crowd, one
/// has an unknown class. The captions are out of order.
#[test]
fn coco() {
    let folder = FixtureFolder::new();
    folder.write("photos/1.jpg", jpeg(100, 50));
    let instances = folder.write(
        "instances.json",
        r#"{"info": {}, "images": [{"id": 1, "file_name": "1.jpg", "width": 100, "height": 50},
                                   {"id": 2, "file_name": "2.jpg", "width": 100, "height": 50}],
            "annotations": [
              {"image_id": 1, "category_id": 18, "bbox": [10, 5, 40, 20], "iscrowd": 0, "segmentation": [[1, 2]]},
              {"image_id": 1, "category_id": 18, "bbox": [50, 25, 50.4, 25], "iscrowd": 0},
              {"image_id": 1, "category_id": 18, "bbox": [5, 5, 0, 9], "iscrowd": 0},
              {"image_id": 1, "category_id": 18, "bbox": [0, 0, 9, 9], "iscrowd": 1},
              {"image_id": 1, "category_id": 99, "bbox": [0, 0, 9, 9], "iscrowd": 0},
              {"image_id": 7, "category_id": 18, "bbox": [0, 0, 9, 9], "iscrowd": 0}],
            "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}]}"#,
    );
    let captions = folder.write(
        "captions.json",
        r#"{"images": [{"id": 1, "file_name": "1.jpg", "width": 100, "height": 50}],
            "annotations": [{"id": 6, "image_id": 1, "caption": "second "}, {"id": 5, "image_id": 1, "caption": "A Dog runs."}]}"#,
    );
    let mut spec =
        spec("coco", &[("images", folder.path().join("photos")), ("instances", instances), ("captions", captions)]);
    spec.split = Some("val".to_owned());
    let (samples, faults) = split(&spec);
    let [one] = &samples[..] else { panic!("one photo is there") };
    assert_eq!((&*one.id, one.split.as_deref()), ("1", Some("val")));
    assert_eq!(one.captions, ["A Dog runs.", "second"]);
    let [dog] = &one.phrases[..] else { panic!("one class") };
    assert_eq!(dog.boxes, [BBox { x1: 0.1, y1: 0.1, x2: 0.5, y2: 0.5 }, BBox { x1: 0.5, y1: 0.5, x2: 1.0, y2: 1.0 }]);
    assert_eq!(dog.spans, [Span { caption: 0, start: 2, end: 5 }]);
    let mut causes: Vec<_> = faults.iter().map(|f| (f.sample.as_str(), f.cause)).collect();
    causes.sort();
    assert_eq!(
        causes,
        [("1", Cause::BadBox), ("1", Cause::BadRecord), ("2", Cause::MissingFile), ("7", Cause::BadRecord)]
    );
    let bad = faults.iter().find(|f| f.cause == Cause::BadBox).unwrap();
    assert!(
        bad.detail.starts_with("skipped for phrase \"dog\": box is [0.05, 0.1, 0.05, 0.28]; expected 0 <= x1"),
        "{bad}"
    );
}

#[test]
fn malformed_coco_files() {
    let folder = FixtureFolder::new();
    let path = folder.write("a.json", r#"{"images": []}"#);
    let text = message(&spec("coco", &[("images", folder.path().to_owned()), ("instances", path)]));
    assert!(text.contains("missing field `annotations`"), "{text}");
    assert!(text.ends_with("; expected images, annotations with bbox, categories"), "{text}");
}

const XML: &str = "<annotation>\n<filename>7.jpg</filename>\n<size><width>100</width><height>50</height><depth>3</depth></size>
    <object>\n<name>11</name>\n<name>12</name>\n<bndbox>\n<xmin>10</xmin><ymin>5</ymin><xmax>50</xmax><ymax>25</ymax></bndbox></object>
    <object><name>11</name><bndbox><xmin>60</xmin><ymin>5</ymin><xmax>90</xmax><ymax>25</ymax></bndbox></object>
    <object><name>13</name><scene>1</scene><nobndbox>1</nobndbox></object></annotation>";

#[test]
fn flickr_entities() {
    let folder = FixtureFolder::new();
    folder.write("images/7.jpg", jpeg(100, 50));
    folder.write(
        "Sentences/7.txt",
        "[/EN#11/people/other Zwei Männer] with [/EN#12/other a hat] near [/EN#13/scene a field] .\n\
         [/EN#11/people Zwei Männer] look at [/EN#0/notvisual each other] .\n",
    );
    folder.write("Sentences/8.txt", "a lost one\n");
    folder.write("Annotations/7.xml", XML);
    let test = folder.write("test.txt", "7\n");
    let at = |name: &str| folder.path().join(name);
    let mut inputs = vec![("sentences", at("Sentences")), ("images", at("images")), ("test", test)];
    let plain = spec("flickr_entities", &inputs);
    inputs.push(("annotations", at("Annotations")));
    let (samples, faults) = split(&spec("flickr_entities", &inputs));
    let [seven] = &samples[..] else { panic!("one photo is there") };
    assert_eq!(seven.captions, ["Zwei Männer with a hat near a field .", "Zwei Männer look at each other ."]);
    assert_eq!(seven.split.as_deref(), Some("test"));
    let [men, hat, field] = &seven.phrases[..] else { panic!("three phrases") };
    assert_eq!((&*men.text, &*hat.text, &*field.text), ("Zwei Männer", "a hat", "a field"));
    let left = BBox { x1: 0.1, y1: 0.1, x2: 0.5, y2: 0.5 };
    assert_eq!((&men.boxes[..], &hat.boxes[..]), (&[left, BBox { x1: 0.6, x2: 0.9, ..left }][..], &[left][..]));
    assert_eq!(men.spans, [Span { caption: 0, start: 0, end: 11 }, Span { caption: 1, start: 0, end: 11 }]);
    assert!(field.boxes.is_empty());
    for phrase in &seven.phrases {
        assert_eq!(phrase.spans[0].text(&seven.captions), Some(&*phrase.text));
    }
    assert_eq!(faults.iter().map(|f| (&*f.sample, f.cause)).collect::<Vec<_>>(), [("8", Cause::MissingFile)]);

    let (samples, _) = split(&plain);
    assert!(samples[0].phrases.iter().all(|phrase| phrase.boxes.is_empty()));
}

#[test]
fn flickr_entities_with_faults() {
    let folder = FixtureFolder::new();
    for id in [1, 2, 3] {
        folder.write(&format!("i/{id}.jpg"), jpeg(8, 8));
    }
    folder.write("s/1.txt", "a [/EN#5/people man in\n");
    folder.write("s/2.txt", "a [/EN#5/people] man\n");
    folder.write("s/3.txt", "a man\n");
    folder.write("a/3.xml", "<annotation><size><width>8</width><height>x</height></size></annotation>");
    folder.write("a/1.xml", XML);
    folder.write("a/2.xml", XML);
    let at = |name: &str| folder.path().join(name);
    let inputs = [("sentences", at("s")), ("images", at("i")), ("annotations", at("a"))];
    let (samples, faults) = split(&spec("flickr_entities", &inputs));
    assert!(samples.is_empty());
    let details: Vec<_> = faults.iter().map(|f| f.detail.as_str()).collect();
    assert_eq!(
        details[..2],
        [
            "caption 0: \"[/EN#5/people man in\" has no end; expected [/EN#<chain>/<type> phrase]",
            "caption 0: \"[/EN#5/people]\"; expected [/EN#<chain>/<type> phrase]"
        ]
    );
    assert!(details[2].ends_with("3.xml`: <height> is \"x\"; expected an annotation of boxes"), "{}", details[2]);
}

#[test]
fn flickr_tables() {
    let folder = FixtureFolder::new();
    folder.write("i/a.jpg", jpeg(100, 50));
    folder.write("i/b.jpg", jpeg(50, 50));
    let write = |name: &str, text: &str| folder.write(name, text);
    let inputs = [
        ("images", folder.path().join("i")),
        (
            "captions",
            write("c.csv", "image,caption\na.jpg,A child \na.jpg,\"A girl, the child\"\nb.jpg,A dog\nc.jpg,Lost\n"),
        ),
        (
            "phrases",
            write(
                "p.tsv",
                "image\tphrase\txmin\tymin\txmax\tymax\na.jpg\tthe child\t10\t5\t50\t25\na.jpg\tthe child\t50\t5\t100\t25\n\
                 b.jpg\ta \"dog\t10\t10\t20\t20\nb.jpg\tout\t10\t10\t90\t20\nb.jpg\tno number\tx\t10\t90\t20\n",
            ),
        ),
        ("sizes", write("s.tsv", "image\twidth\theight\thow\na.jpg\t200\t100\texact\n")),
        ("train", write("train.txt", "b.jpg\n")),
    ];
    let (samples, faults) = split(&spec("flickr_tables", &inputs));
    let [a, b] = &samples[..] else { panic!("two photos are there") };
    // The size of photo `a` comes from the table, and the size of photo `b` comes from its file.
    assert_eq!(a.phrases[0].boxes[0], BBox { x1: 0.05, y1: 0.05, x2: 0.25, y2: 0.25 });
    assert_eq!(a.phrases[0].boxes.len(), 2);
    assert_eq!(a.phrases[0].spans, [Span { caption: 1, start: 8, end: 17 }]);
    assert_eq!((&*b.phrases[0].text, b.phrases[0].boxes[0].x1), ("a \"dog", 0.2));
    assert_eq!((a.split.as_deref(), b.split.as_deref()), (None, Some("train")));
    let causes: Vec<_> = faults.iter().map(|f| f.cause).collect();
    assert_eq!(causes, [Cause::BadRecord, Cause::BadBox, Cause::MissingFile]);
}

#[test]
fn flickr_joined() {
    let folder = FixtureFolder::new();
    folder.write("i/a.jpg", jpeg(8, 8));
    let records = folder.write(
        "a.jsonl",
        "{\"file\": \"i/a.jpg\", \"width\": 100, \"height\": 50, \"size_from\": \"exact\", \"split\": \"dev\", \"captions\": [\"A child\"],\
         \"phrases\": [{\"phrase\": \"A child\", \"boxes\": [[10, 5, 50, 25], [0, 0, 120, 9]], \"captions\": [[0, 0, 7]]}]}\n\
         {\"file\": \"i/b.jpg\"}\n",
    );
    let (samples, faults) = split(&spec("flickr_joined", &[("records", records.clone())]));
    let [a] = &samples[..] else { panic!("one photo") };
    assert_eq!((&*a.id, a.split.as_deref()), ("a", Some("dev")));
    assert_eq!(a.phrases[0].boxes, [BBox { x1: 0.1, y1: 0.1, x2: 0.5, y2: 0.5 }]);
    assert_eq!(a.phrases[0].spans[0].text(&a.captions), Some("A child"));
    assert_eq!(faults.iter().map(|f| f.cause).collect::<Vec<_>>(), [Cause::BadBox, Cause::BadRecord]);
    assert!(
        faults[1].sample.starts_with("line 2 of `") && faults[1].detail.starts_with("missing field `width` at column")
    );
}

#[test]
fn hierarcaps() {
    let folder = FixtureFolder::new();
    folder.write("i/x.jpg", jpeg(8, 8));
    let test = folder.write(
        "t.csv",
        "id,captions,image_url\n4,animal => dog => a black dog,http://c/x.jpg\n5,food,http://c/y.jpg\n6,dog,http://c/COCO_val2014_x.jpg\n",
    );
    let (samples, faults) = split(&spec("hierarcaps", &[("table", test.clone()), ("images", folder.path().join("i"))]));
    let [dog, later] = &samples[..] else { panic!("one photo is there, under two names") };
    assert_eq!((&*later.id, &later.image), ("6", &dog.image));
    assert_eq!((&*dog.id, &dog.captions[..]), ("4", &["a black dog".to_owned()][..]));
    assert_eq!(dog.tiers.as_ref().unwrap().positive, ["animal", "dog", "a black dog"]);
    assert_eq!(faults[0].cause, Cause::MissingFile);

    let expanded = "positive,negative,image_url\na => b,c => d,http://c/x.jpg\ne => f,g => h,http://c/z.jpg\ni => j,k,http://c/w.jpg\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, expanded.as_bytes()).unwrap();
    let expanded = folder.write("e.csv.gz", packed.finish().unwrap());
    // The samples have texts only, and the photos of the test table are excluded.
    let (samples, faults) = split(&spec("hierarcaps", &[("table", expanded), ("exclude", test)]));
    let [e] = &samples[..] else { panic!("one is left") };
    let tiers = e.tiers.as_ref().unwrap();
    assert_eq!((&*e.id, &tiers.positive[1], &tiers.negative[1]), ("1", &"f".to_owned(), &"h".to_owned()));
    assert_eq!(e.image, None);
    assert_eq!(faults[0].detail, "1 negative tiers; expected 2, one per positive tier");
}

/// A photo of 480 x 640 in 256 x 256: scale 0.4, 32 pixels of padding left and right. x = 80 -> (80 * 0.4 + 32) / 256 =
/// 0.25; y = 320 -> 0.5.
#[test]
fn hierarcaps_joined() {
    let folder = FixtureFolder::new();
    folder.write("images/a.jpg", jpeg(256, 256));
    let records = folder.write(
        "a.jsonl",
        "{\"id\": 3, \"file\": \"images/a.jpg\", \"width\": 480, \"height\": 640, \"letterbox\": {\"scale\": 0.4, \"pad_x\": 32, \"pad_y\": 0},\
         \"tiers\": [\"table\", \"a table\"], \"captions\": [\"The cup\"], \"boxes\": [[\"cup\", 80, 0, 400, 320], [\"cup\", 0, 0, 480, 640]]}\n",
    );
    let (samples, faults) = split(&spec("hierarcaps_joined", &[("records", records)]));
    assert!(faults.is_empty());
    let [cup] = &samples[0].phrases[..] else { panic!("one class") };
    assert_eq!(
        cup.boxes,
        [BBox { x1: 0.25, y1: 0.0, x2: 0.75, y2: 0.5 }, BBox { x1: 0.125, y1: 0.0, x2: 0.875, y2: 1.0 }]
    );
    assert_eq!(cup.spans, [Span { caption: 0, start: 4, end: 7 }]);
    assert_eq!((samples[0].tiers.as_ref().unwrap().positive.len(), &*samples[0].id), (2, "3"));
}

/// Imports real files to grounded JSONL and reads the result. Returns (samples, phrases, boxes, phrases with spans,
/// faults), or `None` if an input file is missing.
fn round(kind: &str, inputs: &[(&str, &str)]) -> Option<[usize; 5]> {
    let inputs = inputs.iter().map(|(name, path)| Some((*name, shared_data(path)?))).collect::<Option<Vec<_>>>()?;
    let folder = FixtureFolder::new();
    let path = folder.path().join("a.jsonl");
    let report =
        import(&spec(kind, &inputs), &ExportTarget::Grounded { path: path.clone() }, &PixelLimits::default()).unwrap();
    eprintln!("{kind}: {report}");
    let source =
        sources::open(&SourceSpec { kind: "jsonl".to_owned(), path: Some(path), ..SourceSpec::default() }).unwrap();
    let samples: Vec<_> = export::samples(&*source).map(|sample| sample.unwrap()).collect();
    assert_eq!(samples.len() as u64, report.written);
    let phrases = || samples.iter().flat_map(|sample| &sample.phrases);
    Some([
        samples.len(),
        phrases().count(),
        phrases().map(|phrase| phrase.boxes.len()).sum(),
        phrases().filter(|phrase| !phrase.spans.is_empty()).count(),
        report.skipped.values().sum::<u64>() as usize,
    ])
}

/// Counts from the README of the data: 2,302 photos, 7,950 phrases, 11,147 boxes, 7,853 phrases that occur in a
/// caption.
#[test]
fn real_flickr_joined() {
    if let Some(counts) = round("flickr_joined", &[("records", "flickr8k_grounded/joined_grounded.jsonl")]) {
        assert_eq!(counts, [2302, 7950, 11147, 7853, 0]);
    }
}

/// The data has 1,000 photos and 7,831 boxes.
#[test]
fn real_hierarcaps_joined() {
    if let Some([samples, _, boxes, ..]) =
        round("hierarcaps_joined", &[("records", "hierarcaps/joined_coco_val2017.jsonl")])
    {
        assert_eq!((samples, boxes), (1000, 7831));
    }
}

/// The expanded table has 23,479 rows, of which 18,770 refer to photos outside the test set.
#[test]
fn real_hierarcaps_tables() {
    let test = "hierarcaps/hierarcaps_test.csv";
    let expanded = "hierarcaps/hierarcaps_test_expanded.csv.gz";
    if let Some([samples, ..]) = round("hierarcaps", &[("table", test), ("images", "hierarcaps/images")]) {
        assert_eq!(samples, 1000);
    }
    if let Some([samples, .., faults]) = round("hierarcaps", &[("table", expanded), ("exclude", test)]) {
        assert_eq!(samples + faults, 18770);
    }
}

/// 80 training photos with 739 boxes, 8 of them crowds. The phrase count is the number of distinct (image_id,
/// category_id) pairs without crowds. The span count is the number of these pairs whose category name occurs in a
/// caption. Both were computed with a short Python script. The test also exports to box shards and reads them.
#[test]
fn real_coco() {
    let inputs = [
        ("images", "coco_mini/train2017"),
        ("instances", "coco_mini/annotations/instances_train2017.json"),
        ("captions", "coco_mini/annotations/captions_train2017.json"),
    ];
    let Some(counts) = round("coco", &inputs) else { return };
    assert_eq!(counts, [80, 302, 731, 105, 0]);
    let folder = FixtureFolder::new();
    let target = ExportTarget::Boxes {
        folder: folder.path().to_owned(),
        size: ShardSize::default(),
        cut: CropSettings::default(),
    };
    let inputs = inputs.map(|(name, file)| (name, shared_data(file).unwrap()));
    let report = import(&spec("coco", &inputs), &target, &PixelLimits::default()).unwrap();
    let source =
        SourceSpec { kind: "grit_processed".to_owned(), path: Some(folder.path().into()), ..SourceSpec::default() };
    let source = sources::open(&source).unwrap();
    assert_eq!(source.len() as u64, report.written);
    assert!((0..source.len()).all(|index| source.get(index).is_ok()));
}

/// 8 photos with five captions each.
#[test]
fn real_flickr_entities() {
    let inputs =
        [("sentences", "flickr30k_entities_samples/data_samples.md"), ("images", "flickr30k_entities_samples")];
    if let Some([samples, .., faults]) = round("flickr_entities", &inputs) {
        assert_eq!((samples, faults), (8, 0));
    }
}

/// The folder has 1,000 photos; the other 7,091 photos of the table are missing.
#[test]
fn real_flickr_tables() {
    let at = |name: &str| format!("flickr8k_grounded/{name}");
    let files =
        ["captions.csv", "images_1000", "phrase_boxes.tsv", "image_sizes.tsv", "Flickr_8k.testImages.txt"].map(at);
    let names = ["captions", "images", "phrases", "sizes", "test"];
    let inputs: Vec<_> = names.into_iter().zip(files.iter().map(String::as_str)).collect();
    if let Some([samples, ..]) = round("flickr_tables", &inputs) {
        assert_eq!(samples, 1000);
    }
}

const HEADER: &str =
    "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside";

/// Covers a label without a name, broken rows with line numbers, a missing photo, and a photo with non-adjacent rows.
/// Every box is one phrase.
#[test]
fn openimages() {
    let folder = FixtureFolder::new();
    for photo in ["a", "b", "c"] {
        folder.write(&format!("photos/{photo}.jpg"), jpeg(100, 50));
    }
    let rows = [
        HEADER,
        "a,xclick,/m/011k07,1,0.1,0.5,0.2,0.6,0,0,0,0,0",
        "a,xclick,/m/0none,1,0,1,0,1,0,0,1,0,0",
        "a,xclick,/m/011k07,1,0.1,nan,0.2,0.6,0,0,0,0,0",
        "a,xclick,/m/011k07,1,0.1,wide,0.2,0.6,0,0,0,0,0",
        "a,xclick,/m/011k07",
        "gone,xclick,/m/011k07,1,0.1,0.5,0.2,0.6,0,0,0,0,0",
        "b,xclick,\"/m/012074\",1,0.1,0.5,0.2,0.6,0,0,-1,0,0",
        "a,xclick,/m/011k07,1,0.1,0.5,0.2,0.6,0,0,0,0,0",
        "c,xclick,/m/011k07,1,0.1,0.5,0.2,0.6,0,0,0,0,0",
    ];
    let boxes = folder.write("boxes.csv", rows.join("\n"));
    let names = folder.write("names.csv", "/m/011k07,Tortoise\n/m/012074,\"Magpie, black\"\n");
    let inputs = [("images", folder.path().join("photos")), ("boxes", boxes.clone()), ("names", names)];
    let (samples, faults) = split(&spec("openimages", &inputs));
    let ids: Vec<_> = samples.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let [tortoise, unknown] = &samples[0].phrases[..] else { panic!("two boxes") };
    assert_eq!(tortoise.boxes, [BBox { x1: 0.1, y1: 0.2, x2: 0.5, y2: 0.6 }]);
    assert_eq!((&*tortoise.text, tortoise.group_of), ("Tortoise", false));
    assert_eq!((&*unknown.text, unknown.group_of), ("/m/0none", true));
    assert_eq!((&*samples[1].phrases[0].text, samples[1].phrases[0].group_of), ("Magpie, black", false));
    let found: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let line = |number: u32, rest: &str| format!("sample `line {number} of `{}``: {rest}", boxes.display());
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(found[0].starts_with(&line(4, "bad_box: box is [0.1, 0.2, NaN, 0.6]; expected 0 <= x1")), "{}", found[0]);
    assert_eq!(found[1], line(5, "bad_record: XMax is `wide`; expected a number"));
    assert_eq!(found[2], line(6, "bad_record: 3 fields; expected 13"));
    assert!(found[3].starts_with("sample `gone`: missing_file: "), "{}", found[3]);
    assert!(
        found[4].starts_with(&line(9, "bad_record: a box of photo `a`, whose earlier rows are elsewhere in the file")),
        "{}",
        found[4]
    );
}

#[test]
fn malformed_openimages_files() {
    let folder = FixtureFolder::new();
    let photos = folder.path().to_owned();
    let read = |header: &str, names: &str| {
        let boxes = folder.write("boxes.csv", header);
        let names = folder.write("names.csv", names);
        message(&spec("openimages", &[("images", photos.clone()), ("boxes", boxes), ("names", names)]))
    };
    let text = read("ImageID,LabelName,XMin,XMax,YMin", "");
    assert!(
        text.ends_with("no column YMax; expected one column YMax (there are: ImageID, LabelName, XMin, XMax, YMin)"),
        "{text}"
    );
    assert!(read("ImageID,LabelName,XMin,XMax,YMin,YMax,XMin", "").contains("column XMin twice"));
    let text = read(HEADER, "/m/1,Dog\n/m/2\n");
    assert!(text.contains("row 2 of ") && text.ends_with("1 fields; expected a label and its display name"), "{text}");
}

/// Each box becomes one phrase and a crowd becomes a group box. The photo is found by `file_name` or by the last part of
/// `coco_url`.
#[test]
fn instances() {
    let folder = FixtureFolder::new();
    folder.write("photos/000001.jpg", jpeg(100, 50));
    let path = folder.write(
        "lvis.json",
        r#"{"images": [{"id": 1, "file_name": "COCO_val2014_000001.jpg", "coco_url": "http://x/val2017/000001.jpg", "width": 100, "height": 50},
                       {"id": 2, "coco_url": "http://x/val2017/000002.jpg", "width": 100, "height": 50},
                       {"id": 3, "width": 100, "height": 50}],
            "annotations": [{"id": 5, "image_id": 1, "category_id": 18, "bbox": [10, 5, 40, 20]},
                            {"id": 6, "image_id": 1, "category_id": 18, "bbox": [50, 25, 50.4, 25], "iscrowd": 1},
                            {"id": 7, "image_id": 1, "category_id": 18, "bbox": [50, 25, -3, 25]},
                            {"id": 8, "image_id": 1, "category_id": 19, "bbox": [50, 25, 3, 25]},
                            {"id": 9, "image_id": 1, "category_id": 18, "bbox": [50, 25, 3]},
                            {"id": 10, "image_id": 4, "category_id": 18, "bbox": [50, 25, 3, 3]}],
            "categories": [{"id": 18, "name": "fire_engine", "synset": "fire_engine.n.01"}]}"#,
    );
    let (samples, faults) = split(&spec("instances", &[("images", folder.path().join("photos")), ("instances", path)]));
    let [one] = &samples[..] else { panic!("one photo is there") };
    let phrases: Vec<_> = one.phrases.iter().map(|it| (it.text.as_str(), it.group_of, it.boxes.len())).collect();
    assert_eq!(phrases, [("fire engine", false, 1), ("fire engine", true, 1)]);
    assert_eq!(one.phrases[1].boxes, [BBox { x1: 0.5, y1: 0.5, x2: 1.0, y2: 1.0 }]);
    let causes: Vec<_> = faults.iter().map(|it| (it.sample.as_str(), it.cause)).collect();
    let expected = [
        ("1", Cause::BadBox),
        ("1", Cause::BadRecord),
        ("1", Cause::BadBox),
        ("4", Cause::BadRecord),
        ("2", Cause::MissingFile),
        ("3", Cause::NoImage),
    ];
    assert_eq!(causes, expected);
    assert!(faults[0].detail.starts_with("annotation 7 of `"), "{}", faults[0]);
    assert!(faults[0].detail.contains("`fire engine`: box is [0.5, 0.5, 0.47, 1]; expected 0 <= x1"), "{}", faults[0]);
}

#[test]
fn instances_as_published() {
    let (Some(photos), Some(val)) =
        (shared_data("coco_mini/val2017"), shared_data("coco_mini/annotations/instances_val2017.json"))
    else {
        return;
    };
    let (samples, faults) = split(&spec("instances", &[("images", photos), ("instances", val)]));
    assert_eq!((samples.len(), faults.len()), (79, 0));
    assert_eq!(samples.iter().map(|it| it.phrases.len()).sum::<usize>(), 624);
}

#[test]
fn published_openimages_names() {
    let Some(path) = shared_data("openimages/class-descriptions-boxable.csv") else { return };
    let names = openimages::read_names(&path).unwrap();
    assert_eq!((names.len(), names["/m/011k07"].as_str()), (601, "Tortoise"));
}
