use std::sync::Arc;

use conifer_data::{BBox, PartRule};

use super::*;

/// A photo of 20 x 10 pixels with boxes. Its first pixel is `photo`; in all other pixels, columns of two pixels show
/// the `objects`.
fn scene(id: &str, photo: u8, objects: &[(&str, u8)]) -> Sample {
    let pixel = |i: usize| match i {
        0 => photo,
        _ => objects.get(i % 20 / 2).map_or(0, |it| it.1),
    };
    let rgb = (0..200).flat_map(|i| [pixel(i); 3]).collect();
    let phrase = |(column, (text, _)): (usize, &(&str, u8))| {
        let x1 = column as f32 / 10.0;
        let bbox = BBox { x1, y1: 0.1, x2: x1 + 0.1, y2: 1.0 };
        Phrase { text: (*text).into(), boxes: vec![bbox], ..Phrase::default() }
    };
    Sample {
        id: id.into(),
        image: Some(ImageRef::Pixels(Arc::new(Picture { width: 20, height: 10, rgb }))),
        phrases: objects.iter().enumerate().map(phrase).collect(),
        ..Sample::default()
    }
}

#[track_caller]
fn check(records: &[Record], protocol: &str, metric: &str, expected: [f64; 2], n: usize) {
    check_in("photo_to_box", records, protocol, metric, expected, n);
}

#[track_caller]
fn check_in(split: &str, records: &[Record], protocol: &str, metric: &str, expected: [f64; 2], n: usize) {
    let is = |it: &&Record| it.split == split && it.protocol == protocol && it.metric == metric;
    let found = records.iter().find(is).unwrap_or_else(|| panic!("{protocol}, {metric} in {records:?}"));
    let trivial = found.baseline.as_ref().unwrap().value;
    assert!((found.value - expected[0]).abs() < 1e-6 && found.n == n, "{found:?}; expected {expected:?}");
    assert!((trivial - expected[1]).abs() < 1e-6, "{found:?}; expected {expected:?}");
}

/// Photo a is at (1, 0). Its dog lies straight behind it (seen from the origin), and its cat to the side. Photo b is at
/// (0, 1), with its dog straight behind it.
#[test]
fn labels_alone_by_hand() {
    let samples = vec![scene("a", 0, &[("dog", 1), ("cat", 2)]), scene("b", 5, &[("dog", 6)])];
    let embedder =
        euclidean(&[], &[(0, [1.0, 0.0]), (1, [2.0, 0.0]), (2, [1.0, 2.0]), (5, [0.0, 1.0]), (6, [0.0, 2.0])]);
    let records = run("part_retrieval", &embedder, samples, None).unwrap();
    let cosine = "cosine, labels alone";
    // The top 25 %, 50 % and 75 % of 3 boxes are 1, 2 and 3 boxes (rounded up). By cosine, photo a retrieves its dog
    // (1), its cat (0.45) and the dog of b (0), all correct. Photo b retrieves its dog (1), the cat of a (0.89, wrong)
    // and the dog of a (0).
    check(&records, cosine, "hierarchical recall, top 25 %", [(1.0 / 3.0 + 1.0 / 2.0) / 2.0, 1.0 / 3.0], 2);
    check(&records, cosine, "hierarchical recall, top 50 %", [(2.0 / 3.0 + 1.0 / 2.0) / 2.0, 2.0 / 3.0], 2);
    check(&records, cosine, "hierarchical recall, top 75 %", [1.0, 1.0], 2);
    // For the first box of photo a, the shares of (cat, dog, others) should be (1/3, 2/3, 0) and are (0, 1, 0). `OT
    // transport` moves 1/3 by one position. `OT values` compares the values 0, 1/3, 2/3 with 0, 0, 1. The first box of
    // photo b has the true distribution. The baseline is the distribution over all candidates. It equals the true one
    // for photo a. For photo b, the shares of (dog, others) are (2/3, 1/3) instead of (1, 0).
    check(&records, cosine, "OT transport, top 25 %", [1.0 / 6.0, 1.0 / 6.0], 2);
    check(&records, cosine, "OT values, top 25 %", [1.0 / 9.0, 1.0 / 6.0], 2);
    // The first two boxes of photo a have the shares (1/2, 1/2, 0). `OT transport` moves 1/6, and `OT values` is (1/6 +
    // 1/6) over three entries. The first two boxes of photo b have (1/2, 1/2) instead of (1, 0).
    check(&records, cosine, "OT transport, top 50 %", [(1.0 / 6.0 + 1.0 / 2.0) / 2.0, 1.0 / 6.0], 2);
    check(&records, cosine, "OT values, top 50 %", [(1.0 / 9.0 + 1.0 / 2.0) / 2.0, 1.0 / 6.0], 2);
    // All boxes are correct for photo a. In the order of the cosine, the boxes for photo b are correct, wrong and
    // correct. The last box has cosine 0, which is the last threshold.
    check(&records, cosine, "hierarchical AP over thresholds", [(1.0 + 5.0 / 6.0) / 2.0, (1.0 + 2.0 / 3.0) / 2.0], 2);
    check(&records, cosine, "hierarchical precision at recall 0.5", [1.0, 5.0 / 6.0], 2);
    check(&records, cosine, "hierarchical precision at recall 0.75", [(1.0 + 2.0 / 3.0) / 2.0, 5.0 / 6.0], 2);
    // With "other photos", photo a retrieves the dog of b, the only correct box. Photo b retrieves the cat of a before
    // the dog of a, so the first of its two boxes is wrong.
    check(&records, "cosine, other photos, labels alone", "hierarchical recall, top 25 %", [0.5, (1.0 + 0.5) / 2.0], 2);
    assert!(records.iter().all(|it| it.interval.is_some() && it.baseline.is_some()));
    let gates: Vec<&str> = records.iter().map(|it| &*it.protocol).filter(|it| it.starts_with("gated")).collect();
    for gate in ["gated angle 2.5", "gated angle 2, other photos", "gated angle 1, labels alone"] {
        assert!(gates.contains(&gate), "{gate} in {gates:?}");
    }
    let options = Options { gate: 1.6, ..Options::default() };
    let source = BenchmarkSamples(vec![scene("a", 0, &[("dog", 1)]), scene("b", 5, &[("dog", 6)])]);
    let records = measure(find("part_retrieval").unwrap(), &Context::new(&embedder, &source, None, &options)).unwrap();
    assert!(
        ["gated angle 1.6", "gated angle 1.6, labels alone"].iter().all(|it| records.iter().any(|r| r.protocol == *it))
    );
}

