//! conifer's side of the comparison with PyTorch. `bench/run.py` starts both sides and interleaves their rounds.
//!
//! Reads lines `CASE ITERATIONS` from stdin and writes a line of JSON `{"case", "ms", "check", "peak_mb", "extra_mb"}`
//! to stdout for each. Both sides compute the inputs that are not files with the same formulas (`filled`, and `noise`
//! in `eval.rs`). So the `check` values of the heads (losses) must agree, and those of `eval_*` (metrics) must agree up
//! to ties. `memory.rs` measures the memory.

mod eval;
mod growth;
mod loading;
mod memory;
mod parts;
mod search;
mod step;
mod stored;
mod t5;
mod texts;

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::{Device, Int, Tensor, TensorData};
use conifer_data::hierarchy::Taxonomy;
use conifer_data::rng::{Stream, rng_for};
use conifer_data::transform::Augment;
use conifer_data::{ImageRef, PixelLimits};
use conifer_geometry::{ManifoldKind, ManifoldSpec};
use conifer_geometry_tensor::RootT;
use conifer_model::encoders::{Encoder, TextTransformer, Tokens, Vit};
use conifer_model::head::{Head, HeadConfig, Tower};
use conifer_model::params::{Init, ParamKind};
use conifer_train::methods::{self, BatchPoints, BatchSpace, Chain, Edges};
use conifer_train::optim::{AdamW, GradientSet, Update, whole_run_schedule};

/// Same value as in the program `conifer`.
const KEPT_BYTES: usize = 1 << 30;

#[global_allocator]
static ALLOCATOR: conifer_kernels::LargeBlockAllocator = conifer_kernels::LargeBlockAllocator::new(KEPT_BYTES);

fn main() -> anyhow::Result<()> {
    let mut cases: Vec<(String, Option<memory::MemoryMark>, BenchNumbers)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (name, iterations) = line.split_once(' ').with_context(|| format!("`{line}`: expected CASE ITERATIONS"))?;
        let iterations: usize = iterations.trim().parse()?;
        let position = match cases.iter().position(|(known, ..)| known == name) {
            Some(position) => position,
            None => {
                let step = numbers(name)?;
                cases.push((name.to_owned(), memory::mark(), step));
                cases.len() - 1
            }
        };
        let (_, before, step) = &mut cases[position];
        step()?;
        let (mut ms, mut check) = (Vec::new(), Vec::new());
        for _ in 0..iterations {
            let start = Instant::now();
            check = step()?;
            ms.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let mut out = std::io::stdout().lock();
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let [peak, extra] = [memory::peak(), before.and_then(memory::extra)].map(|it| it.map(megabytes));
        let result = serde_json::json!({ "case": name, "ms": ms, "check": check, "peak_mb": peak, "extra_mb": extra });
        writeln!(out, "{result}")?;
        out.flush()?;
    }
    Ok(())
}

/// A unit of work. Its result is a number that depends on the whole computation.
type BenchCase = Box<dyn FnMut() -> anyhow::Result<f32>>;

/// A unit of work with several numbers as its result.
type BenchNumbers = Box<dyn FnMut() -> anyhow::Result<Vec<f64>>>;

fn numbers(name: &str) -> anyhow::Result<BenchNumbers> {
    if let Some(what) = name.strip_prefix("search_") {
        return search::case(what);
    }
    match name.strip_prefix("eval_") {
        Some(what) => eval::case(what),
        None if name == "text_lengths" => texts::lengths(),
        None => {
            let mut step = build(name)?;
            Ok(Box::new(move || Ok(vec![f64::from(step()?)])))
        }
    }
}

