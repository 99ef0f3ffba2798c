#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use conifer_embeddings::Modality;
use conifer_files::operation::faults::{InjectedFault, with};
use conifer_geometry::ManifoldKind;

mod damage;

use super::*;
use crate::testing::{GATED, PLAIN, cloud, random_points, set_of};
use crate::{CellIndex, Effort, Filter, FlatIndex, Partition, Query};

fn quiet(_: usize) {}

fn spec() -> ManifoldSpec {
    ManifoldSpec::lorentz(3, 0.7)
}

/// `count` rows with the ids `{tag}0`, `{tag}1`, ..., of which `{tag}0` occurs twice, and a column named `tag`.
fn batch(tag: &str, count: usize, seed: u64) -> EmbeddingSet {
    let mut set = set_of(&spec(), Root::Origin, random_points(&spec(), count, seed));
    set.ids = (0..count).map(|i| format!("{tag}{}", i.saturating_sub(1))).collect();
    set.modality = (0..count).map(|i| if i % 3 == 0 { Modality::Image } else { Modality::Text }).collect();
    set.columns.insert(tag.to_owned(), (0..count).map(|i| format!("{tag} {i}")).collect());
    set.source.weights = "b".repeat(64);
    set
}

fn store(dir: &Path) -> Store {
    Store::create(dir, spec(), Root::Origin, Element::F32).unwrap()
}

/// The rows of a store with the source cleared, for comparisons.
fn content(store: &Store) -> EmbeddingSet {
    EmbeddingSet { source: Default::default(), ..store.snapshot().unwrap().to_set() }
}

fn without(set: &EmbeddingSet, ids: &[&str]) -> EmbeddingSet {
    let rows: Vec<usize> = (0..set.len()).filter(|i| !ids.contains(&set.ids[*i].as_str())).collect();
    set.select(&rows).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Every file in a folder and its subfolders.
fn files(dir: &Path) -> Vec<PathBuf> {
    let inside = |entry: fs::DirEntry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] };
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().flat_map(|entry| inside(entry.unwrap())).collect();
    files.sort();
    files
}

#[test]
fn appends_and_deletes_like_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"));
    assert!(store.snapshot().unwrap().is_empty());
    let (a, b) = (batch("a", 200, 1), batch("b", 70, 2));
    let first = store.append(&a, &mut quiet).unwrap();
    assert_eq!((first.number, first.rows, first.made.as_str()), (2, 200, "append"));
    store.append(&b, &mut quiet).unwrap();
    let mut expected = EmbeddingSet::concat(&[&a, &b]).unwrap();
    expected.source = Default::default();
    assert_eq!(content(&store), expected);
    let held = store.snapshot().unwrap();

    let ids = ["b7", "a0", "nobody", "a150"].map(str::to_owned);
    let deletion = store.delete(&ids).unwrap();
    // Two rows have the id `a0`.
    assert_eq!((deletion.rows, deletion.absent), (4, vec!["nobody".to_owned()]));
    expected = without(&expected, &["b7", "a0", "a150"]);
    assert_eq!(content(&store), expected);
    // Deleting deleted rows changes nothing.
    let again = store.delete(&ids).unwrap();
    assert_eq!((again.rows, again.version.number, again.absent.len()), (0, 4, 4));
    // Row 0 is now `a1`, and the last row is `b68`.
    let last = expected.len() - 1;
    assert_eq!(store.delete_rows(4, &[0, last, 0]).unwrap().rows, 2);
    expected = without(&expected, &["a1", "b68"]);
    assert_eq!(content(&store), expected);
    // Row numbers of an older version refer to the same rows.
    assert_eq!(store.delete_rows(4, &[0, 1]).unwrap().rows, 1);
    expected = without(&expected, &["a2"]);

    let compact = store.compact(&mut quiet).unwrap();
    assert_eq!((compact.number, compact.segments, compact.deleted, compact.rows), (7, 1, 0, expected.len()));
    assert_eq!(content(&store), expected);
    assert_eq!(store.compact(&mut quiet).unwrap().number, 7);
    let error = store.delete_rows(4, &[3]).unwrap_err().to_string();
    assert!(error.contains("of version 4, older than the last compaction"), "{error}");

    // Older versions exist until `gc` removes them, and a reader keeps the files that it has opened.
    assert_eq!(store.snapshot_of(3).unwrap().ids, held.ids);
    assert_eq!(store.gc(1).unwrap(), Removed { versions: 6, segments: 2 });
    assert!(store.snapshot_of(3).is_err());
    assert_eq!(held.to_set().points, EmbeddingSet::concat(&[&a, &b]).unwrap().points);
    assert_eq!(files(store.dir()).len(), 5, "{:?}", files(store.dir()));
    assert_eq!(store.versions().unwrap(), [compact]);
    assert!(store.check(&mut |_| {}).unwrap().damage.is_empty());

    // A store without rows is valid, too.
    let everyone = expected.ids.clone();
    assert_eq!(store.delete(&everyone).unwrap().rows, expected.len());
    assert!(store.compact(&mut quiet).unwrap().rows == 0 && store.snapshot().unwrap().is_empty());
    store.append(&a, &mut quiet).unwrap();
    assert_eq!(store.snapshot().unwrap().ids, a.ids);
}

