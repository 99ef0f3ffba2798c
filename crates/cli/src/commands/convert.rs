use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_model::checkpoint::{self, OpenedModel, published};
use serde_json::json;

use crate::arguments::{ConvertArgs, WeightArg};
use crate::output::{note, print, print_json};

pub(crate) fn run(mut args: ConvertArgs, as_json: bool) -> anyhow::Result<()> {
    args.input = checkpoint::hub::locate(&args.input)?;
    ensure!(
        !args.output.exists(),
        "{} exists; expected a new folder, or the name of a new .safetensors file",
        args.output.display()
    );
    if let Some(name) = &args.method {
        conifer_train::methods::entry(name).context("--method")?;
    }
    let foreign = published::is_published(&args.input) || !args.input.exists();
    let rounded = args.dtype == WeightArg::Bf16;
    let to_file = args.output.extension().is_some_and(|it| it == "safetensors");
    ensure!(
        foreign || args.to.is_some() || to_file || rounded,
        "{}: cannot write a checkpoint folder as this; expected a .safetensors file, a model folder with --to, or a smaller checkpoint with --dtype bf16",
        args.output.display()
    );
    let opened = checkpoint::open(&args.input, &options(&args), &Device::flex())?;
    let tokenizer = match &args.tokenizer {
        Some(path) => Some(Tokenizer::open(path).context("--tokenizer")?),
        None => opened.tokenizer().context("give another tokenizer with --tokenizer")?,
    };
    let OpenedModel { model, manifest, .. } = opened;
    let what = match (&args.to, foreign) {
        (Some(layout), _) => {
            published::export_folder(layout, &model, &manifest, tokenizer.as_ref(), &args.output).context("--to")?;
            layout
        }
        (None, false) if to_file => {
            published::export(&model, &args.output, args.dtype.into())?;
            "published names"
        }
        (None, _) => {
            checkpoint::save_as(&args.output, &model, &manifest, tokenizer.as_ref(), args.dtype.into())?;
            if tokenizer.is_none() && manifest.model.textual.vector_width().is_none() {
                note(
                    "note: no --tokenizer given; the checkpoint can embed photos, but no texts until a tokenizer is added to its folder",
                );
            }
            "checkpoint folder"
        }
    };
    if as_json {
        return print_json(&json!({ "input": args.input, "output": args.output, "wrote": what }));
    }
    print(&format!("{} -> {} ({what})\n", args.input.display(), args.output.display()))
}

fn options(args: &ConvertArgs) -> published::ImportOptions {
    published::ImportOptions {
        method: args.method.clone(),
        visual_heads: args.image_heads,
        textual_heads: args.text_heads,
        activation: args.activation.map(Into::into).unwrap_or_default(),
        ..published::ImportOptions::default()
    }
}
