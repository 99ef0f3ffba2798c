//! An independent implementation of the radial loss and of both margin losses of its supplement, in f64 on plain
//! vectors, as in [`oracle`](super::oracle).
#![allow(clippy::unwrap_used)]

use burn::tensor::{DType, Tensor, TensorData};
use conifer_geometry::ManifoldSpec;
use conifer_geometry_tensor::RootT;

use super::testkit::{device, method, numbers, relative, scalar, settings, space_f64};
use super::{BatchPoints, BatchSpace, Chain, entry};

const DIM: usize = 3;
const TIERS: usize = 4;
const ROWS: usize = 8;
/// Gives half-apertures of 0.3 to 1.6 on these chains, so every hinge has pairs on both sides.
const CONE_RADIUS: f64 = 0.3;
const ROOT: [f64; DIM] = [0.0, 0.0, 1.0];

/// `[view][row]`: four tiers, then their four wrong texts.
type ChainRows = Vec<Vec<[f64; DIM]>>;

/// The cone loss of one pair.
#[derive(Clone, Copy, Debug)]
enum MarginFormula {
    Radial,
    Clamped(f64),
    Hinge(f64),
}

impl MarginFormula {
    /// The contribution to the total: the loss of a positive pair is added, the loss of a negative pair subtracted.
    /// `sign` is 1 for positive and -1 for negative pairs.
    fn signed(self, angle: f64, theta: f64, sign: f64) -> f64 {
        match self {
            Self::Radial => angle,
            Self::Clamped(alpha) => sign * (sign * (angle - theta)).max(-alpha),
            Self::Hinge(alpha) => sign * (sign * (angle - theta + alpha)).max(0.0),
        }
    }

    fn settings(self) -> String {
        let prior = "terms.prior = false";
        match self {
            Self::Radial => prior.to_owned(),
            Self::Clamped(alpha) => format!("margin = {alpha:?}\ncone_radius = {CONE_RADIUS:?}\n{prior}"),
            Self::Hinge(alpha) => {
                format!("margin = {alpha:?}\nmargin_form = 'hinge'\ncone_radius = {CONE_RADIUS:?}\n{prior}")
            }
        }
    }
}

/// Chains on the unit sphere that move away from the root along a meridian. The wrong texts leave the meridian by 0 to
/// 1.4 radians, so some of them lie inside the cones.
fn chains() -> ChainRows {
    let at = |polar: f64, azimuth: f64| [polar.sin() * azimuth.cos(), polar.sin() * azimuth.sin(), polar.cos()];
    let tier = |i: usize, b: usize, wrong: bool| {
        let (i, b) = (i as f64, b as f64);
        // Wrong text i has the depth of tier i + 1.
        let polar = 0.25 + 0.3 * (i + f64::from(wrong)) + 0.05 * (3.0 * b + i).sin();
        let azimuth = 0.7 * b + 0.25 * (5.0 * b + 2.0 * i).sin() + if wrong { 0.2 * b } else { 0.0 };
        at(polar, azimuth)
    };
    let views = (0..TIERS).map(|i| (i, false)).chain((0..TIERS).map(|i| (i, true)));
    views.map(|(i, wrong)| (0..ROWS).map(|b| tier(i, b, wrong)).collect()).collect()
}

fn minus(x: &[f64; DIM], y: &[f64; DIM]) -> [f64; DIM] {
    std::array::from_fn(|d| x[d] - y[d])
}

