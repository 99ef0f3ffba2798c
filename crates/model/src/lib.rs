//! Models of hierarchical vision-language embeddings: encoders, projections and head, the formats of their checkpoints,
//! and the embedding of photographs and texts into an [`EmbeddingSet`](conifer_embeddings::EmbeddingSet).
//!
//! The [`encoders`] map a batch to features. The [`model`] projects them and its [`head`] lifts them to points on a
//! manifold. [`checkpoint`] reads and writes models in the formats of conifer and of other systems, [`features`] stores
//! the features of frozen encoders, and [`embed`] applies a model. The crate `conifer-train` trains models. The crate
//! `conifer-embeddings` reads and writes an `EmbeddingSet` without a tensor engine.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use conifer_model::encoders::{TextualConfig, VisualConfig};
//! use conifer_model::head::{Head, HeadConfig};
//! use conifer_model::model::{Model, ModelConfig, PixelStatistics};
//! use conifer_model::params::Init;
//! use conifer_geometry::ManifoldSpec;
//!
//! let device = Device::flex();
//! let head = Head::new(&ManifoldSpec::lorentz(8, 1.0), &HeadConfig::default(), &device)?;
//! let config = ModelConfig {
//!     visual: VisualConfig::preset("vit_nano")?.with("depth", 1)?,
//!     textual: TextualConfig::preset("text_nano")?.with("depth", 1)?,
//!     pixels: PixelStatistics::default(),
//!     visual_adapter: None,
//!     textual_adapter: None,
//!     visual_lora: None,
//!     textual_lora: None,
//! };
//! let side = config.visual.reads().image_size;
//! let model = Model::new(&config, head, &mut Init::seeded(0, &device))?;
//! let points = model.embed_images(Tensor::zeros([2, 3, side, side], &device))?;
//! assert_eq!(points.dims(), [2, 8]); // two photographs, as points of the Lorentz space
//! # Ok::<(), conifer_model::Error>(())
//! ```

pub mod adapter;
pub mod apex;
pub mod batch_space;
pub mod checkpoint;
pub mod detector;
pub mod embed;
pub mod encoders;
pub mod error;
pub mod features;
pub mod head;
pub mod layer_ids;
pub mod lora;
pub mod model;
pub mod onnx;
pub mod params;
pub mod scalars;
pub mod seq2seq;
pub mod weight_array;

pub use error::{Error, Result};
