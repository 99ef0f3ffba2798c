//! Stores: commands, damaged files, and killed writers.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use conifer_index::Store;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{ListAccessor, RowAccessor};
use serde_json::Value;

use crate::{command, good, refused};

/// The point of the row with this number. Ids and texts follow from the number too.
fn point(number: usize) -> [f32; 3] {
    [number as f32 * 1e-3, (number % 7) as f32 * 0.1, 0.5]
}

fn write_set(path: &Path, numbers: std::ops::Range<usize>) {
    let ids: Vec<String> = numbers.clone().map(|i| format!("row {i}")).collect();
    let modality = vec![Modality::Text; ids.len()];
    let points = numbers.clone().flat_map(point).collect();
    let source = Provenance { weights: "a".repeat(64), model: "m".into(), ..Provenance::default() };
    let mut set =
        EmbeddingSet::new(ManifoldSpec::lorentz(3, 1.0), Root::Origin, ids, modality, points, source).unwrap();
    set.columns.insert("text".into(), numbers.map(|i| format!("text {i}")).collect());
    set.save(path).unwrap();
}

#[test]
fn store_is_searched_like_a_set() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("a"), 0..40);
    write_set(&here.join("b"), 40..60);
    let first = good(here, &["--json", "store", "create", "store", "a"]);
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["rows"], 40, "{first}");
    assert_eq!(good(here, &["store", "append", "store", "b"]), "version 3: 60 rows\n");
    let near = |set: &str| good(here, &["--json", "search", set, "--id", "row 20", "-k", "4"]);
    let rows: Vec<Value> = serde_json::from_str(&near("store")).unwrap();
    assert_eq!((&rows[0]["id"], &rows[0]["columns"]["text"]), (&"row 20".into(), &"text 20".into()));
    assert_eq!(near("store"), near("a"));
    let deleted = good(here, &["--json", "store", "delete", "store", "--id", "row 20", "--id", "row 99"]);
    let deleted: Value = serde_json::from_str(&deleted).unwrap();
    assert_eq!((&deleted["deleted"], &deleted["absent"][0]), (&1.into(), &"row 99".into()));
    refused(here, &["search", "store", "--id", "row 20"], &["no row has the id `row 20`", "59 rows"]);
    good(here, &["traverse", "store", "--id", "row 50", "--modality", "text"]);
    good(here, &["store", "delete", "store", "--rows", "0,1", "--of", "4"]);
    assert!(good(here, &["store", "compact", "store"]).contains("version 6: 57 rows\nremoved 5 old versions"));
    let info: Value = serde_json::from_str(&good(here, &["--json", "store", "info", "store"])).unwrap();
    assert_eq!((&info["modality"]["text"], &info["dtype"]), (&57.into(), &"F32".into()));
    let versions: Value = serde_json::from_str(&good(here, &["--json", "store", "versions", "store"])).unwrap();
    assert_eq!(versions.as_array().unwrap().len(), 1);
    good(here, &["store", "check", "store"]);

    refused(here, &["store", "create", "store", "a"], &["a store already"]);
    // Append rows that are already in the store.
    let words = ["37 of 40 rows", "in the store", "`row 2` (text)", "--if-absent", "--allow-duplicates"];
    refused(here, &["store", "append", "store", "a"], &words);
    let again = good(here, &["--json", "store", "append", "store", "a", "--if-absent"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((&again["rows"], &again["skipped"]), (&60.into(), &37.into()), "{again}");
    assert_eq!(good(here, &["store", "append", "store", "a", "--if-absent"]), "version 7: 60 rows\n");
    assert_eq!(good(here, &["store", "append", "store", "a", "--allow-duplicates"]), "version 8: 100 rows\n");
    refused(here, &["store", "create", "twice", "a", "b", "a"], &["`twice`", "40 of 40 rows", "--if-absent"]);
    assert!(!here.join("twice").exists());
    assert_eq!(
        good(here, &["store", "create", "twice", "a", "a", "--if-absent"]),
        "version 2: 40 rows\nversion 2: 40 rows\n"
    );
    let names = std::fs::read_dir(here).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|it| it.starts_with('.')).count(), 0);
    refused(here, &["store", "append", "a", "b"], &["an embedding set without versions"]);
    refused(here, &["store", "append", "store", "store"], &["a store; expected an embedding set"]);
    refused(here, &["store", "delete", "store"], &["--id, --ids or --rows"]);
    refused(here, &["store", "delete", "store", "--rows", "57", "--of", "6"], &["57; expected a row below 57"]);
    refused(here, &["store", "info", "nowhere"], &["nowhere", "not there"]);
    let path = here.join("store/segments/00000006/points.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    refused(here, &["store", "check", "store"], &["00000006/points.safetensors", "1 files are damaged"]);
}

