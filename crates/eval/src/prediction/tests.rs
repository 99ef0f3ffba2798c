#![allow(clippy::unwrap_used)]
use conifer_data::hierarchy::{Tree, class_tree};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// bird > { duck > { mallard, pintail }, owl > { snowy, barn } }
fn birds() -> PredictionTree {
    let edges = [
        ("bird", "duck"),
        ("duck", "mallard"),
        ("duck", "pintail"),
        ("bird", "owl"),
        ("owl", "snowy"),
        ("owl", "barn"),
    ];
    PredictionTree::of_leaves(Tree::from_edges(edges).unwrap()).unwrap()
}

fn node(classes: &PredictionTree, name: &str) -> usize {
    classes.tree().find(name).unwrap()
}

fn names(classes: &PredictionTree, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|&it| classes.tree().name(it).to_owned()).collect()
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{found:?}, expected {expected:?}"));
}

/// The probabilities are 0.3, 0.3, 0.4 and 0: the most probable class is an owl, but the ducks have 0.6 together.
const SCORES: [f64; 4] = [0.3, 0.3, 0.4, 1e-30];

fn scores(shares: [f64; 4]) -> Vec<f32> {
    shares.iter().map(|share| share.ln() as f32).collect()
}

#[test]
fn probabilities_are_sums_over_classes() {
    let classes = birds();
    let found = classes.node_probabilities(&scores(SCORES), 1.0).unwrap();
    // The nodes are bird, duck, mallard, pintail, owl, snowy and barn.
    near(&found, &[1.0, 0.6, 0.3, 0.3, 0.4, 0.4, 0.0]);
    // Half the temperature squares the ratios of the probabilities: 9 : 9 : 16.
    let found = classes.node_probabilities(&scores(SCORES), 0.5).unwrap();
    near(&found[1..6], &[18.0 / 34.0, 9.0 / 34.0, 9.0 / 34.0, 16.0 / 34.0, 16.0 / 34.0]);
}

#[test]
fn paths_of_a_hand_computed_example() {
    let classes = birds();
    let probabilities = classes.node_probabilities(&scores(SCORES), 1.0).unwrap();
    let greedy = classes.greedy_path(&probabilities);
    assert_eq!(names(&classes, greedy.nodes()), ["bird", "duck", "mallard"]);
    near(greedy.scores(), &[1.0, 0.6, 0.3]);
    for (threshold, answer) in [(0.0, "mallard"), (0.29, "mallard"), (0.31, "duck"), (0.61, "bird"), (1.0, "bird")] {
        assert_eq!(greedy.answer(Some(threshold)), node(&classes, answer), "{threshold}");
    }
    assert_eq!(greedy.answer(None), 0);
    // The flat classifier picks the most probable class (`snowy`), which is in another branch than the greedy path.
    let flat = classes.flat_path(&probabilities);
    assert_eq!(names(&classes, flat.nodes()), ["bird", "owl", "snowy"]);
    near(&flat.scores()[1..], &[0.8, 0.4]);
    let reject = classes.reject_path(&probabilities);
    assert_eq!(names(&classes, reject.nodes()), ["bird", "snowy"]);

    let critical = |path: &ScoredPath, truth: &str| path.critical(classes.tree(), node(&classes, truth));
    near(&[critical(&greedy, "pintail").unwrap()], &[0.3]);
    near(&[critical(&greedy, "barn").unwrap()], &[0.6]);
    assert_eq!(critical(&greedy, "mallard"), None);
    // If the truth is an inner node, its descendants are wrong answers.
    near(&[critical(&greedy, "duck").unwrap()], &[0.3]);
    near(&[critical(&greedy, "bird").unwrap()], &[0.6]);
    near(&[critical(&flat, "barn").unwrap()], &[0.4]);
}

