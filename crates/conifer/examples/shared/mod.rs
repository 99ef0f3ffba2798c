//! A set of embeddings for the examples `search` and `walk_to_root`.

use std::collections::BTreeMap;

use conifer::embeddings::{EmbeddingSet, Modality};
use conifer::geometry::{ManifoldSpec, Root, space};

/// A small tree on a hyperbolic plane: "animal" with two words below it, "vehicle" with one, and two photos below each
/// of these three words. The polar angle selects the branch. More specific rows are farther from the origin.
pub(crate) fn small_tree() -> EmbeddingSet {
    let rows = [
        ("animal", 0.3, 0.4, ""),
        ("vehicle", 2.5, 0.4, "yes"),
        ("dog", 0.1, 1.0, ""),
        ("cat", 0.5, 1.0, "yes"),
        ("bus", 2.5, 1.0, ""),
        ("dog/1.jpg", 0.08, 2.0, "yes"),
        ("dog/2.jpg", 0.13, 1.8, ""),
        ("cat/1.jpg", 0.48, 1.9, ""),
        ("cat/2.jpg", 0.52, 2.1, "yes"),
        ("bus/1.jpg", 2.48, 2.0, ""),
        ("bus/2.jpg", 2.53, 1.9, "yes"),
    ];
    let spec = ManifoldSpec::lorentz(2, 1.0);
    let mut points = Vec::new();
    if let Ok(plane) = space::<f32>(&spec) {
        for (_, angle, depth, _) in rows {
            let tangent = [(depth * f64::cos(angle)) as f32, (depth * f64::sin(angle)) as f32];
            let mut point = [0.0; 2];
            plane.lift(&tangent, &mut point);
            points.extend(point);
        }
    }
    let modality = |id: &str| if id.ends_with(".jpg") { Modality::Image } else { Modality::Text };
    EmbeddingSet {
        spec,
        root: Root::Origin,
        ids: rows.iter().map(|row| row.0.to_owned()).collect(),
        modality: rows.iter().map(|row| modality(row.0)).collect(),
        points,
        columns: BTreeMap::from([("reviewed".to_owned(), rows.iter().map(|row| row.3.to_owned()).collect())]),
        source: Default::default(),
    }
}
