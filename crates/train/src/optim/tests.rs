#![allow(clippy::unwrap_used)]

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use conifer_model::params::{Bias, Fill, Init, LinearWeight, ParamKind, ParamVisitor, visit_params};

use super::*;
use crate::schedule::Schedule;

/// A linear map. The gradients of the loss below are known in closed form.
#[derive(Module, Debug)]
struct Tiny {
    weight: LinearWeight,
    bias: Bias,
    /// Not used in the loss.
    idle: Bias,
}

impl Tiny {
    fn new(rows: usize, columns: usize) -> Self {
        let mut init = Init::seeded(7, &Device::flex().autodiff());
        Self {
            weight: init.matrix(rows, columns, Fill::Normal(1.0)),
            bias: init.bias(columns, Fill::Uniform(1.0)),
            idle: init.bias(2, Fill::Constant(3.0)),
        }
    }

    /// sum(a * weight) + sum(b * bias): the gradients are a and b.
    fn gradients(&self, a: &[f32], b: &[f32]) -> GradientSet {
        let device = Device::flex().autodiff();
        let weight = self.weight.value.val();
        let bias = self.bias.value.val();
        let a = Tensor::<2>::from_data(TensorData::new(a.to_vec(), weight.dims()), &device);
        let b = Tensor::<1>::from_data(TensorData::new(b.to_vec(), bias.dims()), &device);
        let loss = (weight * a).sum() + (bias * b).sum();
        GradientSet::take(self, &mut loss.backward())
    }
}

fn values(model: &Tiny) -> Vec<(String, Vec<f32>)> {
    struct ParamValues(Vec<(String, Vec<f32>)>);
    impl ParamVisitor for ParamValues {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            self.0.push((param.name.to_owned(), value.to_data().try_to_vec().unwrap()));
        }
    }
    let mut all = ParamValues(Vec::new());
    visit_params(model, &mut all);
    all.0
}

fn decay_weights(param: &ParamInfo<'_>, _elements: usize) -> f64 {
    if param.kind == ParamKind::Weight { 0.2 } else { 0.0 }
}

fn update(lr: f64) -> Update<'static> {
    Update { lr, beta1: None, gradient_scale: 1.0, decay: &decay_weights, schedule: &whole_run_schedule }
}

/// Gradient of element `i` at `step`: varies in sign and size, and is not exactly representable.
fn wave(step: u64, i: usize) -> f32 {
    (0.3 + 1.7 * step as f32 + 0.9 * i as f32).sin() * 10f32.powi(i as i32 % 5 - 3)
}

#[test]
fn agrees_with_a_scalar_oracle_in_f64() {
    let mut model = Tiny::new(3, 4);
    let start = values(&model);
    let mut optimiser = AdamW::new([0.9, 0.98], 1e-8);
    let steps = 50;
    for step in 0..steps {
        let a: Vec<f32> = (0..12).map(|i| wave(step, i)).collect();
        let b: Vec<f32> = (0..4).map(|i| wave(step, i + 12)).collect();
        let gradients = model.gradients(&a, &b);
        model = optimiser.step(model, gradients, update(1e-2 / (step + 1) as f64));
    }

    // The oracle is the recursion of Algorithm 2 for one element, in f64 and in the order of the paper.
    let oracle = |mut p: f64, i: usize, decay: f64| {
        let (mut m, mut v) = (0.0, 0.0);
        for step in 0..steps {
            let (g, lr, t) = (f64::from(wave(step, i)), 1e-2 / (step + 1) as f64, step as i32 + 1);
            m = 0.9 * m + 0.1 * g;
            v = 0.98 * v + 0.02 * g * g;
            let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.98f64.powi(t)));
            p -= lr * (m_hat / (v_hat.sqrt() + 1e-8) + decay * p);
        }
        p
    };
    let end = values(&model);
    for i in 0..12 {
        let (found, expected) = (f64::from(end[0].1[i]), oracle(f64::from(start[0].1[i]), i, 0.2));
        assert!((found - expected).abs() < 3e-6, "weight {i}: {found} against {expected}");
    }
    for i in 0..4 {
        let (found, expected) = (f64::from(end[1].1[i]), oracle(f64::from(start[1].1[i]), i + 12, 0.0));
        assert!((found - expected).abs() < 3e-6, "bias {i}: {found} against {expected}");
    }
    assert_eq!(end[2], start[2], "a parameter without gradient is neither moved nor decayed");
}

