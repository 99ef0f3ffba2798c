/// Errors of the evaluation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data set lacks an input that the benchmark needs.
    #[error("{benchmark}: {missing} is missing; {expected}")]
    Missing {
        /// Name of the benchmark.
        benchmark: &'static str,
        /// Name of the missing input.
        missing: String,
        /// What the benchmark requires, or how to provide it.
        expected: String,
    },
    /// Some samples cannot be used. They are not dropped, because the number depends on the set of samples.
    #[error(
        "{benchmark}: {count} of {total} samples cannot be used, first: {first}; repair them or remove them from the data set; they are not skipped, because the result would not be comparable"
    )]
    Broken {
        /// Name of the benchmark.
        benchmark: &'static str,
        /// Number of samples that failed.
        count: usize,
        /// Number of samples.
        total: usize,
        /// Description of the first failure.
        first: String,
    },
    /// The value of an argument or option is invalid.
    #[error("{name} is {found}; expected {expected}")]
    Invalid {
        /// Name of the argument.
        name: String,
        /// The value given.
        found: String,
        /// What is allowed.
        expected: String,
    },
    /// A label is not in the tree, or not in the class list of the data set.
    #[error("label `{label}` is not a {known} ({count} known, e.g. `{example}`)")]
    UnknownLabel {
        /// The label.
        label: String,
        /// Expected kind of label, e.g. `node of the class tree`.
        known: &'static str,
        /// Number of known labels.
        count: usize,
        /// A known label, to show the spelling.
        example: String,
    },
    /// A result file is invalid.
    #[error("{file}: {faults}")]
    Results {
        /// Name of the file.
        file: String,
        /// The faults, each with its line number.
        faults: String,
    },
    /// The embedder failed, or its points give a score or an angle that is not a number. The text is the message.
    #[error("embedding failed: {0}")]
    Embedder(String),
    /// An error of `conifer-geometry`.
    #[error(transparent)]
    Space(#[from] conifer_geometry::Error),
    /// An error of `conifer-index`.
    #[error(transparent)]
    Index(#[from] conifer_index::Error),
    /// An error of `conifer-data`.
    #[error(transparent)]
    Data(#[from] conifer_data::Error),
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
