//! A second set, whose map is shown beside that of the served set. Its rows are linked to the served ones by id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use conifer_embeddings::Modality;

use crate::content::SecondSet;
use crate::set::classes::ClassSource;
use crate::set::explorer::Explorer;
use crate::set::layers::MapLayers;
use crate::set::state::ServedSet;
use crate::start_error::{Error, Result};

/// The rows of the second set and their links.
pub(crate) struct BesideSet {
    pub(crate) title: String,
    pub(crate) state: ServedSet,
    pub(crate) explorer: Explorer,
    /// Row of the served set and row of the second set, ascending by the former. Each row occurs at most once.
    pub(crate) links: Vec<[u32; 2]>,
    /// Number of different ids that both sets have.
    pub(crate) shared_ids: usize,
}

impl BesideSet {
    /// # Errors
    /// The sets share no id; a map of the second set is not valid, or its classes are damaged.
    pub(crate) fn new(second: SecondSet, served: &ServedSet) -> Result<Self> {
        let SecondSet { set, title, maps } = second;
        let layers = Arc::new(MapLayers::new(maps, set.len(), None)?);
        let classes = ClassSource::of_columns(&set.columns)?;
        let state = ServedSet::new(set, false, classes)?;
        let ours: HashSet<&str> = served.ids.iter().map(String::as_str).collect();
        let shared_ids =
            state.ids.iter().map(String::as_str).filter(|id| ours.contains(id)).collect::<HashSet<_>>().len();
        let links = links((&served.ids, &served.modality), (&state.ids, &state.modality));
        if links.is_empty() {
            let first = |ids: &[String]| ids.first().map_or_else(|| "no rows".to_owned(), |id| format!("`{id}`"));
            let found = match shared_ids {
                0 => format!(
                    "no id of the served set (it begins with {}, the served set with {})",
                    first(&state.ids),
                    first(&served.ids)
                ),
                count => format!(
                    "{count} ids of the served set, but only at rows of another kind (photo, text, box, phrase)"
                ),
            };
            return Err(Error::invalid(
                format!("--beside {title}"),
                found,
                "a set of the same items, with the same ids",
            ));
        }
        let explorer = Explorer::new(&state, layers)?;
        Ok(BesideSet { title, state, explorer, links, shared_ids })
    }
}

/// Pairs of rows with the same id and kind. If several rows of a set have them, the first is linked to the first of the
/// other set, the second to the second, and so on.
fn links(ours: (&[String], &[Modality]), theirs: (&[String], &[Modality])) -> Vec<[u32; 2]> {
    let mut rows_of: HashMap<(&str, Modality), Vec<u32>> = HashMap::new();
    // An index has fewer than 2^32 rows.
    for (row, (id, kind)) in (0_u32..).zip(theirs.0.iter().zip(theirs.1)) {
        rows_of.entry((id, *kind)).or_default().push(row);
    }
    rows_of.values_mut().for_each(|rows| rows.reverse());
    let all = (0_u32..).zip(ours.0.iter().zip(ours.1));
    all.filter_map(|(row, (id, kind))| Some([row, rows_of.get_mut(&(id.as_str(), *kind))?.pop()?])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_linked_by_id_and_kind_in_their_order() {
        let ids = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (i, t) = (Modality::Image, Modality::Text);
        let ours = (ids(&["a", "a", "b", "a", "c"]), [i, t, i, t, i]);
        let theirs = (ids(&["c", "a", "a", "d", "b", "a"]), [t, t, t, i, i, i]);
        assert_eq!(links((&ours.0, &ours.1), (&theirs.0, &theirs.1)), [[0, 5], [1, 1], [2, 4], [3, 2]]);
        assert_eq!(links((&ours.0, &ours.1), (&[], &[])), [[0; 2]; 0]);
    }
}
