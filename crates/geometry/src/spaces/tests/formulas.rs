//! Checks values that are known in closed form, and compares the `f64` geometry with the oracle.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use super::oracle;
use crate::{ManifoldSpec, Root, Space, safe, space};

fn build(spec: ManifoldSpec) -> Box<dyn Space<f64>> {
    space(&spec).unwrap()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-14 * expected.abs().max(1.0), "{found} is not {expected}");
}

/// cosh(ln 2) = 5/4 and sinh(ln 2) = 3/4: the tangent of length ln 2 lifts to norm 3/4 at c = 1.
#[test]
fn lorentz_at_known_points() {
    let h = build(ManifoldSpec::lorentz(2, 1.0));
    let mut x = [0.0; 2];
    h.lift(&[2.0_f64.ln(), 0.0], &mut x);
    near(x[0], 0.75);
    // The points x = (3/4, 0) and y = (0, 3/4) both have t = 5/4, so <x, y>_L = -25/16.
    let y = [0.0, 0.75];
    near(h.inner(&x, &y), -25.0 / 16.0);
    near(h.dist(&x, &y), (25.0_f64 / 16.0).acosh());
    near(h.depth(&x, &Root::Origin), 2.0_f64.ln());
    // MERU's half aperture is asin(2 * 0.1 / 0.75).
    near(h.half_aperture(&x, 0.1, &Root::Origin), (0.2_f64 / 0.75).asin());
    near(h.half_aperture(&[0.2, 0.0], 0.1, &Root::Origin), FRAC_PI_2);
    // MERU's exterior angle is acos((t_y + <x, y>_L t_x) / (|x| sqrt(<x, y>_L^2 - 1))).
    let (w, t) = (-25.0 / 16.0, 1.25);
    let expected = f64::acos((t + w * t) / (0.75 * (w * w - 1.0_f64).sqrt()));
    near(h.exterior_angle(&x, &y, &Root::Origin), expected);
    near(h.cone_excess(&x, &y, 0.1, 0.7, &Root::Origin), expected - 0.7 * (0.2_f64 / 0.75).asin());
    // The middle of x and y lies on the diagonal, at (x + y) / (2 cosh(d / 2)).
    let mut middle = [0.0; 2];
    h.geodesic(&x, &y, 0.5, &mut middle);
    near(middle[0], 0.75 / (2.0 * (h.dist(&x, &y) / 2.0).cosh()));
    near(middle[0], middle[1]);
    // Tangents longer than `MAX_RAPIDITY` are shortened.
    h.lift(&[0.0, 1e4], &mut x);
    assert_eq!(x, [0.0, safe::MAX_SINH]);
}

/// Means over factors: factor 0 has the points of `lorentz_at_known_points` (c = 1), factor 1 the same configuration at
/// c = 4, where coordinates halve.
#[test]
fn products_are_means_of_their_factors() {
    let (x, y) = ([0.75, 0.0, 0.375, 0.0], [0.0, 0.75, 0.0, 0.375]);
    let l1 = build(ManifoldSpec::product_l1(2, 2, vec![1.0, 4.0]));
    let l2 = build(ManifoldSpec::product_l2(2, 2, vec![1.0, 4.0]));
    let d = (25.0_f64 / 16.0).acosh();
    near(l1.dist(&x, &y), (d + d / 2.0) / 2.0);
    near(l2.dist(&x, &y), ((d * d + d * d / 4.0) / 2.0).sqrt());
    near(l1.inner(&x, &y), -25.0 / 16.0 - 25.0 / 64.0);
    near(l1.similarity(&x, &y), -l1.dist(&x, &y));
    near(l2.depth(&x, &Root::Origin), 2.0_f64.ln() * (1.25_f64 / 2.0).sqrt());
    // Both factors have the same angle and the same aperture.
    let single = build(ManifoldSpec::lorentz(2, 1.0));
    for root in [Root::Origin, Root::Point(vec![0.0, 0.1, 0.0, 0.05])] {
        let (a, b) = (l1.exterior_angle(&x, &y, &root), l1.half_aperture(&x, 0.1, &root));
        let part = match &root {
            Root::Origin => Root::Origin,
            Root::Point(p) => Root::Point(p[..2].to_vec()),
        };
        near(a, single.exterior_angle(&x[..2], &y[..2], &part));
        near(b, single.half_aperture(&x[..2], 0.1, &part));
    }
    // In factor 0 the child lies straight ahead, inside the cone by the half aperture. In factor 1 it lies straight
    // back, outside by pi minus the half aperture.
    let ahead_and_back = [1.5, 0.0, 0.1, 0.0];
    let half = (0.2_f64 / 0.75).asin();
    near(l1.cone_excess(&x, &ahead_and_back, 0.1, 1.0, &Root::Origin), (PI - half) / 2.0);
    let ahead = [1.5, 0.0, 0.375, 0.0];
    near(l1.cone_excess(&x, &ahead, 0.1, 1.0, &Root::Origin), -half);
}

