//! The true caption chain of a photo, as an embedding set stores it.

use anyhow::Context as _;
use conifer_embeddings::Modality;
use conifer_eval::TIERS_COLUMN as TIERS;
use conifer_index::Snapshot;

/// Two points belong to the same photo if no coordinate differs by more than this share of the largest coordinate: the
/// model computes a point with rounding errors that depend on its batch, and bfloat16 stores 8 significant bits of a
/// coordinate.
const SAME_PHOTO: f32 = 0.005;

/// The chain of a row, if the set has one.
///
/// # Errors
/// The column is not a JSON list of texts.
pub(crate) fn chain_of_row(set: &Snapshot, row: usize) -> anyhow::Result<Option<Vec<String>>> {
    let Some(tiers) = set.columns.get(TIERS).map(|column| &column[row]).filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    let chain: Vec<String> = serde_json::from_str(tiers).with_context(|| {
        format!("column `{TIERS}` of row `{}` is `{tiers}`; expected a JSON list of texts, general first", set.ids[row])
    })?;
    Ok((!chain.is_empty()).then_some(chain))
}

/// The first photo with a chain whose point is `point` up to rounding.
pub(crate) fn row_of_photo(set: &Snapshot, point: &[f32]) -> Option<usize> {
    let chains = set.columns.get(TIERS)?;
    let largest = point.iter().fold(0.0, |largest: f32, v| largest.max(v.abs()));
    let same = |row: usize| set.row(row).iter().zip(point).all(|(a, b)| (a - b).abs() <= SAME_PHOTO * largest);
    (0..set.len()).find(|&row| set.modality[row] == Modality::Image && !chains[row].is_empty() && same(row))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_embeddings::EmbeddingSet;
    use conifer_geometry::{ManifoldSpec, Root};

    use super::*;

    fn set(tiers: [&str; 3]) -> Snapshot {
        let set = EmbeddingSet {
            spec: ManifoldSpec::euclidean(2),
            root: Root::Origin,
            ids: ["a", "b", "c"].map(String::from).into(),
            modality: vec![Modality::Text, Modality::Image, Modality::Image],
            points: vec![1.0, 0.5, 1.0, 0.5, 0.2, 2.0],
            columns: std::collections::BTreeMap::from([(TIERS.to_owned(), tiers.map(String::from).to_vec())]),
            source: conifer_embeddings::Provenance::default(),
        };
        Snapshot::of(set).unwrap()
    }

    #[test]
    fn chains_are_lists_of_texts() {
        let set = set(["", r#"["animal", "a \"dog\""]"#, "animal > dog"]);
        assert_eq!(chain_of_row(&set, 0).unwrap(), None);
        assert_eq!(chain_of_row(&set, 1).unwrap().unwrap(), ["animal", "a \"dog\""]);
        let error = chain_of_row(&set, 2).unwrap_err().to_string();
        assert!(error.contains("row `c`") && error.contains("animal > dog") && error.contains("JSON list"), "{error}");
    }

    #[test]
    fn a_photo_is_found_by_its_point() {
        let set = set(["", r#"["animal"]"#, ""]);
        assert_eq!(row_of_photo(&set, &[1.001, 0.5]), Some(1));
        assert_eq!(row_of_photo(&set, &[1.0, 0.51]), None);
        // Row 2 has no chain.
        assert_eq!(row_of_photo(&set, &[0.2, 2.0]), None);
    }
}