#[test]
fn constant_scores_find_nothing() {
    let samples = vec![scene("a", 0, &[("dog", 0)]), scene("b", 0, &[("cat", 0), ("cat", 0), ("cat", 0)])];
    let records = run("part_retrieval", &euclidean(&[], &[(0, [1.0, 0.0])]), samples.clone(), None);
    assert!(records.unwrap_err().to_string().contains("every right candidate of another photo"));
    let samples = [samples, vec![scene("c", 0, &[("dog", 0)]), scene("d", 0, &[("cat", 0), ("cat", 0), ("cat", 0)])]];
    let records = run("part_retrieval", &euclidean(&[], &[(0, [1.0, 0.0])]), samples.concat(), None).unwrap();
    // 25 % of eight boxes are two. If scores tie, boxes of the other class come first, so these two are always wrong.
    for ranking in ["cosine", "distance", "angle", "gated angle 1"] {
        check(&records, &format!("{ranking}, labels alone"), "hierarchical recall, top 25 %", [0.0, 0.25], 4);
    }
}

/// The exterior angle at a photo on the axis is 0 for points behind the photo and pi for points between it and the
/// root.
#[test]
fn angle_thresholds_by_hand() {
    // Photo a at (1, 0): a dog at angle 0, a cat at a right angle (1, 1), a car towards the root (0.5, 0). Photo b at
    // (4, 0) has a car behind it.
    let samples = vec![scene("a", 0, &[("dog", 1), ("cat", 2), ("car", 3)]), scene("b", 5, &[("car", 6)])];
    let embedder = euclidean(
        &[],
        &[(0, [1.0, 0.0]), (1, [2.0, 0.0]), (2, [1.0, 1.0]), (3, [0.5, 0.0]), (5, [4.0, 0.0]), (6, [5.0, 0.0])],
    );
    let records = run("part_retrieval", &embedder, samples, None).unwrap();
    // All boxes are correct for photo a. Seen from photo b, its own car is at angle 0, the cat of a at pi - atan(1/3),
    // and the car and the dog of a at pi. Photo b thus reaches recall 1/2 (one of two cars) at precision 1. The second
    // car passes only the last threshold, together with the dog, at precision 2 of 4.
    check(&records, "angle, labels alone", "hierarchical AP over thresholds", [(1.0 + 0.75) / 2.0, 0.75], 2);
    check(&records, "angle, labels alone", "hierarchical precision at recall 0.75", [0.75, 0.75], 2);
    check(&records, "angle, labels alone", "hierarchical precision at recall 0.5", [1.0, 0.75], 2);
}

