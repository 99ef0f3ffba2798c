//! Calibrates the temperature and the threshold on labelled photos.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context as _, ensure};
use conifer_data::hierarchy::Tree;
use conifer_data::{Sample, Source};
use conifer_datasets::sources::class_name;
use conifer_embeddings::sha256_hex;
use conifer_eval::benchmarks::prompts::words;
use conifer_eval::prediction::{
    CalibratedUnseen, CalibrationCounts, ConformalThreshold, FlatThresholds, PhotoPaths, PredictedClass,
    PredictionTree, Predictor, StoredThreshold, TruePosition, calibrate, fit_temperature, needed_units,
};

use super::photos::{PhotoSet, count_known, embedded, photo_keys, samples};
use super::{CalibrationSources, DEFAULT_RISK, class_list};
use crate::arguments::{ClassTextArg, PredictArgs};
use crate::cache::CachedEmbedder;
use crate::commands::eval::templates;
use crate::output::note;

/// One calibration photo in this many is used to fit the temperature instead of calibrating the threshold.
const TEMPERATURE_SHARE: usize = 5;
/// Maximum number of photos on which the temperature is fitted. One parameter needs no more, and their scores are held
/// in memory.
const MAX_TEMPERATURE_PHOTOS: usize = 2000;

/// The photos that were used for the calibration.
#[derive(Default)]
pub(super) struct CalibrationPhotos(HashSet<u64>);

impl CalibrationPhotos {
    /// Number of photos that were used for the calibration, too.
    pub(super) fn shared_with(&self, photos: &PhotoSet) -> usize {
        count_known(&photos.samples, &self.0)
    }
}

/// Calibrates a threshold for `tree`. `known` are the sources in which the names of the classes are looked up.
pub(super) fn calibrated(
    args: &PredictArgs,
    embedder: &CachedEmbedder,
    tree: Tree,
    sources: &CalibrationSources,
    known: &[&dyn Source],
) -> anyhow::Result<(StoredThreshold, Predictor, CalibrationPhotos)> {
    let risk = args.risk.unwrap_or(DEFAULT_RISK);
    let seen = samples("calibration photos", sources.seen.as_ref())?;
    let classes = match &args.classes {
        Some(path) => PredictionTree::of_names(tree, &class_list(path)?)
            .with_context(|| format!("--classes {}", path.display()))?,
        None => PredictionTree::of_leaves(tree)?,
    };
    // Check all labels before the model embeds the photos.
    let positions = positions("calibration photos", &classes, &seen.samples)?;
    ensure!(
        positions.iter().any(|it| it.seen),
        "calibration photos: none of the {} photos is of one of the {} classes; expected photos of the classes (held-out genera belong in \
         --unseen-calibration)",
        positions.len(),
        classes.classes().len()
    );
    let texts = class_texts(args.class_text, &classes, known, &seen.samples);
    let templates = templates(&args.prompts)?;
    let predictor = Predictor::new(embedder, classes.clone(), &templates, &texts)?;
    let seen = embedded("calibration photos", seen, embedder, args.crop.into())?;
    // Compute the positions again, because unreadable photos have been left out.
    let positions = self::positions("calibration photos", &classes, &seen.samples)?;

    let for_temperature = match args.temperature {
        Some(_) => HashSet::new(),
        None => temperature_rows(&seen.samples, &positions),
    };
    let temperature = match args.temperature {
        Some(temperature) => temperature,
        None => fitted(&predictor, &seen, &positions, &for_temperature)?,
    };
    let paths = predictor.paths(&seen.points, temperature)?;
    let units: Vec<Vec<(&PhotoPaths, usize)>> = (0..paths.len())
        .filter(|row| !for_temperature.contains(row))
        .map(|row| vec![(&paths[row], positions[row].node)])
        .collect();
    let mut chosen = calibrate(&classes, &units, risk)?;
    if chosen[0].threshold.is_none() {
        note(&format!(
            "only the root of the tree is answered: {} calibration photos are too few for a risk of {risk}; expected at least {} (and a fifth \
             more for the temperature, or --temperature T)",
            chosen[0].units,
            needed_units(risk)?
        ));
    }
    let seen_threshold = chosen[0];
    let mut used: HashSet<u64> = photo_keys(&seen.samples).into_iter().collect();
    let unseen = match &sources.unseen {
        None => None,
        Some(source) => {
            let held_out = HeldOutGenera::read(&classes, embedder, source.as_ref(), args)?;
            let shared = count_known(&held_out.photos.samples, &used);
            ensure!(
                shared == 0,
                "--unseen-calibration: {shared} photos are calibration photos, too; expected other photos"
            );
            used.extend(photo_keys(&held_out.photos.samples));
            Some(held_out.calibrate(&predictor, temperature, risk, &mut chosen, source.as_ref())?)
        }
    };
    let model = embedder.model().inner();
    let mut stored = StoredThreshold::uncalibrated(classes.tree(), risk, temperature);
    stored.threshold = chosen[0].threshold;
    stored.flat = FlatThresholds { back_off: chosen[1].threshold, reject: chosen[2].threshold };
    stored.calibration = CalibrationCounts {
        photos: seen_threshold.units,
        temperature_photos: for_temperature.len(),
        threshold: seen_threshold.threshold,
        calibration_risk: seen_threshold.calibration_risk,
        data_sha256: sources.seen.fingerprint(),
    };
    stored.unseen = unseen;
    stored.checkpoint = model.name().into();
    stored.weights_sha256 = model.fingerprint().into();
    stored.crop = args.crop.into();
    stored.prompts = args.prompts.clone();
    stored.templates = templates;
    let label = |&node: &usize| classes.tree().name(node).to_owned();
    let labels = classes.classes().iter().map(label);
    stored.classes = labels.zip(texts).map(|(label, text)| PredictedClass { label, text }).collect();
    Ok((stored, predictor, CalibrationPhotos(used)))
}

