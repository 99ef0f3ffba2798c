#![allow(clippy::unwrap_used)]
use super::*;

fn read(json: &str) -> Result<Sample, Broken> {
    serde_json::from_str::<GroundedRecord>(json).unwrap().into_sample(Path::new("data"), 17)
}

fn detail(json: &str, cause: Cause) -> String {
    let broken = read(json).unwrap_err();
    assert_eq!(broken.cause, cause);
    broken.detail
}

const FULL: &str = r#"{"id": "1", "image": "photos/1.jpg", "width": 500, "height": 400,
    "captions": ["A black dog runs in snow ."],
    "phrases": [{"text": "A black dog", "boxes": [[0, 100, 250, 400]], "spans": [[0, 0, 11]], "score": 0.5, "crop": "c.jpg"},
                {"text": "its ear", "boxes": [[50, 20, 100, 40]], "part_of": 0, "group_of": true}],
    "tiers": {"positive": ["animal", "dog"], "negative": ["food", "cat"]},
    "taxon": ["Animalia", "Canis lupus"], "label": "dog", "split": "train", "meta": {"licence": 4}}"#;

#[test]
fn every_field() {
    let sample = read(FULL).unwrap();
    assert_eq!(sample.image, Some(ImageRef::File("data/photos/1.jpg".into())));
    let [dog, ear] = &sample.phrases[..] else { panic!("two phrases") };
    // As fractions: y1 = 100 / 400, x2 = 250 / 500.
    assert_eq!(dog.boxes, [BBox { x1: 0.0, y1: 0.25, x2: 0.5, y2: 1.0 }]);
    assert_eq!(dog.spans[0].text(&sample.captions), Some("A black dog"));
    assert_eq!((dog.score, dog.part_of), (Some(0.5), None));
    assert_eq!(dog.crop, Some(ImageRef::File("data/c.jpg".into())));
    assert_eq!((ear.part_of, &*ear.text), (Some(0), "its ear"));
    assert_eq!((dog.group_of, ear.group_of), (false, true));
    assert_eq!(sample.tiers.unwrap().negative, ["food", "cat"]);
    assert_eq!(sample.taxon, ["Animalia", "Canis lupus"]);
    assert_eq!((sample.label.as_deref(), sample.split.as_deref()), (Some("dog"), Some("train")));
}

#[test]
fn all_fields_are_optional() {
    assert_eq!(read("{}").unwrap(), Sample { id: "17".to_owned(), ..Sample::default() });
}

/// A record made from a sample has boxes as fractions and no size; everything else is equal.
#[test]
fn samples_round_trip() {
    let sample = read(FULL).unwrap();
    let path = |image: &ImageRef| match image {
        ImageRef::File(path) => Ok::<_, ()>(path.strip_prefix("data").unwrap().to_owned()),
        _ => Err(()),
    };
    let line = serde_json::to_string(&GroundedRecord::from_sample(&sample, path).unwrap()).unwrap();
    assert_eq!(read(&line).unwrap(), sample);
    assert!(!line.contains("width") && !line.contains("meta"), "{line}");
    assert_eq!(line.matches("group_of").count(), 1, "`group_of` must be omitted if false: {line}");
}

#[test]
fn missing_ranks_and_common_names_round_trip() {
    let line = r#"{"id": "1", "taxon": ["Animalia", "Insecta"], "missing_ranks": [{"position": 1, "name": "phylum"}],
        "common_name": "an insect"}"#;
    let sample = read(line).unwrap();
    assert_eq!(sample.ranked_taxon(), ["Animalia", "", "Insecta"]);
    assert_eq!((sample.missing_ranks[0].name.as_str(), sample.common_name.as_deref()), ("phylum", Some("an insect")));
    let again = GroundedRecord::from_sample(&sample, |_| Err(())).unwrap();
    assert_eq!(read(&serde_json::to_string(&again).unwrap()).unwrap(), sample);
    let wrong = line.replace("\"position\": 1", "\"position\": 3");
    assert!(detail(&wrong, Cause::BadRecord).starts_with("missing_ranks has the positions [3]"));
}

#[test]
fn unknown_fields_are_rejected() {
    let error = serde_json::from_str::<GroundedRecord>(r#"{"caption": ["a"]}"#).unwrap_err();
    assert!(error.to_string().starts_with("unknown field `caption`, expected one of `id`, `image`"), "{error}");
    assert!(serde_json::from_str::<GroundedRecord>(r#"{"phrases": [{"phrase": "a"}]}"#).is_err());
}

#[test]
fn invalid_boxes_are_rejected() {
    let one = |corners: &str| {
        let json = format!(r#"{{"width": 100, "height": 100, "phrases": [{{"text": "dog", "boxes": [{corners}]}}]}}"#);
        detail(&json, Cause::BadBox)
    };
    let tail = "; expected 0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1, as fractions of the photo";
    assert_eq!(one("[10, 10, 150, 20]"), format!("phrase 0 (\"dog\"): box is [0.1, 0.1, 1.5, 0.2]{tail}"));
    assert_eq!(one("[50, 10, 20, 20]"), format!("phrase 0 (\"dog\"): box is [0.5, 0.1, 0.2, 0.2]{tail}"));
    assert!(one("[-10, 10, 20, 20]").contains("box is [-0.1, 0.1, 0.2, 0.2]"));
}

#[test]
fn boxes_one_pixel_outside_are_clipped() {
    let sample = read(r#"{"width": 500, "height": 375, "phrases": [{"text": "a", "boxes": [[-1, 0, 501, 375.5]]}]}"#);
    assert_eq!(sample.unwrap().phrases[0].boxes, [BBox { x1: 0.0, y1: 0.0, x2: 1.0, y2: 1.0 }]);
}

#[test]
fn mixed_units_are_rejected() {
    let pixels = detail(r#"{"phrases": [{"text": "dog", "boxes": [[10, 10, 50, 60]]}]}"#, Cause::BadBox);
    assert!(pixels.ends_with("as fractions of the photo (boxes in pixels need `width` and `height`)"), "{pixels}");
    let fractions = detail(
        r#"{"width": 640, "height": 480, "phrases": [{"text": "dog", "boxes": [[0.1, 0.1, 0.5, 1]]}]}"#,
        Cause::BadBox,
    );
    assert_eq!(
        fractions,
        "phrase 0 (\"dog\"): box is [0.1, 0.1, 0.5, 1.0] in a photo of 640 x 480; expected pixels (omit `width` and `height` for boxes as fractions)"
    );
    assert_eq!(
        detail(r#"{"width": 640}"#, Cause::BadRecord),
        "width is 640, height is absent; expected both, positive (boxes in pixels), or neither (boxes as fractions)"
    );
}

#[test]
fn spans_captions_and_parts_are_checked() {
    detail(r#"{"captions": ["dog"], "phrases": [{"text": "dog", "spans": [[0, 1, 4]]}]}"#, Cause::BadSpan);
    detail(r#"{"captions": [""]}"#, Cause::NoCaption);
    detail(r#"{"phrases": [{"text": "dog", "part_of": 0}]}"#, Cause::BadRecord);
}
