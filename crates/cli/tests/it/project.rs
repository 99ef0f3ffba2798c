//! `conifer project`: files, determinism and bad input.

use std::fs::{self, File};
use std::path::Path;

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;

use crate::{good, refused};

const FILES: [&str; 6] = ["points.csv", "points.parquet", "map.svg", "map.png", "map.html", "projection.json"];

/// A set of `len` rows in spirals around the origin, photos and texts in turn, with columns that need quoting.
fn write_set(path: &Path, spec: ManifoldSpec, len: usize) {
    let ids: Vec<String> = (0..len).map(|i| format!("row {i}")).collect();
    let modality = (0..len).map(|i| if i % 2 == 0 { Modality::Image } else { Modality::Text }).collect();
    let dim = spec.dim;
    let mut points: Vec<f32> =
        (0..len * dim).map(|at| ((at / dim) as f32 * 0.05) * ((at * 7 + at / dim) as f32).sin()).collect();
    if spec.curv.is_empty() && spec.to_string().contains("sphere") {
        points.chunks_exact_mut(dim).for_each(|row| {
            row[0] += 0.1;
            let norm = row.iter().map(|v| v * v).sum::<f32>().sqrt();
            row.iter_mut().for_each(|v| *v /= norm);
        });
    }
    let source = Provenance { weights: "a".repeat(64), model: "m".into(), ..Provenance::default() };
    let mut set = EmbeddingSet::new(spec, Root::Origin, ids, modality, points, source).unwrap();
    set.columns.insert("text".into(), (0..len).map(|i| format!("a \"big\", </script> {}", i % 3)).collect());
    set.columns.insert("level".into(), (0..len).map(|i| (i % 4).to_string()).collect());
    set.save(path).unwrap();
}

#[test]
fn every_projection_writes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("set"), ManifoldSpec::lorentz(5, 0.7), 40);
    for by in ["tangent-pca", "depth", "horopca", "cosne", "umap"] {
        let run = |out: &str| {
            let args = [
                "--json",
                "project",
                "set",
                "--by",
                by,
                "--iterations",
                "40",
                "--epochs",
                "50",
                "--seed",
                "5",
                "--out",
                out,
            ];
            serde_json::from_str::<Value>(&good(here, &args)).unwrap()
        };
        let [first, second] = [format!("{by}-1"), format!("{by}-2")];
        let report = run(&first);
        assert_eq!((&report["by"], &report["rows"], &report["space"]["dim"]), (&by.into(), &40.into(), &5.into()));
        // Variance and distortion are measured only for tangent PCA and HoroPCA, which keep the scale of distances.
        let has_quality = by != "depth" && by != "cosne" && by != "umap";
        assert_eq!(report.get("explained").is_some(), has_quality, "{report}");
        if has_quality {
            assert!(report["explained"].as_f64().unwrap() > 0.0 && report["distortion"].as_f64().unwrap() > 0.0);
        }
        if by == "cosne" {
            assert!(report["loss"].as_f64() < report["start_loss"].as_f64(), "{report}");
        }
        if by == "umap" {
            assert!(report["neighbours_kept"].as_f64().unwrap() > 0.3, "{report}");
        }
        run(&second);
        for name in FILES {
            let [a, b] = [&first, &second].map(|it| fs::read(here.join(it).join(name)).unwrap());
            assert!(!a.is_empty() && a == b, "{by}: {name} differs between two runs");
        }
        let csv = fs::read_to_string(here.join(&first).join("points.csv")).unwrap();
        assert!(csv.starts_with("row,id,modality,x0,x1,depth,column_level,column_text\n0,row 0,image,"), "{csv}");
        assert!(csv.contains(",\"a \"\"big\"\", </script> 0\"\n") && csv.lines().count() == 41, "{csv}");
        let file = SerializedFileReader::new(File::open(here.join(&first).join("points.parquet")).unwrap()).unwrap();
        assert_eq!(file.metadata().file_metadata().num_rows(), 40);
        let row = file.get_row_iter(None).unwrap().nth(3).unwrap().unwrap();
        let line: Vec<&str> = csv.lines().nth(4).unwrap().split(',').collect();
        assert_eq!((row.get_long(0).unwrap(), row.get_string(1).unwrap().as_str()), (3, "row 3"));
        assert_eq!(row.get_double(3).unwrap().to_string(), line[3]);
        let page = fs::read_to_string(here.join(&first).join("map.html")).unwrap();
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("\\u003c/script> 0") && !page.contains("http"));
        let svg = fs::read_to_string(here.join(&first).join("map.svg")).unwrap();
        assert!(svg.matches("<circle").count() >= 40 && !svg.contains("NaN"));
    }
    let names = fs::read_dir(here).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|it| it.starts_with('.')).count(), 0);
}

