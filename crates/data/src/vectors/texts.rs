//! Texts and their vectors.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{SharedVector, VectorMatrix};
use crate::error::{Error, Result};

/// Largest relative distance between two vectors of the same text. Encoders round differently when the batch size
/// differs.
const SAME_VECTOR: f64 = 1e-2;

/// Texts with vectors that another program computed.
#[derive(Debug, Default)]
pub struct TextVectors {
    matrix: Arc<VectorMatrix>,
    /// Row of each text.
    rows: HashMap<String, u32>,
    fingerprint: String,
}

impl TextVectors {
    /// The vectors of texts: row i of `matrix` is the vector of `texts[i]`. A text may occur several times if its
    /// vectors differ by at most 1 % of their length; the first row is used.
    ///
    /// # Errors
    /// There is not one text per row, or two vectors of a text differ by more.
    pub fn new(matrix: impl Into<Arc<VectorMatrix>>, texts: &[String]) -> Result<Self> {
        let matrix = matrix.into();
        if matrix.len() != texts.len() || u32::try_from(texts.len()).is_err() {
            let expected = format!("{}, the number of vectors", matrix.len());
            return Err(Error::format("vectors of texts", format!("{} texts", texts.len()), expected));
        }
        let mut rows: HashMap<String, u32> = HashMap::with_capacity(texts.len());
        let mut hash = Sha256::new();
        for (row, (text, vector)) in texts.iter().zip(matrix.rows()).enumerate() {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
            hash.update(le_bytes(vector));
            match rows.entry(text.clone()) {
                Entry::Vacant(entry) => _ = entry.insert(row as u32),
                Entry::Occupied(entry) => {
                    let first = *entry.get();
                    if !matrix.row(first as usize).is_some_and(|other| are_close(other, vector)) {
                        let found = format!("text {text:?} has different vectors in rows {first} and {row}");
                        return Err(Error::format("vectors of texts", found, "one vector per text"));
                    }
                }
            }
        }
        Ok(Self { matrix, rows, fingerprint: hex::encode(hash.finalize()) })
    }

    /// Width of the vectors; 0 for the default value, which has no texts.
    pub fn width(&self) -> usize {
        self.matrix.width()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.matrix.len()
    }

    /// True if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.matrix.is_empty()
    }

    /// The vector of a text; `None` if the text is unknown.
    pub fn get(&self, text: &str) -> Option<&[f32]> {
        self.matrix.row(*self.rows.get(text)? as usize)
    }

    /// The token id that represents the text in a batch: its row number plus 1. `None` if the text is unknown.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.rows.get(text).map(|row| row + 1)
    }

    /// The vector of the text with this [`TextVectors::id`]; `None` if there is no such text.
    pub fn vector(&self, id: u32) -> Option<SharedVector> {
        SharedVector::new(self.matrix.clone(), id.checked_sub(1)?)
    }

    /// SHA-256 (hex) of texts and vectors; empty for the default value.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

pub(crate) fn le_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn are_close(a: &[f32], b: &[f32]) -> bool {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    apart <= SAME_VECTOR * norm(&mut a.iter().map(|&x| f64::from(x)))
}
