//! Pictures: charts as SVG, and one offline HTML report.
//!
//! Charts are our own few lines of SVG, since their colours come from the page's style sheet: the same
//! picture is right in light and in dark.

mod chart;
mod error;
mod report;
mod tree;

pub use chart::{Series, histogram, line_chart};
pub use error::{Error, Result};
pub use report::{Block, Figure, Report};
pub use tree::{TreeNode, tree};
