//! `conifer project`: files, determinism and bad input.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;

use crate::{command, good, refused};

const FILES: [&str; 7] =
    ["points.csv", "points.parquet", "map.svg", "map.png", "map.html", "map.json", "projection.json"];

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
    refused(here, &["project", "one", "--by", "cosne", "--out", "x"], &["rows: 1", "at least 4"]);
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
        ("flat", &["--min-dist", "-1"], &["--min-dist is -1", "0 to below 3"]),
        ("flat", &["--dim", "3"], &["--dim is 3", "expected 2"]),
        ("flat", &["--center", "root"], &["--center is given"]),
        ("product", &["--factor", "3"], &["factor: 3", "below 3"]),
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

/// Starts a command and kills it (SIGKILL) when a file exists.
fn kill_when_written(here: &Path, args: &[&str], file: &Path) {
    let mut child = command(here, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before {} was written", file.display());
        assert!(begun.elapsed() < Duration::from_secs(120), "{} was not written", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "the program finished before it was killed");
}

/// A killed projection continues, on one thread instead of all, and writes the bytes of an uninterrupted one.
#[test]
fn killed_projections_continue_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("set"), ManifoldSpec::lorentz(5, 0.7), 120);
    let cases: [(&str, &[&str], &str); 5] = [
        ("horopca", &["--steps", "300", "--dim", "4"], "horopca"),
        ("cosne", &["--iterations", "300"], "cosne"),
        ("cosne", &["--iterations", "100", "--components", "3"], "horopca"),
        ("cosne", &["--iterations", "300", "--theta", "0.5"], "cosne"),
        ("umap", &["--epochs", "300", "--target", "disc"], "umap"),
    ];
    for (at, (by, more, stage)) in cases.into_iter().enumerate() {
        let (whole, killed) = (format!("whole-{at}"), format!("killed-{at}"));
        let of = |out: &'static str| [&["project", "set", "--by", by][..], more, &["--save-every", out]].concat();
        let uninterrupted = [of("1000"), vec!["--out", &whole]].concat();
        good(here, &uninterrupted);
        assert!(!here.join(format!(".{whole}.unfinished")).exists());
        let home = here.join(format!(".{killed}.unfinished"));
        let interrupted = [of("0"), vec!["--out", &killed]].concat();
        kill_when_written(here, &interrupted, &home.join(format!("{stage}.state")));
        assert!(!here.join(&killed).exists(), "{by}: the map was written");
        // Other settings are refused and leave the state as it is.
        let other = [&interrupted[..], &["--seed", "9"]].concat();
        refused(here, &other, &[".unfinished", "--seed `0`", "expected `9`", "--restart"]);
        // A second kill, after the state was replaced three times.
        let state = home.join(format!("{stage}.state"));
        let written = || fs::metadata(&state).ok().and_then(|it| it.modified().ok());
        let (mut last, mut replaced) = (written(), 0);
        let mut child = command(here, &interrupted).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while replaced < 3 && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{by}: the state is not replaced");
            std::thread::sleep(Duration::from_millis(1));
            let now = written();
            replaced += usize::from(now.is_some() && now != last);
            last = now;
        }
        _ = child.kill();
        child.wait().unwrap();
        if !here.join(&killed).exists() {
            let output = command(here, &interrupted).env("RAYON_NUM_THREADS", "1").output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && stderr.contains("continuing after"), "{by}: {stderr}");
        }
        for name in FILES {
            let [a, b] = [&whole, &killed].map(|it| fs::read(here.join(it).join(name)).unwrap());
            assert!(a == b, "{by} {more:?}: {name} differs after the kill");
        }
        assert!(!home.exists());
    }
    // Starting over discards the state.
    let args = ["project", "set", "--by", "cosne", "--iterations", "300", "--save-every", "0", "--out", "again"];
    kill_when_written(here, &args, &here.join(".again.unfinished/cosne.state"));
    let other = ["project", "set", "--by", "umap", "--epochs", "20", "--restart", "--out", "again"];
    good(here, &other);
    assert!(!here.join(".again.unfinished").exists() && here.join("again/map.json").exists());
}

/// The coordinates of a row in `points.csv`.
fn coordinates(here: &Path, map: &str, row: usize) -> Vec<f64> {
    let csv = fs::read_to_string(here.join(map).join("points.csv")).unwrap();
    let line = csv.lines().find(|line| line.starts_with(&format!("{row},"))).unwrap();
    line.split(',').skip(3).take(2).map(|it| it.parse().unwrap()).collect()
}

