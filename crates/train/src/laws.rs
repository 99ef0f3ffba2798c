//! Tests of properties that every training objective must have. They run over [`METHODS`](crate::methods::METHODS), so
//! a new registry entry is tested automatically.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

use burn::tensor::{DType, Tensor, TensorData};
use conifer_data::View;
use conifer_geometry::{ManifoldSpec, SPACES};
use conifer_geometry_tensor::gradcheck;
use conifer_model::head::{Head, HeadConfig};

use crate::methods::testkit::{
    Features, device, embed, head, head_at, method, numbers, pass, pass_of_rows, relative, scalar, settings, space_f64,
    try_pass,
};
use crate::methods::{BatchPoints, BatchSpace, Edges, METHODS, MethodEntry, RowShare, entry};

const ROWS: usize = 8;
const DIM: usize = 16;

/// The default space of the method in a small dimension, with curvatures filled in.
fn spec(entry: &MethodEntry) -> ManifoldSpec {
    filled((entry.manifold)(DIM))
}

fn filled(mut spec: ManifoldSpec) -> ManifoldSpec {
    if spec.curv.is_empty() && conifer_geometry::entry(spec.kind.name()).unwrap().curved {
        spec.curv = (0..spec.factors).map(|i| 0.4 + 0.7 * i as f64).collect();
    }
    spec
}

/// The candidate settings that the method accepts. Each setting changes what the method reads or computes. Tests that
/// need no particular setting run over all of these.
fn variants(entry: &MethodEntry) -> Vec<&'static str> {
    let candidates = [
        "",
        "reference = true",
        "boxes = 'samples'",
        "box_candidates = 'wholes'",
        "denominator = 'negatives'",
        "towards_root = false",
        "margin = 0.4",
        "margin = 0.4\nmargin_form = 'hinge'",
        "prior_weight = 2.0",
        "negatives = 'batch'",
        GRADIENTS_PASS,
    ];
    candidates.into_iter().filter(|text| accepts(entry, text)).collect()
}

fn accepts(entry: &MethodEntry, text: &str) -> bool {
    (entry.from_config)(&settings(text)).is_ok()
}

/// Setting that lets gradients pass through intermediate values that a method otherwise treats as constants. Without
/// this setting, the gradient is not the derivative of the loss; `methods::later_oracle` checks the gradient in that
/// case.
const GRADIENTS_PASS: &str = "stop_gradients = false";

#[test]
fn registry_entry_and_method_agree() {
    for line in &METHODS {
        let built = method(line.name, "");
        assert_eq!((built.name(), built.reference(), built.views()), (line.name, line.reference, line.views));
        spec(line).check().unwrap();
        let features = Features::random(1, ROWS, DIM);
        let loss = pass(&head(&spec(line)), built.as_ref(), &features).loss;
        assert_eq!(loss.total.dims(), [1]);
        for term in line.terms {
            let [values] = loss.term(term).unwrap().dims();
            assert!(
                values > 0 && values.is_multiple_of(ROWS),
                "{}: {term} has a whole number of values per sample",
                line.name
            );
        }
    }
    let mut names: Vec<_> = METHODS.iter().map(|line| line.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METHODS.iter().len());
    let unknown = entry("bogus").err().unwrap().to_string();
    assert!(unknown.contains("bogus") && unknown.contains(&METHODS.names()), "{unknown}");
}

