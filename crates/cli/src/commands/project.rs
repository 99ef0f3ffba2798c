//! `conifer project`: projects an embedding set to few dimensions and draws a map.

mod files;
mod neighbours;

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldSpec, Root, space};
use conifer_index::Snapshot;
use conifer_viz::PoincareDisc;
use conifer_viz::projection::{
    Cosne, CosneKernel, CosneSettings, HoroPca, HoroSettings, HyperbolicRows, PairSample, ProjectionCenter,
    ProjectionQuality, TangentPca, tangent_pca,
};
use serde_json::{Map, Value, json};

use self::neighbours::ProjectedPart;
use crate::arguments::{CenterArg, KernelArg, ProjectArgs, ProjectionArg, UmapTargetArg};
use crate::output::{note, print, print_json};
use crate::request::open_rows;
use crate::{progress, signal};

/// Gradient steps per component of the HoroPCA that reduces the rows before CO-SNE. Kept low, because there are many
/// components and CO-SNE does not need their exact directions.
const REDUCTION_STEPS: usize = 20;
/// Maximum number of pairs for this HoroPCA.
const REDUCTION_PAIRS: usize = 200_000;

/// Projected rows, ready to be written.
struct ProjectedSet<'a> {
    set: &'a Snapshot,
    /// Numbers of the rows shown, ascending.
    rows: Vec<usize>,
    dim: usize,
    /// `[N, dim]`.
    coordinates: Vec<f64>,
    /// [`conifer_geometry::Space::depth`] of each row, in the factor if one is projected.
    depth: Vec<f64>,
    root: Option<Vec<f64>>,
    is_disc: bool,
    /// Settings and measurements, for `projection.json`.
    report: Map<String, Value>,
}

pub(crate) fn run(args: ProjectArgs, as_json: bool) -> anyhow::Result<()> {
    let out = &args.out;
    let is_free = |_: &Path| bail!("the folder exists; expected a new one");
    ensure!(!out.exists(), "--out {} exists; expected a new folder", out.display());
    let set = open_rows(&args.set)?;
    ensure!(!set.is_empty(), "{}: the set has no rows, so there is nothing to project", args.set.display());
    set.check()?;
    let projected = match projection(&args, &set) {
        Err(error) if matches!(error.downcast_ref(), Some(conifer_viz::Error::Stopped)) => {
            if as_json {
                return print_json(&json!({ "out": out, "stopped": true }));
            }
            return print("stopped; nothing was written\n");
        }
        other => other.with_context(|| format!("projecting {}", args.set.display()))?,
    };
    conifer_files::create_folder(out, is_free, |fresh| projected.write(fresh))
        .with_context(|| out.display().to_string())?;
    if as_json {
        let mut report = projected.report;
        report.insert("out".into(), json!(out));
        return print_json(&report);
    }
    print(&format!("{}\n{} rows -> {}\n", projected.notes().join("\n"), projected.rows.len(), out.display()))
}

