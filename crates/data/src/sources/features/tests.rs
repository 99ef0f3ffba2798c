#![allow(clippy::unwrap_used)]
use ::parquet::basic::Compression;
use serde_json::json;

use super::*;
use crate::fixtures::{FixtureFolder, npy};
use crate::sample::Cause;
use crate::sources::open;
use crate::tokenizer::Tokenizer;
use crate::vectors::parquet_fixtures::{self as parquet, TestColumn};

/// Four images and six texts of width 2 and 3; value (i, j) is 10 i + j.
fn folder() -> FixtureFolder {
    let folder = FixtureFolder::new();
    let values = |rows: usize, width: usize| {
        let value = |i: usize| (10 * (i / width) + i % width) as f32;
        npy(width, &(0..rows * width).map(value).collect::<Vec<_>>())
    };
    folder.write("images.npy", values(4, 2));
    folder.write("texts.npy", values(6, 3));
    folder.write("captions.txt", "an animal\na dog\na brown dog\na cat\nits head\nits tail\n");
    folder
}

fn spec(folder: &FixtureFolder, table: &str, content: &str, more: serde_json::Value) -> SourceSpec {
    let path = folder.write(table, content);
    let mut options = json!({ "images": "images.npy", "texts": "texts.npy", "captions": "captions.txt" });
    for (name, value) in more.as_object().unwrap() {
        options[name.as_str()] = value.clone();
    }
    let options = options.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    let options = options.map(|(name, value)| (name.clone(), value.clone())).collect();
    SourceSpec { kind: KIND.to_owned(), path: Some(path), options, ..SourceSpec::default() }
}

fn vector(image: &Option<ImageRef>) -> Vec<f32> {
    image.as_ref().unwrap().vector(2).unwrap().to_vec()
}

#[test]
fn rows_of_an_image_form_a_sample() {
    let folder = folder();
    let table = "image,text,label,split,tiers,box,phrase\n\
                 0,2,dog,train,0>1>2,2,4\n\
                 1,3,cat,test,,,\n\
                 0,2;1,,train,,3,5\n";
    let source = open(&spec(&folder, "table.csv", table, json!({}))).unwrap();
    assert_eq!((source.name(), source.len()), ("features", 2));
    assert_eq!(source.views(), [View::Pair, View::Boxes, View::Chain]);
    let dog = source.get(0).unwrap();
    assert_eq!((dog.id.as_str(), vector(&dog.image)), ("0", vec![0.0, 1.0]));
    assert_eq!(dog.captions, ["a brown dog", "a dog"]);
    assert_eq!(dog.tiers.unwrap().positive, ["an animal", "a dog", "a brown dog"]);
    let phrases: Vec<_> = dog.phrases.iter().map(|it| (it.text.as_str(), vector(&it.crop))).collect();
    assert_eq!(phrases, [("its head", vec![20.0, 21.0]), ("its tail", vec![30.0, 31.0])]);
    assert_eq!((dog.label.as_deref(), dog.split.as_deref()), (Some("dog"), Some("train")));

    let texts = source.text_vectors().unwrap();
    assert_eq!((texts.width(), texts.len(), texts.get("a cat")), (3, 6, Some(&[30.0, 31.0, 32.0][..])));
    let tokenizer = Tokenizer::of_vectors(texts);
    assert_eq!(tokenizer.encode("a cat", 1).unwrap(), [4]);
    let message = tokenizer.encode("a bird", 1).unwrap_err().to_string();
    assert!(message.contains("text \"a bird\": it has no vector; expected one of the 6 texts with a vector"));
    assert!(tokenizer.to_json().is_err() && tokenizer.text_vectors().is_some());

    let test = SourceSpec { split: Some("test".to_owned()), ..spec(&folder, "table.csv", table, json!({})) };
    let test = open(&test).unwrap();
    assert_eq!((test.len(), test.get(0).unwrap().id), (1, "1".to_owned()));
    assert_eq!(test.text_vectors().unwrap().len(), 6, "the texts do not depend on the split");
    assert_ne!(test.fingerprint(), source.fingerprint());
}