/// Checks on random trees and scores that answers and losses fall with the threshold, as conformal risk control
/// requires.
#[test]
fn answers_shrink_and_losses_fall_as_the_threshold_rises() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for round in 0..300 {
        let nodes: usize = rng.random_range(3..60);
        let edges = (1..nodes).map(|child| (format!("n{}", rng.random_range(0..child)), format!("n{child}")));
        let tree = Tree::from_edges(edges.collect::<Vec<_>>()).unwrap();
        let Ok(classes) = PredictionTree::of_leaves(tree) else { continue };
        let sharp = 10.0_f32.powi(rng.random_range(-2..4));
        let scores: Vec<f32> = classes.classes().iter().map(|_| sharp * rng.random::<f32>()).collect();
        let probabilities = classes.node_probabilities(&scores, 1.0).unwrap();
        let tree = classes.tree();
        for path in [
            classes.greedy_path(&probabilities),
            classes.flat_path(&probabilities),
            classes.reject_path(&probabilities),
        ] {
            assert!(path.scores().is_sorted_by(|a, b| a >= b), "round {round}: {path:?}");
            assert_eq!(path.nodes()[0], tree.root());
            assert!(path.nodes().windows(2).all(|pair| tree.is_ancestor(pair[0], pair[1])), "{path:?}");
            let mut thresholds: Vec<f64> = path.scores().iter().flat_map(|s| [*s, s - 1e-9, s + 1e-9]).collect();
            thresholds.extend([0.0, 0.5, 1.0]);
            thresholds.sort_by(f64::total_cmp);
            for truth in 0..tree.len() {
                let critical = path.critical(tree, truth);
                let wrong = |threshold: f64| !classes.is_right(path.answer(Some(threshold)), truth);
                for pair in thresholds.windows(2) {
                    let [low, high] = [pair[0], pair[1]].map(|threshold| path.answer_len(Some(threshold)));
                    assert!(high <= low, "the answer at a higher threshold is a prefix");
                    assert!(wrong(pair[0]) || !wrong(pair[1]), "the loss falls");
                    assert_eq!(wrong(pair[0]), critical.is_some_and(|critical| critical > pair[0]), "{path:?} {truth}");
                }
                assert!(classes.is_right(path.answer(None), truth), "the root is never wrong");
            }
        }
    }
}

#[test]
fn threshold_of_a_hand_computed_example() {
    let photos = |critical: &[Option<f64>]| critical.iter().map(|&it| vec![it]).collect::<Vec<_>>();
    // With n = 9, at most 0.2 * 10 - 1 = 1 photo may be wrong. At the threshold 0.5, one photo is wrong (0.7 > 0.5).
    let nine = photos(&[Some(0.7), Some(0.5), Some(0.5), Some(0.2), None, None, None, None, None]);
    let found = conformal_threshold(&nine, 0.2).unwrap();
    assert_eq!((found.threshold, found.units), (Some(0.5), 9));
    near(&[found.calibration_risk], &[1.0 / 9.0]);
    // A risk of 0.1 allows 0.1 * 10 - 1 = 0 wrong photos, 0.4 allows three, and 0.5 allows four. Only four photos can
    // be wrong.
    assert_eq!(conformal_threshold(&nine, 0.1).unwrap().threshold, Some(0.7));
    assert_eq!(conformal_threshold(&nine, 0.4).unwrap().threshold, Some(0.2));
    assert_eq!(conformal_threshold(&nine, 0.5).unwrap().threshold, Some(0.0));
    // Eight photos are one too few for a risk of 0.1.
    assert_eq!(conformal_threshold(&nine[1..], 0.1).unwrap().threshold, None);
    assert_eq!(conformal_threshold(&[], 0.5).unwrap().threshold, None);
    assert_eq!((needed_units(0.1).unwrap(), needed_units(0.05).unwrap(), needed_units(0.5).unwrap()), (9, 19, 1));
    assert_eq!((needed_units(0.3).unwrap(), needed_units(0.99).unwrap()), (3, 1));
    // The units have several photos, and their losses are 1/2, 1/4 and 0. The sum of the losses may be 0.5 * 4 - 1 = 1
    // or 0.4 * 4 - 1 = 0.6.
    let genera = [vec![Some(0.9), None], vec![Some(0.8), None, None, None], vec![None]];
    assert_eq!(conformal_threshold(&genera, 0.5).unwrap().threshold, Some(0.0));
    assert_eq!(conformal_threshold(&genera, 0.4).unwrap().threshold, Some(0.8));
}

