//! Models by their name on the Hugging Face hub, from the cache that its own tools fill. Nothing is fetched here.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The file or folder that `reference` is; else, for a name such as `openai/clip-vit-base-patch32`, the snapshot of that model in the
/// local cache: the one that `main` points to, else the only one.
///
/// The cache is `$HF_HUB_CACHE`, `$HF_HOME/hub`, `$XDG_CACHE_HOME/huggingface/hub` or `~/.cache/huggingface/hub`, the first that is set.
///
/// # Errors
/// [`Error::Setting`] with the command that fetches the model, if `reference` reads like such a name and the cache has no such model.
pub fn locate(reference: &Path) -> Result<PathBuf> {
    locate_in(reference, cache().as_deref())
}

fn locate_in(reference: &Path, cache: Option<&Path>) -> Result<PathBuf> {
    let Some(name) = model_name(reference).filter(|_| !reference.exists()) else {
        return Ok(reference.to_owned());
    };
    let folder = cache.map(|cache| cache.join(format!("models--{}", name.replace('/', "--"))));
    folder.as_deref().and_then(snapshot).ok_or_else(|| {
        let looked = folder.map_or("no cache folder is known".to_owned(), |it| format!("no `{}`", it.display()));
        let expected =
            format!("a file, a folder, or a model in the hub's cache ({looked}; fetch it with `hf download {name}`)");
        Error::setting("checkpoint", name, expected)
    })
}

/// `owner/model`, if that is what it reads like.
fn model_name(reference: &Path) -> Option<&str> {
    let name = reference.to_str()?;
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let (owner, model) = name.split_once('/')?;
    let file = ["pt", "pth", "bin", "tar", "safetensors"].iter().any(|it| model.ends_with(&format!(".{it}")));
    (plain(owner) && plain(model) && !file).then_some(name)
}

fn snapshot(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    let main = fs::read_to_string(folder.join("refs/main")).ok().map(|commit| snapshots.join(commit.trim()));
    main.filter(|path| path.is_dir()).or_else(|| {
        let mut found = fs::read_dir(&snapshots).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let (one, other) = (found.next(), found.next());
        one.filter(|_| other.is_none())
    })
}

fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HF_HUB_CACHE")
        .or_else(|| Some(set("HF_HOME")?.join("hub")))
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("huggingface/hub")))
        .or_else(|| Some(set("HOME")?.join(".cache/huggingface/hub")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_leads_to_the_snapshot_of_main_or_to_the_command_that_fetches_it() {
        let cache = tempfile::tempdir().unwrap();
        let model = cache.path().join("models--openai--clip");
        for commit in ["aaa", "bbb"] {
            fs::create_dir_all(model.join("snapshots").join(commit)).unwrap();
        }
        let find = |name: &str| locate_in(Path::new(name), Some(cache.path()));
        // Two snapshots and no word on which is current.
        assert!(find("openai/clip").is_err());
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), "bbb\n").unwrap();
        assert_eq!(find("openai/clip").unwrap(), model.join("snapshots/bbb"));
        let only = cache.path().join("models--a--b/snapshots/ccc");
        fs::create_dir_all(&only).unwrap();
        assert_eq!(find("a/b").unwrap(), only);

        let message = find("openai/absent").unwrap_err().to_string();
        assert!(
            message.contains("hf download openai/absent") && message.contains("models--openai--absent"),
            "{message}"
        );
        // What reads like a path stays one, there or not.
        for path in ["clip", "./openai/clip", "a/b/c", "/a/b", "runs/x.pth"] {
            assert_eq!(find(path).unwrap(), Path::new(path));
        }
        let here = tempfile::tempdir().unwrap();
        assert_eq!(find(here.path().to_str().unwrap()).unwrap(), here.path());
    }
}
