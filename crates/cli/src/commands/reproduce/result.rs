//! The verdict on each claim, from the result files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use conifer_eval::{ClaimVerdict, Opponent, Record, SeedComparison, compare_over_seeds, decide, read_results};
use serde::Serialize;

use super::claim::{Claim, ClaimExplanation, ClaimRow, PaperNumber, TRIVIAL};
use super::execute::FailedJobs;
use super::plan::{PlannedClaim, ReproductionPlan};

/// A claim with its verdict and the data from which the verdict follows.
#[derive(Serialize)]
pub(super) struct ClaimResult {
    pub(super) name: String,
    pub(super) paper: String,
    pub(super) sentence: String,
    pub(super) place: String,
    pub(super) paper_numbers: Vec<PaperNumber>,
    pub(super) note: String,
    /// A possible reason why the claim does not hold. Absent if it holds or was not run, or if no reason is known.
    pub(super) explanation: Option<ClaimExplanation>,
    /// holds, does not hold, cannot be decided here, or not run.
    pub(super) verdict: &'static str,
    /// Reason for the verdict.
    pub(super) reason: String,
    /// The claimed run and the one that it is compared with.
    pub(super) compared: [String; 2],
    /// The number that decides the claim.
    pub(super) row: Option<ClaimRow>,
    pub(super) margin: f64,
    /// Why the trivial answer is ignored, if it is.
    pub(super) ignore_trivial: Option<String>,
    pub(super) comparison: Option<SeedComparison>,
    /// Numbers without influence on the verdict.
    pub(super) shown: Vec<ShownNumber>,
    pub(super) runs: Vec<RunOrigin>,
}

/// A number without influence on the verdict.
#[derive(Serialize)]
pub(super) struct ShownNumber {
    pub(super) row: ClaimRow,
    /// Values of the claimed run and of the other one (or the trivial answer), one pair for each seed.
    pub(super) values: Vec<[f64; 2]>,
}

/// How a run was made.
#[derive(Serialize)]
pub(super) struct RunOrigin {
    run: String,
    seed: u64,
    key: String,
    /// The training; empty for a pretrained encoder.
    train: String,
    measure: Vec<String>,
}

/// Verdict of a claim without a result.
pub(super) const NOT_RUN: &str = "not run";

impl ClaimResult {
    pub(super) fn was_run(&self) -> bool {
        self.verdict != NOT_RUN
    }

    /// The verdict, if there is one.
    pub(super) fn decision(&self) -> Option<ClaimVerdict> {
        let all = [ClaimVerdict::Holds, ClaimVerdict::DoesNotHold, ClaimVerdict::Undecided];
        all.into_iter().find(|it| it.name() == self.verdict)
    }
}

/// The results of all claims of the plan.
pub(super) fn results(plan: &ReproductionPlan, failed: &FailedJobs, seeds: u64) -> Vec<ClaimResult> {
    let mut files = ResultFiles::default();
    plan.claims.iter().map(|planned| result(planned, plan, failed, &mut files, seeds)).collect()
}

fn result(
    planned: &PlannedClaim,
    plan: &ReproductionPlan,
    failed: &FailedJobs,
    files: &mut ResultFiles,
    seeds: u64,
) -> ClaimResult {
    let mut result = ClaimResult {
        name: planned.name.clone(),
        paper: String::new(),
        sentence: String::new(),
        place: String::new(),
        paper_numbers: Vec::new(),
        note: String::new(),
        explanation: None,
        verdict: NOT_RUN,
        reason: String::new(),
        compared: Default::default(),
        row: None,
        margin: 0.0,
        ignore_trivial: None,
        comparison: None,
        shown: Vec::new(),
        runs: Vec::new(),
    };
    let claim = match &planned.claim {
        Ok(claim) => claim,
        Err(cause) => {
            result.reason.clone_from(cause);
            return result;
        }
    };
    result.paper.clone_from(&claim.paper);
    result.sentence.clone_from(&claim.sentence);
    result.place.clone_from(&claim.place);
    result.paper_numbers.clone_from(&claim.numbers);
    result.note.clone_from(&claim.note);
    result.compared = [claim.test.claimed.clone(), claim.test.than.clone()];
    result.row = Some(claim.test.row.clone());
    result.margin = claim.test.margin;
    result.ignore_trivial.clone_from(&claim.test.ignore_trivial);
    result.runs = origins(planned, plan);

    let mut lookup = RecordLookup { planned, failed, files, seeds };
    match lookup.comparison(claim, 0) {
        Ok(comparison) => {
            let (verdict, reason) = decide(&comparison, claim.test.margin, claim.test.ignore_trivial.is_none());
            (result.verdict, result.reason) = (verdict.name(), reason);
            if verdict != ClaimVerdict::Holds {
                result.explanation.clone_from(&claim.explanation);
            }
            result.comparison = Some(comparison);
        }
        Err(cause) => {
            result.reason = cause;
            return result;
        }
    }
    for (at, row) in claim.rows().enumerate().skip(1) {
        // A shown number that is missing does not change the verdict.
        if let Ok(comparison) = lookup.comparison(claim, at) {
            result.shown.push(ShownNumber { row: row.clone(), values: comparison.values });
        }
    }
    result
}