#[test]
fn needed_units_are_the_smallest_number_with_a_threshold() {
    for risk in [0.9, 0.5, 0.3, 0.25, 0.2, 0.1, 0.07, 0.05, 0.029, 0.01, 0.003] {
        let n = needed_units(risk).unwrap();
        let has = |n: usize| conformal_threshold(&vec![vec![None]; n], risk).unwrap().threshold.is_some();
        assert!(has(n) && (n == 0 || !has(n - 1)), "{risk}: {n}");
    }
}

/// A photo for a noisy classifier over `classes`: its scores are noise plus a bonus for the true class.
fn photo(rng: &mut ChaCha8Rng, classes: &PredictionTree) -> (Vec<f32>, usize) {
    let truth = rng.random_range(0..classes.classes().len());
    let noise = |rng: &mut ChaCha8Rng| (0..4).map(|_| rng.random::<f32>()).sum::<f32>();
    let scores = (0..classes.classes().len()).map(|i| noise(rng) + if i == truth { 1.2 } else { 0.0 }).collect();
    (scores, classes.classes()[truth])
}

fn two_levels(branches: usize, per_branch: usize) -> PredictionTree {
    let inner = (0..branches).map(|b| ("root".to_owned(), format!("b{b}")));
    let leaves = (0..branches * per_branch).map(|i| (format!("b{}", i / per_branch), format!("l{i}")));
    PredictionTree::of_leaves(Tree::from_edges(inner.chain(leaves).collect::<Vec<_>>()).unwrap()).unwrap()
}

/// Mean and standard error of the risk on test photos over random splits.
fn simulated_risk(path: impl Fn(&PredictionTree, &[f64]) -> ScoredPath, calibration: usize, risk: f64) -> (f64, f64) {
    const SPLITS: usize = 2000;
    const TEST: usize = 40;
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let classes = two_levels(5, 4);
    let mut risks = Vec::with_capacity(SPLITS);
    for _ in 0..SPLITS {
        let critical = |rng: &mut ChaCha8Rng| {
            let (scores, truth) = photo(rng, &classes);
            path(&classes, &classes.node_probabilities(&scores, 0.4).unwrap()).critical(classes.tree(), truth)
        };
        let units: Vec<_> = (0..calibration).map(|_| vec![critical(&mut rng)]).collect();
        let threshold = conformal_threshold(&units, risk).unwrap().threshold;
        let wrong = |it: Option<f64>| it.zip(threshold).is_some_and(|(critical, threshold)| critical > threshold);
        risks.push((0..TEST).filter(|_| wrong(critical(&mut rng))).count() as f64 / TEST as f64);
    }
    let mean = risks.iter().sum::<f64>() / SPLITS as f64;
    let variance = risks.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (SPLITS - 1) as f64;
    (mean, (variance / SPLITS as f64).sqrt())
}

#[test]
fn risk_is_kept_in_simulation() {
    for (calibration, risk) in [(19, 0.05), (50, 0.1), (30, 0.3)] {
        let (mean, error) = simulated_risk(PredictionTree::greedy_path, calibration, risk);
        assert!(mean <= risk + 3.0 * error, "n {calibration}: {mean} > {risk} + 3 * {error}");
        // The bound is tight: without ties, the risk is at least `risk - 1 / (n + 1)`.
        assert!(mean > risk - 1.0 / (calibration + 1) as f64 - 3.0 * error, "n {calibration}: {mean} for {risk}");
    }
    for path in [PredictionTree::flat_path, PredictionTree::reject_path] {
        let (mean, error) = simulated_risk(path, 50, 0.1);
        assert!(mean <= 0.1 + 3.0 * error, "{mean}");
    }
}

