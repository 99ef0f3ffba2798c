//! An independent implementation of the objectives from the equations of the papers, in f64 on plain vectors with an
//! explicit time component. It shares no function with the library. The tests compare the library's loss with its
//! value, and the library's gradient with its central differences.
#![allow(clippy::unwrap_used)]

use conifer_geometry::ManifoldSpec;
use conifer_model::head::Head;

use super::Method;
use super::testkit::{Features, device, head, method, pass, relative, scalars_of};

/// Coordinates of a point in one factor. On a hyperboloid, the time component comes first.
type FormulaPoint = Vec<f64>;

#[derive(Clone)]
struct FormulaGeometry {
    kind: &'static str,
    curv: Vec<f64>,
}

const K: f64 = 0.1;

impl FormulaGeometry {
    fn lift(&self, tangent: &[f64]) -> Vec<FormulaPoint> {
        if self.kind == "sphere" {
            let norm = tangent.iter().map(|x| x * x).sum::<f64>().sqrt();
            return vec![tangent.iter().map(|x| x / norm).collect()];
        }
        let factors = tangent.chunks(tangent.len() / self.curv.len());
        factors
            .zip(&self.curv)
            .map(|(v, c)| {
                let r = (c * v.iter().map(|x| x * x).sum::<f64>()).sqrt();
                let time = r.cosh() / c.sqrt();
                std::iter::once(time).chain(v.iter().map(|x| r.sinh() / r * x)).collect()
            })
            .collect()
    }

    fn similarity(&self, x: &[FormulaPoint], y: &[FormulaPoint]) -> f64 {
        if self.kind == "sphere" {
            return x[0].iter().zip(&y[0]).map(|(a, b)| a * b).sum();
        }
        let dist: Vec<f64> =
            (0..x.len()).map(|i| (-self.curv[i] * minkowski(&x[i], &y[i])).acosh() / self.curv[i].sqrt()).collect();
        let k = dist.len() as f64;
        match self.kind {
            "product_l2" => -(dist.iter().map(|d| d * d).sum::<f64>() / k).sqrt(),
            _ => -dist.iter().sum::<f64>() / k,
        }
    }

    /// The cone of HyCoCLIP Eqs. 7, 9 and 10, averaged over the factors as in PHyCLIP Eq. 5.
    fn cone(&self, parent: &[FormulaPoint], child: &[FormulaPoint], eta: f64) -> f64 {
        let factors = (0..parent.len()).map(|i| {
            let (q, p, c) = (&parent[i], &child[i], self.curv[i]);
            let norm = q[1..].iter().map(|x| x * x).sum::<f64>().sqrt();
            let inner = c * minkowski(p, q);
            let angle = ((p[0] + q[0] * inner) / (norm * (inner * inner - 1.0).sqrt())).acos();
            let aperture = (2.0 * K / (c.sqrt() * norm)).min(1.0).asin();
            (angle - eta * aperture).max(0.0)
        });
        factors.sum::<f64>() / parent.len() as f64
    }
}

/// RCME Eq. 1: the angle at `parent` between the direction from the root and the direction to `child`.
fn seen_from(root: &[f64], parent: &[f64], child: &[f64]) -> f64 {
    let come: Vec<f64> = parent.iter().zip(root).map(|(p, r)| p - r).collect();
    let go: Vec<f64> = child.iter().zip(parent).map(|(c, p)| c - p).collect();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
    (dot(&come, &go) / (dot(&come, &come) * dot(&go, &go)).sqrt()).acos()
}

fn minkowski(x: &FormulaPoint, y: &FormulaPoint) -> f64 {
    let space: f64 = x[1..].iter().zip(&y[1..]).map(|(a, b)| a * b).sum();
    space - x[0] * y[0]
}

/// Inputs of the formulas: the geometry, the four views as points, and the logit scale.
struct FormulaBatch {
    geometry: FormulaGeometry,
    image: Vec<Vec<FormulaPoint>>,
    text: Vec<Vec<FormulaPoint>>,
    box_image: Vec<Vec<FormulaPoint>>,
    box_text: Vec<Vec<FormulaPoint>>,
    logit_scale: f64,
}

