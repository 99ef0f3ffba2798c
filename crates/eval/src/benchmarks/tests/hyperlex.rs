use super::*;

fn graded(general: &str, specific: &str, grade: f64, split: &str) -> Sample {
    let positive = vec![general.to_owned(), specific.to_owned()];
    Sample {
        id: format!("{specific} {general}"),
        tiers: Some(Tiers { positive, negative: Vec::new() }),
        grade: Some(grade),
        split: Some(split.to_owned()),
        ..Sample::default()
    }
}

fn rho<'a>(records: &'a [Record], split: &str, score: &str) -> &'a Record {
    let is = |it: &&Record| it.split == split && it.protocol.starts_with(&format!("{score}, \""));
    records.iter().find(is).unwrap_or_else(|| panic!("{split} {score} in {records:?}"))
}

/// The words are points of the plane, and the root is the origin: fish (1, 0), trout (2, 0) straight behind it, sole
/// (2, 1), dog (0, 3).
#[test]
fn hyperlex_by_hand() {
    let texts = [("fish", [1.0, 0.0]), ("trout", [2.0, 0.0]), ("sole", [2.0, 1.0]), ("dog", [0.0, 3.0])];
    let prompts: Vec<_> = texts.iter().map(|(word, point)| (format!("a picture of a {word}"), *point)).collect();
    let embedder = euclidean(&prompts.iter().map(|(text, point)| (text.as_str(), *point)).collect::<Vec<_>>(), &[]);
    // By the grades, a sole is a fish, a trout even more so, a dog less so, and a fish is not a trout. The exterior
    // angles at fish are 45, 0 and 108.4 degrees, and the angle at trout towards fish is 180 degrees.
    let samples = vec![
        graded("fish", "sole", 8.0, "N"),
        graded("fish", "trout", 9.0, "N"),
        graded("fish", "dog", 3.0, "V"),
        graded("trout", "fish", 2.0, "V"),
    ];
    let records = run("hyperlex", &embedder, samples, None).unwrap();
    assert_eq!(records.len(), 21, "six scores of all, nouns and verbs, one of them beside two trivial answers");
    let angle = rho(&records, "all", "minus exterior angle");
    assert!((angle.value - 1.0).abs() < 1e-12 && angle.n == 4, "{angle:?}");
    // The distances are sqrt 2, 1, sqrt 10 and 1. The similarities thus have the ranks 2, 3.5, 1, 3.5, and the grades
    // 3, 4, 2, 1. Relative to the mean 2.5, their products sum to -0.5 * 0.5 + 1 * 1.5 + 1.5 * 0.5 - 1 * 1.5 = 0.5.
    // rho is this sum over sqrt(4.5 * 5).
    let similarity = rho(&records, "all", "similarity");
    assert!((similarity.value - 0.5 / 22.5f64.sqrt()).abs() < 1e-12, "{similarity:?}");
    // The depth differences 1.24, 1, 2 and -1 have the ranks 3, 2, 4, 1, and the grades 3, 4, 2, 1. The squared rank
    // differences sum to 0 + 4 + 4 + 0, so rho is 1 - 6 * 8 / (4 * 15).
    let depth = rho(&records, "all", "depth, specific minus general");
    assert!((depth.value - 0.2).abs() < 1e-12, "{depth:?}");
    assert_eq!(rho(&records, "nouns", "minus exterior angle").value, 1.0);
    assert_eq!(rho(&records, "verbs", "depth, specific minus general").value, 1.0);
    // Fish is the general word of three pairs, and trout of one: ranks 3, 3, 3, 1 against the grades' 3, 4, 2, 1. So
    // rho is 0.5 * 0.5 + 0.5 * 1.5 - 0.5 * 0.5 + 1.5 * 1.5 = 3 over sqrt(3 * 5).
    let baseline = angle.baseline.as_ref().unwrap();
    assert_eq!(baseline.name, "pairs with this general word");
    assert!((baseline.value - 3.0 / 15.0f64.sqrt()).abs() < 1e-12, "{baseline:?}");
    // The length differences 0, 1, -1, -1 have the ranks 3, 4, 1.5, 1.5. rho is 0.5 * 0.5 + 1.5 * 1.5 + 1 * 0.5 +
    // 1 * 1.5 = 4.5 over sqrt(4.5 * 5).
    let again = &records[6];
    assert_eq!((&again.protocol, again.value), (&angle.protocol, angle.value));
    let baseline = again.baseline.as_ref().unwrap();
    assert_eq!(baseline.name, "characters, specific minus general");
    assert!((baseline.value - 4.5 / 22.5f64.sqrt()).abs() < 1e-12, "{baseline:?}");
    // The half apertures asin(0.1 / depth) are 0.1 at fish and 0.05 at trout. They do not change the order here.
    for score in ["minus cone excess", "minus angle / half aperture"] {
        assert!((rho(&records, "all", score).value - 1.0).abs() < 1e-12, "{score}");
    }
}