/// The points of the previous test, ranked by distance.
#[test]
fn distances_by_hand() {
    let samples = vec![scene("a", 0, &[("dog", 1), ("cat", 2), ("car", 3)]), scene("b", 5, &[("car", 6)])];
    let embedder = euclidean(
        &[],
        &[(0, [1.0, 0.0]), (1, [2.0, 0.0]), (2, [1.0, 1.0]), (3, [0.5, 0.0]), (5, [4.0, 0.0]), (6, [5.0, 0.0])],
    );
    let records = run("part_retrieval", &embedder, samples, None).unwrap();
    // All four boxes are correct for photo a. Photo b at (4, 0) finds its own car (at distance 1), then the dog (2),
    // the cat (3.2) and the car (3.5) of a. By cosine, it finds the car of a before the cat.
    check(&records, "distance, labels alone", "hierarchical recall, top 75 %", [(0.75 + 0.5) / 2.0, 0.75], 2);
    check(&records, "cosine, labels alone", "hierarchical recall, top 75 %", [(0.75 + 1.0) / 2.0, 0.75], 2);
    assert!(records.iter().any(|it| it.split == "box_to_photo" && it.protocol == "distance, other photos"));
    // Fig. 4 has no thresholds on distances.
    let over_thresholds = |it: &&Record| it.protocol.starts_with("distance") && it.metric.contains("thresholds");
    assert_eq!(records.iter().filter(over_thresholds).count(), 0);
}

/// A wheel is a part of cars and of bicycles, so photos of both retrieve it.
#[test]
fn a_part_of_several_wholes_is_right_for_each() {
    let graph = ClassGraph::from_edges([("car", "wheel"), ("bicycle", "wheel")]).unwrap();
    let samples = vec![scene("a", 0, &[("car", 1)]), scene("b", 5, &[("bicycle", 6)]), scene("c", 8, &[("wheel", 9)])];
    let ray = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let points = [(0, 0.0), (1, 1.0), (5, 90.0), (6, 89.0), (8, 45.0), (9, 44.0)];
    let embedder = euclidean(&[], &points.map(|(value, degrees)| (value, ray(degrees))));
    let records = run("part_retrieval", &embedder, samples, Some(&graph)).unwrap();
    let cosine = "cosine, labels and those below";
    // Photo a finds its car, then the wheel. Photo b finds its bicycle, then the wheel. Photo c finds the wheel. The
    // top 25 % and 50 % of 3 boxes are 1 and 2 boxes.
    check(&records, cosine, "hierarchical recall, top 25 %", [(0.5 + 0.5 + 1.0) / 3.0, 1.0 / 3.0], 3);
    check(&records, cosine, "hierarchical recall, top 50 %", [1.0, 2.0 / 3.0], 3);
    // The first two boxes of photos a and b have the true distribution (1/2, 1/2, 0). The first two boxes of photo c
    // are the wheel and another box: (1/2, 1/2) instead of (1, 0). Over all candidates each box counts 1/3, which costs
    // 1/6 + 1/3 for a and b and 2/3 for c.
    check(&records, cosine, "OT transport, top 50 %", [0.5 / 3.0, (0.5 + 0.5 + 2.0 / 3.0) / 3.0], 3);
    let classes = records.iter().find(|it| it.metric == "classes of a photo").unwrap();
    assert_eq!((classes.value, classes.baseline.as_ref().unwrap().value), (5.0 / 3.0, 1.0));
}