impl FormulaBatch {
    /// `scalars`: logarithms of curvatures, visual scales, textual scales, logit scale.
    fn new(kind: &'static str, features: &Features, scalars: &[Vec<f64>; 4]) -> Self {
        let [curv, visual, textual, logit] = scalars;
        let geometry = FormulaGeometry { kind, curv: curv.iter().map(|l| l.exp()).collect() };
        let lift = |view: usize| {
            let scale = [visual, textual][view % 2];
            let row = |v: &Vec<f64>| {
                let width = v.len() / scale.len().max(1);
                let scaled = v.iter().enumerate().map(|(j, x)| x * scale.get(j / width).map_or(1.0, |l| l.exp()));
                geometry.lift(&scaled.collect::<Vec<_>>())
            };
            features.0[view].iter().map(row).collect::<Vec<_>>()
        };
        Self {
            image: lift(0),
            text: lift(1),
            box_image: lift(2),
            box_text: lift(3),
            logit_scale: logit[0].exp(),
            geometry,
        }
    }

    /// `mean_i [ log sum_k exp(s S_ik) - s S_ii ]`, with the similarity S and the logit scale s. k runs over all
    /// candidates, or with `skip_own` over all but i.
    fn contrast(&self, queries: &[Vec<FormulaPoint>], candidates: &[Vec<FormulaPoint>], skip_own: bool) -> f64 {
        let row = |i: usize| {
            let logits: Vec<f64> =
                candidates.iter().map(|y| self.logit_scale * self.geometry.similarity(&queries[i], y)).collect();
            let others = logits.iter().enumerate().filter(|(k, _)| !(skip_own && *k == i));
            others.map(|(_, l)| (l - logits[i]).exp()).sum::<f64>().ln()
        };
        (0..queries.len()).map(row).sum::<f64>() / queries.len() as f64
    }

    fn cones(&self, parents: &[Vec<FormulaPoint>], children: &[Vec<FormulaPoint>], eta: f64) -> f64 {
        let each = parents.iter().zip(children).map(|(p, c)| self.geometry.cone(p, c, eta));
        each.sum::<f64>() / parents.len() as f64
    }

    fn clip(&self) -> f64 {
        (self.contrast(&self.image, &self.text, false) + self.contrast(&self.text, &self.image, false)) / 2.0
    }

    fn meru(&self, eta: f64) -> f64 {
        self.clip() + 0.2 * self.cones(&self.text, &self.image, eta)
    }

    /// The loss of HyCoCLIP, Eqs. 6, 11 and 12.
    fn hycoclip(&self, skip_own: bool) -> f64 {
        let hcc = self.contrast(&self.image, &self.text, skip_own)
            + self.contrast(&self.text, &self.image, skip_own)
            + self.contrast(&self.box_image, &self.text, skip_own)
            + self.contrast(&self.box_text, &self.image, skip_own);
        hcc / 4.0 + 0.1 * self.entailment()
    }

    /// The loss of PHyCLIP, Eqs. 1, 4 and 6.
    fn phyclip(&self) -> f64 {
        let contrastive = self.contrast(&self.image, &self.text, false)
            + self.contrast(&self.text, &self.image, false)
            + self.contrast(&self.box_image, &self.box_text, false)
            + self.contrast(&self.box_text, &self.box_image, false);
        contrastive / 4.0 + 0.2 * self.entailment()
    }

