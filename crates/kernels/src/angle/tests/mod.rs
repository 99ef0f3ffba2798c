//! Compares both operations with `conifer_geometry` in `f64`.
#![allow(clippy::unwrap_used)]

use conifer_geometry::{ManifoldSpec, Root, space};

use super::*;
use crate::testkit::{TestInput, curvatures, random};

mod contrast;
mod pairs;

fn inputs([parents, children, factors, width]: [usize; 4], length: f32) -> Vec<TestInput> {
    let size = 1.4 * length / (width as f32).sqrt();
    let points = |count: usize, seed| {
        let values = random(count * factors * width, seed).into_iter().map(|v| size * v).collect();
        TestInput(values, [count, factors * width])
    };
    vec![points(parents, 1), points(children, 2), TestInput(curvatures(factors), [1, factors])]
}

/// The angle at each parent towards each child, row major.
fn exact_angles(parents: &[f64], children: &[f64], curv: &[f64], width: usize, geometry: AngleGeometry) -> Vec<f64> {
    let spec = |&curv: &f64| match geometry {
        AngleGeometry::Hyperbolic => ManifoldSpec::lorentz(width, curv),
        AngleGeometry::Flat => ManifoldSpec::euclidean(width),
    };
    let spaces: Vec<_> = curv.iter().map(|curv| space::<f64>(&spec(curv)).unwrap()).collect();
    let row = curv.len() * width;
    let pairs = parents.chunks(row).flat_map(|parent| children.chunks(row).map(move |child| (parent, child)));
    let angle = |(parent, child): (&[f64], &[f64])| -> f64 {
        let each = parent.chunks(width).zip(child.chunks(width)).zip(&spaces);
        each.map(|((p, c), space)| space.exterior_angle(p, c, &Root::Origin)).sum::<f64>() / curv.len() as f64
    };
    pairs.map(angle).collect()
}
