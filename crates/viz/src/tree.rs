use std::fmt::Write as _;

use crate::chart::escape;

/// Height of the row of a leaf, px. The font size is 11 px.
const ROW: f64 = 17.0;
/// Assumed width of a character, px. It is generous, because an overestimate only lengthens the connecting line.
const LETTER: f64 = 7.2;
/// Distance between a label and the next column, px.
const GAP: f64 = 44.0;
const MARGIN: f64 = 16.0;
const TOP: f64 = 44.0;
/// A standalone SVG file cannot use the colours of a page.
const STYLE: &str = "text{font:11px system-ui,sans-serif;fill:#1d2430}text.title{font-weight:600;font-size:13px}\
    tspan{fill:#6b7480}path{fill:none;stroke:#7c93ad;stroke-opacity:.75}rect.back{fill:#fff}\
    @media(prefers-color-scheme:dark){text{fill:#e4e8ee}tspan{fill:#98a2af}path{stroke:#6f8bab}rect.back{fill:#14181e}}";

/// A node of a tree drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeNode {
    /// Number of edges to the root. At most one more than that of the previous node.
    pub depth: usize,
    /// Name of the node.
    pub label: String,
    /// Text after the name, in a lighter colour.
    pub note: String,
    /// Weight in [0, 1] that sets the thickness of the line to the parent.
    pub weight: f64,
}

/// Draws a tree from left to right as a complete SVG file, for light and dark mode.
///
/// `nodes` are in preorder. Each leaf has a row, and a parent is half-way between its first and its last child. Several
/// nodes of depth 0 are drawn below each other.
pub fn tree(title: &str, nodes: &[TreeNode]) -> String {
    let heights = heights(nodes);
    let left = columns(nodes);
    let rows = nodes.iter().enumerate().filter(|&(at, _)| is_leaf(nodes, at)).count();
    let width = left.last().map_or(0.0, |end| end + MARGIN).max(title.chars().count() as f64 * 8.0 + 2.0 * MARGIN);
    let height = TOP + ROW * rows as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\
         <style>{STYLE}</style><rect class=\"back\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"{MARGIN}\" y=\"24\">{}</text>",
        escape(title)
    );
    // Ancestors of the current node.
    let mut above: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        above.truncate(node.depth);
        let (x, y) = (left[node.depth], heights[at]);
        // Writing to a `String` cannot fail.
        if let Some(&parent) = above.last() {
            let (from, above) = (left[nodes[parent].depth] + extent(&nodes[parent]) + 4.0, heights[parent]);
            let (to, bend) = (x - 4.0, x - GAP + 8.0);
            let middle = (bend + to) / 2.0;
            let stroke = 0.8 + 3.2 * node.weight.clamp(0.0, 1.0);
            // The segment up to the bend is common to all children. It is drawn once, because repeated translucent
            // strokes would darken it.
            let start = if at == parent + 1 {
                format!("{from:.1} {above:.1}H{bend:.1}")
            } else {
                format!("{bend:.1} {above:.1}")
            };
            let _ = write!(
                svg,
                "<path d=\"M{start}C{middle:.1} {above:.1} {middle:.1} {y:.1} {to:.1} {y:.1}\" stroke-width=\"{stroke:.1}\"/>"
            );
        }
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{}", y + 4.0, escape(&node.label));
        if !node.note.is_empty() {
            let _ = write!(svg, "<tspan dx=\"5\">{}</tspan>", escape(&node.note));
        }
        svg += "</text>";
        above.push(at);
    }
    svg + "</svg>\n"
}

fn is_leaf(nodes: &[TreeNode], at: usize) -> bool {
    nodes.get(at + 1).is_none_or(|next| next.depth <= nodes[at].depth)
}

/// The y coordinate of each node, computed from the last node to the first so that children precede their parent.
fn heights(nodes: &[TreeNode]) -> Vec<f64> {
    let mut y = vec![0.0; nodes.len()];
    let leaves = (0..nodes.len()).filter(|&at| is_leaf(nodes, at));
    leaves.enumerate().for_each(|(row, at)| y[at] = TOP + ROW * (row as f64 + 0.5));
    // For each depth, the y coordinates of the first and the last child among the nodes visited since the last node of
    // a smaller depth.
    let mut children: Vec<Option<(f64, f64)>> = Vec::new();
    for (at, node) in nodes.iter().enumerate().rev() {
        children.resize(children.len().max(node.depth + 2), None);
        if let Some((first, last)) = children[node.depth + 1].take() {
            y[at] = (first + last) / 2.0;
        }
        let last = children[node.depth].map_or(y[at], |(_, last)| last);
        children[node.depth] = Some((y[at], last));
    }
    y
}

/// The x coordinate at which each depth begins, followed by the end of the last one.
fn columns(nodes: &[TreeNode]) -> Vec<f64> {
    let depths = nodes.iter().map(|node| node.depth + 1).max().unwrap_or(0);
    let mut widths = vec![0.0_f64; depths];
    nodes.iter().for_each(|node| widths[node.depth] = widths[node.depth].max(extent(node)));
    let mut left = vec![MARGIN];
    for width in widths {
        left.push(left[left.len() - 1] + width + GAP);
    }
    left
}

fn extent(node: &TreeNode) -> f64 {
    let space = if node.note.is_empty() { 0.0 } else { 5.0 };
    space + LETTER * (node.label.chars().count() + node.note.chars().count()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(depth: usize, label: &str) -> TreeNode {
        TreeNode { depth, label: label.to_owned(), ..TreeNode::default() }
    }

    #[test]
    fn parents_are_centred_on_their_children() {
        // a(b(c, d), e), f
        let nodes = [node(0, "a"), node(1, "b"), node(2, "c"), node(2, "d"), node(1, "e"), node(0, "f")];
        let row = |row: f64| TOP + ROW * (row + 0.5);
        assert_eq!(heights(&nodes), [row(1.25), row(0.5), row(0.0), row(1.0), row(2.0), row(3.0)]);
        let left = columns(&nodes);
        assert!(left.len() == 4 && left.windows(2).all(|pair| pair[0] < pair[1]), "{left:?}");
    }

    #[test]
    fn every_node_has_its_text_and_its_line() {
        let mut nodes = [node(0, "<a> & b"), node(1, "leaf"), node(1, "other")];
        nodes[1].note = "12 %".to_owned();
        let svg = tree("a \"tree\"", &nodes);
        assert!(svg.contains("&lt;a&gt; &amp; b</text>") && svg.contains(">12 %</tspan>"), "{svg}");
        assert_eq!((svg.matches("<path").count(), svg.matches("<text").count()), (2, 4));
        assert!(tree("nothing", &[]).ends_with("</svg>\n"));
    }

    #[test]
    fn a_long_chain_is_drawn() {
        let nodes: Vec<_> = (0..3000).map(|depth| node(depth, "x")).collect();
        assert_eq!(tree("chain", &nodes).matches("<path").count(), 2999);
    }
}
