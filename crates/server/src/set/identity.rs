//! Identifies the set and the shard that a server holds.
//!
//! Every response names both in its headers, so that a front combines only shards of one set.

use axum::http::{HeaderMap, HeaderValue};
use conifer_embeddings::sha256_hex;
use conifer_index::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Response header with the shard: `I/N`.
pub(crate) const PART: &str = "conifer-part";
/// Response header with the checksum of the set, [`SetIdentity::sha256`].
pub(crate) const SET: &str = "conifer-set";

/// The whole set, of which a server may hold only one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SetIdentity {
    /// Checksum of everything that responses depend on: rows, weights and class tree. Every response has it in the
    /// header `conifer-set`.
    pub(crate) sha256: String,
    /// Number of rows of all shards.
    pub(crate) rows: usize,
    /// Version of the store, if the set comes from a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// sha256 of the weights that made the set, if the set records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
    /// sha256 of the class tree from `--tree` or from the ranks of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<String>,
}

/// Shard `index` of `count`, counted from 0. A server of a whole set holds shard 0 of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardIdentity {
    pub(crate) index: usize,
    pub(crate) count: usize,
    /// sha256 of the set.
    pub(crate) set: String,
}

impl SetIdentity {
    /// `rows` is [`Snapshot::fingerprint`] of the set.
    pub(crate) fn new(rows: &str, set: &Snapshot, tree: Option<&[u8]>) -> Self {
        let tree = tree.map(sha256_hex);
        SetIdentity {
            sha256: sha256_hex(format!("{rows} {}", tree.as_deref().unwrap_or("no tree")).as_bytes()),
            rows: set.len(),
            version: set.version(),
            weights: Some(set.source.weights.clone()).filter(|it| !it.is_empty()),
            tree,
        }
    }
}

impl ShardIdentity {
    /// Number of rows of this shard in a set of `rows` rows.
    pub(crate) fn rows(&self, rows: usize) -> usize {
        (rows + self.count - 1 - self.index) / self.count
    }

    /// Adds the shard and the set to the headers of a response.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in [(PART, self.label()), (SET, self.set.clone())] {
            // Both values consist of hexadecimal digits and `/`, which are valid in a header, so this does not fail.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }

    /// Describes the shard named in `headers` if it is not this shard.
    pub(crate) fn other(&self, headers: &HeaderMap) -> Option<String> {
        let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("none");
        let (label, set) = (header(PART), header(SET));
        let same = label == self.label() && set == self.set;
        (!same).then(|| format!("part {label} of the set {}", short(set)))
    }

    fn label(&self) -> String {
        format!("{}/{}", self.index, self.count)
    }
}

impl std::fmt::Display for ShardIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {} of the set {}", self.label(), short(&self.set))
    }
}

/// The first 12 characters of a hash, which are enough to distinguish sets in a message.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn responses_of_other_shards_are_detected() {
        let part = |index, count, set: &str| ShardIdentity { index, count, set: set.to_owned() };
        let ours = part(1, 3, "0123456789abcdef");
        let mismatch = |it: &ShardIdentity| {
            let mut headers = HeaderMap::new();
            it.add_to(&mut headers);
            ours.other(&headers)
        };
        assert_eq!(mismatch(&ours), None);
        assert_eq!(mismatch(&part(2, 3, &ours.set)).unwrap(), "part 2/3 of the set 0123456789ab");
        assert_eq!(mismatch(&part(1, 3, "ffff")).unwrap(), "part 1/3 of the set ffff");
        assert_eq!(ours.other(&HeaderMap::new()).unwrap(), "part none of the set none");
        let rows: Vec<usize> = (0..3).map(|i| part(i, 3, "").rows(10)).collect();
        assert_eq!(rows, [4, 3, 3]);
    }
}