/// Photos of a genus share a bias, so genera are exchangeable, but photos are not. With genera as units, the bound on
/// the risk holds for a new genus; with photos as units it may not.
#[test]
fn risk_is_kept_for_new_genera() {
    const SPLITS: usize = 2000;
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let genus = |rng: &mut ChaCha8Rng| -> Vec<Option<f64>> {
        let (bias, size) = (rng.random::<f64>(), rng.random_range(1..12));
        (0..size).map(|_| (rng.random::<f64>() < bias).then(|| bias * rng.random::<f64>())).collect()
    };
    let mut risks = Vec::new();
    for _ in 0..SPLITS {
        let units: Vec<_> = (0..12).map(|_| genus(&mut rng)).collect();
        let threshold = conformal_threshold(&units, 0.2).unwrap().threshold.unwrap();
        let new = genus(&mut rng);
        risks.push(new.iter().filter(|it| it.is_some_and(|it| it > threshold)).count() as f64 / new.len() as f64);
    }
    let mean = risks.iter().sum::<f64>() / SPLITS as f64;
    let variance = risks.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (SPLITS - 1) as f64;
    assert!(mean <= 0.2 + 3.0 * (variance / SPLITS as f64).sqrt(), "{mean}");
}

#[test]
fn classes_may_be_a_part_of_the_tree() {
    let tree = birds().tree().clone();
    let classes = PredictionTree::of_names(tree, &["mallard", "snowy", "barn"]).unwrap();
    let path = classes.greedy_path(&classes.node_probabilities(&[0.0, 1.0, 1.5], 1.0).unwrap());
    assert_eq!(names(&classes, path.nodes()), ["bird", "owl", "barn"]);
    // `mallard` is the only class below `duck`: the path goes down to it, and `pintail` is never answered.
    let path = classes.greedy_path(&classes.node_probabilities(&[3.0, 1.0, 1.0], 1.0).unwrap());
    assert_eq!(names(&classes, path.nodes()), ["bird", "duck", "mallard"]);
    let unseen = classes.position(Some("pintail"), &[]).unwrap();
    assert!(!unseen.seen && classes.position(Some("barn"), &[]).unwrap().seen);
    assert!(classes.is_right(node(&classes, "duck"), unseen.node));
    assert!(!classes.is_right(node(&classes, "mallard"), unseen.node));
    // If the classes are inner nodes, the path ends at them, and photos of their descendants are seen.
    let classes = PredictionTree::of_names(birds().tree().clone(), &["duck", "owl"]).unwrap();
    let path = classes.greedy_path(&classes.node_probabilities(&[1.0, 0.0], 1.0).unwrap());
    assert_eq!(names(&classes, path.nodes()), ["bird", "duck"]);
    assert!(classes.position(Some("mallard"), &[]).unwrap().seen);
    assert_eq!([0, 1, 2].map(|node| classes.depth(node)), [0, 1, 2]);
}

#[test]
fn depth_is_counted_below_the_common_node() {
    let edges = [("all", "animal"), ("animal", "bird"), ("bird", "duck"), ("bird", "owl")];
    let classes = PredictionTree::of_leaves(Tree::from_edges(edges).unwrap()).unwrap();
    let depth = |name: &str| classes.depth(node(&classes, name));
    assert_eq!(["all", "animal", "bird", "duck"].map(depth), [0, 0, 0, 1]);
}