fn dot(x: &[f64; DIM], y: &[f64; DIM]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// Exterior angle at `parent` and half-aperture of its cone.
fn angle_and_aperture(parent: &[f64; DIM], child: &[f64; DIM]) -> (f64, f64) {
    let (come, go) = (minus(parent, &ROOT), minus(child, parent));
    let depth = dot(&come, &come).sqrt();
    let angle = (dot(&come, &go) / (depth * dot(&go, &go).sqrt())).acos();
    (angle, (CONE_RADIUS / depth).min(1.0).asin())
}

/// The total of Secs. 2.2, 2.4 and 3.5 of the supplement: the mean over tiers and rows, plus the losses at the largest
/// positive and at the smallest negative angle.
fn formula(points: &ChainRows, form: MarginFormula) -> f64 {
    let mut pairs = Vec::new();
    for i in 0..TIERS - 1 {
        for (parent, (child, wrong)) in points[i].iter().zip(points[i + 1].iter().zip(&points[TIERS + i])) {
            let (positive, theta) = angle_and_aperture(parent, child);
            let (negative, _) = angle_and_aperture(parent, wrong);
            let contrast = form.signed(positive, theta, 1.0) - form.signed(negative, theta, -1.0);
            pairs.push((positive, negative, contrast));
        }
    }
    let mean = pairs.iter().map(|pair| pair.2).sum::<f64>() / pairs.len() as f64;
    let worst_positive = pairs.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    let worst_negative = pairs.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    mean + worst_positive.2 + worst_negative.2
}

/// Value and gradient of the library's loss. The gradient is listed view by view.
fn measured(points: &ChainRows, form: MarginFormula) -> (f64, Vec<f64>) {
    let tensor = |rows: &Vec<[f64; DIM]>| -> Tensor<2> {
        let data = TensorData::new(rows.concat(), [ROWS, DIM]);
        Tensor::from_data(data, (&device(), DType::F64)).require_grad()
    };
    let leaves: Vec<Tensor<2>> = points.iter().map(tensor).collect();
    let (positive, negative) = (leaves[..TIERS].to_vec(), leaves[TIERS..].to_vec());
    let batch =
        BatchPoints { chain: Some(Chain { positive, negative, lengths: Vec::new() }), ..BatchPoints::default() };
    let root: Tensor<1> = Tensor::from_data(TensorData::new(ROOT.to_vec(), [DIM]), (&device(), DType::F64));
    let logit_scale: Tensor<1> = Tensor::from_data(TensorData::new(vec![10.0_f64], [1]), (&device(), DType::F64));
    let plain = space_f64(&ManifoldSpec::sphere(DIM), None, logit_scale);
    let space = BatchSpace { root: RootT::Point(root), ..plain };
    let loss = method("radial", &form.settings()).loss(&batch, &space).unwrap();
    let gradients = loss.total.backward();
    let of = |leaf: &Tensor<2>| match leaf.grad(&gradients) {
        Some(gradient) => numbers(&gradient),
        None => vec![0.0; ROWS * DIM],
    };
    (scalar(&loss.total), leaves.iter().flat_map(of).collect())
}

/// Central differences of the formula, with an error of about 1e-10.
fn slopes(points: &ChainRows, form: MarginFormula) -> Vec<f64> {
    const H: f64 = 1e-6;
    let mut slopes = Vec::new();
    for view in 0..2 * TIERS {
        for row in 0..ROWS {
            for d in 0..DIM {
                let at = |step: f64| {
                    let mut moved = points.clone();
                    moved[view][row][d] += step;
                    formula(&moved, form)
                };
                slopes.push((at(H) - at(-H)) / (2.0 * H));
            }
        }
    }
    slopes
}

#[test]
fn margin_losses_follow_the_supplement() {
    let points = chains();
    let margins = [0.0, 0.2, 0.4];
    let forms = [MarginFormula::Radial].into_iter();
    let forms = forms.chain(margins.map(MarginFormula::Clamped)).chain(margins.map(MarginFormula::Hinge));
    for form in forms {
        let (value, gradient) = measured(&points, form);
        let expected = formula(&points, form);
        assert!((value - expected).abs() < 1e-10, "{form:?}: {value} {expected}");
        assert!(relative(&gradient, &slopes(&points, form)) < 1e-6, "{form:?}");
    }
}

/// The chains reach both branches of every maximum: some losses are at their bound and some are not.
#[test]
fn the_chains_reach_both_sides_of_the_hinges() {
    let points = chains();
    let excess = |wrong: bool| -> Vec<f64> {
        let of = |(i, b): (usize, usize)| {
            let child = if wrong { &points[TIERS + i][b] } else { &points[i + 1][b] };
            let (angle, theta) = angle_and_aperture(&points[i][b], child);
            angle - theta
        };
        (0..TIERS - 1).flat_map(|i| (0..ROWS).map(move |b| (i, b))).map(of).collect()
    };
    for wrong in [false, true] {
        let excess = excess(wrong);
        // A maximum changes its branch at these values of `angle - theta`, for the margins of the test above.
        for border in if wrong { [0.0, 0.2, -0.2] } else { [0.0, -0.2, -0.4] } {
            assert!(excess.iter().any(|x| *x > border), "wrong {wrong}, {border}: {excess:?}");
            assert!(excess.iter().any(|x| *x < border), "wrong {wrong}, {border}: {excess:?}");
        }
    }
}

/// With margin 0 both forms are equal. With another margin, the losses of positive pairs differ only by the constant
/// alpha.
#[test]
fn forms_differ_only_in_the_negatives() {
    let points = chains();
    let (clamped, hinge) = (MarginFormula::Clamped(0.0), MarginFormula::Hinge(0.0));
    assert_eq!(measured(&points, clamped), measured(&points, hinge));
    for (angle, theta) in [(0.3, 0.5), (0.1, 0.9), (1.2, 0.4)] {
        let (clamped, hinge) = (MarginFormula::Clamped(0.25), MarginFormula::Hinge(0.25));
        let difference = hinge.signed(angle, theta, 1.0) - clamped.signed(angle, theta, 1.0);
        assert!((difference - 0.25).abs() < 1e-15);
    }
    // The losses [-(0.1 - 0.9 + 0.25)]+ = 0.55 and max(-0.25, -(0.1 - 0.9)) = 0.8 are subtracted from the total.
    assert!((MarginFormula::Hinge(0.25).signed(0.1, 0.9, -1.0) + 0.55).abs() < 1e-15);
    assert!((MarginFormula::Clamped(0.25).signed(0.1, 0.9, -1.0) + 0.8).abs() < 1e-15);
}

/// If the margin is larger than every half-aperture, no negative pair has a loss in the printed form, and larger
/// margins change nothing but a constant. With the supplement's cone radius, 0.05, this holds for margins of pi/8 and
/// more.
#[test]
fn printed_margins_beyond_the_cones_have_the_same_gradient() {
    let points = chains();
    let (narrow, wide) = (MarginFormula::Hinge(1.6), MarginFormula::Hinge(2.5));
    let ((low, first), (high, second)) = (measured(&points, narrow), measured(&points, wide));
    assert!(relative(&first, &second) < 1e-12);
    // The margin enters the mean and both pairs of the minimax term, so the totals differ by three times 0.9.
    assert!((high - low - 2.7).abs() < 1e-12, "{low} {high}");
}

#[test]
fn margin_forms_are_checked() {
    let said = |text: &str| (entry("radial").unwrap().from_config)(&settings(text)).err().unwrap().to_string();
    let infinite = said("margin_form = 'hinge'");
    assert!(infinite.contains("method.margin") && infinite.contains("inf") && infinite.contains("hinge"), "{infinite}");
    let unknown = said("margin = 0.4\nmargin_form = 'soft'");
    assert!(unknown.contains("soft") && unknown.contains("clamped"), "{unknown}");
    let negative = said("margin = -0.1\nmargin_form = 'hinge'");
    assert!(negative.contains("method.margin") && negative.contains("-0.1"), "{negative}");
}