/// Exterior angles of 45 and 135 degrees in the plane. Wang et al. Eq. 10 gives the same number for the first one.
#[test]
fn euclidean_at_known_points() {
    let e = build(ManifoldSpec::euclidean(2));
    let (x, y) = ([1.0, 0.0], [2.0, 1.0]);
    near(e.exterior_angle(&x, &y, &Root::Origin), FRAC_PI_4);
    let (xx, yy, gap) = (1.0_f64, 5.0_f64, 2.0_f64);
    near(((yy - xx - gap) / (2.0 * xx.sqrt() * gap.sqrt())).acos(), FRAC_PI_4);
    near(e.exterior_angle(&x, &y, &Root::Point(vec![1.0, -1.0])), FRAC_PI_4);
    near(e.exterior_angle(&y, &x, &Root::Point(vec![1.0, 1.0])), 3.0 * FRAC_PI_4);
    near(e.half_aperture(&y, 0.1, &Root::Origin), (0.1 / 5.0_f64.sqrt()).asin());
    near(e.depth(&y, &Root::Point(vec![2.0, 0.0])), 1.0);
    near(e.similarity(&x, &y), -(2.0_f64.sqrt()));
}

/// HierarCaps Eq. 1 as printed, `acos(<a, b - a> / (|a| |b - a|))` with `a = parent - root`, `b = child - root`.
#[test]
fn sphere_at_known_points() {
    let s = build(ManifoldSpec::sphere(3));
    let (root, parent, child) = ([1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.6, 0.8]);
    let at = Root::Point(root.to_vec());
    let (a, b) = ([-0.2, 0.6, 0.0], [-1.0, 0.6, 0.8]);
    let step = [b[0] - a[0], b[1] - a[1], b[2] - a[2]];
    let dot = |u: &[f64; 3], v: &[f64; 3]| u.iter().zip(v).map(|(p, q)| p * q).sum::<f64>();
    let expected = (dot(&a, &step) / (dot(&a, &a).sqrt() * dot(&step, &step).sqrt())).acos();
    near(s.exterior_angle(&parent, &child, &at), expected);
    near(s.depth(&parent, &at), 0.4_f64.sqrt());
    near(s.depth(&parent, &Root::Origin), 1.0);
    near(s.half_aperture(&parent, 0.05, &at), (0.05 / 0.4_f64.sqrt()).asin());
    near(s.dist(&root, &child), FRAC_PI_2);
    near(s.similarity(&parent, &child), 0.36);
    let mut out = [0.0; 3];
    s.geodesic(&root, &[0.0, 1.0, 0.0], 1.0 / 3.0, &mut out);
    near(out[0], (PI / 6.0).cos());
    near(out[1], 0.5);
    s.lift(&[0.0, 3.0, 4.0], &mut out);
    assert_eq!(out, [0.0, 0.6, 0.8]);
    s.lift(&[0.0; 3], &mut out);
    assert_eq!(out, [0.0; 3], "the zero vector has no direction");
    // The midpoint between opposite points is a quarter turn from both.
    s.geodesic(&parent, &[-0.8, -0.6, 0.0], 0.5, &mut out);
    near(s.dist(&parent, &out), FRAC_PI_2);
}