#[test]
fn descendants_in_the_tree_are_right() {
    let edges = [("thing", "animal"), ("animal", "dog"), ("animal", "cat"), ("thing", "car")];
    let tree = ClassGraph::from_edges(edges).unwrap();
    // Photo a has an animal, photo b a dog and a cat, photo c two cars. All points are unit vectors. By their angle to
    // the point of photo a, the boxes are ordered animal, car, dog, cat, car.
    let samples = |car: &str| {
        vec![
            scene("a", 0, &[("animal", 1)]),
            scene("b", 5, &[("dog", 6), ("cat", 7)]),
            scene("c", 8, &[("car", 9), (car, 10)]),
        ]
    };
    let ray = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let points = [(0, 0.0), (1, 1.0), (9, 10.0), (6, 20.0), (7, 30.0), (10, 40.0), (5, 90.0), (8, 90.0)];
    let embedder = euclidean(&[], &points.map(|(value, degrees)| (value, ray(degrees))));
    let records = run("part_retrieval", &embedder, samples("car"), Some(&tree)).unwrap();
    let cosine = "cosine, labels and those below";
    // The top 25 %, 50 % and 75 % of 5 boxes are 2, 3 and 4 boxes (rounded up). Photo a has 3 correct boxes (animal,
    // dog, cat) and finds 1, 2 and 3 of them. Photo b at 90 degrees finds the boxes in reverse order (car, cat, dog,
    // car, animal): 1, 2 and 2 of its dog and cat. Photo c has the same order as b and finds 1, 1 and 2 of its two
    // cars.
    let recall = |top: [f64; 3]| top.iter().sum::<f64>() / 3.0;
    check(&records, cosine, "hierarchical recall, top 25 %", [recall([1.0 / 3.0, 0.5, 0.5]), 0.4], 3);
    check(&records, cosine, "hierarchical recall, top 50 %", [recall([2.0 / 3.0, 1.0, 0.5]), 0.6], 3);
    check(&records, cosine, "hierarchical recall, top 75 %", [1.0, 0.8], 3);
    // `OT transport` of the first 2 boxes is the sum of the absolute cumulative differences, with labels in preorder.
    // Photo a (animal, dog, cat, others): (1, 1, 1, 0) / 3; found animal and car, (1/2, 0, 0, 1/2): 1/6 + 1/6 + 1/2.
    // Photo b (dog, cat, others): (1/2, 1/2, 0); found car and cat, (0, 1/2, 1/2): 1/2 + 1/2.
    // Photo c (car, others): (1, 0); found car and cat, (1/2, 1/2): 1/2.
    // All candidates: a has (1, 1, 1, 2) / 5: 2/15 + 4/15 + 6/15. b has (1, 1, 3) / 5: 3/10 + 6/10. c has 3/5.
    let found = (5.0 / 6.0 + 1.0 + 0.5) / 3.0;
    check(&records, cosine, "OT transport, top 25 %", [found, (12.0 / 15.0 + 0.9 + 0.6) / 3.0], 3);

    let error = run("part_retrieval", &embedder, samples("truck"), Some(&tree)).unwrap_err().to_string();
    assert!(error.contains("`truck` is not a node of the class tree (5 known"), "{error}");
    let options = Options { partial: true, ..Options::default() };
    let source = BenchmarkSamples(samples("truck"));
    let context = Context::new(&embedder, &source, Some(&tree), &options);
    let records = measure(find("part_retrieval").unwrap(), &context).unwrap();
    let noted = format!("{cosine}, partial: 4 of 5 labels stand in the tree");
    // Photo c now has a car, and a truck that is not in the tree. The order is the same, so photo c finds 1, 1 and 2 of
    // 2.
    check(&records, &noted, "hierarchical recall, top 75 %", [1.0, 0.8], 3);

    // A tree of unrelated labels is ignored. Without a tree, no label occurs in two photos.
    let other = ClassGraph::from_edges([("place", "beach")]).unwrap();
    let error = run("part_retrieval", &embedder, samples("car"), Some(&other)).unwrap_err().to_string();
    assert!(error.contains("every right candidate of another photo") && error.contains("of the same class"), "{error}");
    let shared = vec![scene("a", 0, &[("dog", 1)]), scene("b", 5, &[("dog", 6), ("cat", 7)])];
    let records = run("part_retrieval", &embedder, shared, Some(&other)).unwrap();
    assert!(records.iter().any(|it| it.protocol == "cosine, labels alone"));
}

