//! Command-line arguments of `store` and `export`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use conifer_index::store::Duplicates;

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Create a store and append one or more embedding sets to it.
    Create {
        /// Folder of the new store; it must not exist yet.
        store: PathBuf,
        /// Embedding sets to append; all must have the same space and root.
        #[arg(required = true)]
        sets: Vec<PathBuf>,
        /// Number format of the stored embeddings.
        #[arg(long, value_enum, default_value_t = StoreElementArg::F32)]
        dtype: StoreElementArg,
        #[command(flatten)]
        repeated: DuplicateArgs,
    },
    /// Append embedding sets to a store. Rows whose id and modality (photo, text, box, phrase) are already in the store
    /// are rejected.
    Append {
        /// The store folder.
        store: PathBuf,
        /// Embedding sets to append. Their space and root must be those of the store.
        #[arg(required = true)]
        sets: Vec<PathBuf>,
        #[command(flatten)]
        repeated: DuplicateArgs,
    },
    /// Delete rows by id or by row number.
    Delete {
        /// The store folder.
        store: PathBuf,
        /// Delete all rows with this id; may be repeated.
        #[arg(long)]
        id: Vec<String>,
        /// File with one id per line.
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
        /// Row numbers to delete, as printed by `conifer --json search`, in the version given with --of.
        #[arg(long, value_delimiter = ',', requires = "of", conflicts_with_all = ["id", "ids"])]
        rows: Vec<usize>,
        /// Store version that the numbers of --rows refer to.
        #[arg(long, value_name = "VERSION", requires = "rows")]
        of: Option<u64>,
    },
    /// Merge all rows into one segment without the deleted rows, and remove old versions.
    Compact {
        /// The store folder.
        store: PathBuf,
        /// Number of newest versions to keep.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
    /// Read all files of all versions, and report damaged files and files that belong to no version.
    Check {
        /// The store folder.
        store: PathBuf,
    },
    /// List the versions of the store.
    Versions {
        /// The store folder.
        store: PathBuf,
    },
    /// Show the newest version: space, root, model, rows by modality, columns.
    Info {
        /// The store folder.
        store: PathBuf,
    },
}

/// How to handle rows that are already in the store.
#[derive(Args)]
pub(crate) struct DuplicateArgs {
    /// Skip rows whose id and modality (photo, text, box, phrase) are already in the store.
    #[arg(long)]
    pub(crate) if_absent: bool,
    /// Append all rows, including those that are already in the store.
    #[arg(long, conflicts_with = "if_absent")]
    pub(crate) allow_duplicates: bool,
}

impl DuplicateArgs {
    pub(crate) fn duplicates(&self) -> Duplicates {
        match (self.if_absent, self.allow_duplicates) {
            (true, _) => Duplicates::Skip,
            (_, true) => Duplicates::Keep,
            _ => Duplicates::Refuse,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreElementArg {
    /// 32-bit, as computed.
    F32,
    /// 16-bit: 11 significant bits, magnitudes up to 65,504.
    F16,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The embedding set or store.
    pub(crate) set: PathBuf,
    /// Target system; docs/search.md compares them.
    #[arg(long, value_enum)]
    pub(crate) to: EngineArg,
    /// Folder to write to; it must not exist yet.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Maximum distance from the origin, in each factor, of rows that can be added to the export later (default: rows
    /// whose vectors are at most 10 % longer than the longest one can be added).
    #[arg(long, value_name = "DISTANCE")]
    pub(crate) radius: Option<f64>,
    /// Name of the collection or table in the target system.
    #[arg(long, default_value = "conifer")]
    pub(crate) name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// JSON Lines with request bodies for Qdrant's REST API.
    Qdrant,
    /// Parquet, with a Python script that imports it as a LanceDB table.
    Lancedb,
    /// Parquet, for any other system: DuckDB, Spark, pgvector, Vespa.
    Parquet,
}
