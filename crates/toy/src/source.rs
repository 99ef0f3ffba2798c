//! The toy world as a source. [`conifer_data::export`] writes it to files like any other source; this module also
//! writes its gallery as an image folder.

use std::fs;
use std::path::Path;

use conifer_data::{Broken, Error, Result, Sample, Source, SourceEntry, SourceSpec, View};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use rayon::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    ClassChoice, Gallery, Scene, TextChoice, ToyConfig, ToyContrasts, ToySplit, ToyWorld, captions_in, render, tiers,
};

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "toy",
    summary: "the synthetic toy world: no download, any size, all views",
    inputs: "split: train (default), val, test or held_out; options: size (number of scenes, default 4096), resolution (pixels, default 64), seed (default 0), \
             classes (all, the default; seen: without the eight held-out classes; held_out: one of them in every scene), words (captions, the default; \
             general: also texts that name one object by its class or a more general name; names: mostly names of classes; ancestors: names of all levels; mixed: general in one half of the scenes, ancestors in the other), singles (percentage of additional scenes with one object, default 0), \
             per_class (generate this many pictures of single objects of each class instead of scenes), hard_negatives (default false; true: \
             one sample for each wrong caption of each scene, with the kind of the error as its split)",
    read: |spec| open(spec),
};

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ToyOptions {
    size: usize,
    resolution: u32,
    seed: u64,
    classes: ClassChoice,
    words: TextChoice,
    singles: u8,
    per_class: Option<usize>,
    hard_negatives: bool,
}

impl Default for ToyOptions {
    fn default() -> Self {
        let ToyConfig { size, resolution, seed, classes, words, singles, .. } = ToyConfig::default();
        Self { size, resolution, seed, classes, words, singles, per_class: None, hard_negatives: false }
    }
}

/// Maximum number of scenes, for worlds given in a config or on the command line.
const MAX_SCENES: usize = 10_000_000;

fn open(spec: &SourceSpec) -> Result<Box<dyn Source>> {
    if let Some(path) = &spec.path {
        return Err(Error::invalid(
            "path of source toy",
            format!("`{}`", path.display()),
            "no path: the toy world is generated, not read",
        ));
    }
    let ToyOptions { size, resolution, seed, classes, words, singles, per_class, hard_negatives } =
        spec.parse_options()?;
    let split = spec.split.as_deref().map_or(Ok(ToySplit::Train), ToySplit::named)?;
    if size > MAX_SCENES {
        return Err(Error::invalid("size of the toy world", size.to_string(), format!("at most {MAX_SCENES} scenes")));
    }
    let world = ToyWorld::new(ToyConfig { size, resolution, seed, split, classes, words, singles })?;
    Ok(match (per_class, hard_negatives) {
        (Some(count), false) => Box::new(world.gallery(count)?),
        (None, true) => Box::new(world.contrasts()),
        (None, false) => Box::new(world),
        (Some(count), true) => {
            return Err(Error::invalid(
                "hard_negatives of the toy world",
                format!("true together with per_class = {count}"),
                "only one of the two options",
            ));
        }
    })
}

const VIEWS: &[View] = &[View::Pair, View::Boxes, View::Chain, View::Edges];

impl Source for ToyWorld {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.config().size
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        Ok(self.sample(index))
    }

    fn views(&self) -> &[View] {
        VIEWS
    }

    fn fingerprint(&self) -> String {
        fingerprint(self.config(), Source::len(self), |index| self.scene(index))
    }
}

impl Source for Gallery {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        Gallery::len(self)
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        Ok(self.sample(index))
    }

    fn views(&self) -> &[View] {
        VIEWS
    }

    fn fingerprint(&self) -> String {
        fingerprint(self.world().config(), Gallery::len(self), |index| self.scene(index))
    }
}

impl Source for ToyContrasts {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        ToyContrasts::len(self)
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        Ok(self.sample(index))
    }

    fn views(&self) -> &[View] {
        &[View::Pair, View::Boxes, View::Edges]
    }

    /// Hash of the scenes' fingerprint and of the texts of every sample.
    fn fingerprint(&self) -> String {
        let scenes = fingerprint(self.world().config(), ToyContrasts::len(self), |index| self.scene(index));
        let mut hash = Sha256::new();
        hash.update(format!("hard negatives: {scenes}\n"));
        (0..ToyContrasts::len(self)).for_each(|index| hash.update(format!("{:?}\n", self.texts(index))));
        hex::encode(hash.finalize())
    }
}

