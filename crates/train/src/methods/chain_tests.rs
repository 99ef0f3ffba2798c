//! Tests of the losses of chains with different lengths.
#![allow(clippy::unwrap_used)]

use burn::tensor::{DType, Tensor};

use super::testkit::{Features, device, embed, head, method, scalar};
use super::{BatchPoints, BatchSpace, Chain, METHODS};
use conifer_data::View;
use conifer_geometry::ManifoldSpec;

const ROWS: usize = 4;
const DIM: usize = 8;
const LENGTHS: [usize; ROWS] = [4, 3, 2, 1];

/// A batch of chains padded to four links; the chain of sample i has `LENGTHS[i]` links. The padding is `junk`, or
/// repeats the last link.
fn batch(space: &BatchSpace, junk: Option<f64>) -> BatchPoints {
    let features = Features::random(31, ROWS, DIM);
    let leaves: [Tensor<2>; 4] = std::array::from_fn(|view| features.leaf(view, DType::F32, &device()));
    let mut found = embed(&leaves, |points, _| space.manifold.lift(points));
    let cut = |chain: Chain| {
        let of = |links: &[Tensor<2>], link: usize| {
            let rows = (0..ROWS).map(|row| {
                let own = links[link.min(LENGTHS[row] - 1)].clone().narrow(0, row, 1);
                let absent = link >= LENGTHS[row];
                match junk {
                    Some(junk) if absent => {
                        space.manifold.lift(Tensor::<2>::full([1, DIM], junk + 0.1 * link as f64, &device()))
                    }
                    _ => own,
                }
            });
            Tensor::cat(rows.collect(), 0)
        };
        let links = |all: &[Tensor<2>]| (0..4).map(|link| of(all, link)).collect::<Vec<_>>();
        Chain { positive: links(&chain.positive), negative: links(&chain.negative), lengths: LENGTHS.to_vec() }
    };
    found.chain = found.chain.map(cut);
    found.frozen_chain = found.frozen_chain.map(cut);
    found
}

/// Cuts out sample `row`, without the links after the end of its chain.
fn alone(batch: &BatchPoints, row: usize) -> BatchPoints {
    let cut = |chain: &Chain| {
        let own =
            |links: &[Tensor<2>]| links.iter().take(LENGTHS[row]).map(|it| it.clone().narrow(0, row, 1)).collect();
        Chain { positive: own(&chain.positive), negative: own(&chain.negative), lengths: Vec::new() }
    };
    BatchPoints {
        chain: batch.chain.as_ref().map(cut),
        frozen_chain: batch.frozen_chain.as_ref().map(cut),
        ..BatchPoints::default()
    }
}

fn spaces() -> Vec<(&'static str, &'static str, ManifoldSpec)> {
    let (sphere, lorentz) = (ManifoldSpec::sphere(DIM), ManifoldSpec::lorentz(DIM, 1.0));
    vec![
        ("rcme", "terms.contrast_text_image = false", sphere.clone()),
        ("rcme", "terms.contrast_text_image = false\nprior_weight = 2.0", sphere.clone()),
        ("rcme", "terms.contrast_text_image = false\nreference = true", sphere.clone()),
        ("radial", "terms.minimax = false", sphere.clone()),
        ("radial", "terms.minimax = false\nmargin = 0.4", sphere),
        ("poincare", "", lorentz),
    ]
}

/// The loss is the mean of the losses of the single samples. A sample with one link has no pair.
#[test]
fn the_loss_is_the_mean_of_shorter_chains() {
    for (name, text, spec) in spaces() {
        let space = head(&spec).space().unwrap();
        let method = method(name, text);
        let batch = batch(&space, None);
        let total = scalar(&method.loss(&batch, &space).unwrap().total);
        let mut expected = 0.0;
        for (row, length) in LENGTHS.into_iter().enumerate() {
            let mut alone = alone(&batch, row);
            if length == 1 {
                // Only the prior is defined for a chain of one link. Repeating the link does not change it.
                let double = |chain: Chain| Chain {
                    positive: [chain.positive.clone(), chain.positive].concat(),
                    negative: [chain.negative.clone(), chain.negative].concat(),
                    lengths: vec![1],
                };
                alone.chain = alone.chain.map(double);
                alone.frozen_chain = alone.frozen_chain.map(double);
            }
            expected += scalar(&method.loss(&alone, &space).unwrap().total) / ROWS as f64;
        }
        assert!((total - expected).abs() < 1e-5 * expected.abs().max(1.0), "{name} `{text}`: {total} {expected}");
    }
}

/// Padding links do not change the loss.
#[test]
fn absent_links_are_not_read() {
    for entry in METHODS.iter().filter(|entry| entry.views.contains(&View::Chain)) {
        // RCME aligns photographs with the last link, which must repeat the last text, so this term is off.
        let text = if entry.name == "rcme" { "terms.contrast_text_image = false" } else { "" };
        let spec = (entry.manifold)(DIM);
        let spec = if spec.kind.name() == "lorentz" { ManifoldSpec::lorentz(DIM, 1.0) } else { spec };
        let space = head(&spec).space().unwrap();
        let method = method(entry.name, text);
        let totals =
            [None, Some(0.3), Some(-1.7)].map(|junk| scalar(&method.loss(&batch(&space, junk), &space).unwrap().total));
        assert!(totals[0].is_finite() && totals.iter().all(|total| *total == totals[0]), "{}: {totals:?}", entry.name);
    }
}

/// RCME's alignment reads the last text of each chain.
#[test]
fn photographs_are_aligned_with_the_last_text() {
    let space = head(&ManifoldSpec::sphere(DIM)).space().unwrap();
    let alignment = "terms = { local_positive = false, local_negative = false, global = false }";
    let method = method("rcme", alignment);
    let batch = batch(&space, None);
    let positive = &batch.chain.as_ref().unwrap().positive;
    let rows = (0..ROWS).map(|row| positive[LENGTHS[row] - 1].clone().narrow(0, row, 1));
    let last = Tensor::cat(rows.collect(), 0);
    let chain = Chain { positive: vec![last.clone(), last], negative: Vec::new(), lengths: Vec::new() };
    let expected = BatchPoints { chain: Some(chain), ..batch.clone() };
    let total = |batch: &BatchPoints| scalar(&method.loss(batch, &space).unwrap().total);
    assert_eq!(total(&batch), total(&expected));
    let without = BatchPoints { image: None, ..batch };
    let message = method.loss(&without, &space).err().unwrap().to_string();
    assert!(message.contains("image of the batch") && message.contains("rcme reads the view `photo`"), "{message}");
}