fn origins(planned: &PlannedClaim, plan: &ReproductionPlan) -> Vec<RunOrigin> {
    let known = planned.keys.iter().filter_map(|((run, seed), key)| Some((run, *seed, key.as_ref().ok()?)));
    known
        .filter_map(|(run, seed, key)| {
            let of_key = plan.runs.iter().find(|it| it.key == *key)?;
            let own: Vec<&PathBuf> = planned
                .files
                .iter()
                .filter(|((name, ..), _)| name == run)
                .filter_map(|(_, it)| it.as_ref().ok())
                .collect();
            let measured = of_key.measurements.iter().filter(|it| own.contains(&&it.file));
            Some(RunOrigin {
                run: run.clone(),
                seed,
                key: key.clone(),
                train: of_key.command.clone(),
                measure: measured.map(super::plan::PlannedMeasurement::command).collect(),
            })
        })
        .collect()
}

/// Finds the records of a claim.
struct RecordLookup<'a> {
    planned: &'a PlannedClaim,
    failed: &'a FailedJobs,
    files: &'a mut ResultFiles,
    seeds: u64,
}

impl RecordLookup<'_> {
    fn comparison(&mut self, claim: &Claim, row: usize) -> Result<SeedComparison, String> {
        let claimed = self.records(claim, &claim.test.claimed, row)?;
        let claimed: Vec<&Record> = claimed.iter().collect();
        let other = match claim.test.than.as_str() {
            TRIVIAL => None,
            run => Some(self.records(claim, run, row)?),
        };
        let other: Option<Vec<&Record>> = other.as_ref().map(|it| it.iter().collect());
        let opponent = other.as_deref().map_or(Opponent::Trivial, Opponent::Model);
        compare_over_seeds(&claimed, opponent, claim.test.better, 0)
    }

    /// The record of a row for each seed.
    fn records(&mut self, claim: &Claim, run: &str, row: usize) -> Result<Vec<Record>, String> {
        let wanted = claim.rows().nth(row).ok_or("no such row")?;
        (0..self.seeds)
            .map(|seed| {
                let place = |cause: &String| format!("run {run}, seed {seed}: {cause}");
                let missing = "not planned".to_owned();
                let key = self.planned.keys.get(&(run.to_owned(), seed)).ok_or_else(|| place(&missing))?;
                let key = key.as_ref().map_err(Clone::clone)?;
                if let Some(cause) = self.failed.runs.get(key) {
                    return Err(place(cause));
                }
                let file = self.planned.files.get(&(run.to_owned(), seed, row)).ok_or_else(|| place(&missing))?;
                let file = file.as_ref().map_err(Clone::clone)?;
                if let Some(cause) = self.failed.measurements.get(file) {
                    return Err(place(cause));
                }
                self.files.record(file, wanted).map_err(|it| place(&it))
            })
            .collect()
    }
}

/// The records of the result files that were already read, by path.
#[derive(Default)]
struct ResultFiles(BTreeMap<PathBuf, Result<Vec<Record>, String>>);

impl ResultFiles {
    fn record(&mut self, path: &Path, row: &ClaimRow) -> Result<Record, String> {
        let read = || {
            let text = std::fs::read_to_string(path).map_err(|it| format!("{}: {it}", path.display()))?;
            let lines = read_results(&path.display().to_string(), &text).map_err(|it| it.to_string())?;
            Ok(lines.into_iter().map(|it| it.record).collect())
        };
        let records = self.0.entry(path.to_owned()).or_insert_with(read).as_ref().map_err(Clone::clone)?;
        // With missing data, the protocol ends with their number, which a claim cannot know.
        let protocol = |it: &Record| match row.partial {
            true => it.protocol.split(PARTIAL).next() == Some(&row.protocol),
            false => it.protocol == row.protocol,
        };
        let matches = |it: &&Record| it.split == row.part && protocol(it) && it.metric == row.metric;
        records.iter().find(matches).cloned().ok_or_else(|| {
            let mut known: Vec<String> =
                records.iter().map(|it| format!("{} / {} / {}", it.split, it.protocol, it.metric)).collect();
            known.dedup();
            // A benchmark has few splits, but may have many protocols, so the list is limited.
            let shown: Vec<_> = known.iter().take(MAX_SHOWN).cloned().collect();
            let more = known.len().saturating_sub(MAX_SHOWN);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!(
                "{} has no number `{} / {} / {}`; expected one of {}{more}",
                row.benchmark,
                row.part,
                row.protocol,
                row.metric,
                shown.join("; ")
            )
        })
    }
}

/// Start of the part of a protocol that gives the number of missing data.
const PARTIAL: &str = ", partial: ";
/// Maximum number of records that a message lists.
const MAX_SHOWN: usize = 12;