#[test]
fn queries_are_placed_in_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("set"), ManifoldSpec::lorentz(5, 0.7), 60);
    write_set(&here.join("product"), ManifoldSpec::product_l1(3, 4, vec![1.0, 0.5, 2.0]), 60);
    write_set(&here.join("sphere"), ManifoldSpec::sphere(4), 60);
    let place = |set: &str, map: &str, id: &str| -> Value {
        serde_json::from_str(&good(here, &["--json", "place", set, "--into", map, "--id", id])).unwrap()
    };
    let list =
        |value: &Value| -> Vec<f64> { value.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect() };
    let cases: [(&str, &str, &[&str]); 9] = [
        ("set", "tangent-pca", &["--center", "mean"]),
        ("set", "horopca", &[]),
        ("set", "depth", &[]),
        ("product", "horopca", &["--factor", "1", "--sample", "40"]),
        ("product", "tangent-pca", &[]),
        ("sphere", "tangent-pca", &[]),
        ("set", "cosne", &["--iterations", "60"]),
        ("set", "umap", &["--epochs", "60", "--target", "disc"]),
        ("product", "umap", &["--epochs", "60", "--factor", "2"]),
    ];
    for (at, (set, by, more)) in cases.into_iter().enumerate() {
        let map = format!("map-{at}");
        good(here, &[&["project", set, "--by", by, "--out", &map][..], more].concat());
        let csv = fs::read_to_string(here.join(&map).join("points.csv")).unwrap();
        let row: usize = csv.lines().nth(8).unwrap().split(',').next().unwrap().parse().unwrap();
        let found = place(set, &map, &format!("row {row}"));
        assert_eq!(found["by"], by);
        // A row of the map gets its place: by the formula, or as the only row at distance zero.
        let expected = coordinates(here, &map, row);
        for (a, b) in list(&found["coordinates"]).into_iter().zip(&expected) {
            assert!((a - b).abs() < 1e-9, "{set} {by}: {found} {expected:?}");
        }
        let nearest = found["nearest"].as_array().unwrap();
        assert_eq!(nearest.is_empty(), !["cosne", "umap"].contains(&by), "{found}");
        if let Some(first) = nearest.first() {
            assert_eq!((&first["row"], &first["distance"]), (&row.into(), &0.0.into()), "{found}");
        }
    }
    let text = good(here, &["place", "set", "--into", "map-7", "--id", "row 4"]);
    assert!(text.starts_with("x0 ") && text.contains("  depth ") && text.contains("row 4"), "{text}");
    // A row that is not in a map of a sample lies between its neighbours.
    good(here, &["project", "set", "--by", "umap", "--epochs", "60", "--sample", "40", "--out", "some"]);
    let csv = fs::read_to_string(here.join("some/points.csv")).unwrap();
    let absent = (0..60).find(|row| !csv.lines().any(|line| line.starts_with(&format!("{row},")))).unwrap();
    let found = place("set", "some", &format!("row {absent}"));
    let at = list(&found["coordinates"]);
    let nearest: Vec<Vec<f64>> = found["nearest"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| coordinates(here, "some", it["row"].as_u64().unwrap() as usize))
        .collect();
    for k in 0..2 {
        let range = nearest.iter().map(|it| it[k]).fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
        assert!(range.0 <= at[k] && at[k] <= range.1, "{at:?} {nearest:?}");
    }

    // Maps of other sets and spaces, and folders without a map.
    write_set(&here.join("longer"), ManifoldSpec::lorentz(5, 0.7), 61);
    let query = ["--id", "row 4"];
    let into = |set: &'static str, map: &'static str| [&["place", set, "--into", map][..], &query].concat();
    refused(here, &into("longer", "map-0"), &["map-0/map.json", "another set"]);
    refused(here, &into("sphere", "map-0"), &["map-0/map.json", "a map of the space", "sphere"]);
    refused(here, &into("set", "absent"), &["absent/map.json", "conifer project"]);
    refused(here, &["place", "set", "--into", "map-0", "--id", "nobody"], &["nobody"]);
    fs::write(here.join("map-0/map.json"), "{\"version\": 9}").unwrap();
    refused(here, &into("set", "map-0"), &["version 9", "expected 1"]);
    fs::write(here.join("map-1/map.json"), "{\"version\": 1}").unwrap();
    refused(here, &into("set", "map-1"), &["not the map of a projection"]);
    fs::remove_file(here.join("map-7/points.parquet")).unwrap();
    refused(here, &into("set", "map-7"), &["points.parquet"]);
}

/// Sets whose rows coincide, lie at the origin, or are a single row.
#[test]
fn unusual_sets_are_projected_or_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let write = |name: &str, points: Vec<f32>| {
        let len = points.len() / 3;
        let ids = (0..len).map(|i| i.to_string()).collect();
        let source = Provenance { weights: "a".repeat(64), model: "m".into(), ..Provenance::default() };
        let modality = vec![Modality::Text; len];
        let spec = ManifoldSpec::lorentz(3, 1.0);
        EmbeddingSet::new(spec, Root::Origin, ids, modality, points, source).unwrap().save(&here.join(name)).unwrap();
    };
    write("identical", [0.5, -0.2, 0.1].repeat(20));
    write("origin", vec![0.0; 60]);
    write("one-at-origin", (0..60).map(|at| if at < 3 { 0.0 } else { (at as f32).sin() }).collect());
    write("single", vec![0.3, 0.1, -0.2]);
    for set in ["identical", "origin", "one-at-origin"] {
        for by in ["tangent-pca", "depth", "horopca", "cosne", "umap"] {
            for more in [&[][..], &["--theta", "0.5"]] {
                let out = format!("{set}-{by}-{}", more.len());
                let args =
                    [&["project", set, "--by", by, "--iterations", "30", "--epochs", "30", "--out", &out][..], more];
                good(here, &args.concat());
                let csv = fs::read_to_string(here.join(&out).join("points.csv")).unwrap();
                assert!(!csv.contains("NaN") && !csv.contains("inf") && csv.lines().count() == 21, "{out}: {csv}");
                let found = good(here, &["--json", "place", set, "--into", &out, "--id", "0"]);
                assert!(!found.contains("null"), "{out}: {found}");
            }
        }
    }
    for by in ["tangent-pca", "depth", "horopca"] {
        good(here, &["project", "single", "--by", by, "--out", &format!("single-{by}")]);
    }
    refused(here, &["project", "single", "--by", "cosne", "--theta", "0.5", "--out", "x"], &["rows: 1", "at least 4"]);
    refused(here, &["project", "single", "--by", "umap", "--out", "x"], &["rows: 1", "at least 4"]);
    for theta in ["1", "-0.5", "nan"] {
        refused(
            here,
            &["project", "origin", "--by", "cosne", "--theta", theta, "--out", "x"],
            &["--theta is", "below 1"],
        );
    }
    assert!(!here.join("x").exists() && !here.join(".x.unfinished").exists());
}