fn build(name: &str) -> anyhow::Result<BenchCase> {
    let device = Device::flex();
    match name {
        "vit_b16_forward" => {
            let model = Vit::new(&preset::<Vit>("vit_b16")?, &mut Init::seeded(0, &device))?;
            let pixels = filled([8, 3, 224, 224], 1.0, 0.0, &device);
            Ok(Box::new(move || Ok(model.forward(pixels.clone())?.powi_scalar(2).mean().into_scalar::<f32>())))
        }
        "vit_s16_train" => vit_train(8, &device.autodiff()),
        "text_forward" => {
            let model =
                TextTransformer::new(&preset::<TextTransformer>("text_l12_w512")?, &mut Init::seeded(0, &device))?;
            let mut ids: Vec<i32> = (0..32 * 77).map(|i| (i * 7919) % 49_000).collect();
            ids.chunks_mut(77).for_each(|row| row[76] = 49_407);
            let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [32, 77]), &device);
            let end = Tensor::<1, Int>::from_data(TensorData::new(vec![76i32; 32], [32]), &device);
            Ok(Box::new(move || {
                Ok(model
                    .forward(Tokens { ids: ids.clone(), end: end.clone() })?
                    .powi_scalar(2)
                    .mean()
                    .into_scalar::<f32>())
            }))
        }
        "text_finetune" => text_finetune(&device),
        "text_bucketed" | "text_bucketed_longest" => texts::bucketed(),
        "step_hycoclip" => step::hycoclip(),
        "loader" => loader(),
        "hard_negatives" => Ok(hard_negatives()),
        "part_hierarchy" => parts::case(),
        "loader_large" | "loader_large_scaled" => loading::case(&name["loader_".len()..]),
        _ => match name.split_once('_') {
            Some(("head", "angle")) => head_angle(&device.autodiff()),
            // CLIP's loss is InfoNCE in both directions, on the similarity of the given space.
            Some(("head", "phyclip_pair")) => {
                head_on("clip", HEAD_BATCH, (methods::entry("phyclip")?.manifold)(512), &device.autodiff())
            }
            Some(("head", method)) => head_of(method, HEAD_BATCH, &device.autodiff()),
            Some(("grow", what)) => growth::case(what),
            Some(("stored", what)) => stored::case(what),
            Some(("t5", what)) => t5::case(what),
            _ => bail!("unknown case `{name}`"),
        },
    }
}

/// A training step of ViT-S/16 on `batch` photos.
fn vit_train(batch: usize, device: &Device) -> anyhow::Result<BenchCase> {
    let mut model = Some(Vit::new(&preset::<Vit>("vit_s16")?, &mut Init::seeded(0, device))?);
    let pixels = filled([batch, 3, 224, 224], 1.0, 0.0, device);
    let mut optimiser = AdamW::new([0.9, 0.999], 1e-8);
    Ok(Box::new(move || {
        let it = model.take().context("a step failed before")?;
        let loss = it.forward(pixels.clone())?.powi_scalar(2).mean();
        let value = loss.clone().into_scalar::<f32>();
        let gradients = GradientSet::take(&it, &mut loss.backward());
        let decay = |param: &conifer_model::params::ParamInfo<'_>, _: usize| {
            if param.kind == ParamKind::Weight { 0.2 } else { 0.0 }
        };
        model = Some(optimiser.step(
            it,
            gradients,
            Update { lr: 1e-4, beta1: None, gradient_scale: 1.0, decay: &decay, schedule: &whole_run_schedule },
        ));
        Ok(value)
    }))
}

/// Loss of `batch` samples, and its gradients with respect to the features, the logit scale and the curvature. Feature
/// scales are 1, as in `torch_side.py`.
fn head_of(method: &str, batch: usize, device: &Device) -> anyhow::Result<BenchCase> {
    head_on(method, batch, (methods::entry(method)?.manifold)(512), device)
}

/// Rows of each view in the cases `head_...`: the published batch size.
const HEAD_BATCH: usize = 768;

/// As [`head_of`], in the space `spec` with all curvatures set to 1.
fn head_on(method: &str, batch: usize, mut spec: ManifoldSpec, device: &Device) -> anyhow::Result<BenchCase> {
    let entry = methods::entry(method)?;
    spec.curv = if spec.kind == ManifoldKind::Sphere { Vec::new() } else { vec![1.0; spec.factors] };
    let config = HeadConfig { feature_scale: Some(1.0), learn_feature_scale: false, ..HeadConfig::default() };
    let head = Head::new(&spec, &config, device)?;
    let mut settings = toml::Table::new();
    if method == "phyclip" {
        // Same work as in `torch_side.py`: boxes are contrasted with wholes, and the entailment weight is 0.1.
        settings.insert("box_candidates".into(), "wholes".into());
        settings.insert("entailment_weight".into(), 0.1.into());
    }
    let method = (entry.from_config)(&settings)?;
    let views: Vec<Tensor<2>> =
        [0.1, 0.2, 0.3, 0.4].map(|phase| filled([batch, spec.dim], 0.05, phase, device).require_grad()).into();
    Ok(Box::new(move || {
        let lift = |i: usize, side| head.lift(views[i].clone(), side);
        let boxed = method.views().contains(&conifer_data::View::Boxes);
        let batch = BatchPoints {
            image: Some(lift(0, Tower::Image)?),
            text: Some(lift(1, Tower::Text)?),
            box_image: if boxed { Some(lift(2, Tower::Image)?) } else { None },
            box_text: if boxed { Some(lift(3, Tower::Text)?) } else { None },
            ..BatchPoints::default()
        };
        let loss = method.loss(&batch, &head.space()?)?;
        let value = loss.total.clone().into_scalar::<f32>();
        let gradients = loss.total.backward();
        anyhow::ensure!(views[0].grad(&gradients).is_some(), "no gradient reached the features");
        Ok(value)
    }))
}

