//! Tests `hierarcaps` with the candidates of a second data set.

use super::*;

fn chain(id: &str, image: u8, tiers: &[&str]) -> Sample {
    let positive = tiers.iter().map(|&tier| tier.to_owned()).collect();
    Sample { tiers: Some(Tiers { positive, negative: Vec::new() }), ..sample(id, image) }
}

fn measured(samples: Vec<Sample>, candidates: Option<Vec<Sample>>) -> Result<Vec<Record>> {
    // The texts lie on a line at depths 1, 2, 2.5 and 3.
    let embedder = euclidean(
        &[("animal", [1.0, 0.0]), ("dog", [2.0, 0.0]), ("puppy", [2.5, 0.0]), ("a dog runs", [3.0, 0.0])],
        &[(0, [3.2, 0.0])],
    );
    let (source, options) = (BenchmarkSamples(samples), Options::default());
    let candidates = candidates.map(BenchmarkSamples);
    let candidates = candidates.as_ref().map(|it| it as &dyn Source);
    let context = Context::new(&embedder, &source, None, &options).with_chain_candidates(candidates);
    measure(find("hierarcaps")?, &context)
}

/// The photo at 3.2 retrieves every text on the line. "puppy" is not a tier of the photo. "animal" and "dog" of the
/// second set are already candidates.
#[test]
fn candidates_of_a_second_set_are_added() {
    let photo = || vec![chain("a", 0, &["animal", "dog", "a dog runs"])];
    let more = vec![chain("b", 9, &["animal", "puppy"]), chain("c", 9, &["dog", "puppy"]), sample("no tiers", 9)];
    let records = measured(photo(), Some(more)).unwrap();
    let of = |protocol: &str, metric: &str| {
        let protocol = format!("50 levels, {protocol}, similarity, more candidates: 1");
        let is = |it: &&Record| it.split == "all" && it.protocol == protocol && it.metric == metric;
        records.iter().find(is).unwrap_or_else(|| panic!("{protocol} {metric} in {records:?}")).value
    };
    // The photo retrieves animal, dog, puppy, a dog runs. Without the first text, these are dog, puppy, a dog runs.
    assert_eq!((of("released", "precision"), of("released", "recall")), (0.75, 1.0));
    assert_eq!((of("paper", "precision"), of("paper", "recall")), (2.0 / 3.0, 2.0 / 3.0));
    // tau_d uses only the photo's own tiers.
    assert_eq!(of("released", "tau_d"), 1.0);
    // A second set without a new text changes neither the numbers nor the protocol names.
    let same = measured(photo(), Some(vec![chain("b", 9, &["animal", "dog"])])).unwrap();
    assert_eq!(same, measured(photo(), None).unwrap());
}

#[test]
fn candidates_without_chains_are_refused() {
    let photo = vec![chain("a", 0, &["animal", "dog"])];
    let none = measured(photo.clone(), Some(vec![sample("b", 9)])).unwrap_err().to_string();
    assert!(none.contains("hierarcaps") && none.contains("candidates `list`") && none.contains("1 samples"), "{none}");
    let empty = measured(photo, Some(Vec::new())).unwrap_err().to_string();
    assert!(empty.contains("candidates `list`") && empty.contains("0 samples"), "{empty}");
}