/// With the root at the centre of the sphere, the exterior angle is a right angle plus half the angle between the two
/// points. The angle ranks like the cosine, and all depths are 1.
#[test]
fn without_a_root_the_angle_is_the_cosine() {
    let words = ["ab", "cd", "ef", "gh", "ij"];
    let turn = |angle: f32| [angle.cos(), angle.sin()];
    let points = [0.0, 0.3, 1.4, 2.0, 2.9].map(turn);
    let texts = words.iter().zip(points).map(|(word, point)| (format!("a picture of a {word}"), point)).collect();
    let embedder = LookupEmbedder { spec: ManifoldSpec::sphere(2), texts, images: BTreeMap::new() };
    let samples: Vec<_> = (0..5).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
    let samples = samples.iter().map(|&(i, j)| graded(words[i], words[j], ((3 * i + j) % 7) as f64, "N")).collect();
    let records = run("hyperlex", &embedder, samples, None).unwrap();
    let of = |score: &str| rho(&records, "all", score).value;
    assert!(
        (of("minus exterior angle") - of("similarity")).abs() < 1e-12,
        "{} {}",
        of("minus exterior angle"),
        of("similarity")
    );
    assert!(of("similarity") != 0.0);
}

#[test]
fn hyperlex_names_what_is_missing() {
    let embedder = euclidean(&[("a picture of a dog", [0.0, 1.0]), ("a picture of a pug", [0.0, 2.0])], &[]);
    let fails = |samples| run("hyperlex", &embedder, samples, None).unwrap_err().to_string();
    let pair = graded("dog", "pug", 9.0, "N");
    let again = Sample { id: "again".into(), ..pair.clone() };
    let text = fails(vec![pair.clone(), pair.clone()]);
    assert!(text.contains("id of a sample is `pug dog`, twice"), "{text}");
    let text = fails(vec![pair.clone(), Sample { grade: None, ..again.clone() }]);
    assert!(text.contains("the graded chain of sample `again`"), "{text}");
    let short = Tiers { positive: vec!["dog".into()], negative: Vec::new() };
    assert!(fails(vec![Sample { tiers: Some(short), ..pair.clone() }]).contains("a general and a specific text"));
    let text = fails(vec![pair.clone(), again.clone()]);
    assert!(text.contains("all 2 pairs (all) have the grade 9"), "{text}");
    let text = fails(vec![pair, graded("pug", "dog", 1.0, "V"), again]);
    assert!(text.contains("all 2 pairs (nouns) have the grade 9"), "{text}");
}

fn published(split: Option<&str>) -> Option<Box<dyn Source>> {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/hyperlex"));
    if !path.exists() {
        eprintln!("skipped: {} not found", path.display());
        return None;
    }
    let (path, split) = (Some(path.to_owned()), split.map(str::to_owned));
    let spec = conifer_data::SourceSpec { kind: "hyperlex".into(), path, split, ..Default::default() };
    Some(conifer_datasets::open(&spec).unwrap())
}

/// Measures the verbs of the published file with uninformative embeddings: seven records of 453 pairs, all close to 0.
#[test]
fn hyperlex_on_the_published_verbs() {
    let Some(source) = published(Some("V")) else { return };
    let options = Options::default();
    let records =
        measure(find("hyperlex").unwrap(), &Context::new(&HashEmbedder, source.as_ref(), None, &options)).unwrap();
    let verbs: Vec<_> = records.iter().filter(|it| it.split == "verbs").collect();
    assert_eq!((records.len(), verbs.len()), (14, 7));
    // The expected number was computed independently in Python.
    assert!((verbs[0].baseline.as_ref().unwrap().value - 0.155_663_9).abs() < 1e-6, "{:?}", verbs[0].baseline);
    for record in verbs {
        // The standard error of a correlation of 0 is 1 / sqrt(452) = 0.047.
        assert!(record.n == 453 && record.value.abs() < 0.2, "{record:?}");
    }
}

/// Checks the baseline on the published pairs. The expected numbers were computed independently in Python.
#[test]
fn prevalence_of_the_general_word_correlates_with_grades() {
    for (split, expected) in [(None, 0.388_421_3), (Some("N"), 0.420_907_2)] {
        let Some(source) = published(split) else { return };
        let samples: Vec<Sample> = (0..source.len()).map(|index| source.get(index).unwrap()).collect();
        let general: Vec<&str> = samples.iter().map(|it| it.tiers.as_ref().unwrap().positive[0].as_str()).collect();
        let counts = crate::benchmarks::hyperlex::prevalence(general.iter().copied());
        let found: Vec<f64> = general.iter().map(|word| counts[word]).collect();
        let grades: Vec<f64> = samples.iter().map(|it| it.grade.unwrap()).collect();
        let rho = crate::metrics::spearman(&found, &grades);
        assert!((rho - expected).abs() < 1e-6, "{split:?}: {rho}");
    }
}
