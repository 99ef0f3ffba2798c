use std::sync::Arc;

use conifer_data::BBox;

use super::super::detection::novel::{BASE, NOVEL};
use super::*;

/// A photo of 10 x 10 pixels; `values` are the values of its columns.
fn columns(values: [u8; 10]) -> Option<ImageRef> {
    let rgb = (0..100).flat_map(|i| [values[i % 10]; 3]).collect();
    Some(ImageRef::Pixels(Arc::new(Picture { width: 10, height: 10, rgb })))
}

/// A box of the columns `from..to`. [`LookupEmbedder`] looks up its point by the value of its first column.
fn object(class: &str, from: u8, to: u8) -> Phrase {
    let bbox = BBox { x1: f32::from(from) / 10.0, y1: 0.0, x2: f32::from(to) / 10.0, y2: 1.0 };
    Phrase { text: class.into(), boxes: vec![bbox], ..Phrase::default() }
}

fn photo_with(id: &str, values: [u8; 10], phrases: Vec<Phrase>) -> Sample {
    Sample { id: id.into(), image: columns(values), phrases, ..Sample::default() }
}

fn record<'a>(records: &'a [Record], split: &str, protocol: &str, metric: &str) -> &'a Record {
    let is = |it: &&Record| it.split == split && it.protocol == protocol && it.metric == metric;
    records.iter().find(is).unwrap_or_else(|| panic!("{split}, {protocol}, {metric} in {records:?}"))
}

#[test]
fn average_precision_of_four_boxes() {
    // The points lie on a line; positions are in hundredths. The prompt for cats is at 0, and the prompt for dogs at 4.
    // Photo a has a cat at 1.5 and a dog at 1, whose boxes have an IoU of 4/5. Photo b has a dog at 4 and a cat at -2.
    let samples = || {
        let group = Phrase { group_of: true, ..object("cat", 0, 9) };
        vec![
            photo_with("a", [0, 1, 0, 0, 0, 0, 0, 0, 0, 0], vec![object("cat", 0, 5), object("dog", 1, 5), group]),
            photo_with("b", [2, 2, 2, 2, 2, 3, 3, 3, 3, 3], vec![object("dog", 0, 5), object("cat", 5, 10)]),
        ]
    };
    let embedder = euclidean(
        &[("cat", [0.0, 0.0]), ("dog", [0.04, 0.0])],
        &[(0, [0.015, 0.0]), (1, [0.01, 0.0]), (2, [0.04, 0.0]), (3, [-0.02, 0.0])],
    );
    let records = run("detection", &embedder, samples(), None).unwrap();
    let check = |protocol: &str, metric: &str, expected: f64, trivial: f64| {
        let protocol = format!("1 prompts, {protocol}, boxes of groups left out: 1");
        let found = record(&records, "all classes", &protocol, metric);
        assert!((found.value - expected).abs() < 1e-9, "{found:?}; expected {expected}");
        assert!((found.baseline.as_ref().unwrap().value - trivial).abs() < 1e-12 && found.n == 4, "{found:?}");
    };
    let every = "every class per box, similarity";
    // Ranked as cats, the boxes have the similarities dog -1, cat -1.5, cat -2, dog -4: precision 1/2 at the first cat,
    // 2/3 at the second. Ranked as dogs, they have dog 0, cat -2.5, dog -3, cat -6: precision 1, then 2/3.
    check(every, "AP (all points)", ((1.0 / 4.0 + 1.0 / 3.0) + (1.0 / 2.0 + 1.0 / 3.0)) / 2.0, 0.5);
    check(every, "AP (101 points)", (2.0 / 3.0 + (51.0 + 50.0 * 2.0 / 3.0) / 101.0) / 2.0, 0.5);
    // The detection of the dog in photo a matches the box of the overlapping cat, and the detection of the cat matches
    // the box of the dog. The ranking of cats is therefore right, wrong, right, and the ranking of dogs right, right.
    check(every, "AP50 (101 points, IoU matching)", ((51.0 + 50.0 * 2.0 / 3.0) / 101.0 + 1.0) / 2.0, 0.5);
    // The log odds of cat are 1 (cat), 2 (dog), -4 (dog) and 4 (cat). The ranking of cats is therefore cat, dog, cat,
    // and the ranking of dogs is dog, cat, dog.
    check("every class per box, softmax of 100 x similarity", "AP (all points)", 5.0 / 6.0, 0.5);
    // The dog of photo a is classified as a cat. The ranking of cats does not change, and one of the dogs is never
    // found. The baseline "always cat" has 1/2 for cats and 0 for dogs.
    check("top-1 class per box, similarity", "AP (all points)", (7.0 / 12.0 + 1.0 / 2.0) / 2.0, 0.25);
    check("top-1 class per box, similarity", "AP (101 points)", (2.0 / 3.0 + 51.0 / 101.0) / 2.0, 0.25);
    assert!(records.iter().all(|it| it.interval.is_some() && it.baseline.is_some()));

    let alone = run("detection", &embedder, samples()[..1].to_vec(), None).unwrap_err().to_string();
    assert!(alone.contains("in a second photo is missing"), "{alone}");
    let bare = vec![photo_with("a", [0; 10], Vec::new())];
    assert!(run("detection", &embedder, bare, None).unwrap_err().to_string().contains("every phrase with a box"));
    let nowhere = euclidean(&[("cat", [f32::NAN, 0.0]), ("dog", [0.0; 2])], &[(0, [0.0; 2]), (1, [0.0; 2])]);
    let flat =
        vec![photo_with("a", [0; 10], vec![object("cat", 0, 5)]), photo_with("b", [1; 10], vec![object("dog", 0, 5)])];
    assert!(run("detection", &nowhere, flat, None).unwrap_err().to_string().contains("not a number"));
}