#[test]
fn unseen_species_are_placed_by_their_taxon() {
    let taxon = |text: &str| text.split('>').map(str::to_owned).collect::<Vec<_>>();
    let rows = [
        ("Aves>Sulidae>Sula>sula", "Sula sula"),
        ("Aves>Sulidae>Sula>nebouxii", "Sula nebouxii"),
        ("Aves>Anatidae>Anas>platyrhynchos", "Anas platyrhynchos"),
    ];
    let rows: Vec<_> = rows.iter().map(|(path, label)| (taxon(path), *label)).collect();
    let tree = class_tree(rows.iter().map(|(path, label)| (&path[..], *label))).unwrap();
    let classes = PredictionTree::of_leaves(tree).unwrap();
    let position = |label: &str, path: &str| {
        let found = classes.position(Some(label), &taxon(path))?;
        Some((classes.tree().name(found.node).to_owned(), found.seen))
    };
    let at = |name: &str, seen| Some((name.to_owned(), seen));
    assert_eq!(position("Sula sula", ""), at("Sula sula", true));
    assert_eq!(position("Sula dactylatra", "Aves>Sulidae>Sula>dactylatra"), at("Sula", false));
    assert_eq!(position("Papasula abbotti", "Aves>Sulidae>Papasula>abbotti"), at("Sulidae", false));
    // The taxon has more ranks than the tree, and the label is a common name.
    assert_eq!(position("x", "Animalia>Chordata>Aves>Suliformes>Sulidae>Sula>x"), at("Sula", false));
    assert_eq!(position("MALLARD", "Aves>Anatidae>Anas>platyrhynchos"), at("Anas platyrhynchos", true));
    assert_eq!(position("oak", "Plantae>Fagaceae>Quercus>robur"), None);
    assert_eq!(position("oak", ""), None);
}

#[test]
fn invalid_input_is_rejected() {
    let classes = birds();
    let message = |result: crate::Result<Vec<f64>>| result.unwrap_err().to_string();
    assert!(message(classes.node_probabilities(&[0.0; 3], 1.0)).contains("3; expected 4 numbers"));
    assert!(message(classes.node_probabilities(&[0.0, f32::NAN, 0.0, 0.0], 1.0)).contains("`pintail` is NaN"));
    assert!(message(classes.node_probabilities(&[0.0, f32::INFINITY, 0.0, 0.0], 1.0)).contains("inf"));
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(message(classes.node_probabilities(&[0.0; 4], temperature)).contains("a positive number"));
    }
    // Scores of the largest magnitude do not overflow.
    let extreme = classes.node_probabilities(&[f32::MAX, f32::MIN, 0.0, 1.0], 1e-300).unwrap();
    assert_eq!(extreme[node(&classes, "mallard")], 1.0);

    for risk in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
        assert!(conformal_threshold(&[vec![None]], risk).is_err() && needed_units(risk).is_err(), "{risk}");
    }
    assert!(conformal_threshold(&[vec![]], 0.5).is_err());
    assert!(conformal_threshold(&[vec![Some(f64::NAN)]], 0.5).is_err());

    let of = |names: &[&str]| PredictionTree::of_names(birds().tree().clone(), names).unwrap_err().to_string();
    assert!(of(&["duck", "mallard"]).contains("`duck`, which is above `mallard`"));
    assert!(of(&["owl", "owl"]).contains("`owl`, twice"));
    assert!(of(&["owl", "goose"]).contains("`goose` is not a node of the class tree"));
    assert!(of(&["owl"]).contains("at least two classes"));
    let chain = Tree::from_edges([("a", "b"), ("b", "c")]).unwrap();
    assert!(PredictionTree::of_leaves(chain).is_err());
}

#[test]
fn fitted_temperature_recovers_the_one_that_drew_the_classes() {
    // The classes are drawn from softmax(scores / 0.05).
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let (photos, classes) = (4000, 6);
    let (mut scores, mut truth) = (Vec::new(), Vec::new());
    for _ in 0..photos {
        let row: Vec<f32> = (0..classes).map(|_| 0.2 * rng.random::<f32>()).collect();
        let weights: Vec<f64> = row.iter().map(|score| (f64::from(*score) / 0.05).exp()).collect();
        let mut draw = rng.random::<f64>() * weights.iter().sum::<f64>();
        let class = weights
            .iter()
            .position(|weight| {
                draw -= weight;
                draw < 0.0
            })
            .unwrap_or(classes - 1);
        scores.extend(row);
        truth.push(class);
    }
    let fitted = fit_temperature(&scores, classes, &truth).unwrap();
    assert!((fitted / 0.05 - 1.0).abs() < 0.1, "{fitted}");
    // If one class is always right or always wrong, the fit ends at a finite bound.
    assert!(fit_temperature(&[1.0, 0.0], 2, &[0]).unwrap() > 0.0);
    assert!(fit_temperature(&[1.0, 0.0], 2, &[1]).unwrap().is_finite());
    assert!(fit_temperature(&[], 2, &[]).is_err() && fit_temperature(&[1.0, 0.0], 2, &[2]).is_err());
    assert!(fit_temperature(&[1.0, f32::NAN], 2, &[0]).is_err());
}