/// Loss of `visual_hierarchies` in both directions, and its gradients: 640 wholes and 1,280 parts, where part j belongs
/// to whole j % 640, at curvature 1 and temperature 0.07. The queries and positives are determined in every step, as in
/// training.
fn head_angle(device: &Device) -> anyhow::Result<BenchCase> {
    const WHOLES: usize = 640;
    const PARTS: usize = 1280;
    let entry = methods::entry("visual_hierarchies")?;
    let mut spec = (entry.manifold)(128);
    spec.curv = vec![1.0; spec.factors];
    let config = HeadConfig { feature_scale: Some(1.0), learn_feature_scale: false, ..HeadConfig::default() };
    let head = Head::new(&spec, &config, device)?;
    let method = (entry.from_config)(&toml::Table::new())?;
    let wholes = filled([WHOLES, 128], 0.05, 0.1, device).require_grad();
    let parts = filled([PARTS, 128], 0.05, 0.2, device).require_grad();
    let things: Vec<u32> = (0..(WHOLES + PARTS) as u32).collect();
    let edges: Vec<[u32; 2]> = (0..PARTS).map(|part| [(part % WHOLES) as u32, (WHOLES + part) as u32]).collect();
    Ok(Box::new(move || {
        let lift = |features: &Tensor<2>| head.lift(features.clone(), Tower::Image);
        let points = Tensor::cat(vec![lift(&wholes)?, lift(&parts)?], 0);
        let edges = Edges { points, things: things.clone(), parts: edges.clone() };
        let batch = BatchPoints { edges: Some(edges), ..BatchPoints::default() };
        let loss = method.loss(&batch, &head.space()?)?;
        let value = loss.total.clone().into_scalar::<f32>();
        let gradients = loss.total.backward();
        for features in [&wholes, &parts] {
            anyhow::ensure!(features.grad(&gradients).is_some(), "no gradient reached the features");
        }
        Ok(value)
    }))
}

/// Fine-tuning step of HierarCaps: CLIP's text tower on 8 chains of 4 correct and 4 wrong texts of 20 tokens and on the
/// empty text, the radial loss with its prior (another pass, through the frozen tower), and AdamW. The image tower is
/// not used.
fn text_finetune(device: &Device) -> anyhow::Result<BenchCase> {
    const CHAINS: usize = 8;
    const LINKS: usize = 8;
    const LEN: usize = 20;
    let autodiff = device.clone().autodiff();
    let config = preset::<TextTransformer>("text_l12_w512")?;
    let mut model = Some(TextTransformer::new(&config, &mut Init::seeded(0, &autodiff))?);
    let frozen = TextTransformer::new(&config, &mut Init::seeded(0, device))?;
    let tokens = |rows: usize, len: usize| {
        let mut ids: Vec<i32> = (0..rows * len).map(|i| ((i * 7919) % 49_000) as i32).collect();
        ids.chunks_mut(len).for_each(|row| row[len - 1] = 49_407);
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [rows, len]), device);
        let end = vec![len as i32 - 1; rows];
        Tokens { ids, end: Tensor::from_data(TensorData::new(end, [rows]), device) }
    };
    let (texts, empty) = (tokens(CHAINS * LINKS, LEN), tokens(1, 2));
    let entry = methods::entry("radial")?;
    let method = (entry.from_config)(&toml::Table::new())?;
    let head = Head::new(&(entry.manifold)(512), &HeadConfig::default(), device)?;
    let mut optimiser = AdamW::new([0.9, 0.999], 1e-8);
    let chain = |points: Tensor<2>| {
        let mut positive = points.chunk(LINKS, 0);
        let negative = positive.split_off(LINKS / 2);
        Chain { positive, negative, lengths: Vec::new() }
    };
    Ok(Box::new(move || {
        let it = model.take().context("a step failed before")?;
        let before = head.lift(frozen.forward(texts.clone())?, Tower::Text)?.to_device(&autodiff);
        let points = head.lift(it.forward(texts.clone())?, Tower::Text)?;
        let root = head.lift(it.forward(empty.clone())?, Tower::Text)?;
        let batch =
            BatchPoints { chain: Some(chain(points)), frozen_chain: Some(chain(before)), ..BatchPoints::default() };
        let space = BatchSpace { root: RootT::Point(root.squeeze_dim(0)), ..head.space()? };
        let loss = method.loss(&batch, &space)?;
        let value = loss.total.clone().into_scalar::<f32>();
        let gradients = GradientSet::take(&it, &mut loss.total.backward());
        let decay = |_: &conifer_model::params::ParamInfo<'_>, _: usize| 0.01;
        model = Some(optimiser.step(
            it,
            gradients,
            Update { lr: 1e-7, beta1: None, gradient_scale: 1.0, decay: &decay, schedule: &whole_run_schedule },
        ));
        Ok(value)
    }))
}

