use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ProfiledPhoto;
use super::fingerprint::{DuplicateGroup, duplicate_groups};

/// Photos that occur several times.
pub(super) struct PhotoDuplicates {
    pub(super) groups: Vec<DuplicateGroup>,
    /// For each group, true if its photos belong to several splits.
    pub(super) across: Vec<bool>,
    /// Maximum number of bits in which the hashes of nearly equal photos differ.
    pub(super) near: u32,
    pub(super) flat: usize,
}

impl PhotoDuplicates {
    pub(super) fn find(photos: &[ProfiledPhoto], near: u32) -> Self {
        let prints: Vec<_> = photos.iter().map(|it| it.fingerprint).collect();
        let groups = duplicate_groups(&prints, near);
        let splits = |group: &DuplicateGroup| group.photos.iter().map(|at| &photos[*at].split).collect::<BTreeSet<_>>();
        PhotoDuplicates {
            across: groups.iter().map(|it| splits(it).len() > 1).collect(),
            groups,
            near,
            flat: prints.iter().filter(|it| it.is_flat).count(),
        }
    }

    /// Number of groups that `accepts` selects, and number of photos in these groups.
    fn count(&self, accepts: impl Fn(usize, &DuplicateGroup) -> bool) -> (usize, usize) {
        let chosen = self.groups.iter().enumerate().filter(|(at, group)| accepts(*at, group));
        chosen.fold((0, 0), |(groups, photos), (_, it)| (groups + 1, photos + it.photos.len()))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let line = |what: &str, (groups, photos): (usize, usize)| format!("{photos} photos in {groups} groups {what}");
        let mut lines = vec![
            line("of equal pixels", self.count(|_, it| it.is_exact)),
            line(
                &format!("of nearly equal photos (hashes within {} bits)", self.near),
                self.count(|_, it| !it.is_exact),
            ),
            line("across splits", self.count(|at, _| self.across[at])),
        ];
        if self.flat > 0 {
            lines.push(format!("{} photos of one colour, compared by their pixels alone", self.flat));
        }
        lines
    }

    pub(super) fn json(&self, photos: &[ProfiledPhoto]) -> Value {
        let group = |(at, it): (usize, &DuplicateGroup)| {
            let photo = |at: &usize| json!({ "id": photos[*at].id, "split": photos[*at].split });
            json!({
                "exact": it.is_exact,
                "across_splits": self.across[at],
                "photos": it.photos.iter().map(photo).collect::<Vec<_>>(),
            })
        };
        let [exact, near, across] =
            [self.count(|_, it| it.is_exact), self.count(|_, it| !it.is_exact), self.count(|at, _| self.across[at])]
                .map(|(groups, photos)| json!({ "groups": groups, "photos": photos }));
        json!({
            "near_bits": self.near,
            "exact": exact,
            "near": near,
            "across_splits": across,
            "flat_photos": self.flat,
            "groups": self.groups.iter().enumerate().map(group).collect::<Vec<_>>(),
        })
    }
}
