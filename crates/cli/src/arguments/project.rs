//! Command-line arguments of `project`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const HOROPCA: &str = "HoroPCA";
const COSNE: &str = "CO-SNE";
const UMAP: &str = "UMAP";

#[derive(Args)]
pub(crate) struct ProjectArgs {
    /// The embedding set, the store, or a run folder with embeddings.
    pub(crate) set: PathBuf,
    /// The projection.
    #[arg(long, value_enum, default_value_t = ProjectionArg::TangentPca)]
    pub(crate) by: ProjectionArg,
    /// Number of coordinates; `cosne`, `umap` and `depth` have two. The map shows the first two.
    #[arg(long, default_value_t = 2)]
    pub(crate) dim: usize,
    /// Project this factor of a product space, counted from 0; `horopca` and `cosne` need it for a product, and
    /// `umap` compares whole points without it.
    #[arg(long, value_name = "I")]
    pub(crate) factor: Option<usize>,
    /// Point at the centre of the projection (default: mean for `horopca`, else root).
    #[arg(long, value_enum)]
    pub(crate) center: Option<CenterArg>,
    /// Use only N rows, drawn without replacement.
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<usize>,
    /// Random seed: row sample, pair sample, start positions, and UMAP's negative samples.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Maximum number of pairs of rows over which variance and distortion are averaged, but at least one pair per row.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) pairs: usize,
    /// New folder for points.csv, points.parquet, map.svg, map.png, map.html, map.json and projection.json.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Seconds between two states of an unfinished `horopca`, `cosne` or `umap`, which the same command continues after it
    /// was stopped or killed; 0: after every step.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) save_every: u64,
    /// Discard the state that an earlier command left, and start over.
    #[arg(long)]
    pub(crate) restart: bool,
    /// Maximum number of gradient steps per component.
    #[arg(long, default_value_t = 100, help_heading = HOROPCA)]
    pub(crate) steps: usize,
    /// Number of HoroPCA components to which the rows are reduced before CO-SNE; HyCoCLIP uses 50 (default: none).
    #[arg(long, value_name = "K", help_heading = COSNE)]
    pub(crate) components: Option<usize>,
    /// Effective number of neighbours (default: 30, or a third of the other rows if that is less).
    #[arg(long, help_heading = COSNE)]
    pub(crate) perplexity: Option<f64>,
    /// Kernel of the distances in the disc.
    #[arg(long, value_enum, default_value_t = KernelArg::Paper, help_heading = COSNE)]
    pub(crate) kernel: KernelArg,
    /// Scale of the kernel (default: 0.1 for `paper`, 2 for `torchdr`).
    #[arg(long, help_heading = COSNE)]
    pub(crate) gamma: Option<f64>,
    /// Weight of the term that keeps the distances to the root.
    #[arg(long, default_value_t = 1.0, help_heading = COSNE)]
    pub(crate) norm_weight: f64,
    /// Largest radius of a group of points, relative to its distance, that counts as one place in the sums over all pairs;
    /// 0: all pairs, for up to 10,000 rows (default: 0 up to 10,000 rows, else 0.3).
    #[arg(long, allow_negative_numbers = true, help_heading = COSNE)]
    pub(crate) theta: Option<f64>,
    /// Number of iterations; the first quarter has early exaggeration.
    #[arg(long, default_value_t = 500, help_heading = COSNE)]
    pub(crate) iterations: usize,
    /// Number of nearest rows that count as neighbours, the row itself included (default: 15, or all rows if there are
    /// fewer).
    #[arg(long, value_name = "K", help_heading = UMAP)]
    pub(crate) neighbours: Option<usize>,
    /// Distance in the map up to which rows count as equally close; 0 to below 3.
    #[arg(long, default_value_t = 0.1, allow_negative_numbers = true, help_heading = UMAP)]
    pub(crate) min_dist: f64,
    /// Number of epochs (default: 500 up to 10,000 rows, else 200).
    #[arg(long, help_heading = UMAP)]
    pub(crate) epochs: Option<usize>,
    /// Surface of the map.
    #[arg(long, value_enum, default_value_t = UmapTargetArg::Plane, help_heading = UMAP)]
    pub(crate) target: UmapTargetArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProjectionArg {
    /// PCA of the tangent vectors at the root; every space.
    TangentPca,
    /// Radius from the distance to the root, angle from the principal directions; every space.
    Depth,
    /// Horospherical projections that keep the most variance (Chami et al. 2021); hyperbolic spaces.
    Horopca,
    /// Neighbourhoods and distances to the root (Guo et al. 2022); hyperbolic spaces.
    Cosne,
    /// Neighbourhoods by geodesic distance (McInnes et al. 2018); every space.
    Umap,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CenterArg {
    /// The Frechet mean of the rows.
    Mean,
    /// The root of the set.
    Root,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KernelArg {
    /// gamma / (d^2 + gamma^2), with the distance d in the disc, as in the paper.
    Paper,
    /// gamma / (d + gamma^2), as in TorchDR.
    Torchdr,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UmapTargetArg {
    /// The plane.
    Plane,
    /// The Poincare disc.
    Disc,
}