/// Compares searches over segments with deletions, in both precisions, with searches over the same rows in memory.
#[test]
fn search_on_disk_equals_search_in_memory() {
    let specs = [spec(), ManifoldSpec::product_l1(4, 2, vec![0.5, 1.0, 1.0, 2.0]), ManifoldSpec::sphere(5)];
    for (spec, element) in specs.iter().flat_map(|spec| [(spec, Element::F32), (spec, Element::F16)]) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), spec.clone(), Root::Origin, element).unwrap();
        // Norms up to 10 fit into half precision, but rounded points near the origin are off the sphere.
        let points = |seed| {
            if spec.kind == ManifoldKind::Sphere { random_points(spec, 90, seed) } else { cloud(spec, 60, seed) }
        };
        for seed in [1, 2, 3] {
            store.append(&set_of(spec, Root::Origin, points(seed)), &mut quiet).unwrap();
            let rows = store.snapshot().unwrap();
            let same = |rows: &Snapshot| {
                let set = rows.to_set();
                let (flat, slow) = (FlatIndex::on(rows).unwrap(), FlatIndex::new(&set).unwrap());
                let cells = CellIndex::on(rows, Partition::default()).unwrap();
                for queries in [points(9)[..spec.dim].to_vec(), points(10)] {
                    let query = Query::new(spec, &queries);
                    let odd = Filter::Rows(&|row| row % 2 == 1);
                    for ranking in PLAIN.into_iter().chain(GATED) {
                        let expected = slow.top_k(&query, ranking, 7, &odd).unwrap();
                        assert_eq!(flat.top_k(&query, ranking, 7, &odd).unwrap(), expected, "{spec}, {ranking:?}");
                        let found = cells.top_k(&query, ranking, 7, &odd, Effort::Exact).unwrap();
                        let found: Vec<_> = found.into_iter().map(|it| it.hits).collect();
                        assert_eq!(found, expected, "{spec}, {ranking:?}, cells");
                    }
                }
            };
            same(&rows);
            let gone: Vec<usize> = (0..rows.len()).filter(|row| row % 7 < 2).collect();
            store.delete_rows(rows.version().unwrap(), &gone).unwrap();
            same(&store.snapshot().unwrap());
        }
    }
}

