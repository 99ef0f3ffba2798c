use conifer_data::ClassEntry;

use super::*;

/// The texts are points on a line: "cup" (-2) is behind "thing" (-1), and "cat" (4) behind "animal" (1). Four photos of
/// the cup are at 0.05, which is nearer to "animal" than to "thing" by 0.1. Two photos of the cat are at 4.
fn embedder() -> LookupEmbedder {
    let labels = [("animal", 1.0), ("thing", -1.0), ("cat", 4.0), ("cup", -2.0)];
    let mut texts: BTreeMap<String, [f32; 2]> = labels.iter().map(|&(label, x)| (label.to_owned(), [x, 0.0])).collect();
    for (x, _) in labels {
        for (y, _) in labels {
            for prompt in [
                format!("a picture of a {y}, a type of {x}"),
                format!("a {x} of type {y}"),
                format!("this is a {y}, a type of {x}"),
                format!("a picture of a {x} of type {y}"),
                format!("a picture of a {y} which is a {x}"),
            ] {
                texts.insert(prompt, [100.0, 0.0]);
            }
        }
    }
    // With this prompt with two slots, the correct pair is at the photo if the general label comes first.
    texts.insert("a thing of type cup".into(), [0.05, 0.0]);
    texts.insert("a animal of type cat".into(), [4.0, 0.0]);
    LookupEmbedder { spec: ManifoldSpec::euclidean(2), texts, images: [(0, [0.05, 0.0]), (1, [4.0, 0.0])].into() }
}

fn photos() -> Vec<Sample> {
    let of = |id: &str, image, taxon: [&str; 2]| Sample {
        taxon: taxon.map(str::to_owned).to_vec(),
        label: Some(taxon[1].to_owned()),
        ..sample(id, image)
    };
    let mut samples: Vec<_> = ["a", "b", "c", "d"].iter().map(|id| of(id, 0, ["thing", "cup"])).collect();
    samples.extend(["e", "f"].iter().map(|id| of(id, 1, ["animal", "cat"])));
    samples
}

fn record<'a>(records: &'a [Record], protocol: &str, metric: &str) -> &'a Record {
    let is = |it: &&Record| it.protocol.starts_with(protocol) && it.metric == metric;
    records.iter().find(is).unwrap_or_else(|| panic!("{protocol} {metric} in {records:?}"))
}

#[test]
fn breeds_by_hand() {
    let records = run("breeds", &embedder(), photos(), None).unwrap();
    let third = 2.0 / 6.0;
    for (protocol, metric, expected) in [
        // For a photo of the cup, (thing, cup) scores -1.05 - 2.05 and (animal, cat) -0.95 - 3.95. The retrieval is
        // correct for any C.
        ("C = 0, pairs of the tree", "recall@1", 1.0),
        ("-C angle, pairs of the tree", "C for recall@1, mean of the two", 0.0),
        // (animal, cup) scores -3.0, (thing, cup) -3.1. The cup is at 180 degrees seen from the animal and at 0 seen
        // from the thing.
        ("C = 0, general x specific", "recall@1", third),
        ("+C angle, as printed, general x specific", "recall@1", third),
        ("-C angle, general x specific", "recall@1", 1.0),
        // The correct pair wins if C pi exceeds 0.1: 3 * 0.2 / 19 * pi = 0.0992 is too small, 4 * 0.2 / 19 * pi = 0.132
        // is enough.
        ("-C angle, general x specific", "C for recall@1, mean of the two", -4.0 * 0.2 / 19.0),
        ("C = 0, general x specific", "recall@5", 1.0),
        // Five pairs score at least as high as (thing, cup): animal with thing (-2.0) and animal with cup (-3.0), each
        // in both orders, and (cup, thing) as a tie.
        ("C = 0, any two labels", "recall@5", third),
        ("+C angle, as printed, any two labels", "recall@5", third),
        // Any C other than 0 breaks the tie: the thing is at 180 degrees seen from the cup.
        ("-C angle, any two labels", "recall@5", 1.0),
        ("-C angle, any two labels", "C for recall@5, mean of the two", -0.2 / 19.0),
        // For photos of the cat, (animal, cat) and (cat, animal) tie at -3. For photos of the cup, other pairs score
        // higher, as above.
        ("C = 0, any two labels", "recall@1", 0.0),
        ("one prompt \"a {general} of type {specific}\", any two labels", "recall@1", 1.0),
        // All texts of the other prompts are at the same point.
        ("one prompt \"a picture of a {specific}, a type of {general}\", pairs of the tree", "recall@1", 0.0),
        ("one prompt \"this is a {specific}, a type of {general}\", general x specific", "recall@5", 1.0),
        ("one prompt \"this is a {specific}, a type of {general}\", any two labels", "recall@5", 0.0),
    ] {
        let found = record(&records, protocol, metric);
        assert!((found.value - expected).abs() < 1e-12 && found.n == 6, "{protocol}: {found:?}, not {expected}");
    }
    for (set, pairs) in [("pairs of the tree", 2.0), ("general x specific", 4.0), ("any two labels", 12.0f64)] {
        let (one, five) = ("recall@1", "recall@5");
        let chance = |metric| record(&records, &format!("C = 0, {set}"), metric).baseline.as_ref().unwrap().value;
        assert_eq!((chance(one), chance(five)), (1.0 / pairs, (5.0 / pairs).min(1.0)), "{set}");
    }
}

