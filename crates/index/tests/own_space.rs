//! A space of another crate, written by the recipe in CONTRIBUTING.md alone: the required functions of [`Space`] and a
//! registry entry. Every index must rank its rows exactly as the functions of the space do.
#![allow(clippy::unwrap_used)]

use std::sync::Once;

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::laws::check_space;
use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldKind, ManifoldSpec, Real, Root, SPACES, Space, SpaceEntry, space};
use conifer_index::export::Augmented;
use conifer_index::{
    CellIndex, Direction, Effort, Filter, FlatIndex, Gate, Hit, Partition, Query, Ranking, Traversal, conjunction,
    score_pairs, score_rows,
};

/// Coordinates with the distance `sum |x_i - y_i|`, from which depth and similarity follow. All other functions are
/// those of Euclidean space.
struct CityBlock<T> {
    spec: ManifoldSpec,
    flat: Box<dyn Space<T>>,
}

static ENTRY: SpaceEntry = SpaceEntry {
    kind: "city_block",
    summary: "flat space, distance sum |x_i - y_i|",
    factored: false,
    curved: false,
    tangent_norm: Some(|_, v| v.iter().map(|a| a.abs()).sum()),
    build_f32: |spec| Box::new(CityBlock::new(spec)),
    build_f64: |spec| Box::new(CityBlock::new(spec)),
    sample: |_| [1, 2, 5].map(city_block).into(),
};

fn city_block(dim: usize) -> ManifoldSpec {
    ManifoldSpec { kind: "city_block".into(), ..ManifoldSpec::euclidean(dim) }
}

impl<T: Real> CityBlock<T> {
    fn new(spec: &ManifoldSpec) -> Self {
        CityBlock { spec: spec.clone(), flat: space(&ManifoldSpec::euclidean(spec.dim)).unwrap() }
    }
}

impl<T: Real> Space<T> for CityBlock<T> {
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
        let root: Vec<T> = match root {
            Root::Origin => vec![T::ZERO; x.len()],
            Root::Point(point) => point.iter().map(|v| T::from_f64(*v)).collect(),
        };
        self.dist(x, &root)
    }
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| SPACES.register(&ENTRY).unwrap());
}

/// Points in ten clusters. Coordinates are multiples of 1/8, so that ties occur.
fn set(root: Root) -> EmbeddingSet {
    const DIM: usize = 3;
    const ROWS: usize = 700;
    register();
    let mut random = SplitMix::new(4);
    let mut eighth = |range: f64| ((random.uniform() - 0.5) * range * 8.0).round() as f32 / 8.0;
    let places: Vec<f32> = (0..10 * DIM).map(|_| eighth(12.0)).collect();
    let points = (0..ROWS * DIM).map(|i| places[(i / DIM % 10) * DIM + i % DIM] + eighth(2.0)).collect();
    let modality = (0..ROWS).map(|i| if i % 3 == 0 { Modality::Image } else { Modality::Text }).collect();
    let ids = (0..ROWS).map(|i| i.to_string()).collect();
    EmbeddingSet::new(city_block(DIM), root, ids, modality, points, Provenance::default()).unwrap()
}

const RANKINGS: [Ranking; 9] = [
    Ranking::Distance,
    Ranking::Similarity,
    Ranking::Inner,
    Ranking::Angle(Direction::Down),
    Ranking::Angle(Direction::Up),
    Ranking::Gated(Gate::Angle(Direction::Down, 1.3)),
    Ranking::Gated(Gate::Distance(4.0)),
    Ranking::Depth(Gate::Angle(Direction::Up, 2.0)),
    Ranking::Depth(Gate::Distance(4.0)),
];

