//! The content that a server serves.

use std::path::PathBuf;
use std::sync::Arc;

use conifer_data::Source;
use conifer_index::Snapshot;
use conifer_model::embed::Embedder;
use conifer_search::EndpointSettings;

use crate::api::predict::ServedPredictor;
use crate::layer_maker::LayerMaker;
use crate::set::layers::DISC;
use crate::start_error::{Error, Result};

/// The set that a server searches, and what it needs to embed queries and to show pictures.
pub struct ServedContent {
    /// The rows.
    pub set: Snapshot,
    /// The model that made the set. It embeds the texts and photos of queries.
    pub model: Option<Embedder>,
    /// Embedding endpoint that turns the texts of queries into vectors, for a model that reads vectors.
    pub endpoint: Option<EndpointSettings>,
    /// Predicts classes (`POST /api/predict`).
    pub predictor: Option<ServedPredictor>,
    /// The data set that was embedded, for thumbnails.
    pub source: Option<Box<dyn Source>>,
    /// File of the class tree above the labels of the rows, with one `parent child` edge per line. Without it, the
    /// classes come from the ranks of `source`, or from the labels and ranks of the rows.
    pub tree: Option<PathBuf>,
    /// Build a cell index, which searches fewer rows and returns the same results.
    pub cells: bool,
    /// Serve only shard `(i, n)`: rows i, i + n, i + 2 n, ...
    pub shard: Option<(usize, usize)>,
    /// Projections of the rows, which the explorer offers as layers of its map beside the built-in disc.
    pub maps: Vec<ServedMap>,
    /// Computes further layers when a client asks for them.
    pub layer_maker: Option<Arc<dyn LayerMaker>>,
    /// A set whose map is shown beside that of `set`.
    pub beside: Option<SecondSet>,
}

/// A second set of the same items, for example before or after a training run. Only its map is served.
pub struct SecondSet {
    /// The rows. Some of them have ids of the served set.
    pub set: Snapshot,
    /// Name to display.
    pub title: String,
    /// Projections of the rows.
    pub maps: Vec<ServedMap>,
}

/// A projection of rows of the set to two dimensions, as `conifer project` writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedMap {
    /// Name in requests and links; unique, and not `disc`.
    pub name: String,
    /// Name to display.
    pub title: String,
    /// Row numbers of the whole set, strictly ascending.
    pub rows: Vec<u32>,
    /// Position of each row, in the range of `f32`. In a disc its length is below 1.
    pub positions: Vec<[f64; 2]>,
    /// True for the Poincare disc, false for a plane.
    pub is_disc: bool,
    /// Position of the root, if the projection has one.
    pub root: Option<[f64; 2]>,
}

impl ServedMap {
    /// Checks the map of a set of `rows` rows.
    ///
    /// # Errors
    /// The name is empty or `disc`, the numbers of rows and positions differ, a row number is too large or not
    /// ascending, or a position is not valid.
    pub fn check(&self, rows: usize) -> Result<()> {
        let name = || format!("map `{}`", self.name);
        if self.name.is_empty() || self.name == DISC {
            return Err(Error::invalid(name(), "a name that is empty or taken by the built-in map", "another name"));
        }
        if self.positions.len() != self.rows.len() {
            let found = format!("{} positions", self.positions.len());
            return Err(Error::invalid(name(), found, format!("{}, one for each row", self.rows.len())));
        }
        if let Some(pair) = self.rows.windows(2).find(|pair| pair[0] >= pair[1]) {
            let found = format!("row {} after row {}", pair[1], pair[0]);
            return Err(Error::invalid(name(), found, "ascending row numbers"));
        }
        if let Some(row) = self.rows.last().filter(|row| **row as usize >= rows) {
            let expected = format!("a number below {rows}, the rows of the set");
            return Err(Error::invalid(name(), format!("row {row}"), expected));
        }
        let is_valid = |[x, y]: [f64; 2]| {
            let is_finite = (x as f32).is_finite() && (y as f32).is_finite();
            is_finite && (!self.is_disc || x.hypot(y) < 1.0)
        };
        if let Some(at) = self.positions.iter().position(|it| !is_valid(*it)) {
            let [x, y] = self.positions[at];
            let expected = if self.is_disc { "a point inside the unit disc" } else { "finite numbers of f32" };
            return Err(Error::invalid(name(), format!("position ({x}, {y}) of row {}", self.rows[at]), expected));
        }
        Ok(())
    }
}

impl ServedContent {
    /// Serves the whole set without a model. Queries can then be rows and points, but not texts or photos.
    pub fn new(set: Snapshot) -> Self {
        ServedContent {
            set,
            model: None,
            endpoint: None,
            predictor: None,
            source: None,
            tree: None,
            cells: false,
            shard: None,
            maps: Vec::new(),
            layer_maker: None,
            beside: None,
        }
    }
}
