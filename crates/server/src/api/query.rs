//! Resolves queries to points, and filters to row selections.

use conifer_embeddings::Modality;
use conifer_geometry::slices::dot;
use conifer_index::{Filter, Query as Points, conjunction};
use conifer_model::head::Tower;
use conifer_search::RowConditions;

use crate::Server;
use crate::api::requests::{MAX_CHARACTERS, POINT_QUERY, PointQuery, RowFilter};
use crate::error::{HttpError, HttpResult};
use crate::set::state::ServedSet;

/// Maximum number of points of one request, including those of its filters.
const MAX_POINTS: usize = 32;
/// Maximum number of values of a filter, over all its columns.
const MAX_VALUES: usize = 1000;
/// Maximum norm of a point from a client. With it, `sqrt(c) |x|` stays below `conifer_geometry::safe::FARTHEST` for
/// every allowed curvature.
const MAX_NORM: f32 = 1e4;
/// [`RowFilter`] with its queries resolved to points.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResolvedFilter {
    conditions: RowConditions,
    subtree: Option<String>,
}

/// The rows that pass a filter.
pub(crate) enum PassingRows {
    All(usize),
    /// In ascending order.
    Rows(Vec<usize>),
}

impl PointQuery {
    /// Checks that exactly one field is set and that its limits hold. Returns the number of points.
    pub(crate) fn check(&self) -> HttpResult<usize> {
        let given = [
            self.text.is_some(),
            self.photo.is_some(),
            self.row.is_some(),
            self.id.is_some(),
            self.point.is_some(),
            self.image_vector.is_some(),
            self.text_vector.is_some(),
            self.all.is_some(),
        ];
        if given.iter().filter(|it| **it).count() != 1 {
            return Err(HttpError::invalid(format!("a query must be {POINT_QUERY}")));
        }
        if let Some(text) = &self.text
            && text.chars().count() > MAX_CHARACTERS
        {
            return Err(HttpError::invalid(format!("a text is longer than the limit of {MAX_CHARACTERS} characters")));
        }
        let Some(parts) = &self.all else { return Ok(1) };
        if !(2..=8).contains(&parts.len()) {
            return Err(HttpError::invalid(format!("`all` has {} items; expected 2 to 8 queries", parts.len())));
        }
        if parts.iter().any(|it| it.all.is_some()) {
            return Err(HttpError::invalid(
                "`all` is nested within another `all`; expected a text, photo, row, id, point or vector",
            ));
        }
        parts.iter().map(PointQuery::check).sum()
    }

    /// Resolves the query to a point.
    pub(crate) async fn point(&self, server: &Server) -> HttpResult<Vec<f32>> {
        let state = &server.state;
        let Some(parts) = &self.all else { return self.single(server).await };
        let mut points = Vec::with_capacity(parts.len() * state.spec().dim);
        for it in parts {
            points.extend(it.single(server).await?);
        }
        Ok(conjunction(&Points::new(state.spec(), &points))?)
    }

    async fn single(&self, server: &Server) -> HttpResult<Vec<f32>> {
        let state = &server.state;
        if let Some(text) = &self.text {
            return server.text_point(text).await;
        }
        if let Some(token) = &self.photo {
            return server.photos.point(token).ok_or_else(|| {
                HttpError::absent(format!("no photo has the token `{token}`; tokens expire, so upload the photo again"))
            });
        }
        if let Some(row) = self.row {
            state.check_row(row)?;
            return Ok(state.flat.row(row).into_owned());
        }
        if let Some(id) = &self.id {
            let row = state.rows_of(id).next();
            let row = row.ok_or_else(|| HttpError::absent(format!("no row has the id `{id}`")))?;
            return Ok(state.flat.row(row).into_owned());
        }
        for (name, tower, vector) in
            [("image_vector", Tower::Image, &self.image_vector), ("text_vector", Tower::Text, &self.text_vector)]
        {
            if let Some(vector) = vector {
                return server.vector_point(name, tower, vector).await;
            }
        }
        let point = self.point.clone().unwrap_or_default();
        check_numbers("point", &point, state.spec().dim, "`dim`")?;
        let norm = dot(&point, &point).sqrt();
        if norm > MAX_NORM {
            return Err(HttpError::invalid(format!("`point` has norm {norm}; expected at most {MAX_NORM}")));
        }
        Ok(point)
    }
}

