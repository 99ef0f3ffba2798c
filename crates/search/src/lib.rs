//! Interprets search requests, for the commands and the HTTP server: names of rankings with the limits that they
//! require, conditions on rows, a warning about flat rankings, and the client of an endpoint that embeds texts.
//!
//! The index itself is `conifer-index`. This crate needs no tensor engine.
//!
//! ```
//! use conifer_embeddings::{EmbeddingSet, Modality};
//! use conifer_index::{Filter, FlatIndex, Query};
//! use conifer_search::{RankingName, RowConditions};
//! use conifer_geometry::{ManifoldSpec, Root};
//!
//! let set = EmbeddingSet {
//!     spec: ManifoldSpec::lorentz(2, 1.0),
//!     root: Root::Origin,
//!     ids: ["animal", "dog", "cat"].map(String::from).into(),
//!     modality: vec![Modality::Text, Modality::Image, Modality::Image],
//!     points: vec![0.3, 0.0, 1.0, 0.2, 1.0, -0.2],
//!     columns: Default::default(),
//!     source: Default::default(),
//! };
//! let index = FlatIndex::new(&set)?;
//! let photos = RowConditions { modality: Some(vec![Modality::Image]), ..RowConditions::default() };
//! let rows = photos.rows(&index, &set.columns, None)?.unwrap_or_default();
//! assert_eq!(rows, [1, 2]);
//!
//! let ranking = RankingName::Narrower.ranking(None, None, "")?;
//! let hits = index.top_k(&Query::new(&set.spec, &[0.3, 0.1]), ranking, 1, &Filter::Set(&rows))?;
//! assert_eq!(set.ids[hits[0][0].row], "dog");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod endpoint;
mod error;
mod http_client;
mod path;
mod ranking;
mod row_conditions;
mod score_range;

pub use endpoint::{ENDPOINT_TIMEOUT, EmbeddingEndpoint, EndpointError, EndpointSettings};
pub use error::{Error, Result};
pub use http_client::{ClientError, ClientReply, PlainHttpClient};
pub use path::PathName;
pub use ranking::{MAX_ANGLE, RANKING_NAMES, RankingName};
pub use row_conditions::{LABEL, RowConditions};
pub use score_range::{ScoreRange, flat_search, is_comparable, score_range};
