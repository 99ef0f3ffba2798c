#![allow(clippy::unwrap_used)]

use conifer_data::hierarchy::ClassGraph;

use super::*;

/// root -> animal -> {dog, cat}; root -> vehicle -> car -> taxi
fn tree() -> ClassGraph {
    ClassGraph::from_edges(
        [
            ("root", "animal"),
            ("root", "vehicle"),
            ("animal", "dog"),
            ("animal", "cat"),
            ("vehicle", "car"),
            ("car", "taxi"),
        ]
        .map(|(p, c)| (p.to_owned(), c.to_owned())),
    )
    .unwrap()
}

#[test]
fn accuracy_of_a_table() {
    // Class 0 has 2 of 3 samples right, class 1 has 0 of 1, and class 2 has no sample.
    let it = accuracy(&[0, 0, 1, 0], &[0, 0, 0, 1], 3);
    assert_eq!(it, Accuracy { macro_average: (2.0 / 3.0 + 0.0) / 2.0, micro_average: 0.5 });
}

#[test]
fn rank_counts_ties_against_us() {
    let scores = [0.1, 0.9, 0.5, 0.5];
    assert_eq!(rank_of_best(&scores, |j| j == 1), Some(0));
    assert_eq!(rank_of_best(&scores, |j| j == 2), Some(2)); // 0.9 is better, the equal 0.5 counts as better
    assert_eq!(rank_of_best(&scores, |j| j == 2 || j == 3), Some(1)); // both are right: only 0.9 is ahead
    assert_eq!(rank_of_best(&[0.3; 5], |j| j == 0), Some(4)); // a constant model is last
    assert_eq!(rank_of_best(&scores, |_| false), None);
    assert_eq!(hit_at_k(&[0, 2, 1, 9], 2), 0.5);
}

#[test]
fn chance_of_a_hit() {
    // With 1 right candidate of 4, the chance is k/4. With 2 of 4, it is 1/2 for k = 1, 1 - (2/4)(1/3) = 5/6 for k = 2,
    // and 1 for k = 3.
    for (correct, k, expected) in [(1, 1, 0.25), (1, 4, 1.0), (2, 1, 0.5), (2, 2, 5.0 / 6.0), (2, 3, 1.0), (1, 9, 1.0)]
    {
        assert!((chance_hit_at_k(4, correct, k) - expected).abs() < 1e-12, "{correct} right, top {k}");
    }
}

#[test]
fn tree_distances_worked_out_by_hand() {
    let tree = tree();
    let at = |name: &str| tree.find(name).unwrap();
    let right = hierarchical_scores(&tree, at("dog"), at("dog"));
    assert_eq!((right.tree_induced_error, right.lca, right.lca_released), (0.0, 0.0, 1.0));
    let sibling = hierarchical_scores(&tree, at("cat"), at("dog"));
    assert_eq!((sibling.tree_induced_error, sibling.lca, sibling.lca_released), (2.0, 1.0, 1.0));
    assert_eq!((sibling.jaccard, sibling.precision, sibling.recall), (1.0, 1.0, 1.0));
    // The ancestors of taxi are {car, vehicle, root} and those of dog {animal, root}, so they share {root}.
    let far = hierarchical_scores(&tree, at("taxi"), at("dog"));
    assert_eq!((far.tree_induced_error, far.lca, far.lca_released), (5.0, 3.0, 3.0));
    assert_eq!((far.jaccard, far.precision, far.recall), (0.25, 1.0 / 3.0, 0.5));
    let back = hierarchical_scores(&tree, at("dog"), at("taxi"));
    assert_eq!((back.lca, back.lca_released), (3.0, 2.0)); // the released LCA is one-sided
    // The truth is dog. A random answer among dog, cat and taxi has TIE (0 + 2 + 5) / 3.
    let chance = random_hierarchical_scores(&tree, &[at("dog"), at("cat"), at("taxi")], &[at("dog"), at("dog")]);
    assert!((chance.tree_induced_error - 7.0 / 3.0).abs() < 1e-12);
}

#[test]
fn kendall_tau_of_small_permutations() {
    assert_eq!(pair_order_tau(&[0.0, 1.0, 2.0, 3.0]), 1.0);
    assert_eq!(pair_order_tau(&[3.0, 2.0, 1.0, 0.0]), -1.0);
    assert!((pair_order_tau(&[1.0, 0.0, 2.0, 3.0]) - 2.0 / 3.0).abs() < 1e-12); // one inversion of six
    assert_eq!(ordering_by_ascending(&[0.3, 0.1, 0.2]), [1, 2, 0]);
    assert_eq!(pair_order_tau(&[1.0, 1.0, 2.0]), 2.0 / 3.0); // the tie counts 0
}

