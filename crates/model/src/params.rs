//! Names and kinds of a model's parameters, and traversals over them.
//!
//! A model is a tree of Burn modules. Its leaves are the types of this file ([`LinearWeight`], [`Bias`], [`NormParam`],
//! [`FreePoint`], [`FixedTable`], [`Statistic`]) and [`BoundedScalar`](crate::scalars). The **type** of a leaf
//! determines the kind of its parameter, so no code searches names for "bias" or "curv". A bare `Param` in any other
//! struct (class token, positions, embedding table) is a weight.
//!
//! [`visit_params`] and [`map_params`] traverse the parameters in declaration order, which is fixed for an
//! architecture. The optimiser, checkpoints and logs use these two:
//!
//! ```ignore
//! impl ParamMapper for Step<'_> {
//!     fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
//!         match value.grad(self.gradients) {            // `value` is the leaf itself
//!             Some(gradient) => value.inner() - gradient * self.rate,
//!             None => value,                            // frozen, or fixed
//!         }
//!     }
//! }
//! let model = map_params(model, &mut step);
//! ```
//!
//! Names are paths of fields: `visual.blocks.0.attn.qkv.weight`, `textual_proj.weight`, `head.curv`. Leaf types and
//! the variants of the encoder enums add nothing to the path, so below `visual` and `textual` a name is the published
//! key (see [`checkpoint`](crate::checkpoint), which also knows the published names of the head's scalars). The
//! factors of a low-rank update follow the weight that they change: `visual.blocks.0.attn.qkv.weight.lora.a`.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Error, Result};

/// The kind of a parameter, which decides how the optimiser treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// Matrix, embedding table, class token, learned positions: trained with weight decay.
    Weight,
    /// Additive bias, or a root stored as a parameter ([`FreePoint`]): no weight decay.
    Bias,
    /// Gain or bias of a normalisation: no weight decay.
    Norm,
    /// Temperature, curvature, feature scale (in log space, kept in a range): no weight decay.
    Scalar,
    /// Stored with the model and never trained (fixed positions, statistics of a batch norm).
    Fixed,
}

/// Name and kind of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo<'a> {
    /// Field path from the traversed module, joined by dots.
    pub name: &'a str,
    /// Kind of the parameter.
    pub kind: ParamKind,
    /// `true` for a [`LinearWeight`]: stored in memory as `[in, out]`, which the engine multiplies without a copy, and
    /// published as `[out, in]`.
    pub transposed: bool,
    /// `true` for a factor of a low-rank update ([`lora`](crate::lora)), which is published in its memory layout.
    pub low_rank: bool,
}

/// A visitor of parameters.
pub trait ParamVisitor {
    /// Called once per parameter, in declaration order, with the leaf itself.
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>);
}

/// A mapper that replaces parameters.
pub trait ParamMapper {
    /// Called once per parameter, in declaration order, with the leaf itself; returns its new value, of the same shape.
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D>;
}

/// Calls `visitor` for every parameter of `module`.
pub fn visit_params<M: Module>(module: &M, visitor: &mut impl ParamVisitor) {
    module.visit(&mut ParamTraversal::new(visitor));
}

/// Replaces every parameter of `module` by the result of `mapper`. The result is a leaf, detached from any graph. It
/// keeps the parameter's gradient requirement and checkpointing strategy.
pub fn map_params<M: Module>(module: M, mapper: &mut impl ParamMapper) -> M {
    module.map(&mut ParamTraversal::new(mapper))
}

