//! Pictures of embeddings: projections into the Poincare disc, depths in the factors of a product space, figures of the
//! papers, charts as SVG, and a self-contained offline HTML report.
//!
//! The charts are written as SVG without a library, because their colours come from the style sheet of the page. So
//! they follow light and dark mode.
//!
//! ```
//! use conifer_viz::{Block, Report};
//!
//! let page = Report {
//!     title: "Results".to_owned(),
//!     sections: vec![("Recall".to_owned(), vec![Block::Text("It is 0.98.".to_owned())])],
//!     ..Report::default()
//! };
//! assert!(page.html().contains("<h2>Recall</h2>"));
//! ```
//!
//! A [`PoincareDisc`] is fitted to the points of a set and then projects any point of the space:
//!
//! ```
//! use std::borrow::Cow;
//!
//! use conifer_geometry::{ManifoldSpec, Root};
//! use conifer_viz::PoincareDisc;
//!
//! let points = [[0.3_f32, 0.0, 0.1], [1.0, 0.2, -0.4], [-0.9, 0.8, 0.0]];
//! let row = |i: usize| Cow::Borrowed(&points[i][..]);
//! let disc = PoincareDisc::new(&ManifoldSpec::lorentz(3, 1.0), &Root::Origin, points.len(), row)?;
//! let (general, specific) = (disc.project(&points[0]), disc.project(&points[1]));
//! assert!(general.x.hypot(general.y) < specific.x.hypot(specific.y));
//! # Ok::<(), conifer_geometry::Error>(())
//! ```

mod chart;
mod chart_file;
mod disc;
mod error;
mod factors;
pub mod figures;
mod forest;
mod palette;
mod principal;
pub mod projection;
mod report;
mod specialisation;
mod tree;

pub use chart::{Series, histogram, line_chart};
pub use chart_file::line_chart_file;
pub use disc::spread as evenly_spaced;
pub use disc::{DiscMap, DiscPoint, PoincareDisc};
pub use error::{Error, Result};
pub use factors::{FactorDepth, ProductFactors};
pub use forest::{ForestMark, ForestRow, forest, forest_file};
pub use report::{Block, Figure, Report};
pub use specialisation::{FactorSpecialisation, FamilyShare, factor_specialisation};
pub use tree::{TreeNode, tree};