/// One million hard negatives, at each rank in turn, in a taxonomy of 450,000 species with seven ranks. The branching
/// varies as in nature: most genera have few species, and a few have hundreds or more.
fn hard_negatives() -> BenchCase {
    let path = |species: u64| -> Vec<String> {
        let mixed = species.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        // The square makes the first genera large.
        let genus = (((mixed * mixed) >> 24) * 60_000) >> 24;
        let ranks = [genus / 20_000, genus / 3_000, genus / 600, genus / 100, genus / 12, genus, species];
        ranks.iter().enumerate().map(|(rank, number)| format!("{rank}_{number}")).collect()
    };
    let paths: Vec<_> = (0..450_000).map(path).collect();
    let taxonomy = Taxonomy::new(&paths);
    let species: Vec<_> = paths.iter().filter_map(|path| taxonomy.find(path)).collect();
    let mut epoch = 0;
    Box::new(move || {
        epoch += 1;
        let mut rng = rng_for(0, epoch, 0, Stream::Negative);
        let mut found = 0;
        for draw in 0..1_000_000 {
            let own = species[draw * 7919 % species.len()];
            found += usize::from(taxonomy.hard_negative(own, draw % 7, &mut rng).is_some());
        }
        Ok(found as f32)
    })
}

/// The first `count` JPEG files, by name, of the folder in the environment variable `variable`.
fn photos(variable: &str, count: usize) -> anyhow::Result<Vec<PathBuf>> {
    let folder =
        std::env::var(variable).with_context(|| format!("{variable} is not set; expected a folder of JPEG files"))?;
    let mut photos = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.clone())? {
        photos.push(entry?.path());
    }
    photos.retain(|path| path.extension().is_some_and(|it| it == "jpg"));
    photos.sort();
    photos.truncate(count);
    anyhow::ensure!(!photos.is_empty(), "{folder}: no .jpg file found");
    Ok(photos)
}

/// Decodes and crops the first hundred photos, sequentially on this thread.
fn loader() -> anyhow::Result<BenchCase> {
    let photos = photos("BENCH_PHOTOS", 100)?;
    let augment = Augment { hflip: 0.5, ..Augment::default() };
    let mut epoch = 0;
    Ok(Box::new(move || {
        epoch += 1;
        let mut total = 0.0;
        for (sample, path) in photos.iter().enumerate() {
            let photo = ImageRef::File(path.clone());
            let mut rng = rng_for(0, epoch, sample as u64, Stream::Photo);
            total += f32::from(augment.open(&photo, &PixelLimits::default(), 224, &mut rng)?[0]);
        }
        Ok(total)
    }))
}

fn preset<E: Encoder>(name: &str) -> anyhow::Result<E::Config> {
    let found = E::PRESETS.iter().find(|(known, _)| *known == name).with_context(|| format!("no preset `{name}`"))?;
    Ok(found.1.clone())
}

/// `scale * sin(0.7 i + phase)` for each element i, as in `torch_side.py`.
fn filled<const D: usize>(shape: [usize; D], scale: f64, phase: f64, device: &Device) -> Tensor<D> {
    let values: Vec<f32> =
        (0..shape.iter().product()).map(|i| (scale * (0.7 * i as f64 + phase).sin()) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}
