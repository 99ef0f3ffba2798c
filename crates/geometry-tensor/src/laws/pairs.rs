//! Laws of pairwise functions: the matrix-product formulas agree with the row-wise formulas within the error budgets
//! below.

use super::*;

/// Tolerance for ordinary points in `f64`. The pairwise formulas compute lengths from differences of squares, which
/// keep only about half of the digits.
const F64_TOLERANCE: f64 = 1e-7;

#[test]
fn pairwise_equals_row_by_row() {
    let device = Device::flex();
    for case in cases() {
        let m = case.manifold(None);
        let (parents, children) = case.points.split_at(4);
        let (x, y) = (tensor(parents, &device, DType::F64), tensor(children, &device, DType::F64));
        for op in PAIR_OPS {
            for root in case.roots(op.rooted) {
                let root = root_tensor(&root, &device, DType::F64);
                let all = (op.pairwise)(m.as_ref(), x.clone(), y.clone(), &root);
                assert_eq!(all.dims(), [parents.len(), children.len()]);
                let rows =
                    (op.by_row)(m.as_ref(), repeated(parents, children, 0), repeated(parents, children, 1), &root);
                for (i, (found, expected)) in numbers(all).into_iter().zip(numbers(rows)).enumerate() {
                    let close = (found - expected).abs() <= F64_TOLERANCE * expected.abs().max(1.0);
                    assert!(close, "{} of {}, pair {i}: {found}; expected {expected}", op.name, case.spec);
                }
            }
        }
    }
}

/// Parents (`side` 0) or children (1) of all pairs, as rows.
fn repeated(parents: &[Vec<f64>], children: &[Vec<f64>], side: usize) -> Tensor<2> {
    let pairs = parents.iter().flat_map(|p| children.iter().map(move |c| [p, c][side].clone()));
    tensor(&pairs.collect::<Vec<_>>(), &Device::flex(), DType::F64)
}

/// Largest absolute errors of the `f32` functions on the hyperboloid, in units of the curvature radius or in radians,
/// by the norm of the points and the gap between them.
///
/// Method. For every norm R, gap g and curvature in {0.1, 1, 10}: 60 pairs in 8 dimensions, with `|x| = R` in a random
/// direction and `|y - x| = g R` in a random direction or along x (30 each), rounded to `f32`. The reference is the
/// `f64` space on the rounded points. Each maximum below is twice the measured one, rounded up to 1, 2 or 5
/// times a power of ten (x86-64, rustc 1.95; the test prints its table when it fails).
struct MaxError {
    norm: f64,
    gap: f64,
    dist: f64,
    angle: f64,
    /// `None` where the formula has no accurate digit: pairs on one ray with large norms.
    pairwise_dist: Option<f64>,
    /// `None` where the formula has no accurate digit and may return anything from 0 to pi: close pairs, and pairs on
    /// one ray with large norms.
    pairwise_angle: Option<f64>,
}

#[rustfmt::skip]
const BUDGETS: &[MaxError] = &[
    MaxError { norm: 1e-6, gap: 1e-3, dist: 1e-15, angle: 5e-7, pairwise_dist: Some(5e-6), pairwise_angle: Some(1e0) },
    MaxError { norm: 1e-6, gap: 1e-1, dist: 1e-13, angle: 5e-7, pairwise_dist: Some(5e-6), pairwise_angle: Some(1e-2) },
    MaxError { norm: 1e-6, gap: 1e0, dist: 5e-13, angle: 5e-7, pairwise_dist: Some(5e-6), pairwise_angle: Some(2e-3) },
    MaxError { norm: 1e-2, gap: 1e-3, dist: 2e-11, angle: 5e-7, pairwise_dist: Some(2e-5), pairwise_angle: Some(1e0) },
    MaxError { norm: 1e-2, gap: 1e-1, dist: 2e-9, angle: 5e-7, pairwise_dist: Some(2e-7), pairwise_angle: Some(2e-2) },
    MaxError { norm: 1e-2, gap: 1e0, dist: 2e-8, angle: 5e-7, pairwise_dist: Some(5e-8), pairwise_angle: Some(2e-3) },
    MaxError { norm: 1e0, gap: 1e-3, dist: 1e-9, angle: 5e-7, pairwise_dist: Some(2e-3), pairwise_angle: None },
    MaxError { norm: 1e0, gap: 1e-1, dist: 1e-7, angle: 5e-7, pairwise_dist: Some(1e-4), pairwise_angle: Some(5e-2) },
    MaxError { norm: 1e0, gap: 1e0, dist: 1e-6, angle: 2e-6, pairwise_dist: Some(2e-5), pairwise_angle: Some(1e-2) },
    MaxError { norm: 1e1, gap: 1e-3, dist: 1e-8, angle: 2e-6, pairwise_dist: Some(5e-2), pairwise_angle: None },
    MaxError { norm: 1e1, gap: 1e-1, dist: 1e-6, angle: 5e-6, pairwise_dist: Some(5e-3), pairwise_angle: Some(5e-1) },
    MaxError { norm: 1e1, gap: 1e0, dist: 2e-6, angle: 2e-5, pairwise_dist: Some(1e-3), pairwise_angle: Some(1e-1) },
    MaxError { norm: 1e2, gap: 1e-3, dist: 2e-7, angle: 5e-5, pairwise_dist: Some(5e-1), pairwise_angle: None },
    MaxError { norm: 1e2, gap: 1e-1, dist: 2e-6, angle: 5e-5, pairwise_dist: Some(5e-1), pairwise_angle: None },
    MaxError { norm: 1e2, gap: 1e0, dist: 2e-6, angle: 2e-4, pairwise_dist: Some(1e-1), pairwise_angle: Some(1e0) },
    MaxError { norm: 1e4, gap: 1e-3, dist: 2e-6, angle: 2e-3, pairwise_dist: None, pairwise_angle: None },
    MaxError { norm: 1e4, gap: 1e-1, dist: 5e-6, angle: 2e-3, pairwise_dist: None, pairwise_angle: None },
    MaxError { norm: 1e4, gap: 1e0, dist: 5e-5, angle: 2e-2, pairwise_dist: None, pairwise_angle: None },
];

