#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::fixtures::{FixtureFolder, jpeg};
use crate::sample::{BBox, Cause, ImageRef, PixelLimits, Span, View};

fn spec(kind: &str, path: impl Into<PathBuf>) -> SourceSpec {
    SourceSpec { kind: kind.to_owned(), path: Some(path.into()), ..SourceSpec::default() }
}

fn with(mut spec: SourceSpec, options: serde_json::Value) -> SourceSpec {
    spec.options = serde_json::from_value(options).unwrap();
    spec
}

fn message(spec: &SourceSpec) -> String {
    open(spec).err().unwrap().to_string()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn jsonl() {
    let folder = FixtureFolder::new();
    folder.write("photos/1.jpg", jpeg(40, 20));
    let path = folder.write(
        "a.jsonl",
        "\u{feff}{\"id\": \"one\", \"image\": \"photos/1.jpg\", \"captions\": [\"a dog\"], \"split\": \"train\",\
         \"phrases\": [{\"text\": \"dog\", \"boxes\": [[0, 0, 0.5, 1]]}]}\r\n\n\
         {\"tiers\": {\"positive\": [\"animal\", \"dog\"]}, \"split\": \"test\"}\n\
         {\"captions\": [\"torn",
    );
    let source = open(&spec("jsonl", &path)).unwrap();
    assert_eq!((source.name(), source.len(), source.is_empty()), ("jsonl", 3, false));
    assert_eq!(source.views(), [View::Pair, View::Boxes, View::Chain, View::Edges]);

    let one = source.get(0).unwrap();
    assert_eq!((&*one.id, &one.captions[..]), ("one", &texts(&["a dog"])[..]));
    let picture = one.image.unwrap().open(&PixelLimits::default()).unwrap();
    assert_eq!((picture.width, picture.height), (40, 20));
    // The default id is the line number; empty lines count.
    assert_eq!(source.get(1).unwrap().id, "3");

    let torn = source.get(2).unwrap_err();
    assert_eq!((torn.cause, torn.sample), (Cause::BadRecord, format!("line 4 of `{}`", path.display())));
    assert!(torn.detail.starts_with("EOF while parsing a string at column "), "{}", torn.detail);

    let mut test = spec("jsonl", &path);
    test.split = Some("test".to_owned());
    let source = open(&test).unwrap();
    // The truncated line is included because its split is unknown.
    assert_eq!((source.len(), source.get(0).unwrap().id), (2, "3".to_owned()));
}

#[test]
fn jsonl_faults_name_their_line() {
    let folder = FixtureFolder::new();
    let path = folder.write(
        "a.jsonl",
        "{\"captions\": [\"a dog\"], \"phrases\": [{\"text\": \"dog\", \"boxes\": [[0.5, 0, 0.2, 1]]}]}\n\
         {\"image\": \"gone.jpg\", \"captions\": [\"a dog\"]}\n",
    );
    let source = open(&spec("jsonl", &path)).unwrap();
    let broken = source.get(0).unwrap_err();
    assert_eq!(
        broken.to_string(),
        format!(
            "sample `1`: bad_box: phrase 0 (\"dog\"): box is [0.5, 0, 0.2, 1]; expected 0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1, \
             as fractions of the photo (line 1 of `{}`)",
            path.display()
        )
    );
    let broken = source.get(1).unwrap().image.unwrap().open(&PixelLimits::default()).unwrap_err();
    assert_eq!(broken.cause, Cause::MissingFile);
    assert!(broken.sample.ends_with("gone.jpg"), "{broken}");
}

#[test]
fn jsonl_without_lines() {
    let folder = FixtureFolder::new();
    let path = folder.write("a.jsonl", "{\"split\": \"train\"}\n{\"split\": \"dev\"}\n\n");
    let mut test = spec("jsonl", &path);
    test.split = Some("test".to_owned());
    assert_eq!(
        message(&test),
        format!("data: `{}` holds no sample; expected lines of split `test` (there are: dev, train)", path.display())
    );
    let empty = folder.write("b.jsonl", "\n");
    assert!(message(&spec("jsonl", empty)).ends_with("holds no sample; expected one JSON object a line"));
}

#[test]
fn fingerprints_do_not_depend_on_the_location() {
    let hash = |text: &str| {
        let folder = FixtureFolder::new();
        open(&spec("jsonl", folder.write("a.jsonl", text))).unwrap().fingerprint()
    };
    let base = hash("{\"captions\": [\"a\"]}\n{\"captions\": [\"b\"]}\n");
    assert_eq!(base.len(), 64);
    assert_eq!(base, hash("{\"captions\": [\"a\"]}\r\n\n{\"captions\": [\"b\"]}"));
    assert_ne!(base, hash("{\"captions\": [\"b\"]}\n{\"captions\": [\"a\"]}\n"));
}

fn grit(folder: &FixtureFolder, json: &str) -> Box<dyn Source> {
    let photo = jpeg(40, 20);
    let path = folder.shard(&[("000", &[("jpg", &photo), ("json", json.as_bytes()), ("txt", b"not this one")])]);
    open(&spec("grit_raw", path)).unwrap()
}

/// The caption has two non-ASCII letters: spans are character offsets, not byte offsets.
#[test]
fn grit_as_downloaded() {
    let folder = FixtureFolder::new();
    let source = grit(
        &folder,
        r#"{"caption": "Jürgen and a dög run", "url": "x", "width": 40,
            "noun_chunks": [[11.0, 16.0, 0.0, 0.0, 0.5, 1.0, 0.7], [11, 16, 0.5, 0, 1.0000001, 1, 0.9]],
            "ref_exps": [[11, 16, 0, 0, 0.5, 1, 0.7], [0, 6, 0.1, 0.1, 0.2, 0.2, 0.8]]}"#,
    );
    assert_eq!(source.views(), [View::Pair, View::Boxes]);
    let sample = source.get(0).unwrap();
    assert_eq!((&*sample.id, &*sample.captions[0]), ("000", "Jürgen and a dög run"));
    let [dog, man] = &sample.phrases[..] else { panic!("two phrases") };
    assert_eq!((&*dog.text, &*man.text), ("a dög", "Jürgen"));
    // Three rows have the same text, and two of them the same box; 1.0000001 is clipped to 1.
    let right = BBox { x1: 0.5, y1: 0.0, x2: 1.0, y2: 1.0 };
    assert_eq!(dog.boxes, [BBox { x1: 0.0, x2: 0.5, ..right }, right]);
    assert_eq!(dog.spans, [Span { caption: 0, start: 11, end: 16 }]);
    assert_eq!(dog.score, Some(0.9));
    assert_eq!(sample.image.unwrap().open(&PixelLimits::default()).unwrap().width, 40);
}