/// Makes the parameters that `choose` accepts trainable and all others constants. A parameter of kind
/// [`Fixed`](ParamKind::Fixed) stays constant.
pub fn set_trainable<M: Module>(module: M, choose: impl FnMut(&ParamInfo<'_>) -> bool) -> M {
    module.map(&mut ParamTraversal::new(&mut TrainableParams(choose)))
}

/// The mapper of [`set_trainable`]: its traversal changes settings of parameters, not values.
struct TrainableParams<F>(F);

/// Weight of a linear map, stored as `[in, out]`.
#[derive(Module, Debug)]
pub struct LinearWeight {
    /// Matrix `[in, out]`.
    pub value: Param<Tensor<2>>,
}

/// Additive bias `[out]`.
#[derive(Module, Debug)]
pub struct Bias {
    /// Vector `[out]`.
    pub value: Param<Tensor<1>>,
}

/// Gain or bias `[width]` of a normalisation.
#[derive(Module, Debug)]
pub struct NormParam {
    /// Vector `[width]`.
    pub value: Param<Tensor<1>>,
}

/// A point `[D]` stored as a parameter, such as the root of the cones: no weight decay.
#[derive(Module, Debug)]
pub struct FreePoint {
    /// Coordinates `[D]`.
    pub value: Param<Tensor<1>>,
}

/// A table `[1, tokens, width]` that is stored with the model and never trained.
#[derive(Module, Debug)]
pub struct FixedTable {
    /// Values `[1, tokens, width]`, without a gradient.
    pub value: Param<Tensor<3>>,
}

/// A row `[C]` that is stored with the model and never trained: a statistic of the training data.
#[derive(Module, Debug)]
pub struct Statistic {
    /// Values `[C]`, without a gradient.
    pub value: Param<Tensor<1>>,
}

/// Source of the initial values of new parameters: a seeded generator, consumed in construction order, or zeros for a
/// model that is about to be loaded.
#[derive(Debug)]
pub struct Init {
    rng: Option<ChaCha8Rng>,
    device: Device,
    /// Largest allowed number of values over all parameters.
    limit: f64,
    /// Number of values requested so far.
    requested: f64,
}

/// Upper limit of the parameter count (2^33). open_clip's ViT-bigG-14 has 2.5e9.
const MAX_PARAMETERS: f64 = 8_589_934_592.0;

/// Distribution of the initial values of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// The same value everywhere.
    Constant(f32),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform in `[-bound, bound)`.
    Uniform(f64),
}

impl Init {
    /// Random parameters on `device`; the same `seed` and architecture give the same values, up to the rounding of
    /// `ln`, `sin` and `cos` on the machine.
    pub fn seeded(seed: u64, device: &Device) -> Self {
        Self { rng: Some(ChaCha8Rng::seed_from_u64(seed)), ..Self::blank(device) }
    }

    /// Parameters on `device` that hold zeros until they are loaded.
    pub fn blank(device: &Device) -> Self {
        Self { rng: None, device: device.clone(), limit: MAX_PARAMETERS, requested: 0.0 }
    }

    /// Zeros, to be overwritten from `weights`. The size limit is twice the weights plus 2^20 numbers, so a config that
    /// describes a far larger model allocates no memory. The margin admits a few missing tensors, which are then
    /// reported by name.
    pub(crate) fn blank_for(weights: &crate::weight_array::Weights, device: &Device) -> Self {
        let stored: f64 =
            weights.values().map(|array| array.shape.iter().map(|side| *side as f64).product::<f64>()).sum();
        Self { limit: (2.0 * stored + f64::from(1 << 20)).min(MAX_PARAMETERS), ..Self::blank(device) }
    }

    /// Counts one more parameter against the limit. If this returns `false`, the parameter must not be allocated and
    /// [`Init::check`] fails.
    fn reserve(&mut self, shape: &[usize]) -> bool {
        // In f64, which does not overflow.
        self.requested += shape.iter().map(|side| *side as f64).product::<f64>();
        self.requested <= self.limit
    }

    /// Checks the size limit. Call it after a module is built.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the module has more parameters than allowed. It then holds placeholders.
    pub fn check(&self) -> Result<()> {
        if self.requested <= self.limit {
            return Ok(());
        }
        let found = format!("an architecture of at least {:.2e} numbers", self.requested);
        Err(Error::invalid("model", found, format!("at most {:.2e}, the limit for weights of this size", self.limit)))
    }

