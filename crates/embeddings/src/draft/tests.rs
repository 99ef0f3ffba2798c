#![allow(clippy::unwrap_used)]

use std::fs;

use conifer_files::operation::faults::{InjectedFault, with};
use serde_json::json;

use super::*;
use crate::{EmbeddingSet, StoredSet};

const DIM: usize = 3;

fn plan(element: Element) -> DraftPlan {
    DraftPlan {
        spec: ManifoldSpec::lorentz(DIM, 0.5),
        root: Root::Origin,
        columns: vec!["label".to_owned(), "text".to_owned()],
        element,
        identity: BTreeMap::from([("model".to_owned(), "m".to_owned()), ("views".to_owned(), "image".to_owned())]),
    }
}

fn source() -> Provenance {
    Provenance { model: "m".into(), data: "d".into(), conifer: "0.1.0".into(), ..Provenance::default() }
}

fn point(row: u64) -> [f32; DIM] {
    [row as f32 / 3.0, -(row as f32), 1.0e-3]
}

fn add(draft: &mut Draft, rows: std::ops::Range<u64>) {
    for row in rows {
        let text = format!("\"text\" {row}\n\u{1f332}");
        assert_eq!(draft.add(&format!("id{row}"), Modality::Text, &["l", &text]).unwrap(), row);
    }
}

/// Adds ten rows and writes the points of the even rows.
fn even(draft: &mut Draft) {
    add(draft, 0..10);
    for row in (0..10).step_by(2) {
        draft.put(row, &point(row)).unwrap();
    }
}

fn odd(draft: &mut Draft) {
    for row in (1..10).step_by(2) {
        draft.put(row, &point(row)).unwrap();
    }
}

fn files(dir: &Path) -> Vec<Vec<u8>> {
    SetManifest::REQUIRED.iter().map(|name| fs::read(dir.join(name)).unwrap()).collect()
}

#[test]
fn an_interrupted_draft_ends_with_the_bytes_of_a_saved_set() {
    let home = tempfile::tempdir().unwrap();
    let (whole, parts, saved) = (home.path().join("whole"), home.path().join("parts"), home.path().join("saved"));
    let mut draft = Draft::open(&whole, plan(Element::F32)).unwrap();
    assert!(draft.state().is_null());
    even(&mut draft);
    odd(&mut draft);
    draft.finish(source()).unwrap();

    let mut draft = Draft::open(&parts, plan(Element::F32)).unwrap();
    even(&mut draft);
    draft.note(&json!({"left": "out"})).unwrap();
    draft.commit(json!({"place": 5})).unwrap();
    // Rows, points and notes after the commit are lost with the process.
    odd(&mut draft);
    add(&mut draft, 10..12);
    draft.put(10, &[9.0; 2 * DIM]).unwrap();
    draft.note(&json!("lost")).unwrap();
    drop(draft);
    assert!(!parts.exists());
    let mut draft = Draft::open(&parts, plan(Element::F32)).unwrap();
    assert_eq!((draft.state(), draft.rows()), (&json!({"place": 5}), 10));
    assert_eq!(draft.notes().unwrap(), [json!({"left": "out"})]);
    odd(&mut draft);
    draft.finish(source()).unwrap();
    assert_eq!(files(&parts), files(&whole));

    let set = EmbeddingSet::load(&whole).unwrap();
    assert!(set.rows().enumerate().all(|(row, found)| found == point(row as u64)));
    assert_eq!(set.columns["text"][3], "\"text\" 3\n\u{1f332}");
    set.save(&saved).unwrap();
    assert_eq!(files(&saved), files(&whole));
    // The identity is kept beside the rows until another writer replaces the set.
    let identity = plan(Element::F32).identity;
    assert!(!identity.is_empty());
    assert_eq!(StoredSet::identity(&whole).unwrap(), Some(identity.clone()));
    assert_eq!(StoredSet::identity(&saved).unwrap(), None);
    set.save(&whole).unwrap();
    assert_eq!(StoredSet::identity(&whole).unwrap(), None);
    let other = BTreeMap::from([("b".to_owned(), "2".to_owned())]);
    assert_eq!(first_difference(&identity, &identity), None);
    assert!(first_difference(&identity, &other).is_some());
    let mut names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["parts", "saved", "whole"], "no file of a draft is left");
}

/// The first commit comes before the first point.
#[test]
fn a_draft_without_points_continues() {
    let home = tempfile::tempdir().unwrap();
    let (whole, parts) = (home.path().join("whole"), home.path().join("parts"));
    let mut draft = Draft::open(&whole, plan(Element::F32)).unwrap();
    even(&mut draft);
    odd(&mut draft);
    draft.finish(source()).unwrap();

    let mut draft = Draft::open(&parts, plan(Element::F32)).unwrap();
    add(&mut draft, 0..10);
    draft.commit(json!({"place": 0})).unwrap();
    drop(draft);
    let mut draft = Draft::open(&parts, plan(Element::F32)).unwrap();
    assert_eq!((draft.rows(), draft.points()), (10, 0));
    (0..10).for_each(|row| draft.put(row, &point(row)).unwrap());
    draft.finish(source()).unwrap();
    assert_eq!(files(&whole), files(&parts));
}

