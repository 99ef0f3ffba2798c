use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use conifer_data::PartRule;
use conifer_datasets::part_graph::{BuiltGraph, PartGraph, PartRow, PartThresholds, PartsSpec, build};
use conifer_viz::TreeNode;
use serde_json::json;

use crate::arguments::PartsArgs;
use crate::output::{note, print, print_json};
use crate::progress;
use crate::signal::stop_flag;

/// Counts the box pairs, writes the part-of graph and prints it. After Ctrl-C the same command continues from a saved
/// state.
pub(super) fn run(args: PartsArgs, as_json: bool) -> anyhow::Result<()> {
    let spec = PartsSpec {
        boxes: args.boxes,
        names: args.names,
        out: args.out,
        rule: PartRule { containment: args.containment, min_area: args.min_area, drop_groups: !args.keep_groups },
        thresholds: PartThresholds { min_count: args.min_count, min_share: args.min_share },
    };
    let stop = stop_flag()?;
    let bar = progress::bar("MiB", 0);
    let mib = |bytes: u64| bytes >> 20;
    let built = build(&spec, |now| {
        bar.set_length(mib(now.total));
        bar.set_position(mib(now.done));
        bar.set_message(format!("{} boxes", now.boxes));
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    bar.finish_and_clear();
    let Some(BuiltGraph { counts, graph, mut files }) = built else {
        bail!("stopped; run the same command again to continue (state in {})", spec.out.display());
    };
    let drawn = spec.out.join("tree.svg");
    std::fs::write(&drawn, draw(&graph)).with_context(|| drawn.display().to_string())?;
    files.push(drawn);
    for it in &counts.examples {
        note(&format!("skipped: {it}"));
    }
    if as_json {
        return print_json(&json!({
            "photos": counts.photos,
            "boxes": counts.boxes,
            "small": counts.small,
            "broken": counts.broken,
            "edges": graph.edges,
            "refused": graph.refused,
            "files": files,
        }));
    }
    print(&graph.to_text())?;
    let broken: u64 = counts.broken.values().sum();
    let (edges, refused) = (graph.edges.len(), graph.refused.len());
    note(&format!(
        "{} boxes of {} photos ({} too small, {broken} broken): {edges} relations, {refused} refused because they close a cycle",
        counts.boxes, counts.photos, counts.small
    ));
    files.iter().for_each(|file| note(&file.display().to_string()));
    Ok(())
}

/// Draws the graph as a tree. The line width shows the fraction of wholes that have the part.
fn draw(graph: &PartGraph) -> String {
    let node = |row: &PartRow<'_>| TreeNode {
        depth: row.depth,
        label: format!("{}{}", row.name, if row.again { " ..." } else { "" }),
        note: row.edge.map_or(String::new(), |edge| format!("{:.0} %", 100.0 * edge.share)),
        weight: row.edge.map_or(0.0, |edge| edge.share),
    };
    let nodes: Vec<_> = graph.rows().iter().map(node).collect();
    conifer_viz::tree("Classes and their parts: share of the wholes that have such a part", &nodes)
}