/// Sorts all rows by the functions of the space.
fn sorted(set: &EmbeddingSet, query: &[f32], ranking: Ranking, k: usize) -> Vec<Hit> {
    let space = space::<f32>(&set.spec).unwrap();
    let angle = |direction, x: &[f32]| match direction {
        Direction::Down => space.exterior_angle(query, x, &set.root),
        Direction::Up => space.exterior_angle(x, query, &set.root),
    };
    let passes = |gate, x: &[f32]| match gate {
        Gate::Angle(direction, limit) => angle(direction, x) <= limit,
        Gate::Distance(limit) => space.dist(query, x) <= limit,
    };
    let mut rows: Vec<(f32, Hit)> = Vec::new();
    for (row, x) in set.rows().enumerate() {
        let (key, score) = match ranking {
            Ranking::Distance => (space.dist(query, x), space.dist(query, x)),
            Ranking::Inner => (-space.inner(query, x), space.inner(query, x)),
            Ranking::Angle(direction) => (angle(direction, x), angle(direction, x)),
            Ranking::Gated(gate) | Ranking::Depth(gate) if !passes(gate, x) => continue,
            Ranking::Similarity | Ranking::Gated(_) => (-space.similarity(query, x), space.similarity(query, x)),
            Ranking::Depth(_) => (space.depth(x, &set.root), space.depth(x, &set.root)),
        };
        rows.push((key, Hit { row, score }));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.row.cmp(&b.1.row)));
    rows.into_iter().map(|(_, hit)| hit).take(k).collect()
}

#[test]
fn it_obeys_the_laws_and_its_name_is_kept_in_files() {
    register();
    let broken: Vec<String> = check_space(&ENTRY, 1).iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(matches!(city_block(2).kind, ManifoldKind::Other(_)));
    let home = tempfile::tempdir().unwrap();
    let set = set(Root::Origin);
    set.save(&home.path().join("set")).unwrap();
    assert_eq!(EmbeddingSet::load(&home.path().join("set")).unwrap(), set);
}

#[test]
fn every_index_is_exact() {
    for root in [Root::Origin, Root::Point(vec![0.5, -1.0, 0.25])] {
        let set = set(root);
        let flat = FlatIndex::new(&set).unwrap();
        let cells: Vec<CellIndex> = [1, 0, 60]
            .map(|cells| CellIndex::new(set.clone(), Partition { cells, ..Partition::default() }).unwrap())
            .into();
        assert_eq!(cells.iter().map(CellIndex::cells).collect::<Vec<_>>(), [1, 26, 60]);
        let queries: Vec<f32> = [3, 40, 333].iter().flat_map(|row| set.row(*row)).map(|v| v + 0.125).collect();
        let query = Query::new(&set.spec, &queries);
        for (ranking, k) in RANKINGS.into_iter().flat_map(|ranking| [1, 10, 700].map(|k| (ranking, k))) {
            let expected: Vec<Vec<Hit>> = queries.chunks_exact(3).map(|q| sorted(&set, q, ranking, k)).collect();
            assert!(expected.iter().any(|hits| !hits.is_empty()), "{ranking:?}");
            assert_eq!(flat.top_k(&query, ranking, k, &Filter::All).unwrap(), expected, "{ranking:?}, {k}");
            for index in &cells {
                let found = index.top_k(&query, ranking, k, &Filter::All, Effort::Exact).unwrap();
                let found: Vec<Vec<Hit>> = found.into_iter().map(|it| it.hits).collect();
                assert_eq!(found, expected, "{ranking:?}, {k}, {} cells", index.cells());
            }
        }
        let filter = Filter::Modality(&[Modality::Image]);
        let images: Vec<Hit> = sorted(&set, &queries[..3], Ranking::Distance, 700);
        let images: Vec<Hit> = images.into_iter().filter(|hit| hit.row % 3 == 0).take(8).collect();
        let one = Query::new(&set.spec, &queries[..3]);
        for index in &cells {
            let found = index.top_k(&one, Ranking::Distance, 8, &filter, Effort::Exact).unwrap();
            assert_eq!(found[0].hits, images, "{} cells", index.cells());
        }
    }
}