fn projection<'a>(args: &ProjectArgs, set: &'a Snapshot) -> anyhow::Result<ProjectedSet<'a>> {
    let rows = chosen_rows(set.len(), args.sample, args.seed)?;
    let row = |i: usize| set.row(rows[i]);
    let pairs = PairSample::new(rows.len(), args.pairs, args.seed);
    let by_default = if args.by == ProjectionArg::Horopca { CenterArg::Mean } else { CenterArg::Root };
    let center = args.center.unwrap_or(by_default);
    let mut report = Map::new();
    let mut put = |name: &str, value: Value| report.insert(name.to_owned(), value);
    put("format", json!("conifer projection"));
    put("by", json!(name_of(args.by)));
    put("dim", json!(args.dim));
    put("space", json!(set.spec));
    put("factor", json!(args.factor));
    if args.by != ProjectionArg::Umap {
        put("center", json!(if center == CenterArg::Mean { "mean" } else { "root" }));
    }
    put("rows", json!(rows.len()));
    put("rows_of_set", json!(set.len()));
    put("seed", json!(args.seed));
    let hyperboloid = || {
        let found = HyperbolicRows::of_factor(&set.spec, &set.root, args.factor, rows.len(), row)?;
        Ok::<_, conifer_viz::Error>(found.centred(match center {
            CenterArg::Mean => ProjectionCenter::Mean,
            CenterArg::Root => ProjectionCenter::Root,
        }))
    };
    let is_hyperboloid = set.spec.curv.len() == 1 || args.factor.is_some();
    ensure!(
        is_hyperboloid || center == CenterArg::Root || !matches!(args.by, ProjectionArg::TangentPca),
        "--center mean: the space is {}; expected a hyperboloid, or --center root",
        set.spec
    );
    let (coordinates, root, is_disc);
    match args.by {
        ProjectionArg::TangentPca => {
            let found = if is_hyperboloid {
                let hyperbolic = hyperboloid()?;
                let found = TangentPca::of_hyperboloid(&hyperbolic, args.dim, &pairs)?;
                found.quality.iter().for_each(|it| put_quality(&mut put, it, hyperbolic.scale()));
                found
            } else {
                let found = tangent_pca(&set.spec, &set.root, args.dim, &pairs, row)?;
                found.quality.iter().for_each(|it| put_quality(&mut put, it, 1.0));
                found
            };
            put("tangent_share", json!(found.tangent_share));
            (coordinates, root, is_disc) = (found.coordinates, Some(found.root), is_hyperboloid);
        }
        ProjectionArg::Depth => {
            ensure!(args.dim == 2, "--dim is {}; expected 2 for --by depth, which draws a disc", args.dim);
            ensure!(center == CenterArg::Root, "--center is mean; expected root for --by depth");
            let (spec, root_of) = part_of(set, args.factor)?;
            let width = spec.dim;
            let start = args.factor.unwrap_or(0) * width;
            let part = |i: usize| Cow::Owned(set.row(rows[i])[start..start + width].to_vec());
            let disc = PoincareDisc::new(&spec, &root_of, rows.len(), part)?;
            let map = disc.map(rows.len(), part, rows.len());
            coordinates = map.x.iter().zip(&map.y).flat_map(|(x, y)| [*x, *y]).collect();
            (root, is_disc) = (Some(vec![0.0; 2]), true);
        }
        ProjectionArg::Horopca => {
            let hyperbolic = hyperboloid()?;
            let found = horopca(&hyperbolic, args.dim, args.steps, &pairs)?;
            put("steps", json!(found.steps));
            put_quality(&mut put, &found.quality, hyperbolic.scale());
            let ball = |point: Vec<f64>| {
                let time = (1.0 + point.iter().map(|v| v * v).sum::<f64>()).sqrt();
                point.into_iter().map(|v| v / (1.0 + time)).collect()
            };
            root = Some(ball(found.project(hyperbolic.root())));
            (coordinates, is_disc) = (found.ball(), true);
        }
        ProjectionArg::Cosne => {
            ensure!(args.dim == 2, "--dim is {}; expected 2 for --by cosne", args.dim);
            let mut hyperbolic = hyperboloid()?;
            // Check the number of rows before the long reduction.
            ensure!(
                rows.len() <= conifer_viz::projection::MAX_COSNE_ROWS,
                "rows: {}; expected at most {} for --by cosne; draw a sample (--sample N)",
                rows.len(),
                conifer_viz::projection::MAX_COSNE_ROWS
            );
            if let Some(count) = args.components {
                let few = PairSample::new(rows.len(), REDUCTION_PAIRS, args.seed);
                let reduced = horopca(&hyperbolic, count, REDUCTION_STEPS, &few).context("--components")?;
                put("components", json!(count));
                put("components_explained", json!(reduced.quality.explained));
                hyperbolic = HyperbolicRows::from_unit(count, reduced.coordinates)?;
            }
            let kernel = match args.kernel {
                KernelArg::Paper => CosneKernel::Paper,
                KernelArg::Torchdr => CosneKernel::TorchDr,
            };
            let settings = CosneSettings {
                perplexity: args.perplexity,
                kernel,
                gamma: args.gamma.unwrap_or(if kernel == CosneKernel::Paper { 0.1 } else { 2.0 }),
                norm_weight: args.norm_weight,
                iterations: args.iterations,
                exaggerated: args.iterations / 4,
                exaggeration: 4.0,
                seed: args.seed,
            };
            let found = watched("iterations", |observer| Cosne::fit(&hyperbolic, &settings, observer))?;
            put("kernel", json!(if kernel == CosneKernel::Paper { "paper" } else { "torchdr" }));
            put("gamma", json!(settings.gamma));
            put("perplexity", json!(found.perplexity));
            put("norm_weight", json!(settings.norm_weight));
            put("iterations", json!(settings.iterations));
            put("start_loss", json!(found.start_loss));
            put("loss", json!(found.loss));
            put("divergence", json!(found.divergence));
            (coordinates, is_disc) = (found.positions, true);
            root = (center == CenterArg::Root).then(|| vec![0.0; 2]);
        }
        ProjectionArg::Umap => {
            ensure!(args.dim == 2, "--dim is {}; expected 2 for --by umap", args.dim);
            ensure!(
                args.center.is_none(),
                "--center is given; expected none for --by umap, which places neighbourhoods"
            );
            let part = ProjectedPart::new(set, &rows, args.factor)?;
            let found = part.umap(args)?;
            put("neighbours", json!(neighbours::umap_neighbours(args, rows.len())?));
            put("min_dist", json!(args.min_dist));
            put("epochs", json!(found.epochs));
            put("curve", json!(found.curve));
            put("neighbours_kept", json!(found.neighbours_kept));
            is_disc = args.target == UmapTargetArg::Disc;
            put("target", json!(if is_disc { "disc" } else { "plane" }));
            (coordinates, root) = (found.positions, None);
        }
    }
    let (spec, root_of) = part_of(set, args.factor)?;
    let geometry = space::<f64>(&spec)?;
    let start = args.factor.unwrap_or(0) * spec.dim;
    let depth_of = |i: &usize| {
        let part: Vec<f64> = set.row(*i)[start..start + spec.dim].iter().map(|v| f64::from(*v)).collect();
        geometry.depth(&part, &root_of)
    };
    let depth = rows.iter().map(depth_of).collect();
    Ok(ProjectedSet { set, rows, dim: args.dim, coordinates, depth, root, is_disc, report })
}