    /// The device of the parameters.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A trainable parameter of any shape.
    pub fn param<const D: usize>(&mut self, shape: [usize; D], fill: Fill) -> Param<Tensor<D>> {
        let shape = if self.reserve(&shape) { shape } else { [1; D] };
        let count = shape.iter().product();
        let values: Vec<f32> = match (&mut self.rng, fill) {
            (None, _) => vec![0.0; count],
            (Some(_), Fill::Constant(value)) => vec![value; count],
            (Some(rng), Fill::Normal(std)) => normals(rng, count, std),
            (Some(rng), Fill::Uniform(bound)) => (0..count).map(|_| ((2.0 * unit(rng) - 1.0) * bound) as f32).collect(),
        };
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), &self.device))
    }

    /// A [`LinearWeight`] from `width_in` to `width_out`.
    pub fn matrix(&mut self, width_in: usize, width_out: usize, fill: Fill) -> LinearWeight {
        LinearWeight { value: self.param([width_in, width_out], fill) }
    }

    /// A [`Bias`] of length `width`.
    pub fn bias(&mut self, width: usize, fill: Fill) -> Bias {
        Bias { value: self.param([width], fill) }
    }

    /// A [`NormParam`] of length `width`, filled with `value`.
    pub fn norm(&mut self, width: usize, value: f32) -> NormParam {
        NormParam { value: self.param([width], Fill::Constant(value)) }
    }

    /// A [`Statistic`] of length `width`, filled with `value`; it requires no gradient.
    pub fn statistic(&mut self, width: usize, value: f32) -> Statistic {
        Statistic { value: self.param([width], Fill::Constant(value)).set_require_grad(false) }
    }

    /// A [`FixedTable`] with the given values, even in a blank model.
    pub fn fixed(&mut self, shape: [usize; 3], values: impl FnOnce() -> Vec<f32>) -> FixedTable {
        let (shape, values) = if self.reserve(&shape) { (shape, values()) } else { ([1; 3], vec![0.0]) };
        let table = Tensor::from_data(TensorData::new(values, shape), &self.device);
        FixedTable { value: Param::from_tensor(table).set_require_grad(false) }
    }
}

/// Uniform in `[0, 1)` with 53 random bits.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// `count` values of N(0, std^2) (Box-Muller, both halves used).
fn normals(rng: &mut ChaCha8Rng, count: usize, std: f64) -> Vec<f32> {
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        // 1 - u is in (0, 1], so the logarithm is finite.
        let radius = std * (-2.0 * (1.0 - unit(rng)).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * unit(rng)).sin_cos();
        values.push((radius * cos) as f32);
        values.push((radius * sin) as f32);
    }
    values.truncate(count);
    values
}

/// Follows Burn's traversal and tracks the name and the kind of the current parameter.
struct ParamTraversal<'a, T> {
    inner: &'a mut T,
    path: Vec<String>,
    containers: Vec<&'static str>,
}

impl<'a, T> ParamTraversal<'a, T> {
    fn new(inner: &'a mut T) -> Self {
        Self { inner, path: Vec::new(), containers: Vec::new() }
    }

    fn enter(&mut self, field: &str, container: &str) {
        let leaf = LEAVES.iter().find(|(name, _)| container == *name).map_or("", |(name, _)| name);
        let is_factor = container == LOW_RANK_UPDATE;
        self.containers.push(if is_factor { LOW_RANK_UPDATE } else { leaf });
        if leaf.is_empty() && !container.starts_with("Enum:") {
            self.path.push(field.to_owned());
        } else {
            self.path.push(String::new());
        }
    }

    fn exit(&mut self) {
        self.path.pop();
        self.containers.pop();
    }

    fn name(&self) -> String {
        let fields: Vec<&str> = self.path.iter().map(String::as_str).filter(|field| !field.is_empty()).collect();
        fields.join(".")
    }

    fn kind(&self) -> ParamKind {
        let container = self.containers.last().copied().unwrap_or_default();
        LEAVES.iter().find(|(name, _)| *name == container).map_or(ParamKind::Weight, |(_, kind)| *kind)
    }

    /// Describes the current parameter, whose path is `name`.
    fn info<'n>(&self, name: &'n str) -> ParamInfo<'n> {
        let container = self.containers.last();
        ParamInfo {
            name,
            kind: self.kind(),
            transposed: container == Some(&LINEAR_WEIGHT),
            low_rank: container == Some(&LOW_RANK_UPDATE),
        }
    }
}

const LINEAR_WEIGHT: &str = "Struct:LinearWeight";

