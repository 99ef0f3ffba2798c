//! Maps encoder features to points: feature scales before the lift, curvature of the space, and temperature.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use conifer_geometry::ManifoldSpec;
use conifer_geometry_tensor::{Manifold, RootT, manifold};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::batch_space::{BatchSpace, RowShare};
use crate::params::FreePoint;
use crate::scalars::BoundedScalar;
use crate::{Error, Result};

/// The tower that a feature comes from. Each tower has its own feature scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tower {
    /// Photographs and boxes cut out of them.
    Image,
    /// Captions and phrases.
    Text,
}

/// Published names of the scalars of a head with three temperatures: of the softmax over wholes, over boxes, and over
/// wholes with boxes as queries.
pub const SOFTMAXES: [&str; 3] = ["global_logit_scale", "local_logit_scale", "global_local_logit_scale"];

/// Settings of a [`Head`]: initial values and ranges of its scalars. All scalars are learned in log space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeadConfig {
    /// Initial curvature c (sectional curvature -c) of every Lorentz factor, in `curv_range`; 1 in the papers (HyCoCLIP
    /// App. B, PHyCLIP App. C.3). Not used if the manifold lists curvatures.
    pub curv: f64,
    /// Whether the curvature is learned (all papers: yes).
    pub learn_curv: bool,
    /// Smallest curvature, 0 or more, and largest curvature, more than 0: [0.1, 10] (PHyCLIP App. C.3).
    pub curv_range: [f64; 2],
    /// Initial feature scale, more than 0, at most `max_feature_scale`. Absent: 1/sqrt(D), where D is the whole
    /// dimension (HyCoCLIP App. B and PHyCLIP App. C.3: 1/sqrt(512)). With `reference`: 1/sqrt(dimension of one
    /// factor), as in PHyCLIP's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_scale: Option<f64>,
    /// Whether the feature scales are learned.
    pub learn_feature_scale: bool,
    /// Largest feature scale, more than 0: 1 (released code of the MERU family). There is no lower bound.
    pub max_feature_scale: f64,
    /// Whether each factor of a product space has its own feature scale (PHyCLIP's code) or all share one (PHyCLIP App.
    /// C.3).
    pub feature_scale_per_factor: bool,
    /// Initial temperature of the contrastive softmax, at least `min_temperature`: 0.07 (HyCoCLIP App. B, PHyCLIP App.
    /// C.3).
    pub temperature: f64,
    /// Initial temperatures of a method with three softmaxes (UNCHA), each at least `min_temperature`: over wholes,
    /// over boxes, and over wholes with boxes as queries. They replace `temperature`. Empty: the method's values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<f64>,
    /// Whether the temperature is learned.
    pub learn_temperature: bool,
    /// Smallest temperature, more than 0: 0.01 (HyCoCLIP App. B, PHyCLIP App. C.3). There is no upper bound.
    pub min_temperature: f64,
    /// Whether to use the released code's initial values where they differ from the paper's.
    pub reference: bool,
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self {
            curv: 1.0,
            learn_curv: true,
            curv_range: [0.1, 10.0],
            feature_scale: None,
            learn_feature_scale: true,
            max_feature_scale: 1.0,
            feature_scale_per_factor: true,
            temperature: 0.07,
            temperatures: Vec::new(),
            learn_temperature: true,
            min_temperature: 0.01,
            reference: false,
        }
    }
}

/// The learnable scalars of the embedding space (curvature, feature scales, 1/temperature), and the root of the cones
/// if it is stored. They are computed in f32 for any precision of the encoders.
///
/// | scalar | Lorentz | product of K factors | sphere | Euclidean |
/// |---|---|---|---|---|
/// | curvature | `curv` | `curvs.i` | - | - |
/// | feature scales | `visual_alpha`, `textual_alpha` | `{visual,textual}_concept_alphas.i` | - | as Lorentz |
/// | 1/temperature | `logit_scale` | `logit_scale` | `logit_scale` | `logit_scale` |
///
/// With [`HeadConfig::temperatures`], the temperatures of [`SOFTMAXES`] replace `logit_scale`. Without
/// [`HeadConfig::feature_scale_per_factor`], a product has the feature scales of Lorentz.
///
/// The names are those of the published checkpoints; i counts the factors from 0. A sphere has no feature scale,
/// because its lift divides by the norm.
#[derive(Module, Debug)]
pub struct Head {
    curv: Option<BoundedScalar>,
    visual_scale: Option<BoundedScalar>,
    textual_scale: Option<BoundedScalar>,
    logit_scale: BoundedScalar,
    /// The root of the cones, if it is a stored point; trainable or constant. `None`: the origin, or a text that
    /// each training step embeds.
    root: Option<FreePoint>,
    #[module(skip)]
    spec: ManifoldSpec,
}

