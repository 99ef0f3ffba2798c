//! The encoders built into the program: a checkpoint folder trained by `configs/toy_towers.sh`. The quickstart starts
//! from them, and `explore` uses them if no other model is available.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../assets/toy_towers/", $name)))
    };
}

/// Names and contents of the files of the checkpoint folder.
const FILES: [(&str, &[u8]); 3] = [file!("manifest.toml"), file!("weights.safetensors"), file!("tokenizer.json")];

/// Name of the folder that [`write`] creates.
pub(super) const FOLDER: &str = "towers";

/// Writes the checkpoint folder into `out` and returns its path.
pub(super) fn write(out: &Path) -> anyhow::Result<PathBuf> {
    let folder = out.join(FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for (name, bytes) in FILES {
        let path = folder.join(name);
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;
    use conifer_eval::benchmarks::find;
    use conifer_eval::{Context, Options};
    use conifer_toy::{ClassChoice, ToyConfig, ToySplit, ToyWorld};
    use conifer_train::config::Config;

    use super::*;
    use crate::embedder::ModelEmbedder;

    #[test]
    fn built_in_encoders_match_the_toy_world() {
        let configs = [
            ("toy_towers.toml", include_str!("../../../../configs/toy_towers.toml")),
            ("toy_towers_names.toml", include_str!("../../../../configs/toy_towers_names.toml")),
        ];
        let worlds = configs.map(|(name, text)| {
            let config = Config::parse(name, text, &[]).unwrap();
            conifer_datasets::open(&config.source()).unwrap().fingerprint()
        });
        let recorded: Vec<&str> = include_str!("../../assets/toy_towers/world.txt").lines().collect();
        assert_eq!(
            worlds.as_slice(),
            recorded,
            "the drawings or texts of the toy world have changed; run configs/toy_towers.sh to retrain the built-in encoders"
        );
    }

    #[test]
    fn built_in_encoders_are_small_and_know_the_classes() {
        assert!(FILES.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= 4_000_000);
        let out = tempfile::tempdir().unwrap();
        let towers = ModelEmbedder::open(&write(out.path()).unwrap(), &Device::flex()).unwrap();
        let config = ToyConfig { split: ToySplit::Val, classes: ClassChoice::Seen, ..ToyConfig::default() };
        let gallery = ToyWorld::new(config).unwrap().gallery(1).unwrap();
        let options = Options { templates: vec!["a photo of a {}".into()], ..Options::default() };
        let context = Context::new(&towers, &gallery, None, &options);
        let records = conifer_eval::measure(find("zero_shot_classification").unwrap(), &context).unwrap();
        // Chance is 1 of 80. With six pictures of each class the towers reach .844 (configs/README.md); here each has
        // one.
        assert!(records[0].value > 0.4, "{:?}", records[0].without_outcomes());
    }
}
