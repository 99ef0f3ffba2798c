#![allow(clippy::unwrap_used)]
use burn::tensor::{Device, Tensor};
use conifer_geometry::ManifoldSpec;
use conifer_geometry_tensor::{RootT, manifold};

use super::*;
use crate::methods::RowShare;

fn matrix<const M: usize, const N: usize>(rows: [[f64; N]; M]) -> Tensor<2> {
    Tensor::from_data(rows.map(|row| row.map(|x| x as f32)), &Device::flex())
}

fn nce(similarity: Tensor<2>, scale: f32, denominator: Denominator) -> Vec<f32> {
    let scale = Tensor::from_data([scale], &similarity.device());
    info_nce(similarity, scale, denominator).into_data().iter().collect()
}

fn close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() <= 1e-5 * b.abs().max(1.0), "{found:?} {expected:?}");
    }
}

#[test]
fn info_nce_of_a_hand_worked_table() {
    // The logits are [[2, 0], [1, 3]], so the losses of the rows are ln(e^2 + 1) - 2 and ln(e + e^3) - 3. The other
    // direction reads the columns of the same table.
    let logits = || matrix([[1.0, 0.0], [0.5, 1.5]]);
    let soft = |own: f64, other: f64| (1.0 + (other - own).exp()).ln();
    close(&nce(logits(), 2.0, Denominator::All), &[soft(2.0, 0.0), soft(3.0, 1.0)]);
    close(&nce(logits().transpose(), 2.0, Denominator::All), &[soft(2.0, 1.0), soft(3.0, 0.0)]);
    // With one negative per query, the loss is the logit of the negative minus that of the positive.
    close(&nce(logits(), 2.0, Denominator::Negatives), &[-2.0, -2.0]);
}

#[test]
fn info_nce_limit_cases() {
    // Equal similarities make every candidate equally likely: ln N, or ln (N - 1) without the positive.
    close(&nce(Tensor::zeros([3, 5], &Device::flex()), 7.0, Denominator::All), &[5f64.ln(); 3]);
    close(&nce(Tensor::zeros([3, 5], &Device::flex()), 7.0, Denominator::Negatives), &[4f64.ln(); 3]);
    // In a batch of one sample, the positive is the only candidate.
    close(&nce(matrix([[-3.0]]), 100.0, Denominator::All), &[0.0]);
    // Logits that are far apart neither overflow nor cancel: 0 for the positive and -1e4 for the negative, and the
    // reverse.
    close(&nce(matrix([[0.0, -100.0], [0.0, -100.0]]), 100.0, Denominator::All), &[0.0, 1e4]);
}

#[test]
fn multi_positive_nce_sums_over_the_positives() {
    use burn::tensor::{Bool, TensorData};
    let mask = |rows: [[bool; 3]; 2]| -> Tensor<2, Bool> { Tensor::from_data(TensorData::from(rows), &Device::flex()) };
    let nothing = || mask([[false; 3]; 2]);
    let nce = |positive: Tensor<2, Bool>, same: Tensor<2, Bool>| -> Vec<f32> {
        let similarity = matrix([[1.0, 0.5, 0.0], [0.0, 2.0, 1.0]]);
        let scale = Tensor::from_data([2.0], &Device::flex());
        multi_positive_nce(similarity, scale, positive, same).into_data().iter().collect()
    };
    let e = f64::exp;
    // The logits are [2, 1, 0] and [0, 4, 2].
    let all = [e(2.0) + e(1.0) + 1.0, 1.0 + e(4.0) + e(2.0)];
    let found = nce(mask([[true, true, false], [false, false, true]]), nothing());
    close(&found, &[(all[0] / (e(2.0) + e(1.0))).ln(), (all[1] / e(2.0)).ln()]);
    // The query itself is excluded: the second row loses its largest candidate.
    let found = nce(mask([[true; 3], [false, false, true]]), mask([[false; 3], [false, true, false]]));
    close(&found, &[0.0, ((1.0 + e(2.0)) / e(2.0)).ln()]);
    // Without positives the loss is 0, not infinite.
    close(&nce(nothing(), nothing()), &[0.0, 0.0]);
}

#[test]
fn multi_positive_nce_with_one_positive_is_info_nce() {
    use burn::tensor::Bool;
    let table = matrix([[0.3, -0.7, 0.1], [0.9, 0.2, -0.4]]);
    let expected: Vec<f64> = nce(table.clone(), 3.0, Denominator::All).into_iter().map(f64::from).collect();
    let own = Tensor::<2, Bool>::diag_mask([2, 3], 0, &Device::flex()).bool_not();
    let scale = Tensor::from_data([3.0], &Device::flex());
    let found = multi_positive_nce(table, scale, own.clone(), own.clone().bool_and(own.bool_not()));
    close(&found.into_data().iter().collect::<Vec<f32>>(), &expected);
}

#[test]
fn info_nce_ignores_a_shift_of_a_row() {
    let table = matrix([[0.3, -0.7, 0.1], [0.9, 0.2, -0.4]]);
    let shifted = table.clone() + matrix([[5.0], [-11.0]]);
    let expected: Vec<f64> = nce(table, 3.0, Denominator::All).into_iter().map(f64::from).collect();
    close(&nce(shifted, 3.0, Denominator::All), &expected);
}

