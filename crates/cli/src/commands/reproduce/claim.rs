//! Claims as data: TOML files in `crates/cli/claims`, or of the user.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use conifer_eval::benchmarks::find;
use conifer_eval::suite::Better;
use serde::{Deserialize, Serialize};

use super::embedded::CLAIMS;

/// A claim of a paper, with the training runs and the test that decide it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    /// Name of the paper.
    pub(super) paper: String,
    /// The claim as a sentence, not quoted from the paper.
    pub(super) sentence: String,
    /// Place in the paper.
    pub(super) place: String,
    /// Numbers that the paper gives for the claim.
    #[serde(default)]
    pub(super) numbers: Vec<PaperNumber>,
    /// Differences from the paper, and the reason for this test.
    #[serde(default)]
    pub(super) note: String,
    /// Why the claim does not hold here, if it does not.
    pub(super) explanation: Option<ClaimExplanation>,
    /// True if `--quick` includes the claim.
    #[serde(default)]
    pub(super) quick: bool,
    /// Training runs by name.
    #[serde(rename = "run")]
    pub(super) runs: BTreeMap<String, ClaimRun>,
    /// The test that decides the claim.
    pub(super) test: ClaimTest,
    /// Further numbers of the same runs, without influence on the verdict.
    #[serde(default)]
    pub(super) show: Vec<ClaimRow>,
}

/// A metric with the paper's values for both sides of a claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperNumber {
    /// Data set and metric.
    pub(super) what: String,
    /// Value of the side that the claim favours.
    pub(super) claimed: f64,
    /// Value of the other side, if the paper gives it.
    pub(super) other: Option<f64>,
}

/// A possible reason for a claim that does not hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimExplanation {
    /// The reason.
    pub(super) text: String,
    /// Name of the claim whose runs support the reason.
    pub(super) shown_by: String,
}

/// A training run, for each seed; or a pretrained encoder without training.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimRun {
    /// File in the folder of configs; `None` if there is an `encoder`.
    pub(super) config: Option<String>,
    /// Image encoder that is measured as it is: a file, a folder or a name on the hub, as for `conifer eval run`.
    pub(super) encoder: Option<String>,
    /// Name of a data set of `--data`; `None` for the data set of the config.
    pub(super) data: Option<String>,
    /// Name of the run whose model is the initial one (`model.init`).
    pub(super) init: Option<String>,
    /// Overrides of config keys: `train.steps=100`.
    #[serde(default)]
    pub(super) set: Vec<String>,
}

/// The test that decides a claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimTest {
    /// The run that the claim favours.
    pub(super) claimed: String,
    /// The run that the claimed run is compared with, or [`TRIVIAL`].
    pub(super) than: String,
    /// Value that the difference has to exceed; negative for "not worse by more than".
    #[serde(default)]
    pub(super) margin: f64,
    /// Direction of improvement of the metric.
    #[serde(default)]
    pub(super) better: Better,
    /// Why the better model need not beat the trivial answer; `None` if it must.
    pub(super) ignore_trivial: Option<String>,
    /// The compared number.
    pub(super) row: ClaimRow,
}

/// A number of a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimRow {
    /// Data set: a name of `--data`, or `toy`; `None` for the data set of the claimed run.
    pub(super) data: Option<String>,
    /// Split of the data.
    pub(super) split: Option<String>,
    /// Options of the data source.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// Classify among the classes of all splits.
    #[serde(default)]
    pub(super) all_classes: bool,
    /// Measure the data that are there, although some are missing.
    #[serde(default)]
    pub(super) partial: bool,
    /// Name of the benchmark, see [`conifer_eval::Record::benchmark`].
    pub(super) benchmark: String,
    /// Split of the record, see [`conifer_eval::Record::split`].
    pub(super) part: String,
    /// Protocol of the record, see [`conifer_eval::Record::protocol`].
    pub(super) protocol: String,
    /// Metric of the record, see [`conifer_eval::Record::metric`].
    pub(super) metric: String,
}

/// Value of [`ClaimTest::than`] for the trivial answer of the benchmark.
pub(super) const TRIVIAL: &str = "trivial";
/// Name of the data set that needs no file.
pub(super) const TOY: &str = "toy";

/// Claims by name. An unreadable claim has the cause in place of its content.
pub(super) type NamedClaims = Vec<(String, Result<Claim, String>)>;

