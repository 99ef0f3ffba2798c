//! `conifer project`: projects an embedding set to few dimensions and draws a map.

mod files;
mod neighbours;
mod stored_map;
mod unfinished;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldSpec, Root, space};
use conifer_index::Snapshot;
use conifer_viz::PoincareDisc;
use conifer_viz::projection::{
    Cosne, CosneKernel, CosneMethod, CosneSettings, HoroPca, HoroSettings, HyperbolicRows, MAX_COSNE_ROWS, PairSample,
    PointMap, ProjectionCenter, ProjectionQuality, TangentPca, tangent_pca,
};
use serde_json::{Map, Value, json};

pub(super) use self::neighbours::ProjectedPart;
use self::stored_map::MapSurface;
use self::stored_map::Placement;
pub(super) use self::stored_map::StoredMap;
pub(super) use self::unfinished::UnfinishedMap;
use crate::arguments::{CenterArg, KernelArg, ProjectArgs, ProjectionArg, UmapTargetArg};
use crate::output::{note, print, print_json};
use crate::request::open_rows;

/// Gradient steps per component of the HoroPCA that reduces the rows before CO-SNE. Kept low, because there are many
/// components and CO-SNE does not need their exact directions.
const REDUCTION_STEPS: usize = 20;
/// Maximum number of pairs for this HoroPCA.
const REDUCTION_PAIRS: usize = 200_000;
/// Default of `--theta` for more than [`MAX_COSNE_ROWS`] rows.
const THETA: f64 = 0.3;
/// Number of nearest rows between which a query is placed in a map of CO-SNE.
const PLACED_BY: usize = 15;
/// Number of neighbours of CO-SNE's tree, relative to the perplexity. In many dimensions the similarities fall slowly with
/// the distance: with three times the perplexity a map keeps fewer neighbours (docs/performance.md).
const NEIGHBOURS_PER_PERPLEXITY: f64 = 10.0;

/// Projected rows, ready to be written.
pub(super) struct ProjectedSet<'a> {
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
    map: StoredMap,
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
    let fingerprint = set.fingerprint()?;
    let every = Duration::from_secs(args.save_every);
    let unfinished = UnfinishedMap::open(out, settings(&args, &fingerprint), every, args.restart)?;
    let projected = match projection(&args, &set, fingerprint, &unfinished) {
        Err(error) if matches!(error.downcast_ref(), Some(conifer_viz::Error::Stopped)) => {
            let is_saved = unfinished.is_saved();
            if as_json {
                return print_json(&json!({ "out": out, "stopped": true, "saved": is_saved }));
            }
            return print(if is_saved {
                "stopped; repeat the command to continue\n"
            } else {
                "stopped; nothing was written\n"
            });
        }
        other => other.with_context(|| format!("projecting {}", args.set.display()))?,
    };
    conifer_files::create_folder(out, is_free, |fresh| projected.write(fresh))
        .with_context(|| out.display().to_string())?;
    unfinished.finish()?;
    if as_json {
        let mut report = projected.report;
        report.insert("out".into(), json!(out));
        return print_json(&report);
    }
    print(&format!("{}\n{} rows -> {}\n", projected.notes().join("\n"), projected.rows.len(), out.display()))
}

