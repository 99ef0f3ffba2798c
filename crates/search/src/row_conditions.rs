//! Row filters of a command line or request, resolved to row numbers of an index.

use std::collections::BTreeMap;

use anyhow::Context as _;
use conifer_embeddings::Modality;
use conifer_index::{Cone, Filter, FlatIndex, Query as Points};

/// Name of the column with the class of a row.
pub(crate) const LABEL: &str = "label";

/// Filters with their texts and ids already resolved to points. A row must pass all filters that are set.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowConditions {
    pub(crate) modality: Option<Vec<Modality>>,
    /// Accepted values by column name.
    pub(crate) columns: BTreeMap<String, Vec<String>>,
    /// Smallest and largest accepted depth.
    pub(crate) depth: Option<[f32; 2]>,
    /// Points whose cones must contain the row.
    pub(crate) inside: Vec<Vec<f32>>,
    /// Points whose cones must not contain the row.
    pub(crate) not: Vec<Vec<f32>>,
}

impl RowConditions {
    /// The rows that pass these filters and `more`, or `None` if no filter is set. `columns` are the columns of the
    /// rows.
    ///
    /// # Errors
    /// An unknown column; points that are not in the space.
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
        all.extend(self.depth.map(|[min, max]| Filter::Depth(min, max)));
        all.extend(self.inside.iter().map(|it| cone(it)));
        all.extend(excluded.iter().map(Filter::Not));
        all.extend(more);
        Ok(if all.is_empty() { None } else { Some(index.passing(&Filter::And(&all))?) })
    }
}
