//! The fused distances on graphics cards, without tensors of size `[K, M, N]`.
//!
//! The kernels of [`source`] are written once and compiled for the device at run time (Vulkan; also CUDA and Metal if
//! Burn supports them). Both passes are operations of Burn's queue ([`DistanceOps`] and [`DistanceGradients`]), so Burn
//! can fuse the other operations around them.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, TensorMetadata, backend_extension};
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::{CubeCount, CubeDim};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros};
use burn_cubecl::tensor::CubeTensor;

use super::autodiff::DistancePasses;
use super::{DistanceNorm, DistanceOps, DistanceRule};

mod source;
#[cfg(test)]
mod tests;

/// Burn backend extension that declares the backward pass.
#[backend_extension(Cube, Fusion)]
trait DistanceGradients: Backend {
    /// The gradients of points and curvatures from `grad` `[M, N]`. `table` holds the distances; it is read only for
    /// the root mean square.
    #[fusion(meta = |x, y, curv, _table, _grad, _rule| (x.clone(), y.clone(), curv.clone()))]
    fn pairwise_distance_gradients(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        table: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        rule: DistanceRule,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// True if the sizes are within the limits of a launch: fewer than 2^32 table entries, and at most 65,535 groups along
/// each side of the grid.
pub(super) fn fits(m: usize, n: usize, factors: usize) -> bool {
    const GROUPS: usize = 65_535;
    let within = |count: usize, per_group: usize| count.div_ceil(per_group) <= GROUPS;
    let few = |rows: usize| within(rows, source::TILE) && within(rows * factors, source::ADDERS);
    few(m) && few(n) && factors <= GROUPS && m.checked_mul(n).is_some_and(|count| u32::try_from(count).is_ok())
}

impl DistanceOps for CubeBackend {
    fn pairwise_distance(x: CubeTensor, y: CubeTensor, curv: CubeTensor, rule: DistanceRule) -> CubeTensor {
        let operands = CubeOperands::new(x, y, curv, rule);
        let out = empty(&operands.x.points, [operands.x.rows(), operands.y.rows()]);
        if operands.is_empty() {
            return out;
        }
        let CubeOperands { x, y, curv, floor, sign, squares } = operands;
        source::distances::launch(
            &out.client,
            CubeCount::Static(tiles(y.rows()), tiles(x.rows()), 1),
            CubeDim::new_2d(source::TILE as u32, source::TILE as u32),
            x.points.into_tensor_arg(),
            y.points.into_tensor_arg(),
            x.excess.into_tensor_arg(),
            y.excess.into_tensor_arg(),
            curv.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            floor,
            sign,
            squares,
        );
        out
    }
}

impl DistanceGradients for CubeBackend {
    fn pairwise_distance_gradients(
        x: CubeTensor,
        y: CubeTensor,
        curv: CubeTensor,
        table: CubeTensor,
        grad: CubeTensor,
        rule: DistanceRule,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let operands = CubeOperands::new(x, y, curv, rule);
        let (m, n) = (operands.x.rows(), operands.y.rows());
        if operands.is_empty() {
            let zeros = |like: &CubeTensor| zeros(like.device.clone(), like.shape(), like.dtype);
            return (zeros(&operands.x.points), zeros(&operands.y.points), zeros(&operands.curv));
        }
        let upstream = CubeUpstream { table: into_contiguous(table), grad: into_contiguous(grad) };
        let factors = operands.curv.shape()[0];
        let parts = empty(&operands.curv, [m, factors]);
        let x_grad = operands.point_gradients(&operands.x, &operands.y, &upstream, [n, 1], Some(&parts));
        let y_grad = operands.point_gradients(&operands.y, &operands.x, &upstream, [1, n], None);
        let curv_grad = empty(&operands.curv, [factors]);
        source::sum_rows::launch(
            &curv_grad.client,
            CubeCount::Static(factors as u32, 1, 1),
            CubeDim::new_1d(source::ADDERS as u32),
            parts.into_tensor_arg(),
            curv_grad.clone().into_tensor_arg(),
        );
        (x_grad, y_grad, curv_grad)
    }
}

impl DistancePasses for Cube {
    type SavedState = CubeDistanceState;

    fn forward(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        rule: DistanceRule,
    ) -> (FloatTensor<Self>, CubeDistanceState) {
        let out = Cube::pairwise_distance(x.clone(), y.clone(), curv.clone(), rule);
        let table = (rule.norm == DistanceNorm::L2).then(|| out.clone());
        (out, CubeDistanceState { x, y, curv, table, rule })
    }

    fn backward(state: CubeDistanceState, grad: FloatTensor<Self>) -> [FloatTensor<Self>; 3] {
        let CubeDistanceState { x, y, curv, table, rule } = state;
        // The kernel needs an argument for the table, but does not read it for the mean.
        let table = table.unwrap_or_else(|| grad.clone());
        Cube::pairwise_distance_gradients(x, y, curv, table, grad, rule).into()
    }
}

/// State saved for the backward pass. No saved tensor has the size `[K, M, N]`.
#[derive(Clone, Debug)]
pub(super) struct CubeDistanceState {
    x: FloatTensor<Cube>,
    y: FloatTensor<Cube>,
    curv: FloatTensor<Cube>,
    /// The distances, if the gradient needs them (root mean square).
    table: Option<FloatTensor<Cube>>,
    rule: DistanceRule,
}

/// The operands in the row-major layout that the kernels read.
struct CubeOperands {
    x: CubePoints,
    y: CubePoints,
    curv: CubeTensor,
    floor: f32,
    sign: f32,
    squares: bool,
}

struct CubePoints {
    /// `[B, D]`.
    points: CubeTensor,
    /// `sqrt(c) t - 1`, `[B, K]`.
    excess: CubeTensor,
}

/// The distances and the gradients with respect to them, both `[M, N]`.
struct CubeUpstream {
    table: CubeTensor,
    grad: CubeTensor,
}

impl CubeOperands {
    fn new(x: CubeTensor, y: CubeTensor, curv: CubeTensor, rule: DistanceRule) -> Self {
        let curv = into_contiguous(curv);
        let [factors] = curv.shape().dims();
        CubeOperands {
            x: CubePoints::new(into_contiguous(x), &curv),
            y: CubePoints::new(into_contiguous(y), &curv),
            curv,
            floor: rule.floor as f32,
            sign: if rule.negative { -1.0 } else { 1.0 },
            // The root mean square of a single distance is the distance.
            squares: rule.norm == DistanceNorm::L2 && factors > 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.x.rows() == 0 || self.y.rows() == 0
    }

    /// The gradient `[B, D]` of the points `mine`. The pair of row `a` of `mine` and row `b` of `other` is at index `a
    /// steps[0] + b steps[1]` of the tables.
    fn point_gradients(
        &self,
        mine: &CubePoints,
        other: &CubePoints,
        upstream: &CubeUpstream,
        steps: [usize; 2],
        curv_parts: Option<&CubeTensor>,
    ) -> CubeTensor {
        let [rows, dim] = mine.points.shape().dims();
        let [factors] = self.curv.shape().dims();
        let width = dim / factors;
        let blocks = width.div_ceil(source::TILE).min(MAX_BLOCKS);
        let found = empty(&mine.points, [rows, dim]);
        // The kernel needs an output for the curvatures, but does not write to it unless `for_curv` is set.
        let parts = curv_parts.cloned().unwrap_or_else(|| empty(&self.curv, [1]));
        source::point_gradients::launch(
            &found.client,
            CubeCount::Static(tiles(rows), factors as u32, width.div_ceil(blocks * source::TILE) as u32),
            CubeDim::new_2d(source::TILE as u32, source::TILE as u32),
            mine.points.clone().into_tensor_arg(),
            other.points.clone().into_tensor_arg(),
            mine.excess.clone().into_tensor_arg(),
            other.excess.clone().into_tensor_arg(),
            self.curv.clone().into_tensor_arg(),
            upstream.grad.clone().into_tensor_arg(),
            upstream.table.clone().into_tensor_arg(),
            found.clone().into_tensor_arg(),
            parts.into_tensor_arg(),
            steps[0] as u32,
            steps[1] as u32,
            self.floor,
            self.sign,
            self.squares,
            curv_parts.is_some(),
            blocks,
        );
        found
    }
}

/// Largest number of sums per thread in the backward pass: one group covers a factor of up to 64 coordinates.
const MAX_BLOCKS: usize = 4;

impl CubePoints {
    fn new(points: CubeTensor, curv: &CubeTensor) -> Self {
        let excess = empty(&points, [points.shape()[0], curv.shape()[0]]);
        let count = excess.shape().num_elements();
        if count > 0 {
            source::time_excess::launch(
                &points.client,
                CubeCount::Static(count.div_ceil(source::ADDERS) as u32, 1, 1),
                CubeDim::new_1d(source::ADDERS as u32),
                points.clone().into_tensor_arg(),
                curv.clone().into_tensor_arg(),
                excess.clone().into_tensor_arg(),
            );
        }
        CubePoints { points, excess }
    }

    fn rows(&self) -> usize {
        self.points.shape()[0]
    }
}

fn tiles(rows: usize) -> u32 {
    rows.div_ceil(source::TILE) as u32
}

/// An uninitialised row-major tensor.
fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::new(shape), like.dtype)
}
