#![allow(clippy::unwrap_used)]
use super::*;

fn sample() -> Sample {
    Sample {
        id: "s".to_owned(),
        captions: vec!["a grün dog runs".to_owned()],
        phrases: vec![
            Phrase {
                text: "a grün dog".to_owned(),
                boxes: vec![BBox { x1: 0.0, y1: 0.25, x2: 0.5, y2: 1.0 }],
                spans: vec![Span { caption: 0, start: 0, end: 10 }],
                ..Phrase::default()
            },
            Phrase { text: "its ear".to_owned(), part_of: Some(0), ..Phrase::default() },
        ],
        ..Sample::default()
    }
}

/// The fault of the valid sample after `spoil` has changed it.
fn fault(spoil: impl FnOnce(&mut Sample)) -> (Cause, String) {
    let mut bad = sample();
    spoil(&mut bad);
    let broken = bad.check().unwrap_err();
    assert_eq!(broken.sample, "s");
    (broken.cause, broken.detail)
}

#[test]
fn valid_sample_passes() {
    sample().check().unwrap();
}

#[test]
fn spans_are_character_offsets() {
    let sample = sample();
    let span = sample.phrases[0].spans[0];
    assert_eq!(span.text(&sample.captions), Some("a grün dog"));
    assert_eq!(char_slice("grün", 2, 4), Some("ün"));
    assert_eq!(char_slice("grün", 4, 4), Some(""));
    assert_eq!(char_slice("grün", 0, 5), None);
    assert_eq!(char_slice("grün", 3, 2), None);
}

#[test]
fn empty_caption() {
    let (cause, detail) = fault(|s| s.captions[0] = " \n".to_owned());
    assert_eq!(cause, Cause::NoCaption);
    assert_eq!(detail, "caption 0 is empty; expected a text");
}

#[test]
fn empty_rank_of_a_taxon() {
    let (cause, detail) = fault(|s| s.taxon = vec!["Animalia".to_owned(), " ".to_owned()]);
    assert_eq!(cause, Cause::BadRecord);
    assert_eq!(detail, "rank 1 of the taxon is empty; expected a text");
}

#[test]
fn caption_of_ten_thousand_words() {
    let (cause, detail) = fault(|s| s.captions[0] = "a ".repeat(10_000));
    assert_eq!(cause, Cause::CaptionTooLong);
    assert_eq!(detail, "caption 0 has 10000 words, 20000 characters; expected at most 16384 characters");
}

#[test]
fn box_outside_the_photo() {
    let (cause, detail) = fault(|s| s.phrases[0].boxes[0].x2 = 1.5);
    assert_eq!(cause, Cause::BadBox);
    assert_eq!(
        detail,
        "phrase 0 (\"a grün dog\"): box is [0, 0.25, 1.5, 1]; expected 0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1, as fractions of the photo"
    );
}

#[test]
fn box_inverted_or_not_a_number() {
    let (cause, detail) = fault(|s| s.phrases[0].boxes[0].x1 = 0.75);
    assert_eq!(cause, Cause::BadBox);
    assert!(detail.contains("box is [0.75, 0.25, 0.5, 1]; expected 0 <= x1 < x2"));
    assert_eq!(fault(|s| s.phrases[0].boxes[0].y1 = f32::NAN).0, Cause::BadBox);
}

#[test]
fn span_outside_its_caption() {
    let (cause, detail) = fault(|s| s.phrases[0].spans[0].end = 16);
    assert_eq!(cause, Cause::BadSpan);
    assert_eq!(
        detail,
        "phrase 0 (\"a grün dog\"): span [0, 0, 16] is outside its caption of 15 characters; expected start < end <= 15"
    );
    let (cause, detail) = fault(|s| s.phrases[0].spans[0].caption = 3);
    assert_eq!(cause, Cause::BadSpan);
    assert!(detail.ends_with("names caption 3; expected one of the 1 captions, counted from 0"));
}

#[test]
fn part_of_unknown_phrase() {
    for whole in [1, 2] {
        let (cause, detail) = fault(|s| s.phrases[1].part_of = Some(whole));
        assert_eq!(cause, Cause::BadRecord);
        assert!(detail.ends_with("expected another phrase, 0 to 1"), "{detail}");
    }
}

#[test]
fn tiers_of_unequal_length() {
    let (cause, detail) = fault(|s| {
        s.tiers =
            Some(Tiers { positive: vec!["animal".to_owned(), "dog".to_owned()], negative: vec!["plant".to_owned()] });
    });
    assert_eq!(cause, Cause::BadRecord);
    assert_eq!(detail, "1 negative tiers; expected 2, one per positive tier");
}

#[test]
fn clipping_is_limited_to_rounding_errors() {
    let near = BBox { x1: -0.005, y1: 0.0, x2: 1.009, y2: 1.0 };
    let whole = BBox { x1: 0.0, y1: 0.0, x2: 1.0, y2: 1.0 };
    assert_eq!(near.clipped(), whole);
    let far = BBox { x2: 1.02, ..whole };
    assert_eq!(far.clipped(), far);
}

#[test]
fn box_pixels_are_inside_and_not_empty() {
    let bbox = |x1, y1, x2, y2| BBox { x1, y1, x2, y2 };
    assert_eq!(BBox::from_pixels([10.0, 20.0, 30.0, 40.0], 100.0, 50.0).to_pixels(100, 50), [10, 20, 30, 40]);
    // A box of 1/1000 pixel in the last corner.
    assert_eq!(bbox(0.9999, 0.9999, 1.0, 1.0).to_pixels(10, 10), [9, 9, 10, 10]);
    // Partly covered pixels count in full: 0.55 * 10 = 5.5 starts at 5, and 0.61 * 10 = 6.1 ends at 7.
    assert_eq!(bbox(0.55, 0.0, 0.61, 1.0).to_pixels(10, 1), [5, 0, 7, 1]);
}

#[test]
fn cause_names_match_serde() {
    for &cause in Cause::ALL {
        assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{}\"", cause.name()));
    }
}