/// The recovery in docs/search.md: the file of the damaged newest version is moved aside, and its segment is appended
/// again.
#[test]
fn damaged_version_can_be_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("a"), 0..40);
    write_set(&here.join("b"), 40..60);
    write_set(&here.join("c"), 60..65);
    good(here, &["store", "create", "store", "a", "b"]);
    let file = here.join("store/versions/00000003.json");
    let written = std::fs::read(&file).unwrap();
    std::fs::write(&file, &written[..written.len() / 2]).unwrap();
    refused(here, &["store", "append", "store", "c"], &["00000003.json", "damaged"]);

    std::fs::rename(&file, here.join("store/versions/00000003.json.damaged")).unwrap();
    let unlisted = |args: &[&str]| -> Value {
        let report: Value = serde_json::from_str(&good(here, args)).unwrap();
        report["unlisted"].clone()
    };
    let segment = "store/segments/00000003";
    assert_eq!(good(here, &["store", "append", "store", "c"]), "version 4: 45 rows\n");
    assert_eq!(unlisted(&["--json", "store", "check", "store"]), serde_json::json!([segment]));
    assert_eq!(good(here, &["store", "append", "store", segment]), "version 5: 65 rows\n");
    assert_eq!(unlisted(&["--json", "store", "compact", "store", "--keep", "9"]), serde_json::json!([segment]));

    std::fs::write(&file, &written).unwrap();
    assert_eq!(unlisted(&["--json", "store", "check", "store"]), serde_json::json!([]));
    let versions: Value = serde_json::from_str(&good(here, &["--json", "store", "versions", "store"])).unwrap();
    let rows = |it: &Value| (it["number"].as_u64().unwrap(), it["rows"].as_u64().unwrap());
    let rows: Vec<_> = versions.as_array().unwrap().iter().map(rows).collect();
    assert_eq!(rows, [(1, 0), (2, 40), (3, 60), (4, 45), (5, 65), (6, 65)]);
    assert_eq!(Store::open(&here.join("store")).unwrap().snapshot_of(3).unwrap().ids[59], "row 59");

    // A folder with other files must not become a store.
    for other in ["mine/tmp/notes/a", "mine/segments/20240101-run/b", "mine/deleted/12345678.txt"] {
        std::fs::create_dir_all(here.join(other).parent().unwrap()).unwrap();
        std::fs::write(here.join(other), "mine").unwrap();
    }
    refused(here, &["store", "create", "mine", "a"], &["`deleted/12345678.txt`", "an empty folder"]);
    assert_eq!(std::fs::read_to_string(here.join("mine/tmp/notes/a")).unwrap(), "mine");
}

/// A write operation on the store.
#[derive(Clone, Copy, Debug)]
enum StoreWrite {
    Append,
    Delete,
    Compact,
}

