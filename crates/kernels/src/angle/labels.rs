//! Positive and excluded pairs of a contrastive loss between wholes and parts.

/// The rows and columns of a table of wholes and parts, and the cells that are positive or excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLabels {
    wholes: Vec<u32>,
    parts: Vec<u32>,
    positive: Vec<[u32; 2]>,
    same: Vec<[u32; 2]>,
}

impl PairLabels {
    /// Creates a table whose rows are the points with the indices `wholes` and whose columns are the points with the
    /// indices `parts`. `positive` lists the cells `[row, column]` of a whole and one of its parts. `same` lists the
    /// cells whose whole and part are the same object; the loss excludes them. Both lists may have any order and
    /// repeated cells.
    ///
    /// # Panics
    /// Panics if a cell is outside the table.
    pub fn new(wholes: Vec<u32>, parts: Vec<u32>, positive: Vec<[u32; 2]>, same: Vec<[u32; 2]>) -> Self {
        let shape = [wholes.len(), parts.len()];
        let listed = |mut cells: Vec<[u32; 2]>| {
            cells.sort_unstable();
            cells.dedup();
            let inside = |&[row, column]: &[u32; 2]| (row as usize) < shape[0] && (column as usize) < shape[1];
            assert!(cells.iter().all(inside), "a cell is outside of the table of shape {shape:?}");
            cells
        };
        PairLabels { wholes, parts, positive: listed(positive), same: listed(same) }
    }

    /// Number of rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.wholes.len(), self.parts.len()]
    }

    /// Point index of each row.
    pub fn wholes(&self) -> &[u32] {
        &self.wholes
    }

    /// Point index of each column.
    pub fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// The positive cells, in row order.
    pub fn positive(&self) -> &[[u32; 2]] {
        &self.positive
    }

    /// The excluded cells, whose whole and part are the same object, in row order.
    pub fn same(&self) -> &[[u32; 2]] {
        &self.same
    }
}

/// The range of a sorted list of cells that belongs to these rows.
pub(super) fn of_rows(cells: &[[u32; 2]], rows: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let from = |row: usize| cells.partition_point(|cell| (cell[0] as usize) < row);
    from(rows.start)..from(rows.end)
}
