//! Writes the requests of Qdrant's REST API that upload the rows.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::ExportRows;

/// Number of points per request: a few megabytes at 512 numbers each, below Qdrant's limit of 32 MB.
const BATCH: usize = 256;

/// Writes `collection.json` (the body that creates the collection), `points.jsonl` (one upload request per line) and
/// `upload.sh`.
pub(super) fn write(
    rows: &ExportRows<'_>,
    name: &str,
    dir: &Path,
    progress: &mut dyn FnMut(usize),
) -> anyhow::Result<()> {
    let collection = json!({ "vectors": { "size": rows.vectors.dim(), "distance": "Euclid" } });
    fs::write(dir.join("collection.json"), serde_json::to_vec_pretty(&collection)?)?;
    let mut out = BufWriter::new(File::create(dir.join("points.jsonl"))?);
    for first in (0..rows.rows.len()).step_by(BATCH) {
        let last = (first + BATCH).min(rows.rows.len());
        let points = (first..last).map(|row| point(rows, row)).collect::<anyhow::Result<Vec<_>>>()?;
        serde_json::to_writer(&mut out, &json!({ "points": points }))?;
        out.write_all(b"\n")?;
        progress(last);
    }
    out.into_inner()?.sync_all()?;
    fs::write(dir.join("upload.sh"), upload(name))?;
    Ok(())
}

fn point(rows: &ExportRows<'_>, row: usize) -> anyhow::Result<Value> {
    let set = rows.rows;
    // Nested, because a column may have the name of another payload field.
    let columns: Map<String, Value> =
        set.columns.iter().map(|(name, values)| (name.clone(), Value::from(values[row].as_str()))).collect();
    let mut payload = json!({ "id": set.ids[row], "modality": set.modality[row].name(), "columns": columns });
    if let Some(time) = rows.time(row) {
        payload["time"] = json!(time);
    }
    Ok(json!({ "id": row, "vector": rows.vector(row)?, "payload": payload }))
}

fn upload(name: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Creates the collection {name} and uploads its points. Usage: sh upload.sh [http://127.0.0.1:6333]\n\
         set -eu\n\
         cd \"$(dirname \"$0\")\"\n\
         at=${{1:-http://127.0.0.1:6333}}/collections/{name}\n\
         send() {{ curl --fail --silent --show-error --output /dev/null -X PUT -H 'Content-Type: application/json' --data-binary @- \"$1\"; }}\n\
         send \"$at\" < collection.json\n\
         while IFS= read -r request; do printf '%s' \"$request\" | send \"$at/points?wait=true\"; done < points.jsonl\n"
    )
}