/// The set was published, but the machine stopped before the draft was removed.
#[test]
fn leftovers_of_a_finished_draft_are_ignored() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let mut draft = Draft::open(&dir, plan(Element::F32)).unwrap();
    even(&mut draft);
    odd(&mut draft);
    draft.commit(json!(1)).unwrap();
    let state = fs::read(home.path().join(".set.unfinished/state.json")).unwrap();
    draft.finish(source()).unwrap();
    fs::create_dir(home.path().join(".set.unfinished")).unwrap();
    fs::write(home.path().join(".set.unfinished/state.json"), state).unwrap();
    assert!(!Draft::is_begun(&dir));
    let mut draft = Draft::open(&dir, plan(Element::F32)).unwrap();
    assert!(draft.state().is_null() && draft.rows() == 0);
    even(&mut draft);
    assert_eq!(EmbeddingSet::load(&dir).unwrap().len(), 10, "the old set stays until the new one is complete");
}

#[test]
fn a_draft_continues_only_with_the_same_identity() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let mut draft = Draft::open(&dir, plan(Element::F32)).unwrap();
    even(&mut draft);
    draft.commit(Value::Null).unwrap();
    let busy = Draft::open(&dir, plan(Element::F32)).unwrap_err().to_string();
    assert!(busy.contains("which another process is writing"), "{busy}");
    assert!(Draft::discard(&dir).is_err());
    drop(draft);
    let mut other = plan(Element::F32);
    other.identity.insert("views".to_owned(), "text".to_owned());
    let message = Draft::open(&dir, other.clone()).unwrap_err().to_string();
    assert!(message.contains("`views` is `image`; expected `text`"), "{message}");
    Draft::discard(&dir).unwrap();
    Draft::discard(&dir).unwrap();
    assert_eq!(Draft::open(&dir, other).unwrap().rows(), 0);
}

#[test]
fn damage_and_misuse_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let mut draft = Draft::open(&dir, plan(Element::F16)).unwrap();
    assert!(draft.add("x", Modality::Text, &["one"]).unwrap_err().to_string().contains("one per column"));
    add(&mut draft, 0..2);
    assert!(
        draft
            .put(1, &[0.0; 2 * DIM])
            .unwrap_err()
            .to_string()
            .contains("whole rows of 3 numbers, with row numbers below 2")
    );
    let large = draft.put(0, &[1.0, 7e4, 1.0]).unwrap_err().to_string();
    assert!(large.contains("component 1") && large.contains("70000 (inf as F16); expected a finite number"), "{large}");
    assert!(draft.put(0, &[1.0, f32::NAN, 1.0]).is_err());
    let mut wide = Draft::open(&home.path().join("wide"), plan(Element::F32)).unwrap();
    add(&mut wide, 0..1);
    let far = wide.put(0, &[2e9, 0.0, 0.0]).unwrap_err().to_string();
    assert!(far.contains("row 0, `sqrt(c) |x|`, is") && far.contains("at most 1e9"), "{far}");
    draft.put(0, &[1.0; DIM]).unwrap();
    draft.commit(Value::Null).unwrap();
    assert!(draft.finish(source()).unwrap_err().to_string().contains("1 points; expected 2, one per row"));
    assert!(!dir.exists());

    let points = home.path().join(".set.unfinished/set/points.safetensors");
    let bytes = fs::read(&points).unwrap();
    fs::write(&points, &bytes[..bytes.len() - 1]).unwrap();
    let message = Draft::open(&dir, plan(Element::F16)).unwrap_err().to_string();
    assert!(message.contains("points.safetensors") && message.contains("was changed or damaged"), "{message}");
    fs::write(home.path().join(".set.unfinished/state.json"), b"{\"version\":9}").unwrap();
    let message = Draft::open(&dir, plan(Element::F16)).unwrap_err().to_string();
    assert!(message.contains("`version` is 9; expected 1"), "{message}");

    let foreign = home.path().join("photos");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("cat.jpg"), b"cat").unwrap();
    assert!(Draft::open(&foreign, plan(Element::F32)).unwrap_err().to_string().contains("cat.jpg"));
    let mut off = plan(Element::F32);
    off.spec = ManifoldSpec::sphere(DIM);
    let mut draft = Draft::open(&home.path().join("off"), off).unwrap();
    add(&mut draft, 0..1);
    assert!(draft.put(0, &[3.0, 4.0, 0.0]).unwrap_err().to_string().contains("lift or normalise the points"));
}