#[test]
fn a_vote_of_five_on_a_line() {
    // Photo a has cats at 0, 1 and 2, photo b has cats at 3 and 4, and photo c has dogs at 10, 11, 12 and 13. Photo b
    // also has a very small box of a dog at 4.5.
    let speck = Phrase { boxes: vec![BBox { x1: 0.91, y1: 0.0, x2: 0.99, y2: 0.09 }], ..object("dog", 9, 10) };
    let samples = vec![
        photo_with(
            "a",
            [0, 1, 2, 0, 0, 0, 0, 0, 0, 0],
            vec![object("cat", 0, 1), object("cat", 1, 2), object("cat", 2, 3)],
        ),
        photo_with("b", [3, 4, 0, 0, 0, 0, 0, 0, 0, 45], vec![object("cat", 0, 1), object("cat", 1, 2), speck]),
        photo_with(
            "c",
            [10, 11, 12, 13, 0, 0, 0, 0, 0, 0],
            vec![object("dog", 0, 1), object("dog", 1, 2), object("dog", 2, 3), object("dog", 3, 4)],
        ),
    ];
    let points: Vec<(u8, [f32; 2])> = [0, 1, 2, 3, 4, 10, 11, 12, 13]
        .map(|x| (x, [f32::from(x), 0.0]))
        .into_iter()
        .chain([(45, [4.5, 0.0])])
        .collect();
    let embedder = euclidean(&[("cat", [0.0, 0.0]), ("dog", [10.0, 0.0])], &points);
    let records = run("detection", &embedder, samples, None).unwrap();
    let check = |who: &str, size: &str, [micro, macro_]: [f64; 2], [usual, n]: [f64; 2]| {
        let protocol = format!("top-5 vote of {who}, {size}, similarity");
        let found = record(&records, "all classes", &protocol, "accuracy (micro)");
        assert!((found.value - micro).abs() < 1e-12 && found.n as f64 == n, "{found:?}");
        assert!((found.baseline.as_ref().unwrap().value - usual).abs() < 1e-12, "{found:?}");
        let found = record(&records, "all classes", &protocol, "accuracy (macro)");
        assert!((found.value - macro_).abs() < 1e-12, "{found:?}");
        assert_eq!(found.baseline.as_ref().unwrap().value, 0.5);
    };
    let large = "boxes of at least 1 % of the photo";
    // Without the small box, the four nearest boxes of each cat are the other cats, and the three nearest boxes of each
    // dog are the other dogs.
    check("other boxes", large, [1.0, 1.0], [5.0 / 9.0, 9.0]);
    // With voters of other photos, each cat of a has two cats (3 and 4) and three dogs as voters, each cat of b has
    // three cats, and each dog has cats.
    check("other photos' boxes", large, [2.0 / 9.0, (2.0 / 5.0) / 2.0], [5.0 / 9.0, 9.0]);
    // The small box is a dog among cats, so its vote is wrong. The other votes do not change.
    check("other boxes", "boxes of every size", [9.0 / 10.0, (1.0 + 4.0 / 5.0) / 2.0], [0.5, 10.0]);
}

#[test]
fn a_vote_of_specks() {
    let speck = |class: &str| {
        let bbox = BBox { x1: 0.0, y1: 0.0, x2: 0.05, y2: 0.05 };
        vec![Phrase { boxes: vec![bbox], ..object(class, 0, 1) }]
    };
    let samples = vec![photo_with("a", [0; 10], speck("cat")), photo_with("b", [1; 10], speck("cat"))];
    let embedder = euclidean(&[("cat", [0.0; 2])], &[(0, [0.0; 2]), (1, [1.0; 2])]);
    let error = run("detection", &embedder, samples.clone(), None).unwrap_err().to_string();
    assert!(error.contains("boxes of at least 1 % of the photo in a second photo is missing"), "{error}");
    let options = Options { templates: vec!["{}".into()], partial: true, ..Options::default() };
    let source = BenchmarkSamples(samples);
    let records = measure(find("detection").unwrap(), &Context::new(&embedder, &source, None, &options)).unwrap();
    let votes: Vec<_> = records.iter().filter(|it| it.metric.starts_with("accuracy")).collect();
    assert!(votes.len() == 4 && votes.iter().all(|it| it.value == 1.0), "{votes:?}");
    assert!(
        records.iter().all(|it| it.protocol.ends_with(", partial: no vote among boxes of at least 1 % of the photo"))
    );
}

