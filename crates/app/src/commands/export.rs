//! Embeddings for other engines: `conifer export`.

mod parquet;
mod qdrant;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use conifer_index::Snapshot;
use conifer_index::export::Augmented;
use conifer_space::spaces::lorentz::time_excess;
use serde_json::json;

use crate::cli::{Engine, ExportSet};
use crate::output::{print, print_json};
use crate::progress;
use crate::request::open_rows;

/// Rows as another engine gets them.
struct Rows<'a> {
    rows: &'a Snapshot,
    vectors: &'a Augmented,
}

pub(crate) fn run(args: ExportSet, as_json: bool) -> anyhow::Result<()> {
    let out = &args.out;
    ensure!(!out.exists(), "{} exists; expected a new folder", out.display());
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ensure!(
        !args.name.is_empty() && args.name.chars().all(plain),
        "--name is `{}`; expected letters, digits, - and _",
        args.name
    );
    let rows = open_rows(&args.set)?;
    ensure!(!rows.is_empty(), "{}: no row; expected something to export", args.set.display());
    rows.check()?;
    let vectors = match args.radius {
        Some(radius) => Augmented::within(&rows.spec, radius).context("--radius")?,
        None => Augmented::around(&rows.spec, (0..rows.len()).map(|i| rows.row(i)))?,
    };
    // Made under another name, so that a folder that is there is whole.
    let name = out.file_name().context("--out: expected a path that ends in a name")?.to_string_lossy().into_owned();
    let tmp = out.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    fs::create_dir_all(&tmp).with_context(|| tmp.display().to_string())?;
    let written = write(&args, &Rows { rows: &rows, vectors: &vectors }, &tmp)
        .and_then(|()| fs::rename(&tmp, out).with_context(|| out.display().to_string()));
    if let Err(error) = written {
        // The failure is what matters; what is left is in the way of nobody.
        let _ = fs::remove_dir_all(&tmp);
        return Err(error.context(out.display().to_string()));
    }
    let files: Vec<String> = fs::read_dir(out)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    if as_json {
        return print_json(&json!({ "rows": rows.len(), "dim": vectors.dim(), "out": out, "files": files }));
    }
    print(&format!("{} rows of {} numbers: {}\n", rows.len(), vectors.dim(), out.display()))
}

fn write(args: &ExportSet, rows: &Rows<'_>, dir: &Path) -> anyhow::Result<()> {
    let bar = progress::bar("rows", rows.rows.len());
    let mut progress = |done: usize| bar.set_position(done as u64);
    match args.to {
        Engine::Qdrant => qdrant::write(rows, &args.name, dir, &mut progress)?,
        Engine::Lancedb | Engine::Parquet => parquet::write(rows, &dir.join("rows.parquet"), &mut progress)?,
    }
    bar.finish_and_clear();
    if args.to == Engine::Lancedb {
        fs::write(dir.join("import.py"), lancedb(&args.name, rows.vectors.dim()))?;
    }
    let mut told = rows.vectors.describe();
    told["format"] = json!("conifer export");
    told["rows"] = json!(rows.rows.len());
    told["version"] = json!(rows.rows.version());
    told["root"] = json!(rows.rows.root);
    told["source"] = json!(rows.rows.source);
    told["columns"] = json!(rows.rows.columns.keys().collect::<Vec<_>>());
    fs::write(dir.join("space.json"), serde_json::to_vec_pretty(&told)?)?;
    Ok(())
}

impl Rows<'_> {
    fn vector(&self, row: usize) -> anyhow::Result<Vec<f32>> {
        let found = self.vectors.row(&self.rows.row(row));
        found.with_context(|| format!("row {row} (`{}`): further out than --radius", self.rows.ids[row]))
    }

    /// `sqrt(c) t(x)` of the one factor, which the exterior angle takes: nothing elsewhere.
    fn time(&self, row: usize) -> Option<f64> {
        let [c] = self.rows.spec.curv[..] else { return None };
        let square: f64 = self.rows.row(row).iter().map(|v| f64::from(*v).powi(2)).sum();
        Some(1.0 + time_excess(square, c))
    }
}

/// The table that LanceDB makes of the Parquet file: its vectors need a length that Parquet does not keep.
fn lancedb(name: &str, dim: usize) -> String {
    format!(
        "# pip install lancedb pyarrow; run it beside rows.parquet: it writes the table `{name}` into ./lancedb\n\
         import lancedb, pyarrow as pa, pyarrow.parquet as pq\n\
         rows = pq.read_table(\"rows.parquet\")\n\
         rows = rows.rename_columns([name.replace(\".\", \"_\") for name in rows.column_names])\n\
         at = rows.schema.get_field_index(\"vector\")\n\
         rows = rows.set_column(at, \"vector\", rows[\"vector\"].cast(pa.list_(pa.float32(), {dim})))\n\
         lancedb.connect(\"lancedb\").create_table(\"{name}\", rows)  # then: .search(query).distance_type(\"l2\")\n"
    )
}
