use super::*;

#[test]
fn taxonomic_ranks_by_hand() {
    let embedder = euclidean(
        &[("A", [1.0, 0.0]), ("A b", [2.0, 0.0]), ("A c", [2.0, 2.0]), ("A b x", [3.0, 0.0]), ("A c y", [3.0, 3.0])],
        &[(0, [3.1, 0.0]), (1, [2.4, 0.1])],
    );
    let taxon =
        |id: &str, image, names: [&str; 3]| Sample { taxon: names.map(str::to_owned).to_vec(), ..sample(id, image) };
    // The taxon of the second photo is "A c y", but the photo is nearest to "A b".
    let samples = vec![taxon("a", 0, ["A", "b", "x"]), taxon("b", 1, ["A", "c", "y"])];
    let records = run("taxonomic_ranks", &embedder, samples, None).unwrap();
    for (rank, right) in [("rank 1", 1.0), ("rank 2", 0.5), ("rank 3", 0.5)] {
        assert_eq!(value(&records, rank, "accuracy"), right, "{rank}");
    }
    assert_eq!(value(&records, "all", "tau_d"), 1.0);
    assert_eq!(records[1].baseline.as_ref().unwrap().value, 0.5);
    // Among the complete taxa "A b x" and "A c y", both photos are most similar to "A b x".
    let of = |split: &str, metric: &str| {
        let is = |it: &&Record| it.protocol.contains("whole taxon") && it.split == split && it.metric == metric;
        records.iter().find(is).map(|it| (it.value, it.baseline.as_ref().unwrap().value)).unwrap()
    };
    assert_eq!(of("rank 1", "accuracy"), (1.0, 1.0));
    assert_eq!(of("rank 3", "accuracy"), (0.5, 0.5));
    assert_eq!(of("rank 3", "accuracy (macro)"), (0.5, 0.5));
    // The only other photo has the same kingdom, but another taxon at the lower ranks.
    for (rank, right) in [("rank 1", 1.0), ("rank 2", 0.0), ("rank 3", 0.0)] {
        assert_eq!(value(&records, rank, "recall@1"), right, "{rank}");
    }
    assert!(!records.iter().any(|it| it.protocol.contains("among")), "a single kingdom is not measured separately");
    let error = run("taxonomic_ranks", &embedder, vec![sample("d", 0)], None).unwrap_err().to_string();
    assert!(error.contains("at least two ranks"), "{error}");
}

/// A taxon is measured at the ranks that it has. "-" is a missing rank.
#[test]
fn missing_ranks_leave_the_others_in_place() {
    let embedder = euclidean(
        &[("A", [1.0, 0.0]), ("A b", [2.0, 0.0]), ("A x", [3.0, 3.0]), ("A y", [0.0, 3.0]), ("A b z", [3.0, 0.0])],
        &[(0, [3.1, 0.0]), (1, [3.0, 3.1]), (2, [3.1, 0.1])],
    );
    let taxon = |id: &str, image, names: [&str; 3]| {
        let names = names.map(|name| name.replace('-', ""));
        let missing_ranks = conifer_data::MissingRank::of_names(&names, &["kingdom", "phylum", "class"]);
        let taxon = names.into_iter().filter(|name| !name.is_empty()).collect();
        Sample { taxon, missing_ranks, ..sample(id, image) }
    };
    let samples = vec![
        taxon("whole", 0, ["A", "b", "z"]),
        taxon("gap", 1, ["A", "-", "x"]),
        taxon("other gap", 2, ["A", "-", "y"]),
    ];
    let records = run("taxonomic_ranks", &embedder, samples, None).unwrap();
    let at = |split: &str| {
        let record = records.iter().find(|it| it.split == split && it.metric == "accuracy").unwrap();
        (record.n, record.value)
    };
    // "A x" and "A y" lack the second rank; x and y are classes, the third rank. The photo of "y" is at "A b z".
    assert_eq!([at("rank 1"), at("rank 2")], [(3, 1.0), (1, 1.0)]);
    assert_eq!(at("rank 3").0, 3);
    assert!((at("rank 3").1 - 2.0 / 3.0).abs() < 1e-12);
    assert!(records[0].protocol.ends_with(", partial: 2 of 3 samples have no phylum"), "{}", records[0].protocol);
    // tau_d uses the ranks that a taxon has, so all three samples count.
    assert_eq!(records.iter().find(|it| it.metric == "tau_d").unwrap().n, 3);
    // The only triple is A, "A b", "A b z", on a line from the root.
    let violations = records.iter().find(|it| it.metric == "violations of Eq. 4").unwrap();
    assert_eq!((violations.n, violations.value), (1, 0.0));
}

