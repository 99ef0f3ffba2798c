//! Batches, heads and gradients for the tests of this crate's methods.
#![allow(clippy::unwrap_used)]

use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use conifer_geometry::ManifoldSpec;
use conifer_model::head::{Head, HeadConfig, Tower};
use conifer_model::params::{ParamInfo, ParamKind, ParamVisitor, visit_params};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{BatchPoints, BatchSpace, Chain, Edges, Loss, Method, MomentumKeys, RowShare, entry};

/// Names of the four views, in the order used by every array of this module.
pub(crate) const VIEWS: [&str; 4] = ["image", "text", "box_image", "box_text"];

/// Projected features of the four views before the scale: `[view][sample][dim]`.
#[derive(Clone, Debug)]
pub(crate) struct Features(pub(crate) [Vec<Vec<f64>>; 4]);

impl Features {
    /// Four related views per sample, similar to those of an encoder: a shared direction plus noise, wholes longer than
    /// boxes, photographs longer than texts. Values fit f32 exactly, so an f64 oracle has the same inputs.
    pub(crate) fn random(seed: u64, rows: usize, dim: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shared: Vec<Vec<f64>> = (0..rows).map(|_| normals(&mut rng, dim)).collect();
        let norms = [2.0, 1.5, 1.4, 1.0];
        Self(norms.map(|norm| {
            let view = |direction: &Vec<f64>| {
                let noise = normals(&mut rng, dim);
                let mixed = direction.iter().zip(noise).map(|(d, n)| norm * (d + 0.7 * n));
                mixed.map(|x| f64::from(x as f32)).collect()
            };
            shared.iter().map(view).collect()
        }))
    }

    pub(crate) fn rows(&self) -> usize {
        self.0[0].len()
    }

    pub(crate) fn dim(&self) -> usize {
        self.0[0][0].len()
    }

    /// Sample i of the result is sample `order[i]` of this batch.
    pub(crate) fn reordered(&self, order: &[usize]) -> Self {
        Self(self.0.clone().map(|view| order.iter().map(|&i| view[i].clone()).collect()))
    }

    /// One view as a leaf tensor that requires a gradient.
    pub(crate) fn leaf(&self, view: usize, dtype: DType, device: &Device) -> Tensor<2> {
        let flat: Vec<f64> = self.0[view].concat();
        let data = TensorData::new(flat, [self.rows(), self.dim()]).convert_dtype(dtype);
        Tensor::from_data(data, (device, dtype)).require_grad()
    }
}

pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}

pub(crate) fn settings(text: &str) -> toml::Table {
    text.parse().unwrap()
}

pub(crate) fn method(name: &str, text: &str) -> Box<dyn Method> {
    (entry(name).unwrap().from_config)(&settings(text)).unwrap()
}

/// Result of one forward and backward pass of a head and a method.
pub(crate) struct MethodPass {
    pub(crate) loss: Loss,
    pub(crate) total: f64,
    /// Gradient of each view, flat; `None` if the loss does not depend on the view.
    pub(crate) features: [Option<Vec<f64>>; 4],
    /// Gradient of each stored logarithm, by its published name.
    pub(crate) scalars: Vec<(String, Option<f64>)>,
}

/// Lifts all four views through `head` in f32 and computes the loss and its gradients.
pub(crate) fn pass(head: &Head, method: &dyn Method, features: &Features) -> MethodPass {
    try_pass(head, method, features).unwrap()
}

/// Like [`pass`], for a method that may reject the space.
pub(crate) fn try_pass(head: &Head, method: &dyn Method, features: &Features) -> crate::Result<MethodPass> {
    pass_of_rows(head, method, features, RowShare::default())
}

/// Like [`try_pass`], but computes only some rows of the loss.
pub(crate) fn pass_of_rows(
    head: &Head,
    method: &dyn Method,
    features: &Features,
    rows: RowShare,
) -> crate::Result<MethodPass> {
    let leaves: [Tensor<2>; 4] = std::array::from_fn(|view| features.leaf(view, DType::F32, &device()));
    let batch = embed(&leaves, |points, tower| head.lift(points, tower).unwrap());
    let loss = method.loss(&batch, &BatchSpace { rows, ..head.space()? })?;
    let grads = loss.total.backward();
    Ok(MethodPass {
        total: scalar(&loss.total),
        loss,
        features: leaves.map(|leaf| gradient(&leaf, &grads)),
        scalars: scalar_gradients(head, &grads),
    })
}

