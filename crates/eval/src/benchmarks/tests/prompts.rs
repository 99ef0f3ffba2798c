use std::collections::BTreeSet;
use std::path::Path;

use conifer_datasets::DATA_SETS;

use super::*;
use crate::benchmarks::prompts::{PromptFamily, fill, for_data_set, note};

/// (data set, number of OpenAI's templates, number of MERU's templates). OpenAI's numbers were counted in
/// data/prompts.md and the notebook of openai/CLIP; MERU's numbers are published. MERU has 6 templates for DTD, of
/// which one is published.
const COUNTS: [(&str, usize, usize); 20] = [
    ("imagenet", 80, 7),
    ("food101", 1, 2),
    ("cifar10", 18, 18),
    ("cifar100", 18, 18),
    ("cub2011", 1, 4),
    ("sun397", 2, 2),
    ("cars", 8, 8),
    ("aircraft", 2, 2),
    ("dtd", 8, 1),
    ("pets", 1, 1),
    ("caltech101", 34, 34),
    ("flowers102", 1, 1),
    ("stl10", 2, 2),
    ("eurosat", 3, 3),
    ("resisc45", 18, 18),
    ("country211", 5, 5),
    ("mnist", 1, 1),
    ("clevr", 1, 1),
    ("pcam", 1, 1),
    ("sst2", 1, 1),
];

#[test]
fn every_set_with_classes_has_templates_of_both_families() {
    // The data sets of the MERU family come first in the list. BREEDS uses ImageNet's prompts, and taxonomies have no
    // prompts.
    let of_classes: Vec<_> = DATA_SETS.iter().map(|set| set.name).take(COUNTS.len()).collect();
    assert_eq!(of_classes, COUNTS.map(|(name, ..)| name));
    for (name, openai, meru) in COUNTS {
        for (family, count) in PromptFamily::ALL.into_iter().zip([openai, meru]) {
            let templates = for_data_set(family, name).unwrap();
            let different: BTreeSet<_> = templates.iter().collect();
            assert_eq!((templates.len(), different.len()), (count, count), "{} of {name}", family.name());
            assert!(templates.iter().all(|template| template.matches("{}").count() == 1), "{templates:?}");
        }
    }
    assert_eq!(for_data_set(PromptFamily::OpenAi, "coco"), None);
    assert_eq!(for_data_set(PromptFamily::Meru, "svhn"), None);
    assert_eq!(note(PromptFamily::Meru, "food101"), None);
    assert!(note(PromptFamily::Meru, "dtd").unwrap().starts_with("one of MERU's six"));
    assert!(note(PromptFamily::Meru, "pets").unwrap().starts_with("OpenAI's"));
}

#[test]
fn openai_templates_are_those_of_its_file() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/prompts_classnames/openai_prompts_parsed.json");
    if !Path::new(path).exists() {
        eprintln!("skipped: {path} not found");
        return;
    }
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let names = [
        ("imagenet", "ImageNet"),
        ("food101", "Food101"),
        ("cifar10", "CIFAR10"),
        ("cifar100", "CIFAR100"),
        ("cub2011", "Birdsnap"),
        ("sun397", "SUN397"),
        ("cars", "StanfordCars"),
        ("aircraft", "FGVCAircraft"),
        ("dtd", "DescribableTextures"),
        ("pets", "OxfordPets"),
        ("caltech101", "Caltech101"),
        ("flowers102", "Flowers102"),
        ("stl10", "STL10"),
        ("eurosat", "EuroSAT"),
        ("resisc45", "RESISC45"),
        ("country211", "Country211"),
        ("mnist", "MNIST"),
        ("clevr", "CLEVRCounts"),
        ("pcam", "PatchCamelyon"),
        ("sst2", "SST2"),
    ];
    for (ours, theirs) in names {
        let published: BTreeSet<_> =
            file[theirs]["templates"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let found: BTreeSet<_> = for_data_set(PromptFamily::OpenAi, ours).unwrap().iter().copied().collect();
        assert_eq!(found, published, "{ours}");
    }
}

#[test]
fn names_are_filled_in_as_they_are_and_labels_as_words() {
    assert_eq!(fill(&["a {}.".to_owned()], "BAE 146-200"), ["a BAE 146-200."]);
    let photo = |label: &str| Sample { label: Some(label.into()), ..sample(label, 0) };
    let embedder = euclidean(&[("arctic tern", [0.0; 2])], &[(0, [0.0; 2])]);
    let records = run("zero_shot_classification", &embedder, vec![photo("Arctic_Tern")], None).unwrap();
    assert_eq!(value(&records, "all", "accuracy (micro)"), 1.0);
}

#[test]
fn an_incomplete_data_set_is_reported() {
    let photo = |id: &str| Sample { label: Some("cat".into()), ..sample(id, 0) };
    let list = BenchmarkSamples(vec![photo("a"), photo("b")]);
    let source = DescribedSamples { name: "torso", list, classes: Vec::new(), complete: Some(3), left_out: None };
    let embedder = euclidean(&[("cat", [0.0; 2])], &[(0, [0.0; 2])]);
    let benchmark = find("zero_shot_classification").unwrap();
    let mut options = Options { templates: vec!["{}".into()], ..Options::default() };
    let error = measure(benchmark, &Context::new(&embedder, &source, None, &options)).unwrap_err().to_string();
    assert!(error.contains("a part of `torso` is missing; the data set has 3 samples, 2 were found"), "{error}");
    options.partial = true;
    let records = measure(benchmark, &Context::new(&embedder, &source, None, &options)).unwrap();
    assert!(records[0].protocol.ends_with(", partial: 2 of 3 samples"), "{}", records[0].protocol);
}