/// Container name of Burn's module for the two factors of a low-rank update.
const LOW_RANK_UPDATE: &str = "Struct:LoraAdapter";

/// Container names of the leaf types in Burn's traversal, with the kind of each.
const LEAVES: &[(&str, ParamKind)] = &[
    (LINEAR_WEIGHT, ParamKind::Weight),
    ("Struct:Bias", ParamKind::Bias),
    ("Struct:NormParam", ParamKind::Norm),
    ("Struct:FreePoint", ParamKind::Bias),
    ("Struct:FixedTable", ParamKind::Fixed),
    ("Struct:Statistic", ParamKind::Fixed),
    ("Struct:BoundedScalar", ParamKind::Scalar),
];

impl<T: ParamVisitor> ModuleVisitor for ParamTraversal<'_, T> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.name();
        let info = self.info(&name);
        self.inner.visit(&info, &param.val());
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.exit();
    }
}

impl<T: ParamMapper> ModuleMapper for ParamTraversal<'_, T> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.name();
        let info = self.info(&name);
        let (id, value, mapper) = param.consume();
        let strategy = value.gradient_checkpointing_strategy();
        let trained = value.is_require_grad();
        let mapped = self.inner.map(&info, value);
        Param::from_mapped_value(id, new_leaf(mapped, strategy, trained), mapper)
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.exit();
    }
}

impl<F: FnMut(&ParamInfo<'_>) -> bool> ModuleMapper for ParamTraversal<'_, TrainableParams<F>> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.name();
        let info = self.info(&name);
        let trained = info.kind != ParamKind::Fixed && (self.inner.0)(&info);
        let (id, value, mapper) = param.consume();
        let strategy = value.gradient_checkpointing_strategy();
        // On a plain device the setting is kept for a later change to training.
        Param::from_mapped_value(id, new_leaf(value, strategy, trained), mapper).set_require_grad(trained)
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.exit();
    }
}

