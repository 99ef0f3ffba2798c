//! Foreign files and unreadable versions in a store must not be touched.

use serde_json::{Value, json};

use super::*;

/// A store with version 2 (five rows `a`) and version 3 (four more rows `b`).
fn two(dir: &Path) -> Store {
    let store = store(dir);
    store.append(&batch("a", 5, 1), &mut quiet).unwrap();
    store.append(&batch("b", 4, 2), &mut quiet).unwrap();
    store
}

/// Every file except the lock, with its content.
fn state(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(dir).into_iter().filter(|it| !it.ends_with(LOCK)).map(|it| (it.clone(), fs::read(it).unwrap())).collect()
}

fn names_of(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|it| it.file_name().unwrap().to_str().unwrap()).collect()
}

/// The newest version is damaged, and the user continues from the previous one. The files of the damaged version must
/// stay unchanged under every operation, and must be usable again when its manifest is restored.
#[test]
fn files_of_a_moved_manifest_are_kept() {
    // Move the manifest within its folder, to another folder of the store, and out of the store.
    for place in
        ["store/versions/00000003.json.damaged", "store/aside/00000003.json", "store/00000003.json", "aside.json"]
    {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        let store = two(&dir);
        let whole = content(&store);
        let file = dir.join("versions/00000003.json");
        let written = fs::read(&file).unwrap();
        fs::write(&file, &written[..100]).unwrap();
        assert!(store.append(&batch("c", 3, 3), &mut quiet).is_err());

        let aside = folder.path().join(place);
        fs::create_dir_all(aside.parent().unwrap()).unwrap();
        fs::rename(&file, &aside).unwrap();
        let segment = state(&dir.join("segments/00000003"));
        assert_eq!(names_of(&store.unlisted().unwrap()), ["00000003"]);
        let c = batch("c", 3, 3);
        assert_eq!(store.append(&c, &mut quiet).unwrap().number, 4, "{place}");
        assert_eq!(store.delete(&["c1".to_owned()]).unwrap().version.number, 5);
        assert_eq!(store.compact(&mut quiet).unwrap().number, 6);
        assert_eq!(store.append(&batch("d", 2, 4), &mut quiet).unwrap().number, 7);
        assert_eq!(store.versions().unwrap().iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 4, 5, 6, 7]);
        let read = |number| store.snapshot_of(number).unwrap().ids;
        assert_eq!(read(2), batch("a", 5, 1).ids);
        assert_eq!(read(4), [batch("a", 5, 1).ids, c.ids.clone()].concat());
        assert_eq!((read(6).len(), read(7).len()), (7, 9));
        assert!(store.check(&mut |_| {}).unwrap().damage.is_empty());
        assert_eq!(state(&dir.join("segments/00000003")), segment, "{place}");
        assert_eq!(names_of(&store.unlisted().unwrap()), ["00000003"]);

        // The rows of the damaged version are an embedding set. With a good copy of its manifest the version is valid
        // again.
        let rows = EmbeddingSet::load(&dir.join("segments/00000003")).unwrap();
        assert_eq!(rows.ids, batch("b", 4, 2).ids);
        fs::write(&file, &written).unwrap();
        assert_eq!(EmbeddingSet { source: Default::default(), ..store.snapshot_of(3).unwrap().to_set() }, whole);
        assert!(store.check(&mut |_| {}).unwrap().damage.is_empty() && store.unlisted().unwrap().is_empty());
        fs::remove_file(&file).unwrap();

        // Garbage collection removes the files of removed versions, but no unlisted files.
        assert_eq!(store.gc(1).unwrap(), Removed { versions: 5, segments: 2 });
        assert_eq!(state(&dir.join("segments/00000003")), segment, "{place}");
        assert_eq!(names_of(&store.unlisted().unwrap()), ["00000003"]);
        assert_eq!(store.append(&rows, &mut quiet).unwrap().rows, 13);
    }
}

