//! The ONNX files of a checkpoint: copies beside the weights, so that the folder can be moved.

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::ModelConfig;
use crate::{Error, Result};

const VISUAL: &str = "visual.onnx";
const TEXTUAL: &str = "textual.onnx";

/// Copies the ONNX files of `model` into `folder`, and returns the config that names the copies.
///
/// # Errors
/// [`Error::Io`] with the file.
pub(super) fn copy(folder: &Path, mut model: ModelConfig) -> Result<ModelConfig> {
    let files = [(VISUAL, model.visual.onnx_file_mut()), (TEXTUAL, model.textual.onnx_file_mut())];
    for (name, file) in files {
        if let Some(file) = file {
            fs::copy(&*file, folder.join(name)).map_err(Error::io(&*file))?;
            *file = PathBuf::from(name);
        }
    }
    Ok(model)
}

/// The config with the paths of the ONNX files in `folder`.
///
/// # Errors
/// [`Error::Format`] for `manifest` if it names a file outside of the folder.
pub(super) fn resolve(folder: &Path, manifest: &Path, mut model: ModelConfig) -> Result<ModelConfig> {
    for file in [model.visual.onnx_file_mut(), model.textual.onnx_file_mut()].into_iter().flatten() {
        if file.file_name() != Some(file.as_os_str()) {
            let detail = format!("the ONNX file is {}; expected the name of a file in this folder", file.display());
            return Err(Error::format(manifest, detail));
        }
        *file = folder.join(&*file);
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encoders::{TextualConfig, VisualConfig};

    fn model(file: &Path) -> ModelConfig {
        let mut table = toml::Table::new();
        table.insert("kind".into(), "onnx".into());
        table.insert("file".into(), file.display().to_string().into());
        table.insert("image_size".into(), 8.into());
        ModelConfig {
            visual: VisualConfig::try_from(table).unwrap(),
            textual: TextualConfig::preset("text_nano").unwrap(),
            pixels: Default::default(),
            visual_lora: None,
            textual_lora: None,
            visual_adapter: None,
            textual_adapter: None,
        }
    }

    #[test]
    fn the_copy_is_found_after_the_folder_was_moved() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        fs::create_dir(&first).unwrap();
        let file = folder.path().join("model.onnx");
        assert!(matches!(copy(&first, model(&file)), Err(Error::Io { path, .. }) if path == file));
        fs::write(&file, b"bytes").unwrap();
        let stored = copy(&first, model(&file)).unwrap();
        assert_eq!(stored.visual.onnx_file(), Some(&PathBuf::from(VISUAL)));
        fs::rename(&first, &second).unwrap();
        fs::remove_file(&file).unwrap();
        let found = resolve(&second, &second.join("manifest.toml"), stored).unwrap();
        assert_eq!(fs::read(found.visual.onnx_file().unwrap()).unwrap(), b"bytes");
    }

    #[test]
    fn files_outside_of_the_folder_are_refused() {
        let manifest = Path::new("a/manifest.toml");
        for outside in ["/etc/model.onnx", "../model.onnx", "b/model.onnx"] {
            let message = resolve(Path::new("a"), manifest, model(Path::new(outside))).unwrap_err().to_string();
            assert!(message.contains(outside) && message.contains("expected the name of a file in this folder"));
        }
    }
}