#[test]
fn grit_faults() {
    let fault = |json: &str| {
        let folder = FixtureFolder::new();
        let broken = grit(&folder, json).get(0).unwrap_err();
        (broken.cause, broken.detail)
    };
    let (cause, detail) = fault(r#"{"caption": "a dog", "noun_chunks": [[0, 9, 0, 0, 1, 1, 1]]}"#);
    assert_eq!(cause, Cause::BadSpan);
    assert!(
        detail.starts_with("span [0, 9] is outside its caption of 5 characters; expected start < end <= 5 (in `"),
        "{detail}"
    );
    assert_eq!(fault(r#"{"caption": "a dog", "noun_chunks": [[0, 5, 0.5, 0, 0.2, 1, 1]]}"#).0, Cause::BadBox);
    assert_eq!(fault(r#"{"caption": "a dog", "noun_chunks": [[0, 5]]}"#).0, Cause::BadRecord);
    assert_eq!(fault(r#"{"caption": "", "noun_chunks": []}"#).0, Cause::NoCaption);
}

#[test]
fn grit_min_score() {
    let folder = FixtureFolder::new();
    drop(grit(&folder, r#"{"caption": "a dog", "noun_chunks": [[0, 1, 0, 0, 1, 1, 0.5], [2, 5, 0, 0, 1, 1, 0.75]]}"#));
    let cut = with(spec("grit_raw", folder.path()), json!({"min_score": 0.75}));
    let phrases = open(&cut).unwrap().get(0).unwrap().phrases;
    assert_eq!(phrases.iter().map(|p| &*p.text).collect::<Vec<_>>(), ["dog"]);
    let wrong = with(spec("grit_raw", folder.path()), json!({"min_score": 2}));
    assert_eq!(message(&wrong), "data: `min_score` is 2; expected 0 to 1");
}

#[test]
fn grit_as_prepared() {
    let (photo, crop) = (jpeg(32, 32), jpeg(16, 16));
    let folder = FixtureFolder::new();
    let members: &[(&str, &[u8])] = &[
        ("child.jpg", &photo),
        ("child.txt", b"a dog and a cat"),
        ("numparents.txt", b"2"),
        ("parent000.jpg", &crop),
        ("parent000.txt", b"a dog"),
        ("parent001.jpg", &crop),
        ("parent001.txt", b"a cat"),
    ];
    let path = folder.shard(&[("000000001", members), ("000000002", &members[..5])]);
    let source = open(&spec("grit_processed", path)).unwrap();
    let sample = source.get(0).unwrap();
    assert_eq!((&*sample.id, &*sample.captions[0]), ("000000001", "a dog and a cat"));
    let limits = PixelLimits::default();
    assert_eq!(sample.image.unwrap().open(&limits).unwrap().width, 32);
    let [dog, cat] = &sample.phrases[..] else { panic!("two phrases") };
    assert_eq!((&*dog.text, &*cat.text), ("a dog", "a cat"));
    assert_eq!(cat.crop.as_ref().unwrap().open(&limits).unwrap().width, 16);

    let broken = source.get(1).unwrap_err();
    assert_eq!(broken.cause, Cause::BadRecord);
    assert!(
        broken.detail.starts_with("`.numparents.txt` is \"2\"; expected 1, the number of `.parentNNN.txt` (in `"),
        "{broken}"
    );
}

/// Shards of RedCaps with boxes have the layout of processed GRIT, plus the subreddit in the `.json` member.
#[test]
fn boxes_of_redcaps_have_the_prefix_of_their_captions() {
    let (photo, crop) = (jpeg(32, 32), jpeg(16, 16));
    let folder = FixtureFolder::new();
    let members: &[(&str, &[u8])] = &[
        ("child.jpg", &photo),
        ("child.txt", b"my cat"),
        ("json", br#"{"subreddit": "tree_hugs"}"#),
        ("numparents.txt", b"1"),
        ("parent000.jpg", &crop),
        ("parent000.txt", b"cat"),
    ];
    let without = [&members[..2], &members[3..]].concat();
    let path = folder.shard(&[("a", members), ("b", &without)]);
    let source = open(&spec("grit_processed", &path)).unwrap();
    assert_eq!(source.get(0).unwrap().captions, ["my cat"]);
    let source = open(&with(spec("grit_processed", &path), json!({"prefix_key": "subreddit"}))).unwrap();
    let sample = source.get(0).unwrap();
    assert_eq!(sample.captions, ["my cat", "tree hugs : my cat"]);
    assert_eq!(sample.phrases.iter().map(|it| &*it.text).collect::<Vec<_>>(), ["cat"]);
    let broken = source.get(1).unwrap_err();
    assert!(broken.detail.starts_with("no `.json` member; expected one with a text in `subreddit` (in `"), "{broken}");
    let text = message(&with(spec("grit_processed", &path), json!({"prefix_names": "names.tsv"})));
    assert!(text.ends_with("without prefix_key; expected prefix_key, the field that the names stand in"), "{text}");
}

#[test]
fn plain_shards() {
    let photo = jpeg(8, 8);
    let folder = FixtureFolder::new();
    let path = folder.shard(&[
        ("a", &[("jpg", &photo), ("txt", b" a dog \n")]),
        ("b", &[("png", &photo), ("json", br#"{"caption": "a cat", "subreddit": "cats"}"#)]),
        ("c", &[("jpg", &photo), ("txt", b"\n")]),
        ("d", &[("jpg", &photo), ("cls", b"7")]),
        ("e", &[("txt", b"a cow")]),
        ("f", &[("jpg", &photo), ("json", br#"{"caption": 7}"#)]),
    ]);
    let source = open(&spec("image_text_shards", &path)).unwrap();
    assert_eq!(source.len(), 6);
    assert_eq!(source.get(0).unwrap().captions, ["a dog"]);
    assert_eq!(source.get(1).unwrap().captions, ["a cat"]);
    let broken: Vec<_> = (2..6).map(|i| source.get(i).unwrap_err()).collect();
    let causes: Vec<_> = broken.iter().map(|b| b.cause).collect();
    assert_eq!(causes, [Cause::NoCaption, Cause::NoCaption, Cause::BadRecord, Cause::BadRecord]);
    assert!(broken[1].detail.starts_with("members are jpg, cls; expected one of txt, or json"), "{}", broken[1]);
    assert!(broken[2].detail.starts_with("members are `.txt`; expected `.jpg` or another photograph"), "{}", broken[2]);
    assert!(broken[3].detail.starts_with("`.json`: 7; expected an object with a text in `caption`"), "{}", broken[3]);

    let named = with(spec("image_text_shards", &path), json!({"text": ["cls", "txt"], "json_key": "subreddit"}));
    let source = open(&named).unwrap();
    assert_eq!(source.get(3).unwrap().captions, ["7"]);
    assert_eq!(source.get(1).unwrap().captions, ["cats"]);
}

/// Each sample has every caption twice, plain and prefixed with the words of its subreddit, so a uniform draw has the
/// prefix half of the time.
#[test]
fn captions_with_a_prefix() {
    let photo = jpeg(8, 8);
    let folder = FixtureFolder::new();
    let path = folder.shard(&[
        ("a", &[("jpg", &photo), ("json", br#"{"caption": "my cat", "subreddit": "CatPics"}"#)]),
        ("b", &[("jpg", &photo), ("json", br#"{"caption": "a tree", "subreddit": "tree_hugs"}"#)]),
        ("c", &[("jpg", &photo), ("json", br#"{"caption": "a cow"}"#)]),
        ("d", &[("jpg", &photo), ("txt", b"a cow")]),
    ]);
    let names = folder.write("names.tsv", "catpics\tcat pics\n\nearthporn\tearth porn\n");
    let spec = |options| with(spec("image_text_shards", &path), options);
    let source = open(&spec(json!({"prefix_key": "subreddit", "prefix_names": names}))).unwrap();
    assert_eq!(source.get(0).unwrap().captions, ["my cat", "cat pics : my cat"]);
    assert_eq!(source.get(1).unwrap().captions, ["a tree", "tree hugs : a tree"]);
    let broken = source.get(2).unwrap_err();
    let expected = "`.json`: no such field; expected an object with a text in `subreddit` (in `";
    assert!(broken.cause == Cause::BadRecord && broken.detail.starts_with(expected), "{broken}");
    let broken = source.get(3).unwrap_err();
    assert!(broken.detail.starts_with("no `.json` member; expected one with a text in `subreddit` (in `"), "{broken}");
    let source = open(&spec(json!({"prefix_key": "subreddit"}))).unwrap();
    assert_eq!(source.get(0).unwrap().captions[1], "CatPics : my cat");

    let text = message(&spec(json!({"prefix_names": names})));
    assert!(text.ends_with("without prefix_key; expected prefix_key, the field that the names stand in"), "{text}");
    let bad = folder.write("bad.tsv", "catpics\tcat pics\nearthporn earth porn\n");
    let text = message(&spec(json!({"prefix_key": "subreddit", "prefix_names": bad})));
    assert!(text.contains("line 2 of `") && text.ends_with("expected a name, a tab and its words"), "{text}");
}

/// A shard cut off in the middle of its last photo: the samples before the cut are used, and the cut gives one broken
/// sample.
#[test]
fn torn_shard() {
    let photo = jpeg(8, 8);
    let folder = FixtureFolder::new();
    let path =
        folder.shard(&[("a", &[("txt", b"a dog"), ("jpg", &photo)]), ("b", &[("txt", b"a cat"), ("jpg", &photo)])]);
    let blocks = 512 + 512 + 512 + photo.len().next_multiple_of(512);
    let keep = blocks + 512 + 512 + 512 + 100;
    fs::write(&path, &fs::read(&path).unwrap()[..keep]).unwrap();
    let source = open(&spec("image_text_shards", &path)).unwrap();
    assert_eq!(source.len(), 2);
    assert_eq!(source.get(0).unwrap().captions, ["a dog"]);
    let broken = source.get(1).unwrap_err();
    assert_eq!(broken.cause, Cause::TornShard);
    assert!(
        broken.detail.ends_with(&format!(
            "is damaged after 1 complete samples: member `b.jpg` has 100 of its {} bytes; expected all of them",
            photo.len()
        )),
        "{broken}"
    );
}

#[test]
fn tables() {
    let folder = FixtureFolder::new();
    folder.write("photos/1.jpg", jpeg(8, 8));
    let path = folder.write(
        "a.csv",
        "image,caption,set\r\n1.jpg,\"a dog, a \"\"cat\"\"\",train\r\n2.jpg,\"two\r\nlines\",test\r\n1.jpg,grün,train\r\n,lost,train\r\n3.jpg\r\n",
    );
    let photos = with(spec("csv_pairs", &path), json!({"folder": "photos", "split_column": "set"}));
    let source = open(&photos).unwrap();
    assert_eq!(source.len(), 4);
    let one = source.get(0).unwrap();
    assert_eq!(one.captions, ["a dog, a \"cat\"", "grün"]);
    assert_eq!((&*one.id, one.split.as_deref()), ("1.jpg", Some("train")));
    assert_eq!(one.image.unwrap().open(&PixelLimits::default()).unwrap().width, 8);
    assert_eq!(source.get(1).unwrap().captions, ["two\r\nlines"]);
    let broken = source.get(2).unwrap_err();
    assert_eq!((broken.cause, &*broken.detail), (Cause::NoImage, "`image` is empty; expected a file"));
    let broken = source.get(3).unwrap_err();
    assert_eq!(
        (broken.cause, &*broken.detail),
        (Cause::BadRecord, "1 fields; expected `caption` in field 1, counted from 0")
    );
    // The header is row 1, and a quoted line break does not start a row.
    assert_eq!(broken.sample, format!("row 6 of `{}`", path.display()));

    let mut test = photos.clone();
    test.split = Some("test".to_owned());
    assert_eq!(open(&test).unwrap().len(), 1);
    test.split = Some("dev".to_owned());
    assert!(message(&test).ends_with("holds no sample; expected rows of split `dev`"));
}

#[test]
fn tables_of_other_shapes() {
    let folder = FixtureFolder::new();
    // Conceptual Captions: no header, caption first; in TSV, quotes are ordinary characters.
    let path = folder.write("cc.tsv", "a \"dog\tx.jpg\nb\ty.jpg\n");
    let numbered = json!({"header": false, "image": "1", "caption": "0"});
    let source = open(&with(spec("csv_pairs", &path), numbered)).unwrap();
    let all: Vec<_> = (0..source.len()).map(|i| source.get(i).unwrap()).collect();
    assert_eq!(
        all.iter().map(|s| (&*s.id, &*s.captions[0])).collect::<Vec<_>>(),
        [("x.jpg", "a \"dog"), ("y.jpg", "b")]
    );

    let path = folder.write("a.txt", "file;title\nx.jpg;a dog\n");
    let named = json!({"delimiter": ";", "image": "file", "caption": "title"});
    assert_eq!(open(&with(spec("csv_pairs", &path), named)).unwrap().get(0).unwrap().captions, ["a dog"]);
    let wrong = with(spec("csv_pairs", &path), json!({"delimiter": ";"}));
    assert_eq!(message(&wrong), format!("data: column of `{}`: `image`; expected one of file, title", path.display()));
}

#[test]
fn rows_that_are_not_utf8() {
    let folder = FixtureFolder::new();
    let path = folder.write("a.csv", b"image,caption\nx.jpg,gr\xfcn\n");
    let broken = open(&spec("csv_pairs", &path)).unwrap().get(0).unwrap_err();
    assert_eq!((broken.cause, broken.sample), (Cause::BadRecord, format!("row 2 of `{}`", path.display())));
}

#[test]
fn folders() {
    let folder = FixtureFolder::new();
    for name in ["train/animal/black_dog/2.JPG", "train/animal/cat/1.png", "train/food/3.jpg", "test/food/4.jpg"] {
        folder.write(name, jpeg(8, 8));
    }
    folder.write("train/animal/cat/notes.txt", "no photo");
    folder.write("train/.trash/5.jpg", "hidden");
    let mut train = with(spec("image_folder", folder.path()), json!({"caption": "a photo of a {label}"}));
    train.split = Some("train".to_owned());
    let source = open(&train).unwrap();
    let all: Vec<_> = (0..source.len()).map(|i| source.get(i).unwrap()).collect();
    let ids: Vec<_> = all.iter().map(|s| &*s.id).collect();
    assert_eq!(ids, ["animal/black_dog/2.JPG", "animal/cat/1.png", "food/3.jpg"]);
    assert_eq!(all[0].captions, ["a photo of a black dog"]);
    assert_eq!((all[0].label.as_deref(), &all[0].taxon[..]), (Some("black_dog"), &texts(&["animal", "black_dog"])[..]));
    assert_eq!(all[2].image, Some(ImageRef::File(folder.path().join("train/food/3.jpg"))));
    assert_eq!(source.views(), [View::Pair, View::Chain]);
    let labels = image_folder::ImageFolder::open(&train).unwrap().labels();
    assert_eq!(labels, ["black_dog", "cat", "food"]);

    let wrong = with(spec("image_folder", folder.path()), json!({"caption": "a photo"}));
    assert_eq!(message(&wrong), "data: `caption` is \"a photo\"; expected a template with `{label}`");
    fs::create_dir(folder.path().join("none")).unwrap();
    assert!(
        message(&spec("image_folder", folder.path().join("none")))
            .contains("holds no sample; expected files of type jpg")
    );
}

/// `get` does not depend on the thread or on the order of the calls.
#[test]
fn get_is_deterministic() {
    let folder = FixtureFolder::new();
    let path =
        folder.write("a.csv", (0..50).fold("image,caption\n".to_owned(), |t, i| t + &format!("{i}.jpg,text {i}\n")));
    let source = open(&spec("csv_pairs", path)).unwrap();
    let straight: Vec<_> = (0..50).map(|i| source.get(i)).collect();
    let threads: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..50)
            .rev()
            .map(|i| {
                scope.spawn({
                    let source = &source;
                    move || (i, source.get(i))
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    for (i, sample) in threads {
        assert_eq!(sample, straight[i]);
    }
}

#[cfg(unix)]
#[test]
fn non_utf8_file_names_are_read() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = FixtureFolder::new();
    let class = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&class).unwrap();
    std::fs::write(class.join(std::ffi::OsStr::from_bytes(b"\xff.jpg")), jpeg(4, 4)).unwrap();
    folder.write("bar/1.jpg", jpeg(4, 4));
    let spec =
        SourceSpec { kind: "image_folder".to_owned(), path: Some(folder.path().into()), ..SourceSpec::default() };
    let source = open(&spec).unwrap();
    let samples: Vec<_> = (0..source.len()).map(|index| source.get(index).unwrap()).collect();
    assert_eq!(samples.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["bar/1.jpg", "caf\\xe9/\\xff.jpg"]);
    assert_eq!(samples[1].label.as_deref(), Some("caf\\xe9"));
    assert_eq!(samples[1].image.as_ref().unwrap().open(&PixelLimits::default()).unwrap().width, 4);
}
