//! A taxonomy built from paths, and sampling of negative taxa for contrastive training.
//!
//! Unlike a node of a [`Tree`](super::Tree), a taxon is identified by its whole path: two genera of different kingdoms
//! may have the same name.

use std::collections::HashMap;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// All taxa of a data set. Ranks are numbered from 0, which is the most general rank below the root.
///
/// An empty name in a path marks a missing rank, so that the names below it keep their ranks. Such an unnamed taxon may
/// be the same as any of its siblings, so it is never drawn as a negative.
#[derive(Clone, Debug, Default)]
pub struct Taxonomy {
    /// Each distinct name once.
    names: Vec<String>,
    /// All taxa; the first is the root.
    taxa: Vec<Taxon>,
    /// (parent, name) -> child.
    below: HashMap<(u32, u32), u32>,
    /// Name -> index in `names`.
    numbers: HashMap<String, u32>,
    /// Taxa of each rank, without unnamed taxa.
    ranks: Vec<Vec<u32>>,
    /// True if a rank is missing in a path.
    has_gaps: bool,
}

#[derive(Clone, Debug, Default)]
struct Taxon {
    name: u32,
    parent: u32,
    children: Vec<u32>,
}

/// Identifies a taxon of the taxonomy that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaxonId(u32);

const ROOT: u32 = 0;