impl Head {
    /// Builds a head on the space `spec`. An empty `spec.curv` is filled from `config.curv`.
    ///
    /// # Errors
    /// [`Error::Space`] if the space is invalid, [`Error::Invalid`] if an initial value is out of range, or the number
    /// of `temperatures` is neither 0 nor 3.
    pub fn new(spec: &ManifoldSpec, config: &HeadConfig, device: &Device) -> Result<Self> {
        let mut spec = spec.clone();
        // Check the size before allocating a list of `factors` numbers.
        spec.check_size()?;
        let kind = conifer_geometry::entry(spec.kind.name())?;
        if kind.curved && spec.curv.is_empty() {
            spec.curv = vec![config.curv; spec.factors];
        }
        spec.check()?;

        let curv = kind.curved.then(|| {
            let names = if kind.factored { indexed("curvs", spec.factors) } else { vec!["curv".into()] };
            BoundedScalar::new(names, &spec.curv, config.curv_range, config.learn_curv, device)
        });
        let per_factor = kind.factored && config.feature_scale_per_factor;
        let width = if config.reference { spec.factor_dim() } else { spec.dim };
        let first = config.feature_scale.unwrap_or((width as f64).powf(-0.5));
        let scale = |single: &str, list: &str| {
            let names = if per_factor { indexed(list, spec.factors) } else { vec![single.into()] };
            let init = vec![first; names.len()];
            BoundedScalar::new(names, &init, [0.0, config.max_feature_scale], config.learn_feature_scale, device)
        };
        // The lift of a sphere divides by the norm, so a scale would have no effect.
        let scaled = kind.tangent_norm.is_some();
        let visual_scale = scaled.then(|| scale("visual_alpha", "visual_concept_alphas"));
        let textual_scale = scaled.then(|| scale("textual_alpha", "textual_concept_alphas"));
        let (names, temperatures) = match config.temperatures.as_slice() {
            [] => (vec!["logit_scale".into()], vec![config.temperature]),
            several if several.len() == SOFTMAXES.len() => (SOFTMAXES.map(String::from).to_vec(), several.to_vec()),
            other => {
                let expected = format!("no value, or one for each of {}", SOFTMAXES.join(", "));
                return Err(Error::invalid("head.temperatures", format!("{other:?}"), expected));
            }
        };
        for temperature in &temperatures {
            if !(*temperature > 0.0 && config.min_temperature > 0.0 && config.min_temperature <= *temperature) {
                return Err(Error::invalid(
                    "head.temperature",
                    format!("{temperature} with head.min_temperature {}", config.min_temperature),
                    "0 < min_temperature <= temperature",
                ));
            }
        }
        let logit_scale = BoundedScalar::new(
            names,
            &temperatures.iter().map(|temperature| 1.0 / temperature).collect::<Vec<_>>(),
            [0.0, 1.0 / config.min_temperature],
            config.learn_temperature,
            device,
        )?;
        Ok(Self {
            curv: curv.transpose()?,
            visual_scale: visual_scale.transpose()?,
            textual_scale: textual_scale.transpose()?,
            logit_scale,
            root: None,
            spec,
        })
    }

    /// Stores `point` as the root of the cones; `learn` makes it trainable. `None`: the origin.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the dimension of the point differs from that of the space, [`Error::Space`] if the space
    /// rejects the point.
    pub fn with_root(mut self, point: Option<&[f64]>, learn: bool, device: &Device) -> Result<Self> {
        self.root = match point {
            None => None,
            Some(point) if point.len() != self.spec.dim => {
                let found = format!("a point of dimension {}", point.len());
                return Err(Error::invalid("root", found, format!("dimension {}", self.spec.dim)));
            }
            Some(point) => {
                conifer_geometry::Root::Point(point.to_vec()).check(&self.spec())?;
                let values: Vec<f32> = point.iter().map(|&x| x as f32).collect();
                let point = Tensor::from_data(TensorData::new(values, [self.spec.dim]), (device, DType::F32));
                Some(FreePoint { value: Param::from_tensor(point).set_require_grad(learn) })
            }
        };
        Ok(self)
    }