#[test]
fn fingerprints_identify_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let set = batch("a", 5000, 3);
    let of = |set: &EmbeddingSet| Snapshot::of(set.clone()).unwrap().fingerprint().unwrap();
    let first = of(&set);
    assert_eq!((of(&set), first.len()), (first.clone(), 64));
    type SetChange = fn(&mut EmbeddingSet);
    let changes: [SetChange; 5] = [
        // This row is in the last block.
        |it| it.points[4999 * 3] *= 0.5,
        |it| it.ids[4999].push('!'),
        |it| it.modality[0] = Modality::BoxText,
        |it| it.columns.get_mut("a").unwrap()[0].clear(),
        |it| it.source.weights = "c".repeat(64),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut other = set.clone();
        change(&mut other);
        assert_ne!(of(&other), first, "change {i}");
    }
    let fewer: Vec<usize> = (0..4999).collect();
    assert_ne!(of(&set.select(&fewer).unwrap()), first);

    // Every reader of a store version sees the same fingerprint: the SHA-256 of its manifest. A selection has the
    // fingerprint of its rows.
    let store = store(dir.path());
    store.append(&set, &mut quiet).unwrap();
    let second = store.snapshot().unwrap().fingerprint().unwrap();
    let newest = fs::read(dir.path().join("versions/00000002.json")).unwrap();
    assert_eq!(second, conifer_embeddings::sha256_hex(&newest));
    assert_eq!(Store::open(dir.path()).unwrap().snapshot().unwrap().fingerprint().unwrap(), second);
    let part = store.snapshot().unwrap().select(&fewer).unwrap().fingerprint().unwrap();
    assert_eq!(part, of(&set.select(&fewer).unwrap()));
    store.delete(&["a7".to_owned()]).unwrap();
    assert_ne!(store.snapshot().unwrap().fingerprint().unwrap(), second);
}

#[test]
fn half_precision_is_rounded_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path(), spec(), Root::Origin, Element::F16).unwrap();
    let (a, b) = (batch("a", 20, 1), batch("b", 20, 2));
    store.append(&a, &mut quiet).unwrap();
    store.append(&b, &mut quiet).unwrap();
    let rounded: Vec<f32> = a.points.iter().chain(&b.points).map(|v| half::f16::from_f32(*v).to_f32()).collect();
    assert_eq!(content(&store).points, rounded);
    store.compact(&mut quiet).unwrap();
    assert_eq!(content(&store).points, rounded);
    let error = Store::create(&folder.path().join("b"), spec(), Root::Origin, Element::BF16).unwrap_err().to_string();
    assert!(error.contains("BF16; expected F32 or F16"), "{error}");
}

#[test]
fn incompatible_sets_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"));
    store.append(&batch("a", 5, 1), &mut quiet).unwrap();
    let refused = |change: &dyn Fn(&mut EmbeddingSet), words: &str| {
        let mut set = batch("b", 5, 2);
        change(&mut set);
        let error = store.append(&set, &mut quiet).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&|set| set.spec = ManifoldSpec::lorentz(3, 0.8), "the space of a set to append is ");
    refused(&|set| set.root = Root::Point(vec![0.5, 0.0, 0.0]), "the root of a set to append is the point that begins");
    refused(&|set| set.source.weights = "c".repeat(64), "the weights that made a set to append is sha256 cccc");
    refused(&|set| set.points[0] = f32::NAN, "row 0");
    // Unknown weights do not conflict with known ones.
    let mut unknown = batch("b", 5, 2);
    unknown.source.weights.clear();
    store.append(&unknown, &mut quiet).unwrap();
    assert_eq!(store.snapshot().unwrap().source.weights, "b".repeat(64));
    assert_eq!(store.snapshot().unwrap().len(), 10);
    assert_eq!(store.version().unwrap().number, 3);

    let error = Store::create(store.dir(), spec(), Root::Origin, Element::F32).unwrap_err().to_string();
    assert!(error.contains("a store already"), "{error}");
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("without a version"), "{error}");
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let error = Store::create(folder.path(), spec(), Root::Origin, Element::F32).unwrap_err().to_string();
    assert!(error.contains("an entry is `notes.txt`") || error.contains("an entry is `store`"), "{error}");

    let _other = disk::lock(&store.dir().join(LOCK), store.dir()).unwrap();
    let error = store.append(&unknown, &mut quiet).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    assert_eq!(store.snapshot().unwrap().len(), 10);
}

