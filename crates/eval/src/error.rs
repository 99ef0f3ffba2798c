/// What can go wrong while measuring.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data set lacks something that the benchmark needs.
    #[error("{benchmark}: {missing} is missing; {expected}")]
    Missing {
        /// Name of the benchmark.
        benchmark: &'static str,
        /// What is missing.
        missing: String,
        /// What would do.
        expected: String,
    },
    /// Samples that cannot be used. Nothing is dropped in silence: the sample set is part of the number.
    #[error(
        "{benchmark}: {count} of {total} samples cannot be used, first: {first}; mend or remove them, the result would not be comparable"
    )]
    Broken {
        /// Name of the benchmark.
        benchmark: &'static str,
        /// How many samples failed.
        count: usize,
        /// How many there are.
        total: usize,
        /// The first failure, in words.
        first: String,
    },
    /// An argument of a metric or an option has no meaning.
    #[error("{name} is {found}; expected {expected}")]
    Argument {
        /// Name of the argument.
        name: String,
        /// The value given.
        found: String,
        /// What is allowed.
        expected: String,
    },
    /// A label that the tree, or the data set's list of classes, does not know.
    #[error("label `{label}` is no {known} ({count} known, e.g. `{example}`)")]
    UnknownLabel {
        /// The label.
        label: String,
        /// What it should be.
        known: &'static str,
        /// How many there are.
        count: usize,
        /// One that exists, to show the spelling.
        example: String,
    },
    /// A file of results that cannot be used.
    #[error("{file}: {faults}")]
    Results {
        /// The file.
        file: String,
        /// What is wrong, each with the number of its line.
        faults: String,
    },
    /// The embedder failed.
    #[error("embedding failed: {0}")]
    Embedder(String),
    /// A space was asked for something it cannot do.
    #[error(transparent)]
    Space(#[from] conifer_space::Error),
    /// A search was asked for something it cannot do.
    #[error(transparent)]
    Index(#[from] conifer_index::Error),
    /// The data crate failed.
    #[error(transparent)]
    Data(#[from] conifer_data::Error),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