    /// The loss of RCME, Eqs. 5 to 9, on chains of image, text, box image and box text. Wrong link j is the negated
    /// view j + 1, cyclically.
    fn rcme(&self, root: &[f64], margin: f64, align: f64, previous: bool) -> f64 {
        let links = [&self.image, &self.text, &self.box_image, &self.box_text];
        let rows = self.image.len();
        let row = |b: usize| {
            let link = |j: usize| links[j][b][0].clone();
            let wrong = |j: usize| links[(j + 1) % 4][b][0].iter().map(|x| -x).collect::<Vec<_>>();
            let local = |child: &dyn Fn(usize) -> Vec<f64>| {
                let apex = |j: usize| if previous && j > 0 { link(j - 1) } else { root.to_vec() };
                (0..3).map(|j| seen_from(&apex(j), &link(j), &child(j + 1))).sum::<f64>() / 3.0
            };
            let angle = |i: usize, j: usize| seen_from(root, &link(i), &link(j));
            let cosine = |i, j| angle(i, j).cos().max(0.0);
            let global =
                |j: usize| (angle(j - 1, j + 1) - (cosine(j, j + 1) * cosine(j - 1, j)).acos() + margin).max(0.0);
            local(&link) - local(&wrong) + (global(1) + global(2)) / 2.0
        };
        (0..rows).map(row).sum::<f64>() / rows as f64 + align * self.contrast(&self.box_text, &self.image, false)
    }

    /// The cone terms of HyCoCLIP Eq. 11 and PHyCLIP Eq. 6; here the first argument is the parent.
    fn entailment(&self) -> f64 {
        self.cones(&self.text, &self.image, 0.7)
            + self.cones(&self.box_text, &self.box_image, 0.7)
            + self.cones(&self.box_image, &self.image, 1.2)
            + self.cones(&self.box_text, &self.text, 1.2)
    }

    fn with_boxes_appended(mut self) -> Self {
        self.image.append(&mut self.box_image);
        self.text.append(&mut self.box_text);
        self
    }
}

struct FormulaCase {
    method: &'static str,
    settings: &'static str,
    spec: ManifoldSpec,
    formula: fn(FormulaBatch) -> f64,
}

fn cases() -> Vec<FormulaCase> {
    let sphere = || ManifoldSpec::sphere(12);
    let lorentz = || ManifoldSpec::lorentz(12, 1.0);
    let l1 = || ManifoldSpec::product_l1(4, 3, vec![1.0; 4]);
    let l2 = || ManifoldSpec::product_l2(3, 4, vec![1.0; 3]);
    let case = |method, settings, spec, formula| FormulaCase { method, settings, spec, formula };
    vec![
        case("clip", "", sphere(), |b| b.clip()),
        case("clip", "boxes = 'samples'", sphere(), |b| b.with_boxes_appended().clip()),
        case("clip", "terms.contrast_text_image = false", sphere(), |b| b.contrast(&b.image, &b.text, false) / 2.0),
        case("meru", "", lorentz(), |b| b.meru(1.0)),
        case("meru", "boxes = 'samples'", lorentz(), |b| b.with_boxes_appended().meru(1.0)),
        case("meru", "aperture_scale = 0.7", l1(), |b| b.meru(0.7)),
        case("hycoclip", "", lorentz(), |b| b.hycoclip(false)),
        case("hycoclip", "denominator = 'negatives'", lorentz(), |b| b.hycoclip(true)),
        case("phyclip", "", l1(), |b| b.phyclip()),
        case("phyclip", "", l2(), |b| b.phyclip()),
        case("phyclip", "entailment_weight = 0.1\nbox_candidates = 'wholes'", l1(), |b| b.hycoclip(false)),
        case("phyclip", "reference = true", l2(), |b| b.hycoclip(false)),
    ]
}

/// Compares the f32 loss with the f64 oracle on 10 samples of dimension 12. The tolerances are those of the fixtures:
/// value 1e-5 relative, gradients 1e-4 of their norm.
#[test]
fn losses_and_gradients_follow_the_equations() {
    for (i, case) in cases().into_iter().enumerate() {
        let what = format!("{} on {} with `{}`", case.method, case.spec, case.settings);
        let features = Features::random(100 + i as u64, 10, 12);
        let kind = method_kind(&case.spec);
        let method = method(case.method, case.settings);
        follows(&what, &head(&case.spec), method.as_ref(), &features, |features, scalars| {
            (case.formula)(FormulaBatch::new(kind, features, scalars))
        });
    }
}