/// A name and a change of a store, which returns whether it succeeded.
type StoreChange = (&'static str, fn(&Store) -> bool);

/// Stops each change at each file operation in three ways. The store must then be in the old or the new state, every
/// file must be valid, and the change must be possible again. If the change reports success, the store must be in the
/// new state.
#[test]
fn interrupted_changes_lose_nothing() {
    let changes: [StoreChange; 5] = [
        ("append", |it| it.append(&batch("c", 2100, 3), &mut quiet).is_ok()),
        ("delete", |it| it.delete(&["a3".to_owned(), "b2".to_owned()]).is_ok()),
        ("delete rows", |it| it.delete_rows(4, &[1]).is_ok()),
        ("compact", |it| it.compact(&mut quiet).is_ok()),
        ("gc", |it| it.gc(1).is_ok()),
    ];
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    let built = store(&base);
    built.append(&batch("a", 8, 1), &mut quiet).unwrap();
    built.append(&batch("b", 8, 2), &mut quiet).unwrap();
    built.delete(&["a5".to_owned()]).unwrap();
    let before = content(&built);
    let mut tried = 0;
    for (name, change) in changes {
        let whole = folder.path().join("whole");
        copy(&base, &whole);
        let (made, operations) = with(usize::MAX, InjectedFault::Once, || change(&Store::open(&whole).unwrap()));
        assert!(made && operations > 4, "{name}: {operations}");
        let after = content(&Store::open(&whole).unwrap());
        fs::remove_dir_all(&whole).unwrap();
        for (at, fault) in (0..operations)
            .flat_map(|at| [InjectedFault::Once, InjectedFault::Killed, InjectedFault::Full].map(|it| (at, it)))
        {
            let dir = folder.path().join("stopped");
            copy(&base, &dir);
            let (made, _) = with(at, fault, || change(&Store::open(&dir).unwrap()));
            tried += 1;
            let what = format!("{name}, {fault:?} at operation {at} of {operations}");
            let store = Store::open(&dir).unwrap();
            let found = content(&store);
            assert!(found == after || !made && found == before, "{what}: {} rows", found.len());
            let report = store.check(&mut |_| {}).unwrap();
            assert!(report.damage.is_empty(), "{what}: {:?}", report.damage);
            // The lock is free and nothing blocks the next writer.
            let number = store.version().unwrap().number;
            if found == before {
                assert!(change(&store), "{what}, again");
                assert!(content(&store) == after, "{what}, again");
            }
            let more = batch("d", 3, 4);
            assert!(store.append(&more, &mut quiet).unwrap().number > number);
            assert_eq!(content(&store).len(), after.len() + 3);
            assert!(fs::read_dir(dir.join(TMP)).unwrap().next().is_none(), "{what}: files are left in tmp");
            assert_eq!(store.unlisted().unwrap(), Vec::<PathBuf>::new(), "{what}");
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Until its first version exists, a store can be created again at the same path.
#[test]
fn interrupted_creation_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let create = |dir: &Path| Store::create(dir, spec(), Root::Origin, Element::F32);
    let (made, operations) = with(usize::MAX, InjectedFault::Once, || create(&folder.path().join("whole")));
    made.unwrap();
    for at in 0..operations {
        let dir = folder.path().join(at.to_string());
        let (made, _) = with(at, InjectedFault::Killed, || create(&dir));
        if Store::open(&dir).is_err() {
            assert!(made.is_err(), "{at} of {operations}");
            create(&dir).unwrap();
        }
        let store = Store::open(&dir).unwrap();
        store.append(&batch("a", 3, 1), &mut quiet).unwrap();
        assert_eq!(content(&store).len(), 3);
    }
    // Remains of a creation by an older version of conifer, which created a store in place.
    let dir = folder.path().join("older");
    for part in FOLDERS {
        fs::create_dir_all(dir.join(part)).unwrap();
    }
    fs::write(dir.join("tmp/00000001.begun"), "half").unwrap();
    fs::write(dir.join(LOCK), "").unwrap();
    create(&dir).unwrap();
    assert_eq!(Store::open(&dir).unwrap().version().unwrap().number, 1);
}

/// Injects a full disk or a killed process at every operation while a store is created with its first rows. Afterwards
/// either the complete store exists or nothing.
#[test]
fn creation_with_rows_is_atomic() {
    let folder = tempfile::tempdir().unwrap();
    let set = batch("a", 2100, 3);
    let create = |dir: &Path| {
        let fill = |store: &Store| store.append_with(&set, Duplicates::Refuse, &mut quiet);
        Store::create_with::<_, Error>(dir, spec(), Root::Origin, Element::F32, fill)
    };
    let (made, operations) = with(usize::MAX, InjectedFault::Once, || create(&folder.path().join("whole")));
    let (store, appended) = made.unwrap();
    assert_eq!((appended.version.rows, appended.skipped), (2100, 0));
    assert_eq!(store.dir(), folder.path().join("whole"));
    assert_eq!(content(&store).ids, set.ids);
    assert!(operations > 10, "{operations}");
    for (at, fault) in (0..operations)
        .flat_map(|at| [InjectedFault::Once, InjectedFault::Killed, InjectedFault::Full].map(|it| (at, it)))
    {
        let dir = folder.path().join("store");
        let (made, _) = with(at, fault, || create(&dir));
        let what = format!("{fault:?} at operation {at} of {operations}");
        // The last rename can succeed and still report a failure.
        assert!(made.is_err() || dir.exists(), "{what}");
        if dir.exists() {
            assert_eq!(content(&Store::open(&dir).unwrap()).len(), 2100, "{what}");
            fs::remove_dir_all(&dir).unwrap();
        }
        // The store can be created again; this removes the temporary folder that a killed process left beside it.
        create(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{what}");
    }
    let error = create(&folder.path().join("whole")).unwrap_err().to_string();
    assert!(error.contains("a store already"), "{error}");
    // The error names the final path of the store, not the temporary folder.
    let other = |store: &Store| {
        let set = set_of(&ManifoldSpec::lorentz(3, 0.8), Root::Origin, vec![0.0; 3]);
        store.append(&set, &mut quiet)
    };
    let dir = folder.path().join("other");
    let error =
        Store::create_with::<_, Error>(&dir, spec(), Root::Origin, Element::F32, other).unwrap_err().to_string();
    assert!(error.contains("other`: the space of a set to append") && !dir.exists(), "{error}");
}

#[test]
fn duplicate_rows_are_rejected_or_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"));
    let set = batch("a", 9, 1);
    let append = |set: &EmbeddingSet, duplicates| store.append_with(set, duplicates, &mut quiet);
    append(&set, Duplicates::Refuse).unwrap();
    let error = append(&set, Duplicates::Refuse).unwrap_err().to_string();
    assert!(error.contains("9 of 9 rows whose id and modality are in the store, the first is `a0` (image)"), "{error}");
    let before = store.version().unwrap();
    assert_eq!(append(&set, Duplicates::Skip).unwrap(), Appended { version: before, skipped: 9 });

    // Captions with the same ids are new rows, except those whose id is already the id of a caption.
    let mut captions = set.clone();
    captions.modality = vec![Modality::Text; 9];
    let old: usize = set.modality.iter().filter(|it| **it == Modality::Text).count();
    // `a0` is the id of two rows, a photo and a caption.
    assert!(append(&captions, Duplicates::Refuse).is_err());
    let appended = append(&captions, Duplicates::Skip).unwrap();
    let there = |i: usize| set.ids.iter().zip(&set.modality).any(|it| it == (&captions.ids[i], &Modality::Text));
    assert_eq!(appended.skipped, (0..9).filter(|i| there(*i)).count());
    assert!(appended.skipped > old && appended.version.rows == 18 - appended.skipped);

    // Deleted rows do not count as duplicates.
    store.delete(&["a7".to_owned()]).unwrap();
    let appended = append(&set, Duplicates::Skip).unwrap();
    assert_eq!(appended.skipped, 8);
    assert_eq!(append(&set, Duplicates::Keep).unwrap().version.rows, appended.version.rows + 9);
}

/// Flips one bit at many positions. The check must name the file, and no reader may panic or return other rows.
#[test]
fn a_flipped_bit_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let store = store(&dir);
    store.append(&batch("a", 8, 1), &mut quiet).unwrap();
    store.append(&batch("b", 8, 2), &mut quiet).unwrap();
    store.delete(&["a5".to_owned()]).unwrap();
    let expected = content(&store);
    let mut tried = 0;
    for path in files(&dir).into_iter().filter(|path| !path.ends_with(LOCK)) {
        let bytes = fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by((bytes.len() / 40).max(1)).chain([bytes.len() - 1]) {
            tried += 1;
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, changed).unwrap();
            let damage = store.check(&mut |_| {}).unwrap().damage;
            let name = path.to_str().unwrap();
            assert!(damage.iter().any(|error| error.to_string().contains(name)), "{name}, byte {at}: {damage:?}");
            if let Ok(rows) = Store::open(&dir).and_then(|it| it.snapshot()) {
                assert_eq!(rows.ids, expected.ids, "{name}, byte {at}");
            }
        }
        // Truncate the file, then remove it.
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let named = |error: &Error| error.to_string().contains(path.to_str().unwrap());
        assert!(store.check(&mut |_| {}).unwrap().damage.iter().any(named));
        let of_old_version =
            path.ends_with("00000001.json") || path.ends_with("00000002.json") || path.ends_with("00000003.json");
        if !of_old_version {
            assert!(named(&store.snapshot().err().unwrap()), "{path:?}");
            fs::remove_file(&path).unwrap();
            // If the newest manifest is missing, nothing shows that it existed.
            if !path.ends_with("00000004.json") {
                assert!(named(&store.snapshot().err().unwrap()), "{path:?}");
                assert!(store.check(&mut |_| {}).unwrap().damage.iter().any(named));
            }
        }
        fs::write(&path, &bytes).unwrap();
        assert!(store.check(&mut |_| {}).unwrap().damage.is_empty());
    }
    assert!(tried > 300, "{tried}");
}

/// Invalid numbers in the points are found before a search, although opening the store does not read them.
#[test]
fn invalid_points_are_rejected_before_a_search() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.append(&batch("a", 8, 1), &mut quiet).unwrap();
    let path = folder.path().join("segments/00000002/points.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    bytes[256 + 12 * 5..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let error = FlatIndex::on(&store.snapshot().unwrap()).err().unwrap().to_string();
    assert!(error.contains("row 5 (`a4`)") && error.contains("store check"), "{error}");
    assert!(store.append(&batch("b", 2, 2), &mut quiet).is_ok() && store.compact(&mut quiet).is_err());
}

#[test]
fn a_later_layout_is_distinguished_from_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let path = folder.path().join("versions/00000001.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"layout\": 1", "\"layout\": 2");
    fs::write(&path, text).unwrap();
    let error = store.snapshot().err().unwrap().to_string();
    assert!(error.contains("00000001.json") && error.contains("`layout` is 2") && error.contains("later"), "{error}");
    assert!(store.append(&batch("a", 1, 1), &mut quiet).is_err());
}