#[test]
fn breeds_reports_what_it_left_out() {
    let class = |taxon: [&str; 2]| ClassEntry {
        label: taxon[1].into(),
        name: taxon[1].into(),
        taxon: taxon.map(str::to_owned).to_vec(),
    };
    // One of the two classes has no photos.
    let cups = DescribedSamples {
        name: "listed",
        list: BenchmarkSamples(photos()[..4].to_vec()),
        classes: [["thing", "cup"], ["animal", "cat"]].map(class).to_vec(),
        complete: None,
        left_out: Some("3 photos in 1 of 3 folders left out".into()),
    };
    let (embedder, benchmark) = (embedder(), find("breeds").unwrap());
    let strict = Options { templates: vec!["{}".into()], ..Options::default() };
    let text = measure(benchmark, &Context::new(&embedder, &cups, None, &strict)).unwrap_err().to_string();
    assert!(text.contains("every photo of 1 of 2 classes (first: `cat`)"), "{text}");
    let partial = Options { partial: true, ..strict };
    let records = measure(benchmark, &Context::new(&embedder, &cups, None, &partial)).unwrap();
    // The cat remains a candidate although it has no photo, so the tree has two pairs.
    let found = record(&records, "C = 0, pairs of the tree", "recall@1");
    assert_eq!((found.n, found.baseline.as_ref().unwrap().value), (4, 0.5));
    assert!(
        found.protocol.ends_with("partial: 3 photos in 1 of 3 folders left out, 1 of 2 classes have photos"),
        "{found:?}"
    );

    let mut some = photos();
    some.push(sample("without names", 0));
    let records = run("breeds", &embedder, some, None).unwrap();
    assert!(
        records.iter().all(|it| it.protocol.ends_with("partial: 6 of 7 samples have a pair of names")),
        "{records:?}"
    );
}

#[test]
fn breeds_names_what_is_missing() {
    let fails = |samples, embedder: &LookupEmbedder| run("breeds", embedder, samples, None).unwrap_err().to_string();
    let text = fails(vec![sample("a", 0)], &embedder());
    assert!(text.contains("the taxon of every sample is missing"), "{text}");
    let text = fails(photos()[..1].to_vec(), &embedder());
    assert!(text.contains("C is chosen on one half"), "{text}");
    let mut broken = embedder();
    broken.texts.insert("cup".into(), [f32::NAN, 0.0]);
    let text = fails(photos(), &broken);
    assert!(text.contains("not a number"), "{text}");
    let options = Options { templates: vec!["a cup".into()], ..Options::default() };
    let source = BenchmarkSamples(photos());
    let text = measure(find("breeds").unwrap(), &Context::new(&embedder(), &source, None, &options)).unwrap_err();
    assert!(text.to_string().contains("each with {} for the class name"), "{text}");
}

/// Measures the task entity13 on the photos of birds525: three of its 260 classes are present, with three photos each.
#[test]
fn breeds_on_birds_at_hand() {
    let shared = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let (info, birds) = (shared.join("breeds/modified"), shared.join("birds525/images"));
    if !info.exists() || !birds.exists() {
        eprintln!("skipped: {} or {} not found", info.display(), birds.display());
        return;
    }
    let options = [("info", info.to_str().unwrap()), ("task", "entity13"), ("unknown", "skip")];
    let spec = conifer_data::SourceSpec {
        kind: "breeds".into(),
        path: Some(birds),
        options: options.map(|(key, value)| (key.to_owned(), value.into())).into(),
        ..conifer_data::SourceSpec::default()
    };
    let source = conifer_datasets::open(&spec).unwrap();
    let options = Options { partial: true, ..Options::default() };
    let records =
        measure(find("breeds").unwrap(), &Context::new(&HashEmbedder, source.as_ref(), None, &options)).unwrap();
    // 13 superclasses and 260 classes make 273 labels.
    for (set, pairs) in
        [("pairs of the tree", 260.0), ("general x specific", 3380.0), ("any two labels", 273.0 * 272.0)]
    {
        let found = record(&records, &format!("-C angle, {set}"), "recall@1");
        assert_eq!((found.n, found.baseline.as_ref().unwrap().value), (9, 1.0 / pairs), "{found:?}");
        assert!(
            found.protocol.contains("474 of 486 folders left out")
                && found.protocol.ends_with("3 of 260 classes have photos")
        );
    }
    let slots: Vec<_> = records.iter().filter(|it| it.protocol.starts_with("one prompt")).collect();
    assert_eq!(slots.len(), 5 * 2 * 2, "any two labels are skipped: 74256 prompts each");
    assert!(slots.iter().all(|it| it.protocol.contains("sets of more than 20000 pairs not run")));
}