/// Compares RCME (Eqs. 1, 2 and 5 to 9) with a point as root. With `reference`, the local angles are measured from the
/// previous link instead of the root, as in the released code.
#[test]
fn chains_follow_the_equations() {
    let spec = ManifoldSpec::sphere(12);
    for (i, settings) in ["", "margin = 0.4", "reference = true", "alignment_weight = 1.0"].into_iter().enumerate() {
        let features = Features::random(200 + i as u64, 10, 12);
        let root: Vec<f64> = (0..12).map(|i| f64::from((1.7 * f64::from(i) + 0.3).sin() as f32 * 0.4)).collect();
        let head = head(&spec).with_root(Some(&root), false, &device()).unwrap();
        // The head normalises its root on the sphere.
        let norm = root.iter().map(|x| x * x).sum::<f64>().sqrt();
        let root: Vec<f64> = root.iter().map(|x| x / norm).collect();
        let margin = if settings.starts_with("margin") { 0.4 } else { std::f64::consts::FRAC_PI_2 };
        let align = if settings.starts_with("align") { 1.0 } else { 0.1 };
        let method = method("rcme", settings);
        follows(&format!("rcme with `{settings}`"), &head, method.as_ref(), &features, |features, scalars| {
            FormulaBatch::new("sphere", features, scalars).rcme(&root, margin, align, settings.starts_with("reference"))
        });
    }
}

/// Compares loss and gradients of `method` with `value`, a function of features and scalars.
pub(super) fn follows(
    what: &str,
    head: &Head,
    method: &dyn Method,
    features: &Features,
    value: impl Fn(&Features, &[Vec<f64>; 4]) -> f64,
) {
    let scalars = scalars_of(head);
    let found = pass(head, method, features);
    let expected = value(features, &scalars);
    assert!((found.total - expected).abs() <= 1e-5 * expected.abs(), "{what}: {} {expected}", found.total);

    // Step of the central difference: its error is about h^2 in relative terms, rounding about 1e-16 / h.
    const H: f64 = 1e-5;
    for view in 0..4 {
        let slope = |row: usize, column: usize| {
            let at = |step: f64| {
                let mut moved = features.clone();
                moved.0[view][row][column] += step;
                value(&moved, &scalars)
            };
            (at(H) - at(-H)) / (2.0 * H)
        };
        // Check every column of three rows; the other rows run the same code.
        let checked: Vec<(usize, usize)> = [0, 4, 9].iter().flat_map(|&r| (0..12).map(move |c| (r, c))).collect();
        let expected: Vec<f64> = checked.iter().map(|&(r, c)| slope(r, c)).collect();
        match &found.features[view] {
            Some(gradient) => {
                let gradient: Vec<f64> = checked.iter().map(|&(r, c)| gradient[r * 12 + c]).collect();
                assert!(relative(&gradient, &expected) < 1e-4, "{what}, view {view}: {gradient:?} {expected:?}");
            }
            None => assert!(expected.iter().all(|x| *x == 0.0), "{what}, view {view} has no gradient"),
        }
    }
    let mut expected = Vec::new();
    for group in 0..4 {
        for entry in 0..scalars[group].len() {
            let at = |step: f64| {
                let mut moved = scalars.clone();
                moved[group][entry] += step;
                value(features, &moved)
            };
            expected.push((at(H) - at(-H)) / (2.0 * H));
        }
    }
    let gradient: Vec<f64> = found.scalars.iter().map(|(_, grad)| grad.unwrap()).collect();
    assert!(relative(&gradient, &expected) < 1e-4, "{what}: scalars {gradient:?} {expected:?}");
}

fn method_kind(spec: &ManifoldSpec) -> &'static str {
    ["sphere", "lorentz", "product_l1", "product_l2"].into_iter().find(|kind| *kind == spec.kind.name()).unwrap()
}