/// Hash of the configuration and of up to 64 scenes, rendered and with their texts. The fingerprint therefore also
/// changes if a new version of the program changes the drawings or the wording.
fn fingerprint(config: ToyConfig, len: usize, scene: impl Fn(usize) -> Scene) -> String {
    const SAMPLED: usize = 64;
    let mut hash = Sha256::new();
    let ToyConfig { size, resolution, seed, split, classes, words, singles } = config;
    let world = format!("ToyConfig {{ size: {size}, resolution: {resolution}, seed: {seed}, split: {split:?} }}");
    hash.update(format!("toy world: {world}, {len} pictures\n"));
    // Options added later are hashed only if they differ from the default, so that fingerprints of older runs and data
    // sets stay valid.
    let ordinary = ToyConfig::default();
    if (classes, words, singles) != (ordinary.classes, ordinary.words, ordinary.singles) {
        hash.update(format!("{classes:?} {words:?} {singles}\n"));
    }
    let step = len.div_ceil(SAMPLED).max(1);
    for scene in (0..len).step_by(step).map(scene) {
        hash.update(render(&scene, 48).rgb);
        hash.update(format!("{:?} {:?}\n", captions_in(&scene, words), tiers(&scene)));
    }
    hex::encode(hash.finalize())
}

/// Writes a gallery as an image folder with one folder of PNG files per class: `<folder>/<class>/<number>.png`.
///
/// # Errors
/// A file cannot be written.
pub fn write_folder(gallery: &Gallery, folder: &Path) -> Result<()> {
    let resolution = gallery.world().config().resolution;
    (0..Gallery::len(gallery)).into_par_iter().try_for_each(|index| {
        let scene = gallery.scene(index);
        let class = folder.join(scene.objects[0].class.name());
        fs::create_dir_all(&class).map_err(Error::io("create", &class))?;
        let picture = render(&scene, resolution);
        let path = class.join(format!("{:04}.png", index % gallery.per_class()));
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes)
            .write_image(&picture.rgb, picture.width, picture.height, ExtendedColorType::Rgb8)
            .map_err(|error| Error::format(format!("`{}`", path.display()), error.to_string(), "a picture"))?;
        // No fsync: syncing thousands of small files would take longer than generating them again.
        fs::write(&path, bytes).map_err(Error::io("write", &path))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use conifer_data::export::ExportTarget;
    use conifer_data::{ImageRef, PixelLimits, export};
    use serde_json::json;

    use super::*;
    use crate::class_names;

    fn spec(split: Option<&str>, options: serde_json::Value) -> SourceSpec {
        let options: BTreeMap<_, _> = options.as_object().unwrap().clone().into_iter().collect();
        SourceSpec { kind: "toy".to_owned(), split: split.map(str::to_owned), options, ..SourceSpec::default() }
    }

    fn small_world() -> ToyWorld {
        ToyWorld::new(ToyConfig { size: 12, resolution: 48, seed: 3, split: ToySplit::Val, ..ToyConfig::default() })
            .unwrap()
    }

    #[test]
    fn opens_by_name_with_its_options() {
        let source = ENTRY.open(&spec(Some("held_out"), json!({"size": 5, "resolution": 32, "seed": 9}))).unwrap();
        assert_eq!((source.name(), source.len(), source.views()), ("toy", 5, VIEWS));
        let sample = source.get(4).unwrap();
        assert_eq!(sample.split.as_deref(), Some("held_out"));
        let picture = sample.image.unwrap().open(&PixelLimits::default()).unwrap();
        assert_eq!((picture.width, picture.height), (32, 32));
        let gallery = ENTRY.open(&spec(None, json!({"per_class": 2}))).unwrap();
        assert_eq!(gallery.len(), 2 * class_names().len());
    }

    #[test]
    fn hard_negatives_are_separate_samples() {
        use crate::hard_negatives;
        let source = ENTRY.open(&spec(Some("test"), json!({"size": 6, "hard_negatives": true}))).unwrap();
        let world = ToyWorld::new(ToyConfig { size: 6, split: ToySplit::Test, ..ToyConfig::default() }).unwrap();
        // The source lists the contrasts of each scene, in the order of the scenes.
        let expected: Vec<_> =
            (0..6).flat_map(|i| hard_negatives(&world.scene(i)).into_iter().map(move |it| (i, it))).collect();
        assert_eq!(source.len(), expected.len());
        assert!(
            source.len() > 6 && source.len() <= 42,
            "expected one to seven per scene, found {} for six scenes",
            source.len()
        );
        for (index, (scene, it)) in expected.iter().enumerate() {
            let sample = source.get(index).unwrap();
            sample.check().unwrap();
            assert_eq!(
                (&sample.captions[..], &sample.wrong[..]),
                (&[it.caption.clone()][..], &[it.negative.clone()][..])
            );
            assert_eq!(sample.split.as_deref(), Some(it.kind.name()));
            assert_eq!((sample.image, sample.tiers), (world.sample(*scene).image, None));
        }
        assert_ne!(source.fingerprint(), Source::fingerprint(&world));
        assert_eq!(source.fingerprint(), Source::fingerprint(&world.contrasts()));
    }

    #[test]
    fn invalid_options_are_rejected() {
        for (spec, message) in [
            (spec(Some("dev"), json!({})), "split of the toy world `dev` is unknown"),
            (spec(None, json!({"sise": 5})), "sise"),
            (
                spec(None, json!({"per_class": 1, "hard_negatives": true})),
                "is true together with per_class = 1; expected only one of the two options",
            ),
            (spec(None, json!({"resolution": 1})), "`resolution of the toy world` is 1; expected 16 to 4096"),
            (
                SourceSpec { path: Some("x".into()), ..spec(None, json!({})) },
                "`path of source toy` is `x`; expected no path",
            ),
        ] {
            let Err(error) = ENTRY.open(&spec) else { unreachable!("{spec:?} was accepted") };
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn fingerprints_differ_between_worlds() {
        let config = small_world().config();
        let of = |config| Source::fingerprint(&ToyWorld::new(config).unwrap());
        let base = of(config);
        assert_eq!(base, of(config));
        assert_eq!(base.len(), 64);
        for other in [
            ToyConfig { size: 13, ..config },
            ToyConfig { resolution: 49, ..config },
            ToyConfig { seed: 4, ..config },
            ToyConfig { split: ToySplit::Test, ..config },
        ] {
            assert_ne!(base, of(other), "{other:?}");
        }
        assert_ne!(base, small_world().gallery(1).unwrap().fingerprint());
    }

    #[test]
    fn world_round_trips_through_grounded_jsonl() {
        let world = small_world();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("val.jsonl");
        let limits = PixelLimits::default();
        let report =
            export::write(export::samples(&world), &[], &ExportTarget::Grounded { path: path.clone() }, &limits)
                .unwrap();
        assert_eq!(report.written, 12);
        let read = conifer_data::sources::jsonl::ENTRY
            .open(&SourceSpec {
                kind: "jsonl".to_owned(),
                path: Some(path),
                split: Some("val".to_owned()),
                ..SourceSpec::default()
            })
            .unwrap();
        assert_eq!((read.len(), read.views()), (12, VIEWS));
        for index in 0..12 {
            let (before, mut after) = (world.sample(index), read.get(index).unwrap());
            let picture = after.image.take().unwrap().open(&limits).unwrap();
            assert_eq!(before.image, Some(ImageRef::Pixels(picture.into())));
            assert_eq!(Sample { image: None, ..before }, after);
        }
    }

    #[test]
    fn gallery_is_written_as_image_folder() {
        let gallery = small_world().gallery(1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_folder(&gallery, folder.path()).unwrap();
        let read = conifer_data::sources::image_folder::ENTRY
            .open(&SourceSpec {
                kind: "image_folder".to_owned(),
                path: Some(folder.path().to_owned()),
                ..SourceSpec::default()
            })
            .unwrap();
        let mut labels: Vec<String> = (0..read.len()).map(|i| read.get(i).unwrap().label.unwrap()).collect();
        let mut classes = class_names();
        labels.sort();
        classes.sort_unstable();
        assert_eq!(labels, classes);
    }
}
