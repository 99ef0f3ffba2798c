//! The Manhattan space over tensors, with gradients.

use conifer::geometry::ManifoldSpec;
use conifer::geometry::tensor::{Manifold, ManifoldEntry, RootT, manifold};
use conifer::train::tensor::Tensor;

pub(crate) static ENTRY: ManifoldEntry = ManifoldEntry {
    kind: "manhattan",
    build: |spec, _| {
        let flat = manifold(&ManifoldSpec::euclidean(spec.dim), None).expect("the dimension was checked");
        Box::new(ManhattanTensors { spec: spec.clone(), flat })
    },
};

struct ManhattanTensors {
    spec: ManifoldSpec,
    flat: Box<dyn Manifold>,
}

impl Manifold for ManhattanTensors {
    fn spec(&self) -> ManifoldSpec {
        self.spec.clone()
    }
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2> {
        self.flat.lift(tangent)
    }
    fn unlift(&self, points: Tensor<2>) -> Tensor<2> {
        self.flat.unlift(points)
    }
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        (x - y).abs().sum_dim(1).squeeze_dim(1)
    }
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        // [M, 1, D] - [1, N, D] is simple, but stores M x N x D numbers.
        (x.unsqueeze_dim::<3>(1) - y.unsqueeze_dim::<3>(0)).abs().sum_dim(2).squeeze_dim(2)
    }
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        self.flat.inner(x, y)
    }
    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.flat.pairwise_inner(x, y)
    }
    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1> {
        self.flat.exterior_angle(parent, child, root)
    }
    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2> {
        self.flat.pairwise_exterior_angle(parent, child, root)
    }
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1> {
        self.flat.half_aperture(parent, min_radius, root)
    }
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2> {
        self.flat.geodesic(from, to, t)
    }
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1> {
        match root {
            RootT::Origin => x.abs().sum_dim(1).squeeze_dim(1),
            RootT::Point(point) => (x - point.clone().unsqueeze()).abs().sum_dim(1).squeeze_dim(1),
            RootT::Rows(roots) => (x - roots.clone()).abs().sum_dim(1).squeeze_dim(1),
        }
    }
}
