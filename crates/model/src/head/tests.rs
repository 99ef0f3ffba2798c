#![allow(clippy::unwrap_used)]
use burn::tensor::TensorData;
use conifer_geometry::space;

use super::*;

fn device() -> Device {
    Device::flex().autodiff()
}

fn head(spec: &ManifoldSpec, config: &str) -> Result<Head> {
    Head::new(spec, &toml::from_str(config).unwrap(), &device())
}

fn product() -> ManifoldSpec {
    ManifoldSpec::product_l1(2, 3, Vec::new())
}

fn names(head: &Head) -> Vec<String> {
    head.scalars().into_iter().flat_map(|scalar| scalar.names().to_vec()).collect()
}

#[test]
fn scalars_have_the_published_names() {
    let of = |spec: ManifoldSpec, config: &str| names(&head(&spec, config).unwrap()).join(" ");
    assert_eq!(of(ManifoldSpec::sphere(4), ""), "logit_scale");
    assert_eq!(of(ManifoldSpec::euclidean(4), ""), "visual_alpha textual_alpha logit_scale");
    assert_eq!(of(ManifoldSpec::lorentz(4, 1.0), ""), "curv visual_alpha textual_alpha logit_scale");
    assert_eq!(
        of(product(), ""),
        "curvs.0 curvs.1 visual_concept_alphas.0 visual_concept_alphas.1 textual_concept_alphas.0 textual_concept_alphas.1 logit_scale"
    );
    assert_eq!(
        of(product(), "feature_scale_per_factor = false"),
        "curvs.0 curvs.1 visual_alpha textual_alpha logit_scale"
    );
}

#[test]
fn three_temperatures_replace_the_one() {
    let found = head(&ManifoldSpec::sphere(4), "temperatures = [0.1, 0.2, 0.5]").unwrap();
    assert_eq!(names(&found), SOFTMAXES);
    let scales: Vec<f32> = found.space().unwrap().logit_scale.into_data().iter::<f32>().collect();
    assert!(scales.iter().zip([10.0, 5.0, 2.0]).all(|(found, expected)| (found - expected).abs() < 1e-5), "{scales:?}");
    for (config, word) in [("temperatures = [0.1]", "[0.1]"), ("temperatures = [0.1, 0.001, 0.1]", "0.001")] {
        let message = head(&ManifoldSpec::sphere(4), config).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn initial_values_follow_the_paper_or_the_released_code() {
    let value = |config: &str, name: &str| {
        let head = head(&product(), config).unwrap();
        let scalar = head.scalars().into_iter().find(|s| s.names()[0].starts_with(name)).unwrap();
        (scalar.values()[0], scalar.range())
    };
    let near = |(found, range): (f64, [f64; 2]), expected: f64, limits: [f64; 2]| {
        assert!((found - expected).abs() < 1e-6 * expected, "{found} {expected}");
        assert_eq!(range, limits);
    };
    near(value("", "visual"), 6f64.powf(-0.5), [0.0, 1.0]);
    near(value("reference = true", "visual"), 3f64.powf(-0.5), [0.0, 1.0]);
    near(value("feature_scale = 0.25", "textual"), 0.25, [0.0, 1.0]);
    near(value("", "curvs"), 1.0, [0.1, 10.0]);
    near(value("curv = 0.5\ncurv_range = [0.2, 2.0]", "curvs"), 0.5, [0.2, 2.0]);
    near(value("", "logit"), 1.0 / 0.07, [0.0, 100.0]);
}

#[test]
fn frozen_scalars_have_no_gradient() {
    for (config, frozen) in [
        ("learn_curv = false", "curvs.0"),
        ("learn_feature_scale = false", "visual_concept_alphas.0"),
        ("learn_temperature = false", "logit_scale"),
    ] {
        let head = head(&product(), config).unwrap();
        for scalar in head.scalars() {
            let name = &scalar.names()[0];
            let alike = name == frozen || (frozen.starts_with("visual") && name.starts_with("textual"));
            assert_eq!(scalar.is_learned(), !alike, "{config}: {name}");
        }
    }
}

/// `lift(scale * v)` factor by factor, against the f64 implementation in `conifer-geometry`.
#[test]
fn lift_scales_each_factor_and_follows_the_current_curvature() {
    let head = head(&product(), "").unwrap();
    let logs =
        [("curvs.0", -0.4), ("curvs.1", 0.7), ("visual_concept_alphas.0", -1.0), ("visual_concept_alphas.1", -0.2)];
    let log = |name: &str| logs.iter().find(|(known, _)| *known == name).map_or(-0.5, |(_, log)| *log);
    let head = head.with_log_values(|name| Ok(log(name))).unwrap();
    let spec = head.spec();
    assert!((spec.curv[1] - f64::from(0.7f32).exp()).abs() < 1e-12);

    let features = [[0.3, -1.2, 0.8, 2.0, 0.1, -0.6], [1.0, 0.0, 0.0, 0.0, 0.0, 3.0]];
    for (tower, name) in [(Tower::Image, "visual"), (Tower::Text, "textual")] {
        let tensor = Tensor::<2>::from_data(features.map(|row| row.map(|x: f64| x as f32)), &device());
        let points: Vec<f64> = head.lift(tensor, tower).unwrap().to_data().iter().collect();
        for (row, found) in features.iter().zip(points.chunks(6)) {
            let scale = |j: usize| f64::from(log(&format!("{name}_concept_alphas.{}", j / 3))).exp();
            let tangent: Vec<f64> = row.iter().enumerate().map(|(j, x)| x * scale(j)).collect();
            let mut expected = vec![0.0; 6];
            space::<f64>(&spec).unwrap().lift(&tangent, &mut expected);
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{found:?} {expected:?}");
            }
        }
    }
}

#[test]
fn points_are_f32_for_any_encoder_precision() {
    let head = head(&ManifoldSpec::lorentz(2, 1.0), "").unwrap();
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        let data = TensorData::new(vec![1.0f32, -2.0], [1, 2]).convert_dtype(dtype);
        let features = Tensor::<2>::from_data(data, (&device(), dtype));
        assert_eq!(head.lift(features, Tower::Image).unwrap().dtype(), DType::F32);
    }
}

