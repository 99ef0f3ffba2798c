//! Embeds a folder of photos, in which each subfolder is a class, and writes the embedding set.
//!
//! `cargo run --release -p conifer --example embed_photos -- PHOTOS MODEL OUT`. Without arguments, the example draws 8
//! pictures of the toy world and embeds them with the small towers in this repository, which were trained only on such
//! pictures.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};

use conifer::data::{self, ImageRef, SourceSpec, toy};
use conifer::embeddings::{EmbeddingSet, Modality};
use conifer::model::{Device, Embedder, EvalCrop};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let drawn = tempfile::tempdir()?;
    let photos = match args.next() {
        Some(photos) => photos,
        None => draw(drawn.path())?,
    };
    let towers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cli/assets/toy_towers");
    let embedder = Embedder::open(&args.next().unwrap_or(towers), &Device::flex())?;
    let out = args.next().unwrap_or_else(|| drawn.path().join("set"));

    let spec = SourceSpec { kind: "image_folder".to_owned(), path: Some(photos.clone()), ..SourceSpec::default() };
    let source = data::open(&spec)?;
    let (mut ids, mut labels, mut images) = (Vec::new(), Vec::new(), Vec::<ImageRef>::new());
    for index in 0..source.len() {
        match source.get(index) {
            Ok(sample) => {
                ids.push(sample.id);
                labels.push(sample.label.unwrap_or_default());
                images.extend(sample.image);
            }
            Err(broken) => eprintln!("left out: {broken}"),
        }
    }
    let data = photos.display().to_string();
    let progress = &mut |done, all| eprintln!("{done} of {all}");
    let mut set: EmbeddingSet = embedder.image_set(ids, &images, EvalCrop::Center, Modality::Image, &data, progress)?;
    set.columns.insert("label".to_owned(), labels);
    set.save(&out)?;
    println!("{} rows in {}", set.len(), set.spec);
    Ok(())
}

/// Draws eight pictures of four classes and returns their folder.
fn draw(folder: &Path) -> anyhow::Result<PathBuf> {
    let photos = folder.join("photos");
    let world = toy::ToyWorld::new(toy::ToyConfig { size: 8, ..toy::ToyConfig::default() })?;
    for index in 0..8 {
        let sample = world.sample(index);
        let class = photos.join(sample.label.unwrap_or_default());
        std::fs::create_dir_all(&class)?;
        if let Some(ImageRef::Pixels(picture)) = &sample.image {
            std::fs::write(class.join(format!("{index}.png")), data::encode_png(picture)?)?;
        }
    }
    Ok(photos)
}
