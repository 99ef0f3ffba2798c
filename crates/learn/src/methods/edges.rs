//! Wholes and parts of a batch, for the methods that read [`View::Edges`](conifer_data::View::Edges).

use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor, TensorData};
use conifer_kernels::PairLabels;

use crate::{Error, Result, terms};

/// Crops, the thing that each of them shows, and the whole-part pairs of things.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Points of the crops, `[N, D]`.
    pub points: Tensor<2>,
    /// Id of the thing that each crop shows, `[N]`. Crops of the same thing have the same id.
    pub things: Vec<u32>,
    /// Whole-part pairs of thing ids, `[whole, part]`.
    pub parts: Vec<[u32; 2]>,
}

/// Crops of parts that have more than one crop, for a contrast among crops of the same part.
pub struct Twins {
    /// The crops, `[T, D]`.
    pub points: Tensor<2>,
    /// True for another crop of the same thing, `[T, T]`.
    pub positive: Tensor<2, Bool>,
    /// True for the crop itself, `[T, T]`.
    pub same: Tensor<2, Bool>,
}

impl Edges {
    /// Rows of the wholes and of the parts, and the pairs of them that are positives or show the same thing.
    ///
    /// # Errors
    /// [`Error::Shape`] if the numbers of crops and of things differ, or if the batch has no whole-part pair.
    pub fn answers(&self, method: &str) -> Result<Arc<PairLabels>> {
        let [rows, width] = self.points.dims();
        if rows != self.things.len() {
            let expected = format!("[{}, {width}], a crop for each thing of the batch", self.things.len());
            return Err(Error::Shape { name: "crops".to_owned(), found: vec![rows, width], expected });
        }
        let things = Things::new(&self.things);
        let (whole_rows, part_rows) = (things.rows(&self.parts, 0), things.rows(&self.parts, 1));
        if whole_rows.is_empty() || part_rows.is_empty() {
            let expected = format!("a batch of at least 1 for {method}: a photo with a box");
            return Err(Error::Shape { name: "crops".to_owned(), found: vec![rows, width], expected });
        }
        let (among_wholes, among_parts) = (&things.places(&whole_rows), &things.places(&part_rows));
        let cells = |[whole, part]: [usize; 2]| {
            let columns = &among_parts[part];
            among_wholes[whole].iter().flat_map(move |&row| columns.iter().map(move |&column| [row, column]))
        };
        let numbers =
            self.parts.iter().filter_map(|&[whole, part]| Some([things.number(whole)?, things.number(part)?]));
        let positive = numbers.flat_map(cells).collect();
        let same = (0..among_wholes.len()).flat_map(|thing| cells([thing, thing])).collect();
        Ok(Arc::new(PairLabels::new(whole_rows, part_rows, positive, same)))
    }

    /// The crops of parts that have several crops; `None` if every part has one crop.
    pub fn twins(&self, answers: &PairLabels) -> Option<Twins> {
        let things = Things::new(&self.things);
        let crops = things.places(answers.parts());
        let several = |&row: &u32| crops[things.of[row as usize]].len() > 1;
        let rows: Vec<u32> = answers.parts().iter().copied().filter(several).collect();
        let shape = [rows.len(), rows.len()];
        let table = |is: &dyn Fn(u32, u32) -> bool| {
            let cells = rows.iter().flat_map(|&a| rows.iter().map(move |&b| (a, b)));
            mask(cells.map(|(a, b)| is(a, b)).collect(), shape, &self.points.device())
        };
        (!rows.is_empty()).then(|| Twins {
            points: terms::select(&self.points, &rows),
            positive: table(&|a, b| a != b && self.things[a as usize] == self.things[b as usize]),
            same: table(&|a, b| a == b),
        })
    }
}

/// The things of a batch, renumbered consecutively.
struct Things {
    names: Vec<u32>,
    /// Number of the thing of each row.
    of: Vec<usize>,
}

impl Things {
    fn new(rows: &[u32]) -> Self {
        let mut names = rows.to_vec();
        names.sort_unstable();
        names.dedup();
        let of = rows.iter().map(|name| names.partition_point(|other| other < name)).collect();
        Things { names, of }
    }

    fn number(&self, name: u32) -> Option<usize> {
        self.names.binary_search(&name).ok()
    }

    /// Rows whose thing is on `side` of a pair (0: whole, 1: part), in order.
    fn rows(&self, pairs: &[[u32; 2]], side: usize) -> Vec<u32> {
        let mut stands = vec![false; self.names.len()];
        pairs.iter().filter_map(|pair| self.number(pair[side])).for_each(|number| stands[number] = true);
        (0..self.of.len()).filter(|&row| stands[self.of[row]]).map(|row| row as u32).collect()
    }

    /// For the number of each thing, the positions in `rows` of its rows.
    fn places(&self, rows: &[u32]) -> Vec<Vec<u32>> {
        let mut places = vec![Vec::new(); self.names.len()];
        rows.iter().enumerate().for_each(|(place, &row)| places[self.of[row as usize]].push(place as u32));
        places
    }
}

fn mask(cells: Vec<bool>, shape: [usize; 2], device: &Device) -> Tensor<2, Bool> {
    Tensor::from_data(TensorData::new(cells, shape), device)
}
