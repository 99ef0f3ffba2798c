#![allow(clippy::unwrap_used)]
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conifer_data::fixtures::{FixtureFolder, shared_data};
use conifer_data::hierarchy::Tree;
use conifer_data::{BBox, Cause, PartRule};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::parts::build_in_blocks;
use super::*;

const HEADER: &str =
    "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside";

fn row(image: &str, label: &str, [x1, y1, x2, y2]: [f32; 4], group: u8) -> String {
    format!("{image},xclick,{label},1,{x1},{x2},{y1},{y2},0,0,{group},0,0\n")
}

fn table(rows: &[String]) -> String {
    format!("{HEADER}\n{}", rows.concat())
}

fn spec(out: PathBuf, boxes: &[PathBuf]) -> PartsSpec {
    let thresholds = PartThresholds { min_count: 1, min_share: 0.0 };
    PartsSpec { boxes: boxes.into(), out, thresholds, ..PartsSpec::default() }
}

fn run(spec: &PartsSpec) -> BuiltGraph {
    build(spec, |_| ControlFlow::Continue(())).unwrap().unwrap()
}

fn message(spec: &PartsSpec) -> String {
    build(spec, |_| ControlFlow::Continue(())).err().unwrap().to_string()
}

fn pairs(counts: &PartCounts) -> BTreeMap<(String, String), (u64, u64)> {
    let named = |(w, p, it): (_, _, counts::PairCounts)| {
        ((counts.name(w).to_owned(), counts.name(p).to_owned()), (it.count, it.wholes))
    };
    counts.pairs().into_iter().map(named).collect()
}

const BIKE: [f32; 4] = [0.1, 0.1, 0.9, 0.9];
const WHEEL: [f32; 4] = [0.1, 0.5, 0.4, 0.8];
const OTHER_WHEEL: [f32; 4] = [0.6, 0.5, 0.9, 0.8];

