//! Runs a stage that processes each row independently.

use std::sync::atomic::Ordering;

use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DropCause, Pipeline, Stage, StageReport, WorkFolder};
use crate::{Error, Result};

/// Number of rows that the rules process between two checks of the stop flag.
const RULE_ROWS: usize = 4096;
/// Number of rows per connection between two checks of the stop flag with a model, which is slower than the rules.
const REQUESTS: usize = 4;

/// A row, or why it was dropped with an example text.
pub(super) type Treated<O> = Result<std::result::Result<O, (DropCause, String)>>;

impl Pipeline<'_> {
    /// Processes every row of the file of `from`, and writes the results to the file of `to` in the same order.
    pub(super) fn for_rows<I, O>(
        &self,
        from: Stage,
        to: Stage,
        work: &WorkFolder,
        treat: impl Fn(I) -> Treated<O> + Sync,
    ) -> Result<StageReport>
    where
        I: DeserializeOwned + Send,
        O: Serialize + Send,
    {
        self.for_items(work.rows(from)?, None, to, work, treat)
    }

    /// Processes items until `enough` rows are written or no item is left.
    pub(super) fn for_items<I: Send, O: Serialize + Send>(
        &self,
        items: impl Iterator<Item = Result<I>>,
        enough: Option<u64>,
        to: Stage,
        work: &WorkFolder,
        treat: impl Fn(I) -> Treated<O> + Sync,
    ) -> Result<StageReport> {
        let threads = self.models.llm.as_ref().map_or(0, |llm| llm.concurrency());
        let size = if threads == 0 { RULE_ROWS } else { threads * REQUESTS };
        let fault = |error: rayon::ThreadPoolBuildError| Error::invalid("threads", error.to_string(), "free threads");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(fault)?;
        let report = StageReport::new(to, self.maker());
        self.for_chunks(items, enough, report, work, size, |chunk| {
            pool.install(|| chunk.into_par_iter().map(&treat).collect::<Result<Vec<_>>>())
        })
    }

    /// Like [`Pipeline::for_items`], for `treat_chunk`, which processes `size` items at a time. `report` names the
    /// stage.
    pub(super) fn for_chunks<I, O: Serialize>(
        &self,
        mut items: impl Iterator<Item = Result<I>>,
        enough: Option<u64>,
        mut report: StageReport,
        work: &WorkFolder,
        size: usize,
        treat_chunk: impl Fn(Vec<I>) -> Result<Vec<std::result::Result<O, (DropCause, String)>>>,
    ) -> Result<StageReport> {
        let mut file = work.create(report.stage)?;
        let is_enough = |report: &StageReport| enough.is_some_and(|enough| report.left >= enough);
        while !is_enough(&report) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let chunk = items.by_ref().take(size).collect::<Result<Vec<I>>>()?;
            if chunk.is_empty() {
                break;
            }
            for row in treat_chunk(chunk)? {
                if is_enough(&report) {
                    break;
                }
                report.entered += 1;
                match row {
                    Ok(row) => {
                        file.write(&row)?;
                        report.left += 1;
                    }
                    Err((cause, example)) => report.drop(cause, &example),
                }
            }
        }
        file.finish()?;
        Ok(report)
    }
}
