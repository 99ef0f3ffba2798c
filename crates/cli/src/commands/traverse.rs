use burn::tensor::Device;
use conifer_index::{Cone, Filter, FlatIndex, Query as Points, StopPlace, Traversal};
use conifer_search::PathName;
use serde_json::json;

use super::search::{label, row_json};
use crate::arguments::TraverseArgs;
use crate::output::{columns, note, print, print_json};
use crate::query_resolver::QueryResolver;
use crate::request::open_rows;
use crate::set_model::set_of;

pub(crate) fn run(args: TraverseArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let set = open_rows(&args.set)?;
    let place = set_of(&args.set);
    let resolver = QueryResolver::new(&set, &place, &args.embedder, device);
    let query = resolver.point(&args.query)?;
    let target = match (&args.to, &args.to_image, &args.to_text) {
        (Some(id), ..) => Some(set.row(resolver.row(id)?).into_owned()),
        (_, Some(path), _) => Some(resolver.image(path)?),
        (.., Some(text)) => Some(resolver.text(text)?),
        _ => None,
    };
    let defaults = if target.is_some() { Traversal::interpolation() } else { Traversal::default() };
    let settings = Traversal {
        steps: args.steps.unwrap_or(defaults.steps),
        path: args.path.map_or(defaults.path, |path| PathName::from(path).into()),
        cone: if args.cones { Some(Cone::default()) } else { defaults.cone.filter(|_| !args.no_filter) },
    };
    let index = FlatIndex::on(&set)?;
    let rows = resolver.rows(&index, &args.modality, &args.only)?;
    if rows.is_empty() {
        note(&resolver.nothing_found(&args.only, 0));
    }
    let filter = Filter::Set(&rows);
    let from = Points::new(&set.spec, &query);
    let path = match target {
        None => index.traverse_to_root(&from, &settings, &filter)?,
        Some(to) => index.traverse_between(&from, &Points::new(&set.spec, &to), &settings, &filter)?,
    };
    if as_json {
        let rows: Vec<_> = path
            .iter()
            .enumerate()
            .map(|(i, stop)| {
                let mut row = match stop.place {
                    StopPlace::Row(row) => row_json(&set, row, i + 1, f64::from(stop.similarity)),
                    StopPlace::Root => json!({ "rank": i + 1, "score": stop.similarity, "root": true }),
                };
                row["at"] = json!(stop.at);
                row
            })
            .collect();
        return print_json(&rows);
    }
    let mut rows = vec![["at", "modality", "id", "text"].map(String::from).to_vec()];
    rows.extend(path.iter().map(|stop| {
        let [modality, id, text] = match stop.place {
            StopPlace::Row(row) => {
                [set.modality[row].name(), set.ids[row].as_str(), label(&set, row).unwrap_or_default()]
                    .map(String::from)
            }
            StopPlace::Root => ["", "[ROOT]", ""].map(String::from),
        };
        vec![format!("{:.2}", stop.at), modality, id, text]
    }));
    print(&columns(&rows))
}