/// Two bicycles have wheels, and one has none. One wheel is too small, one box contains a group of wheels, and one
/// wheel is only three quarters inside its bicycle.
#[test]
fn parts_of_three_bicycles() {
    let folder = FixtureFolder::new();
    let rows = [
        row("a", "bike", BIKE, 0),
        row("a", "wheel", WHEEL, 0),
        row("a", "wheel", OTHER_WHEEL, 0),
        row("b", "wheel", WHEEL, 0),
        row("b", "bike", BIKE, 1),
        row("b", "wheel", [0.2, 0.2, 0.25, 0.25], 0),
        row("c", "bike", BIKE, 0),
        row("c", "wheel", WHEEL, 1),
        row("c", "wheel", [0.7, 0.5, 0.966, 0.8], 0),
    ];
    let boxes = folder.write("boxes.csv", table(&rows));
    let built = run(&spec(folder.path().join("out"), std::slice::from_ref(&boxes)));
    let bike_wheel = ("bike".to_owned(), "wheel".to_owned());
    assert_eq!(pairs(&built.counts), [(bike_wheel.clone(), (3, 2))].into());
    let counts = &built.counts;
    assert_eq!((counts.photos, counts.boxes, counts.small), (3, 9, 1));
    let instances: Vec<_> = counts.classes().map(|it| (counts.name(it), counts.instances(it))).collect();
    assert_eq!(instances, [("bike", 3), ("wheel", 5)]);
    assert_eq!(
        built.graph.edges,
        [PartEdge { parent: "bike".into(), child: "wheel".into(), count: 3, share: 2.0 / 3.0 }]
    );
    assert_eq!(built.graph.to_text(), "bike\n  wheel  66.7 % 3\n");
    let report = fs::read_to_string(&built.files[0]).unwrap();
    let head = r#"{"rule":{"containment":0.8,"min_area":0.01,"drop_groups":true},"thresholds":{"min_count":1,"min_share":0.0},"photos":3"#;
    assert!(report.starts_with(head), "{report}");
    assert!(report.contains(r#""classes":[{"label":"bike","name":"bike","boxes":3}"#), "{report}");
    assert!(report.ends_with(r#""pairs":[["bike","wheel",3,2]]}"#), "{report}");

    let groups = PartsSpec {
        rule: PartRule { drop_groups: false, containment: 0.75, min_area: 0.0 },
        ..spec(folder.path().join("groups"), &[boxes])
    };
    assert_eq!(pairs(&run(&groups).counts), [(bike_wheel, (6, 3))].into());
}

/// Photos of up to 12 boxes of 7 classes; some lines are broken or empty.
fn random_table(photos: u64, rng: &mut ChaCha8Rng) -> Vec<String> {
    let mut rows = Vec::new();
    for photo in 0..photos {
        for number in 0..rng.random_range(1..=12) {
            let mut side = || {
                let from: f32 = rng.random_range(0.0..0.8);
                (from, from + rng.random_range(0.05..0.2) * rng.random_range(1..=4) as f32)
            };
            let ((x1, x2), (y1, y2)) = (side(), side());
            let corners = [x1, y1, x2.min(1.0), y2.min(1.0)];
            let group = u8::from(rng.random_bool(0.1));
            rows.push(row(&format!("p{photo}"), &format!("/m/{}", rng.random_range(0..7)), corners, group));
            // Invalid lines between the boxes of a photo must not split it.
            if photo % 9 == 4 && number == 0 {
                rows.push(row("elsewhere", "/m/1", [f32::NAN, 0.0, 1.0, 1.0], 0));
                rows.push("short\n".to_owned());
                rows.push("\n".to_owned());
            }
        }
    }
    rows
}

/// Reference implementation: all rows at once, photo by photo.
fn reference_counts(rows: &[String]) -> BTreeMap<(String, String), (u64, u64)> {
    let mut photos: BTreeMap<&str, Vec<(&str, BBox, bool)>> = BTreeMap::new();
    for line in rows {
        let fields: Vec<_> = line.trim().split(',').collect();
        if fields.len() != 13 || line.contains("NaN") {
            continue;
        }
        let v = |i: usize| fields[i].parse().unwrap();
        let bbox = BBox { x1: v(4), x2: v(5), y1: v(6), y2: v(7) };
        photos.entry(fields[0]).or_default().push((fields[2], bbox, fields[10] == "1"));
    }
    let rule = PartRule::default();
    let mut out = BTreeMap::<_, (u64, u64)>::new();
    for boxes in photos.values() {
        for (whole, outer, _) in boxes.iter().filter(|it| rule.keeps(&it.1)) {
            let mut here = BTreeMap::<&str, u64>::new();
            for (part, inner, group) in boxes {
                if !group && rule.keeps(inner) && rule.contains(outer, inner) {
                    *here.entry(part).or_default() += 1;
                }
            }
            for (part, count) in here {
                let pair = out.entry(((*whole).to_owned(), part.to_owned())).or_default();
                *pair = (pair.0 + count, pair.1 + 1);
            }
        }
    }
    out
}

#[test]
fn counts_do_not_depend_on_block_size() {
    let rows = random_table(60, &mut ChaCha8Rng::seed_from_u64(1));
    let expected = reference_counts(&rows);
    assert!(expected.len() > 30, "{}", expected.len());
    let folder = FixtureFolder::new();
    let boxes = folder.write("boxes.csv", table(&rows));
    for size in [1, 100, 1000, 5000, 1 << 20] {
        let spec = spec(folder.path().join(format!("out{size}")), std::slice::from_ref(&boxes));
        let built = build_in_blocks(&spec, size, Duration::ZERO, |_| ControlFlow::Continue(())).unwrap().unwrap();
        assert_eq!(pairs(&built.counts), expected, "blocks of {size}");
        assert_eq!(built.counts.broken, [(Cause::BadBox, 7), (Cause::BadRecord, 7)].into());
        let line = rows.iter().position(|line| line.contains("NaN")).unwrap() + 2;
        let example = built.counts.examples.iter().find(|it| it.cause == Cause::BadBox).unwrap().to_string();
        let expected =
            format!("sample `line {line} of `{}``: bad_box: box is [NaN, 0, 1, 1]; expected", boxes.display());
        assert!(example.starts_with(&expected), "{example}");
    }
    // No line break at the end, and Windows line breaks.
    let text = table(&rows);
    let windows = folder.write("windows.csv", text.trim_end().replace('\n', "\r\n"));
    let spec = spec(folder.path().join("windows"), &[windows]);
    let built = build_in_blocks(&spec, 777, Duration::ZERO, |_| ControlFlow::Continue(())).unwrap().unwrap();
    assert_eq!(pairs(&built.counts), expected);
}

/// Content of all files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |it: fs::DirEntry| (it.file_name().into_string().unwrap(), fs::read(it.path()).unwrap());
    fs::read_dir(folder).unwrap().map(|it| read(it.unwrap())).collect()
}

/// Builds from two files and stops after every step.
#[test]
fn stopped_build_resumes_with_the_same_bytes() {
    let rows = random_table(80, &mut ChaCha8Rng::seed_from_u64(2));
    let middle = rows.iter().position(|line| line.starts_with("p40,")).unwrap();
    let folder = FixtureFolder::new();
    let boxes = [folder.write("a.csv", table(&rows[..middle])), folder.write("b.csv", table(&rows[middle..]))];
    let (whole, often) = (spec(folder.path().join("whole"), &boxes), spec(folder.path().join("often"), &boxes));
    run(&whole);
    let mut stops = 0;
    while build_in_blocks(&often, 500, Duration::MAX, |_| ControlFlow::Break(())).unwrap().is_none() {
        stops += 1;
    }
    assert!(stops > 3, "{stops}");
    let (whole, often) = (files(&whole.out), files(&often.out));
    assert_eq!(
        whole.keys().collect::<Vec<_>>(),
        ["edges.tsv", "outline.txt", "parts.json", "photos.bin", "state.json", "tree.tsv"]
    );
    assert!(whole == often);
}

const VICTIM: &str = "CONIFER_TEST_VICTIM";

fn slow_spec(folder: &Path) -> PartsSpec {
    spec(folder.join("out"), &[folder.join("boxes.csv")])
}

/// Body of the child process that the next test starts and kills. In an ordinary run it returns at once.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os(VICTIM) else { return };
    let slow = |_: &BuildProgress| {
        std::thread::sleep(Duration::from_millis(5));
        ControlFlow::Continue(())
    };
    build_in_blocks(&slow_spec(Path::new(&folder)), 300, Duration::ZERO, slow).unwrap();
}

#[test]
fn killed_build_resumes_with_the_same_bytes() {
    let folder = FixtureFolder::new();
    let rows = random_table(400, &mut ChaCha8Rng::seed_from_u64(3));
    let boxes = folder.write("boxes.csv", table(&rows));
    let spec = slow_spec(folder.path());
    let state = spec.out.join("state.json");
    let mut partly = 0;
    for _ in 0..4 {
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "part_graph::tests::victim"])
            .env(VICTIM, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let before = fs::read(&state).ok();
        let begin = Instant::now();
        while fs::read(&state).ok() == before && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(7));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let stored: serde_json::Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
        partly += u32::from(stored["file"] == 0);
    }
    assert!(partly > 0, "no run was killed before it finished");
    // A temporary file as left behind by a writer that was killed.
    fs::write(spec.out.join(".state.json.4711-0.tmp"), "{\"format\"").unwrap();
    run(&spec);
    let whole = super::tests::spec(folder.path().join("whole"), &[boxes]);
    run(&whole);
    assert!(files(&spec.out) == files(&whole.out));
}