#[test]
fn settings_are_completed_and_unknown_keys_are_rejected() {
    for line in &METHODS {
        let complete = (line.resolve)(&settings("")).unwrap();
        assert_eq!((line.resolve)(&complete).unwrap(), complete, "{}: resolving twice changes nothing", line.name);
        let terms: Vec<_> = complete["terms"].as_table().unwrap().keys().map(String::as_str).collect();
        let mut expected = line.terms.to_vec();
        expected.sort_unstable();
        assert_eq!(terms, expected, "{}", line.name);
        assert_eq!(complete["reference"].as_bool(), Some(false), "{}: the paper is the default", line.name);
        let released = (line.resolve)(&settings("reference = true")).unwrap();
        assert_eq!(released["reference"].as_bool(), Some(true), "{}", line.name);

        for (bad, word) in [
            ("bogus = 1", "bogus"),
            ("terms.bogus = false", "terms.bogus"),
            (&format!("terms.{} = 3", line.terms[0]), "invalid type"),
            ("reference = 'yes'", "method.reference"),
        ] {
            let message = (line.from_config)(&settings(bad)).err().unwrap().to_string();
            assert!(message.contains(word), "{} with `{bad}`: {message}", line.name);
        }
        let none: Vec<_> = line.terms.iter().map(|term| format!("terms.{term} = false")).collect();
        let message = (line.from_config)(&settings(&none.join("\n"))).err().unwrap().to_string();
        assert!(message.contains("at least one term"), "{message}");
    }
}

/// With `train.loss_rows = "own"`, the contributions of the processes add up to the loss, its terms and the gradients
/// of the points.
#[test]
fn parts_of_the_rows_add_up_to_the_loss() {
    let close = |found: &[f64], expected: &[f64]| {
        // 4e-7 is the rounding of the terms.
        relative(found, expected) < 1e-5 || found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 4e-7)
    };
    for line in &METHODS {
        let head = head(&spec(line));
        let features = Features::random(5, ROWS, DIM);
        for text in variants(line) {
            let method = method(line.name, text);
            let whole = pass(&head, method.as_ref(), &features);
            // Terms have 8, 16 or 24 rows. The parts have equal sizes for 2 parts, and unequal ones for 5.
            for parts in [2, 3, 5] {
                let what = format!("{} with `{text}` in {parts} parts", line.name);
                let of = |part| pass_of_rows(&head, method.as_ref(), &features, RowShare::new(part, parts)).unwrap();
                let found: Vec<_> = (0..parts).map(of).collect();
                let total: f64 = found.iter().map(|it| it.total).sum();
                assert!(
                    (total - whole.total).abs() <= 1e-6 * whole.total.abs() + 4e-7,
                    "{what}: {total} {}",
                    whole.total
                );
                for (name, values) in &whole.loss.terms {
                    let mean = |values: &Tensor<1>| numbers(&values.clone().mean())[0];
                    let (expected, sum) =
                        (mean(values), found.iter().map(|it| mean(it.loss.term(name).unwrap())).sum::<f64>());
                    assert!((sum - expected).abs() <= 1e-6 * expected.abs() + 4e-7, "{what}: {name} {sum} {expected}");
                }
                for (view, expected) in whole.features.iter().enumerate() {
                    let parts: Vec<_> = found.iter().filter_map(|it| it.features[view].clone()).collect();
                    assert_eq!(parts.is_empty(), expected.is_none(), "{what}: view {view}");
                    let Some(expected) = expected else { continue };
                    assert!(close(&sums(&parts), expected), "{what}: gradient of view {view}");
                }
            }
        }
    }
}

/// In f64, the rounding of f32 does not hide errors in the gradients of curvatures and temperature, which are small
/// differences of large sums.
#[test]
fn gradients_of_parts_of_the_rows_add_up_in_f64() {
    for line in &METHODS {
        let spec = spec(line);
        // The factor brings the points into the usual range of embeddings.
        let features = Features::random(5, ROWS, DIM)
            .0
            .map(|view| view.into_iter().map(|row| row.into_iter().map(|x| 0.3 * x).collect()).collect());
        let features = Features(features);
        for text in variants(line) {
            let method = method(line.name, text);
            let gradients = |rows: RowShare| {
                let leaf = |values: &[f64]| {
                    let data = TensorData::new(values.to_vec(), [values.len()]);
                    Tensor::<1>::from_data(data, (&device(), DType::F64)).require_grad()
                };
                let views: [Tensor<2>; 4] = std::array::from_fn(|view| features.leaf(view, DType::F64, &device()));
                let (scale, curv) = (leaf(&[10.0]), (!spec.curv.is_empty()).then(|| leaf(&spec.curv)));
                let space = BatchSpace { rows, ..space_f64(&spec, curv.clone(), scale.clone()) };
                let batch = embed(&views, |tangent, _| space.manifold.lift(tangent));
                let by_loss = method.loss(&batch, &space).unwrap().total.backward();
                let mut found = views.map(|view| view.grad(&by_loss).map(|it| numbers(&it))).to_vec();
                found.extend([Some(&scale), curv.as_ref()].map(|it| Some(numbers(&it?.grad(&by_loss)?))));
                found
            };
            let whole = gradients(RowShare::default());
            for parts in [2, 3, 5] {
                let found: Vec<_> = (0..parts).map(|part| gradients(RowShare::new(part, parts))).collect();
                for (input, expected) in whole.iter().enumerate() {
                    let what = format!("{} with `{text}` in {parts} parts: input {input}", line.name);
                    let all: Vec<_> = found.iter().filter_map(|it| it[input].clone()).collect();
                    assert_eq!(all.is_empty(), expected.is_none(), "{what}");
                    let Some(expected) = expected else { continue };
                    let difference = sums(&all).iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    assert!(difference < 1e-12 || relative(&sums(&all), expected) < 1e-10, "{what}: {difference}");
                }
            }
        }
    }
}