#[test]
fn f32_errors_stay_within_the_budget_on_the_hyperboloid() {
    let mut table = String::new();
    let mut kept = true;
    for b in BUDGETS {
        let found = errors(b.norm, b.gap);
        table += &format!("norm {:e} gap {:e}: {found:?}\n", b.norm, b.gap);
        let [dist, angle, pairwise_dist, pairwise_angle] = found;
        kept &= dist <= b.dist && angle <= b.angle;
        kept &= b.pairwise_dist.is_none_or(|allowed| pairwise_dist <= allowed);
        kept &= b.pairwise_angle.is_none_or(|allowed| pairwise_angle <= allowed);
    }
    assert!(kept, "a budget is exceeded:\n{table}");
}

/// Largest errors of dist, exterior angle, pairwise dist and pairwise exterior angle.
fn errors(norm: f64, gap: f64) -> [f64; 4] {
    let device = Device::flex();
    let mut worst = [0.0_f64; 4];
    for c in [0.1, 1.0, 10.0] {
        let spec = ManifoldSpec::lorentz(8, c);
        let (exact, m) = (space::<f64>(&spec).unwrap(), manifold(&spec, None).unwrap());
        let mut random = CaseRandom(11);
        let mut direction = || -> Vec<f64> {
            let v: Vec<f64> = (0..8).map(|_| 2.0 * random.next() - 1.0).collect();
            let length = v.iter().map(|a| a * a).sum::<f64>().sqrt();
            v.iter().map(|a| a / length).collect()
        };
        let (x, y): (Vec<_>, Vec<_>) = (0..60)
            .map(|pair| {
                let u = direction();
                let v = if pair % 2 == 0 { direction() } else { u.clone() };
                let x: Vec<f64> = u.iter().map(|a| norm * a).collect();
                let y: Vec<f64> = x.iter().zip(&v).map(|(a, b)| a + norm * gap * b).collect();
                (x, y)
            })
            .unzip();
        let (x, y) = (rounded(&x), rounded(&y));
        let (p, q) = (tensor(&x, &device, DType::F32), tensor(&y, &device, DType::F32));
        let origin = &RootT::Origin;
        let found = [
            numbers(m.dist(p.clone(), q.clone())),
            numbers(m.exterior_angle(p.clone(), q.clone(), origin)),
            diagonal(m.pairwise_dist(p.clone(), q.clone())),
            diagonal(m.pairwise_exterior_angle(p, q, origin)),
        ];
        for row in 0..x.len() {
            let dist = exact.dist(&x[row], &y[row]);
            let angle = exact.exterior_angle(&x[row], &y[row], &Root::Origin);
            for (i, (expected, unit)) in
                [(dist, c.sqrt()), (angle, 1.0), (dist, c.sqrt()), (angle, 1.0)].into_iter().enumerate()
            {
                worst[i] = worst[i].max((found[i][row] - expected).abs() * unit);
            }
        }
    }
    worst
}

fn diagonal(matrix: Tensor<2>) -> Vec<f64> {
    let columns = matrix.dims()[1];
    numbers(matrix).into_iter().step_by(columns + 1).collect()
}