/// Recipe (PyTorch 2.15.0, CPU): parameters w = [0.5, -1, 2, 0.25] (weight_decay 0.2) and b = [0.1, -0.2] (0.0);
/// `torch.optim.AdamW(..., betas=(0.9, 0.98), eps=1e-8)`; for step in 0..5: lr = 1e-2 (step + 1) / 5, w.grad = [0.5
/// (step + 1), -0.25, 0.125 step, 3], b.grad = [1 - step, 0.0625], `clip_grad_norm_([w, b], 2.0)`, step. Printed: w, b.
#[test]
fn agrees_with_pytorch() {
    let mut model = Tiny::new(1, 4);
    let device = Device::flex().autodiff();
    let leaf = |values: Vec<f32>, shape: &[usize]| TensorData::new(values, shape.to_vec());
    model.weight.value = Param::from_data(leaf(vec![0.5, -1.0, 2.0, 0.25], &[1, 4]), &device);
    model.bias.value = Param::from_data(leaf(vec![0.1, -0.2], &[2]), &device);
    let mut optimiser = AdamW::new([0.9, 0.98], 1e-8);
    for step in 0..5 {
        let s = step as f32;
        let mut gradients = model.gradients(&[0.5 * (s + 1.0), -0.25, 0.125 * s, 3.0], &[1.0 - s, 0.0625]);
        let clip = clip_factor(gradients.norm(), 2.0);
        let lr = 1e-2 * f64::from(step + 1) / 5.0;
        model = optimiser.step(model, gradients, Update { gradient_scale: clip, ..update(lr) });
    }
    let expected =
        [("weight", vec![0.467_837_66, -0.964_531_24, 1.963_878_3, 0.219_021]), ("bias", vec![0.105_822_6, -0.229_55])];
    for (name, expected) in expected {
        let found = values(&model).into_iter().find(|(known, _)| known == name).unwrap().1;
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 2e-7, "{name}: {found} against {expected}");
        }
    }
}

/// Compares with `fixtures/one_cycle.json`: AdamW under OneCycleLR, which changes beta1 in every step.
#[test]
fn agrees_with_pytorch_while_beta1_cycles() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/one_cycle.json");
    let found: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let run = &found["run"];
    let numbers = |name: &str| -> Vec<f64> { serde_json::from_value(run[name].clone()).unwrap() };
    let steps = run["steps"].as_u64().unwrap();
    let schedule = Schedule::new("one_cycle", run["peak"].as_f64().unwrap(), 0, steps, false).unwrap();
    let mut model = Tiny::new(1, 4);
    let start: Vec<f32> = numbers("start").iter().map(|it| *it as f32).collect();
    model.weight.value = Param::from_data(TensorData::new(start, [1, 4]), &Device::flex().autodiff());
    let mut optimiser = AdamW::new([0.9, 0.98], 1e-8);
    for step in 0..steps {
        let wave = |i: i32| (0.3 + 1.7 * step as f64 + 0.9 * f64::from(i)).sin() as f32;
        let gradients = model.gradients(&[0, 1, 2, 3].map(wave), &[0.0; 4]);
        let now = Update { beta1: schedule.beta1(step), ..update(schedule.lr(step)) };
        model = optimiser.step(model, gradients, now);
    }
    let weight = values(&model).into_iter().find(|(name, _)| name == "weight").unwrap().1;
    for (found, expected) in weight.iter().zip(numbers("end")) {
        assert!((f64::from(*found) - expected).abs() < 5e-6, "{found} against {expected}");
    }
}