/// Kills `conifer store append`, `delete` or `compact` (SIGKILL) 200 times at a random moment. Afterwards the store
/// must hold exactly the rows of its last version, with their points and columns. A change that the program has
/// reported must be in that version. A change that it has not reported is there completely or not at all.
#[cfg(unix)]
#[test]
fn two_hundred_kills_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("set"), 0..300);
    good(here, &["store", "create", "store", "set"]);
    let mut there: BTreeSet<usize> = (0..300).collect();
    let (mut next, mut kills, mut midway, mut reported, mut silent) = (300, 0, 0, 0, 0);
    // Any sequence works. This one is the same in every run (Knuth's MMIX generator).
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    // Typical durations of a change, updated by the changes that were not killed in time.
    let (mut whole, mut writing) = (Duration::from_millis(60), Duration::from_millis(20));
    for round in 0.. {
        assert!(round < 1000, "{kills} kills of {round}");
        if kills == 200 {
            break;
        }
        let work = [StoreWrite::Append, StoreWrite::Delete, StoreWrite::Append, StoreWrite::Compact][random(4)];
        let mut after = there.clone();
        let args: &[&str] = match work {
            StoreWrite::Append => {
                std::fs::remove_dir_all(here.join("set")).unwrap();
                write_set(&here.join("set"), next..next + 100);
                after.extend(next..next + 100);
                next += 100;
                &["store", "append", "store", "set"]
            }
            StoreWrite::Delete => {
                // Delete enough rows to keep the store small, from all segments.
                after.retain(|_| random(3) > 0);
                let gone = there.difference(&after).map(|i| format!("row {i}\n"));
                std::fs::write(here.join("ids"), gone.collect::<String>() + "row none\n").unwrap();
                &["store", "delete", "store", "--ids", "ids"]
            }
            StoreWrite::Compact => &["store", "compact", "store"],
        };
        let begun = Instant::now();
        let mut child = command(here, args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let unfinished = || std::fs::read_dir(here.join("store/tmp")).unwrap().next().is_some();
        // In half of the rounds the delay starts at the first written file, because most of the run is program
        // start-up.
        let (late, wait) = (random(2) == 0, random(1000) as f64 / 900.0);
        while late && !unfinished() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(50));
        }
        let (from, wait) = if late { (Instant::now(), writing.mul_f64(wait)) } else { (begun, whole.mul_f64(wait)) };
        while from.elapsed() < wait && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(50));
        }
        child.kill().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        assert!(killed || status.success(), "{args:?}: {status}");
        kills += usize::from(killed);
        midway += usize::from(killed && unfinished());
        match (killed, late) {
            (true, _) => {}
            (false, true) => writing = (writing + from.elapsed()) / 2,
            (false, false) => whole = (whole + begun.elapsed()) / 2,
        }

        let store = Store::open(&here.join("store")).unwrap();
        let rows = store.snapshot().unwrap();
        let number = |id: &String| id.strip_prefix("row ").unwrap().parse::<usize>().unwrap();
        let found: BTreeSet<usize> = rows.ids.iter().map(number).collect();
        assert_eq!(found.len(), rows.len(), "duplicate rows");
        let what = format!("round {round}, {work:?}, killed: {killed}, said {said:?}");
        if said.contains("version") || !killed {
            assert!(found == after, "{what}: {} rows of {}", found.len(), after.len());
            reported += usize::from(killed);
        } else {
            assert!(found == after || found == there, "{what}: {} rows of {}", found.len(), there.len());
            silent += usize::from(found == after && found != there);
        }
        for (i, id) in rows.ids.iter().enumerate() {
            assert_eq!(*rows.row(i), point(number(id)), "{what}");
            assert_eq!(rows.columns["text"][i], format!("text {}", number(id)), "{what}");
        }
        let report = store.check(&mut |_| {}).unwrap();
        assert!(report.damage.is_empty(), "{what}: {:?}", report.damage);
        there = found;
    }
    eprintln!(
        "of {kills} kills, {midway} left temporary files, {silent} came between commit and report, {reported} after the report"
    );
    assert!(midway > 20, "{midway}");
}

