//! Encoders that another program exported as ONNX. They are always frozen: ONNX Runtime computes their features.

use std::path::PathBuf;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use conifer_embeddings::sha256_hex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pooling::TokenPooling;
use super::{Encoder, ImageInputFormat, TextInputFormat, TextualConfig, Tokens, VisualConfig};
use super::{check_pixels, check_positive};
use crate::onnx::{OnnxElement, OnnxGraph, OnnxOutput, OnnxPort, OnnxValues};
use crate::params::Init;
use crate::{Error, Result};

/// An image encoder in an ONNX file. The model normalises the pixels with `model.pixels` first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnnxImageConfig {
    /// The file, relative to the working directory. In a checkpoint: a file name in the folder of the checkpoint.
    pub file: PathBuf,
    /// Name of the input, `[B, 3, S, S]` or `[B, S, S, 3]`; absent: the only input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Name of the output, `[B, width]`; absent: the only output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Side S of the square photographs, in pixels.
    pub image_size: usize,
    /// Order of the axes of the input.
    #[serde(default)]
    pub layout: PixelLayout,
}

/// Order of the axes of pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PixelLayout {
    /// Batch, channel, row, column (PyTorch).
    #[default]
    Nchw,
    /// Batch, row, column, channel (TensorFlow).
    Nhwc,
}

/// A text encoder in an ONNX file. It needs its own tokenizer (`tokenizer.kind = "file"`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnnxTextConfig {
    /// The file, relative to the working directory. In a checkpoint: a file name in the folder of the checkpoint.
    pub file: PathBuf,
    /// Names of the inputs.
    #[serde(default, skip_serializing_if = "OnnxTextInputs::is_default")]
    pub inputs: OnnxTextInputs,
    /// Name of the output, `[B, width]`, or `[B, L, width]` with `pooling`; absent: the only output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Pooling of the tokens of an output `[B, L, width]` to one row per text; absent for an output `[B, width]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<TokenPooling>,
    /// Divide the result by its Euclidean norm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub normalize: bool,
    /// Longest sequence, in tokens, start and end included.
    pub context: usize,
    /// Number of token ids of the tokenizer.
    #[serde(default)]
    pub vocabulary: usize,
}

/// Names of the inputs of a text encoder, all `[B, L]` of int64 or int32. Absent names are those of `transformers`:
/// `input_ids`, `attention_mask`, `token_type_ids`; the latter two are used if the file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OnnxTextInputs {
    /// Name of the input of token ids; absent: `input_ids`, or the only input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// Name of the input of the mask, 1 for tokens and 0 for padding; absent: `attention_mask`, if the file has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// Name of the input of segment types, which are 0 here; absent: `token_type_ids`, if the file has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<String>,
}

impl OnnxTextInputs {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An image encoder that ONNX Runtime computes.
#[derive(Module, Debug)]
pub struct OnnxImageEncoder {
    #[module(skip)]
    graph: Arc<OnnxGraph>,
    #[module(skip)]
    input: OnnxPort,
    #[module(skip)]
    output: OnnxPort,
    #[module(skip)]
    width: usize,
    #[module(skip)]
    config: OnnxImageConfig,
}

/// A text encoder that ONNX Runtime computes.
#[derive(Module, Debug)]
pub struct OnnxTextEncoder {
    #[module(skip)]
    graph: Arc<OnnxGraph>,
    /// Ids, mask and types.
    #[module(skip)]
    inputs: [Option<OnnxPort>; 3],
    #[module(skip)]
    output: OnnxPort,
    #[module(skip)]
    width: usize,
    #[module(skip)]
    config: OnnxTextConfig,
}

impl VisualConfig {
    /// The ONNX file of the encoder; `None` for other encoders.
    pub fn onnx_file(&self) -> Option<&PathBuf> {
        if let Self::Onnx(config) = self { Some(&config.file) } else { None }
    }

