//! Command-line arguments of `factors`.

use std::path::PathBuf;

use clap::Args;

use super::{DATA, MODEL, OUTPUT};

const SPECIALISATION: &str = "Specialisation";

#[derive(Args)]
pub(crate) struct FactorsArgs {
    /// Checkpoint folder, run folder (its latest checkpoint), or a published model, in a product space.
    pub(crate) checkpoint: PathBuf,
    /// Text file with a word per line; a family may follow after a tab: `dog<TAB>mammals`.
    #[arg(long, value_name = "FILE")]
    pub(crate) words: PathBuf,
    /// Two words that are also measured together; repeat it for several pairs.
    #[arg(long = "pair", value_name = "A,B")]
    pub(crate) pairs: Vec<String>,
    /// Text around a word; `{}` is replaced.
    #[arg(long, default_value = "a photo of a {}", help_heading = MODEL)]
    pub(crate) prompt: String,
    /// Text around two words; the first two `{}` are replaced.
    #[arg(long, default_value = "a photo of a {} and a {}", help_heading = MODEL)]
    pub(crate) pair_prompt: String,
    /// An embedding set of the same model: photos of each factor, and what conjunctions of the pairs find.
    #[arg(long, help_heading = DATA)]
    pub(crate) set: Option<PathBuf>,
    /// The data set of the photos in --set, to show them.
    #[arg(long, value_name = "KIND:PATH", help_heading = DATA)]
    pub(crate) photos: Option<String>,
    /// Use only this split of --photos.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Option of the data source of --photos as `name=value`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// New folder for factors.html, factors.csv, factors.svg, factors.png and factors.json.
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Number of permutations of the families.
    #[arg(long, default_value_t = 9_999, help_heading = SPECIALISATION)]
    pub(crate) permutations: usize,
    /// Seed of the permutations and of the photos that are drawn.
    #[arg(long, default_value_t = 0, help_heading = SPECIALISATION)]
    pub(crate) seed: u64,
}
