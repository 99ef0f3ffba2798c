//! Relative positions of T5 (Raffel et al., JMLR 2020, Sec. 2.1), which MPNet shares: each attention head adds a
//! learned number to the score of a query and a key, looked up by the bucket of their distance.

use std::ops::Range;

use burn::tensor::{Bool, Int, Tensor, TensorData, activation};

use super::check_positive;
use crate::{Error, Result};

/// Distance from which all tokens share the last bucket, in every published T5 and MPNet.
pub(crate) const PUBLISHED_DISTANCE: usize = 128;

/// Assignment of offsets between tokens to rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelativeBuckets {
    /// Number of buckets: rows of the table.
    pub(crate) count: usize,
    /// All distances from here on share the last bucket.
    pub(crate) max_distance: usize,
    /// True if a token attends to both sides (encoder). False: keys after the query are in bucket 0 (decoder).
    pub(crate) bidirectional: bool,
}

impl RelativeBuckets {
    /// Checks the sizes; `key` names the number of buckets in a text encoder's config.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an odd number of buckets or fewer than 4, or a maximum within the exact range.
    pub(super) fn check(&self, key: &str) -> Result<()> {
        check_positive("textual", &[(key, self.count), ("max_distance", self.max_distance)])?;
        if self.count < 4 || !self.count.is_multiple_of(2) {
            return Err(Error::invalid(format!("textual.{key}"), self.count, "an even number, at least 4"));
        }
        let exact = self.sides().1;
        if self.max_distance <= exact {
            let expected = format!("more than {exact}, the number of distances with a bucket of their own");
            return Err(Error::invalid("textual.max_distance", self.max_distance, expected));
        }
        Ok(())
    }

    /// The bucket of `offset` = index of the key - index of the query.
    ///
    /// With n buckets on a side and e = n / 2, distance d < e has bucket d. Others have bucket min(n - 1, e +
    /// floor(ln(d / e) / ln(max_distance / e) (n - e))). If `bidirectional`, keys after the query have the second half
    /// of the buckets; otherwise all of them have bucket 0.
    pub(super) fn bucket(&self, offset: i64) -> usize {
        let (side, exact) = self.sides();
        let first = if self.bidirectional && offset > 0 { side } else { 0 };
        let distance = match self.bidirectional {
            true => offset.unsigned_abs() as usize,
            false => offset.min(0).unsigned_abs() as usize,
        };
        if distance < exact {
            return first + distance;
        }
        // Computed in f32 as in PyTorch, so that a distance at a bucket's boundary gets the same bucket as there.
        let range = (self.max_distance as f64 / exact as f64).ln() as f32;
        let steps = (distance as f32 / exact as f32).ln() / range * (side - exact) as f32;
        first + (exact + steps as usize).min(side - 1)
    }

    /// The bias of the attention score of each pair of tokens: from `table` `[buckets, heads]` to `[1, heads, L, L]`.
    pub(super) fn bias(&self, table: Tensor<2>, length: usize) -> Tensor<4> {
        self.bias_of(table, 0..length, length)
    }

    /// Like [`RelativeBuckets::bias`], for the queries at some positions and the first `keys` keys: `[1, heads,
    /// queries, keys]`.
    pub(crate) fn bias_of(&self, table: Tensor<2>, queries: Range<usize>, keys: usize) -> Tensor<4> {
        let [_, heads] = table.dims();
        let rows = queries.len();
        let offsets = queries.flat_map(|query| (0..keys as i64).map(move |key| key - query as i64));
        let buckets: Vec<i64> = offsets.map(|offset| self.bucket(offset) as i64).collect();
        let buckets = Tensor::<1, Int>::from_data(TensorData::new(buckets, [rows * keys]), &table.device());
        table.select(0, buckets).reshape([1, rows, keys, heads]).permute([0, 3, 1, 2])
    }

    /// Number of buckets on one side, and number of those that contain a single distance.
    fn sides(&self) -> (usize, usize) {
        let side = if self.bidirectional { self.count / 2 } else { self.count };
        (side, side / 2)
    }
}

/// Masks keys: returns `bias` `[1, heads, Lq, Lk]` with negative infinity where `hidden` `[B, Lk]` is true, as
/// `[B, heads, Lq, Lk]`.
pub(crate) fn masked(bias: Tensor<4>, hidden: &Tensor<2, Bool>) -> Tensor<4> {
    let [batch, keys] = hidden.dims();
    let [_, heads, queries, _] = bias.dims();
    let hidden = hidden.clone().reshape([batch, 1, 1, keys]).expand([batch, heads, queries, keys]);
    bias.expand([batch, heads, queries, keys]).mask_fill(hidden, f32::NEG_INFINITY)
}

