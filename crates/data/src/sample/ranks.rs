//! Ranks of a taxonomy for which a sample has no name.

use serde::{Deserialize, Serialize};

use super::Sample;

/// A rank of the taxonomy for which a sample has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingRank {
    /// Position among all ranks; 0 is the most general.
    pub position: usize,
    /// Name of the rank, for example "phylum".
    pub name: String,
}

impl MissingRank {
    /// Returns the ranks whose entry in `names` is empty. `names` has one entry per rank, general to specific. `ranks`
    /// are the names of the ranks; a rank beyond them is named `rank N`, with N counted from 1.
    pub fn of_names<R: AsRef<str>>(names: &[String], ranks: &[R]) -> Vec<Self> {
        let empty = (0..names.len()).filter(|&position| names[position].trim().is_empty());
        let name = |position: usize| match ranks.get(position) {
            Some(rank) => rank.as_ref().to_owned(),
            None => format!("rank {}", position + 1),
        };
        empty.map(|position| Self { position, name: name(position) }).collect()
    }
}

impl Sample {
    /// The position of each name of the taxon among all ranks; 0 is the most general.
    pub fn taxon_positions(&self) -> Vec<usize> {
        let all = 0..self.taxon.len() + self.missing_ranks.len();
        all.filter(|position| self.missing_ranks.iter().all(|it| it.position != *position)).collect()
    }

    /// The names of the taxon by the position of their rank, up to the last rank with a name. A missing rank gives an
    /// empty name.
    pub fn ranked_taxon(&self) -> Vec<String> {
        let positions = self.taxon_positions();
        let mut names = vec![String::new(); positions.last().map_or(0, |last| last + 1)];
        for (position, name) in positions.into_iter().zip(&self.taxon) {
            names[position].clone_from(name);
        }
        names
    }

    /// `Err` if the positions of the missing ranks are not ascending, or exceed the number of ranks.
    pub(super) fn check_missing_ranks(&self) -> Result<(), String> {
        let ranks = self.taxon.len() + self.missing_ranks.len();
        let positions: Vec<usize> = self.missing_ranks.iter().map(|it| it.position).collect();
        if positions.is_sorted_by(|a, b| a < b) && positions.last().is_none_or(|last| *last < ranks) {
            return Ok(());
        }
        let expected = format!("ascending positions below {ranks}, the number of names and missing ranks");
        Err(format!("missing_ranks has the positions {positions:?}; expected {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(names: [&str; 4]) -> Sample {
        let names = names.map(str::to_owned);
        let missing_ranks = MissingRank::of_names(&names, &["kingdom", "phylum", "class"]);
        let taxon = names.into_iter().filter(|name| !name.is_empty()).collect();
        Sample { taxon, missing_ranks, ..Sample::default() }
    }

    #[test]
    fn names_keep_the_position_of_their_rank() {
        let gap = sample(["Animalia", "", "Insecta", ""]);
        let missing: Vec<_> = gap.missing_ranks.iter().map(|it| (it.position, &*it.name)).collect();
        assert_eq!(missing, [(1, "phylum"), (3, "rank 4")]);
        assert_eq!(gap.taxon_positions(), [0, 2]);
        assert_eq!(gap.ranked_taxon(), ["Animalia", "", "Insecta"]);
        assert_eq!(gap.taxon_texts(), ["Animalia", "Animalia Insecta"]);
        assert_eq!(gap.check(), Ok(()));
        let complete = sample(["a", "b", "c", "d"]);
        assert_eq!((complete.ranked_taxon(), complete.missing_ranks.len()), (complete.taxon.clone(), 0));
        assert!(sample(["", "", "", ""]).ranked_taxon().is_empty());
    }

    #[test]
    fn impossible_positions_are_rejected() {
        let mut wrong = sample(["Animalia", "", "Insecta", ""]);
        wrong.missing_ranks[1].position = 4;
        let expected = "missing_ranks has the positions [1, 4]; expected ascending positions below 4, the number of names and missing ranks";
        assert_eq!(wrong.check_missing_ranks(), Err(expected.to_owned()));
        wrong.missing_ranks[1].position = 1;
        assert!(wrong.check().is_err());
    }
}