    pub(crate) fn onnx_file_mut(&mut self) -> Option<&mut PathBuf> {
        if let Self::Onnx(config) = self { Some(&mut config.file) } else { None }
    }
}

impl TextualConfig {
    /// The ONNX file of the encoder; `None` for other encoders.
    pub fn onnx_file(&self) -> Option<&PathBuf> {
        if let Self::Onnx(config) = self { Some(&config.file) } else { None }
    }

    pub(crate) fn onnx_file_mut(&mut self) -> Option<&mut PathBuf> {
        if let Self::Onnx(config) = self { Some(&mut config.file) } else { None }
    }
}

impl Encoder for OnnxImageEncoder {
    type Config = OnnxImageConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;
    const PRESETS: &'static [(&'static str, Self::Config)] = &[];

    /// Loads the file and runs it twice, on one and on two photographs, to find the width of its features.
    fn new(config: &Self::Config, _: &mut Init) -> Result<Self> {
        check_positive("visual", &[("image_size", config.image_size)])?;
        let graph = OnnxGraph::open(&config.file)?;
        let input = graph.input("model.visual.input", config.input.as_deref())?.clone();
        let output = graph.output("model.visual", config.output.as_deref())?.clone();
        check_other_inputs(&graph, &[&input])?;
        let side = Some(config.image_size);
        let expected = match config.layout {
            PixelLayout::Nchw => [None, Some(3), side, side],
            PixelLayout::Nhwc => [None, side, side, Some(3)],
        };
        if input.element != OnnxElement::F32 || !input.accepts(&expected) {
            return Err(wrong_input(&graph, &input, "float32", &expected));
        }
        let mut encoder = Self { graph: Arc::new(graph), input, output, width: 0, config: config.clone() };
        let probe = |batch: usize| encoder.run(&vec![0.0; batch * 3 * config.image_size.pow(2)], batch);
        encoder.width = probed_width(&encoder.graph, &encoder.output, [(1, probe(1)?), (2, probe(2)?)])?;
        Ok(encoder)
    }

    fn reads(config: &Self::Config) -> Self::Reads {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, pixels: Self::Input) -> Result<Tensor<2>> {
        let batch = check_pixels(&pixels, self.config.image_size)?;
        let device = pixels.device().without_autodiff();
        let pixels = match self.config.layout {
            PixelLayout::Nchw => pixels,
            PixelLayout::Nhwc => pixels.permute([0, 2, 3, 1]),
        };
        let pixels: Vec<f32> = pixels.into_data().iter::<f32>().collect();
        let features = rows(&self.graph, &self.output, self.run(&pixels, batch)?, [batch, self.width])?;
        Ok(Tensor::from_data(TensorData::new(features, [batch, self.width]), &device))
    }

    fn digest(&self) -> Option<String> {
        let OnnxImageConfig { image_size, layout, .. } = self.config;
        Some(digest(&self.graph, &[&self.input.name, &self.output.name, &format!("{image_size} {layout:?}")]))
    }
}

impl OnnxImageEncoder {
    fn run(&self, pixels: &[f32], batch: usize) -> Result<OnnxOutput> {
        let side = self.config.image_size;
        let shape = match self.config.layout {
            PixelLayout::Nchw => [batch, 3, side, side],
            PixelLayout::Nhwc => [batch, side, side, 3],
        };
        self.graph.run(&[(&self.input, OnnxValues::F32(pixels))], &shape, &self.output)
    }
}

