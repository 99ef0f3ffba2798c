//! Charts as SVG, and a self-contained offline HTML report.
//!
//! The charts are written as SVG without a library, because their colours come from the style sheet of the page. So
//! they follow light and dark mode.
//!
//! ```
//! use conifer_atlas::{Block, Report};
//!
//! let page = Report {
//!     title: "Results".to_owned(),
//!     sections: vec![("Recall".to_owned(), vec![Block::Text("It is 0.98.".to_owned())])],
//!     ..Report::default()
//! };
//! assert!(page.html().contains("<h2>Recall</h2>"));
//! ```

mod chart;
mod error;
mod report;
mod tree;

pub use chart::{Series, histogram, line_chart};
pub use error::{Error, Result};
pub use report::{Block, Figure, Report};
pub use tree::{TreeNode, tree};