/// The elementwise sum of vectors of the same length.
fn sums(vectors: &[Vec<f64>]) -> Vec<f64> {
    (0..vectors[0].len()).map(|i| vectors.iter().map(|it| it[i]).sum()).collect()
}

/// Value and gradients stay finite at numerically difficult inputs in f32, on every space.
#[test]
fn finite_on_the_edge_batch() {
    for line in &METHODS {
        for kind in &SPACES {
            for spec in [4, 2].map(|factors| edge_space(kind.kind, if kind.factored { factors } else { 1 })) {
                let head = Head::new(&spec, &HeadConfig::default(), &device()).unwrap();
                for text in variants(line) {
                    let method = method(line.name, text);
                    let found = match try_pass(&head, method.as_ref(), &edge_batch()) {
                        Ok(found) => found,
                        // Some forms (released apertures) support only some spaces; the error names `manifold.kind`.
                        Err(error) => {
                            assert!(
                                error.to_string().contains("manifold.kind"),
                                "{} on {spec} with `{text}`: {error}",
                                line.name
                            );
                            continue;
                        }
                    };
                    let what = format!("{} on {spec} with `{text}`", line.name);
                    assert!(found.total.is_finite(), "{what}: {}", found.total);
                    for gradient in found.features.iter().flatten() {
                        assert!(gradient.iter().all(|x| x.is_finite()), "{what}: {gradient:?}");
                    }
                    for (name, gradient) in &found.scalars {
                        assert!(gradient.is_none_or(f64::is_finite), "{what}: {name} {gradient:?}");
                    }
                }
            }
        }
    }
}

/// Curvatures that alternate between both ends of their range.
fn edge_space(kind: &str, factors: usize) -> ManifoldSpec {
    let curved = conifer_geometry::entry(kind).unwrap().curved;
    let ends = [0.1, 10.0].into_iter().cycle();
    ManifoldSpec { kind: kind.into(), dim: DIM, factors, curv: ends.take(if curved { factors } else { 0 }).collect() }
}

/// One numerically difficult case per row: zeros, tiny, far, far beside near, all views equal, mirrored, collinear,
/// half of the coordinates zero, a repeated row, the origin beside an ordinary point.
fn edge_batch() -> Features {
    let mut batch = Features::random(5, 11, DIM);
    let scale = |rows: &mut Vec<Vec<f64>>, row: usize, factor: f64| rows[row].iter_mut().for_each(|x| *x *= factor);
    let first = batch.0[0].clone();
    for (view, rows) in batch.0.iter_mut().enumerate() {
        scale(rows, 0, 0.0);
        scale(rows, 1, 1e-6);
        scale(rows, 2, 1e4);
        // The photographs of this row are far from the origin, and its texts near the origin.
        scale(rows, 3, if view % 2 == 0 { 1e4 } else { 1e-6 });
        rows[4] = first[4].clone();
        rows[5] = first[5].clone();
        scale(rows, 5, if view % 2 == 0 { 1.0 } else { -1.0 });
        rows[6] = first[6].clone();
        scale(rows, 6, 1.0 + view as f64);
        rows[7][..DIM / 2].fill(0.0);
        rows[8] = rows[9].clone();
        // The photographs of this row are at the origin, and its texts are ordinary points.
        scale(rows, 10, f64::from(view as u8 % 2));
    }
    batch
}

