//! Computes layers of the explorer's map with the code of `conifer project`, for the background thread of the server.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::Parser;
use conifer_geometry::ManifoldSpec;
use conifer_server::{LayerMaker, LayerMethod, LayerRecipe, LayerWatch, MadeLayer, ServedMap};

use super::maps::{map_title, maps_folder};
use crate::arguments::ProjectArgs;
use crate::commands::project::{ProjectedSet, UnfinishedMap, projection, settings};
use crate::output::note;
use crate::request::open_rows;

/// Minimum number of rows of UMAP.
const UMAP_ROWS: usize = 4;

/// The projections of one set.
pub(super) struct SetProjections {
    /// The set, as it was given to `conifer serve`.
    set: PathBuf,
    spec: ManifoldSpec,
    rows: usize,
}

/// The arguments of `conifer project`, for their defaults.
#[derive(Parser)]
#[command(name = "project")]
struct LayerArguments {
    #[command(flatten)]
    project: ProjectArgs,
}

impl SetProjections {
    pub(super) fn new(set: &Path, spec: &ManifoldSpec, rows: usize) -> Self {
        SetProjections { set: set.to_owned(), spec: spec.clone(), rows }
    }

    /// The arguments of `conifer project` for a recipe.
    fn arguments(&self, recipe: &LayerRecipe, out: &Path) -> anyhow::Result<ProjectArgs> {
        // `=` and `--`, because a path may begin with `-`.
        let option = |name: &str, value: &OsStr| {
            let mut text = OsString::from(format!("{name}="));
            text.push(value);
            text
        };
        let mut all = vec!["project".into(), option("--by", recipe.by.as_ref()), option("--out", out.as_ref())];
        for (name, value) in [("--factor", recipe.factor), ("--sample", recipe.sample)] {
            all.extend(value.map(|it| option(name, it.to_string().as_ref())));
        }
        all.extend(["--".into(), self.set.clone().into_os_string()]);
        Ok(LayerArguments::try_parse_from(all)?.project)
    }

    fn compute(
        &self,
        recipe: &LayerRecipe,
        fingerprint: &str,
        watch: &LayerWatch,
    ) -> anyhow::Result<Option<MadeLayer>> {
        let home = maps_folder(&self.set);
        let out = home.join(&recipe.name);
        let args = self.arguments(recipe, &out)?;
        let set = open_rows(&self.set)?;
        ensure!(
            set.fingerprint()? == fingerprint,
            "the set has changed since the server started; restart the server to show and project it"
        );
        let unwritable = check_writable(&home).err();
        let settings = settings(&args, fingerprint);
        let unfinished = match &unwritable {
            None => UnfinishedMap::open(&out, settings, Duration::from_secs(args.save_every), false)?,
            Some(_) => UnfinishedMap::unsaved(settings),
        };
        let report = |stage: &str, done: usize, total: usize| watch.report(stage, done, total);
        let unfinished = unfinished.in_background(watch.stop_flag(), &report);
        let projected = projection(&args, &set, fingerprint.to_owned(), &unfinished);
        let projected = match projected {
            Err(error) if matches!(error.downcast_ref(), Some(conifer_viz::Error::Stopped)) => {
                if watch.is_cancelled() {
                    unfinished.finish()?;
                    // Fails if there are other maps.
                    _ = fs::remove_dir(&home);
                }
                return Ok(None);
            }
            other => other?,
        };
        let saved = match unwritable {
            Some(error) => Err(error),
            None => save(&projected, &out, unfinished),
        };
        let unsaved = saved.err().map(|error| {
            // Replies of the server contain no paths.
            note(&format!("layer {}: not saved: {error:#}", recipe.name));
            "the folder `maps` of the set cannot be written, so the layer is lost when the server ends".to_owned()
        });
        let map = served(&projected, recipe, unsaved.is_some());
        Ok(Some(MadeLayer { map, unsaved }))
    }
}

impl LayerMaker for SetProjections {
    fn methods(&self) -> Vec<LayerMethod> {
        let (spec, factors) = (&self.spec, self.spec.curv.len());
        let hyperbolic = (factors == 0).then(|| format!("the space is {spec}; expected a hyperbolic one"));
        let disc = (factors < 2).then(|| "the built-in disc is this map".to_owned());
        let few = (self.rows < UMAP_ROWS).then(|| format!("the set has {} rows; expected {UMAP_ROWS}", self.rows));
        let method = |by: &str, title: &str, needs_factor: bool, refused: Option<String>| LayerMethod {
            by: by.to_owned(),
            title: title.to_owned(),
            needs_factor,
            refused: if self.rows == 0 { Some("the set has no rows".to_owned()) } else { refused },
        };
        vec![
            method("umap", "neighbourhoods by geodesic distance", false, few),
            method("horopca", "the directions of most variance", factors > 1, hyperbolic.clone()),
            method("cosne", "neighbourhoods and distances to the root", factors > 1, hyperbolic),
            method("tangent-pca", "principal directions at the root", false, None),
            method("depth", "distance to the root in one factor", factors > 1, disc),
        ]
    }