#[test]
fn lines_of_json_and_ids_are_read() {
    let folder = folder();
    folder.write("ids.txt", "a.jpg\nb.jpg\nc.jpg\nd.jpg\n");
    let table = "{\"image\": \"b.jpg\", \"text\": [1, 2], \"tiers\": [0, 1], \"meta\": {\"x\": 1}}\n\n\
                 {\"tiers\": \"0>3\"}\n{\"image\": \"d.jpg\", \"text\": \"3.0\", \"class\": \"cat\", \"order\": \"Carnivora\"}\n";
    let options = json!({ "image_ids": "ids.txt", "ranks": "order,class" });
    let source = open(&spec(&folder, "table.jsonl", table, options)).unwrap();
    assert_eq!(source.len(), 3);
    let first = source.get(0).unwrap();
    assert_eq!((first.id.as_str(), vector(&first.image)), ("b.jpg", vec![10.0, 11.0]));
    assert_eq!(first.captions, ["a dog", "a brown dog"]);
    let chain = source.get(1).unwrap();
    assert!(chain.image.is_none() && chain.id == "row 3");
    assert_eq!(chain.tiers.unwrap().positive, ["an animal", "a cat"]);
    assert_eq!(source.get(2).unwrap().taxon, ["Carnivora", "cat"]);
}

#[test]
fn texts_are_named_by_the_table_or_by_their_row() {
    let folder = folder();
    let table = "image,text,caption\n0,2,a brown dog\n1,3,\n2,2,\n";
    let source = open(&spec(&folder, "a.csv", table, json!({ "captions": null }))).unwrap();
    let captions: Vec<_> = (0..3).map(|index| source.get(index).unwrap().captions.concat()).collect();
    assert_eq!(captions, ["a brown dog", "text 3", "a brown dog"]);
    // Without vectors of texts, a text encoder reads the captions.
    let table = "image,caption\n0,a dog\n1,a cat\n";
    let source = open(&spec(&folder, "b.csv", table, json!({ "captions": null, "texts": null }))).unwrap();
    assert!(source.text_vectors().is_none());
    assert_eq!((source.views(), source.get(1).unwrap().captions), (&[View::Pair][..], vec!["a cat".to_owned()]));
}

#[test]
fn a_vector_is_not_a_photo() {
    let folder = folder();
    let source = open(&spec(&folder, "a.csv", "image,text\n0,1\n", json!({}))).unwrap();
    let image = source.get(0).unwrap().image.unwrap();
    let broken = image.open(&crate::PixelLimits::default()).unwrap_err();
    assert_eq!(broken.cause, Cause::BadRecord);
    assert!(broken.to_string().contains("a vector, not a photo; this needs a model for vectors"), "{broken}");
    assert!(image.size(&crate::PixelLimits::default()).is_err());
    let broken = image.vector(5).unwrap_err().to_string();
    assert!(broken.contains("a vector of width 2; expected a vector of width 5"), "{broken}");
    let broken = ImageRef::File("a.jpg".into()).vector(5).unwrap_err().to_string();
    assert!(broken.contains("`a.jpg`: bad_record: a photo; expected a vector of width 5"), "{broken}");
}