#[test]
fn permuting_the_batch_changes_nothing() {
    let order = [3, 0, 7, 1, 6, 2, 5, 4];
    for line in &METHODS {
        for text in variants(line) {
            let method = method(line.name, text);
            let head = head(&spec(line));
            let features = Features::random(2, ROWS, DIM);
            let (plain, permuted) =
                (pass(&head, method.as_ref(), &features), pass(&head, method.as_ref(), &features.reordered(&order)));
            // The order of the samples changes the order of an f32 sum, and so its rounding. The bound scales with the
            // largest term, because terms may cancel.
            let size = line.terms.iter().filter_map(|term| plain.loss.term(term));
            let size = size.flat_map(numbers).map(f64::abs).fold(plain.total.abs(), f64::max);
            assert!((plain.total - permuted.total).abs() <= 2e-6 * size, "{} `{text}`", line.name);
            for term in line.terms {
                let (a, b) = (numbers(plain.loss.term(term).unwrap()), numbers(permuted.loss.term(term).unwrap()));
                let expected: Vec<f64> = (0..a.len()).map(|i| a[i / ROWS * ROWS + order[i % ROWS]]).collect();
                assert!(relative(&b, &expected) < 1e-5, "{} `{text}`: {term} {b:?} {expected:?}", line.name);
            }
        }
    }
}

#[test]
fn every_term_is_used_and_can_be_switched_off() {
    for line in &METHODS {
        // At a high temperature no contrastive term is saturated.
        let head = head_at(&spec(line), 0.7);
        let features = Features::random(3, ROWS, DIM);
        let all = pass(&head, method(line.name, "").as_ref(), &features);
        for term in line.terms {
            let without = pass(&head, method(line.name, &format!("terms.{term} = false")).as_ref(), &features);
            assert!(without.loss.term(term).is_none());
            assert!((all.total - without.total).abs() > 1e-3 * all.total.abs(), "{}: {term} adds nothing", line.name);
            let moved = all.features.iter().zip(&without.features).any(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => relative(b, a) > 1e-3,
                (a, b) => a.is_some() != b.is_some(),
            });
            assert!(moved, "{}: {term} has no gradient", line.name);

            let others = line.terms.iter().filter(|other| *other != term).map(|other| format!("terms.{other} = false"));
            let alone = pass(&head, method(line.name, &others.collect::<Vec<_>>().join("\n")).as_ref(), &features);
            let (a, b) = (numbers(alone.loss.term(term).unwrap()), numbers(all.loss.term(term).unwrap()));
            // The values are not bitwise equal: without the term of the other direction, a contrastive term may compute
            // its own similarity matrix instead of transposing the other one.
            assert!(relative(&a, &b) < 1e-5, "{}: {term} is the same alone as with the others: {a:?} {b:?}", line.name);
            assert!(
                (alone.total - (all.total - without.total)).abs() <= 1e-5 * all.total.abs(),
                "{}: the total is the sum of the terms",
                line.name
            );
        }
    }
}