    fn check(&self, recipe: &LayerRecipe) -> Result<(), String> {
        let methods = self.methods();
        let by = &recipe.by;
        let Some(method) = methods.iter().find(|it| it.by == *by) else {
            let names: Vec<String> = methods.iter().map(|it| format!("`{}`", it.by)).collect();
            return Err(format!("`by` is `{by}`; expected one of {}", names.join(", ")));
        };
        if let Some(why) = &method.refused {
            return Err(format!("`by` is `{by}`: {why}"));
        }
        let factors = self.spec.curv.len();
        match recipe.factor {
            None if method.needs_factor => {
                return Err(format!("`by` is `{by}` without `factor`; expected a factor from 0 to {}", factors - 1));
            }
            Some(factor) if factors < 2 => {
                return Err(format!("`factor` is {factor}; expected none, because the space is no product"));
            }
            Some(factor) if factor >= factors => {
                return Err(format!("`factor` is {factor}; expected a number from 0 to {}", factors - 1));
            }
            _ => {}
        }
        if let Some(sample) = recipe.sample.filter(|it| by == "umap" && *it < UMAP_ROWS) {
            return Err(format!("`sample` is {sample}; expected at least {UMAP_ROWS} for `umap`"));
        }
        if maps_folder(&self.set).join(&recipe.name).exists() {
            return Err(format!(
                "the set has a folder `maps/{0}` that is not shown as a layer; expected another `name`, or remove the folder",
                recipe.name
            ));
        }
        Ok(())
    }

    fn make(&self, recipe: &LayerRecipe, fingerprint: &str, watch: &LayerWatch) -> Result<Option<MadeLayer>, String> {
        self.compute(recipe, fingerprint, watch).map_err(|error| {
            note(&format!("layer {}: {error:#}", recipe.name));
            let message = format!("{error:#}").replace(&maps_folder(&self.set).display().to_string(), "maps");
            // A single name, such as `set`, may also be a word of the message.
            let is_path = self.set.components().count() > 1;
            if is_path { message.replace(&self.set.display().to_string(), "the set") } else { message }
        })
    }
}

/// Creates the folder of maps and checks that files can be created in it.
fn check_writable(home: &Path) -> anyhow::Result<()> {
    let probe = home.join(format!(".{}.probe", std::process::id()));
    fs::create_dir_all(home).with_context(|| home.display().to_string())?;
    fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).with_context(|| home.display().to_string())
}

/// Writes the files of `conifer project`.
fn save(projected: &ProjectedSet<'_>, out: &Path, unfinished: UnfinishedMap<'_>) -> anyhow::Result<()> {
    let taken = |_: &Path| Err(anyhow!("the folder exists; expected a new one"));
    conifer_files::create_folder(out, taken, |fresh| projected.write(fresh))
        .with_context(|| out.display().to_string())?;
    unfinished.finish()
}