/// Readers see complete versions while a writer appends, compacts and removes old versions.
#[test]
fn readers_see_whole_versions() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.append(&batch("a", 10, 0), &mut quiet).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut seen, mut last) = (0, 0);
                    while !done.load(Ordering::Relaxed) {
                        let rows = store.snapshot().unwrap();
                        assert!(rows.version().unwrap() >= last);
                        last = rows.version().unwrap();
                        // Batches are complete and in order.
                        assert_eq!(rows.len() % 10, 0);
                        for (i, id) in rows.ids.iter().enumerate() {
                            assert_eq!(*id, format!("a{}", (i % 10).saturating_sub(1)));
                        }
                        let expected = random_points(&spec(), 10, ((rows.len() / 10) - 1) as u64);
                        let tail: Vec<f32> =
                            (rows.len() - 10..rows.len()).flat_map(|i| rows.row(i).into_owned()).collect();
                        assert_eq!(tail, expected);
                        seen += 1;
                    }
                    seen
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            for i in 1..40 {
                store.append(&batch("a", 10, i), &mut quiet).unwrap();
                if i % 3 == 0 {
                    store.compact(&mut quiet).unwrap();
                }
                store.gc(1).unwrap();
            }
        });
        let written = writer.join();
        // Set `done` even after a failure, so that the readers stop.
        done.store(true, Ordering::Relaxed);
        written.unwrap();
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert_eq!(store.version().unwrap().rows, 400);
}