/// Positions of photos in the tree.
///
/// # Errors
/// A photo has no label or taxon, or neither is in the tree.
pub(super) fn positions(
    option: &str,
    classes: &PredictionTree,
    samples: &[Sample],
) -> anyhow::Result<Vec<TruePosition>> {
    let position = |sample: &Sample| {
        classes.position(sample.label.as_deref(), &sample.taxon).with_context(|| {
            let tree = classes.tree();
            let example = tree.name(classes.classes()[0]);
            let found = match &sample.label {
                Some(label) => format!("label `{label}` of photo `{}` is not", sample.id),
                None => format!("photo `{}` has no label", sample.id),
            };
            format!(
                "{option}: {found} in the class tree; expected one of its {} nodes, such as `{example}`, or a taxon with such a name",
                tree.len()
            )
        })
    };
    samples.iter().map(position).collect()
}

/// The text of each class for the prompts.
fn class_texts(kind: ClassTextArg, classes: &PredictionTree, known: &[&dyn Source], samples: &[Sample]) -> Vec<String> {
    let tree = classes.tree();
    let label = |&node: &usize| tree.name(node);
    match kind {
        ClassTextArg::Name => {
            let mut names: HashMap<String, String> = HashMap::new();
            for class in known.iter().flat_map(|source| source.classes()) {
                names.entry(class.label).or_insert(class.name);
            }
            let name = |node| names.get(label(node)).cloned().unwrap_or_else(|| words(label(node)));
            classes.classes().iter().map(name).collect()
        }
        ClassTextArg::Taxon => {
            let taxa: HashMap<&str, String> =
                samples.iter().filter_map(|it| Some((it.label.as_deref()?, it.taxon_texts().pop()?))).collect();
            // Leave out the root, which often is an artificial node.
            let path = |&node: &usize| {
                let names: Vec<&str> = tree.path(node).into_iter().skip(1).map(|it| tree.name(it)).collect();
                names.join(" ")
            };
            classes.classes().iter().map(|node| taxa.get(label(node)).cloned().unwrap_or_else(|| path(node))).collect()
        }
    }
}

/// The rows on which the temperature is fitted: a fifth of the photos of the classes, but at most
/// [`MAX_TEMPERATURE_PHOTOS`]. They are selected by the hash of their ids, so that the selection depends neither on
/// their order nor on their content.
fn temperature_rows(samples: &[Sample], positions: &[TruePosition]) -> HashSet<usize> {
    let mut rows: Vec<(String, usize)> = (0..samples.len())
        .filter(|&row| positions[row].seen)
        .map(|row| (sha256_hex(samples[row].id.as_bytes()), row))
        .collect();
    rows.sort();
    let count = rows.len().div_ceil(TEMPERATURE_SHARE).min(MAX_TEMPERATURE_PHOTOS);
    rows.into_iter().take(count).map(|(_, row)| row).collect()
}

fn fitted(
    predictor: &Predictor,
    photos: &PhotoSet,
    positions: &[TruePosition],
    rows: &HashSet<usize>,
) -> anyhow::Result<f64> {
    let classes = predictor.classes();
    let number: HashMap<usize, usize> = classes.classes().iter().enumerate().map(|(i, &node)| (node, i)).collect();
    // A label may be below a class.
    let class_of = |node: usize| {
        let tree = classes.tree();
        std::iter::once(node).chain(tree.ancestors(node)).find_map(|it| number.get(&it).copied())
    };
    let dim = photos.points.len() / photos.samples.len();
    let mut rows: Vec<usize> = rows.iter().copied().collect();
    rows.sort_unstable();
    let truth: Vec<usize> = rows.iter().filter_map(|&row| class_of(positions[row].node)).collect();
    let points: Vec<f32> = rows.iter().flat_map(|&row| &photos.points[row * dim..][..dim]).copied().collect();
    Ok(fit_temperature(&predictor.scores(&points)?, classes.classes().len(), &truth)?)
}

/// Photos of held-out genera.
struct HeldOutGenera {
    photos: PhotoSet,
    positions: Vec<TruePosition>,
}

