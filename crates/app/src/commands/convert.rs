use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_learn::checkpoint::{self, Manifest, published};
use conifer_learn::model::Model;
use serde_json::json;

use crate::cli::Convert;
use crate::embedder::checkpoint_folder;
use crate::output::{note, print, print_json};

pub(crate) fn run(mut args: Convert, as_json: bool) -> anyhow::Result<()> {
    args.input = checkpoint::hub::locate(&args.input)?;
    let device = Device::flex();
    ensure!(
        !args.output.exists(),
        "{} exists; expected a new folder, or the name of a new .safetensors file",
        args.output.display()
    );
    if let Some(name) = &args.method {
        conifer_learn::methods::entry(name).context("--method")?;
    }
    let foreign = published::is_published(&args.input) || !args.input.exists();
    ensure!(
        foreign || args.to.is_some() || args.output.extension().is_some_and(|it| it == "safetensors"),
        "{}: a checkpoint folder is exported to a .safetensors file, or with --to to a folder",
        args.output.display()
    );
    let (model, manifest) = match foreign {
        true => published::import(&args.input, &options(&args), &device)?,
        false => checkpoint::load(&checkpoint_folder(&args.input)?, &device)?,
    };
    let what = match (&args.to, foreign) {
        (Some(layout), _) => {
            let tokenizer = tokenizer(&args, foreign, &manifest)?;
            published::export_folder(layout, &model, &manifest, tokenizer.as_ref(), &args.output).context("--to")?;
            layout
        }
        (None, false) => {
            published::export(&model, &args.output)?;
            "published names"
        }
        (None, true) => {
            save(&args, &model, &manifest)?;
            "checkpoint folder"
        }
    };
    if as_json {
        return print_json(&json!({ "input": args.input, "output": args.output, "wrote": what }));
    }
    print(&format!("{} -> {} ({what})\n", args.input.display(), args.output.display()))
}

fn options(args: &Convert) -> published::ImportOptions {
    published::ImportOptions {
        method: args.method.clone(),
        visual_heads: args.image_heads,
        textual_heads: args.text_heads,
        activation: args.activation.map(Into::into).unwrap_or_default(),
        ..published::ImportOptions::default()
    }
}

fn save(args: &Convert, model: &Model, manifest: &Manifest) -> anyhow::Result<()> {
    let tokenizer = tokenizer(args, true, manifest)?;
    checkpoint::save(&args.output, model, manifest, tokenizer.as_ref())?;
    if tokenizer.is_none() {
        note("note: no --tokenizer given; the checkpoint embeds photos, but no texts until one is put beside it");
    }
    Ok(())
}

/// The one that was asked for, else the one that came with the checkpoint.
fn tokenizer(args: &Convert, foreign: bool, manifest: &Manifest) -> anyhow::Result<Option<Tokenizer>> {
    if let Some(path) = &args.tokenizer {
        return Ok(Some(Tokenizer::open(path).context("--tokenizer")?));
    }
    if !foreign {
        let folder = checkpoint_folder(&args.input)?;
        let named = manifest.texts.tokenizer.is_some();
        return Ok(named.then(|| checkpoint::load_tokenizer(&folder, manifest)).transpose()?);
    }
    let beside: PathBuf = args.input.join(checkpoint::TOKENIZER);
    match beside.is_file() {
        true => Ok(Some(Tokenizer::open(&beside).context("expected another one with --tokenizer")?)),
        false => Ok(None),
    }
}