/// Compares every component of the gradient (features, curvatures, 1/temperature) with central differences, in f64.
#[test]
fn gradient_is_the_derivative_of_the_value() {
    const ROWS: usize = 3;
    for line in &METHODS {
        let spec = spec(line);
        // The factor brings the points into the usual range of embeddings.
        let features =
            Features::random(4, ROWS, DIM).0.map(|view| view.into_iter().flatten().map(|x| 0.3 * x).collect());
        let mut inputs: Vec<TensorData> = features.map(|view: Vec<f64>| TensorData::new(view, [ROWS, DIM])).into();
        inputs.push(TensorData::new(vec![10.0], [1, 1]));
        if !spec.curv.is_empty() {
            inputs.push(TensorData::new(spec.curv.clone(), [1, spec.curv.len()]));
        }
        for text in variants(line) {
            if accepts(line, GRADIENTS_PASS) && text != GRADIENTS_PASS {
                continue;
            }
            let method = method(line.name, text);
            let lifted = |inputs: &[Tensor<2>], space: &BatchSpace| {
                let views = std::array::from_fn(|view| inputs[view].clone());
                embed(&views, |tangent, _| space.manifold.lift(tangent))
            };
            // The frozen points come from the initial model and the keys from a momentum encoder, so they must not
            // change with the perturbation.
            let before: Vec<Tensor<2>> =
                inputs.iter().map(|data| Tensor::from_data(data.clone(), (&device(), DType::F64))).collect();
            let plain = space_f64(&spec, None, before[4].clone().reshape([-1]));
            let BatchPoints { frozen_chain: frozen, keys, .. } = lifted(&before, &plain);
            let checked = gradcheck(&inputs, 1e-6, |inputs| {
                let row = |input: usize| inputs.get(input).map(|row| row.clone().reshape([-1]));
                let space = space_f64(&spec, row(5), row(4).unwrap());
                let batch = BatchPoints { frozen_chain: frozen.clone(), keys: keys.clone(), ..lifted(&inputs, &space) };
                method.loss(&batch, &space).unwrap().total
            });
            assert_eq!(checked, Ok(()), "{} with `{text}`", line.name);
        }
    }
}

/// A scalar without gradient would silently stay constant.
#[test]
fn every_scalar_of_the_head_receives_a_gradient() {
    for line in &METHODS {
        for text in variants(line) {
            let found = pass(&head(&spec(line)), method(line.name, text).as_ref(), &Features::random(7, ROWS, DIM));
            assert!(!found.scalars.is_empty());
            // The temperature affects only contrastive terms, and a feature scale only the views of its tower.
            let contrasts = line.terms.iter().any(|term| term.starts_with("contrast"));
            let reads = |some: &[View]| some.iter().any(|view| line.views.contains(view));
            let read = |name: &str| match name {
                "logit_scale" => contrasts,
                _ if name.starts_with("visual") => reads(&[View::Pair, View::Photo, View::Boxes, View::Edges]),
                _ if name.starts_with("textual") => reads(&[View::Pair, View::Boxes, View::Chain]),
                _ => true,
            };
            for (name, gradient) in found.scalars.iter().filter(|(name, _)| read(name)) {
                let gradient = gradient.unwrap_or_default();
                assert!(gradient.is_finite() && gradient.abs() > 1e-7, "{} `{text}`: {name} {gradient}", line.name);
            }
        }
    }
}