/// The settings that determine the coordinates, by name.
pub(super) fn settings(args: &ProjectArgs, fingerprint: &str) -> BTreeMap<String, String> {
    fn text(value: Option<impl ToString>) -> String {
        value.map_or_else(|| "the default".to_owned(), |it| it.to_string())
    }
    let center = args.center.map(|it| if it == CenterArg::Mean { "mean" } else { "root" });
    let mut all = vec![
        ("the version of conifer", env!("CARGO_PKG_VERSION").to_owned()),
        ("the sha256 of the set", fingerprint.to_owned()),
        ("--by", name_of(args.by).to_owned()),
        ("--dim", args.dim.to_string()),
        ("--factor", text(args.factor)),
        ("--center", text(center)),
        ("--sample", text(args.sample)),
        ("--seed", args.seed.to_string()),
    ];
    match args.by {
        ProjectionArg::TangentPca | ProjectionArg::Depth => {}
        ProjectionArg::Horopca => {
            all.extend([("--steps", args.steps.to_string()), ("--pairs", args.pairs.to_string())]);
        }
        ProjectionArg::Cosne => all.extend([
            ("--components", text(args.components)),
            ("--perplexity", text(args.perplexity)),
            ("--kernel", kernel_name(args.kernel).to_owned()),
            ("--gamma", text(args.gamma)),
            ("--norm-weight", args.norm_weight.to_string()),
            ("--iterations", args.iterations.to_string()),
            ("--theta", text(args.theta)),
        ]),
        ProjectionArg::Umap => all.extend([
            ("--neighbours", text(args.neighbours)),
            ("--min-dist", args.min_dist.to_string()),
            ("--epochs", text(args.epochs)),
            ("--target", if args.target == UmapTargetArg::Disc { "disc" } else { "plane" }.to_owned()),
        ]),
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Computes a projection. The result depends only on `args` and the set.
pub(super) fn projection<'a>(
    args: &ProjectArgs,
    set: &'a Snapshot,
    fingerprint: String,
    unfinished: &UnfinishedMap<'_>,
) -> anyhow::Result<ProjectedSet<'a>> {
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
    let (coordinates, root, is_disc, placement): (_, _, _, Placement);
    match args.by {
        ProjectionArg::TangentPca => {
            let found;
            if is_hyperboloid {
                let hyperbolic = hyperboloid()?;
                found = TangentPca::of_hyperboloid(&hyperbolic, args.dim, &pairs)?;
                found.quality.iter().for_each(|it| put_quality(&mut put, it, hyperbolic.scale()));
                let (center, axes) = (hyperbolic.center().to_vec(), found.axes.clone());
                placement = PointMap::TangentHyperboloid { center, axes }.into();
            } else {
                found = tangent_pca(&set.spec, &set.root, args.dim, &pairs, row)?;
                found.quality.iter().for_each(|it| put_quality(&mut put, it, 1.0));
                placement = PointMap::Tangent { axes: found.axes.clone() }.into();
            }
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
            placement = disc.point_map().into();
            coordinates = map.x.iter().zip(&map.y).flat_map(|(x, y)| [*x, *y]).collect();
            (root, is_disc) = (Some(vec![0.0; 2]), true);
        }
        ProjectionArg::Horopca => {
            let hyperbolic = hyperboloid()?;
            let found = horopca(&hyperbolic, args.dim, args.steps, &pairs, unfinished)?;
            put("steps", json!(found.steps));
            put_quality(&mut put, &found.quality, hyperbolic.scale());
            let ball = |point: Vec<f64>| {
                let time = (1.0 + point.iter().map(|v| v * v).sum::<f64>()).sqrt();
                point.into_iter().map(|v| v / (1.0 + time)).collect()
            };
            root = Some(ball(found.project(hyperbolic.root())));
            (coordinates, is_disc) = (found.ball(), true);
            placement =
                PointMap::Horospherical { center: hyperbolic.center().to_vec(), directions: found.directions }.into();
        }
        ProjectionArg::Cosne => {
            ensure!(args.dim == 2, "--dim is {}; expected 2 for --by cosne", args.dim);
            let mut hyperbolic = hyperboloid()?;
            let theta = args.theta.unwrap_or(if rows.len() > MAX_COSNE_ROWS { THETA } else { 0.0 });
            ensure!((0.0..1.0).contains(&theta), "--theta is {theta}; expected 0 to below 1");
            ensure!(
                theta > 0.0 || rows.len() <= MAX_COSNE_ROWS,
                "rows: {}; expected at most {MAX_COSNE_ROWS} for --theta 0; leave it out, or draw a sample (--sample N)",
                rows.len()
            );
            // Check the settings before the long reduction.
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
            let perplexity = settings.checked_perplexity(rows.len())?;
            if let Some(count) = args.components {
                let few = PairSample::new(rows.len(), REDUCTION_PAIRS, args.seed);
                let reduced = horopca(&hyperbolic, count, REDUCTION_STEPS, &few, unfinished).context("--components")?;
                put("components", json!(count));
                put("components_explained", json!(reduced.quality.explained));
                hyperbolic = HyperbolicRows::from_unit(count, reduced.coordinates)?;
            }
            let neighbours = match theta {
                0.0 => None,
                _ => {
                    let count = ((NEIGHBOURS_PER_PERPLEXITY * perplexity).ceil() as usize).min(rows.len() - 1);
                    Some(ProjectedPart::of_hyperboloid(&hyperbolic)?.neighbours(count, unfinished)?)
                }
            };
            let method = match &neighbours {
                None => CosneMethod::Exact,
                Some(neighbours) => CosneMethod::Tree { neighbours, theta },
            };
            let found = unfinished.stage("cosne", "iterations", |progress| {
                Ok(Cosne::fit_resumable(&hyperbolic, method, &settings, progress)?)
            })?;
            put("kernel", json!(kernel_name(args.kernel)));
            put("theta", json!(theta));
            put("gamma", json!(settings.gamma));
            put("perplexity", json!(found.perplexity));
            put("norm_weight", json!(settings.norm_weight));
            put("iterations", json!(settings.iterations));
            put("start_loss", json!(found.start_loss));
            put("loss", json!(found.loss));
            put("divergence", json!(found.divergence));
            (coordinates, is_disc) = (found.positions, true);
            root = (center == CenterArg::Root).then(|| vec![0.0; 2]);
            placement = Placement::Neighbours { count: PLACED_BY.min(rows.len()), surface: MapSurface::Disc };
        }
        ProjectionArg::Umap => {
            ensure!(args.dim == 2, "--dim is {}; expected 2 for --by umap", args.dim);
            ensure!(
                args.center.is_none(),
                "--center is given; expected none for --by umap, which places neighbourhoods"
            );
            let part = ProjectedPart::new(set, &rows, args.factor)?;
            let found = part.umap(args, unfinished)?;
            let count = neighbours::umap_neighbours(args, rows.len())?;
            put("neighbours", json!(count));
            put("min_dist", json!(args.min_dist));
            put("epochs", json!(found.epochs));
            put("curve", json!(found.curve));
            put("neighbours_kept", json!(found.neighbours_kept));
            is_disc = args.target == UmapTargetArg::Disc;
            put("target", json!(if is_disc { "disc" } else { "plane" }));
            (coordinates, root) = (found.positions, None);
            // The row itself counts as a neighbour, a query does not.
            let surface = if is_disc { MapSurface::Disc } else { MapSurface::Plane };
            placement = Placement::Neighbours { count: count - 1, surface };
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
    let map = StoredMap {
        version: StoredMap::VERSION,
        by: name_of(args.by).to_owned(),
        space: set.spec.clone(),
        factor: args.factor,
        set: fingerprint,
        dim: args.dim,
        placement,
    };
    Ok(ProjectedSet { set, rows, dim: args.dim, coordinates, depth, root, is_disc, map, report })
}

/// Variance at the curvature of the space: distances at curvature -1 are `scale` times as long.
fn put_quality(put: &mut impl FnMut(&str, Value) -> Option<Value>, found: &ProjectionQuality, scale: f64) {
    put("variance", json!(found.variance / (scale * scale)));
    put("total_variance", json!(found.total_variance / (scale * scale)));
    put("explained", json!(found.explained));
    put("distortion", json!(found.distortion));
    put("pairs", json!(found.pairs));
}

fn horopca(
    rows: &HyperbolicRows,
    dim: usize,
    steps: usize,
    pairs: &PairSample,
    unfinished: &UnfinishedMap<'_>,
) -> anyhow::Result<HoroPca> {
    let settings = HoroSettings { dim, steps, start: None };
    unfinished.stage("horopca", "steps", |progress| Ok(HoroPca::fit_resumable(rows, &settings, pairs, progress)?))
}

/// The space and root of one factor, or of the whole set.
pub(super) fn part_of(set: &Snapshot, factor: Option<usize>) -> anyhow::Result<(ManifoldSpec, Root)> {
    let Some(factor) = factor else { return Ok((set.spec.clone(), set.root.clone())) };
    let curv = set.spec.curv.get(factor).with_context(|| {
        format!("factor: {factor}; expected a number below {}, the factors of {}", set.spec.curv.len(), set.spec)
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

fn kernel_name(kernel: KernelArg) -> &'static str {
    match kernel {
        KernelArg::Paper => "paper",
        KernelArg::Torchdr => "torchdr",
    }
}