#[test]
fn equal_boxes_do_not_elect_the_right_class() {
    let box_of = |id: &str, class: &str| photo_with(id, [0; 10], vec![object(class, 0, 5)]);
    let samples: Vec<Sample> = (0..12).map(|i| box_of(&i.to_string(), if i < 6 { "cat" } else { "dog" })).collect();
    let embedder = euclidean(&[("cat", [0.0; 2]), ("dog", [0.0; 2])], &[(0, [1.0, 0.0])]);
    let records = run("detection", &embedder, samples, None).unwrap();
    assert!(records.iter().filter(|it| it.metric == "accuracy (micro)").all(|it| it.value == 0.0));
    let constant = record(&records, "all classes", "1 prompts, every class per box, similarity", "AP (all points)");
    assert_eq!(constant.value, constant.baseline.as_ref().unwrap().value);
}

/// Each of the 65 classes has one box at the point of the class, except that the cat is at the point of the dog.
#[test]
fn novel_and_base_classes_of_coco() {
    let names: Vec<&str> = BASE.into_iter().chain(NOVEL).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!((sorted.len(), BASE.len(), NOVEL.len()), (65, 48, 17));
    let place = |name: &str| names.iter().position(|it| *it == name).unwrap() as u8;
    let samples: Vec<Sample> = names
        .iter()
        .map(|name| photo_with(name, [place(if *name == "cat" { "dog" } else { name }); 10], vec![object(name, 0, 5)]))
        .collect();
    let texts: Vec<_> = names.iter().map(|name| (*name, [f32::from(place(name)), 0.0])).collect();
    let images: Vec<_> = (0..65).map(|i| (i, [f32::from(i), 0.0])).collect();
    let embedder = euclidean(&texts, &images);
    let first = "1 prompts, top-1 class per box, similarity";
    let records = run("detection", &embedder, samples.clone(), None).unwrap();
    let check = |split: &str, expected: f64, n: usize| {
        let found = record(&records, split, first, "AP (all points)");
        assert!((found.value - expected).abs() < 1e-9 && found.n == n, "{found:?}");
    };
    // No box is classified as a cat. Two boxes at equal distance are classified as dogs, one of them correctly.
    check("novel 17, of 65", 15.5 / 17.0, 65);
    check("base 48, of 65", 1.0, 65);
    check("all 65", 63.5 / 65.0, 65);
    check("novel 17, of 17", 15.5 / 17.0, 17);

    let fewer: Vec<Sample> = samples.iter().filter(|it| it.id != "toaster").cloned().collect();
    let error = run("detection", &embedder, fewer.clone(), None).unwrap_err().to_string();
    assert!(error.contains("1 of 65 classes of COCO (first: `toaster`)"), "{error}");
    let options = Options { templates: vec!["{}".into()], partial: true, ..Options::default() };
    let source = BenchmarkSamples(fewer);
    let records = measure(find("detection").unwrap(), &Context::new(&embedder, &source, None, &options)).unwrap();
    let noted = format!("{first}, partial: 64 of 65 classes of the split have boxes");
    assert!((record(&records, "all 65", &noted, "AP (all points)").value - 62.5 / 64.0).abs() < 1e-9);
    // Sharing a few classes with COCO is not enough to count as COCO.
    let records = run("detection", &embedder, samples[..3].to_vec(), None).unwrap();
    assert!(records.iter().all(|it| it.split == "all classes"));
}

/// The sample of COCO val2017: 79 photos with 624 regions, 5 of which are crowds.
#[test]
fn detection_on_boxes_of_coco() {
    let Some(samples) = coco_mini() else { return };
    assert_eq!(samples.len(), 79);
    let options = Options::default();
    let source = BenchmarkSamples(samples);
    let records = measure(find("detection").unwrap(), &Context::new(&HashEmbedder, &source, None, &options)).unwrap();
    // There are three splits of 65 classes, one of 17 and one of all 78, each with 2 scores x (3 metrics of every class
    // + 2 of the top-1 class), and 2 x 2 votes with two metrics each.
    assert_eq!(records.len(), 5 * 10 + 8);
    assert!(records.iter().all(|it| it.protocol.ends_with("boxes of groups left out: 5") && it.interval.is_some()));
    let vote = |size: &str| {
        let protocol = format!("top-5 vote of other photos' boxes, {size}, similarity, boxes of groups left out: 5");
        record(&records, "all classes", &protocol, "accuracy (micro)").n
    };
    assert_eq!((vote("boxes of every size"), vote("boxes of at least 1 % of the photo")), (619, 619 - 314));
    for it in records.iter().filter(|it| it.split == "novel 17, of 17" && it.metric == "AP (all points)") {
        // A hash carries no information, so the average precision is close to the share of boxes of the class.
        assert!(it.value < 0.2 && it.n < 619, "{it:?}");
    }
}
