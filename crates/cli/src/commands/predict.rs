//! `conifer predict`: answers with the deepest node of a class tree at which the risk of a wrong answer is bounded.

mod calibration;
mod out;
mod page;
mod photos;
mod summary;

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use burn::tensor::Device;
use conifer_data::Source;
use conifer_data::hierarchy::Tree;
use conifer_eval::prediction::{Predictor, StoredThreshold};

use crate::arguments::{DataArgs, PredictArgs};
use crate::cache::CachedEmbedder;
use crate::embedder::ModelEmbedder;
use crate::output::note;
use crate::request::{open_source, source_spec};

use calibration::{CalibrationPhotos, calibrated};
use out::OutputFile;
use photos::{PhotoSet, embedded, samples};
use summary::PredictionReport;

/// Default of --risk: the share of answers that may be wrong.
const DEFAULT_RISK: f64 = 0.1;

pub(crate) fn run(args: PredictArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    check(&args)?;
    // Check the outputs before the work, so that an unwritable path fails early.
    let outputs =
        args.out.iter().map(|path| OutputFile::of(path, args.overwrite)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = &args.out_threshold {
        out::check_target("--out-threshold", path, args.overwrite)?;
    }
    let tree = args.tree.as_deref().map(Tree::read_edges).transpose().context("--tree")?;
    let stored = args.threshold.as_deref().map(StoredThreshold::read).transpose().context("--threshold")?;
    let data = args.data.as_deref().map(|data| open_source(&test_data(&args, data))).transpose()?;
    let sources = CalibrationSources::open(&args)?;
    let model = ModelEmbedder::open(&args.checkpoint, device)?;
    let embedder = CachedEmbedder::new(model, args.cache.folder().as_deref());
    let test = data.as_deref().map(|it| samples("--data", it)).transpose()?;

    let (stored, predictor, calibration) = match (stored, sources) {
        (Some(stored), _) => {
            stored.check_model(embedder.model().inner().name(), embedder.model().inner().fingerprint())?;
            if let Some((path, tree)) = args.tree.as_deref().zip(tree.as_ref()) {
                stored.check_tree(&path.display().to_string(), tree)?;
            }
            if let Some(risk) = args.risk.filter(|risk| *risk != stored.risk) {
                bail!(
                    "--risk is {risk}; expected {}, for which the threshold was calibrated; calibrate again",
                    stored.risk
                );
            }
            let predictor = Predictor::of_stored(&embedder, &stored)?;
            (stored, predictor, CalibrationPhotos::default())
        }
        (None, Some(sources)) => {
            let tree = tree.or_else(|| sources.all_splits.class_tree());
            let tree = tree.or_else(|| data.as_ref()?.class_tree()).context(
                "the class tree is missing: the photos have no ranks (a taxon of each photo); expected --tree FILE with one `parent child` edge \
                 per line",
            )?;
            let known = [Some(sources.all_splits.as_ref()), Some(sources.seen.as_ref()), data.as_deref()];
            calibrated(&args, &embedder, tree, &sources, &known.into_iter().flatten().collect::<Vec<_>>())?
        }
        (None, None) => bail!(
            "no threshold: expected --calibration DATA (labelled photos that were not used for training), --calibration-split SPLIT of --data, \
             or --threshold FILE, written earlier by --out-threshold"
        ),
    };
    if let Some(path) = &args.out_threshold {
        out::write("--out-threshold", path, stored.to_json()?.as_bytes())?;
        if data.is_none() {
            return summary::print_calibration(&stored, path, as_json);
        }
    }
    let Some(test) = test else { return Ok(()) };
    let photos = embedded("--data", test, &embedder, stored.crop)?;
    let paths = predictor.paths(&photos.points, stored.temperature)?;
    let shared = calibration.shared_with(&photos);
    ensure!(
        shared < photos.samples.len(),
        "--data: all {shared} photos are calibration photos, too; expected other photos, because the risk is kept only for those"
    );
    let report = PredictionReport::new(&stored, predictor.classes(), &photos, &paths, shared, args.ignore_labels)?;
    for output in &outputs {
        output.write(&report, &photos.samples)?;
    }
    report.print(as_json, outputs.is_empty())
}

/// Checks numbers and combinations of options.
fn check(args: &PredictArgs) -> anyhow::Result<()> {
    if let Some(risk) = args.risk {
        let right = risk > 0.0 && risk < 1.0;
        ensure!(
            right,
            "--risk is {risk}; expected the share of answers that may be wrong, between 0 and 1, such as 0.1"
        );
    }
    if let Some(temperature) = args.temperature {
        let right = temperature > 0.0 && temperature.is_finite();
        ensure!(right, "--temperature is {temperature}; expected a positive number");
    }
    let calibrates = args.calibration.is_some() || args.calibration_split.is_some();
    for (name, given) in [
        ("--unseen-calibration", args.unseen_calibration.is_some()),
        ("--unseen-split", args.unseen_split.is_some()),
        ("--out-threshold", args.out_threshold.is_some()),
        ("--temperature", args.temperature.is_some()),
        ("--calibration-option", !args.calibration_options.is_empty()),
        ("--unseen-option", !args.unseen_options.is_empty()),
    ] {
        ensure!(!given || calibrates, "{name} is given without --calibration DATA or --calibration-split SPLIT");
    }
    ensure!(
        args.calibration.is_some() || args.calibration_split.is_none() || args.data.is_some(),
        "--calibration-split is given without --data and --calibration; expected the data set that it is a split of"
    );
    if args.calibration.is_none() && args.calibration_split.is_some() {
        ensure!(
            args.calibration_split != args.split,
            "--calibration-split is the split of --data; expected another one, because the risk is kept only for other photos"
        );
    }
    Ok(())
}

fn test_data(args: &PredictArgs, data: &str) -> DataArgs {
    DataArgs {
        data: data.into(),
        split: args.split.clone(),
        data_options: args.data_options.clone(),
        roots: args.roots.clone(),
    }
}

/// The sources of the calibration photos.
struct CalibrationSources {
    /// Photos of the classes.
    seen: Box<dyn Source>,
    /// All splits of the data set of `seen`: their ranks make the class tree without --tree.
    all_splits: Box<dyn Source>,
    /// Photos of held-out genera.
    unseen: Option<Box<dyn Source>>,
}

impl CalibrationSources {
    /// Opens the sources; `None` if there is no option for them.
    fn open(args: &PredictArgs) -> anyhow::Result<Option<Self>> {
        let (Some(data), true) = (
            args.calibration.as_ref().or(args.data.as_ref()),
            args.calibration.is_some() || args.calibration_split.is_some(),
        ) else {
            return Ok(None);
        };
        let options = &args.calibration_options;
        let seen = open_as(args, data, args.calibration_split.as_ref(), options).context("calibration photos")?;
        let all_splits = open_as(args, data, None, options).context("calibration photos")?;
        let other = match &args.unseen_options[..] {
            [] => options,
            _ => &args.unseen_options,
        };
        // Without --unseen-calibration, the photos of held-out genera come from the calibration data, with another
        // split or other options.
        let (data, split) = match &args.unseen_calibration {
            Some(own) => (own, args.unseen_split.as_ref()),
            None => (data, args.unseen_split.as_ref().or(args.calibration_split.as_ref())),
        };
        let has_unseen =
            args.unseen_calibration.is_some() || args.unseen_split.is_some() || !args.unseen_options.is_empty();
        let unseen = match has_unseen {
            true => Some(open_as(args, data, split, other).context("calibration photos of held-out genera")?),
            false => None,
        };
        Ok(Some(Self { seen, all_splits, unseen }))
    }
}

/// Opens a calibration source. If no options are given for it and it is of the same kind as --data, the options of
/// --data apply.
fn open_as(
    args: &PredictArgs,
    data: &str,
    split: Option<&String>,
    options: &[String],
) -> anyhow::Result<Box<dyn Source>> {
    let own = DataArgs {
        data: data.into(),
        split: split.cloned(),
        data_options: options.to_vec(),
        roots: args.roots.clone(),
    };
    let kind = |data: &DataArgs| source_spec(data).ok().map(|it| it.kind);
    if !options.is_empty() || args.data.as_ref().is_some_and(|it| kind(&test_data(args, it)) != kind(&own)) {
        return open_source(&own);
    }
    open_source(&DataArgs { data_options: args.data_options.clone(), ..own })
}

/// Reads the classes that the model chooses from, one per line. Lines that start with `#` are comments.
fn class_list(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--classes {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Notes on stderr how many photos were left out, with the first reason.
fn note_left_out(option: &str, set: &PhotoSet) {
    if set.left_out > 0 {
        let first = set.first_left_out.as_deref().unwrap_or_default();
        note(&format!("{option}: {} photos left out, first: {first}", set.left_out));
    }
}
