use conifer_data::BBox;

use super::super::*;

#[test]
fn average_precision_by_hand() {
    // Ranks 1 and 3 of 4 are right: precision 1 at recall 1/2, and 2/3 at recall 1.
    let (scores, right) = ([0.9, 0.8, 0.7, 0.6], [true, false, true, false]);
    assert!((average_precision(&scores, &right) - (0.5 + 0.5 * 2.0 / 3.0)).abs() < 1e-12);
    // 51 recalls (0 to 0.50) have precision 1, and 50 have 2/3.
    assert!((average_precision_101(&scores, &right, 2) - (51.0 + 50.0 * 2.0 / 3.0) / 101.0).abs() < 1e-12);
    // Two of four items are never found: 26 recalls have precision 1, 25 have 2/3, and the others 0.
    assert!((average_precision_101(&scores, &right, 4) - (26.0 + 25.0 * 2.0 / 3.0) / 101.0).abs() < 1e-12);
    // Equal scores give the fraction of right items in any order; in the 101-point form the order matters.
    assert_eq!(average_precision(&[0.5; 4], &[false, false, true, true]), 0.5);
    assert_eq!(average_precision_101(&[0.5; 4], &[false, false, true, true], 2), 0.5);
    assert_eq!(average_precision_101(&[0.5; 4], &[true, true, false, false], 2), 1.0);
    assert!(average_precision(&scores, &[false; 4]).is_nan());
}

#[test]
fn weights_equal_repeated_detections() {
    let ranking = |rows: &[(u32, f32, bool)]| DetectionRanking::new(rows.iter().copied());
    let rows = [(0, 0.9, true), (1, 0.8, false), (2, 0.7, true), (1, 0.7, false), (0, 0.1, false)];
    let weights = [2.0, 0.0, 3.0];
    let copies: Vec<_> = rows.iter().flat_map(|&row| vec![row; weights[row.0 as usize] as usize]).collect();
    let weighted = ranking(&rows).average_precision(5.0, |group| weights[group as usize]);
    let copied = ranking(&copies).average_precision(5.0, |_| 1.0);
    assert!((weighted[0] - copied[0]).abs() < 1e-12 && (weighted[1] - copied[1]).abs() < 1e-12);
    assert!(ranking(&rows).average_precision(0.0, |_| 0.0)[0].is_nan());
}

#[test]
fn iou_matching_by_hand() {
    let bbox = |x1: f32, x2: f32| BBox { x1, y1: 0.0, x2, y2: 1.0 };
    // [0, 0.4] and [0, 0.5] have an IoU of 0.4 / 0.5; [0.5, 0.9] overlaps neither.
    let (small, large, other) = (bbox(0.0, 0.4), bbox(0.0, 0.5), bbox(0.5, 0.9));
    assert!((iou(&small, &large) - 0.8).abs() < 1e-6 && iou(&small, &other) == 0.0);
    assert_eq!(iou_matches(&[(0.1, small), (0.9, large)], &[small], 0.5), [false, true]);
    assert_eq!(iou_matches(&[(0.1, small), (0.9, large)], &[small], 0.9), [true, false]);
    assert_eq!(iou_matches(&[(0.1, small), (0.9, large)], &[small, other], 0.5), [false, true]);
    assert!(iou_matches(&[], &[small], 0.5).is_empty());
}

#[test]
fn distributions_by_hand() {
    // Half of the mass moves by 2, the other half by 1.
    assert!((wasserstein(&[0.0, 1.0], &[2.0, 2.0], None, None) - 1.5).abs() < 1e-12);
    assert!((wasserstein(&[0.0, 9.0], &[1.0], Some(&[2.0, 0.0]), None) - 1.0).abs() < 1e-12);
    assert!(wasserstein(&[], &[1.0], None, None).is_nan() && wasserstein(&[1.0], &[], None, None).is_nan());
    // All mass moves from the first of three labels to the last. The sorted fractions are equal.
    let it = LabelDistance::between(&[1.0, 0.0, 0.0], &[0.0, 0.0, 1.0]);
    assert_eq!((it.values, it.transport), (0.0, 2.0));
}

#[test]
fn threshold_curve_by_hand() {
    // The thresholds are 0, 1/4, 1/2, 3/4 and 1. A candidate beyond 1 never passes.
    let mut curve = ThresholdCurve::new(4);
    for (at, right) in [(-0.1, true), (0.2, false), (0.25, true), (0.6, false), (1.5, true), (f32::NAN, true)] {
        curve.add(at, right);
    }
    // The precision is 1 at recall 1/4 and 2/3 at recall 2/4. No further right candidate passes.
    assert!((curve.average_precision() - (0.25 + 0.25 * 2.0 / 3.0)).abs() < 1e-12);
    assert_eq!(curve.precision_at(0.25), 1.0);
    assert!((curve.precision_at(0.5) - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(curve.precision_at(0.75), 0.0);
    assert!(ThresholdCurve::new(4).average_precision().is_nan());
}

#[test]
fn bootstrap_counts_and_normal_interval() {
    let counts = bootstrap_counts(7, 20, 3);
    assert!(counts.len() == 20 && counts.iter().all(|it| it.iter().map(|&c| u32::from(c)).sum::<u32>() == 7));
    assert_eq!(counts, bootstrap_counts(7, 20, 3));
    // The standard deviation of 0.4 and 0.6 is 0.1414. Times 1.96 this is 0.2772.
    let [low, high] = normal_interval(0.9, [0.4, f64::NAN, 0.6]).unwrap();
    assert!((low - (0.9 - 0.277_186)).abs() < 1e-6 && high == 1.0);
    assert!(normal_interval(0.5, [0.5]).is_none());
}
