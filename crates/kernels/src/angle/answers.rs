//! Which cells of a table are right answers.

/// Who asks whom among some points: the wholes, the parts, and the few cells of their table that are not like the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    wholes: Vec<u32>,
    parts: Vec<u32>,
    positive: Vec<[u32; 2]>,
    same: Vec<[u32; 2]>,
}

impl Answers {
    /// The points `wholes` are the rows of a table, the points `parts` its columns. The parts of a whole are the cells `positive`, and a thing
    /// meets itself in the cells `same`; cells in any order, each as often as you like.
    ///
    /// # Panics
    /// Where a cell is outside of the table.
    pub fn new(wholes: Vec<u32>, parts: Vec<u32>, positive: Vec<[u32; 2]>, same: Vec<[u32; 2]>) -> Self {
        let shape = [wholes.len(), parts.len()];
        let listed = |mut cells: Vec<[u32; 2]>| {
            cells.sort_unstable();
            cells.dedup();
            let inside = |&[row, column]: &[u32; 2]| (row as usize) < shape[0] && (column as usize) < shape[1];
            assert!(cells.iter().all(inside), "a cell outside of a table {shape:?}");
            cells
        };
        Answers { wholes, parts, positive: listed(positive), same: listed(same) }
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.wholes.len(), self.parts.len()]
    }

    /// Which points are the rows of the table.
    pub fn wholes(&self) -> &[u32] {
        &self.wholes
    }

    /// Which points are its columns.
    pub fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// Cells of right answers, row after row.
    pub fn positive(&self) -> &[[u32; 2]] {
        &self.positive
    }

    /// Cells in which a thing meets itself, row after row.
    pub fn same(&self) -> &[[u32; 2]] {
        &self.same
    }
}

/// Where the cells of some rows stand in a list.
pub(super) fn of_rows(cells: &[[u32; 2]], rows: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let from = |row: usize| cells.partition_point(|cell| (cell[0] as usize) < row);
    from(rows.start)..from(rows.end)
}