#[test]
fn slices_and_engine_operations_agree_to_the_last_bit() {
    let n = 3 * CHUNK + 17;
    let device = Device::flex();
    let flat = |salt: u64| {
        Tensor::<1>::from_data(TensorData::new((0..n).map(|i| wave(salt, i)).collect::<Vec<f32>>(), [n]), &device)
    };
    let moments = Moments { first: flat(2), second: flat(3).abs() };
    let coefficients = AdamCoefficients {
        beta1: 0.9,
        beta2: 0.98,
        new1: 0.1,
        new2: 0.02,
        step: 2e-3,
        root: 0.7,
        eps: 1e-8,
        scale: 0.37,
        keep: 0.9999,
    };
    let bits = |tensor: Tensor<1>| {
        tensor.into_data().try_to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (p, m) = pool.install(|| step_on_slices(flat(0), flat(1), moments.clone(), coefficients));
        (bits(p), bits(m.first), bits(m.second))
    };
    let (p, m) = step_on_tensors(flat(0), flat(1), moments.clone(), coefficients);
    let tensors = (bits(p), bits(m.first), bits(m.second));
    assert!(run(1) == tensors);
    assert!(run(3) == tensors);
}

#[test]
fn the_norm_is_global_and_clipping_scales_every_gradient_equally() {
    let model = Tiny::new(1, 2);
    let mut gradients = model.gradients(&[1.0, 2.0], &[2.0, -4.0]);
    // The norm is sqrt(1 + 4 + 4 + 16) = 5.
    assert_eq!(gradients.norm(), 5.0);
    assert_eq!(gradients.norms(), vec![("bias", 20f64.sqrt()), ("weight", 5f64.sqrt())]);
    assert!((clip_factor(5.0, 1.0) - 0.2).abs() < 1e-7);
    assert_eq!(clip_factor(0.5, 1.0), 1.0);

    // Scaling by the factor equals an update with smaller gradients.
    let factor = f64::from(0.25f32);
    let clipped =
        AdamW::new([0.9, 0.98], 1e-8).step(model.clone(), gradients, Update { gradient_scale: factor, ..update(0.1) });
    let small = model.gradients(&[0.25, 0.5], &[0.5, -1.0]);
    let expected = AdamW::new([0.9, 0.98], 1e-8).step(model, small, update(0.1));
    assert_eq!(values(&clipped), values(&expected));
}

#[test]
fn gradients_of_micro_batches_add_up() {
    let model = Tiny::new(1, 2);
    let mut sum = model.gradients(&[1.0, 2.0], &[3.0, 0.0]);
    sum.add(model.gradients(&[2.0, 0.0], &[0.0, -6.0]));
    // The sums are (3, 2) for the weight and (3, -6) for the bias.
    assert_eq!(sum.norms(), vec![("bias", 45f64.sqrt()), ("weight", 13f64.sqrt())]);
}

#[test]
fn a_gradient_that_is_not_finite_is_named() {
    let model = Tiny::new(1, 2);
    assert_eq!(model.gradients(&[1.0, 2.0], &[3.0, 4.0]).first_non_finite(), None);
    let mut bad = model.gradients(&[1.0, f32::NAN], &[3.0, 4.0]);
    assert!(bad.norm().is_nan());
    assert_eq!(bad.first_non_finite(), Some("weight"));
    let mut bad = model.gradients(&[1.0, f32::NAN], &[f32::INFINITY, 4.0]);
    assert_eq!(bad.first_non_finite(), Some("bias"), "the first in order of the names");
}

