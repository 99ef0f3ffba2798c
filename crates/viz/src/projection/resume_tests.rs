//! A fit that is stopped and continued gives the bits of an uninterrupted one.
#![allow(clippy::unwrap_used)]

use super::tests::{balanced_tree, cosne_settings};
use super::*;

/// Keeps the state before step `stop` and stops there.
struct Stopping {
    stop: usize,
    steps: usize,
    state: Option<FitState>,
}

impl Stopping {
    fn at(stop: usize, state: Option<FitState>) -> Self {
        Stopping { stop, steps: 0, state }
    }
}

impl FitProgress for Stopping {
    fn restored(&mut self) -> Option<FitState> {
        self.state.take()
    }

    fn step(&mut self, done: usize, total: usize, state: &dyn Fn() -> FitState) -> bool {
        assert!(done <= total);
        self.steps += 1;
        if self.steps <= self.stop {
            return true;
        }
        // Through the bytes, as a file would keep it.
        let mut bytes = Vec::new();
        state().append_to(&mut bytes);
        self.state = Some(FitState::from_bytes(&bytes).unwrap());
        false
    }
}

/// Runs a fit without interruption, and once more in pieces of `piece` steps; returns both results and the pieces.
fn both<T>(piece: usize, fit: &dyn Fn(&mut dyn FitProgress) -> Result<T>) -> (T, T, usize) {
    let whole = fit(&mut Stopping::at(usize::MAX, None)).unwrap();
    let mut progress = Stopping::at(piece, None);
    let mut pieces = 1;
    loop {
        match fit(&mut progress) {
            Ok(found) => return (whole, found, pieces),
            Err(Error::Stopped) => progress = Stopping::at(piece, progress.state),
            Err(error) => panic!("{error}"),
        }
        pieces += 1;
        assert!(pieces < 1000, "the fit does not advance");
    }
}

#[test]
fn stopped_fits_continue_to_the_same_bits() {
    let rows = balanced_tree(5, 3, 3).centred(ProjectionCenter::Mean);
    let pairs = PairSample::new(rows.len(), 1000, 0);
    for piece in [1, 7] {
        let settings = HoroSettings { dim: 3, steps: 20, start: None };
        let (whole, found, pieces) = both(piece, &|it| HoroPca::fit_resumable(&rows, &settings, &pairs, it));
        assert!(pieces > 5, "{pieces}");
        assert_eq!((&whole.directions, &whole.coordinates), (&found.directions, &found.coordinates));
        assert_eq!((whole.steps, whole.quality), (found.steps, found.quality));

        let settings = CosneSettings { iterations: 40, exaggerated: 10, ..cosne_settings() };
        let (whole, found, pieces) = both(piece, &|it| Cosne::fit_resumable(&rows, CosneMethod::Exact, &settings, it));
        assert!(pieces > 5, "{pieces}");
        assert_eq!(whole.positions, found.positions);
        assert_eq!((whole.start_loss, whole.loss), (found.start_loss, found.loss));
    }
}

#[test]
fn stopped_umap_continues_to_the_same_bits() {
    let rows = balanced_tree(5, 3, 3);
    let mut near: Vec<Vec<(f64, u32)>> = Vec::new();
    for i in 0..rows.len() {
        let others = (0..rows.len()).filter(|j| *j != i);
        let mut list: Vec<(f64, u32)> = others.map(|j| (rows.dist(i, j), j as u32)).collect();
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        list.truncate(5);
        near.push(list);
    }
    let list = near.concat();
    let table = NeighbourTable::new(5, list.iter().map(|it| it.1).collect(), list.iter().map(|it| it.0).collect());
    let table = table.unwrap();
    let start: Vec<f64> = (0..rows.len()).flat_map(|i| rows.row(i)[..2].to_vec()).collect();
    for target in [UmapTarget::Plane, UmapTarget::Disc] {
        let settings = UmapSettings { target, min_dist: 0.1, epochs: Some(30), seed: 4 };
        let (whole, found, pieces) = both(4, &|it| Umap::fit_resumable(&table, &start, &settings, it));
        assert!(pieces > 5, "{pieces}");
        assert_eq!(whole.positions, found.positions);
        assert_eq!(whole.neighbours_kept, found.neighbours_kept);
        // A state of another number of rows is refused.
        let mut other = Stopping::at(9, Some(FitState { integers: vec![1, 2], numbers: vec![0.0; 8] }));
        let error = Umap::fit_resumable(&table, &start, &settings, &mut other).unwrap_err().to_string();
        assert!(error.contains("unfinished UMAP") && error.contains("2 integers and 8 numbers"), "{error}");
    }
}