/// Checks the length of a list of numbers. `what` describes the expected length.
pub(crate) fn check_numbers(name: &str, values: &[f32], expected: usize, what: &str) -> HttpResult<()> {
    if values.len() != expected {
        let message = format!("`{name}` is a list of {}; expected {what} = {expected} numbers", values.len());
        return Err(HttpError::invalid(message));
    }
    Ok(())
}

impl RowFilter<'_> {
    /// Checks the limits of the filter. `other_points` is the number of points in the rest of the request.
    pub(crate) fn check(&self, other_points: usize) -> HttpResult<()> {
        let queries = self.inside.into_iter().chain(self.not);
        let points = queries.map(PointQuery::check).sum::<HttpResult<usize>>()? + other_points;
        if points > MAX_POINTS {
            return Err(HttpError::invalid(format!("the request has {points} points; expected at most {MAX_POINTS}")));
        }
        let values: usize = self.columns.into_iter().flatten().map(|(_, values)| values.len()).sum();
        if values > MAX_VALUES {
            return Err(HttpError::invalid(format!(
                "`columns` has {values} values; expected at most {MAX_VALUES} in all"
            )));
        }
        if let Some([min, max]) = self.depth
            && min > max
        {
            return Err(HttpError::invalid(format!("`depth` is [{min}, {max}]; expected the smaller one first")));
        }
        Ok(())
    }

    /// Resolves all queries of the filter to points.
    pub(crate) async fn resolve(self, server: &Server) -> HttpResult<ResolvedFilter> {
        let (mut inside, mut not) = (Vec::new(), Vec::new());
        if let Some(it) = self.inside {
            inside.push(it.point(server).await?);
        }
        for it in self.not {
            not.push(it.point(server).await?);
        }
        let modality = self.modality.map(|names| {
            let mut modality: Vec<Modality> = names.iter().map(|it| (*it).into()).collect();
            modality.sort_unstable();
            modality.dedup();
            modality
        });
        let columns = self.columns.cloned().unwrap_or_default();
        let conditions = RowConditions { modality, columns, depth: self.depth, inside, not };
        Ok(ResolvedFilter { conditions, subtree: self.subtree.map(str::to_owned) })
    }
}

impl ResolvedFilter {
    /// Selects the rows that pass the filter.
    pub(crate) fn passing(&self, state: &ServedSet) -> HttpResult<PassingRows> {
        let below = self.subtree.as_deref().map(|name| state.subtree(name)).transpose()?;
        let is_below = |row: usize| below.as_ref().is_some_and(|below| below.contains(row));
        let subtree = below.is_some().then_some(Filter::Rows(&is_below));
        let rows = self.conditions.rows(&state.flat, &state.columns, subtree);
        let rows = rows.map_err(|error| HttpError::invalid(error.to_string()))?;
        Ok(rows.map_or(PassingRows::All(state.len()), PassingRows::Rows))
    }
}

impl PassingRows {
    pub(crate) fn len(&self) -> usize {
        match self {
            PassingRows::All(rows) => *rows,
            PassingRows::Rows(rows) => rows.len(),
        }
    }

    pub(crate) fn contains(&self, row: usize) -> bool {
        match self {
            PassingRows::All(rows) => row < *rows,
            PassingRows::Rows(rows) => rows.binary_search(&row).is_ok(),
        }
    }

    pub(crate) fn filter(&self) -> Filter<'_> {
        match self {
            PassingRows::All(_) => Filter::All,
            PassingRows::Rows(rows) => Filter::Set(rows),
        }
    }
}
