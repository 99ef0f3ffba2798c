//! What a command line or a request says of the rows that may be found, as rows of an index.

use std::collections::BTreeMap;

use anyhow::Context as _;
use conifer_index::{Cone, Filter, FlatIndex, Query as Points};
use conifer_space::Modality;

/// The column of classes.
pub(crate) const LABEL: &str = "label";

/// Which rows may be found, with points in place of what names them. Every field that says something must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) modality: Option<Vec<Modality>>,
    /// Values by column; those of one column are alternatives.
    pub(crate) columns: BTreeMap<String, Vec<String>>,
    /// The least and the largest depth.
    pub(crate) depth: Option<[f32; 2]>,
    /// Points in whose cones rows must lie.
    pub(crate) inside: Vec<Vec<f32>>,
    /// Points in whose cones they must not.
    pub(crate) not: Vec<Vec<f32>>,
}

impl Limits {
    /// The rows that pass, of which the `columns` are known, and `more`; nothing where every row does.
    ///
    /// # Errors
    /// A column that is not there; points that are none of the space.
    pub(crate) fn rows(
        &self,
        index: &FlatIndex,
        columns: &BTreeMap<String, Vec<String>>,
        more: Option<Filter<'_>>,
    ) -> anyhow::Result<Option<Vec<usize>>> {
        let cone = |point| Filter::Inside(Points::new(index.spec(), point), Cone::default());
        let excluded: Vec<Filter<'_>> = self.not.iter().map(|it| cone(it)).collect();
        let column = |name: &String| {
            columns.get(name).with_context(|| {
                let known: Vec<&str> = columns.keys().map(String::as_str).collect();
                format!("no column is called `{name}`; expected one of: {}", known.join(", "))
            })
        };
        let of_columns: Vec<(&[String], Vec<&str>)> = (self.columns.iter())
            .map(|(name, wanted)| Ok((column(name)?.as_slice(), wanted.iter().map(String::as_str).collect())))
            .collect::<anyhow::Result<_>>()?;

        let mut all: Vec<Filter<'_>> = Vec::new();
        all.extend(self.modality.iter().map(|it| Filter::Modality(it)));
        all.extend(of_columns.iter().map(|(column, wanted)| Filter::Column { column, wanted }));
        all.extend(self.depth.map(|[least, most]| Filter::Depth(least, most)));
        all.extend(self.inside.iter().map(|it| cone(it)));
        all.extend(excluded.iter().map(Filter::Not));
        all.extend(more);
        Ok(if all.is_empty() { None } else { Some(index.passing(&Filter::And(&all))?) })
    }
}
