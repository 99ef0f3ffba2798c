//! [`Provenance`]: the model and the data that produced a set.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The model and the data that produced a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The model, by name or path.
    pub model: String,
    /// The data, by name or path.
    pub data: String,
    /// A sha256 ([`sha256_hex`]) that identifies the inputs from which the points were computed; empty if unknown.
    pub hash: String,
    /// Version of conifer that wrote the set.
    pub conifer: String,
    /// sha256 of the model weights that produced the points; queries must use the same weights. Empty if unknown or if
    /// there were several.
    #[serde(default)]
    pub weights: String,
}

impl Provenance {
    pub(crate) fn check(&self) -> Result<()> {
        let hash = &self.hash;
        if hash.is_empty() || hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(());
        }
        Err(Error::invalid("embedding set: `source.hash`", format!("`{hash}`"), "64 hex digits, or an empty string"))
    }

    pub(crate) fn joined(&self, other: &Provenance) -> Provenance {
        let both = |a: &str, b: &str| match a == b {
            true => a.to_owned(),
            false => format!("{a} + {b}"),
        };
        Provenance {
            model: both(&self.model, &other.model),
            data: both(&self.data, &other.data),
            hash: match self.hash == other.hash {
                true => self.hash.clone(),
                false => sha256_hex(format!("{}{}", self.hash, other.hash).as_bytes()),
            },
            conifer: both(&self.conifer, &other.conifer),
            weights: if self.weights == other.weights { self.weights.clone() } else { String::new() },
        }
    }
}

/// Returns the sha256 of `bytes` as 64 hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