/// If the data have common names, photos are also classified among the common names of the species. One species has no
/// common name and is represented by its joined names.
#[test]
fn common_names_at_the_last_rank() {
    let embedder = euclidean(
        &[
            ("A", [1.0, 0.0]),
            ("A b", [9.0, 0.0]),
            ("A c", [2.0, 0.0]),
            ("A d", [0.0, 5.0]),
            ("bee", [2.0, 0.1]),
            ("cat", [8.0, 0.0]),
        ],
        &[(0, [2.1, 0.1]), (1, [8.1, 0.0]), (2, [0.0, 5.1])],
    );
    let species = |id: &str, image, name: &str, common: Option<&str>| Sample {
        taxon: ["A", name].map(str::to_owned).to_vec(),
        common_name: common.map(str::to_owned),
        ..sample(id, image)
    };
    let samples =
        vec![species("x", 0, "b", Some("bee")), species("y", 1, "c", Some("cat")), species("z", 2, "d", None)];
    let records = run("taxonomic_ranks", &embedder, samples.clone(), None).unwrap();
    let value = |protocol: &str, split: &str| {
        records.iter().find(|it| it.protocol == protocol && it.split == split).map(|it| (it.n, it.value)).unwrap()
    };
    let (joined, common) =
        ("names joined, similarity", "names joined, common names of species (1 of 3 without), similarity");
    // The photos of b and c are near each other's joined names, but near their own common names.
    assert!((value(joined, "rank 2").1 - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(value(common, "rank 2"), (3, 1.0));
    assert_eq!(value(common, "rank 1"), value(joined, "rank 1"));
    let without = samples.into_iter().map(|it| Sample { common_name: None, ..it }).collect();
    let records = run("taxonomic_ranks", &embedder, without, None).unwrap();
    assert!(records.iter().all(|it| !it.protocol.contains("common")));
}

/// Taxa and labels of other samples are candidates, too, if the context has further candidates.
#[test]
fn candidates_of_all_splits() {
    let embedder = euclidean(&[("A", [0.0, 9.0]), ("A b", [1.0, 0.0]), ("A c", [2.0, 0.0])], &[(0, [1.8, 0.0])]);
    let taxon = |id: &str, name: &str, image| Sample {
        taxon: ["A", name].map(str::to_owned).to_vec(),
        label: Some(name.into()),
        ..sample(id, image)
    };
    let measured = BenchmarkSamples(vec![taxon("x", "b", 0)]);
    let all = BenchmarkSamples(vec![taxon("x", "b", 0), taxon("y", "c", 1)]);
    let options = Options::default();
    let context = Context::new(&embedder, &measured, None, &options);
    let benchmark = find("taxonomic_ranks").unwrap();
    let records = measure(benchmark, &context).unwrap();
    assert_eq!(value(&records, "rank 2", "accuracy"), 1.0);
    let context = context.with_candidates(Some(&all));
    let records = measure(benchmark, &context).unwrap();
    assert_eq!(value(&records, "rank 2", "accuracy"), 0.0, "c is nearer");
    assert!(records[0].protocol.contains("all splits"), "{}", records[0].protocol);
    let classes = context.classes("test", &[taxon("x", "b", 0)]).unwrap();
    assert_eq!(classes.iter().map(|it| &it.label[..]).collect::<Vec<_>>(), ["b", "c"]);
}

/// With two kingdoms, photos are also classified among only the taxa of their kingdom.
#[test]
fn taxa_of_ones_own_kingdom() {
    let embedder = euclidean(
        &[("A", [1.0, 0.0]), ("P", [-1.0, 0.0]), ("A b", [3.0, 0.0]), ("A c", [5.0, 0.0]), ("P d", [2.0, 0.0])],
        &[(0, [2.2, 0.0]), (1, [4.8, 0.0]), (2, [1.9, 0.0])],
    );
    let taxon =
        |id: &str, image, names: [&str; 2]| Sample { taxon: names.map(str::to_owned).to_vec(), ..sample(id, image) };
    let samples = vec![taxon("x", 0, ["A", "b"]), taxon("y", 1, ["A", "c"]), taxon("z", 2, ["P", "d"])];
    let records = run("taxonomic_ranks", &embedder, samples, None).unwrap();
    assert!((value(&records, "rank 2", "accuracy") - 2.0 / 3.0).abs() < 1e-12, "x is nearer to the plant");
    for kingdom in ["A", "P"] {
        let protocol = format!("names joined, among {kingdom}, similarity");
        let own = records.iter().find(|it| it.split == "rank 2" && it.protocol == protocol).unwrap();
        assert_eq!(own.value, 1.0, "{kingdom}");
    }
}