/// Variance at the curvature of the space: distances at curvature -1 are `scale` times as long.
fn put_quality(put: &mut impl FnMut(&str, Value) -> Option<Value>, found: &ProjectionQuality, scale: f64) {
    put("variance", json!(found.variance / (scale * scale)));
    put("total_variance", json!(found.total_variance / (scale * scale)));
    put("explained", json!(found.explained));
    put("distortion", json!(found.distortion));
    put("pairs", json!(found.pairs));
}

fn horopca(rows: &HyperbolicRows, dim: usize, steps: usize, pairs: &PairSample) -> anyhow::Result<HoroPca> {
    let settings = HoroSettings { dim, steps, start: None };
    watched("steps", |observer| HoroPca::fit(rows, &settings, pairs, observer))
}

/// Runs a projection with a progress bar; Ctrl-C stops it.
fn watched<T>(
    what: &str,
    fit: impl FnOnce(&mut dyn FnMut(usize, usize) -> bool) -> conifer_viz::Result<T>,
) -> anyhow::Result<T> {
    let stop = signal::stop_flag()?;
    let bar = progress::bar(what, 0);
    let found = fit(&mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        !stop.load(std::sync::atomic::Ordering::Relaxed)
    });
    bar.finish_and_clear();
    Ok(found?)
}

/// The space and root of one factor, or of the whole set.
fn part_of(set: &Snapshot, factor: Option<usize>) -> anyhow::Result<(ManifoldSpec, Root)> {
    let Some(factor) = factor else { return Ok((set.spec.clone(), set.root.clone())) };
    let curv = set.spec.curv.get(factor).with_context(|| {
        format!("--factor is {factor}; expected a number below {}, the factors of {}", set.spec.curv.len(), set.spec)
    })?;
    let width = set.spec.factor_dim();
    let root = match &set.root {
        Root::Origin => Root::Origin,
        Root::Point(point) => Root::Point(point[factor * width..(factor + 1) * width].to_vec()),
    };
    Ok((ManifoldSpec::lorentz(width, *curv), root))
}

/// Rows drawn without replacement, ascending; all rows if there are no more than `sample`.
pub(super) fn chosen_rows(len: usize, sample: Option<usize>, seed: u64) -> anyhow::Result<Vec<usize>> {
    let mut rows: Vec<usize> = (0..len).collect();
    let Some(count) = sample else { return Ok(rows) };
    ensure!(count > 0, "--sample is 0; expected at least 1");
    if count >= len {
        note(&format!("--sample is {count}; the set has {len} rows, and all are used"));
        return Ok(rows);
    }
    let mut random = SplitMix::new(seed);
    for at in 0..count {
        let other = at + ((random.uniform() * (len - at) as f64) as usize).min(len - at - 1);
        rows.swap(at, other);
    }
    rows.truncate(count);
    rows.sort_unstable();
    Ok(rows)
}

fn name_of(by: ProjectionArg) -> &'static str {
    match by {
        ProjectionArg::TangentPca => "tangent-pca",
        ProjectionArg::Depth => "depth",
        ProjectionArg::Horopca => "horopca",
        ProjectionArg::Cosne => "cosne",
        ProjectionArg::Umap => "umap",
    }
}
