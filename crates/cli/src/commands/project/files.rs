use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use conifer_viz::projection::{MapPicture, coloured_values, map_html};
use parquet::basic::Type as Physical;
use parquet::data_type::{DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::{Map, Value, json};

use super::{ProjectedSet, StoredMap};
use crate::commands::search::label;
use crate::parquet_columns::{number_field, text_field, write_numbers, write_texts};

/// Maximum number of points in the drawings. A browser draws this many without delay. The tables have all points.
const DRAWN: usize = 50_000;

impl ProjectedSet<'_> {
    /// Writes all files into a folder.
    pub(in crate::commands) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        fs::write(dir.join("points.csv"), self.csv())?;
        self.write_parquet(&dir.join("points.parquet"))?;
        let drawn = self.drawn();
        let picture = self.picture(&drawn);
        fs::write(dir.join("map.svg"), picture.svg())?;
        fs::write(dir.join("map.png"), picture.png()?)?;
        fs::write(dir.join("map.html"), map_html(&self.title(), &serde_json::to_string(&self.page(&drawn))?))?;
        let mut report = self.report.clone();
        report.insert("drawn".into(), json!(drawn.len()));
        // `conifer serve --map` needs both to show the map.
        report.insert("disc".into(), json!(self.is_disc));
        report.insert("root".into(), json!(self.root));
        fs::write(dir.join(StoredMap::FILE), serde_json::to_vec(&self.map)?)?;
        fs::write(dir.join("projection.json"), serde_json::to_vec_pretty(&report)?)?;
        Ok(())
    }

    /// Measurements in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let number = |name: &str| self.report.get(name).and_then(Value::as_f64);
        if let (Some(variance), Some(total)) = (number("variance"), number("total_variance")) {
            let share = number("explained").map_or(String::new(), |it| format!(" ({:.1} %)", 100.0 * it));
            let distortion = number("distortion").map_or("undefined".to_owned(), |it| format!("{it:.4}"));
            notes.push(format!("variance {variance:.4} of {total:.4}{share}, average distortion {distortion}"));
        } else if let Some(share) = number("tangent_share") {
            notes.push(format!("{:.1} % of the variance of the tangent vectors", 100.0 * share));
        }
        if let (Some(start), Some(loss)) = (number("start_loss"), number("loss")) {
            notes.push(format!("loss {start:.4} at the start, {loss:.4} at the end"));
        }
        if let (Some(count), Some(kept)) = (number("neighbours"), number("neighbours_kept")) {
            notes.push(format!("{count} neighbours with the row itself; the map keeps {:.1} % of them", 100.0 * kept));
        }
        if notes.is_empty() {
            notes.push("radius: distance to the root; angle: principal directions".to_owned());
        }
        notes
    }

    fn title(&self) -> String {
        let factor =
            self.report.get("factor").and_then(Value::as_u64).map_or(String::new(), |it| format!(", factor {it}"));
        let by = self.report.get("by").and_then(Value::as_str).unwrap_or_default();
        let mut spec = self.set.spec.clone();
        spec.curv.iter_mut().for_each(|curv| *curv = rounded(*curv));
        format!("{by} of {} rows, {spec}{factor}", self.rows.len())
    }

    /// Positions in `rows` of the points of the drawings, evenly spaced if there are more than [`DRAWN`].
    fn drawn(&self) -> Vec<usize> {
        let count = self.rows.len().min(DRAWN);
        (0..count).map(|i| i * self.rows.len() / count).collect()
    }

    /// Numbers of the rows shown, ascending.
    #[cfg(feature = "serve")]
    pub(in crate::commands) fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// True if the points are in the Poincare disc.
    #[cfg(feature = "serve")]
    pub(in crate::commands) fn is_disc(&self) -> bool {
        self.is_disc
    }

    /// The first two coordinates of the row at this place in [`ProjectedSet::rows`].
    pub(in crate::commands) fn position(&self, at: usize) -> [f64; 2] {
        let point = &self.coordinates[at * self.dim..(at + 1) * self.dim];
        [point[0], point.get(1).copied().unwrap_or(0.0)]
    }

    pub(in crate::commands) fn root_position(&self) -> Option<[f64; 2]> {
        self.root.as_ref().map(|it| [it[0], it.get(1).copied().unwrap_or(0.0)])
    }

    fn picture(&self, drawn: &[usize]) -> MapPicture {
        let names = coloured_values(self.set.modality.iter().map(|it| it.name()));
        let name = |at: &usize| self.set.modality[self.rows[*at]].name();
        let group = |at: &usize| names.iter().position(|it| *it == name(at)).unwrap_or(0);
        MapPicture {
            title: self.title(),
            notes: self.notes(),
            is_disc: self.is_disc,
            points: drawn.iter().map(|at| self.position(*at)).collect(),
            groups: drawn.iter().map(group).collect(),
            names: names.iter().map(|it| (*it).to_owned()).collect(),
            root: self.root_position(),
        }
    }

    /// The data of the page; [`map_html`] describes them.
    fn page(&self, drawn: &[usize]) -> Value {
        let rows = || drawn.iter().map(|at| self.rows[*at]);
        let round = |value: f64| (value * 1e6).round() / 1e6;
        let axis = |k: usize| drawn.iter().map(|at| round(self.position(*at)[k])).collect::<Vec<_>>();
        let (mut columns, mut coloured) = (Map::new(), Map::new());
        columns.insert("modality".into(), rows().map(|row| self.set.modality[row].name()).collect());
        coloured.insert("modality".into(), json!(coloured_values(self.set.modality.iter().map(|it| it.name()))));
        columns.insert("depth".into(), drawn.iter().map(|at| round(self.depth[*at])).collect());
        for (name, values) in &self.set.columns {
            let numbers: Option<Vec<f64>> =
                rows().map(|row| values[row].parse().ok().filter(|it: &f64| it.is_finite())).collect();
            // `depth` is the computed depth, so a column of this name is renamed.
            let name = if name == "depth" { "column depth" } else { name };
            if numbers.is_none() {
                coloured.insert(name.to_owned(), json!(coloured_values(values.iter().map(String::as_str))));
            }
            let shown = numbers.map_or_else(|| rows().map(|row| values[row].as_str()).collect(), |it| json!(it));
            columns.insert(name.to_owned(), shown);
        }
        json!({
            "title": self.title(),
            "notes": self.notes(),
            "disc": self.is_disc,
            "x": axis(0),
            "y": axis(1),
            "root": self.root_position(),
            "ids": rows().map(|row| self.set.ids[row].as_str()).collect::<Vec<_>>(),
            "labels": rows().map(|row| label(self.set, row).unwrap_or_default()).collect::<Vec<_>>(),
            "columns": columns,
            "coloured": coloured,
        })
    }

    /// The columns `row`, `id`, `modality`, `x0` ..., `depth`, and `column_NAME` for each column of the set (RFC 4180).
    fn csv(&self) -> String {
        let mut out = String::from("row,id,modality");
        (0..self.dim).for_each(|k| _ = write!(out, ",x{k}"));
        out.push_str(",depth");
        self.set.columns.keys().for_each(|name| _ = write!(out, ",{}", quoted(&format!("column_{name}"))));
        out.push('\n');
        for (at, row) in self.rows.iter().enumerate() {
            _ = write!(out, "{row},{},{}", quoted(&self.set.ids[*row]), self.set.modality[*row].name());
            self.coordinates[at * self.dim..(at + 1) * self.dim].iter().for_each(|x| _ = write!(out, ",{x}"));
            _ = write!(out, ",{}", self.depth[at]);
            self.set.columns.values().for_each(|values| _ = write!(out, ",{}", quoted(&values[*row])));
            out.push('\n');
        }
        out
    }

    fn write_parquet(&self, path: &Path) -> anyhow::Result<()> {
        let mut fields = vec![number_field("row", Physical::INT64)?, text_field("id")?, text_field("modality")?];
        for k in 0..self.dim {
            fields.push(number_field(&format!("x{k}"), Physical::DOUBLE)?);
        }
        fields.push(number_field("depth", Physical::DOUBLE)?);
        for name in self.set.columns.keys() {
            fields.push(text_field(&format!("column_{name}"))?);
        }
        let schema = Type::group_type_builder("conifer").with_fields(fields).build()?;
        let created = concat!("conifer version ", env!("CARGO_PKG_VERSION")).to_owned();
        let properties = WriterProperties::builder().set_created_by(created).build();
        let mut writer = SerializedFileWriter::new(File::create(path)?, Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        let set = self.set;
        let numbers: Vec<i64> = self.rows.iter().map(|row| *row as i64).collect();
        write_numbers::<Int64Type>(&mut group, &numbers, None)?;
        write_texts(&mut group, self.rows.iter().map(|row| set.ids[*row].as_str()))?;
        write_texts(&mut group, self.rows.iter().map(|row| set.modality[*row].name()))?;
        for k in 0..self.dim {
            let values: Vec<f64> = self.coordinates.iter().skip(k).step_by(self.dim).copied().collect();
            write_numbers::<DoubleType>(&mut group, &values, None)?;
        }
        write_numbers::<DoubleType>(&mut group, &self.depth, None)?;
        for values in set.columns.values() {
            write_texts(&mut group, self.rows.iter().map(|row| values[*row].as_str()))?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

/// A number rounded to four digits, for a title.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// A cell of a CSV file, quoted if needed.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_four_digits() {
        assert_eq!([0.69131249, 12.0, 0.000123456].map(rounded), [0.6913, 12.0, 0.0001235]);
    }
}