#[test]
fn tables_that_do_not_fit_are_refused_with_their_line() {
    let folder = folder();
    folder.write("few.txt", "a.jpg\nb.jpg\n");
    folder.write("twice.txt", "a.jpg\nb.jpg\nc.jpg\nb.jpg\n");
    folder.write("gap.txt", "a.jpg\n\nc.jpg\nd.jpg\n");
    let refusal = |content: &str, more: serde_json::Value| {
        open(&spec(&folder, "t.csv", content, more)).err().unwrap().to_string()
    };
    for (content, words) in [
        ("image,text\n0,1\n4,1\n", "line 3 of `{}`: image is `4`; expected a row of `{images}`, 0 to 3"),
        ("image,text\n0,1;6\n", "line 2 of `{}`: text is `6`; expected a row of `{texts}`, 0 to 5"),
        ("image,text\n-1,1\n", "image is `-1`; expected a row of"),
        ("image,text\n0;1,1\n", "image is `0;1`; expected one image per row"),
        ("image,text,tiers\n0,1,0>9\n", "tiers is `9`"),
        ("image,text,box,phrase\n0,1,1,\n", "box is `1` and phrase is ``; expected both, or neither"),
        ("image,text,box,phrase\n,1,1,2\n", "a box without an image"),
        (
            "image,text,label\n0,1,dog\n0,2,cat\n",
            "line 3 of `{}`: another `label` than an earlier row of the same image",
        ),
        ("image,text,caption\n0,1,a cow\n", "caption \"a cow\" of text 1, which is also \"a dog\""),
        ("image,text,caption\n0,1;2,a dog\n", "2 texts and one caption"),
        ("image,text\n,\n", "neither image nor text nor tiers"),
        ("photo,words\n0,1\n", "header of `{}`: columns photo, words; expected image, text or tiers"),
        ("image,text\n0\n", "expected a table in UTF-8 whose rows have as many fields"),
        ("image,text\n", "holds no sample; expected at least one row"),
    ] {
        let message = refusal(content, json!({}));
        let at = |name: &str| folder.path().join(name).display().to_string();
        let words = words.replace("{}", &at("t.csv"));
        let words = words.replace("{images}", &at("images.npy")).replace("{texts}", &at("texts.npy"));
        assert!(message.contains(&words), "{words}: {message}");
    }
    let row = "image,text\n0,1\n";
    for (more, words) in [
        (json!({ "images": null, "texts": null }), "expected the option images or texts"),
        (json!({ "texts": null }), "`captions` is `captions.txt`; expected the option texts too"),
        (
            json!({ "texts": null, "captions": null }),
            "text is `1`; expected no value, because the option texts is not given",
        ),
        (json!({ "images": null }), "image is `0`; expected no value, because the option images is not given"),
        (json!({ "images": null, "image_ids": "ids.txt" }), "expected the option images too"),
        (json!({ "image_ids": "few.txt" }), "few.txt`: 2 lines; expected 4 lines, one per row of"),
        (json!({ "image_ids": "twice.txt" }), "line 4 of"),
        (json!({ "image_ids": "gap.txt" }), "gap.txt`: an empty line"),
        (json!({ "ranks": "order" }), "no column `order`; expected one of image, text"),
        (json!({ "images": "absent.npy" }), "absent.npy"),
    ] {
        let message = refusal(row, more);
        assert!(message.contains(words), "{words}: {message}");
    }
    folder.write("ids.txt", "a.jpg\nb.jpg\nc.jpg\nd.jpg\n");
    let message = refusal("image,text\ne.jpg,1\n", json!({ "image_ids": "ids.txt" }));
    assert!(message.contains("image is `e.jpg`; expected one of the 4 ids in"), "{message}");
    let lines = open(&spec(&folder, "t.jsonl", "{\"image\": {\"row\": 1}}\n", json!({}))).err().unwrap().to_string();
    assert!(lines.contains("line 1 of") && lines.contains("`image` is {\"row\":1}"), "{lines}");
}

