//! Train, evaluate and search hierarchical vision-language embeddings.
//!
//! An embedding model of this family places general concepts near a root ("an animal") and specific ones far from it
//! ("a brown dog asleep on a red sofa"). Training places the photos that a text describes inside the *cone* of the
//! text. This crate re-exports the types that programs need, one module per part of the workspace:
//!
//! | module | holds | feature |
//! |---|---|---|
//! | [`geometry`] | spaces (sphere, Euclidean, Lorentz, products), roots, cones | always |
//! | [`embeddings`] | sets of embeddings on disk, the versioned store | always |
//! | [`index`] | exact search by distance, cone and depth; traversal to the root | always |
//! | [`data`] | samples, data sets, class trees, tokenizers | `data` |
//! | [`model`] | checkpoints, published models, embedding photos and texts | `model` |
//! | [`train`] | configs, methods (losses), the trainer | `model` |
//! | [`eval`] | benchmarks, metrics, records | `eval` |
//! | [`viz`] | charts, the HTML report, projections and factors | `viz` |
//!
//! The folder `examples/` has a program for each task. Without default features only geometry, embeddings and search
//! are built, which need no tensor engine. Number of crates in the dependency tree (`cargo tree -p conifer -e normal
//! --prefix none | sed 's/ (\*)$//' | sort -u`, 2026-11):
//!
//! | features | none | `viz` | `data` | `eval` | `model` | default |
//! |---|---|---|---|---|---|---|
//! | crates | 66 | 68 | 159 | 166 | 259 | 262 |
//!
//! The dependency tree of the program `conifer` (package `conifer-cli`) has 336 crates, and 305 without the feature
//! `serve` (the commands `serve`, `front` and `explore`).
//!
//! ```
//! use conifer::embeddings::{EmbeddingSet, Modality};
//! use conifer::geometry::{ManifoldSpec, Root};
//! use conifer::index::{Filter, FlatIndex, Query, Ranking};
//!
//! // Three points of a hyperbolic plane with curvature -1.
//! let set = EmbeddingSet {
//!     spec: ManifoldSpec::lorentz(2, 1.0),
//!     root: Root::Origin,
//!     ids: ["animal", "dog", "cat"].map(String::from).into(),
//!     modality: vec![Modality::Text; 3],
//!     points: vec![0.3, 0.0, 1.0, 0.2, 1.0, -0.2],
//!     columns: Default::default(),
//!     source: Default::default(),
//! };
//! let index = FlatIndex::new(&set)?;
//! let query = Query::new(&set.spec, &[1.1, 0.3]);
//! let hits = index.top_k(&query, Ranking::Distance, 1, &Filter::All)?;
//! assert_eq!(set.ids[hits[0][0].row], "dog");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// Spaces, their points, roots and cones, on plain slices (`f32` for search, `f64` as the reference).
pub mod geometry {
    pub use conifer_geometry::{
        FactorNorm, ManifoldKind, ManifoldSpec, Real, Registry, Root, SPACES, ScoreForm, Space, SpaceEntry, space,
    };

    /// The same spaces over tensors, with gradients.
    #[cfg(feature = "model")]
    pub mod tensor {
        pub use conifer_geometry_tensor::{ConeShape, MANIFOLDS, Manifold, ManifoldEntry, RootT, gradcheck, manifold};
    }
}

/// Embeddings with their space: a set in a folder, or a versioned store that supports append and delete.
pub mod embeddings {
    pub use conifer_embeddings::{Element, EmbeddingSet, Modality, Provenance, StoredSet};
    pub use conifer_index::store::{Snapshot, Store};
}

/// Exact search and traversal.
pub mod index {
    pub use conifer_index::{
        CellIndex, Cone, Direction, Error, Filter, FlatIndex, Gate, Hit, Partition, PathKind, Query, Ranking, Stop,
        StopPlace, Traversal,
    };
}

/// Samples and their sources.
#[cfg(feature = "data")]
pub mod data {
    pub use conifer_data::hierarchy::{ClassGraph, Tree};
    pub use conifer_data::tokenizer::Tokenizer;
    pub use conifer_data::{
        BBox, Broken, Error, ImageRef, MissingRank, Phrase, Picture, Sample, Source, SourceSpec, Tiers, View,
        encode_png,
    };
    pub use conifer_datasets::open;
    pub use conifer_toy as toy;
}

/// Models: opening checkpoints and published files, embedding photos and texts.
#[cfg(feature = "model")]
pub mod model {
    pub use burn::tensor::Device;
    pub use conifer_data::transform::EvalCrop;
    pub use conifer_model::checkpoint::published::{self, ImportOptions};
    pub use conifer_model::checkpoint::{Manifest, OpenedModel, Precision, open};
    pub use conifer_model::embed::Embedder;
    pub use conifer_model::model::Model;
    pub use conifer_model::{Error, Result};
}

/// Training: a config, a method and the trainer. To add a method, register a [`MethodEntry`](train::MethodEntry) in
/// [`METHODS`](train::METHODS). Methods compute on burn tensors, re-exported as [`tensor`](train::tensor).
#[cfg(feature = "model")]
pub mod train {
    pub use burn::tensor;
    pub use conifer_train::config::Config;
    pub use conifer_train::methods::{BatchPoints, BatchSpace, Loss, METHODS, Method, MethodEntry, RowShare};
    pub use conifer_train::root::RootKind;
    pub use conifer_train::trainer::{Event, Observer, Outcome, Trainer};
    pub use conifer_train::{Error, Result, terms};
}

/// Benchmarks and metrics.
#[cfg(feature = "eval")]
pub mod eval {
    pub use conifer_eval::{
        BENCHMARKS, Baseline, Benchmark, Context, EmbeddingModel, Error, Options, Record, measure, metrics, prediction,
        read_results,
    };
}

/// Charts and a report page as self-contained files, projections, and the depth of points in each factor of a product
/// space.
#[cfg(feature = "viz")]
pub mod viz {
    pub use conifer_viz::{
        Block, DiscMap, DiscPoint, Error, FactorDepth, Figure, PoincareDisc, ProductFactors, Report, Series, TreeNode,
        histogram, line_chart, tree,
    };
}
