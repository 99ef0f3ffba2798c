use std::f64::consts::FRAC_PI_4;

use super::*;
use crate::Outcomes;

fn chain(id: &str, image: u8, positive: [&str; 2], negative: &[&str]) -> Sample {
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    let tiers = Tiers { positive: texts(&positive), negative: texts(negative) };
    Sample { tiers: Some(tiers), ..sample(id, image) }
}

fn at(angle: f64, length: f64) -> [f32; 2] {
    [(length * angle.cos()) as f32, (length * angle.sin()) as f32]
}

/// Points in the plane whose pairs can be scored by hand: if the general text is at distance 1 from the origin, the
/// exterior angle at it is the direction of the difference.
fn plane() -> LookupEmbedder {
    let behind = |start: [f32; 2], direction: f64| {
        let [x, y] = at(direction, 1.0);
        [start[0] + x, start[1] + y]
    };
    let animal = at(0.0, 1.0);
    euclidean(
        &[
            ("animal", animal),
            // Seen from `animal`, the dog lies 45 degrees off the ray through `animal`: score 1/2.
            ("dog", behind(animal, FRAC_PI_4)),
            // `car` is the mirror image of `animal`. Seen from `car`, the dog lies beyond a right angle: score 0.
            ("car", [-1.0, 0.0]),
            ("truck", [-2.0, 0.0]),
        ],
        // The photo lies straight behind `animal`: score 1.
        &[(0, [3.0, 0.0]), (1, [-3.0, 0.0])],
    )
}

#[test]
fn pep_by_hand() {
    let samples = vec![chain("a", 0, ["animal", "dog"], &["car", "truck"]), chain("b", 1, ["car", "truck"], &[])];
    let records = run("pep", &plane(), samples, None).unwrap();
    let of = |split: &str, protocol: &str, metric: &str| {
        let is =
            |it: &&Record| (it.split.as_str(), it.protocol.as_str(), it.metric.as_str()) == (split, protocol, metric);
        records.iter().find(is).unwrap_or_else(|| panic!("{split} {protocol} {metric} in {records:?}")).clone()
    };
    // With wrong texts, (animal, dog) scores 1/2 and (car, dog) 0.
    let found = of("text_to_text", "wrong texts", "AP");
    assert_eq!((found.value, found.n, found.baseline.unwrap().value), (1.0, 2, 0.5));
    assert_eq!(of("text_to_text", "wrong texts", "AUROC").value, 1.0);
    let Some(Outcomes::RocAuc { scores, positive }) = of("text_to_text", "wrong texts", "AUROC").outcomes else {
        panic!("{records:?}")
    };
    assert!((scores[0] - 0.5).abs() < 1e-6 && scores[1] == 0.0 && positive == [true, false], "{scores:?}");
    // With texts of other chains, (animal, dog) scores 1/2, (car, dog) 0, (car, truck) 1 and (animal, truck) 0.
    let found = of("text_to_text", "texts of other chains", "AP");
    assert_eq!((found.value, found.n), (1.0, 4));
    // Photo a lies straight behind `animal` (score 1), and 51 degrees off the ray of `dog` at (1.7, 0.7) (score 0.43).
    // Seen from `car` and `truck`, photo a lies towards the root (score 0). Photo b is not measured, because it has no
    // wrong texts.
    let found = of("text_to_image", "wrong texts", "AUROC");
    assert_eq!((found.value, found.n), (1.0, 4));
}

/// All texts and photos lie on one ray, so every pair scores 1, and ties count one half.
#[test]
fn equal_scores_are_chance() {
    let spec = euclidean(
        &[("a", [1.0, 0.0]), ("b", [2.0, 0.0]), ("c", [1.0, 0.0]), ("d", [2.0, 0.0])],
        &[(0, [3.0, 0.0]), (1, [3.0, 0.0])],
    );
    let records =
        run("pep", &spec, vec![chain("a", 0, ["a", "b"], &[]), chain("b", 1, ["c", "d"], &[])], None).unwrap();
    for record in records {
        assert_eq!((record.value, record.baseline.unwrap().value), (0.5, 0.5), "{}", record.metric);
    }
}

#[test]
fn pep_names_what_is_missing() {
    let error =
        |embedder: &LookupEmbedder, samples: Vec<Sample>| run("pep", embedder, samples, None).unwrap_err().to_string();
    let one = || chain("a", 0, ["animal", "dog"], &[]);
    let message = error(&plane(), vec![one()]);
    assert!(message.contains("every pair that does not entail") && message.contains("wrong texts"), "{message}");
    // The other sample has the same chain, so there is no text of another chain.
    let message = error(&plane(), vec![one(), Sample { id: "b".into(), ..one() }]);
    assert!(message.contains("every pair that does not entail"), "{message}");

    let short = Sample { tiers: Some(Tiers { positive: vec!["dog".into()], negative: vec![] }), ..sample("short", 0) };
    let message = error(&plane(), vec![short]);
    assert!(message.contains("the caption chain of sample `short`"), "{message}");

    let sphere = LookupEmbedder { spec: ManifoldSpec::sphere(2), ..plane() };
    let message = error(&sphere, vec![one()]);
    assert!(message.contains("seen from its centre") && message.contains("--root-text"), "{message}");
}
