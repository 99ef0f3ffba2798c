#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::Path;

use super::*;
use crate::fixtures::{FixtureFolder, halves, jpeg};
use crate::sample::{BBox, ImageRef, Phrase, Span};
use crate::source::SourceSpec;
use crate::sources;

fn open(kind: &str, path: impl Into<PathBuf>) -> Box<dyn Source> {
    sources::open(&SourceSpec { kind: kind.to_owned(), path: Some(path.into()), ..SourceSpec::default() }).unwrap()
}

fn boxed(text: &str, [x1, y1, x2, y2]: [f32; 4]) -> Phrase {
    Phrase { text: text.to_owned(), boxes: vec![BBox { x1, y1, x2, y2 }], ..Phrase::default() }
}

fn sample(id: &str, image: ImageRef) -> Sample {
    let mut left = boxed("left half", [0.0, 0.0, 0.5, 1.0]);
    left.spans.push(Span { caption: 0, start: 2, end: 11 });
    Sample {
        id: id.to_owned(),
        image: Some(image),
        captions: vec!["a left half".to_owned(), "another".to_owned()],
        phrases: vec![left, boxed("dot", [0.0, 0.0, 0.01, 0.01])],
        split: Some("train".to_owned()),
        ..Sample::default()
    }
}

fn write(samples: Vec<Sample>, target: &ExportTarget) -> ExportReport {
    super::write(samples.into_iter().map(Ok), &[], target, &PixelLimits::default()).unwrap()
}

#[test]
fn grounded_jsonl_round_trips() {
    let folder = FixtureFolder::new();
    let photo = folder.write("elsewhere/1.jpg", jpeg(100, 80));
    let originals = vec![
        sample("file", ImageRef::File(photo)),
        sample("pixels", ImageRef::Pixels(Arc::new(halves(100, 80)))),
        sample("encoded", ImageRef::Encoded(jpeg(100, 80).into())),
    ];
    let path = folder.path().join("out/a.jsonl");
    let target = ExportTarget::Grounded { path: path.clone() };
    let roots = [folder.path().join("elsewhere"), folder.path().to_owned()];
    let report = super::write(originals.clone().into_iter().map(Ok), &roots, &target, &PixelLimits::default()).unwrap();
    assert_eq!((report.written, report.skipped.len(), &report.files[..]), (3, 0, &[path.clone()][..]));

    let text = fs::read_to_string(&path).unwrap();
    // A record may not name files outside of its folder, so a link is created in it.
    assert!(text.starts_with("{\"id\":\"file\",\"image\":\"a_root1/1.jpg\",\"captions\""), "{text}");
    assert_eq!(fs::read_link(folder.path().join("out/a_root1")).unwrap(), Path::new("../elsewhere"));
    assert!(text.contains("\"image\":\"a_photos/"), "{text}");
    let limits = PixelLimits::default();
    for (read, original) in samples(&*open("jsonl", &path)).zip(originals) {
        let read = read.unwrap();
        // The photo has the same pixels; everything else is equal.
        let pixels = |sample: &Sample| sample.image.as_ref().unwrap().open(&limits).unwrap();
        assert_eq!(pixels(&read), pixels(&original), "{}", read.id);
        assert_eq!(Sample { image: None, ..read }, Sample { image: None, ..original });
    }
}

/// Photos are named by their content: a repeated photo is one file, and a second export changes nothing.
#[test]
fn repeated_export_is_identical() {
    let folder = FixtureFolder::new();
    let path = folder.path().join("a.jsonl");
    let target = ExportTarget::Grounded { path: path.clone() };
    let image = || ImageRef::Pixels(Arc::new(halves(20, 20)));
    write(vec![sample("1", image()), sample("2", image())], &target);
    let first = fs::read(&path).unwrap();
    write(vec![sample("1", image()), sample("2", image())], &target);
    assert_eq!(fs::read(&path).unwrap(), first);
    assert_eq!(fs::read_dir(folder.path().join("a_photos")).unwrap().count(), 1);
}

