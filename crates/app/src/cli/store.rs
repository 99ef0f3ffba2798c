//! What can be typed to keep embeddings in a store, and to take them elsewhere.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use conifer_index::store::Duplicates;

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Make a store for points like those of a set, and put this set (and others) into it.
    Create {
        /// The store: a folder that is not there yet.
        store: PathBuf,
        /// Embedding sets of one space and root.
        #[arg(required = true)]
        sets: Vec<PathBuf>,
        /// How points are kept.
        #[arg(long, value_enum, default_value_t = KeptAs::F32)]
        dtype: KeptAs,
        #[command(flatten)]
        repeated: Repeated,
    },
    /// Add the rows of embedding sets. Rows whose id and kind (photo, text, box, phrase) the store has already are refused.
    Append {
        /// The store.
        store: PathBuf,
        /// Embedding sets of its space and root.
        #[arg(required = true)]
        sets: Vec<PathBuf>,
        #[command(flatten)]
        repeated: Repeated,
    },
    /// Delete rows, by id or by number.
    Delete {
        /// The store.
        store: PathBuf,
        /// All rows with this id; may be given several times.
        #[arg(long)]
        id: Vec<String>,
        /// A file with an id a line.
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
        /// Rows by number, as `conifer --json search` gives them, of the version --of.
        #[arg(long, value_delimiter = ',', requires = "of", conflicts_with_all = ["id", "ids"])]
        rows: Vec<usize>,
        /// The version in which --rows count.
        #[arg(long, value_name = "VERSION", requires = "rows")]
        of: Option<u64>,
    },
    /// Put all rows into one piece without the deleted ones, and remove old versions.
    Compact {
        /// The store.
        store: PathBuf,
        /// Versions that stay, the newest ones.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
    /// Read every byte of every version, and name the files that are not what was written, and those that are in no version.
    Check {
        /// The store.
        store: PathBuf,
    },
    /// The versions that are there.
    Versions {
        /// The store.
        store: PathBuf,
    },
    /// What the newest version holds: space, root, model, rows by modality, columns.
    Info {
        /// The store.
        store: PathBuf,
    },
}

/// What happens to rows that the store has already.
#[derive(Args)]
pub(crate) struct Repeated {
    /// Leave out rows whose id and kind (photo, text, box, phrase) the store has already.
    #[arg(long)]
    pub(crate) if_absent: bool,
    /// Add all rows, also those that the store has already.
    #[arg(long, conflicts_with = "if_absent")]
    pub(crate) allow_duplicates: bool,
}

impl Repeated {
    pub(crate) fn duplicates(&self) -> Duplicates {
        match (self.if_absent, self.allow_duplicates) {
            (true, _) => Duplicates::Skip,
            (_, true) => Duplicates::Keep,
            _ => Duplicates::Refuse,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeptAs {
    /// As computed.
    F32,
    /// Half the size, 11 significant bits, numbers up to 65,504.
    F16,
}

#[derive(Args)]
pub(crate) struct ExportSet {
    /// The embedding set or store.
    pub(crate) set: PathBuf,
    /// The system that is to read it: docs/search.md says which to take when.
    #[arg(long, value_enum)]
    pub(crate) to: Engine,
    /// Folder to write to, which must not be there yet.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Distance from the origin up to which rows can be added later without exporting anew (default: the farthest row and a tenth).
    #[arg(long, value_name = "DISTANCE")]
    pub(crate) radius: Option<f64>,
    /// Name of the collection or table.
    #[arg(long, default_value = "conifer")]
    pub(crate) name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// JSON Lines: requests for Qdrant's REST API.
    Qdrant,
    /// Parquet, and the lines of Python that make it a LanceDB table.
    Lancedb,
    /// Parquet, for anything else: DuckDB, Spark, pgvector, Vespa.
    Parquet,
}