/// Photo a shows an animal, photo b a dog, photo c a dog and a car. A photo is right for a box if it shows the class of
/// the box or a class above it: all three photos for the dogs, only a for the animal, only c for the car.
#[test]
fn boxes_retrieve_photos_of_classes_above_them() {
    let tree = ClassGraph::from_edges([("thing", "animal"), ("animal", "dog"), ("thing", "car")]).unwrap();
    let samples =
        vec![scene("a", 0, &[("animal", 1)]), scene("b", 5, &[("dog", 6)]), scene("c", 8, &[("dog", 9), ("car", 10)])];
    let ray = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let points = [(0, 0.0), (5, 30.0), (8, 60.0), (1, 50.0), (6, 20.0), (9, 89.0), (10, 0.0)];
    let embedder = euclidean(&[], &points.map(|(value, degrees)| (value, ray(degrees))));
    let records = run("part_retrieval", &embedder, samples, Some(&tree)).unwrap();
    let check = |protocol: &str, metric: &str, expected, n| {
        check_in("box_to_photo", &records, protocol, metric, expected, n);
    };
    let cosine = "cosine, labels and those below";
    // Photos a, b and c are at 0, 30 and 60 degrees. The animal at 50 degrees finds c, b, a. The dog at 20 finds b, a,
    // c, and the dog at 89 finds c, b, a. The car at 0 finds a, b, c. The top 25 %, 50 % and 75 % of 3 photos are 1, 2
    // and 3 photos.
    check(cosine, "hierarchical recall, top 25 %", [(0.0 + 1.0 / 3.0 + 1.0 / 3.0 + 0.0) / 4.0, 1.0 / 3.0], 4);
    check(cosine, "hierarchical recall, top 50 %", [(0.0 + 2.0 / 3.0 + 2.0 / 3.0 + 0.0) / 4.0, 2.0 / 3.0], 4);
    check(cosine, "hierarchical recall, top 75 %", [1.0, 1.0], 4);
    // The only right photo of the animal and of the car is ranked third: average precision 1/3.
    check(cosine, "hierarchical AP over thresholds", [(2.0 + 2.0 / 3.0) / 4.0, (2.0 + 2.0 / 3.0) / 4.0], 4);
    // With "other photos", only the dogs have right photos: a and c for the first dog, a and b for the second.
    let others = "cosine, other photos, labels and those below";
    check(others, "hierarchical recall, top 25 %", [0.5, 0.5], 2);
    assert!(records.iter().all(|it| it.split == "photo_to_box" || !it.metric.starts_with("OT")));
}

/// Draws one of three photos and one of three boxes with a seed. More queries than photos are an error; with `partial`,
/// they select all photos and boxes.
#[test]
fn drawn_queries() {
    let samples = || vec![scene("a", 0, &[("dog", 1)]), scene("b", 5, &[("dog", 6)]), scene("c", 8, &[("dog", 9)])];
    let ray = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let points = [(0, 0.0), (1, 1.0), (5, 20.0), (6, 21.0), (8, 50.0), (9, 51.0)];
    let embedder = euclidean(&[], &points.map(|(value, degrees)| (value, ray(degrees))));
    let source = BenchmarkSamples(samples());
    let measured = |queries: usize, seed, partial| {
        let options = Options { queries: Some(queries), seed, partial, ..Options::default() };
        measure(find("part_retrieval")?, &Context::new(&embedder, &source, None, &options))
    };
    let two = measured(2, 0, false).unwrap();
    assert!(two.iter().all(|it| it.n == 2), "{two:?}");
    let note = ", partial: the queries are 2 of 3 photos and 2 of 3 boxes (seed 0)";
    assert!(two.iter().all(|it| it.protocol.ends_with(note)), "{}", two[0].protocol);
    assert_eq!(two, measured(2, 0, false).unwrap());
    // The cluster of a box query is its photo.
    let photos = |seed| measured(1, seed, false).unwrap().into_iter().map(|it| it.clusters).collect::<Vec<_>>();
    assert!((1..20).any(|seed| photos(seed) != photos(0)));
    for count in [0, 4] {
        assert_eq!(
            measured(count, 0, false).unwrap_err().to_string(),
            format!(
                "part_retrieval: queries is {count}, with 3 photos and 3 boxes; expected 1 to 3, or none to use them all; \
                 with --partial a larger number uses them all"
            )
        );
    }
    let all = measured(4, 0, true).unwrap();
    assert!(all.iter().all(|it| it.n == 3 && it.protocol.contains("3 of 3 photos and 3 of 3 boxes")), "{all:?}");
    let every = measure(
        find("part_retrieval").unwrap(),
        &Context::new(&embedder, &source, None, &Options { partial: true, ..Options::default() }),
    );
    let numbers = |records: Vec<Record>| records.into_iter().map(|it| it.value).collect::<Vec<_>>();
    assert_eq!(numbers(all), numbers(every.unwrap()));
}