#[test]
fn changed_thresholds_reuse_the_counts() {
    let folder = FixtureFolder::new();
    let rows = [row("a", "bike", BIKE, 0), row("a", "wheel", WHEEL, 0), row("b", "bike", BIKE, 0)];
    let boxes = folder.write("boxes.csv", table(&rows));
    let mut spec = spec(folder.path().join("out"), std::slice::from_ref(&boxes));
    assert_eq!(run(&spec).graph.edges.len(), 1);
    // The new content has the same length, so only reading the file would reveal the change.
    fs::write(&boxes, format!("{HEADER}\n{}", "x".repeat(rows.concat().len()))).unwrap();
    spec.thresholds = PartThresholds { min_count: 1, min_share: 0.51 };
    assert_eq!(run(&spec).graph.edges.len(), 0);
    spec.thresholds.min_share = 0.5;
    assert_eq!(run(&spec).graph.edges.len(), 1);
}

#[test]
fn invalid_requests_are_rejected() {
    let folder = FixtureFolder::new();
    let out = folder.path().join("out");
    assert_eq!(message(&spec(out.clone(), &[])), "data: `boxes` is empty; expected at least one file of boxes");
    let packed = folder.write("a.csv.gz", "");
    assert!(message(&spec(out.clone(), &[packed])).ends_with("unpacked"));
    let bad =
        PartsSpec { thresholds: PartThresholds { min_count: 1, min_share: 10.0 }, ..spec(out.clone(), &["a".into()]) };
    assert_eq!(message(&bad), "data: `min_share` is 10; expected a share, 0 to 1");

    let header = folder.write("header.csv", HEADER.replace("XMax", "Xmax"));
    let text = message(&spec(out.clone(), &[header]));
    assert!(
        text.contains("header.csv`: no column XMax; expected one column XMax (there are: ImageID, Source"),
        "{text}"
    );
    let empty = folder.write("empty.csv", table(&[]));
    assert!(message(&spec(folder.path().join("empty"), &[empty])).contains("holds no sample; expected boxes"));

    let apart = [row("a", "x", BIKE, 0), row("b", "x", BIKE, 0), row("a", "x", BIKE, 0)];
    let apart = folder.write("apart.csv", table(&apart));
    let text = message(&spec(folder.path().join("apart"), &[apart]));
    assert!(text.contains("data: line 4 of ") && text.contains("next to each other"), "{text}");

    let one = folder.write("one.csv", table(&[row("a", "x", BIKE, 0)]));
    run(&spec(out.clone(), std::slice::from_ref(&one)));
    let other = PartsSpec { rule: PartRule { containment: 0.9, ..PartRule::default() }, ..spec(out, &[one]) };
    let text = message(&other);
    assert!(text.contains("\"containment\":0.8") && text.contains("\"containment\":0.9"), "{text}");
    assert!(text.contains("delete the folder to start over"), "{text}");
}

