//! Cases `stored_step`, `stored_head` and `stored_products`: a training step of PHyCLIP (64 factors) with boxes on 512
//! stored features, and the two parts that bound its time from below: the head, and the matrix products of the
//! adapters and projections.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::bail;
use burn::tensor::{Device, Tensor};
use conifer_train::config::Config;

use crate::step::SteppedTrainer;
use crate::{BenchCase, filled, head_of};

const BATCH: usize = 512;
const PHOTO_WIDTH: usize = 1280;
const TEXT_WIDTH: usize = 384;
const HIDDEN: usize = 1024;
const DIM: usize = 512;
/// Four batches per epoch, so that a step reads other rows than the one before.
const ROWS: usize = 4 * BATCH;

/// The adapters of configs/base/pretrained.toml.
const CONFIG: &str = r#"
[model]
embed_dim = 512
visual_adapter = { input = "standardise", widths = [1024], dropout = 0.3 }
textual_adapter = { input = "rms", widths = [1024], dropout = 0.3 }
[method]
kind = "phyclip"
[train]
steps = 1000000
batch_size = 512
checkpoint_every = 0
"#;

pub(crate) fn case(what: &str) -> anyhow::Result<BenchCase> {
    let device = Device::flex();
    match what {
        "step" => step(),
        "head" => head_of("phyclip", BATCH, &device.autodiff()),
        "products" => Ok(products(&device)),
        _ => bail!("unknown case `stored_{what}`"),
    }
}

/// The whole step of `conifer train`: loader, adapters with dropout, head, gradients, optimiser. The result is the
/// loss.
fn step() -> anyhow::Result<BenchCase> {
    let folder = tempfile::tempdir()?;
    let at = folder.path();
    // Photo i has the vector i, its box the vector i + ROWS; the same for caption and phrase.
    write_npy(&at.join("images.npy"), 2 * ROWS, PHOTO_WIDTH)?;
    write_npy(&at.join("texts.npy"), 2 * ROWS, TEXT_WIDTH)?;
    let mut table = "image,text,box,phrase\n".to_owned();
    for i in 0..ROWS {
        writeln!(table, "{i},{i},{0},{0}", i + ROWS)?;
    }
    fs::write(at.join("vectors.csv"), table)?;
    let path = at.join("vectors.csv");
    let options = "options = { images = 'images.npy', texts = 'texts.npy' }";
    let data = format!("[data]\nkind = 'features'\nworkers = 1\npath = '{}'\n{options}\n", path.display());
    let mut config = Config::parse("stored features", &format!("{CONFIG}{data}"), &[])?;
    config.train.out = at.join("run");
    let mut stepped = SteppedTrainer::start(config, folder)?;
    Ok(Box::new(move || stepped.step()))
}

/// The matrix products of both adapters and projections for photos and boxes, captions and phrases: forward, the
/// gradients of all weights, and the gradients of the hidden layers.
fn products(device: &Device) -> BenchCase {
    let rows = 2 * BATCH;
    let layer = |inputs: usize, outputs: usize| {
        let x = filled([rows, inputs], 1.0, 0.1, device);
        let w = filled([inputs, outputs], 0.03, 0.2, device);
        let gradient = filled([rows, outputs], 1.0, 0.3, device);
        (x, w, gradient)
    };
    // The input of the first layer of each adapter is a stored feature and needs no gradient.
    let layers = [(PHOTO_WIDTH, HIDDEN, false), (HIDDEN, DIM, true), (TEXT_WIDTH, HIDDEN, false), (HIDDEN, DIM, true)]
        .map(|(inputs, outputs, hidden)| (layer(inputs, outputs), hidden));
    Box::new(move || {
        let mut sum = 0.0;
        for ((x, w, gradient), hidden) in &layers {
            let mut results = vec![x.clone().matmul(w.clone()), x.clone().transpose().matmul(gradient.clone())];
            if *hidden {
                results.push(gradient.clone().matmul(w.clone().transpose()));
            }
            for product in results {
                sum += product.slice([0..1, 0..1]).into_scalar::<f32>();
            }
        }
        Ok(sum)
    })
}

/// Writes a matrix of sines as a NumPy file (version 1.0, little-endian float32).
fn write_npy(path: &Path, rows: usize, width: usize) -> anyhow::Result<()> {
    let matrix: Tensor<2> = filled([rows, width], 1.0, 0.5, &Device::flex());
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    // The length of magic, version, length and header is a multiple of 64, and the header ends with a line break.
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len())?.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(matrix.into_data().iter::<f32>().flat_map(f32::to_le_bytes));
    Ok(fs::write(path, bytes)?)
}
