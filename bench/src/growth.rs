//! Cases `grow_...` of `bench/growth.py`, which measure how the cost grows. They have no PyTorch side.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use burn::tensor::{Device, Int, Tensor, TensorData};
use conifer_data::loader::{DataConfig, Loader, LoaderConfig};
use conifer_data::sample::Sample;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::{Broken, ImageRef, Source, View};
use conifer_geometry::ManifoldSpec;
use conifer_model::encoders::{Encoder as _, TextTransformer, Tokens};
use conifer_model::params::Init;

use crate::{BenchCase, HEAD_BATCH, head_on, photos, preset, vit_train};

/// Builds the case `train_BATCH`, `checkpointed_BATCH` (gradient checkpointing), `phyclip_FACTORS_DIM`,
/// `loader_THREADS` (batches of 64 photos) or `text_LENGTH` (32 texts).
pub(crate) fn case(name: &str) -> anyhow::Result<BenchCase> {
    let mut parts = name.split('_');
    let kind = parts.next().unwrap_or_default();
    let numbers: Vec<usize> = parts.map(|it| it.parse().with_context(|| name.to_owned())).collect::<Result<_, _>>()?;
    match (kind, numbers.as_slice()) {
        ("train", &[batch]) => vit_train(batch, &Device::flex().autodiff()),
        ("checkpointed", &[batch]) => vit_train(batch, &Device::flex().autodiff().gradient_checkpointing()),
        ("phyclip", &[factors, dim]) => {
            let spec = ManifoldSpec { factors, dim: factors * dim, ..(product()?)(512) };
            head_on("phyclip", HEAD_BATCH, spec, &Device::flex().autodiff())
        }
        ("loader", &[threads]) => loader(threads),
        ("text", &[len]) => text(len),
        _ => bail!("unknown case `grow_{name}`"),
    }
}

fn product() -> anyhow::Result<fn(usize) -> ManifoldSpec> {
    Ok(conifer_train::methods::entry("phyclip")?.manifold)
}

/// Forward pass of the text tower without autodiff on 32 texts of `len` tokens.
fn text(len: usize) -> anyhow::Result<BenchCase> {
    let device = Device::flex();
    let config = preset::<TextTransformer>("text_l12_w512")?;
    let model = TextTransformer::new(&config, &mut Init::seeded(0, &device))?;
    let mut ids: Vec<i32> = (0..32 * len).map(|i| ((i * 7919) % 49_000) as i32).collect();
    ids.chunks_mut(len).for_each(|row| row[len - 1] = 49_407);
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [32, len]), &device);
    let end = Tensor::<1, Int>::from_data(TensorData::new(vec![len as i32 - 1; 32], [32]), &device);
    Ok(Box::new(move || {
        let found = model.forward(Tokens { ids: ids.clone(), end: end.clone() })?;
        Ok(found.powi_scalar(2).mean().into_scalar::<f32>())
    }))
}

/// Reads eight batches of 64 photos with captions from the loader as fast as possible.
fn loader(threads: usize) -> anyhow::Result<BenchCase> {
    let source: Arc<dyn Source> = Arc::new(PhotoFiles(photos("BENCH_PHOTOS", 1000)?));
    let config = LoaderConfig {
        batch_size: 64,
        data: DataConfig { workers: threads, prefetch: 2, ..DataConfig::default() },
        ..LoaderConfig::default()
    };
    let mut loader = Loader::new(source, Tokenizer::train(["a photo"], 514)?, config)?;
    Ok(Box::new(move || {
        let mut rows = 0;
        for _ in 0..8 {
            rows += loader.next().context("the loader ended")??.ids.len();
        }
        Ok(rows as f32)
    }))
}

/// Photo files that all have the same caption.
struct PhotoFiles(Vec<PathBuf>);

impl Source for PhotoFiles {
    fn name(&self) -> &str {
        "photos"
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        Ok(Sample {
            id: index.to_string(),
            image: Some(ImageRef::File(self.0[index].clone())),
            captions: vec!["a photo".to_owned()],
            ..Sample::default()
        })
    }

    fn views(&self) -> &[View] {
        &[View::Pair]
    }

    fn fingerprint(&self) -> String {
        String::new()
    }
}