impl Taxonomy {
    /// Builds a taxonomy from paths, general to specific. Paths may repeat and may end at any rank.
    pub fn new<P: AsRef<[String]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut it = Self { taxa: vec![Taxon::default()], ..Self::default() };
        for path in paths {
            let mut here = ROOT;
            for (rank, name) in path.as_ref().iter().enumerate() {
                here = it.enter(here, rank, name);
            }
        }
        it
    }

    /// Number of taxa with a name, without the root.
    pub fn len(&self) -> usize {
        self.ranks.iter().map(Vec::len).sum()
    }

    /// Returns true if no taxon has a name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The taxon at the end of a path; `None` if the path is empty or not in the taxonomy.
    pub fn find(&self, path: &[String]) -> Option<TaxonId> {
        let mut here = ROOT;
        for name in path {
            here = *self.below.get(&(here, *self.numbers.get(name)?))?;
        }
        (here != ROOT).then_some(TaxonId(here))
    }

    /// The names on the path to a taxon, general to specific, without missing ranks.
    pub fn path(&self, taxon: TaxonId) -> Vec<&str> {
        let name = |id: &u32| self.names[self.taxa[*id as usize].name as usize].as_str();
        self.line(taxon).iter().map(name).filter(|name| !name.is_empty()).collect()
    }

    /// Samples a wrong taxon of rank `rank` that is as close as possible to `own`: a sibling of the ancestor of `own`
    /// at that rank. If that ancestor has no sibling, the result is below a sibling of the nearest higher ancestor that
    /// has a sibling (RCME Sec. 4.3). `None` if `own` does not reach that rank, or if no other taxon of the rank is
    /// certainly different (a taxon without a name may be the same as its sibling).
    pub fn hard_negative(&self, own: TaxonId, rank: usize, rng: &mut impl Rng) -> Option<TaxonId> {
        let line = self.line(own);
        self.nearest(&line, (0..=rank).rev(), rank, rng)
    }

    /// Samples a wrong taxon of rank `rank` whose parent is a sibling of the parent of `own` at that rank (RCME Sec.
    /// 4.3, second and third sentence). If the parent has no sibling with children, the result is a descendant of a
    /// sibling of the nearest ancestor that has such a sibling. If no ancestor has such a sibling, the result is a
    /// sibling of `own`. `None` in the cases of [`Taxonomy::hard_negative`].
    pub fn cousin_negative(&self, own: TaxonId, rank: usize, rng: &mut impl Rng) -> Option<TaxonId> {
        let line = self.line(own);
        self.nearest(&line, (0..rank).rev().chain([rank]), rank, rng)
    }

    /// Samples a taxon of rank `rank` that is, or is below, a sibling of `line[level]`, for the first of `levels` at
    /// which such a taxon exists. `None` if there is no such level, or `line` does not reach the rank.
    fn nearest(
        &self,
        line: &[u32],
        levels: impl Iterator<Item = usize>,
        rank: usize,
        rng: &mut impl Rng,
    ) -> Option<TaxonId> {
        line.get(rank)?;
        for level in levels {
            let own = line[level];
            let siblings = &self.taxa[self.taxa[own as usize].parent as usize].children;
            // Skip a taxon without a name, because it may be the same as one of its siblings.
            if siblings.len() > 1
                && !self.is_unnamed(own)
                && let Some(found) = self.pick(siblings, Some(own), rank - level, rng)
            {
                return Some(TaxonId(found));
            }
        }
        None
    }

    /// Samples a taxon of rank `rank` uniformly from the taxa that are certainly not the taxon `own`. Taxa that may be
    /// equal to `own`, because ranks are missing, are excluded. `None` if `own` does not reach the rank, or if no taxon
    /// is left.
    pub fn random_negative(&self, own: TaxonId, rank: usize, rng: &mut impl Rng) -> Option<TaxonId> {
        let own = *self.line(own).get(rank)?;
        let all = self.ranks.get(rank).filter(|all| all.len() > 1)?;
        if self.has_gaps {
            // A few draws usually succeed, and comparing all taxa of the rank is slow.
            const DRAWS: usize = 16;
            for _ in 0..DRAWS {
                let other = *all.choose(rng)?;
                if !self.may_be_same(own, other) {
                    return Some(TaxonId(other));
                }
            }
            let others: Vec<u32> = all.iter().copied().filter(|&other| !self.may_be_same(own, other)).collect();
            return others.choose(rng).map(|&other| TaxonId(other));
        }
        loop {
            let other = *all.choose(rng)?;
            if other != own {
                return Some(TaxonId(other));
            }
        }
    }

    fn is_unnamed(&self, taxon: u32) -> bool {
        self.names[self.taxa[taxon as usize].name as usize].is_empty()
    }

    /// True if two taxa of one rank have the same name at every rank that has a name in both paths.
    fn may_be_same(&self, mut a: u32, mut b: u32) -> bool {
        while a != b {
            let [left, right] = [a, b].map(|taxon| &self.taxa[taxon as usize]);
            if left.name != right.name && !self.is_unnamed(a) && !self.is_unnamed(b) {
                return false;
            }
            (a, b) = (left.parent, right.parent);
        }
        true
    }

    /// The taxon and its ancestors, the most general first.
    fn line(&self, TaxonId(mut taxon): TaxonId) -> Vec<u32> {
        let mut line = Vec::with_capacity(self.ranks.len());
        while taxon != ROOT {
            line.push(taxon);
            taxon = self.taxa[taxon as usize].parent;
        }
        line.reverse();
        line
    }

    fn enter(&mut self, parent: u32, rank: usize, name: &str) -> u32 {
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None => {
                let number = self.names.len() as u32;
                self.names.push(name.to_owned());
                self.numbers.insert(name.to_owned(), number);
                number
            }
        };
        let next = self.taxa.len() as u32;
        let taxon = *self.below.entry((parent, number)).or_insert(next);
        if taxon == next {
            self.taxa.push(Taxon { name: number, parent, children: Vec::new() });
            self.taxa[parent as usize].children.push(taxon);
            if self.ranks.len() <= rank {
                self.ranks.resize(rank + 1, Vec::new());
            }
            match name.is_empty() {
                true => self.has_gaps = true,
                false => self.ranks[rank].push(taxon),
            }
        }
        taxon
    }

    /// Samples a taxon `levels` ranks below a member of `from`; if `levels` is 0, a member itself. `except` is a member
    /// of `from` that is excluded, together with all taxa below it. A member without a name is excluded at `levels` 0,
    /// and always if `except` is given, because it may be the same taxon. `None` if there is no such taxon.
    fn pick(&self, from: &[u32], except: Option<u32>, levels: usize, rng: &mut impl Rng) -> Option<u32> {
        // Try a few draws first, because they usually succeed and avoid copying a long list of siblings.
        const DRAWS: usize = 4;
        let good = |taxon: u32, rng: &mut _| match levels {
            _ if Some(taxon) == except => None,
            _ if self.is_unnamed(taxon) && (levels == 0 || except.is_some()) => None,
            0 => Some(taxon),
            _ => self.pick(&self.taxa[taxon as usize].children, None, levels - 1, rng),
        };
        for _ in 0..DRAWS {
            if let Some(found) = good(*from.choose(rng)?, rng) {
                return Some(found);
            }
        }
        let mut rest = from.to_vec();
        while !rest.is_empty() {
            let taxon = rest.swap_remove(rng.random_range(0..rest.len()));
            if let Some(found) = good(taxon, rng) {
                return Some(found);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    /// Two kingdoms. "x" is a genus name in both. One path ends early.
    fn taxonomy() -> Taxonomy {
        Taxonomy::new(["A m x 1", "A m x 2", "A m y 3", "A n z 4", "B o x 5", "B p", "A m x 1"].map(path))
    }

    /// The set of results of many draws.
    fn all(draw: impl Fn(&mut ChaCha8Rng) -> Option<String>) -> BTreeSet<String> {
        (0..200).filter_map(|seed| draw(&mut ChaCha8Rng::seed_from_u64(seed))).collect()
    }

    #[test]
    fn hard_negatives_are_siblings_or_nearest_taxa() {
        let taxonomy = taxonomy();
        assert_eq!(taxonomy.len(), 2 + 4 + 4 + 5);
        let hard = |from: &str, rank: usize| {
            all(|rng| {
                let found = taxonomy.hard_negative(taxonomy.find(&path(from))?, rank, rng)?;
                Some(taxonomy.path(found).join(" "))
            })
        };
        let set = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(hard("A m x 1", 3), set(&["A m x 2"]));
        assert_eq!(hard("A m x 1", 2), set(&["A m y"]));
        assert_eq!(hard("A m x 1", 1), set(&["A n"]));
        assert_eq!(hard("A m x 1", 0), set(&["B"]));
        // "A m y 3" has no sibling, so the result is below a sibling of its parent.
        assert_eq!(hard("A m y 3", 3), set(&["A m x 1", "A m x 2"]));
        assert_eq!(hard("A n z 4", 3), set(&["A m x 1", "A m x 2", "A m y 3"]));
        // The sibling "B p" ends too early, so the result comes from the other kingdom.
        assert_eq!(hard("B o x 5", 3), set(&["A m x 1", "A m x 2", "A m y 3", "A n z 4"]));
        // No negative exists for an unknown taxon, for a taxon that does not reach the rank, or in a taxonomy with one
        // taxon per rank.
        assert!(hard("A q", 1).is_empty() && hard("A m", 3).is_empty());
        let alone = Taxonomy::new([path("A m")]);
        let own = alone.find(&path("A m")).unwrap();
        assert!(alone.hard_negative(own, 1, &mut ChaCha8Rng::seed_from_u64(0)).is_none());
        assert!(Taxonomy::default().is_empty());
    }

    #[test]
    fn cousins_have_another_parent() {
        let taxonomy = taxonomy();
        let cousins = |from: &str, rank: usize| {
            all(|rng| {
                let found = taxonomy.cousin_negative(taxonomy.find(&path(from))?, rank, rng)?;
                Some(taxonomy.path(found).join(" "))
            })
        };
        let set = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
        // "A m x" has the sibling "A m y", "A m" has the sibling "A n", and "A" has the sibling "B".
        assert_eq!(cousins("A m x 1", 3), set(&["A m y 3"]));
        assert_eq!(cousins("A m x 1", 2), set(&["A n z"]));
        assert_eq!(cousins("A m x 1", 1), set(&["B o", "B p"]));
        // A kingdom has no parent, so one of its siblings is drawn.
        assert_eq!(cousins("A m x 1", 0), set(&["B"]));
        // "A n z" has no sibling, so the result is below a sibling of "A n".
        assert_eq!(cousins("A n z 4", 3), set(&["A m x 1", "A m x 2", "A m y 3"]));
        assert!(cousins("A m", 3).is_empty());
        // The taxonomy branches only at the last rank, so a sibling is drawn.
        let line = Taxonomy::new(["A m 1", "A m 2"].map(path));
        let own = line.find(&path("A m 1")).unwrap();
        let found = line.cousin_negative(own, 2, &mut ChaCha8Rng::seed_from_u64(0)).unwrap();
        assert_eq!(line.path(found), ["A", "m", "2"]);
    }

    #[test]
    fn missing_ranks_are_never_negatives() {
        // "-" is a missing rank. Class "x" occurs in phylum "m" and without a phylum.
        let gaps = |text: &str| path(&text.replace('-', ""));
        let taxonomy = Taxonomy::new(["A m x 1", "A n y 2", "A - x 3", "A - z 4", "B o w 5"].map(gaps));
        assert_eq!(taxonomy.len(), 2 + 3 + 5 + 5);
        let set = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
        type Draw = fn(&Taxonomy, TaxonId, usize, &mut ChaCha8Rng) -> Option<TaxonId>;
        let found = |from: &str, rank: usize, draw: Draw| {
            all(|rng| {
                let found = draw(&taxonomy, taxonomy.find(&gaps(from))?, rank, rng)?;
                Some(taxonomy.path(found).join(" "))
            })
        };
        let hard: Draw = |it, own, rank, rng| it.hard_negative(own, rank, rng);
        let random: Draw = |it, own, rank, rng| it.random_negative(own, rank, rng);
        // `path` omits missing ranks.
        assert_eq!(found("A m x 1", 1, hard), set(&["A n"]));
        // "x" is alone in "m". Below the missing phylum there may be the same "x", so only "n" is searched.
        assert_eq!(found("A m x 1", 2, hard), set(&["A n y"]));
        assert_eq!(found("A - x 3", 2, hard), set(&["A z"]));
        // "x" without a phylum has one species. Its class has a sibling.
        assert_eq!(found("A - x 3", 3, hard), set(&["A z 4"]));
        assert_eq!(found("A - z 4", 0, hard), set(&["B"]));
        // "A x" may be "A m x", and "A z" is another class.
        assert_eq!(found("A m x 1", 2, random), set(&["A n y", "A z", "B o w"]));
        // The missing phylum may be "m" or "n".
        assert_eq!(found("A - x 3", 1, random), set(&["B o"]));
    }

    #[test]
    fn random_negatives_have_the_same_rank() {
        let taxonomy = taxonomy();
        let own = taxonomy.find(&path("A m x 1")).unwrap();
        let found = all(|rng| Some(taxonomy.path(taxonomy.random_negative(own, 2, rng)?).join(" ")));
        assert_eq!(found, ["A m y", "A n z", "B o x"].map(str::to_owned).into());
    }
}
