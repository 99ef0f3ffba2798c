//! Computes retrieval and classification metrics from plain arrays: points of photos and captions, which may come from
//! any program.
//!
//! `cargo run --release -p conifer --example evaluate_arrays`
#![allow(clippy::print_stdout)]

use conifer::data::ClassGraph;
use conifer::eval::metrics::{accuracy, bootstrap_mean, chance_hit_at_k, hierarchical_scores, hit_at_k, rank_of_best};
use conifer::geometry::{ManifoldSpec, space};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Photo i belongs to caption i. Any space of the registry works; this example uses the sphere, where similarity is
    // the cosine.
    let (spec, count) = (ManifoldSpec::sphere(3), 4);
    let geometry = space::<f32>(&spec)?;
    let point = |x: f32, y: f32, z: f32| {
        let mut point = [0.0; 3];
        geometry.lift(&[x, y, z], &mut point);
        point
    };
    let photos = [point(1.0, 0.1, 0.0), point(0.0, 1.0, 0.2), point(0.1, 0.0, 1.0), point(0.6, 0.6, 0.1)];
    let captions = [point(0.9, 0.0, 0.1), point(0.1, 1.0, 0.0), point(0.0, 0.2, 1.0), point(0.1, 0.7, 0.6)];

    // Recall@1 of captions for photos, with its bootstrap interval over the queries and the chance level.
    let ranks: Vec<usize> = (0..count)
        .filter_map(|photo| {
            let scores: Vec<f32> = captions.iter().map(|it| geometry.similarity(&photos[photo], it)).collect();
            rank_of_best(&scores, |caption| caption == photo)
        })
        .collect();
    let hits: Vec<f64> = ranks.iter().map(|&rank| hit_at_k(&[rank], 1)).collect();
    println!("recall@1 {:.2}, 95 % {:?}", hit_at_k(&ranks, 1), bootstrap_mean(&hits, 0));
    println!("by chance {:.2}", chance_hit_at_k(count, 1, 1));

    // Accuracy of predicted classes, and the distance of a wrong class in a tree.
    let (predicted, labels) = ([0, 1, 1, 2], [0, 1, 2, 2]);
    println!("accuracy {:?}", accuracy(&predicted, &labels, 3));
    let tree = ClassGraph::from_edges([("animal", "dog"), ("animal", "cat"), ("thing", "animal"), ("thing", "bus")])?;
    let scores = hierarchical_scores(&tree, tree.get("cat")?, tree.get("dog")?);
    println!("a cat instead of a dog: {scores:?}");
    Ok(())
}