/// Rounding to nearest has a relative error of at most 2^-11 with 11 significant bits, and 2^-8 with 8.
#[test]
fn half_precision_halves_the_size_within_the_rounding_error() {
    let home = tempfile::tempdir().unwrap();
    for (element, bound) in [(Element::F16, 2.0_f32.powi(-11)), (Element::BF16, 2.0_f32.powi(-8))] {
        let dir = home.path().join(element.name());
        let mut draft = Draft::open(&dir, plan(element)).unwrap();
        even(&mut draft);
        odd(&mut draft);
        draft.finish(source()).unwrap();
        let set = EmbeddingSet::load(&dir).unwrap();
        let mut off = false;
        for (row, found) in set.rows().enumerate() {
            for (found, exact) in found.iter().zip(point(row as u64)) {
                assert!((found - exact).abs() <= bound * exact.abs(), "{element:?}: {found} for {exact}");
                off |= *found != exact;
            }
        }
        assert!(off, "thirds are not representable in half precision");
        let file = fs::read(dir.join(SetManifest::POINTS)).unwrap();
        assert_eq!(file.len(), HEADER + 10 * DIM * 2);
        let manifest: Value = serde_json::from_slice(&fs::read(dir.join(SetManifest::FILE)).unwrap()).unwrap();
        assert_eq!(manifest["version"], 2);
        // Version 1 supports only F32.
        let text = manifest.to_string().replace("\"version\":2", "\"version\":1");
        fs::write(dir.join(SetManifest::FILE), text).unwrap();
        let message = EmbeddingSet::load(&dir).unwrap_err().to_string();
        assert!(message.contains(&format!("type of `points` is {}; expected F32", element.name())), "{message}");
    }
}

/// The safetensors crate, as an independent reader, finds the tensor.
#[test]
fn the_file_is_safetensors() {
    for (element, dtype, _) in Element::ALL {
        let mut file = element.header(2, DIM);
        assert_eq!(file.len(), HEADER);
        element.encode(&[0.5, -1.0, 2.0, 0.25, 0.0, -0.0], &mut file);
        let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
        let points = tensors.tensor("points").unwrap();
        assert_eq!((points.dtype(), points.shape()), (dtype, &[2, DIM][..]));
        let mut back = Vec::new();
        element.decode(points.data(), &mut back);
        assert_eq!(back, [0.5, -1.0, 2.0, 0.25, 0.0, -0.0]);
    }
    let longest = Element::BF16.header(usize::MAX >> 40, 1 << 16);
    assert_eq!(longest.len(), HEADER);
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_rejected() {
    let temporary = tempfile::tempdir().unwrap();
    let (real, link) = (temporary.path().join("real"), temporary.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    std::os::unix::fs::symlink("nowhere", temporary.path().join("dangling")).unwrap();
    for name in ["link", "link/", "dangling"] {
        let message = Draft::open(&temporary.path().join(name), plan(Element::F32)).unwrap_err().to_string();
        assert!(message.contains("a symbolic link; expected a folder or an unused path"), "{message}");
    }
    assert!(link.is_symlink() && fs::read_dir(temporary.path()).unwrap().count() == 3);
}

#[test]
fn loading_an_unfinished_set_is_an_error() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("set");
    let mut draft = Draft::open(&dir, plan(Element::F32)).unwrap();
    let load = || EmbeddingSet::load(&dir).unwrap_err().to_string();
    assert!(load().contains("cannot read"), "{}", load());
    add(&mut draft, 0..2);
    draft.put(0, &point(0)).unwrap();
    assert_eq!((draft.rows(), draft.points()), (2, 1));
    draft.commit(Value::Null).unwrap();
    assert!(load().contains("which is not finished"), "{}", load());
    draft.put(1, &point(1)).unwrap();
    draft.finish(source()).unwrap();
    assert_eq!(EmbeddingSet::load(&dir).unwrap().len(), 2);
}

/// Injects a fault before and after every file operation of a draft. Either the set is complete at its path, or the
/// draft continues and ends with the same bytes.
#[test]
fn a_fault_at_any_operation_loses_no_committed_row() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let write = |commits: &mut u64| -> Result<()> {
        let mut draft = Draft::open(&dir, plan(Element::F32))?;
        while draft.rows() < 6 {
            let row = draft.rows();
            add(&mut draft, row..row + 2);
            draft.put(row, &[point(row), point(row + 1)].concat())?;
            draft.commit(json!(row))?;
            *commits += 1;
        }
        draft.finish(source())
    };
    let (done, steps) = with(usize::MAX, InjectedFault::Once, || write(&mut 0));
    done.unwrap();
    let expected = files(&dir);
    assert!(steps > 80, "{steps}");
    let kinds = [InjectedFault::Once, InjectedFault::Killed, InjectedFault::Full];
    let mut continued = 0;
    for (at, fault) in (0..steps).flat_map(|at| kinds.map(|it| (at, it))) {
        fs::remove_dir_all(&dir).unwrap();
        let mut commits = 0;
        let (done, _) = with(at, fault, || write(&mut commits));
        let what = format!("{fault:?} at step {at} of {steps}");
        assert!(done.is_err() || dir.exists(), "{what}");
        if !dir.exists() {
            let mut again = 0;
            write(&mut again).unwrap_or_else(|error| panic!("{what}: {error}"));
            // A commit that reported a failure may still have happened.
            assert!(again <= 3 - commits, "{what}: {commits} and {again} commits");
            continued += usize::from(again < 3);
        }
        assert_eq!(files(&dir), expected, "{what}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), SetManifest::OWNED.len(), "{what}: a temporary file is left");
        Draft::discard(&dir).unwrap();
        let names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["set"], "{what}");
    }
    assert!(continued > 50, "{continued}");
}
