//! Files of `eval run --curves`: all points in one CSV file, and a chart for each split and average.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use conifer_eval::{Benchmark, PrecisionRecallCurve};
use conifer_files::write_whole;
use conifer_viz::{Series, line_chart_file};

const TABLE: &str = "curves.csv";

/// The folder that curves are written to.
pub(super) struct CurveFolder(PathBuf);

impl CurveFolder {
    /// Creates the folder. Called before the evaluation, so that an unusable folder fails early.
    pub(super) fn create(folder: &Path, benchmarks: &[&dyn Benchmark]) -> anyhow::Result<Self> {
        let place = format!("--curves {}", folder.display());
        let names = || benchmarks.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
        anyhow::ensure!(
            benchmarks.iter().any(|it| it.draws_curves()),
            "{place}: {} draws no curves; expected a benchmark that does, such as part_retrieval",
            names()
        );
        std::fs::create_dir_all(folder).with_context(|| place.clone())?;
        let table = folder.join(TABLE);
        anyhow::ensure!(!table.exists(), "{} exists; expected a folder without {TABLE}", table.display());
        Ok(Self(folder.into()))
    }

    /// Writes the files and returns their paths.
    pub(super) fn write(&self, curves: &[PrecisionRecallCurve]) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = vec![self.0.join(TABLE)];
        write_whole(&files[0], table(curves).as_bytes())?;
        let mut charts: BTreeMap<String, Vec<&PrecisionRecallCurve>> = BTreeMap::new();
        for curve in curves {
            let name = format!("{}_{}_{}.svg", curve.benchmark, curve.split, curve.average.name());
            charts.entry(name).or_default().push(curve);
        }
        for (name, curves) in charts {
            let path = self.0.join(name);
            write_whole(&path, chart(&curves).as_bytes())?;
            files.push(path);
        }
        Ok(files)
    }
}

/// One line per point. Protocols contain commas, so they are quoted; no name contains quotes.
fn table(curves: &[PrecisionRecallCurve]) -> String {
    let mut text = String::from("benchmark,split,protocol,average,threshold,recall,precision,queries\n");
    for PrecisionRecallCurve { benchmark, split, protocol, average, points } in curves {
        for point in points {
            let precision = point.precision.map_or_else(String::new, |it| it.to_string());
            text += &format!(
                "{benchmark},{split},\"{}\",{},{},{},{precision},{}\n",
                protocol.replace('"', "\"\""),
                average.name(),
                point.threshold,
                point.recall,
                point.queries
            );
        }
    }
    text
}

/// Precision over recall, a line for each protocol.
fn chart(curves: &[&PrecisionRecallCurve]) -> String {
    let line = |curve: &&PrecisionRecallCurve| Series {
        // Shorten the protocol: all curves of a chart share the rest, and the legend has no space for it.
        name: curve.protocol.split(", labels").next().unwrap_or_default().to_owned(),
        points: curve.points.iter().filter_map(|it| Some((it.recall, it.precision?))).collect(),
    };
    let title = curves.first().map_or_else(String::new, |it| {
        format!("{} {}: precision over recall, {}", it.benchmark, it.split, it.average.name())
    });
    line_chart_file(&title, "recall", &curves.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_eval::benchmarks::find;
    use conifer_eval::{CurveAverage, CurvePoint};

    use super::*;

    fn curve(protocol: &str, average: CurveAverage) -> PrecisionRecallCurve {
        let point = |threshold, recall, precision| CurvePoint { threshold, recall, precision, queries: 2 };
        PrecisionRecallCurve {
            benchmark: "part_retrieval".into(),
            split: "photo_to_box".into(),
            protocol: protocol.into(),
            average,
            points: vec![point(1.0, 0.0, None), point(0.5, 0.25, Some(0.75)), point(0.0, 1.0, Some(0.5))],
        }
    }

    #[test]
    fn files_of_curves() {
        let folder = tempfile::tempdir().unwrap();
        let benchmarks = [find("part_retrieval").unwrap(), find("hyperlex").unwrap()];
        let target = CurveFolder::create(&folder.path().join("a/b"), &benchmarks).unwrap();
        let curves = [
            curve("cosine, labels alone", CurveAverage::Mean),
            curve("angle, labels alone", CurveAverage::Mean),
            curve("cosine, labels alone", CurveAverage::Pooled),
        ];
        let files = target.write(&curves).unwrap();
        let names: Vec<_> = files.iter().map(|it| it.file_name().unwrap().to_str().unwrap()).collect();
        let charts = ["part_retrieval_photo_to_box_mean.svg", "part_retrieval_photo_to_box_pooled.svg"];
        assert_eq!(names, [&[TABLE][..], &charts[..]].concat());
        let text = std::fs::read_to_string(&files[0]).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 3 * 3);
        assert_eq!(lines[1], "part_retrieval,photo_to_box,\"cosine, labels alone\",mean,1,0,,2");
        assert_eq!(lines[2], "part_retrieval,photo_to_box,\"cosine, labels alone\",mean,0.5,0.25,0.75,2");
        let svg = std::fs::read_to_string(&files[1]).unwrap();
        assert_eq!((svg.matches("<polyline").count(), svg.contains("NaN")), (2, false));

        let again = CurveFolder::create(&folder.path().join("a/b"), &benchmarks).err().unwrap().to_string();
        assert!(again.ends_with("curves.csv exists; expected a folder without curves.csv"), "{again}");
        let other = CurveFolder::create(folder.path(), &benchmarks[1..]).err().unwrap().to_string();
        assert!(other.contains("hyperlex draws no curves; expected a benchmark that does"), "{other}");
    }
}
