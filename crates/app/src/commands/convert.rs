use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_learn::checkpoint::{self, published};
use serde_json::json;

use crate::cli::Convert;
use crate::embedder::checkpoint_folder;
use crate::output::{note, print, print_json};

pub(crate) fn run(args: Convert, as_json: bool) -> anyhow::Result<()> {
    let device = Device::flex();
    ensure!(
        !args.output.exists(),
        "{} exists; expected a new folder, or the name of a new .safetensors file",
        args.output.display()
    );
    if let Some(name) = &args.method {
        conifer_learn::methods::entry(name).context("--method")?;
    }
    let what = if args.input.is_dir() {
        ensure!(
            args.output.extension().is_some_and(|it| it == "safetensors"),
            "{}: a checkpoint folder is exported to a .safetensors file",
            args.output.display()
        );
        let (model, _) = checkpoint::load(&checkpoint_folder(&args.input)?, &device)?;
        published::export(&model, &args.output)?;
        "published names"
    } else {
        let options = published::ImportOptions {
            method: args.method,
            visual_heads: args.image_heads,
            textual_heads: args.text_heads,
            ..published::ImportOptions::default()
        };
        let (model, manifest) = published::import(&args.input, &options, &device)?;
        let tokenizer = args.tokenizer.as_deref().map(Tokenizer::open).transpose().context("--tokenizer")?;
        checkpoint::save(&args.output, &model, &manifest, tokenizer.as_ref())?;
        if tokenizer.is_none() {
            note("note: no --tokenizer given; the checkpoint embeds photos, but no texts until one is put beside it");
        }
        "checkpoint folder"
    };
    if as_json {
        return print_json(&json!({ "input": args.input, "output": args.output, "wrote": what }));
    }
    print(&format!("{} -> {} ({what})\n", args.input.display(), args.output.display()))
}