/// Builds a batch from the four views: as pairs with boxes, as a chain of four texts with wrong texts, and as
/// photographs with two crops of one part each and a queue of keys. `lift` maps the features of a tower to points.
pub(crate) fn embed<const D: usize>(
    leaves: &[Tensor<D>; 4],
    lift: impl Fn(Tensor<D>, Tower) -> Tensor<2>,
) -> BatchPoints {
    let [image, text, box_image, box_text] = leaves.clone();
    let texts = |sign: f64| leaves.iter().map(|leaf| lift(leaf.clone() * sign, Tower::Text)).collect::<Vec<_>>();
    let mut negative = texts(-0.7);
    negative.rotate_left(1);
    let chain = Chain { positive: texts(1.0), negative, lengths: Vec::new() };
    // These constants stand for the points of the initial model. They are related to the current points, but not equal.
    let before = |points: &[Tensor<2>]| points.iter().rev().map(|it| it.clone().detach()).collect();
    let frozen = Chain { positive: before(&chain.positive), negative: before(&chain.negative), ..chain.clone() };
    // Photograph i shows object i; both crops of it show object B + i.
    let rows = image.dims()[0] as u32;
    let crops = [&image, &box_image, &box_text].map(|leaf| lift(leaf.clone(), Tower::Image));
    let edges = Edges {
        points: Tensor::cat(crops.to_vec(), 0),
        things: (0..2 * rows).chain(rows..2 * rows).collect(),
        parts: (0..rows).map(|row| [row, rows + row]).collect(),
    };
    // These constants stand for the points of a momentum encoder. They are related to the current points, but not
    // equal.
    let key = |leaf: &Tensor<D>, factor: f64| lift(leaf.clone() * factor, Tower::Image).detach();
    let keys = MomentumKeys {
        parts: Tensor::cat(vec![key(&box_image, 0.9), key(&box_text, 0.9)], 0),
        queue: Some(key(&text, 0.8)),
    };
    BatchPoints {
        edges: Some(edges),
        keys: Some(keys),
        chain: Some(chain),
        frozen_chain: Some(frozen),
        image: Some(lift(image, Tower::Image)),
        text: Some(lift(text, Tower::Text)),
        box_image: Some(lift(box_image, Tower::Image)),
        box_text: Some(lift(box_text, Tower::Text)),
    }
}

/// Gradients of the scalars of `head`, by their published names.
pub(crate) fn scalar_gradients(head: &Head, grads: &Gradients) -> Vec<(String, Option<f64>)> {
    let mut logs = ScalarGradients { grads, found: Vec::new() };
    visit_params(head, &mut logs);
    let scalars = head.scalars();
    assert_eq!(scalars.len(), logs.found.len());
    let named = scalars.iter().zip(&logs.found).flat_map(|(scalar, grad)| {
        let of = |i: usize| grad.as_ref().map(|grad| grad[i]);
        scalar.names().iter().enumerate().map(|(i, name)| (name.clone(), of(i))).collect::<Vec<_>>()
    });
    named.collect()
}

/// Gradients of the stored logarithms, in the order of [`Head::scalars`].
struct ScalarGradients<'a> {
    grads: &'a Gradients,
    found: Vec<Option<Vec<f64>>>,
}

impl ParamVisitor for ScalarGradients<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if param.kind == ParamKind::Scalar {
            self.found.push(value.grad(self.grads).map(|grad| numbers(&grad)));
        }
    }
}

/// A head on `spec` whose curvatures and scales differ from their initial values, so each of them affects the result.
pub(crate) fn head(spec: &ManifoldSpec) -> Head {
    head_at(spec, 2.3)
}

/// Like [`head`], with `logit_scale` as the logarithm of 1/temperature.
pub(crate) fn head_at(spec: &ManifoldSpec, logit_scale: f32) -> Head {
    head_with(spec, &HeadConfig::default(), logit_scale)
}

/// Like [`head_at`], with the settings of `config`. Several temperatures get different values.
pub(crate) fn head_with(spec: &ManifoldSpec, config: &HeadConfig, logit_scale: f32) -> Head {
    let head = Head::new(spec, config, &device()).unwrap();
    let mut i = 0.0;
    head.with_log_values(|name| {
        i += 1.0;
        Ok(match name {
            "logit_scale" => logit_scale,
            softmax if softmax.ends_with("logit_scale") => logit_scale + 0.13 * i,
            curv if curv.starts_with("curv") => -0.5 + 0.13 * i,
            _ => -1.1 + 0.05 * i,
        })
    })
    .unwrap()
}

/// Stored logarithms of a head's scalars in f64: `[curvatures, visual scales, textual scales, logit scales]`, one entry
/// per factor or softmax.
pub(crate) fn scalars_of(head: &Head) -> [Vec<f64>; 4] {
    let find = |prefix: &[&str]| {
        let all = head.scalars();
        let found = all.iter().find(|s| prefix.iter().any(|p| s.names()[0].starts_with(p)));
        found.map(|s| s.log_values().into_iter().map(f64::from).collect()).unwrap_or_default()
    };
    [find(&["curv"]), find(&["visual"]), find(&["textual"]), find(&["logit", "global_logit"])]
}

pub(crate) fn scalar(tensor: &Tensor<1>) -> f64 {
    numbers(tensor)[0]
}

pub(crate) fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}

fn gradient<const D: usize>(leaf: &Tensor<D>, grads: &Gradients) -> Option<Vec<f64>> {
    leaf.grad(grads).map(|grad| numbers(&grad))
}

/// `|found - expected| / |expected|` of two vectors.
pub(crate) fn relative(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(expected).map(|(a, b)| a - b))
        / norm(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)
}

fn normals(rng: &mut ChaCha8Rng, n: usize) -> Vec<f64> {
    let mut unit = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut normal = || (-2.0 * (1.0 - unit()).ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
    (0..n).map(|_| normal()).collect()
}

/// A space with f64 scalars that carry gradient. Derivative checks need more digits than the f32 scalars of a head
/// have.
pub(crate) fn space_f64(spec: &ManifoldSpec, curv: Option<Tensor<1>>, logit_scale: Tensor<1>) -> BatchSpace {
    BatchSpace {
        manifold: conifer_geometry_tensor::manifold(spec, curv.clone()).unwrap(),
        root: conifer_geometry_tensor::RootT::Origin,
        curv,
        logit_scale,
        rows: RowShare::default(),
    }
}