impl Encoder for OnnxTextEncoder {
    type Config = OnnxTextConfig;
    type Input = Tokens;
    type Reads = TextInputFormat;
    const PRESETS: &'static [(&'static str, Self::Config)] = &[];

    /// Loads the file and runs it twice, on texts of different numbers and lengths, to find the width of its features.
    fn new(config: &Self::Config, _: &mut Init) -> Result<Self> {
        check_positive("textual", &[("context", config.context), ("vocabulary", config.vocabulary)])?;
        let graph = OnnxGraph::open(&config.file)?;
        let has = |name: &str| graph.inputs().iter().any(|port| port.name == name);
        let named = |key: &str, given: &Option<String>, default: &str, is_required: bool| {
            let name = given.as_deref().or_else(|| has(default).then_some(default));
            match (name, is_required) {
                (None, false) => Ok(None),
                _ => graph.input(&format!("model.textual.inputs.{key}"), name).cloned().map(Some),
            }
        };
        let OnnxTextInputs { ids, mask, types } = &config.inputs;
        let inputs = [
            named("ids", ids, "input_ids", true)?,
            named("mask", mask, "attention_mask", false)?,
            named("types", types, "token_type_ids", false)?,
        ];
        let output = graph.output("model.textual", config.output.as_deref())?.clone();
        check_other_inputs(&graph, &inputs.iter().flatten().collect::<Vec<_>>())?;
        for input in inputs.iter().flatten() {
            let is_integer = matches!(input.element, OnnxElement::I64 | OnnxElement::I32);
            if !is_integer || !input.accepts(&[None, None]) {
                return Err(wrong_input(&graph, input, "int64 or int32", &[None, None]));
            }
        }
        let mut encoder = Self { graph: Arc::new(graph), inputs, output, width: 0, config: config.clone() };
        let probe = |batch: usize, length: usize| -> Result<(usize, OnnxOutput)> {
            let output = encoder.run(&vec![0; batch * length], &vec![1; batch * length], [batch, length])?;
            Ok((batch, encoder.pooled(output, &vec![length; batch], length)?))
        };
        let probes = [probe(1, config.context.min(2))?, probe(2, config.context.min(3))?];
        encoder.width = probed_width(&encoder.graph, &encoder.output, probes)?;
        Ok(encoder)
    }

    fn reads(config: &Self::Config) -> Self::Reads {
        TextInputFormat { context: config.context, vocabulary: config.vocabulary }
    }

    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, tokens: Self::Input) -> Result<Tensor<2>> {
        let [batch, length] = tokens.check(self.config.context)?;
        let device = tokens.ids.device().without_autodiff();
        let mut ids: Vec<i64> = tokens.ids.into_data().iter::<i64>().collect();
        let ends = tokens.end.into_data();
        let lengths: Vec<usize> = ends.iter::<i64>().map(|end| (end.max(0) as usize + 1).min(length)).collect();
        let mut mask = vec![0; batch * length];
        for ((ids, mask), &count) in ids.chunks_exact_mut(length).zip(mask.chunks_exact_mut(length)).zip(&lengths) {
            ids[count..].fill(0);
            mask[..count].fill(1);
        }
        let output = self.pooled(self.run(&ids, &mask, [batch, length])?, &lengths, length)?;
        let mut features = rows(&self.graph, &self.output, output, [batch, self.width])?;
        if self.config.normalize {
            for row in features.chunks_exact_mut(self.width) {
                // PyTorch's `normalize` divides by at least 1e-12.
                let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-12);
                row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
            }
        }
        Ok(Tensor::from_data(TensorData::new(features, [batch, self.width]), &device))
    }

    fn digest(&self) -> Option<String> {
        let OnnxTextConfig { pooling, normalize, context, .. } = &self.config;
        let names = self.inputs.iter().map(|input| input.as_ref().map_or("", |input| input.name.as_str()));
        let settings = format!("{pooling:?} {normalize} {context}");
        let parts: Vec<&str> = names.chain([self.output.name.as_str(), settings.as_str()]).collect();
        Some(digest(&self.graph, &parts))
    }
}

impl OnnxTextEncoder {
    fn run(&self, ids: &[i64], mask: &[i64], shape: [usize; 2]) -> Result<OnnxOutput> {
        let types = vec![0; ids.len()];
        let values = [ids, mask, &types].map(OnnxValues::Integers);
        let inputs: Vec<_> =
            self.inputs.iter().zip(values).filter_map(|(port, values)| Some((port.as_ref()?, values))).collect();
        self.graph.run(&inputs, &shape, &self.output)
    }