#[test]
fn spaces_samples_and_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("product"), ManifoldSpec::product_l1(3, 4, vec![1.0, 0.5, 2.0]), 30);
    write_set(&here.join("flat"), ManifoldSpec::euclidean(4), 30);
    write_set(&here.join("sphere"), ManifoldSpec::sphere(4), 30);
    write_set(&here.join("one"), ManifoldSpec::lorentz(3, 1.0), 1);
    for by in ["horopca", "cosne"] {
        refused(here, &["project", "product", "--by", by, "--out", "x"], &["product", "--factor 0 to 2"]);
        refused(here, &["project", "product", "--by", by, "--factor", "3", "--out", "x"], &["factor: 3", "below 3"]);
        refused(here, &["project", "flat", "--by", by, "--out", "x"], &["hyperbolic space", "tangent-pca"]);
        refused(here, &["project", "sphere", "--by", by, "--out", "x"], &["hyperbolic space"]);
        let out = format!("factor-{by}");
        good(here, &["project", "product", "--by", by, "--factor", "1", "--iterations", "20", "--out", &out]);
    }
    for set in ["product", "flat", "sphere"] {
        good(here, &["project", set, "--out", &format!("{set}-tangent")]);
        good(here, &["project", set, "--by", "depth", "--out", &format!("{set}-depth")]);
    }
    good(here, &["project", "product", "--by", "depth", "--factor", "2", "--out", "factor-depth"]);
    refused(here, &["project", "product", "--by", "depth", "--factor", "9", "--out", "x"], &["9", "below 3"]);
    good(here, &["project", "one", "--by", "horopca", "--out", "one-horopca"]);
    refused(here, &["project", "one", "--by", "cosne", "--out", "x"], &["rows: 1", "4 to 10000", "--sample"]);
    for dim in ["0", "5"] {
        for by in ["horopca", "tangent-pca"] {
            let args = ["project", "product", "--by", by, "--factor", "0", "--dim", dim, "--out", "x"];
            refused(here, &args, &[&format!("dim: {dim}"), "1 to 4"]);
        }
    }
    refused(here, &["project", "flat", "--by", "depth", "--dim", "3", "--out", "x"], &["--dim is 3", "2"]);
    refused(here, &["project", "product", "--center", "mean", "--out", "x"], &["--center mean", "hyperboloid"]);
    refused(here, &["project", "flat", "--out", "flat-depth"], &["flat-depth exists"]);
    refused(here, &["project", "flat", "--sample", "0", "--out", "x"], &["--sample is 0"]);
    refused(here, &["project", "absent", "--out", "x"], &["absent does not exist"]);
    assert!(!here.join("x").exists());

    let few = ["--json", "project", "product", "--factor", "1", "--dim", "3", "--sample", "7", "--out", "few"];
    let report: Value = serde_json::from_str(&good(here, &few)).unwrap();
    assert_eq!((&report["rows"], &report["rows_of_set"]), (&7.into(), &30.into()));
    assert!(fs::read_to_string(here.join("few/points.csv")).unwrap().contains("x0,x1,x2,depth"));
    let reduced = ["--json", "project", "product", "--by", "cosne", "--factor", "1", "--components", "3"];
    let reduced = [&reduced[..], &["--kernel", "torchdr", "--iterations", "20", "--out", "reduced"]].concat();
    let report: Value = serde_json::from_str(&good(here, &reduced)).unwrap();
    assert_eq!((&report["components"], &report["kernel"]), (&3.into(), &"torchdr".into()));
}

#[test]
fn umap_accepts_every_space_and_refuses_bad_settings() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("product"), ManifoldSpec::product_l1(3, 4, vec![1.0, 0.5, 2.0]), 30);
    write_set(&here.join("flat"), ManifoldSpec::euclidean(4), 30);
    write_set(&here.join("sphere"), ManifoldSpec::sphere(4), 30);
    write_set(&here.join("three"), ManifoldSpec::lorentz(3, 1.0), 3);
    let umap = |set: &'static str, more: &[&'static str]| [&["project", set, "--by", "umap"][..], more].concat();
    for set in ["product", "flat", "sphere"] {
        for target in ["plane", "disc"] {
            let out = format!("{set}-{target}");
            let args = umap(set, &["--epochs", "20", "--target", target, "--out"]);
            let args: Vec<&str> = ["--json"].into_iter().chain(args).chain([out.as_str()]).collect();
            let report: Value = serde_json::from_str(&good(here, &args)).unwrap();
            assert_eq!((&report["neighbours"], &report["target"]), (&15.into(), &target.into()), "{report}");
            assert!(report.get("center").is_none(), "{report}");
        }
    }
    good(here, &umap("product", &["--factor", "1", "--neighbours", "4", "--sample", "12", "--out", "factor"]));
    let refusals: [(&str, &[&str], &[&str]); 7] = [
        ("three", &[], &["rows: 3", "at least 4"]),
        ("flat", &["--neighbours", "31"], &["--neighbours is 31", "2 to 30"]),
        ("flat", &["--neighbours", "1"], &["--neighbours is 1"]),
        ("flat", &["--min-dist", "-1"], &["min_dist: -1", "0 to below 3"]),
        ("flat", &["--dim", "3"], &["--dim is 3", "expected 2"]),
        ("flat", &["--center", "root"], &["--center is given"]),
        ("product", &["--factor", "3"], &["--factor is 3", "below 3"]),
    ];
    for (set, more, words) in refusals {
        refused(here, &[&umap(set, more)[..], &["--out", "x"]].concat(), words);
    }
    assert!(!here.join("x").exists());
}

/// Coordinates that are not finite are refused, also in a file that another program wrote.
#[test]
fn nan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("set"), ManifoldSpec::lorentz(3, 1.0), 9);
    let path = here.join("set/points.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    for by in ["tangent-pca", "depth", "horopca", "cosne", "umap"] {
        refused(here, &["project", "set", "--by", by, "--out", "x"], &["set"]);
    }
    assert!(!here.join("x").exists());
}