#[test]
fn plain_shards_round_trip() {
    let folder = FixtureFolder::new();
    let originals = vec![
        sample("a.b/c", ImageRef::Encoded(jpeg(100, 80).into())),
        sample("pixels", ImageRef::Pixels(Arc::new(halves(100, 80)))),
        sample("gone", ImageRef::File("no/such.jpg".into())),
    ];
    let size = ShardSize { samples: 1, ..ShardSize::default() };
    let report = write(originals, &ExportTarget::Pairs { folder: folder.path().to_owned(), size });
    assert_eq!((report.written, report.files.len()), (2, 2));
    assert_eq!(report.skipped, BTreeMap::from([(Cause::MissingFile, 1)]));
    assert_eq!(report.examples[0].sample, "gone");

    let source = open("image_text_shards", folder.path());
    let read: Vec<_> = samples(&*source).map(Result::unwrap).collect();
    assert_eq!(read.iter().map(|s| &*s.id).collect::<Vec<_>>(), ["000000000", "000000001"]);
    assert_eq!(read[0].captions, ["a left half"]);
    let limits = PixelLimits::default();
    assert_eq!(read[1].image.as_ref().unwrap().open(&limits).unwrap(), halves(100, 80));
}

/// The photo of 100 x 80 pixels becomes 40 x 32 in a white 40 x 40 square, so rows 0 to 3 and 36 to 39 are white. The
/// box of the black left half, 50 x 80, becomes 25 x 40 and starts at column 7. The dot is smaller than `min_area` and
/// is skipped.
#[test]
fn box_shards_are_white_padded() {
    let folder = FixtureFolder::new();
    let cut = CropSettings { side: 40, min_area: 100, quality: 95 };
    let target = ExportTarget::Boxes { folder: folder.path().to_owned(), size: ShardSize::default(), cut };
    let image = || ImageRef::Pixels(Arc::new(halves(100, 80)));
    let small = Sample { phrases: vec![boxed("dot", [0.0, 0.0, 0.01, 0.01])], ..sample("small", image()) };
    let mut twice = sample("twice", image());
    twice.phrases.push(twice.phrases[0].clone());
    let report = write(vec![sample("one", image()), small, twice], &target);
    assert_eq!((report.written, &report.skipped), (2, &BTreeMap::from([(Cause::NoBox, 1)])));
    assert_eq!(
        report.examples[0].to_string(),
        "sample `small`: no_box: 1 phrases without such a box; expected at least one box of more than 100 pixels"
    );

    let source = open("grit_processed", folder.path());
    let limits = PixelLimits::default();
    for sample in samples(&*source).map(Result::unwrap) {
        assert_eq!(sample.captions, ["a left half"]);
        let photo = sample.image.unwrap().open(&limits).unwrap();
        let at = |p: &crate::Picture, x: usize, y: usize| p.rgb[3 * (y * 40 + x)];
        assert_eq!((photo.width, photo.height), (40, 40));
        assert!(at(&photo, 5, 1) > 220 && at(&photo, 5, 20) < 35 && at(&photo, 35, 20) > 220);
        let [left] = &sample.phrases[..] else { panic!("one phrase") };
        let part = left.crop.as_ref().unwrap().open(&limits).unwrap();
        assert_eq!(left.text, "left half");
        assert!(at(&part, 3, 20) > 220 && at(&part, 20, 20) < 35 && at(&part, 36, 20) > 220);
    }
}

#[test]
fn settings_out_of_range() {
    let create = |cut: CropSettings| {
        let target = ExportTarget::Boxes { folder: "x".into(), size: ShardSize::default(), cut };
        super::write(std::iter::empty(), &[], &target, &PixelLimits::default()).unwrap_err().to_string()
    };
    assert_eq!(
        create(CropSettings { side: 0, ..CropSettings::default() }),
        "data: `side` is 0; expected 1 to 4096 pixels"
    );
    assert_eq!(
        create(CropSettings { quality: 101, ..CropSettings::default() }),
        "data: `quality` is 101; expected 1 to 100"
    );
}