#[test]
fn a_saved_state_continues_bit_for_bit() {
    let mut model = Tiny::new(2, 3);
    let mut optimiser = AdamW::new([0.9, 0.98], 1e-8);
    let gradients = |model: &Tiny, step| {
        let wave: Vec<f32> = (0..9).map(|i| wave(step, i)).collect();
        model.gradients(&wave[..6], &wave[6..])
    };
    for step in 0..3 {
        let found = gradients(&model, step);
        model = optimiser.step(model, found, update(1e-2));
    }
    let mut resumed = AdamW::new([0.9, 0.98], 1e-8);
    resumed.load_state(optimiser.updates(), optimiser.state(), &Device::flex().autodiff()).unwrap();
    let found = gradients(&model, 3);
    let there = resumed.step(model.clone(), found, update(1e-2));
    let found = gradients(&model, 3);
    let here = optimiser.step(model, found, update(1e-2));
    assert_eq!(values(&here), values(&there));
    assert_eq!(optimiser.lengths().collect::<Vec<_>>(), vec![("bias", 3), ("weight", 6)]);
}

#[test]
fn a_broken_state_is_refused_and_changes_nothing() {
    let mut optimiser = AdamW::new([0.9, 0.98], 1e-8);
    let floats = |n: usize| WeightArray::f32([n], vec![1.0; n]);
    let mut refused = |state: Vec<(&str, WeightArray)>| {
        let state = state.into_iter().map(|(name, array)| (name.to_owned(), array)).collect();
        optimiser.load_state(3, state, &Device::flex()).unwrap_err().to_string()
    };
    assert!(refused(vec![("first.a", floats(1))]).contains("`second.a` is missing"));
    assert!(refused(vec![("second.a", floats(1))]).contains("`second.a` is unpaired"));
    assert!(refused(vec![("third.a", floats(1))]).contains("`third.a`"));
    assert!(refused(vec![("first.a", floats(1)), ("second.a", floats(2))]).contains("`second.a` has shape [2]"));
    let masks = || WeightArray::bool([1], vec![true]);
    assert!(refused(vec![("first.a", masks()), ("second.a", masks())]).contains("`first.a` is a boolean tensor"));
    assert_eq!((optimiser.updates(), optimiser.lengths().count()), (0, 0));
}

/// A parameter whose first update comes after two updates of the others, at a tenth of the learning rate, gets the
/// value that a separate optimiser with this learning rate would compute.
#[test]
fn each_parameter_has_its_own_rate_and_its_own_count_of_updates() {
    let schedule = |param: &ParamInfo<'_>| match param.name {
        "bias" => ParamSchedule { lr_factor: 0.1, start: 2 },
        _ => whole_run_schedule(param),
    };
    let mut model = Tiny::new(1, 3);
    let mut optimiser = AdamW::new([0.9, 0.98], 1e-8);
    let wave = |step: u64| (0..6).map(|i| wave(step, i)).collect::<Vec<f32>>();
    for step in 0..5 {
        let mut gradients = model.gradients(&wave(step)[..3], &wave(step)[3..]);
        if step < 2 {
            assert!(gradients.remove("bias").is_some(), "the bias is frozen");
        }
        model = optimiser.step(model, gradients, Update { schedule: &schedule, ..update(1e-2) });
    }
    let mut plain = Tiny::new(1, 3);
    let mut late = Tiny::new(1, 3);
    let (mut first, mut second) = (AdamW::new([0.9, 0.98], 1e-8), AdamW::new([0.9, 0.98], 1e-8));
    for step in 0..5 {
        let gradients = plain.gradients(&wave(step)[..3], &wave(step)[3..]);
        plain = first.step(plain, gradients, update(1e-2));
        if step >= 2 {
            let gradients = late.gradients(&wave(step)[..3], &wave(step)[3..]);
            late = second.step(late, gradients, update(1e-3));
        }
    }
    assert_eq!(values(&model)[0], values(&plain)[0], "the weight is not affected");
    assert_eq!(values(&model)[1], values(&late)[1], "the bias");
}
