//! Wholes and parts of a batch, as the methods that read [`View::Edges`](conifer_data::View::Edges) see them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use conifer_kernels::Answers;

use crate::{Error, Result, terms};

/// Points of crops, `[N, D]`, what each of them shows, and which thing is a part of which.
#[derive(Clone, Debug)]
pub struct Edges {
    /// The crops.
    pub points: Tensor<2>,
    /// `[N]`: equal for crops of the same thing.
    pub things: Vec<u32>,
    /// Whole and part.
    pub parts: Vec<[u32; 2]>,
}

/// Wholes against parts: `W` crops of things that have parts, `P` crops of things that are parts.
pub struct Relation {
    /// `[W, D]`.
    pub wholes: Tensor<2>,
    /// `[P, D]`.
    pub parts: Tensor<2>,
    /// Which part is a part of which whole, and where both show the same thing, which no one asks for.
    pub answers: Arc<Answers>,
    /// `[P]`, rows of the parts among all crops.
    part_rows: Vec<usize>,
}

/// Crops of parts against each other.
pub struct Twins {
    /// `[T, D]`: crops of parts of which there is another crop.
    pub points: Tensor<2>,
    /// `[T, T]`: another crop of the same thing.
    pub positive: Tensor<2, Bool>,
    /// `[T, T]`: the crop itself.
    pub same: Tensor<2, Bool>,
}

impl Relation {
    /// Right answers, and what no one asks for: `[W, P]` each.
    pub fn masks(&self) -> [Tensor<2, Bool>; 2] {
        terms::masks(&self.answers, &self.wholes.device())
    }
}

impl Edges {
    /// Who asks, who is asked, and which answers are right.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one thing for each crop, [`Error::Setting`] if no part is left.
    pub fn relation(&self, method: &str) -> Result<Relation> {
        let [rows, width] = self.points.dims();
        if rows != self.things.len() {
            let expected = format!("[{}, {width}], a crop for each thing of the batch", self.things.len());
            return Err(Error::Shape { name: "crops".to_owned(), found: vec![rows, width], expected });
        }
        let rows_of =
            |side: HashSet<u32>| -> Vec<usize> { (0..rows).filter(|&row| side.contains(&self.things[row])).collect() };
        let whole_rows = rows_of(self.parts.iter().map(|&[whole, _]| whole).collect());
        let part_rows = rows_of(self.parts.iter().map(|&[_, part]| part).collect());
        if whole_rows.is_empty() || part_rows.is_empty() {
            let expected = format!("a batch of at least 1 for {method}: a photo with a box");
            return Err(Error::Shape { name: "crops".to_owned(), found: vec![rows, width], expected });
        }
        let (among_wholes, among_parts) = (&self.places(&whole_rows), &self.places(&part_rows));
        let cells = |[whole, part]: [u32; 2]| {
            let rows = among_wholes.get(&whole).into_iter().flatten();
            rows.flat_map(move |&row| {
                let columns = among_parts.get(&part).into_iter().flatten();
                columns.map(move |&column| [row as u32, column as u32])
            })
        };
        let positive = self.parts.iter().copied().flat_map(cells).collect();
        let same = among_wholes.keys().flat_map(|&thing| cells([thing, thing])).collect();
        Ok(Relation {
            wholes: self.select(&whole_rows),
            parts: self.select(&part_rows),
            answers: Arc::new(Answers::new([whole_rows.len(), part_rows.len()], positive, same)),
            part_rows,
        })
    }

    /// Several crops of one part; none if every part has one crop.
    pub fn twins(&self, relation: &Relation) -> Option<Twins> {
        let crops = self.places(&relation.part_rows);
        let several = |row: &usize| crops[&self.things[*row]].len() > 1;
        let rows: Vec<usize> = relation.part_rows.iter().copied().filter(several).collect();
        let shape = [rows.len(), rows.len()];
        let table = |is: &dyn Fn(usize, usize) -> bool| {
            let cells = rows.iter().flat_map(|&a| rows.iter().map(move |&b| (a, b)));
            mask(cells.map(|(a, b)| is(a, b)).collect(), shape, &self.points.device())
        };
        (!rows.is_empty()).then(|| Twins {
            points: self.select(&rows),
            positive: table(&|a, b| a != b && self.things[a] == self.things[b]),
            same: table(&|a, b| a == b),
        })
    }

    /// By thing, where in `rows` its crops stand.
    fn places(&self, rows: &[usize]) -> HashMap<u32, Vec<usize>> {
        let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
        rows.iter().enumerate().for_each(|(place, &row)| places.entry(self.things[row]).or_default().push(place));
        places
    }

    fn select(&self, rows: &[usize]) -> Tensor<2> {
        let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let count = rows.len();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &self.points.device());
        self.points.clone().select(0, rows)
    }
}

fn mask(cells: Vec<bool>, shape: [usize; 2], device: &Device) -> Tensor<2, Bool> {
    Tensor::from_data(TensorData::new(cells, shape), device)
}