impl HeldOutGenera {
    fn read(
        classes: &PredictionTree,
        embedder: &CachedEmbedder,
        source: &dyn Source,
        args: &PredictArgs,
    ) -> anyhow::Result<Self> {
        const OPTION: &str = "--unseen-calibration";
        let photos = samples(OPTION, source)?;
        for (sample, position) in photos.samples.iter().zip(positions(OPTION, classes, &photos.samples)?) {
            ensure!(
                !position.seen,
                "{OPTION}: photo `{}` is of `{}`, one of the classes; expected only photos of classes that the model does not choose from",
                sample.id,
                classes.tree().name(position.node)
            );
        }
        let photos = embedded(OPTION, photos, embedder, args.crop.into())?;
        let positions = positions(OPTION, classes, &photos.samples)?;
        Ok(Self { photos, positions })
    }

    /// Raises the thresholds to those of the held-out genera. Photos of a genus resemble each other, so the genera are
    /// the exchangeable units.
    fn calibrate(
        &self,
        predictor: &Predictor,
        temperature: f64,
        risk: f64,
        thresholds: &mut [ConformalThreshold; 3],
        source: &dyn Source,
    ) -> anyhow::Result<CalibratedUnseen> {
        let classes = predictor.classes();
        let paths = predictor.paths(&self.photos.points, temperature)?;
        let mut units: BTreeMap<String, Vec<(&PhotoPaths, usize)>> = BTreeMap::new();
        for ((sample, path), position) in self.photos.samples.iter().zip(&paths).zip(&self.positions) {
            units.entry(genus(classes.tree(), sample)).or_default().push((path, position.node));
        }
        let found = calibrate(classes, &units.into_values().collect::<Vec<_>>(), risk)?;
        let (genera, calibration_risk) = (found[0].units, found[0].calibration_risk);
        if found[0].threshold.is_none() {
            note(&format!(
                "--unseen-calibration: {genera} genera are too few for a risk of {risk}; expected at least {}; the risk is not guaranteed for \
                 unseen classes",
                needed_units(risk)?
            ));
        }
        for (threshold, unseen) in thresholds.iter_mut().zip(&found) {
            // Losses never increase with the threshold, so both bounds on the risk hold at the larger threshold.
            // Without a threshold for held-out genera, the threshold of the classes is used.
            if let (Some(seen), Some(unseen)) = (threshold.threshold, unseen.threshold) {
                threshold.threshold = Some(seen.max(unseen));
            }
        }
        Ok(CalibratedUnseen {
            photos: self.photos.samples.len(),
            genera,
            threshold: found[0].threshold,
            calibration_risk,
            data_sha256: source.fingerprint(),
        })
    }
}

/// The genus of a photo: its taxon without the species, else the parent of its label in the tree, else its label. The
/// last name of a taxon is the species if it is the label, an epithet, or begins with the genus.
pub(super) fn genus(tree: &Tree, sample: &Sample) -> String {
    let label = sample.label.as_deref().unwrap_or_default();
    match &sample.taxon[..] {
        [above @ .., genus, last]
            if last == label || class_name(&sample.taxon) != *last || last.starts_with(&format!("{genus} ")) =>
        {
            above.iter().chain([genus]).cloned().collect::<Vec<_>>().join(" > ")
        }
        names @ [_, _, ..] => names.join(" > "),
        _ => tree.find(label).and_then(|node| tree.parent(node)).map_or(label, |node| tree.name(node)).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn genus_is_the_taxon_above_the_species() {
        let tree = Tree::from_edges([("bird", "duck"), ("duck", "mallard"), ("bird", "owl")]).unwrap();
        let of = |label: &str, taxon: &[&str]| {
            let taxon = taxon.iter().map(|&it| it.to_owned()).collect();
            genus(&tree, &Sample { label: Some(label.into()), taxon, ..Sample::default() })
        };
        for (label, taxon) in [
            ("Sula sula", &["Sulidae", "Sula", "sula"][..]),
            ("RED-FOOTED BOOBY", &["Sulidae", "Sula", "sula"]),
            ("booby", &["Sulidae", "Sula", "Sula sula"]),
            ("booby", &["Sulidae", "Sula", "booby"]),
            ("booby", &["Sulidae", "Sula"]),
        ] {
            assert_eq!(of(label, taxon), "Sulidae > Sula", "{label} {taxon:?}");
        }
        assert_eq!(of("mallard", &[]), "duck");
        assert_eq!(of("goose", &["goose"]), "goose");
    }

    #[test]
    fn a_fifth_of_the_photos_chooses_the_temperature() {
        let photos: Vec<Sample> = (0..50).map(|i| Sample { id: i.to_string(), ..Sample::default() }).collect();
        let seen: Vec<TruePosition> = (0..50).map(|i| TruePosition { node: 1, seen: i < 40 }).collect();
        let rows = temperature_rows(&photos, &seen);
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|row| *row < 40));
        // The selection does not depend on the order of the photos.
        let reversed: Vec<Sample> = photos.iter().rev().cloned().collect();
        let seen: Vec<TruePosition> = seen.into_iter().rev().collect();
        let ids = |photos: &[Sample], rows: &HashSet<usize>| -> HashSet<String> {
            rows.iter().map(|row| photos[*row].id.clone()).collect()
        };
        assert_eq!(ids(&photos, &rows), ids(&reversed, &temperature_rows(&reversed, &seen)));
    }
}
