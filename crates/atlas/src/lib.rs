//! Charts as SVG, and a self-contained offline HTML report.
//!
//! The charts are written as SVG without a library, because their colours come from the style sheet of the page. So
//! they suit both light and dark mode.

mod chart;
mod error;
mod report;
mod tree;

pub use chart::{Series, histogram, line_chart};
pub use error::{Error, Result};
pub use report::{Block, Figure, Report};
pub use tree::{TreeNode, tree};