#[test]
fn formats_give_the_same_counts() {
    let folder = FixtureFolder::new();
    let table = folder.write(
        "boxes.csv",
        table(&[row("7", "/m/bike", BIKE, 0), row("7", "/m/wheel", WHEEL, 0), row("8", "/m/wheel", WHEEL, 1)]),
    );
    let names = folder.write("names.csv", "LabelName,DisplayName\n/m/bike,\"race, bike\"\n");
    let json = folder.write(
        "boxes.json",
        r#"{"images": [{"id": 7, "coco_url": "http://x/7.jpg", "width": 100, "height": 100}, {"id": 8, "width": 10, "height": 10}],
            "annotations": [{"image_id": 7, "category_id": 1, "bbox": [10, 10, 80, 80]},
                            {"image_id": 7, "category_id": 2, "bbox": [10, 50, 30, 30], "iscrowd": 0},
                            {"image_id": 8, "category_id": 2, "bbox": [1, 5, 3, 3], "iscrowd": 1},
                            {"image_id": 8, "category_id": 2, "bbox": [1, null, 3, 3], "iscrowd": 1}],
            "categories": [{"id": 1, "name": "race,_bike"}, {"id": 2, "name": "/m/wheel"}]}"#,
    );
    let lines = folder.write(
        "boxes.jsonl",
        "{\"phrases\": [{\"text\": \"race,\\tbike\", \"boxes\": [[0.1, 0.1, 0.9, 0.9]]},\
                       {\"text\": \"/m/wheel\", \"boxes\": [[0.1, 0.5, 0.4, 0.8]]}]}\n\
         {\"phrases\": [{\"text\": \"/m/wheel\", \"boxes\": [[0.1, 0.5, 0.4, 0.8]], \"group_of\": true}]}\n",
    );
    for (kind, path) in [("csv", table), ("json", json), ("jsonl", lines)] {
        let mut spec = spec(folder.path().join(kind), &[path]);
        spec.names = (kind == "csv").then(|| names.clone());
        let built = run(&spec);
        assert_eq!(built.graph.edge_lines(), "race, bike\t/m/wheel\n", "{kind}");
        assert_eq!((built.counts.photos, built.counts.boxes), (2, 3), "{kind}");
        let broken = if kind == "json" { vec![(Cause::BadBox, 1)] } else { Vec::new() };
        assert_eq!(built.counts.broken.into_iter().collect::<Vec<_>>(), broken, "{kind}");
    }
}