/// With limited effort the cells nearest to the query are visited first.
#[test]
fn few_cells_find_most_of_the_result() {
    let set = set(Root::Origin);
    let index = CellIndex::new(set.clone(), Partition { cells: 60, ..Partition::default() }).unwrap();
    let query = Query::set(&set);
    let few = index.top_k(&query, Ranking::Distance, 5, &Filter::All, Effort::Cells(4)).unwrap();
    let exact = index.top_k(&query, Ranking::Distance, 5, &Filter::All, Effort::Exact).unwrap();
    let found =
        few.iter().zip(&exact).map(|(few, exact)| exact.hits.iter().filter(|hit| few.hits.contains(hit)).count());
    let (found, visited) = (found.sum::<usize>(), few.iter().map(|it| it.visited).sum::<usize>());
    assert!(found > set.len() * 5 / 2, "{found} of {}", set.len() * 5);
    assert!(visited < set.len() * set.len() / 4, "{visited}");
    let forecast = index.cells_for(Ranking::Distance, 0.9, &Filter::All).unwrap();
    assert!((1..60).contains(&forecast), "{forecast}");
}

#[test]
fn pairs_and_traversals_use_the_functions_of_the_space() {
    let set = set(Root::Origin);
    let space = space::<f32>(&set.spec).unwrap();
    let (left, right) = (&set.points[..30], &set.points[30..60]);
    for ranking in [Ranking::Distance, Ranking::Similarity, Ranking::Inner] {
        let score = |x: &[f32], y: &[f32]| match ranking {
            Ranking::Distance => space.dist(x, y),
            Ranking::Similarity => space.similarity(x, y),
            _ => space.inner(x, y),
        };
        let pairs: Vec<f32> = left.chunks(3).zip(right.chunks(3)).map(|(x, y)| score(x, y)).collect();
        assert_eq!(score_pairs(&set.spec, ranking, left, right).unwrap(), pairs);
        let table: Vec<Vec<f32>> = left.chunks(3).map(|x| right.chunks(3).map(|y| score(x, y)).collect()).collect();
        assert_eq!(score_rows(&set.spec, ranking, left, right, |_, scores| scores.to_vec()).unwrap(), table);
    }
    let flat = FlatIndex::new(&set).unwrap();
    let traversal = Traversal { steps: 9, cone: None, ..Traversal::default() };
    let steps = flat.steps_to_root(&Query::row(&set, 7), &traversal, &Filter::All).unwrap();
    assert_eq!(steps[0].nearest.map(|hit| hit.score), Some(0.0));
    let mut third = [0.0; 3];
    space.geodesic(set.row(7), &[0.0; 3], 0.25, &mut third);
    let nearest = sorted(&set, &third, Ranking::Similarity, 1)[0];
    let expected = (nearest.score >= space.similarity(&third, &[0.0; 3])).then_some(nearest);
    assert_eq!(steps[2].nearest, expected);
}

/// A conjunction takes the point farthest from the origin by the depth of the space, which is not the Euclidean one. An
/// export would rank by the Euclidean distance, so it is rejected.
#[test]
fn what_needs_a_closed_form_is_rejected() {
    register();
    let spec = city_block(2);
    let points = [3.0, 0.0, 2.0, 2.0];
    assert_eq!(conjunction(&Query::new(&spec, &points)).unwrap(), [2.0, 2.0]);
    let message = Augmented::within(&spec, 2.0).unwrap_err().to_string();
    let expected = "expected the sphere, flat space, a hyperboloid or a product of hyperboloids";
    assert_eq!(message, format!("search: the space of an export is city_block(dim 2); {expected}"));
    let unknown = ManifoldSpec { kind: "torus".into(), ..spec };
    assert!(unknown.check().unwrap_err().to_string().contains("`kind` is `torus`; expected one of sphere"));
}
