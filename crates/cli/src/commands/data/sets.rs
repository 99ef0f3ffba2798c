use std::path::Path;

use conifer_datasets::DATA_SETS;
use serde_json::json;

use crate::output::{columns, print, print_json};

/// Lists the evaluation data sets, which of them are in `root`, and where to get the others.
pub(super) fn run(root: Option<&Path>, as_json: bool) -> anyhow::Result<()> {
    if let Some(root) = root {
        anyhow::ensure!(root.is_dir(), "--root {} is not a folder", root.display());
    }
    let there = |set: &conifer_datasets::DataSet| root.map(|root| set.is_below(root));
    if as_json {
        let rows: Vec<_> = DATA_SETS
            .iter()
            .map(|it| {
                json!({ "name": it.name, "title": it.title, "layout": it.layout, "get": it.get, "classes": it.classes,
                        "photos": it.photos, "there": there(it) })
            })
            .collect();
        return print_json(&rows);
    }
    let mut rows = vec![["data set", "there", "classes", "samples", "what"].map(String::from).to_vec()];
    let count = |number: usize| if number == 0 { String::new() } else { number.to_string() };
    rows.extend(DATA_SETS.iter().map(|it| {
        let there = there(it).map_or("", |there| if there { "yes" } else { "no" });
        vec![it.name.into(), there.into(), count(it.classes), count(it.photos), it.title.into()]
    }));
    let mut text = columns(&rows);
    text += "\nRequired content of <root>/<data set>/, and where to get it\n";
    for it in DATA_SETS.iter().filter(|it| there(it) != Some(true)) {
        text += &format!("\n  {}  {}\n      {}\n", it.name, it.layout, it.get);
    }
    print(&text)
}