#[test]
fn cone_is_zero_inside_and_the_excess_angle_outside() {
    let space = BatchSpace {
        manifold: manifold(&ManifoldSpec::lorentz(2, 1.0), None).unwrap(),
        root: RootT::Origin,
        curv: Some(Tensor::from_data([1.0], &Device::flex())),
        logit_scale: Tensor::from_data([1.0], &Device::flex()),
        rows: RowShare::default(),
    };
    // The parent lies on the first axis at space norm 1 with c = 1, so its half aperture is asin(2 * 0.1 / 1). The
    // children lie on the ray beyond it (angle 0), at the origin (straight back, pi) and mirrored through the origin
    // (pi).
    let parent = matrix([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]);
    let child = matrix([[3.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]);
    let aperture = 0.2f64.asin();
    for eta in [0.7, 1.0, 1.2] {
        let violation = |max_aperture| {
            let shape = ConeShape { min_radius: 0.1, aperture_scale: eta, max_aperture };
            let violation = cone(&space, parent.clone(), child.clone(), &shape).unwrap();
            violation.into_data().iter::<f32>().collect::<Vec<_>>()
        };
        let outside = std::f64::consts::PI - eta * aperture;
        close(&violation(None), &[0.0, outside, outside]);
        close(&violation(Some(1.0)), &[0.0, outside, outside]);
        let capped = std::f64::consts::PI - eta * 0.05;
        close(&violation(Some(0.05)), &[0.0, capped, capped]);
    }
}

/// The space has three factors with different curvatures and points. A cap that no aperture reaches changes nothing; a
/// cap in between applies to each factor separately.
#[test]
fn a_cap_on_the_aperture_acts_on_each_factor() {
    let device = Device::flex();
    let curvs = [0.3, 1.0, 4.0];
    let spec = ManifoldSpec::product_l1(3, 2, curvs.to_vec());
    let space = BatchSpace {
        manifold: manifold(&spec, None).unwrap(),
        root: RootT::Origin,
        curv: Some(Tensor::from_data(curvs.map(|c| c as f32), &device)),
        logit_scale: Tensor::from_data([1.0], &device),
        rows: RowShare::default(),
    };
    // The parents of the first row have norm 1 and the apertures asin(0.2 / sqrt(c)). In the second row, the middle
    // parent is so near the origin that its aperture is pi/2.
    let parent = matrix([[1.0, 0.0, 0.0, 1.0, 0.6, 0.8], [0.0, -1.0, 0.1, 0.0, 1.0, 0.0]]);
    let child = matrix([[-2.0, 0.3, 0.5, 0.1, 0.0, 1.5], [1.0, 0.2, -0.4, 0.3, 0.2, 0.7]]);
    let violation = |max_aperture| {
        let shape = ConeShape { min_radius: 0.1, aperture_scale: 0.5, max_aperture };
        let violation = cone(&space, parent.clone(), child.clone(), &shape).unwrap();
        violation.into_data().iter::<f64>().collect::<Vec<_>>()
    };
    let plain = violation(None);
    close(&violation(Some(2.0)).iter().map(|x| *x as f32).collect::<Vec<_>>(), &plain);

    // All six exterior angles exceed eta pi/2, so no hinge is at 0 and a cap adds eta (aperture - cap) / 3 per factor
    // above it.
    let aperture = |c: f64| (0.2 / c.sqrt()).asin();
    let cap = 0.15;
    let gain = |apertures: [f64; 3]| apertures.iter().map(|a| 0.5 * (a - cap).max(0.0)).sum::<f64>() / 3.0;
    let expected = [
        plain[0] + gain(curvs.map(aperture)),
        plain[1] + gain([aperture(0.3), std::f64::consts::FRAC_PI_2, aperture(4.0)]),
    ];
    close(&violation(Some(cap)).iter().map(|x| *x as f32).collect::<Vec<_>>(), &expected);
}

#[test]
fn a_cap_with_another_root_is_refused() {
    let device = Device::flex();
    let space = BatchSpace {
        manifold: manifold(&ManifoldSpec::lorentz(2, 1.0), None).unwrap(),
        root: RootT::Point(Tensor::from_data([0.5, 0.0], &device)),
        curv: None,
        logit_scale: Tensor::from_data([1.0], &device),
        rows: RowShare::default(),
    };
    let shape = ConeShape { min_radius: 0.1, aperture_scale: 1.0, max_aperture: Some(1.0) };
    let points = matrix([[1.0, 0.0]]);
    let message = cone(&space, points.clone(), points, &shape).err().unwrap().to_string();
    assert!(message.contains("`root` is a point"), "{message}");
}

/// A block of the table contains the labels of its rows and columns.
#[test]
fn a_block_of_labels_keeps_its_cells() {
    let labels = PairLabels::new(vec![5, 6, 7], vec![8, 9, 1, 2], vec![[0, 0], [1, 2], [2, 3]], vec![[1, 1], [2, 0]]);
    let expected = PairLabels::new(vec![6, 7], vec![9, 1, 2], vec![[0, 1], [1, 2]], vec![[0, 0]]);
    assert_eq!(block(&labels, 1..3, 1..4), expected);
    assert_eq!(block(&labels, 0..3, 0..4), labels);
}