/// As `files_of_a_moved_manifest_are_kept`, with bitmaps of deleted rows, and with a change that was interrupted
/// before the user moved the previous version aside.
#[test]
fn cleanup_of_an_interrupted_write_keeps_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    let store = two(&base);
    store.delete(&["a2".to_owned(), "b1".to_owned()]).unwrap();
    let aside = ["00000004-00000002.bits", "00000004-00000003.bits"];
    let append = |dir: &Path| Store::open(dir).unwrap().append(&batch("c", 3, 3), &mut quiet);
    let (_, operations) = {
        let whole = folder.path().join("whole");
        copy(&base, &whole);
        with(usize::MAX, InjectedFault::Once, || append(&whole).unwrap())
    };
    let (mut stopped, mut half) = (0, 0);
    for at in 0..operations {
        let dir = folder.path().join(format!("stopped {at}"));
        copy(&base, &dir);
        if with(at, InjectedFault::Killed, || append(&dir)).0.is_ok() || dir.join("versions/00000005.json").exists() {
            continue;
        }
        stopped += 1;
        half += usize::from(dir.join("segments/00000005").exists());
        fs::rename(dir.join("versions/00000004.json"), dir.join("versions/old-4")).unwrap();
        let store = Store::open(&dir).unwrap();
        assert_eq!(names_of(&store.unlisted().unwrap()), aside, "{at}");
        let version = append(&dir).unwrap();
        assert_eq!((version.number, version.rows), (5, 12), "{at}");
        assert_eq!(names_of(&store.unlisted().unwrap()), aside, "{at}");
        assert!(fs::read_dir(dir.join(TMP)).unwrap().next().is_none(), "{at}");
    }
    assert!(stopped > 5 && half > 1, "{stopped}, {half}");
}

/// Keeps files that the store did not create, in folders with the names that a store uses.
#[test]
fn foreign_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("mine");
    let others = ["tmp/notes/a", "tmp/00000003.json", "segments/20240101-run/b", "deleted/12345678.txt", "lock"];
    for other in others {
        fs::create_dir_all(dir.join(other).parent().unwrap()).unwrap();
        fs::write(dir.join(other), "mine").unwrap();
    }
    let before = state(&dir);
    let error = Store::create(&dir, spec(), Root::Origin, Element::F32).unwrap_err().to_string();
    assert!(error.contains("an entry is `deleted/12345678.txt`; expected an empty folder"), "{error}");
    assert_eq!((state(&dir), fs::read_to_string(dir.join(LOCK)).unwrap()), (before, "mine".to_owned()));

    // Later operations do not touch them either.
    let dir = folder.path().join("store");
    let store = two(&dir);
    for other in others {
        fs::create_dir_all(dir.join(other).parent().unwrap()).unwrap();
        fs::write(dir.join(other), "mine").unwrap();
    }
    store.append(&batch("c", 3, 3), &mut quiet).unwrap();
    store.delete(&["a2".to_owned()]).unwrap();
    store.compact(&mut quiet).unwrap();
    store.gc(1).unwrap();
    for other in others {
        assert_eq!(fs::read_to_string(dir.join(other)).unwrap(), "mine", "{other}");
    }
    assert_eq!(content(&store).len(), 11);
}