/// `value` as a leaf, detached from any graph, with the given checkpointing strategy; `None`: without autodiff.
fn new_leaf<const D: usize>(
    value: Tensor<D>,
    strategy: Option<GradientCheckpointingStrategy>,
    trained: bool,
) -> Tensor<D> {
    let plain = value.without_autodiff();
    match strategy {
        Some(strategy) => plain.autodiff().with_gradient_checkpointing_strategy(strategy).set_require_grad(trained),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Module, Debug)]
    struct BranchedModule {
        bare: Param<Tensor<3>>,
        branches: Vec<Branch>,
        table: FixedTable,
    }

    #[derive(Module, Debug)]
    struct Branch {
        weight: LinearWeight,
        bias: Bias,
        gain: NormParam,
    }

    fn tree(device: &Device) -> BranchedModule {
        let mut init = Init::seeded(1, device);
        let mut branch = || Branch {
            weight: init.matrix(2, 3, Fill::Normal(1.0)),
            bias: init.bias(3, Fill::Constant(0.5)),
            gain: init.norm(3, 1.0),
        };
        let branches = vec![branch(), branch()];
        BranchedModule {
            bare: init.param([1, 1, 2], Fill::Uniform(1.0)),
            branches,
            table: init.fixed([1, 1, 2], || vec![3.0, 4.0]),
        }
    }

    #[test]
    fn leaf_types_determine_kinds_and_add_nothing_to_names() {
        #[derive(Default)]
        struct ParamList(Vec<(String, ParamKind, bool)>);
        impl ParamVisitor for ParamList {
            fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, _: &Tensor<D>) {
                self.0.push((param.name.to_owned(), param.kind, param.transposed));
            }
        }
        let mut list = ParamList::default();
        visit_params(&tree(&Device::flex()), &mut list);
        let expected = [
            ("bare", ParamKind::Weight, false),
            ("branches.0.weight", ParamKind::Weight, true),
            ("branches.0.bias", ParamKind::Bias, false),
            ("branches.0.gain", ParamKind::Norm, false),
            ("branches.1.weight", ParamKind::Weight, true),
            ("branches.1.bias", ParamKind::Bias, false),
            ("branches.1.gain", ParamKind::Norm, false),
            ("table", ParamKind::Fixed, false),
        ];
        assert_eq!(list.0, expected.map(|(name, kind, transposed)| (name.to_owned(), kind, transposed)));
    }

    #[test]
    fn mapped_parameters_are_leaves_and_keep_their_settings() {
        struct Double;
        impl ParamMapper for Double {
            fn map<const D: usize>(&mut self, _: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
                value * 2.0
            }
        }
        let plain = Device::flex();
        for device in [plain.clone().autodiff(), plain.clone().autodiff().gradient_checkpointing()] {
            let mapped = map_params(tree(&device), &mut Double);
            let (bias, table) = (mapped.branches[1].bias.value.val(), mapped.table.value.val());
            assert_eq!(bias.gradient_checkpointing_strategy(), device.gradient_checkpointing_strategy());
            assert!(bias.is_require_grad() && !table.is_require_grad());
            // A leaf: the gradient of 2 b at the new b is 2, not 4 through the old one.
            let gradients = (bias.clone() * 2.0).sum().backward();
            assert_eq!(bias.grad(&gradients).unwrap().into_data().iter::<f32>().collect::<Vec<_>>(), [2.0; 3]);
            assert_eq!(bias.into_data().iter::<f32>().collect::<Vec<_>>(), [1.0; 3]);
            assert_eq!(table.into_data().iter::<f32>().collect::<Vec<_>>(), [6.0, 8.0]);
        }
        // On a plain device nothing is tracked, and training can still be enabled later.
        let mapped = map_params(tree(&plain), &mut Double);
        assert!(!mapped.bare.val().is_autodiff());
        assert!(mapped.train().branches[0].weight.value.val().is_require_grad());
    }

    #[test]
    fn chosen_parameters_become_trainable_and_keep_their_values_and_settings() {
        let plain = Device::flex();
        for device in [plain.clone().autodiff(), plain.clone().autodiff().gradient_checkpointing()] {
            let first = set_trainable(tree(&device), |param| param.name.starts_with("branches.0"));
            let found = |tree: &BranchedModule| {
                let branches = tree.branches.iter().map(|it| it.weight.value.val().is_require_grad());
                branches.chain([tree.bare.val().is_require_grad(), tree.table.value.val().is_require_grad()]).collect()
            };
            let flags: Vec<bool> = found(&first);
            assert_eq!(flags, [true, false, false, false]);
            let all = set_trainable(first, |_| true);
            let flags: Vec<bool> = found(&all);
            assert_eq!(flags, [true, true, true, false], "a fixed table is never trained");
            let bias = all.branches[1].bias.value.val();
            assert_eq!(bias.gradient_checkpointing_strategy(), device.gradient_checkpointing_strategy());
            let gradients = (bias.clone() * 2.0).sum().backward();
            assert_eq!(bias.grad(&gradients).unwrap().into_data().iter::<f32>().collect::<Vec<_>>(), [2.0; 3]);
            assert_eq!(bias.into_data().iter::<f32>().collect::<Vec<_>>(), [0.5; 3]);
        }
        let frozen = set_trainable(tree(&plain), |_| false);
        assert!(!frozen.train().branches[0].weight.value.val().is_require_grad());
    }

    #[test]
    fn oversized_architectures_are_rejected_before_allocation() {
        let mut init = Init::blank(&Device::flex());
        init.check().unwrap();
        // 2^80 bytes, whose count does not fit into 64 bits.
        init.param([1 << 30, 1 << 30, 1 << 18], Fill::Constant(0.0));
        assert_eq!(init.fixed([1, 1, 1], || panic!("values without room")).value.val().dims(), [1, 1, 1]);
        let message = init.check().unwrap_err().to_string();
        assert!(message.contains("`model` is an architecture of at least 3.02e23 numbers"), "{message}");
    }

    #[test]
    fn a_blank_model_is_zero_except_for_its_tables() {
        let mut init = Init::blank(&Device::flex());
        assert_eq!(init.norm(2, 1.0).value.val().into_data().iter::<f32>().collect::<Vec<_>>(), [0.0; 2]);
        assert_eq!(
            init.fixed([1, 1, 1], || vec![7.0]).value.val().into_data().iter::<f32>().collect::<Vec<_>>(),
            [7.0]
        );
    }
}
