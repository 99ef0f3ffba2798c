//! Which part of which set a server holds. It stands in the head of every answer: a front puts only parts of one set together.

use axum::http::{HeaderMap, HeaderValue};
use conifer_index::Snapshot;
use conifer_space::points::sha256_hex;
use serde::{Deserialize, Serialize};

/// `I/N`, the part of the set.
pub(crate) const PART: &str = "conifer-part";
/// [`Whole::sha256`], the set.
pub(crate) const SET: &str = "conifer-set";

/// A set of which a part is served, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Whole {
    /// Of all that answers depend on: rows, weights and tree.
    pub(crate) sha256: String,
    pub(crate) rows: usize,
    /// Of a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// sha256 of the weights that made the set, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
    /// sha256 of the file of `--tree`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<String>,
}

/// Part `part` of `of`, from 0; of a server of a whole set 0 of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) part: usize,
    pub(crate) of: usize,
    /// The sha256 of the set.
    pub(crate) set: String,
}

impl Whole {
    /// # Errors
    /// Those of the fingerprint.
    pub(crate) fn new(set: &Snapshot, tree: Option<&[u8]>) -> anyhow::Result<Self> {
        let (rows, tree) = (set.fingerprint()?, tree.map(sha256_hex));
        Ok(Whole {
            sha256: sha256_hex(format!("{rows} {}", tree.as_deref().unwrap_or("no tree")).as_bytes()),
            rows: set.len(),
            version: set.version(),
            weights: Some(set.source.weights.clone()).filter(|it| !it.is_empty()),
            tree,
        })
    }
}

impl Part {
    /// Rows of this part of a set of `rows` ones.
    pub(crate) fn rows(&self, rows: usize) -> usize {
        (rows + self.of - 1 - self.part) / self.of
    }

    /// As the head of an answer says it.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        for (name, value) in [(PART, self.place()), (SET, self.set.clone())] {
            // Digits and a stroke are what headers may hold.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }

    /// What an answer that has this head comes from, where it is not this part.
    pub(crate) fn other(&self, headers: &HeaderMap) -> Option<String> {
        let told = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("none");
        let (place, set) = (told(PART), told(SET));
        let same = place == self.place() && set == self.set;
        (!same).then(|| format!("part {place} of the set {}", short(set)))
    }

    fn place(&self) -> String {
        format!("{}/{}", self.part, self.of)
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {} of the set {}", self.place(), short(&self.set))
    }
}

/// Enough of a hash to tell it from another one.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_is_told_from_that_of_another_part() {
        let part = |part, of, set: &str| Part { part, of, set: set.to_owned() };
        let ours = part(1, 3, "0123456789abcdef");
        let heard = |it: &Part| {
            let mut headers = HeaderMap::new();
            it.tell(&mut headers);
            ours.other(&headers)
        };
        assert_eq!(heard(&ours), None);
        assert_eq!(heard(&part(2, 3, &ours.set)).unwrap(), "part 2/3 of the set 0123456789ab");
        assert_eq!(heard(&part(1, 3, "ffff")).unwrap(), "part 1/3 of the set ffff");
        assert_eq!(ours.other(&HeaderMap::new()).unwrap(), "part none of the set none");
        let rows: Vec<usize> = (0..3).map(|i| part(i, 3, "").rows(10)).collect();
        assert_eq!(rows, [4, 3, 3]);
    }
}