/// Checks the curves for the points of [`labels_alone_by_hand`]. All boxes are right for photo a. Photo b has a right
/// box at cosine 1, a wrong one at 0.89, and a right one at 0, the last threshold.
#[test]
fn curves_by_hand() {
    let samples = vec![scene("a", 0, &[("dog", 1), ("cat", 2)]), scene("b", 5, &[("dog", 6)])];
    let embedder =
        euclidean(&[], &[(0, [1.0, 0.0]), (1, [2.0, 0.0]), (2, [1.0, 2.0]), (5, [0.0, 1.0]), (6, [0.0, 2.0])]);
    let (source, options) = (BenchmarkSamples(samples), Options::default());
    let context = Context::new(&embedder, &source, None, &options);
    measure(find("part_retrieval").unwrap(), &context).unwrap();
    let curves = context.take_curves();
    assert!(context.take_curves().is_empty());
    // There are two directions, two scores (cosine and angle), two sets of candidates (with and without the query's own
    // photo) and two averages.
    assert_eq!(curves.len(), 2 * 2 * 2 * 2);
    let curve = |protocol: &str, average: crate::CurveAverage| {
        let is = |it: &&crate::PrecisionRecallCurve| {
            it.split == "photo_to_box" && it.protocol == protocol && it.average == average
        };
        curves.iter().find(is).unwrap().points.clone()
    };
    let mean = curve("cosine, labels alone", crate::CurveAverage::Mean);
    assert_eq!((mean.len(), mean[0].threshold, mean[50].threshold, mean[100].threshold), (101, 1.0, 0.5, 0.0));
    // At threshold 0.5, photo a retrieves its dog, and photo b retrieves its dog and the cat of a.
    let at = |recall: f64, precision: f64, point: crate::CurvePoint| {
        (point.recall - recall).abs() < 1e-6 && (point.precision.unwrap() - precision).abs() < 1e-6
    };
    assert!(at((1.0 / 3.0 + 0.5) / 2.0, 0.75, mean[50]), "{:?}", mean[50]);
    assert!(at(1.0, (1.0 + 2.0 / 3.0) / 2.0, mean[100]), "{:?}", mean[100]);
    let pooled = curve("cosine, labels alone", crate::CurveAverage::Pooled);
    assert!(at(2.0 / 5.0, 2.0 / 3.0, pooled[50]) && at(1.0, 5.0 / 6.0, pooled[100]), "{:?}", pooled[50]);
    let angle = curve("angle, labels alone", crate::CurveAverage::Mean);
    assert!((angle[100].threshold - std::f64::consts::PI).abs() < 1e-12 && angle[0].threshold == 0.0);
}

/// The sample of COCO val2017: 310 of its 624 boxes, in 76 photos, cover at least 1 % of their photo.
#[test]
fn parts_of_coco() {
    let Some(samples) = coco_mini() else { return };
    let boxes = || samples.iter().flat_map(|it| &it.phrases).flat_map(|it| &it.boxes);
    assert_eq!((boxes().count(), boxes().filter(|it| PartRule::default().keeps(it)).count()), (624, 310));
    let options = Options::default();
    let source = BenchmarkSamples(samples.clone());
    let records =
        measure(find("part_retrieval").unwrap(), &Context::new(&HashEmbedder, &source, None, &options)).unwrap();
    for it in &records {
        let own_photo = !it.protocol.contains("other photos");
        match &*it.split {
            "box_to_photo" if own_photo || it.metric.starts_with("same class") => assert_eq!(it.n, 310, "{it:?}"),
            // A box is not a query if its class occurs in no other photo.
            "box_to_photo" => assert!(it.n <= 310, "{it:?}"),
            _ if own_photo => assert_eq!(it.n, 76, "{it:?}"),
            _ => assert!(it.n <= 76, "{it:?}"),
        }
        // A hash carries no information, so recall is close to chance.
        if own_photo && it.metric.starts_with("hierarchical recall") {
            let chance = it.baseline.as_ref().unwrap().value;
            assert!((it.value - chance).abs() < 0.1, "{it:?}");
        }
    }
}
