//! Wholes and parts in a batch, for the methods that read [`View::Edges`](conifer_data::View::Edges).

use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor, TensorData};
use conifer_kernels::PairLabels;

use crate::{Error, Result, terms};

/// Crops, the object that each of them shows, and the whole-part pairs of objects.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Points of the crops, `[N, D]`.
    pub points: Tensor<2>,
    /// Id of the object that each crop shows, `[N]`. Crops of the same object have the same id.
    pub things: Vec<u32>,
    /// Whole-part pairs of object ids, `[whole, part]`.
    pub parts: Vec<[u32; 2]>,
}

/// Crops of parts with at least two crops each, for a contrast between crops of the same part.
pub struct SamePartCrops {
    /// Points of the crops, `[T, D]`.
    pub points: Tensor<2>,
    /// Index of each crop among all crops of parts, `[T]`.
    pub positions: Vec<u32>,
    /// True if row and column are different crops of the same object, `[T, T]`.
    pub positive: Tensor<2, Bool>,
    /// True if row and column are the same crop, `[T, T]`.
    pub same: Tensor<2, Bool>,
}

impl Edges {
    /// Returns the rows of the wholes and of the parts, which whole-part pairs of rows are positives, and which show
    /// the same object. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Shape`] if the numbers of crops and of object ids differ, or if the batch has no whole-part pair.
    pub fn pair_labels(&self, method: &str) -> Result<Arc<PairLabels>> {
        let [rows, width] = self.points.dims();
        if rows != self.things.len() {
            let expected = format!("[{}, {width}], a crop for each object id", self.things.len());
            return Err(Error::Shape { name: "crops".to_owned(), found: vec![rows, width], expected });
        }
        let objects = BatchObjects::new(&self.things);
        let (whole_rows, part_rows) = (objects.rows(&self.parts, 0), objects.rows(&self.parts, 1));
        if whole_rows.is_empty() || part_rows.is_empty() {
            let expected = format!("a batch of at least 1 for {method}: a photo with a box");
            return Err(Error::Shape { name: "crops".to_owned(), found: vec![rows, width], expected });
        }
        let (among_wholes, among_parts) = (&objects.positions(&whole_rows), &objects.positions(&part_rows));
        let cells = |[whole, part]: [usize; 2]| {
            let columns = &among_parts[part];
            among_wholes[whole].iter().flat_map(move |&row| columns.iter().map(move |&column| [row, column]))
        };
        let pairs = self.parts.iter().filter_map(|&[whole, part]| Some([objects.index(whole)?, objects.index(part)?]));
        let positive = pairs.flat_map(cells).collect();
        let same = (0..among_wholes.len()).flat_map(|object| cells([object, object])).collect();
        Ok(Arc::new(PairLabels::new(whole_rows, part_rows, positive, same)))
    }

    /// Returns the crops of the parts with at least two crops; `None` if every part has one crop.
    pub fn same_part_crops(&self, labels: &PairLabels) -> Option<SamePartCrops> {
        let objects = BatchObjects::new(&self.things);
        let crops = objects.positions(labels.parts());
        let several = |&row: &u32| crops[objects.index_of[row as usize]].len() > 1;
        let positions = (0u32..).zip(labels.parts()).filter(|(_, row)| several(row));
        let (positions, rows): (Vec<u32>, Vec<u32>) = positions.map(|(position, &row)| (position, row)).unzip();
        let shape = [rows.len(), rows.len()];
        let table = |is: &dyn Fn(u32, u32) -> bool| {
            let cells = rows.iter().flat_map(|&a| rows.iter().map(move |&b| (a, b)));
            mask(cells.map(|(a, b)| is(a, b)).collect(), shape, &self.points.device())
        };
        (!rows.is_empty()).then(|| SamePartCrops {
            points: terms::select(&self.points, &rows),
            positions,
            positive: table(&|a, b| a != b && self.things[a as usize] == self.things[b as usize]),
            same: table(&|a, b| a == b),
        })
    }
}

/// The rows of the crops that show a part, in ascending order. A momentum encoder embeds these rows. `things` and
/// `parts` are the fields of [`Edges`].
pub fn part_rows(things: &[u32], parts: &[[u32; 2]]) -> Vec<u32> {
    BatchObjects::new(things).rows(parts, 1)
}

/// The objects of a batch, with consecutive indices.
struct BatchObjects {
    ids: Vec<u32>,
    /// For each row, the index of its object in `ids`.
    index_of: Vec<usize>,
}

impl BatchObjects {
    fn new(rows: &[u32]) -> Self {
        let mut ids = rows.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let index_of = rows.iter().map(|id| ids.partition_point(|other| other < id)).collect();
        BatchObjects { ids, index_of }
    }

    fn index(&self, id: u32) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// Rows whose object is on `side` of a pair (0: whole, 1: part), in order.
    fn rows(&self, pairs: &[[u32; 2]], side: usize) -> Vec<u32> {
        let mut on_side = vec![false; self.ids.len()];
        pairs.iter().filter_map(|pair| self.index(pair[side])).for_each(|index| on_side[index] = true);
        (0..self.index_of.len()).filter(|&row| on_side[self.index_of[row]]).map(|row| row as u32).collect()
    }

    /// For each object, the positions in `rows` of the rows that show it.
    fn positions(&self, rows: &[u32]) -> Vec<Vec<u32>> {
        let mut positions = vec![Vec::new(); self.ids.len()];
        rows.iter()
            .enumerate()
            .for_each(|(position, &row)| positions[self.index_of[row as usize]].push(position as u32));
        positions
    }
}

fn mask(cells: Vec<bool>, shape: [usize; 2], device: &Device) -> Tensor<2, Bool> {
    Tensor::from_data(TensorData::new(cells, shape), device)
}