/// If a folder or the lock of a store is a symbolic link, nothing is written or removed at its target.
#[cfg(unix)]
#[test]
fn symbolic_links_are_rejected() {
    for name in [TMP, SEGMENTS, DELETED, VERSIONS, LOCK] {
        let folder = tempfile::tempdir().unwrap();
        let (dir, scratch) = (folder.path().join("store"), folder.path().join("scratch"));
        let store = two(&dir);
        fs::rename(dir.join(name), &scratch).unwrap();
        if name == LOCK {
            fs::write(&scratch, "mine").unwrap();
        } else {
            fs::write(scratch.join("00000009"), "mine").unwrap();
        }
        std::os::unix::fs::symlink(&scratch, dir.join(name)).unwrap();
        let before = state(folder.path());
        let error = store.append(&batch("c", 3, 3), &mut quiet).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}`: the entry is a symbolic link; expected a f")), "{error}");
        assert!(store.gc(1).is_err() && state(folder.path()) == before, "{name}");

        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        std::os::unix::fs::symlink(&scratch, empty.join(name)).unwrap();
        assert!(Store::create(&empty, spec(), Root::Origin, Element::F32).is_err(), "{name}");
        fs::remove_dir_all(&empty).unwrap();
        assert!(state(folder.path()) == before, "{name}");
    }
}

/// Changes the manifest of a version and updates its checksum.
fn forge(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("sha256");
    change(&mut value);
    let json = serde_json::to_string_pretty(&value).unwrap();
    let body = json.trim_end_matches('}').trim_end();
    let sha = conifer_embeddings::sha256_hex(body.as_bytes());
    fs::write(path, format!("{body},\n  \"sha256\": \"{sha}\"\n}}\n")).unwrap();
}

/// Manifests with a valid checksum but invalid content are rejected: no path leads out of the store, and no row count
/// is trusted before the rows are read.
#[test]
fn forged_versions_are_rejected() {
    let rows = |count: u64| move |it: &mut Value| it["segments"][0]["rows"] = count.into();
    let name = |name: &'static str| move |it: &mut Value| it["segments"][0]["name"] = name.into();
    type Forgery = Box<dyn Fn(&mut Value)>;
    let forgeries: [(Forgery, &str); 11] = [
        (
            Box::new(|it| {
                let segment = it["segments"][0].clone();
                it["segments"] = vec![segment; 20_000].into();
            }),
            "one that names the segment `00000002` twice; expected each segment once",
        ),
        (Box::new(rows(1 << 60)), "one with 1152921504606846976 rows in a segment; expected less than 2^32"),
        (Box::new(rows(u64::MAX)), "rows in a segment; expected less than 2^32"),
        (Box::new(rows(1 << 31)), "number of rows is 5; expected 2147483648"),
        (Box::new(name("../../other/00000002")), "one with the segment `../../other/00000002`"),
        (Box::new(name("00000009")), "one with the segment `00000009`"),
        (Box::new(name("00000002-run")), "one with the segment `00000002-run`"),
        (
            Box::new(|it| it["segments"][0]["files"] = json!({ "../rows": { "bytes": 1, "sha256": "" } })),
            "one with the file `../rows`",
        ),
        (
            Box::new(|it| it["segments"][0]["files"]["manifest.json"]["bytes"] = u64::MAX.into()),
            "one of 2^64 bytes; expected less",
        ),
        (
            Box::new(|it| {
                it["segments"][0]["deleted"] =
                    json!({ "name": "../00000002.bits", "rows": 1, "seal": { "bytes": 8, "sha256": "" } });
            }),
            "one with deleted rows in `../00000002.bits`",
        ),
        (
            Box::new(|it| {
                let seal = json!({ "bytes": 8, "sha256": "" });
                it["segments"][0]["deleted"] = json!({ "name": "00000003-00000002.bits", "rows": 6, "seal": seal });
            }),
            "one with 6 deleted rows of 5",
        ),
    ];
    for (change, words) in forgeries {
        let folder = tempfile::tempdir().unwrap();
        let store = two(folder.path());
        let path = folder.path().join("versions/00000003.json");
        forge(&path, change);
        let before = state(folder.path());
        let refused = |result: Result<()>| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(words), "{error}, not {words}");
        };
        refused(store.snapshot().map(|_| ()));
        refused(store.delete(&["a1".to_owned()]).map(|_| ()));
        refused(store.delete_rows(3, &[0]).map(|_| ()));
        // A single segment without deleted rows is not compacted, but `gc` opens it before it removes older versions.
        refused(store.compact(&mut quiet).and_then(|_| store.gc(1)).map(|_| ()));
        assert!(state(folder.path()) == before, "{words}");
    }
}

/// The newest version has a single segment, whose manifest claims more rows than it has. The older versions must stay.
#[test]
fn gc_keeps_older_versions_if_the_newest_is_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.append(&batch("a", 5, 1), &mut quiet).unwrap();
    forge(&folder.path().join("versions/00000002.json"), |it| it["segments"][0]["rows"] = (1_u64 << 31).into());
    store.compact(&mut quiet).unwrap();
    let error = store.gc(1).unwrap_err().to_string();
    assert!(error.contains("number of rows is 5; expected 2147483648"), "{error}");
    assert!(folder.path().join("versions/00000001.json").exists());
}

/// Version numbers must not overflow.
#[test]
fn version_numbers_do_not_overflow() {
    let folder = tempfile::tempdir().unwrap();
    let store = two(folder.path());
    let last = folder.path().join(format!("versions/{}.json", u64::MAX));
    fs::copy(folder.path().join("versions/00000003.json"), &last).unwrap();
    forge(&last, |it| it["number"] = u64::MAX.into());
    let error = store.append(&batch("c", 3, 3), &mut quiet).unwrap_err().to_string();
    assert!(error.contains("the last number in use is 18446744073709551615"), "{error}");
    assert_eq!(store.version().unwrap().rows, 9);
}

/// Reading a pipe in the place of a file must not block.
#[cfg(unix)]
#[test]
fn pipes_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let store = two(folder.path());
    for name in ["versions/00000003.json", "segments/00000002/rows.jsonl", "segments/00000002/manifest.json"] {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(store.snapshot().is_err(), "{name}");
        let damage = store.check(&mut |_| {}).unwrap().damage;
        assert!(damage.iter().any(|it| it.to_string().contains("of another kind; expected a file")), "{damage:?}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    assert!(store.check(&mut |_| {}).unwrap().damage.is_empty());
}