fn served(projected: &ProjectedSet<'_>, recipe: &LayerRecipe, is_unsaved: bool) -> ServedMap {
    let mut title = map_title(&recipe.name, Some(&recipe.by), recipe.factor);
    if is_unsaved {
        title.push_str(" · not saved");
    }
    ServedMap {
        name: recipe.name.clone(),
        title,
        // An index has fewer than 2^32 rows.
        rows: projected.rows().iter().map(|row| *row as u32).collect(),
        positions: (0..projected.rows().len()).map(|at| projected.position(at)).collect(),
        is_disc: projected.is_disc(),
        root: projected.root_position(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::Ordering;

    use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
    use conifer_geometry::Root;

    use super::*;
    use crate::commands::serve::maps::served_maps;

    fn recipe(by: &str, factor: Option<usize>, sample: Option<usize>) -> LayerRecipe {
        LayerRecipe { name: by.to_owned(), by: by.to_owned(), factor, sample }
    }

    /// A set of 40 rows in a folder, and its projections.
    fn set(folder: &Path, spec: ManifoldSpec) -> SetProjections {
        let len = 40;
        let points = (0..len * spec.dim).map(|at| 0.02 * ((at * 7) as f32).sin() * (at / spec.dim) as f32).collect();
        let ids = (0..len).map(|row| format!("r{row}")).collect();
        let set = EmbeddingSet::new(
            spec.clone(),
            Root::Origin,
            ids,
            vec![Modality::Image; len],
            points,
            Provenance::default(),
        );
        set.unwrap().save(&folder.join("-set")).unwrap();
        SetProjections::new(&folder.join("-set"), &spec, len)
    }

    fn fingerprint(it: &SetProjections) -> String {
        open_rows(&it.set).unwrap().fingerprint().unwrap()
    }

    #[test]
    fn methods_that_do_not_fit_are_refused_with_a_reason() {
        let of = |spec: ManifoldSpec, rows: usize| SetProjections::new(Path::new("absent"), &spec, rows);
        let fitting = |it: &SetProjections| -> Vec<String> {
            it.methods().into_iter().filter(|it| it.refused.is_none()).map(|it| it.by).collect()
        };
        let (sphere, lorentz) = (of(ManifoldSpec::sphere(3), 9), of(ManifoldSpec::lorentz(3, 1.0), 9));
        let product = of(ManifoldSpec::product_l1(2, 3, vec![1.0, 2.0]), 9);
        assert_eq!(fitting(&sphere), ["umap", "tangent-pca"]);
        assert_eq!(fitting(&lorentz), ["umap", "horopca", "cosne", "tangent-pca"]);
        assert_eq!(fitting(&product).len(), 5);
        assert!(fitting(&of(ManifoldSpec::lorentz(3, 1.0), 0)).is_empty());
        assert!(!fitting(&of(ManifoldSpec::lorentz(3, 1.0), 3)).contains(&"umap".to_owned()));
        let error = |it: &SetProjections, recipe: LayerRecipe| it.check(&recipe).unwrap_err();
        assert!(error(&sphere, recipe("horopca", None, None)).contains("sphere(dim 3); expected a hyperbolic one"));
        assert!(error(&lorentz, recipe("depth", None, None)).contains("the built-in disc is this map"));
        assert!(error(&lorentz, recipe("guess", None, None)).contains("`by` is `guess`; expected one of `umap`"));
        assert!(error(&lorentz, recipe("umap", Some(0), None)).contains("the space is no product"));
        assert!(error(&lorentz, recipe("umap", None, Some(3))).contains("`sample` is 3; expected at least 4"));
        assert!(
            error(&product, recipe("cosne", None, None)).contains("without `factor`; expected a factor from 0 to 1")
        );
        assert!(
            error(&product, recipe("cosne", Some(2), None)).contains("`factor` is 2; expected a number from 0 to 1")
        );
        product.check(&recipe("cosne", Some(1), None)).unwrap();
        product.check(&recipe("umap", None, None)).unwrap();
    }

    #[test]
    fn layers_are_saved_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let it = set(folder.path(), ManifoldSpec::product_l1(2, 3, vec![1.0, 2.0]));
        let ids = open_rows(&it.set).unwrap().ids;
        let steps = ["umap", "horopca", "cosne"];
        for (by, factor) in
            [("umap", None), ("horopca", Some(1)), ("cosne", Some(0)), ("tangent-pca", None), ("depth", Some(0))]
        {
            let watch = LayerWatch::default();
            let recipe = recipe(by, factor, Some(20));
            it.check(&recipe).unwrap();
            let made = it.make(&recipe, &fingerprint(&it), &watch).unwrap().unwrap();
            assert_eq!((made.unsaved, made.map.rows.len()), (None, 20), "{by}");
            let found = served_maps(&it.set, &[], &ids).unwrap().into_iter().find(|it| it.name == by).unwrap();
            assert_eq!(found, made.map);
            assert!(it.check(&recipe).unwrap_err().contains(&format!("a folder `maps/{by}`")));
            assert_eq!(format!("{watch:?}").contains("LayerStage"), steps.contains(&by), "{watch:?}");
        }
        let left: Vec<String> = fs::read_dir(maps_folder(&it.set))
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|it| it.starts_with('.'))
            .collect();
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn layer_of_a_set_that_cannot_be_written_is_kept_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let it = set(folder.path(), ManifoldSpec::lorentz(3, 1.0));
        fs::write(maps_folder(&it.set), "a file, so that the folder cannot be created").unwrap();
        let made = it.make(&recipe("umap", None, None), &fingerprint(&it), &LayerWatch::default()).unwrap().unwrap();
        assert!(made.map.title.ends_with("not saved") && made.map.positions.len() == 40, "{}", made.map.title);
        let why = made.unsaved.unwrap();
        assert!(why.contains("cannot be written") && !why.contains(&*folder.path().to_string_lossy()), "{why}");
    }

    #[test]
    fn stopped_layers_continue_unless_they_were_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let it = set(folder.path(), ManifoldSpec::lorentz(3, 1.0));
        let recipe = recipe("umap", None, None);
        let state = maps_folder(&it.set).join(".umap.unfinished");
        let watch = LayerWatch::default();
        watch.stop_flag().store(true, Ordering::Relaxed);
        assert_eq!(it.make(&recipe, &fingerprint(&it), &watch), Ok(None));
        assert!(!maps_folder(&it.set).join("umap").exists());
        let changed = it.make(&recipe, "another", &LayerWatch::default()).unwrap_err();
        assert!(changed.contains("the set has changed since the server started"), "{changed}");
        // A state of other settings is not used, and the message names no path.
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("settings.json"), r#"{"--by":"horopca"}"#).unwrap();
        let error = it.make(&recipe, &fingerprint(&it), &LayerWatch::default()).unwrap_err();
        assert!(error.contains("holds an unfinished map"), "{error}");
        assert!(!error.contains(&*folder.path().to_string_lossy()), "{error}");
    }
}