/// `softmax(scale Q K^T + bias) V` for every head. Shapes: queries `[B Lq, W]`, keys and values `[B Lk, W]`, `bias`
/// `[B, heads, Lq, Lk]`, result `[B Lq, W]`. Composed of tensor operations: the fused kernels add no bias.
pub(super) fn biased_attention(
    query: Tensor<2>,
    key: Tensor<2>,
    value: Tensor<2>,
    bias: Tensor<4>,
    scale: f64,
) -> Tensor<2> {
    let [batch, heads, ..] = bias.dims();
    // Scaling the queries takes fewer products than scaling the scores if there are more keys than columns of a head.
    let query = if scale == 1.0 { query } else { query * scale };
    let [query, key, value] = [query, key, value].map(|rows| split_heads(rows, batch, heads));
    attend(query, key, value, bias)
}

/// `[B*L, W]` to `[B, heads, L, W / heads]`.
pub(crate) fn split_heads(rows: Tensor<2>, batch: usize, heads: usize) -> Tensor<4> {
    let [count, width] = rows.dims();
    rows.reshape([batch, count / batch, heads, width / heads]).swap_dims(1, 2)
}

/// `softmax(Q K^T + bias) V`. Shapes: queries `[B, heads, Lq, H]`, keys and values `[B, heads, Lk, H]`, `bias` `[B or
/// 1, heads or 1, Lq or 1, Lk]`, result `[B*Lq, heads*H]`.
pub(crate) fn attend(query: Tensor<4>, key: Tensor<4>, value: Tensor<4>, bias: Tensor<4>) -> Tensor<2> {
    let [batch, heads, length, width] = query.dims();
    let scores = query.matmul(key.transpose()) + bias;
    activation::softmax(scores, 3).matmul(value).swap_dims(1, 2).reshape([batch * length, heads * width])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::{Device, Distribution};
    use conifer_kernels::{Mask, self_attention};

    use super::*;

    /// Buckets of all offsets from -300 to 300, computed by `transformers` (`fixtures/towers/RECIPE.md`).
    #[test]
    fn buckets_are_those_of_transformers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/towers/relative_buckets.json");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(rows.len(), 5);
        for row in rows {
            let number = |key: &str| row[key].as_u64().unwrap() as usize;
            let it = RelativeBuckets {
                count: number("count"),
                max_distance: number("max_distance"),
                bidirectional: row["bidirectional"].as_bool().unwrap(),
            };
            it.check("buckets").unwrap();
            let expected: Vec<usize> =
                row["buckets"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as usize).collect();
            let found: Vec<usize> = (-300..=300).map(|offset| it.bucket(offset)).collect();
            assert_eq!(found, expected, "{it:?}");
        }
    }

    #[test]
    fn impossible_buckets_are_refused_by_name() {
        let message = |count, max_distance| {
            let it = RelativeBuckets { count, max_distance, bidirectional: true };
            it.check("buckets").unwrap_err().to_string()
        };
        assert!(message(2, 128).contains("`textual.buckets` is 2; expected an even number, at least 4"));
        assert!(message(7, 128).contains("`textual.buckets` is 7; expected an even number"));
        assert!(message(32, 8).contains("`textual.max_distance` is 8; expected more than 8"), "{}", message(32, 8));
        assert!(message(32, 0).contains("`textual.max_distance` is 0; expected 1 to"), "{}", message(32, 0));
    }

    /// With a bias of 0 the result is that of the fused attention.
    #[test]
    fn a_bias_of_zero_changes_nothing() {
        let device = Device::flex();
        let joint = Tensor::<2>::random([2 * 5, 3 * 12], Distribution::Normal(0.0, 1.0), &device);
        let hidden = [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]];
        let hidden = Tensor::<2, Int>::from_data(TensorData::from(hidden), &device).equal_elem(1);
        let [query, key, value] = [0, 12, 24].map(|from| joint.clone().narrow(1, from, 12));
        let bias = masked(Tensor::zeros([1, 3, 5, 5], &device), &hidden);
        let found = biased_attention(query, key, value, bias, 0.5);
        let expected = self_attention(joint, 2, 3, Mask::Hidden(hidden));
        let difference = (found - expected).abs().max().into_scalar::<f32>();
        assert!(difference < 1e-5, "{difference}");
    }
}