#[test]
fn declared_views_are_exactly_those_read() {
    for line in &METHODS {
        let only = |term: &&str| {
            let others = line.terms.iter().filter(move |other| *other != term);
            others.map(|other| format!("terms.{other} = false")).collect::<Vec<_>>().join("\n")
        };
        let texts = variants(line).into_iter().map(str::to_owned).chain(line.terms.iter().map(only));
        for text in texts {
            let method = method(line.name, &text);
            let head = head(&spec(line));
            let space = head.space().unwrap();
            let complete = embedded(&head, &Features::random(8, ROWS, DIM));
            let expected = scalar(&method.loss(&complete, &space).unwrap().total);

            let declared = |view: usize| match view {
                0 => method.views().iter().any(|it| [View::Pair, View::Photo].contains(it)),
                1 => method.views().contains(&View::Pair),
                _ => method.views().contains(&View::Boxes),
            };
            let chains = method.views().contains(&View::Chain);
            let mut just_enough = complete.clone();
            (0..4).filter(|view| !declared(*view)).for_each(|view| take(&mut just_enough, view));
            if !chains {
                (just_enough.chain, just_enough.frozen_chain) = (None, None);
            }
            if !method.reads_frozen() {
                just_enough.frozen_chain = None;
            }
            let keys = method.momentum().is_some();
            just_enough.keys = just_enough.keys.filter(|_| keys);
            let edges = method.views().contains(&View::Edges);
            just_enough.edges = just_enough.edges.filter(|_| edges);
            let found = scalar(&method.loss(&just_enough, &space).unwrap().total);
            assert_eq!(found, expected, "{} `{text}`: undeclared views are not read", line.name);

            let without = |views: [usize; 2]| {
                let mut incomplete = complete.clone();
                views.into_iter().for_each(|view| take(&mut incomplete, view));
                incomplete
            };
            let frozen = method.reads_frozen();
            for (incomplete, read) in [
                (without([0, 1]), declared(0)),
                (without([2, 3]), declared(2)),
                (BatchPoints { chain: None, ..complete.clone() }, chains),
                (BatchPoints { frozen_chain: None, ..complete.clone() }, frozen),
                (BatchPoints { edges: None, ..complete.clone() }, edges),
                (BatchPoints { keys: None, ..complete.clone() }, keys),
            ] {
                match method.loss(&incomplete, &space) {
                    Ok(_) => assert!(!read, "{} `{text}`: a declared view is not read", line.name),
                    Err(error) => {
                        assert!(read, "{} `{text}`: {error}", line.name);
                        let message = error.to_string();
                        assert!(message.contains("missing"), "{message}");
                    }
                }
            }
        }
    }
}

#[test]
fn mismatched_views_are_rejected() {
    for line in &METHODS {
        let head = head(&spec(line));
        let space = head.space().unwrap();
        let method = method(line.name, "");
        let mut uneven = embedded(&head, &Features::random(9, ROWS, DIM));
        let shorter = |points: Tensor<2>| points.narrow(0, 0, ROWS - 1);
        uneven.text = uneven.text.map(shorter);
        let chain = uneven.chain.as_mut().unwrap();
        chain.positive[1] = shorter(chain.positive[1].clone());
        let edges = uneven.edges.as_mut().unwrap();
        edges.points = shorter(edges.points.clone());
        edges.things.truncate(ROWS);
        let message = method.loss(&uneven, &space).err().unwrap().to_string();
        assert!(message.contains("[7, 16]") && message.contains("[8, 16]"), "{message}");
        if method.views().contains(&View::Chain) {
            continue;
        }
        let nothing = Tensor::<2>::zeros([0, DIM], &device());
        let empty = BatchPoints {
            image: Some(nothing.clone()),
            text: Some(nothing.clone()),
            box_image: Some(nothing.clone()),
            box_text: Some(nothing.clone()),
            edges: Some(Edges { points: nothing, things: Vec::new(), parts: Vec::new() }),
            ..BatchPoints::default()
        };
        let message = method.loss(&empty, &space).err().unwrap().to_string();
        assert!(message.contains("at least 1"), "{message}");
    }
}

fn embedded(head: &Head, features: &Features) -> BatchPoints {
    let leaves = std::array::from_fn(|view| features.leaf(view, DType::F32, &device()));
    embed(&leaves, |points, tower| head.lift(points, tower).unwrap())
}

fn take(batch: &mut BatchPoints, view: usize) {
    *[&mut batch.image, &mut batch.text, &mut batch.box_image, &mut batch.box_text][view] = None;
}

mod limits {
    //! Special cases in which one method equals another.
    use super::*;

    fn total(name: &str, text: &str, spec: &ManifoldSpec, features: &Features) -> f64 {
        pass(&head(spec), method(name, text).as_ref(), features).total
    }

    fn same(a: f64, b: f64) {
        // Both totals sum the same f32 terms in different orders.
        assert!((a - b).abs() <= 2e-6 * b.abs(), "{a} {b}");
    }