#[test]
fn spearman_with_and_without_ties() {
    // The ranks 1, 2, 3, 4 and 1, 3, 2, 4 have the squared differences 0, 1, 1, 0, so rho is 1 - 6 * 2 / (4 * 15) =
    // 0.8.
    assert!((spearman(&[0.1, 0.2, 0.3, 9.0], &[1.0, 8.0, 2.0, 9.0]) - 0.8).abs() < 1e-12);
    assert!((spearman(&[1.0, 2.0, 3.0], &[5.0, 4.0, 3.0]) + 1.0).abs() < 1e-12);
    // The ranks are 1.5, 1.5, 3.5, 3.5 and 1, 2, 3, 4. Relative to the mean 2.5, rho is (-1)(-1.5) + (-1)(-0.5) + 0.5 +
    // 1.5 = 4 over sqrt(4 * 5).
    assert!((spearman(&[7.0, 7.0, 8.0, 8.0], &[1.0, 2.0, 3.0, 4.0]) - 4.0 / 20.0f64.sqrt()).abs() < 1e-12);
    assert_eq!(spearman(&[-0.0, 0.0, 1.0], &[0.0, -0.0, 2.0]), 1.0);
    assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).is_nan());
    // In the outcomes of a benchmark, a constant score has correlation 0.
    let constant = crate::Outcomes::Spearman { found: vec![1.0; 3], truth: vec![1.0, 2.0, 3.0] };
    assert_eq!((constant.value(), constant.interval(&BootstrapUnits::Rows(3), 0)), (0.0, Some([0.0, 0.0])));
}

#[test]
fn a_widening_ball_finds_general_before_specific() {
    let depths = [0.0, 1.0, 2.0, 3.0];
    let by_depth = ordering_by_ascending(&depths);
    let levels = depth_levels(&depths, 4);
    assert_eq!(levels, [0.0, 1.0, 2.0, 3.0]);
    // Candidate 2 scores lower than candidate 1, so its level adds no candidate.
    assert_eq!(retrieve_chain(&by_depth, &depths, &levels, &[0.1, 0.5, 0.4, 0.9], |a, b| a == b), [0, 1, 3]);
    // Candidates 1 and 3 have the same text, so the chain keeps only the first.
    assert_eq!(retrieve_chain(&by_depth, &depths, &levels, &[0.1, 0.5, 0.4, 0.9], |a, b| a % 2 == b % 2), [0, 1]);
    // No candidate is within the first level, and candidate 2 scores lower than candidate 1.
    let levels = [-0.5, 0.0, 1.5, 2.0, 3.0];
    assert_eq!(
        best_within_levels(&by_depth, &depths, &levels, &[0.1, 0.5, 0.4, 0.9]),
        [None, Some(0), Some(1), Some(1), Some(3)]
    );
    let tiers = [vec!["animal"], vec!["dog"], vec!["a brown dog"], vec!["a brown dog sleeps"]];
    assert_eq!(
        chain_precision_recall(&["animal", "cat", "a brown dog"], &tiers),
        ChainRetrieval { precision: 2.0 / 3.0, recall: 0.5 }
    );
    assert_eq!(chain_precision_recall(&[], &tiers).precision, 0.0);
}

#[test]
fn bootstrap_covers_the_mean_and_repeats() {
    let values: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
    let [lo, hi] = bootstrap_mean(&values, 3).unwrap();
    // Standard error of a fair coin's mean over 200 draws is 0.035, the 95 % interval about 0.5 -+ 0.07.
    assert!((lo - 0.43).abs() < 0.015 && (hi - 0.57).abs() < 0.015, "{lo} .. {hi}");
    assert_eq!(bootstrap_mean(&values, 3), Some([lo, hi]));
    assert_eq!(bootstrap_mean(&[1.0], 3), None);
}

/// Results of the released evaluator on HyCoCLIP's tree (`goldens/metrics/hierarchical_classification_n400.json`).
#[test]
fn golden_hierarchical_scores() {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let (Ok(golden), Ok(edges)) = (
        std::fs::read_to_string(format!("{shared}/goldens/metrics/hierarchical_classification_n400.json")),
        std::fs::read_to_string(format!("{shared}/data/imagenet_hierarchy/hycoclip_NC/imagenet_isa.txt")),
    ) else {
        eprintln!("skipped: ../shared goldens or imagenet_isa.txt not found");
        return;
    };
    let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let pairs: Vec<(String, String)> = edges
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(p, c)| (p.trim().into(), c.trim().into()))
        .collect();
    let tree = ClassGraph::from_edges(pairs).unwrap();
    let names = |key: &str| {
        golden[key].as_array().unwrap().iter().map(|v| tree.find(v.as_str().unwrap()).unwrap()).collect::<Vec<_>>()
    };
    let (predicted, truth) = (names("pred_wnid"), names("true_wnid"));
    assert_eq!(predicted.len(), 400);
    let scores: Vec<_> = predicted.iter().zip(&truth).map(|(&p, &t)| hierarchical_scores(&tree, p, t)).collect();
    let mean = hierarchical::HierarchicalScores::mean(&scores);
    for (key, value) in [
        ("tie", mean.tree_induced_error),
        ("lca", mean.lca_released),
        ("jaccard", mean.jaccard),
        ("hierarchical_precision", mean.precision),
        ("hierarchical_recall", mean.recall),
    ] {
        let expected =
            golden[key].as_f64().unwrap_or_else(|| panic!("{key} in {:?}", golden.as_object().unwrap().keys()));
        assert!((value - expected).abs() <= 1e-6 * expected, "{key}: {value} vs {expected}");
    }
}

