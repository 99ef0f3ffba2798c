//! Compares the metrics with `fixtures/metrics.json`, the results of the reference programs (fixtures/RECIPE.md).

use conifer_data::BBox;
use serde_json::Value;

use super::super::*;
use crate::Outcomes;

fn cases() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/metrics.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("`{key}` is not a list in {value}"))
}

fn f64s(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect()
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as usize).collect()
}

#[track_caller]
fn close(found: f64, expected: &Value, tolerance: f64) {
    let expected = expected.as_f64().unwrap();
    assert!((found - expected).abs() <= tolerance, "{found} vs {expected}");
}

#[test]
fn kendall_is_scipys() {
    let cases = cases();
    for case in list(&cases, "kendall") {
        close(pair_order_tau(&f64s(&case["permutation"])), &case["tau"], 1e-12);
    }
    let chains = &cases["hierarcaps"];
    let tau = |depths: &Value| pair_order_tau(&f64s(depths));
    let found: Vec<f64> = list(chains, "depths").iter().map(tau).collect();
    for (found, expected) in found.iter().zip(list(chains, "tau")) {
        close(*found, expected, 1e-12);
    }
    close(found.iter().sum::<f64>() / found.len() as f64, &chains["tau_d"], 1e-12);
}

#[test]
fn spearman_with_ties_is_scipys() {
    for case in list(&cases(), "spearman") {
        close(spearman(&f64s(&case["x"]), &f64s(&case["y"])), &case["rho"], 1e-12);
    }
}

#[test]
fn wasserstein_is_scipys() {
    let cases = cases();
    for case in list(&cases, "wasserstein") {
        let weights = |key: &str| (!case[key].is_null()).then(|| f64s(&case[key]));
        let (a, b) = (weights("u_weights"), weights("v_weights"));
        close(wasserstein(&f64s(&case["u"]), &f64s(&case["v"]), a.as_deref(), b.as_deref()), &case["distance"], 1e-12);
    }
    for case in list(&cases, "histograms") {
        let found = LabelDistance::between(&f64s(&case["truth"]), &f64s(&case["found"]));
        close(found.values, &case["values"], 1e-12);
        close(found.transport, &case["transport"], 1e-12);
    }
}

#[test]
fn all_points_average_precision_is_scikits() {
    for case in list(&cases(), "average_precision") {
        let right: Vec<bool> = list(case, "right").iter().map(|it| it.as_bool().unwrap()).collect();
        let scores: Vec<f32> = f64s(&case["scores"]).into_iter().map(|it| it as f32).collect();
        close(average_precision(&scores, &right), &case["ap"], 1e-12);
    }
}

#[test]
fn accuracy_is_torchmetrics() {
    let cases = cases();
    let cases = list(&cases, "accuracy");
    for (number, case) in cases.iter().enumerate() {
        let classes = case["classes"].as_u64().unwrap() as usize;
        let (labels, predicted) = (indices(&case["labels"]), indices(&case["predicted"]));
        let found = accuracy(&predicted, &labels, classes);
        let outcomes = Outcomes::MeanOfGroups {
            values: predicted.iter().zip(&labels).map(|(p, l)| f64::from(u8::from(p == l))).collect(),
            groups: labels.iter().map(|&label| label as u32).collect(),
        };
        assert!((outcomes.value() - found.macro_average).abs() < 1e-12);
        close(found.micro_average, &case["micro"], 1e-6);
        // torchmetrics counts the accuracy of a class that is predicted but never true as 0; this crate omits the
        // class.
        let only_predicted = (0..classes).filter(|it| predicted.contains(it) && !labels.contains(it)).count() as f64;
        let true_ones = (0..classes).filter(|it| labels.contains(it)).count() as f64;
        assert_eq!(only_predicted > 0.0, number + 1 == cases.len(), "the last case has such a class");
        close(found.macro_average * true_ones / (true_ones + only_predicted), &case["macro"], 1e-6);
    }
}

#[test]
fn detection_average_precision_is_pycocotools() {
    for case in list(&cases(), "boxes") {
        let side = case["side"].as_f64().unwrap() as f32;
        let boxes: Vec<(usize, usize, BBox)> = list(case, "boxes")
            .iter()
            .map(|it| {
                let it = f64s(it);
                let [x, y, w, h] = [2, 3, 4, 5].map(|i| it[i] as f32);
                let bbox = BBox { x1: x / side, y1: y / side, x2: (x + w) / side, y2: (y + h) / side };
                (it[0] as usize, it[1] as usize, bbox)
            })
            .collect();
        let scores: Vec<Vec<f64>> = list(case, "scores").iter().map(f64s).collect();
        let photos = boxes.iter().map(|it| it.0).max().unwrap() + 1;
        for class in 0..scores[0].len() {
            let of_class: Vec<f32> = scores.iter().map(|it| it[class] as f32).collect();
            let own: Vec<bool> = boxes.iter().map(|it| it.1 == class).collect();
            let positives = own.iter().filter(|it| **it).count();
            let matched = |threshold: f64| {
                let in_photo = |photo: usize| {
                    let there: Vec<usize> = (0..boxes.len()).filter(|&i| boxes[i].0 == photo).collect();
                    let found: Vec<_> = there.iter().map(|&i| (of_class[i], boxes[i].2)).collect();
                    let truth: Vec<_> = there.iter().filter(|&&i| own[i]).map(|&i| boxes[i].2).collect();
                    iou_matches(&found, &truth, threshold)
                };
                average_precision_101(&of_class, &(0..photos).flat_map(in_photo).collect::<Vec<_>>(), positives)
            };
            close(matched(0.5), &case["ap50"][class], 1e-12);
            let thresholds: Vec<f64> = (0..10).map(|i| 0.5 + 0.05 * f64::from(i)).collect();
            close(thresholds.iter().map(|&it| matched(it)).sum::<f64>() / 10.0, &case["ap"][class], 1e-12);
            // If the boxes are disjoint, a box can only be matched by its own detection.
            if case["apart"].as_bool().unwrap() {
                close(average_precision_101(&of_class, &own, positives), &case["ap50"][class], 1e-12);
            }
        }
    }
}