    /// Pools the tokens of an output `[B, L, width]` by the `pooling` of the config.
    fn pooled(&self, output: OnnxOutput, lengths: &[usize], length: usize) -> Result<OnnxOutput> {
        let batch = lengths.len();
        let wrong = |expected: &str| {
            let OnnxPort { name, .. } = &self.output;
            Error::invalid(
                "model.textual.pooling",
                format!("unfit for output `{name}` of shape {:?}", output.shape),
                expected,
            )
        };
        let Some(pooling) = self.config.pooling else {
            return match output.shape.as_slice() {
                [_, _] => Ok(output),
                _ => Err(wrong("mean, first or max for an output [B, L, width]; absent for [B, width]")),
            };
        };
        let &[found_batch, found_length, width] = output.shape.as_slice() else {
            return Err(wrong("absent for an output [B, width]; an output [B, L, width] with pooling"));
        };
        if [found_batch, found_length] != [batch, length] {
            return Err(wrong(&format!("an output [{batch}, {length}, width] for texts [{batch}, {length}]")));
        }
        let mut values = Vec::with_capacity(batch * width);
        for (tokens, &count) in output.values.chunks_exact((length * width).max(1)).zip(lengths) {
            let column = |channel: usize| tokens.iter().skip(channel).step_by(width).take(count);
            values.extend((0..width).map(|channel| match pooling {
                TokenPooling::First => tokens[channel],
                TokenPooling::Mean => (column(channel).map(|x| f64::from(*x)).sum::<f64>() / count as f64) as f32,
                TokenPooling::Max => {
                    column(channel).fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most })
                }
            }));
        }
        Ok(OnnxOutput { shape: vec![batch, width], values })
    }
}

/// Checks that the graph has no inputs besides `used`. Another input would get no value, so every run would fail.
fn check_other_inputs(graph: &OnnxGraph, used: &[&OnnxPort]) -> Result<()> {
    match graph.inputs().iter().find(|port| used.iter().all(|used| used.name != port.name)) {
        None => Ok(()),
        Some(other) => {
            let expected = "no inputs besides the configured ones (see model.visual.input, model.textual.inputs)";
            Err(Error::format(
                graph.path(),
                format!("the model has another input `{}`; expected {expected}", other.name),
            ))
        }
    }
}

fn wrong_input(graph: &OnnxGraph, port: &OnnxPort, element: &str, shape: &[Option<usize>]) -> Error {
    let sizes: Vec<String> = shape.iter().map(|size| size.map_or("any".to_owned(), |size| size.to_string())).collect();
    let OnnxPort { name, element: found, shape, .. } = port;
    let detail = format!(
        "input `{name}` is {found:?} of shape {shape:?} (-1: any size); expected {element} of shape [{}]",
        sizes.join(", ")
    );
    Error::format(graph.path(), detail)
}

/// The width of the output, which must have one row per sample and the same width in both probe runs, which differ in
/// batch size.
fn probed_width(graph: &OnnxGraph, port: &OnnxPort, probes: [(usize, OnnxOutput); 2]) -> Result<usize> {
    let [(_, first), _] = &probes;
    let width = first.shape.get(1).copied().unwrap_or(0);
    for (batch, output) in &probes {
        if output.shape != [*batch, width] || width == 0 {
            return Err(wrong_output(graph, port, &output.shape, *batch));
        }
    }
    Ok(width)
}

/// The values of `output`, which must have the shape `shape`.
fn rows(graph: &OnnxGraph, port: &OnnxPort, output: OnnxOutput, shape: [usize; 2]) -> Result<Vec<f32>> {
    if output.shape == shape { Ok(output.values) } else { Err(wrong_output(graph, port, &output.shape, shape[0])) }
}

fn wrong_output(graph: &OnnxGraph, port: &OnnxPort, found: &[usize], batch: usize) -> Error {
    let detail = format!(
        "output `{}` has shape {found:?} for a batch of {batch}; expected [{batch}, width] with the same width for \
         every batch",
        port.name
    );
    Error::format(graph.path(), detail)
}

/// SHA-256 of the file and the settings that change the features, without the path.
fn digest(graph: &OnnxGraph, settings: &[&str]) -> String {
    sha256_hex(format!("onnx {} {}", graph.sha256(), settings.join("\n")).as_bytes())
}

#[cfg(test)]
mod tests;