    /// Turns the scalars into constants. A learned root stays trainable.
    #[must_use]
    pub fn freeze_scalars(mut self) -> Self {
        let root = self.root.take();
        Self { root, ..self.no_grad() }
    }

    /// The root of the cones, if it is stored in this head.
    pub fn root(&self) -> Option<Vec<f64>> {
        let root = self.root.as_ref()?;
        Some(root.value.val().into_data().iter::<f32>().map(f64::from).collect())
    }

    /// The space with its current curvatures as numbers, as stored beside embeddings.
    pub fn spec(&self) -> ManifoldSpec {
        ManifoldSpec { curv: self.curv.as_ref().map(BoundedScalar::values).unwrap_or_default(), ..self.spec.clone() }
    }

    /// The manifold with its current curvatures, differentiable.
    ///
    /// # Errors
    /// [`Error::Geometry`] if the geometry rejects the space. [`Head::new`] has checked the space, so this should not
    /// happen.
    pub fn manifold(&self) -> Result<Box<dyn Manifold>> {
        Ok(manifold(&self.spec, self.curv.as_ref().map(BoundedScalar::value))?)
    }

    /// Maps features `[B, D]` of one tower to points `[B, D]` (space components): `lift(scale * features)`, in f32.
    ///
    /// # Errors
    /// [`Error::Shape`] if the width of the features differs from the dimension of the space.
    pub fn lift(&self, features: Tensor<2>, tower: Tower) -> Result<Tensor<2>> {
        let [rows, width] = features.dims();
        if width != self.spec.dim {
            return Err(Error::Shape {
                name: format!("features ({tower:?})"),
                found: vec![rows, width],
                expected: format!("[B, {}] (the dimension of the space)", self.spec.dim),
            });
        }
        let features = features.cast(DType::F32);
        let scale = match tower {
            Tower::Image => &self.visual_scale,
            Tower::Text => &self.textual_scale,
        };
        let manifold = self.manifold()?;
        Ok(match scale {
            Some(scale) => manifold.lift_scaled(features, scale.value()),
            None => manifold.lift(features),
        })
    }

    /// Inputs of a method besides the points: the manifold, the root and the current 1/temperature. The root is the
    /// stored point, projected to the space, or else the origin.
    ///
    /// # Errors
    /// The errors of [`Head::manifold`].
    pub fn space(&self) -> Result<BatchSpace> {
        let manifold = self.manifold()?;
        let root = self.root.as_ref().map(|root| manifold.project(root.value.val().unsqueeze()).squeeze_dim(0));
        Ok(BatchSpace {
            root: root.map_or(RootT::Origin, RootT::Point),
            manifold,
            curv: self.curv.as_ref().map(BoundedScalar::value),
            logit_scale: self.logit_scale.value(),
            rows: RowShare::default(),
        })
    }

    /// Clamps every scalar into its range. Call it after each optimiser step.
    #[must_use]
    pub fn project(self) -> Self {
        Self {
            curv: self.curv.map(BoundedScalar::project),
            visual_scale: self.visual_scale.map(BoundedScalar::project),
            textual_scale: self.textual_scale.map(BoundedScalar::project),
            logit_scale: self.logit_scale.project(),
            root: self.root,
            spec: self.spec,
        }
    }

    /// Every scalar of this head. The logs and the export of the weights use this list.
    pub fn scalars(&self) -> Vec<&BoundedScalar> {
        let optional = [&self.curv, &self.visual_scale, &self.textual_scale];
        optional.into_iter().flatten().chain([&self.logit_scale]).collect()
    }

    /// Loads the logarithms of a published checkpoint. `lookup` returns the value stored under a published name.
    ///
    /// # Errors
    /// The error of `lookup` for a missing name; [`Error::Invalid`] for a value that is not finite.
    pub fn with_log_values(self, mut lookup: impl FnMut(&str) -> Result<f32>) -> Result<Self> {
        let mut load = |scalar: BoundedScalar| {
            let logs = scalar.names().iter().map(|name| lookup(name)).collect::<Result<Vec<_>>>()?;
            scalar.with_log_values(&logs)
        };
        Ok(Self {
            curv: self.curv.map(&mut load).transpose()?,
            visual_scale: self.visual_scale.map(&mut load).transpose()?,
            textual_scale: self.textual_scale.map(&mut load).transpose()?,
            logit_scale: load(self.logit_scale)?,
            root: self.root,
            spec: self.spec,
        })
    }
}

fn indexed(list: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{list}.{i}")).collect()
}

#[cfg(test)]
#[path = "head/tests.rs"]
mod tests;
