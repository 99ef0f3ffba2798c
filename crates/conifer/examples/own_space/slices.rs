//! The Manhattan space on slices of numbers.

use conifer::geometry::{ManifoldSpec, Real, Root, Space, SpaceEntry, space};

pub(crate) static ENTRY: SpaceEntry = SpaceEntry {
    kind: "manhattan",
    summary: "flat space, distance sum |x_i - y_i|",
    factored: false,
    curved: false,
    tangent_norm: Some(|_, v| v.iter().map(|a| a.abs()).sum()),
    build_f32: |spec| Box::new(Manhattan::new(spec)),
    build_f64: |spec| Box::new(Manhattan::new(spec)),
    sample: |_| [2, 5].map(|dim| ManifoldSpec { kind: "manhattan".into(), ..ManifoldSpec::euclidean(dim) }).into(),
};

/// Distance, similarity and depth use the Manhattan distance; all other functions are those of Euclidean space.
struct Manhattan<T> {
    spec: ManifoldSpec,
    flat: Box<dyn Space<T>>,
}

impl<T: Real> Manhattan<T> {
    fn new(spec: &ManifoldSpec) -> Self {
        let flat = space(&ManifoldSpec::euclidean(spec.dim)).expect("the dimension was checked");
        Self { spec: spec.clone(), flat }
    }
}

impl<T: Real> Space<T> for Manhattan<T> {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }
    fn lift(&self, tangent: &[T], point: &mut [T]) {
        self.flat.lift(tangent, point);
    }
    fn unlift(&self, point: &[T], tangent: &mut [T]) {
        self.flat.unlift(point, tangent);
    }
    fn off_manifold(&self, point: &[T]) -> T {
        self.flat.off_manifold(point)
    }
    fn inner(&self, x: &[T], y: &[T]) -> T {
        self.flat.inner(x, y)
    }
    fn dist(&self, x: &[T], y: &[T]) -> T {
        x.iter().zip(y).fold(T::ZERO, |sum, (a, b)| sum + (*a - *b).abs())
    }
    fn similarity(&self, x: &[T], y: &[T]) -> T {
        -self.dist(x, y)
    }
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T {
        self.flat.exterior_angle(parent, child, root)
    }
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T {
        self.flat.half_aperture(parent, min_radius, root)
    }
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        self.flat.geodesic(from, to, t, out);
    }
    fn mean(&self, points: &[&[T]], out: &mut [T]) {
        self.flat.mean(points, out);
    }
    fn depth(&self, x: &[T], root: &Root) -> T {
        match root {
            Root::Origin => x.iter().fold(T::ZERO, |sum, a| sum + a.abs()),
            Root::Point(point) => x.iter().zip(point).fold(T::ZERO, |sum, (a, b)| sum + (*a - T::from_f64(*b)).abs()),
        }
    }
}