/// The middle of the geodesic between two orthogonal points of rapidity 2 has `cosh(depth) = cosh(2) / cosh(d / 2)`.
/// The middle of the tangent line, between two legs of length 2, has depth sqrt(2).
#[test]
fn halfway_between_orthogonal_points() {
    let h = build(ManifoldSpec::lorentz(2, 1.0));
    let (x, y) = ([2.0_f64.sinh(), 0.0], [0.0, 2.0_f64.sinh()]);
    let (mut geodesic, mut tangent) = ([0.0; 2], [0.0; 2]);
    h.geodesic(&x, &y, 0.5, &mut geodesic);
    h.tangent_line(&x, &y, 0.5, &mut tangent);
    near(h.depth(&geodesic, &Root::Origin), (2.0_f64.cosh() / (h.dist(&x, &y) / 2.0).cosh()).acosh());
    assert!((h.depth(&geodesic, &Root::Origin) - 0.83).abs() < 0.005);
    near(h.depth(&tangent, &Root::Origin), 2.0_f64.sqrt());
}

/// Compares with HyCoCLIP Eqs. 14 to 16, computed in `f64` with explicit time coordinates. For the origin p,
/// `<p, q>_L = -q_0 / sqrt(c)`. Factors of a product are independent.
#[test]
fn tangent_lines_follow_the_equations() {
    let log = |q: &[f64], c: f64| -> Vec<f64> {
        let cosh = (1.0 + c * q.iter().map(|v| v * v).sum::<f64>()).sqrt();
        q.iter().map(|v| cosh.acosh() / (cosh * cosh - 1.0).sqrt() * v).collect()
    };
    let exp = |v: &[f64], c: f64| -> Vec<f64> {
        let length = (c * v.iter().map(|v| v * v).sum::<f64>()).sqrt();
        v.iter().map(|it| length.sinh() / length * it).collect()
    };
    let mut worst = 0.0_f64;
    for c in [0.1, 1.0, 10.0] {
        let (h, product) = (build(ManifoldSpec::lorentz(3, c)), build(ManifoldSpec::product_l1(2, 3, vec![c, 1.0])));
        let cloud = super::accuracy::cloud(11, 3, &[0.5, 1.0, 3.0], 4);
        for (x, y) in cloud.iter().flat_map(|x| cloud.iter().map(move |y| (x, y))).filter(|(x, y)| x != y) {
            for t in [0.0, 0.2, 0.7, 1.0] {
                let line = |c: f64| {
                    let ends = log(x, c).into_iter().zip(log(y, c));
                    exp(&ends.map(|(a, b)| (1.0 - t) * a + t * b).collect::<Vec<_>>(), c)
                };
                let mut found = [0.0; 9];
                let (one, both) = found.split_at_mut(3);
                h.tangent_line(x, y, t, one);
                product.tangent_line(&[&x[..], x].concat(), &[&y[..], y].concat(), t, both);
                let expected = [line(c), line(c), line(1.0)].concat();
                for (found, expected) in found.iter().zip(expected) {
                    worst = worst.max((found - expected).abs() / expected.abs().max(1.0));
                }
            }
        }
    }
    assert!(worst < 1e-12, "{worst:e}");
}

/// Compares distances, inner products and angles at three roots with the oracle, in `f64` and for norms 0.01 to 100.
#[test]
fn lorentz_follows_the_oracle() {
    let mut worst = [0.0_f64; 3];
    for c in [0.1, 1.0, 10.0] {
        let h = build(ManifoldSpec::lorentz(3, c));
        let cloud = super::accuracy::cloud(7, 3, &[0.01, 0.3, 1.0, 5.0, 100.0], 5);
        for x in &cloud {
            let px = oracle::point(x, c);
            for y in cloud.iter().filter(|y| *y != x) {
                let py = oracle::point(y, c);
                let dist = oracle::dist(&px, &py, c);
                worst[0] = worst[0].max((h.dist(x, y) - dist).abs() / dist);
                let inner = oracle::inner(&px, &py).to_f64();
                worst[1] = worst[1].max((h.inner(x, y) / inner - 1.0).abs() * 1e-4);
                for root in [vec![0.0; 3], vec![0.1, -0.7, 0.2], vec![-20.0, 3.0, 9.0]] {
                    let pr = oracle::point(&root, c);
                    let expected = oracle::exterior_angle(&pr, &px, &py, c);
                    let root = if root == [0.0; 3] { Root::Origin } else { Root::Point(root) };
                    let found = h.exterior_angle(x, y, &root);
                    worst[2] = worst[2].max((found - expected).abs());
                }
            }
        }
    }
    eprintln!("worst: dist {:e}, inner {:e}, angle {:e}", worst[0], worst[1], worst[2]);
    assert!(worst.iter().all(|w| *w < 1e-12), "{worst:?}");
}