/// One Parquet file with the ids, vectors and relations of photos, and one with the vectors of texts.
#[test]
fn parquet_tables_hold_vectors_and_relations() {
    let folder = FixtureFolder::new();
    let texts = |values: &'static [Option<&'static str>]| TestColumn::Texts(values);
    let photos = [
        ("id", texts(&[Some("a.jpg"), Some("b.jpg"), Some("c.jpg")])),
        ("vector", TestColumn::Lists(&[Some(&[0.0, 1.0]), Some(&[10.0, 11.0]), Some(&[20.0, 21.0])])),
        ("text", texts(&[Some("t1; t2"), Some("t3"), Some("t3")])),
        ("tiers", texts(&[Some("t0>t1"), None, None])),
        ("box", texts(&[Some("c.jpg"), None, None])),
        ("phrase", texts(&[Some("t0"), None, None])),
        ("order", texts(&[Some("Carnivora"), None, Some("Carnivora")])),
        ("class", texts(&[Some("dog"), None, None])),
    ];
    let path = folder.path().join("photos.parquet");
    parquet::write(&path, &photos, Compression::SNAPPY, 2);
    let captions = [
        ("id", texts(&[Some("t0"), Some("t1"), Some("t2"), Some("t3")])),
        ("text", texts(&[Some("an animal"), Some("a dog"), Some("a brown dog"), Some("a cat")])),
        ("vector", TestColumn::Doubles(&[&[0.0], &[1.0], &[2.0], &[3.0]])),
    ];
    parquet::write(&folder.path().join("texts.parquet"), &captions, Compression::UNCOMPRESSED, 9);
    let spec = |options: serde_json::Value| {
        let options = options.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        SourceSpec { kind: KIND.to_owned(), path: Some(path.clone()), options, ..SourceSpec::default() }
    };
    let files = json!({ "images": "photos.parquet", "texts": "texts.parquet", "ranks": "order,class" });
    let source = open(&spec(files.clone())).unwrap();
    assert_eq!((source.len(), source.views()), (3, &[View::Pair, View::Boxes, View::Chain][..]));
    let dog = source.get(0).unwrap();
    assert_eq!((dog.id.as_str(), vector(&dog.image)), ("a.jpg", vec![0.0, 1.0]));
    assert_eq!(
        (&dog.captions[..], &dog.taxon[..]),
        (&["a dog", "a brown dog"].map(str::to_owned)[..], &["Carnivora", "dog"].map(str::to_owned)[..])
    );
    assert_eq!(dog.tiers.unwrap().positive, ["an animal", "a dog"]);
    assert_eq!((dog.phrases[0].text.as_str(), vector(&dog.phrases[0].crop)), ("an animal", vec![20.0, 21.0]));
    assert_eq!(source.text_vectors().unwrap().get("a cat"), Some(&[3.0][..]));

    let refusal = |change: (&str, serde_json::Value)| {
        let mut options = files.clone();
        options[change.0] = change.1;
        open(&spec(options)).err().unwrap().to_string()
    };
    folder.write("ids.txt", "a\nb\nc\n");
    let found = refusal(("image_ids", "ids.txt".into()));
    assert!(found.contains("expected no value, because the column id of `"), "{found}");
    let found = refusal(("ranks", "family".into()));
    assert!(found.contains("no column `family`; expected one of id, text, tiers"), "{found}");
    let found = refusal(("image_array", "other".into()));
    assert!(found.contains("no column `other` of lists of float or double; expected one of: vector"), "{found}");
    // With ids, a number in the table is an id and not a row number.
    let plain = json!({ "images": "photos.parquet", "texts": "texts.parquet" });
    let numbered = [("id", texts(&[Some("x")])), ("image", texts(&[Some("0")])), ("text", texts(&[Some("t1")]))];
    let other = folder.path().join("other.parquet");
    parquet::write(&other, &numbered, Compression::SNAPPY, 9);
    let found = open(&SourceSpec { path: Some(other.clone()), ..spec(plain.clone()) }).err().unwrap().to_string();
    assert!(found.contains("row 0 of `") && found.contains("image is `0`; expected one of the 3 ids in"), "{found}");
    let twice =
        [("id", texts(&[Some("t1"), Some("t1")])), ("vector", TestColumn::Lists(&[Some(&[1.0]), Some(&[2.0])]))];
    parquet::write(&folder.path().join("twice.parquet"), &twice, Compression::SNAPPY, 9);
    let found = refusal(("texts", "twice.parquet".into()));
    assert!(
        found.contains("row 1 of `") && found.contains("`t1` again, as in row 0; expected each id once"),
        "{found}"
    );
    let nested = [("image", TestColumn::Lists(&[Some(&[1.0])])), ("id", texts(&[Some("x")]))];
    parquet::write(&other, &nested, Compression::SNAPPY, 9);
    let found = open(&SourceSpec { path: Some(other), ..spec(plain) }).err().unwrap().to_string();
    assert!(found.contains("image is `1"), "{found}");
}
