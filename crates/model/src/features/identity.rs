//! Hashes that identify encoders and texts. `RegionReader` of `conifer_data::loader` hashes photos and boxes.

use conifer_embeddings::sha256_hex;
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::ContentKey;
use crate::checkpoint::{WeightArray, module_weights};
use crate::model::Model;

/// The key of a text, given as token ids.
pub(crate) fn text_key(row: &[u32]) -> ContentKey {
    let mut hash = Sha256::new();
    row.iter().for_each(|id| hash.update(id.to_le_bytes()));
    hash.finalize().into()
}

/// Identifies everything besides the content that determines the features of photos: architecture, pixel statistics and
/// weights of the image encoder.
pub fn image_identity(model: &Model) -> String {
    let config = model.config();
    let visual = encoder_settings(&config.visual, model.visual.digest());
    let settings = serde_json::json!({ "visual": visual, "pixels": config.pixels });
    identity(&settings.to_string(), module_weights(&model.visual))
}

/// Identifies everything besides the token ids that determines the features of texts: architecture and weights of the
/// text encoder.
pub fn text_identity(model: &Model) -> String {
    let textual = encoder_settings(&model.config().textual, model.textual.digest());
    let settings = serde_json::json!({ "textual": textual });
    identity(&settings.to_string(), module_weights(&model.textual))
}

/// The config of an encoder, or its digest: the config of an ONNX encoder has a path, which does not identify the
/// model.
fn encoder_settings(config: &impl Serialize, digest: Option<String>) -> serde_json::Value {
    digest.map_or_else(|| serde_json::json!(config), serde_json::Value::String)
}

fn identity(settings: &str, weights: impl IntoIterator<Item = (String, WeightArray)>) -> String {
    let tensors: Vec<(String, WeightArray)> = weights.into_iter().collect();
    let hashes: Vec<String> =
        tensors.par_iter().map(|(name, array)| format!("{name} {}\n", sha256_hex(&array.to_le_bytes()))).collect();
    sha256_hex(format!("{settings}\n{}", hashes.concat()).as_bytes())
}