    #[test]
    fn phyclip_with_one_factor_is_hycoclip_with_boxes_among_themselves() {
        let features = Features::random(11, ROWS, DIM);
        let one = ManifoldSpec::product_l1(1, DIM, vec![0.8]);
        let lorentz = ManifoldSpec::lorentz(DIM, 0.8);
        let form = "box_candidates = 'boxes'\nentailment_weight = 0.2";
        same(total("phyclip", "", &one, &features), total("hycoclip", form, &lorentz, &features));
        same(
            total("phyclip", "reference = true", &one, &features),
            total("hycoclip", "reference = true", &lorentz, &features),
        );
        let l2 = ManifoldSpec::product_l2(1, DIM, vec![0.8]);
        same(total("phyclip", "", &l2, &features), total("phyclip", "", &one, &features));
    }

    #[test]
    fn meru_is_twice_hycoclip_without_boxes_and_without_eta() {
        let features = Features::random(12, ROWS, DIM);
        let spec = ManifoldSpec::lorentz(DIM, 0.8);
        let no_boxes: Vec<_> = entry("hycoclip").unwrap().terms.iter().filter(|term| term.contains("box")).collect();
        let mut text: Vec<_> = no_boxes.iter().map(|term| format!("terms.{term} = false")).collect();
        text.push("aperture_scale.inter = 1.0".into());
        // MERU has the weights 1/2 and 0.2, HyCoCLIP 1/4 and 0.1.
        same(total("meru", "", &spec, &features), 2.0 * total("hycoclip", &text.join("\n"), &spec, &features));
    }

    #[test]
    fn meru_without_its_cone_on_a_sphere_is_clip() {
        let features = Features::random(13, ROWS, DIM);
        let sphere = ManifoldSpec::sphere(DIM);
        same(total("meru", "terms.cone_text_image = false", &sphere, &features), total("clip", "", &sphere, &features));
        let lorentz = ManifoldSpec::lorentz(DIM, 0.8);
        same(
            total("meru", "entailment_weight = 0", &lorentz, &features),
            total("meru", "terms.cone_text_image = false", &lorentz, &features),
        );
    }

    #[test]
    fn released_hycoclip_weights_amount_to_the_papers() {
        let features = Features::random(14, ROWS, DIM);
        let spec = ManifoldSpec::lorentz(DIM, 0.8);
        // The released weight 0.2 of half the sum equals the weight 0.1 of the sum.
        same(total("hycoclip", "reference = true", &spec, &features), total("hycoclip", "", &spec, &features));
    }

    #[test]
    fn boxes_as_samples_are_more_rows_of_the_same_method() {
        let features = Features::random(15, ROWS, DIM);
        let [image, text, box_image, box_text] = features.0.clone();
        let joined = [[image, box_image].concat(), [text, box_text].concat()];
        let [images, texts] = joined;
        let longer = Features([images.clone(), texts.clone(), images, texts]);
        for line in METHODS.iter().filter(|line| (line.from_config)(&settings("boxes = 'samples'")).is_ok()) {
            same(
                total(line.name, "boxes = 'samples'", &spec(line), &features),
                total(line.name, "", &spec(line), &longer),
            );
        }
    }

    /// Each text lies on the ray between the origin and its photograph, each box between the origin and its whole, and
    /// different samples have orthogonal directions. No cone is violated, and the contrastive part tends to its
    /// minimum, 0, as the temperature falls.
    #[test]
    fn the_ideal_configuration_reaches_the_minimum() {
        let ideal = |length: f64| {
            (0..DIM).map(|row| (0..DIM).map(|column| if row == column { length } else { 0.0 }).collect()).collect()
        };
        let features = Features([ideal(6.0), ideal(5.0), ideal(5.5), ideal(4.0)]);
        for line in ["clip", "meru", "hycoclip", "phyclip"].map(|name| entry(name).unwrap()) {
            let spec = ManifoldSpec { dim: DIM, factors: 1, ..spec(line) };
            let spec = ManifoldSpec { curv: spec.curv.iter().take(1).map(|_| 1.0).collect(), ..spec };
            let config = HeadConfig { feature_scale: Some(1.0), temperature: 0.01, ..HeadConfig::default() };
            let head = Head::new(&spec, &config, &device()).unwrap();
            let found = pass(&head, method(line.name, "").as_ref(), &features);
            assert!(found.total >= 0.0 && found.total < 1e-3, "{}: {}", line.name, found.total);
        }
    }
}