#[test]
fn a_store_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_set(&here.join("a"), 0..300);
    good(here, &["store", "create", "store", "a"]);
    good(here, &["store", "delete", "store", "--id", "row 0"]);
    let export = |to: &str| -> Value {
        let output = good(here, &["--json", "export", "store", "--to", to, "--out", to, "--name", "photos"]);
        serde_json::from_str(&output).unwrap()
    };
    assert_eq!(
        (&export("qdrant")["rows"], &export("lancedb")["dim"], &export("parquet")["rows"]),
        (&299.into(), &5.into(), &299.into())
    );
    let read = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
    let collection: Value = serde_json::from_str(&read("qdrant/collection.json")).unwrap();
    assert_eq!(collection["vectors"], serde_json::json!({ "size": 5, "distance": "Euclid" }));
    let space: Value = serde_json::from_str(&read("qdrant/space.json")).unwrap();
    let bound = space["bound"].as_f64().unwrap();

    let lines: Vec<Value> = read("qdrant/points.jsonl").lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let points: Vec<&Value> = lines.iter().flat_map(|it| it["points"].as_array().unwrap()).collect();
    assert_eq!((lines.len(), points.len()), (2, 299));
    for (i, it) in points.iter().enumerate() {
        let [x, y, z] = point(i + 1).map(f64::from);
        let vector: Vec<f64> = it["vector"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let time = (1.0 + x * x + y * y + z * z).sqrt();
        let expected = [time, x, y, z, (bound - time * time - x * x - y * y - z * z).sqrt()];
        assert!(vector.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{vector:?}, {expected:?}");
        let payload = &it["payload"];
        assert_eq!((&it["id"], &payload["id"]), (&i.into(), &format!("row {}", i + 1).into()));
        assert_eq!(payload["columns"]["text"], format!("text {}", i + 1));
        assert!((payload["time"].as_f64().unwrap() - time).abs() < 1e-6);
    }

    // Read the Parquet file back with the library that data sets are read with, and row by row.
    let rows = here.join("lancedb/rows.parquet");
    let named = conifer_data::vectors::read_named(&rows, None).unwrap();
    assert_eq!((named.matrix.len(), named.matrix.width()), (299, 5));
    let reader = SerializedFileReader::try_from(rows.as_path()).unwrap();
    let names: Vec<String> =
        reader.metadata().file_metadata().schema_descr().columns().iter().map(|it| it.path().string()).collect();
    assert_eq!(names, ["row", "id", "modality", "vector.list.element", "time", "column_text"]);
    for (i, (row, expected)) in reader.into_iter().zip(&points).enumerate() {
        let row = row.unwrap();
        let payload = &expected["payload"];
        assert_eq!(row.get_long(0).unwrap(), i as i64);
        assert_eq!(
            (row.get_string(1).unwrap(), &named.ids[i]),
            (&payload["id"].as_str().unwrap().to_owned(), row.get_string(1).unwrap())
        );
        assert_eq!(row.get_string(2).unwrap(), payload["modality"].as_str().unwrap());
        let vector: Vec<f32> =
            expected["vector"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        assert_eq!(named.matrix.row(i).unwrap(), vector);
        let list = row.get_list(3).unwrap();
        assert_eq!((0..list.len()).map(|at| list.get_float(at).unwrap()).collect::<Vec<_>>(), vector);
        assert_eq!(row.get_double(4).unwrap(), payload["time"].as_f64().unwrap());
        assert_eq!(row.get_string(5).unwrap(), payload["columns"]["text"].as_str().unwrap());
    }
    assert!(read("lancedb/import.py").contains("pa.list_(pa.float32(), 5)"));

    refused(here, &["export", "store", "--to", "parquet", "--out", "parquet"], &["parquet exists"]);
    refused(
        here,
        &["export", "store", "--to", "parquet", "--out", "b", "--radius", "0.3"],
        &["row 0 (`row 1`)", "--radius"],
    );
    refused(here, &["export", "store", "--to", "parquet", "--out", "b", "--name", "a/b"], &["--name"]);
    assert!(!here.join("b").exists());
    assert_eq!(
        std::fs::read_dir(here)
            .unwrap()
            .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"))
            .count(),
        0
    );
}
