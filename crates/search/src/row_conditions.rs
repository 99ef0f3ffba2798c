//! Row filters of a command line or request, resolved to row numbers of an index.

use std::collections::BTreeMap;

use conifer_embeddings::Modality;
use conifer_index::{Cone, Filter, FlatIndex, Query as Points};

use crate::error::{Error, Result};

/// Name of the column that holds the class of a row.
pub const LABEL: &str = "label";

/// Row filters, in which texts and ids are already resolved to points. A row must pass all filters that are set.
#[derive(Clone, Debug, Default)]
pub struct RowConditions {
    /// Accepted modalities.
    pub modality: Option<Vec<Modality>>,
    /// Accepted values by column name.
    pub columns: BTreeMap<String, Vec<String>>,
    /// Smallest and largest accepted depth.
    pub depth: Option<[f32; 2]>,
    /// Points whose cones must contain the row.
    pub inside: Vec<Vec<f32>>,
    /// Points whose cones must not contain the row.
    pub not: Vec<Vec<f32>>,
}

impl RowConditions {
    /// Returns the rows that pass these filters and the filter `more`, or `None` if no filter is set. `columns` are the
    /// metadata columns of the rows.
    ///
    /// # Errors
    /// A condition names an unknown column, or the index rejects a filter, such as a point outside the space.
    pub fn rows(
        &self,
        index: &FlatIndex,
        columns: &BTreeMap<String, Vec<String>>,
        more: Option<Filter<'_>>,
    ) -> Result<Option<Vec<usize>>> {
        let cone = |point| Filter::Inside(Points::new(index.spec(), point), Cone::default());
        let excluded: Vec<Filter<'_>> = self.not.iter().map(|it| cone(it)).collect();
        let column = |name: &String| {
            let unknown = || Error::UnknownColumn { name: name.clone(), known: columns.keys().cloned().collect() };
            columns.get(name).ok_or_else(unknown)
        };
        let of_columns: Vec<(&[String], Vec<&str>)> = (self.columns.iter())
            .map(|(name, wanted)| Ok((column(name)?.as_slice(), wanted.iter().map(String::as_str).collect())))
            .collect::<Result<_>>()?;

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
