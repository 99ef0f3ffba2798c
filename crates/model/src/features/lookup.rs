//! Stored vectors, completed by computing those that are missing.

use std::collections::{HashMap, HashSet};

use super::ContentKey;

/// Returns the vectors of `keys`, concatenated. `known` contains the stored vectors. `compute` returns the missing
/// vectors, given their indices in `keys`, at most `batch` in a call. `keep` receives each computed vector. The vector
/// of a repeated key is computed once.
///
/// # Errors
/// The errors of `compute`.
pub fn stored_or_computed<E>(
    keys: &[ContentKey],
    mut known: HashMap<ContentKey, Vec<f32>>,
    width: usize,
    batch: usize,
    mut compute: impl FnMut(&[usize]) -> Result<Vec<f32>, E>,
    mut keep: impl FnMut(&[(ContentKey, Vec<f32>)]),
) -> Result<Vec<f32>, E> {
    let mut seen = HashSet::new();
    let missing: Vec<usize> =
        (0..keys.len()).filter(|&i| !known.contains_key(&keys[i]) && seen.insert(keys[i])).collect();
    for some in missing.chunks(batch.max(1)) {
        let vectors = compute(some)?;
        let fresh: Vec<(ContentKey, Vec<f32>)> =
            some.iter().map(|&i| keys[i]).zip(vectors.chunks_exact(width.max(1)).map(<[f32]>::to_vec)).collect();
        keep(&fresh);
        known.extend(fresh);
    }
    Ok(keys.iter().flat_map(|key| known.get(key).into_iter().flatten()).copied().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn missing_vectors_are_computed_once_and_kept() {
        let keys = [1, 2, 3, 2, 4].map(|i| [i; 32]);
        let known = HashMap::from([(keys[0], vec![1.0, 1.0])]);
        let (mut calls, mut kept) = (Vec::new(), Vec::new());
        let compute = |some: &[usize]| -> Result<Vec<f32>, ()> {
            calls.push(some.to_vec());
            Ok(some.iter().flat_map(|&i| [f32::from(keys[i][0]), 0.0]).collect())
        };
        let found = stored_or_computed(&keys, known, 2, 2, compute, |fresh| kept.extend_from_slice(fresh)).unwrap();
        assert_eq!(found, [1.0, 1.0, 2.0, 0.0, 3.0, 0.0, 2.0, 0.0, 4.0, 0.0]);
        assert_eq!(calls, [vec![1, 2], vec![4]]);
        assert_eq!(kept, [2, 3, 4].map(|i| ([i; 32], vec![f32::from(i), 0.0])));
        let failing = |_: &[usize]| Err("no");
        assert_eq!(stored_or_computed(&keys, HashMap::new(), 2, 2, failing, |_| {}), Err("no"));
    }
}
