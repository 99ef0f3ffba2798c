//! Filters: which rows a search may return.

use conifer_embeddings::Modality;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::query::Query;
use crate::table::SearchTable;
use crate::traverse::Cone;

/// Selects the rows that a search may return. [`Filter::And`], [`Filter::Or`] and [`Filter::Not`] combine filters.
///
/// A filter is invalid for an index if a column does not have one value per row, a row of [`Filter::Set`] is out of
/// range, a depth is NaN, or the query of [`Filter::Inside`] is not exactly one point of the space.
#[derive(Clone, Copy, Default)]
pub enum Filter<'a> {
    /// Every row.
    #[default]
    All,
    /// Rows of one of these modalities.
    Modality(&'a [Modality]),
    /// Rows whose value in `column`, which has one value per row, is one of `wanted`. Example: a class, a rank or a
    /// split.
    Column {
        /// The values of all rows, [`conifer_embeddings::EmbeddingSet::columns`].
        column: &'a [String],
        /// The values to keep.
        wanted: &'a [&'a str],
    },
    /// Rows whose [`depth`](conifer_geometry::Space::depth) is between these two values, both included.
    Depth(f32, f32),
    /// Rows inside the cone of a point, with the point as their parent: `Space::cone_excess(point, row) <= 0`. The
    /// negation excludes everything below that point.
    Inside(Query<'a>, Cone),
    /// These rows, in any order. Example: a subtree of a hierarchy.
    Set(&'a [usize]),
    /// Rows for which the function returns `true`.
    Rows(&'a (dyn Fn(usize) -> bool + Sync)),
    /// Rows that pass all of these filters; every row if the list is empty.
    And(&'a [Filter<'a>]),
    /// Rows that pass at least one of these filters; no row if the list is empty.
    Or(&'a [Filter<'a>]),
    /// Rows that do not pass the filter.
    Not(&'a Filter<'a>),
}

/// One bit for every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    rows: usize,
}

const BITS: usize = u64::BITS as usize;

impl Bitmap {
    fn of(rows: usize, passes: impl Fn(usize) -> bool + Sync) -> Self {
        let word = |w: usize| {
            let rows = w * BITS..((w + 1) * BITS).min(rows);
            rows.enumerate().fold(0, |word, (bit, row)| word | u64::from(passes(row)) << bit)
        };
        Bitmap { words: (0..rows.div_ceil(BITS)).into_par_iter().with_min_len(64).map(word).collect(), rows }
    }

    fn combine(mut self, other: &Bitmap, both: impl Fn(u64, u64) -> u64) -> Self {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a = both(*a, *b));
        self
    }

    fn negated(mut self) -> Self {
        self.words.iter_mut().for_each(|word| *word = !*word);
        let last = self.rows % BITS;
        if let Some(word) = self.words.last_mut()
            && last > 0
        {
            *word &= (1 << last) - 1;
        }
        self
    }

    pub(crate) fn contains(&self, row: usize) -> bool {
        self.words[row / BITS] >> (row % BITS) & 1 == 1
    }

    /// The rows of the set bits, in order.
    pub(crate) fn rows(&self) -> Vec<u32> {
        let mut rows = Vec::with_capacity(self.words.iter().map(|word| word.count_ones() as usize).sum());
        for (w, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                rows.push((w * BITS) as u32 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        rows
    }
}

fn sorted<T: Ord + Copy>(wanted: &[T]) -> Vec<T> {
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

impl Filter<'_> {
    /// Returns the rows that pass. Row `i` of the set is row `position(i)` of the table.
    ///
    /// # Errors
    /// Fails if the length of a column is not the number of rows, if a row is out of range, if a depth is NaN, or if
    /// the query of [`Filter::Inside`] is not exactly one point of the space.
    pub(crate) fn bitmap(&self, table: &SearchTable, position: &(dyn Fn(usize) -> usize + Sync)) -> Result<Bitmap> {
        let rows = table.len();
        let all = |filters: &[Filter<'_>]| -> Result<Vec<Bitmap>> {
            filters.iter().map(|filter| filter.bitmap(table, position)).collect()
        };
        Ok(match self {
            Filter::All => Bitmap::of(rows, |_| true),
            Filter::Modality(wanted) => {
                let wanted = sorted(wanted);
                Bitmap::of(rows, |row| wanted.binary_search(&table.modality[position(row)]).is_ok())
            }
            Filter::Column { column, wanted } => {
                if column.len() != rows {
                    let found = format!("a list of {}", column.len());
                    return Err(Error::invalid("the column of a filter", found, format!("{rows}, one per row")));
                }
                let wanted = sorted(wanted);
                Bitmap::of(rows, |row| wanted.binary_search(&column[row].as_str()).is_ok())
            }
            Filter::Depth(least, most) => {
                if least.is_nan() || most.is_nan() {
                    return Err(Error::invalid("the depth of a filter", "NaN", "a number"));
                }
                let depths = table.depths();
                Bitmap::of(rows, |row| (*least..=*most).contains(&depths[position(row)]))
            }
            Filter::Inside(apex, cone) => {
                let apex = apex.single("the apex of a filter", table.space.as_ref())?;
                Bitmap::of(rows, |row| {
                    let point = table.row(position(row));
                    let (least, scale) = (cone.min_radius, cone.aperture_scale);
                    table.space.cone_excess(apex, &point, least, scale, &table.root) <= 0.0
                })
            }
            Filter::Set(set) => {
                let mut bitmap = Bitmap { words: vec![0; rows.div_ceil(BITS)], rows };
                for row in *set {
                    if *row >= rows {
                        return Err(Error::invalid("a row of a filter", row, format!("a row below {rows}")));
                    }
                    bitmap.words[row / BITS] |= 1 << (row % BITS);
                }
                bitmap
            }
            Filter::Rows(wanted) => Bitmap::of(rows, wanted),
            Filter::And(filters) => {
                all(filters)?.iter().fold(Bitmap::of(rows, |_| true), |all, one| all.combine(one, |a, b| a & b))
            }
            Filter::Or(filters) => {
                all(filters)?.iter().fold(Bitmap::of(rows, |_| false), |any, one| any.combine(one, |a, b| a | b))
            }
            Filter::Not(filter) => filter.bitmap(table, position)?.negated(),
        })
    }
}
