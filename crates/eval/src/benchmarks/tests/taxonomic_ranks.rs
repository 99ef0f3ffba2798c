use super::*;

#[test]
fn taxonomic_ranks_by_hand() {
    let embedder = euclidean(
        &[("A", [1.0, 0.0]), ("A b", [2.0, 0.0]), ("A c", [2.0, 2.0]), ("A b x", [3.0, 0.0]), ("A c y", [3.0, 3.0])],
        &[(0, [3.1, 0.0]), (1, [2.4, 0.1])],
    );
    let taxon =
        |id: &str, image, names: [&str; 3]| Sample { taxon: names.map(str::to_owned).to_vec(), ..sample(id, image) };
    // The second photo is of "A c y" but nearest to "A b".
    let samples = vec![taxon("a", 0, ["A", "b", "x"]), taxon("b", 1, ["A", "c", "y"])];
    let records = run("taxonomic_ranks", &embedder, samples, None).unwrap();
    for (rank, right) in [("rank 1", 1.0), ("rank 2", 0.5), ("rank 3", 0.5)] {
        assert_eq!(value(&records, rank, "accuracy"), right, "{rank}");
    }
    assert_eq!(value(&records, "all", "tau_d"), 1.0);
    assert_eq!(records[1].baseline.as_ref().unwrap().value, 0.5);
    // Most similar among the complete taxa "A b x" and "A c y": both photos get "A b x".
    let of = |split: &str, metric: &str| {
        let is = |it: &&Record| it.protocol.contains("whole taxon") && it.split == split && it.metric == metric;
        records.iter().find(is).map(|it| (it.value, it.baseline.as_ref().unwrap().value)).unwrap()
    };
    assert_eq!(of("rank 1", "accuracy"), (1.0, 1.0));
    assert_eq!(of("rank 3", "accuracy"), (0.5, 0.5));
    assert_eq!(of("rank 3", "accuracy (macro)"), (0.5, 0.5));
    // The only other photo has the same kingdom and another taxon at the lower ranks.
    for (rank, right) in [("rank 1", 1.0), ("rank 2", 0.0), ("rank 3", 0.0)] {
        assert_eq!(value(&records, rank, "recall@1"), right, "{rank}");
    }
    assert!(!records.iter().any(|it| it.protocol.contains("among")), "a single kingdom is not measured separately");
    let error = run("taxonomic_ranks", &embedder, vec![sample("d", 0)], None).unwrap_err().to_string();
    assert!(error.contains("at least two ranks"), "{error}");
}

/// Taxa and labels of other samples are candidates if the context names them.
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

/// With two kingdoms, photos are also classified among the taxa of their kingdom alone.
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