#[test]
fn project_brings_every_scalar_into_its_range() {
    let head = head(&ManifoldSpec::lorentz(4, 1.0), "").unwrap();
    let head = head.with_log_values(|_| Ok(9.0)).unwrap().project();
    let values: Vec<f64> = head.scalars().into_iter().flat_map(BoundedScalar::values).collect();
    for (found, expected) in values.iter().zip([10.0, 1.0, 1.0, 100.0]) {
        assert!((found - expected).abs() < 1e-5 * expected, "{values:?}");
    }
}

/// A manifest stores the learned curvature, even one at its bound.
#[test]
fn a_head_can_be_rebuilt_from_its_spec() {
    for log in [-9.0, 0.3, 9.0] {
        let first = head(&product(), "").unwrap().with_log_values(|_| Ok(log)).unwrap().project();
        let again = head(&first.spec(), "").unwrap();
        let (a, b) = (first.spec().curv, again.spec().curv);
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6 * a), "{a:?} {b:?}");
    }
}

#[test]
fn invalid_settings_and_features_are_rejected_by_name() {
    let lorentz = ManifoldSpec::lorentz(4, 1.0);
    let message = |result: Result<Head>| result.err().unwrap().to_string();
    assert!(
        message(head(&lorentz, "curv_range = [2.0, 3.0]"))
            .contains("`curv` is 1; expected a positive number in [2, 3]")
    );
    assert!(message(head(&lorentz, "feature_scale = 3.0")).contains("`visual_alpha` is 3"));
    assert!(message(head(&lorentz, "temperature = 0.001")).contains("head.temperature"));
    assert!(message(head(&lorentz, "temperature = -1.0")).contains("head.temperature"));
    assert!(message(head(&ManifoldSpec { dim: 7, ..product() }, "")).contains("factors"));
    assert!(toml::from_str::<HeadConfig>("curvature = 1.0").err().unwrap().to_string().contains("unknown field"));
    let fails = head(&lorentz, "").unwrap().with_log_values(|name| Err(Error::invalid(name, "absent", "a scalar")));
    assert!(message(fails).contains("`curv` is absent"));

    let wide = Tensor::<2>::zeros([3, 5], &device());
    let message = head(&lorentz, "").unwrap().lift(wide, Tower::Text).err().unwrap().to_string();
    assert!(message.contains("[3, 5]") && message.contains("[B, 4]"), "{message}");
}