#[test]
fn statistics_of_a_hand_computed_example() {
    let classes = birds();
    let judged = |answer: &str, truth: &str, seen| JudgedAnswer {
        answer: node(&classes, answer),
        truth: TruePosition { node: node(&classes, truth), seen },
    };
    // The answers are right at depth 2, right at depth 1, wrong at depth 2, and the root.
    let answers = [
        judged("mallard", "mallard", true),
        judged("duck", "pintail", true),
        judged("snowy", "barn", true),
        judged("bird", "barn", true),
    ];
    let found = answer_statistics(&classes, &answers, None, 0).unwrap();
    assert_eq!((found.photos, found.wrong), (4, 1));
    near(&[found.risk, found.mean_depth, found.right_branch], &[0.25, 1.25, 0.5]);
    assert_eq!(found.risk_interval, crate::metrics::wilson_interval(1, 4));
    let one_cluster = answer_statistics(&classes, &answers, Some(&[0; 4]), 0).unwrap();
    assert_eq!(one_cluster.risk_interval, None);
    assert_eq!(answer_statistics(&classes, &[], None, 0), None);
}

#[test]
fn stored_thresholds_are_checked() {
    let classes = birds();
    let mut stored = StoredThreshold::uncalibrated(classes.tree(), 0.1, 0.07);
    stored.threshold = Some(0.4);
    stored.weights_sha256 = "a".repeat(64);
    stored.checkpoint = "run".into();
    stored.classes = ["mallard", "barn"].map(|it| PredictedClass { label: it.into(), text: it.into() }).into();
    let folder = std::env::temp_dir().join(format!("conifer-threshold-{}", std::process::id()));
    let read = |text: &str| {
        std::fs::write(&folder, text).unwrap();
        StoredThreshold::read(&folder)
    };
    let text = stored.to_json().unwrap();
    assert_eq!(read(&text).unwrap(), stored);
    let message = |text: &str| read(text).unwrap_err().to_string();
    for (from, to, word) in [
        ("\"version\": 1", "\"version\": 2", "version 2; expected version 1"),
        ("prediction threshold", "set", "of format `conifer set`"),
        ("\"risk\": 0.1", "\"risk\": 2.0", "risk 2"),
        ("\"threshold\": 0.4", "\"threshold\": -1.0", "threshold Some(-1.0)"),
        ("\"temperature\": 0.07", "\"temperature\": 0.0", "temperature 0"),
        ("\"center\"", "\"left\"", "left"),
        ("\"pintail\"", "\"goose\"", "does not match its hash"),
        ("\"label\": \"barn\"", "\"label\": \"goose\"", "`goose` is not a node"),
        ("\"risk\"", "\"rusk\"", "rusk"),
    ] {
        assert!(text.contains(from), "{from}");
        let found = message(&text.replacen(from, to, 1));
        assert!(found.contains(word) && found.contains("conifer-threshold"), "{found}");
    }
    assert!(message("").contains("not readable"));
    assert!(message(&text[..text.len() / 2]).contains("not readable"));
    std::fs::remove_file(&folder).unwrap();
    assert!(StoredThreshold::read(&folder).unwrap_err().to_string().contains("--out-threshold"));

    stored.check_model("run", &"a".repeat(64)).unwrap();
    let other = stored.check_model("other", &"b".repeat(64)).unwrap_err().to_string();
    assert!(other.contains("threshold for other (weights bbbbbbbbbbbb)"), "{other}");
    stored.check_tree("tree.txt", classes.tree()).unwrap();
    let other = stored.check_tree("tree.txt", two_levels(2, 2).tree()).unwrap_err().to_string();
    assert!(other.contains("6 edges below `bird`") && other.contains("tree.txt (6 edges below `root`)"), "{other}");
}