/// Counts of photos that each contain one whole with one part.
fn counts(relations: &[(&str, &str, u64)], alone: &[(&str, u64)]) -> PartCounts {
    let mut counts = PartCounts::default();
    let bbox = |[x1, y1, x2, y2]: [f32; 4]| BBox { x1, y1, x2, y2 };
    for &(whole, part, times) in relations {
        let whole = ClassBox { class: counts.class(whole), bbox: bbox(BIKE), group_of: false };
        let part = ClassBox { class: counts.class(part), bbox: bbox(WHEEL), group_of: false };
        (0..times).for_each(|_| counts.add_photo(&[part, whole], &PartRule::default()));
    }
    for &(name, times) in alone {
        let one = ClassBox { class: counts.class(name), bbox: bbox(BIKE), group_of: false };
        (0..times).for_each(|_| counts.add_photo(&[one], &PartRule::default()));
    }
    counts
}

#[test]
fn thresholds_are_inclusive() {
    // 50 of 500 is exactly 10 %; 49 pairs are too few; 50 of 501 is below 10 %.
    let counts = counts(&[("a", "x", 50), ("b", "x", 49), ("c", "x", 50)], &[("a", 450), ("c", 451)]);
    let graph = PartGraph::new(&counts, &PartThresholds::default(), &HashMap::new());
    assert_eq!(graph.edge_lines(), "a\tx\n");
    let lvis = PartThresholds { min_count: 5, min_share: 0.05 };
    assert_eq!(PartGraph::new(&counts, &lvis, &HashMap::new()).edges.len(), 3);
}

/// The edges "car in person" and "person in person" are rejected, because each would close a cycle.
#[test]
fn weakest_relation_of_a_cycle_is_rejected() {
    let relations = [("person", "face", 60), ("person", "car", 10), ("car", "person", 50), ("person", "person", 20)];
    let counts = counts(&relations, &[]);
    let all = PartThresholds { min_count: 1, min_share: 0.0 };
    let graph = PartGraph::new(&counts, &all, &HashMap::new());
    assert_eq!(graph.edge_lines(), "car\tperson\nperson\tface\n");
    let refused: Vec<_> = graph.refused.iter().map(|edge| (&*edge.parent, &*edge.child)).collect();
    assert_eq!(refused, [("person", "person"), ("person", "car")]);
    assert_eq!(graph.roots(), ["car"]);
}

/// `wheel` is listed below both of its wholes, and its own parts are listed at the first occurrence only. The edge from
/// `wheel` to `tyre` has the largest `share` of the edges to `tyre`.
#[test]
fn shared_parts_are_expanded_once() {
    let relations =
        [("car", "wheel", 8), ("bike", "wheel", 9), ("wheel", "tyre", 20), ("bike", "tyre", 3), ("house", "door", 4)];
    let counts = counts(&relations, &[]);
    let all = PartThresholds { min_count: 1, min_share: 0.0 };
    let door = HashMap::from([("door".to_owned(), "Door".to_owned())]);
    let graph = PartGraph::new(&counts, &all, &door);
    let expected = "bike\n  wheel  75.0 % 9\n    tyre  54.1 % 20\n  tyre  25.0 % 3\ncar\n  wheel ...  100.0 % 8\nhouse\n  Door  100.0 % 4\n";
    assert_eq!(graph.to_text(), expected);

    let folder = FixtureFolder::new();
    let tree = Tree::read_edges(&folder.write("tree.tsv", graph.tree_edges())).unwrap();
    let parent = |name: &str| tree.name(tree.parent(tree.get(name).unwrap()).unwrap());
    assert_eq!([parent("tyre"), parent("wheel"), parent("bike")], ["wheel", "car", graph::SCENE]);
    assert_eq!(tree.len(), 1 + 6);

    // A display name that two classes share is not used.
    let same = HashMap::from([("car", "it"), ("bike", "it")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(PartGraph::new(&counts, &all, &same).roots(), ["bike", "car", "house"]);
}

#[test]
fn lvis_as_published() {
    let Some(path) = shared_data("lvis/lvis_val_100.json") else { return };
    let folder = FixtureFolder::new();
    let mut spec = spec(folder.path().join("out"), &[path]);
    spec.thresholds = PartThresholds { min_count: 5, min_share: 0.05 };
    let built = run(&spec);
    assert_eq!((built.counts.boxes, built.counts.broken.len()), (977, 0));
    assert!(!built.graph.edges.is_empty());
    let tree = Tree::read_edges(&spec.out.join("tree.tsv")).unwrap();
    assert_eq!(tree.name(tree.root()), graph::SCENE);
}