/// The claims that the command line names, in its order and without repetition.
///
/// # Errors
/// A word names no claim (the message lists the papers), or `--quick` leaves none of the chosen claims.
pub(super) fn chosen(words: &[String], quick: bool) -> anyhow::Result<NamedClaims> {
    let mut found: NamedClaims = Vec::new();
    for word in words {
        let matches = |name: &str| match word.strip_prefix("paper:") {
            Some(paper) => name.split('/').next() == Some(paper),
            None => word == "all" || word == "list" || word == name,
        };
        let before = found.len();
        for (name, text) in CLAIMS.iter().filter(|(name, _)| matches(name)) {
            found.push(((*name).to_owned(), Claim::parse(name, text).map_err(|it| format!("{it:#}"))));
        }
        if found.len() > before {
            continue;
        }
        let path = Path::new(word);
        if path.extension().is_some_and(|it| it == "toml") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path).with_context(|| format!("reading the claim {word}"));
            let claim = text.and_then(|text| Claim::parse(word, &text)).map_err(|it| format!("{it:#}"));
            found.push((name, claim));
            continue;
        }
        let mut papers: Vec<_> = CLAIMS.iter().filter_map(|(name, _)| name.split('/').next()).collect();
        papers.dedup();
        bail!(
            "`{word}` is no claim; expected a name that `conifer reproduce list` prints, a .toml file, all, or paper:NAME with one of {}",
            papers.join(", ")
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|(name, claim)| seen.insert(name.clone()) && (!quick || claim.as_ref().map_or(true, |it| it.quick)));
    ensure!(!found.is_empty(), "--quick leaves none of the chosen claims; expected claims with `quick = true`");
    Ok(found)
}

impl Claim {
    /// Reads a claim from TOML. `place` names it in messages.
    ///
    /// # Errors
    /// The text is not valid TOML or has unknown keys; or a run, a benchmark or a number is invalid.
    pub(super) fn parse(place: &str, text: &str) -> anyhow::Result<Self> {
        let claim: Self =
            toml::from_str(text).map_err(|it| anyhow::anyhow!("claim {place}: {}", it.to_string().trim()))?;
        claim.check().with_context(|| format!("claim {place}"))?;
        Ok(claim)
    }

    fn check(&self) -> anyhow::Result<()> {
        let known = || self.runs.keys().cloned().collect::<Vec<_>>().join(", ");
        let run = |key: &str, name: &str| {
            ensure!(self.runs.contains_key(name), "{key} is `{name}`; expected a run of the claim: {}", known());
            Ok(())
        };
        run("test.claimed", &self.test.claimed)?;
        if self.test.than != TRIVIAL {
            run("test.than", &self.test.than).map_err(|it| anyhow::anyhow!("{it}, or {TRIVIAL}"))?;
        }
        ensure!(self.test.than != self.test.claimed, "test.than is the claimed run; expected another one");
        ensure!(self.test.margin.is_finite(), "test.margin is {}; expected a finite number", self.test.margin);
        for (name, of) in &self.runs {
            ensure!(
                of.config.is_some() != of.encoder.is_some(),
                "run.{name} has {}; expected one of config and encoder",
                if of.config.is_some() { "a config and an encoder" } else { "neither config nor encoder" }
            );
            ensure!(
                of.config.is_some() || (of.data.is_none() && of.init.is_none() && of.set.is_empty()),
                "run.{name} has an encoder and settings of a training; expected no data, init or set"
            );
            let mut at = of;
            // A chain that is longer than the number of runs is a cycle.
            for step in 0.. {
                let Some(init) = &at.init else { break };
                run(&format!("run.{name}.init"), init)?;
                ensure!(step < self.runs.len(), "run.{name}.init leads back to itself; expected no cycle");
                at = &self.runs[init];
            }
        }
        for row in self.rows() {
            find(&row.benchmark)?;
        }
        Ok(())
    }

    /// The row that decides the claim, then the rows that are only shown.
    pub(super) fn rows(&self) -> impl Iterator<Item = &ClaimRow> {
        std::iter::once(&self.test.row).chain(&self.show)
    }

    /// The runs that are measured: the claimed run, and the run that it is compared with unless that is [`TRIVIAL`].
    pub(super) fn measured_runs(&self) -> Vec<&str> {
        let other = (self.test.than != TRIVIAL).then_some(self.test.than.as_str());
        std::iter::once(self.test.claimed.as_str()).chain(other).collect()
    }

    /// Name of the data set of a row.
    pub(super) fn data_of(&self, row: &ClaimRow) -> String {
        let own = || self.runs.get(&self.test.claimed)?.data.clone();
        row.data.clone().or_else(own).unwrap_or_else(|| TOY.to_owned())
    }

    /// Names of the data sets that the claim needs from `--data`.
    pub(super) fn needed_data(&self) -> Vec<String> {
        let mut names: Vec<String> = self.runs.values().filter_map(|it| it.data.clone()).collect();
        names.extend(self.rows().map(|row| self.data_of(row)));
        names.retain(|it| it != TOY);
        names.sort();
        names.dedup();
        names
    }
}