mod class_graph;
/// The example of scikit-learn's `roc_auc_score`: three of the four pairs of a positive and a negative are in order.
#[test]
fn roc_auc_counts_ordered_pairs() {
    let (scores, positive) = ([0.1, 0.4, 0.35, 0.8], [false, false, true, true]);
    assert_eq!(roc_auc(&scores, &positive), 0.75);
    // A tie counts one half. One of the four pairs, (0.4, 0.4), is a tie.
    assert_eq!(roc_auc(&[0.1, 0.4, 0.4, 0.8], &positive), 0.875);
    assert_eq!(roc_auc(&[0.5; 4], &positive), 0.5);
    assert!(roc_auc(&scores, &[true; 4]).is_nan());

    let outcomes = crate::Outcomes::RocAuc { scores: scores.to_vec(), positive: positive.to_vec() };
    assert_eq!((outcomes.value(), outcomes.len()), (0.75, 4));
    // With row 1 drawn twice there are six pairs, of which the two pairs of rows 1 and 2 are out of order.
    assert_eq!(outcomes.over(&[0, 1, 1, 2, 3]), 4.0 / 6.0);
    // The precision at the right rows is 1 of 1 and 2 of 3; with row 1 drawn twice, it is 1 of 1 and 2 of 4.
    let outcomes = crate::Outcomes::AveragePrecision { scores: scores.to_vec(), positive: positive.to_vec() };
    assert!((outcomes.value() - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
    assert_eq!(outcomes.over(&[0, 1, 1, 2, 3]), 0.75);
}

mod detection;
mod outside;

/// Ten photos with five captions each. The captions of a photo are all right or all wrong, so there are ten independent
/// answers, not fifty.
#[test]
fn bootstrap_draws_whole_clusters() {
    let values: Vec<f64> = (0..50).map(|i| f64::from(u8::from(i / 5 % 2 == 0))).collect();
    let photos: Vec<u32> = (0..50).map(|i| i / 5).collect();
    let outcomes = crate::Outcomes::from(values.clone());
    let width = |units: &BootstrapUnits| outcomes.interval(units, 1).map(|[low, high]| high - low).unwrap();
    let (apart, together) = (width(&outcomes.units(None)), width(&outcomes.units(Some(&photos))));
    // Standard errors are .5 / sqrt(50) and .5 / sqrt(10).
    assert!((apart - 2.0 * 1.96 * 0.5 / 50f64.sqrt()).abs() < 0.03, "{apart}");
    assert!((together - 2.0 * 1.96 * 0.5 / 10f64.sqrt()).abs() < 0.06, "{together}");

    // There are two classes, with ten rows and one row. Every resample contains the single row, so the macro mean
    // varies only with the ten rows.
    let groups: Vec<u32> = (0..11).map(|i| u32::from(i == 10)).collect();
    let macro_mean = crate::Outcomes::MeanOfGroups { values: values[..11].to_vec(), groups };
    let [low, high] = macro_mean.interval(&macro_mean.units(None), 1).unwrap();
    assert!(macro_mean.value() == 0.75 && low >= 0.5 && high <= 1.0, "{low} .. {high}");
}

/// 30 right answers of 30 do not imply an accuracy of 1: the exact interval has the width 1 - .025^(1/30) = .116.
#[test]
fn equal_answers_have_an_exact_interval() {
    let all = |value: f64| crate::Outcomes::from(vec![value; 30]);
    let [low, high] = all(1.0).interval(&BootstrapUnits::Rows(30), 0).unwrap();
    assert!((low - 0.8843).abs() < 1e-4 && high == 1.0, "{low}");
    let [low, high] = all(0.0).interval(&BootstrapUnits::Rows(30), 0).unwrap();
    assert!(low == 0.0 && (high - 0.1157).abs() < 1e-4, "{high}");
}