/// If a file has the name of the target folder, the export returns an error and does not change the file.
#[test]
fn unwritable_target_is_an_error() {
    let folder = FixtureFolder::new();
    let file = folder.write("taken", "old");
    let target = ExportTarget::Grounded { path: file.join("a.jsonl") };
    let error = super::write(std::iter::empty(), &[], &target, &PixelLimits::default()).unwrap_err();
    assert!(error.to_string().starts_with("data: cannot create `"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"old");
}

#[test]
fn reports_count_all_faults_and_keep_few_examples() {
    let faults = (0..10).map(|i| Err(Broken::new(i.to_string(), Cause::BadBox, "bad")));
    let folder = FixtureFolder::new();
    let target = ExportTarget::Grounded { path: folder.path().join("a.jsonl") };
    let faults =
        faults.chain([Ok(Sample { id: "good".to_owned(), captions: vec!["a dog".to_owned()], ..Sample::default() })]);
    let report = super::write(faults, &[], &target, &PixelLimits::default()).unwrap();
    assert_eq!((report.skipped[&Cause::BadBox], report.examples.len()), (10, 3));
    assert_eq!(
        report.to_string(),
        "1 samples written; bad_box 10\n  sample `0`: bad_box: bad\n  sample `1`: bad_box: bad\n  sample `2`: bad_box: bad"
    );
}

/// An export without samples does not replace an existing target file.
#[test]
fn empty_export_is_an_error_and_keeps_the_target() {
    let folder = FixtureFolder::new();
    let path = folder.write("a.jsonl", "old");
    let faults = std::iter::once(Err(Broken::new("0", Cause::BadBox, "bad")));
    let target = ExportTarget::Grounded { path: path.clone() };
    let error = super::write(faults, &[], &target, &PixelLimits::default()).unwrap_err().to_string();
    assert!(error.contains("bad_box 1"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

/// A record may name any file of the folder; only photos are copied into a shard.
#[test]
fn only_photos_are_copied() {
    let folder = FixtureFolder::new();
    let photo = jpeg(100, 80);
    let secret = folder.write("secret.jpg", "root:x:0:0:root:/root:/bin/bash\n");
    let cut = folder.write("cut.jpg", &photo[..photo.len() / 2]);
    let whole = folder.write("whole.jpg", &photo);
    let originals = || {
        let files = [("secret", &secret), ("cut", &cut), ("whole", &whole)];
        files.map(|(id, path)| sample(id, ImageRef::File(path.clone()))).to_vec()
    };
    let out = folder.path().join("pairs");
    let report = write(originals(), &ExportTarget::Pairs { folder: out.clone(), size: ShardSize::default() });
    assert_eq!((report.written, &report.skipped), (1, &BTreeMap::from([(Cause::UndecodableImage, 2)])));
    assert_eq!(report.examples.iter().map(|it| &*it.sample).collect::<Vec<_>>(), ["secret", "cut"]);
    let shard = fs::read(out.join("00000.tar")).unwrap();
    assert!(!shard.windows(7).any(|bytes| bytes == b"root:x:"));
    // The bytes of a photo are copied unchanged.
    assert!(shard.windows(photo.len()).any(|bytes| bytes == photo));

    // Shard members become separate files; they are checked in the same way.
    let encoded =
        vec![sample("text", ImageRef::Encoded(b"no photo"[..].into())), sample("whole", ImageRef::File(whole))];
    let report = write(encoded, &ExportTarget::Grounded { path: folder.path().join("b.jsonl") });
    assert_eq!((report.written, &report.skipped), (1, &BTreeMap::from([(Cause::UndecodableImage, 1)])));
}

/// The root is an ancestor of the JSONL file's folder. Readers do not follow a link to an ancestor, so the subfolder
/// with the photos is linked.
#[cfg(unix)]
#[test]
fn sibling_photo_folders_are_linked() {
    let folder = FixtureFolder::new();
    let photo = folder.write("photos/deep/1.jpg", jpeg(20, 20));
    let path = folder.path().join("out/here/a.jsonl");
    let target = ExportTarget::Grounded { path: path.clone() };
    for _ in 0..2 {
        let samples = [Ok(sample("1", ImageRef::File(photo.clone())))].into_iter();
        super::write(samples, &[folder.path().to_owned()], &target, &PixelLimits::default()).unwrap();
    }
    assert_eq!(fs::read_link(folder.path().join("out/here/a_root1")).unwrap(), Path::new("../../photos"));
    assert_eq!(fs::read_dir(folder.path().join("out/here")).unwrap().count(), 2, "the link must be reused");
    let read = samples(&*open("jsonl", &path)).next().unwrap().unwrap();
    assert_eq!(read.image.unwrap().open(&PixelLimits::default()).unwrap().width, 20);
}
