//! Looks up models of the Hugging Face hub by name in the local cache of the hub's tools. Missing models are downloaded
//! with the program `hf`, if it is installed; this module makes no network requests itself.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{MANIFEST, published};
use crate::{Error, Result};

/// Resolves `reference` to a file or folder. A path is returned unchanged. A name such as
/// `openai/clip-vit-base-patch32` resolves to the snapshot of that model in the local cache: the one that `main` points
/// to, else the only one. Missing models are downloaded with `hf download`, which shows its progress on stderr. Nothing
/// is downloaded if `HF_HUB_OFFLINE` is set to anything but 0, or if the part before the slash is an existing folder:
/// `reference` is then a mistyped path.
///
/// The cache is the first of these that is set: `$HF_HUB_CACHE`, `$HF_HOME/hub`, `$XDG_CACHE_HOME/huggingface/hub`,
/// `~/.cache/huggingface/hub`.
///
/// # Errors
/// [`Error::Invalid`] with the download command, if `reference` has the form of a name, the cache lacks the model and
/// the download was not possible.
pub fn locate(reference: &Path) -> Result<PathBuf> {
    let offline = std::env::var_os("HF_HUB_OFFLINE").is_some_and(|it| !it.is_empty() && it != "0");
    locate_in(reference, cache().as_deref(), (!offline).then_some(OsStr::new("hf")))
}

/// `fetcher` is the program to run as `fetcher download owner/model`; `None`: no download.
fn locate_in(reference: &Path, cache: Option<&Path>, fetcher: Option<&OsStr>) -> Result<PathBuf> {
    let Some(name) = model_name(reference).filter(|_| !reference.exists()) else {
        return Ok(reference.to_owned());
    };
    let folder = cache.map(|cache| cache.join(format!("models--{}", name.replace('/', "--"))));
    let find = || folder.as_deref().and_then(snapshot);
    let owner_is_folder = reference.parent().is_some_and(Path::exists);
    let fetch = || fetcher.filter(|_| !owner_is_folder).is_some_and(|program| download(program, name));
    find().or_else(|| fetch().then(find).flatten()).ok_or_else(|| {
        let looked =
            folder.as_ref().map_or("no cache folder is known".to_owned(), |it| format!("no `{}`", it.display()));
        let expected =
            format!("a file, a folder, or a model in the hub's cache ({looked}; fetch it with `hf download {name}`)");
        Error::invalid("checkpoint", name, expected)
    })
}

/// Runs the download. Returns `false` if `program` is missing or fails; it reports progress and errors on stderr.
fn download(program: &OsStr, name: &str) -> bool {
    let mut command = Command::new(program);
    command.args(["download", name]).stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `reference` as `owner/model`, if it has that form and does not name a checkpoint file (by its extension).
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
    // Other programs download single files, such as the tokenizer. A snapshot without weights is not a model.
    let whole = |path: &PathBuf| published::is_published(path) || path.join(MANIFEST).is_file();
    // If `main` is known, no other snapshot is used, because it may be an older version.
    if let Ok(commit) = fs::read_to_string(folder.join("refs/main")) {
        return Some(snapshots.join(commit.trim())).filter(whole);
    }
    let mut found = fs::read_dir(&snapshots).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(whole);
    let (one, other) = (found.next(), found.next());
    one.filter(|_| other.is_none())
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
    fn names_resolve_to_the_main_snapshot_or_report_the_download_command() {
        let cache = tempfile::tempdir().unwrap();
        let model = cache.path().join("models--openai--clip");
        let fill = |folder: &Path| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("model.safetensors"), "").unwrap();
        };
        for commit in ["aaa", "bbb"] {
            fill(&model.join("snapshots").join(commit));
        }
        let find = |name: &str| locate_in(Path::new(name), Some(cache.path()), None);
        // There are two snapshots, and no `main` to choose between them.
        assert!(find("openai/clip").is_err());
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), "bbb\n").unwrap();
        assert_eq!(find("openai/clip").unwrap(), model.join("snapshots/bbb"));
        let only = cache.path().join("models--a--b/snapshots/ccc");
        fs::create_dir_all(&only).unwrap();
        fs::write(only.join("tokenizer.json"), "").unwrap();
        assert!(find("a/b").unwrap_err().to_string().contains("hf download a/b"), "no weights, no model");
        fill(&only);
        assert_eq!(find("a/b").unwrap(), only);
        let refs = cache.path().join("models--a--b/refs");
        fs::create_dir_all(&refs).unwrap();
        fs::write(refs.join("main"), "ddd").unwrap();
        assert!(find("a/b").is_err(), "main names a snapshot that is missing");

        let message = find("openai/absent").unwrap_err().to_string();
        assert!(
            message.contains("hf download openai/absent") && message.contains("models--openai--absent"),
            "{message}"
        );
        // A reference in the form of a path is returned unchanged, even if it does not exist.
        for path in ["clip", "./openai/clip", "a/b/c", "/a/b", "runs/x.pth"] {
            assert_eq!(find(path).unwrap(), Path::new(path));
        }
        let here = tempfile::tempdir().unwrap();
        assert_eq!(find(here.path().to_str().unwrap()).unwrap(), here.path());
    }
    /// A script stands in for `hf`, which would need the network.
    #[cfg(unix)]
    #[test]
    fn missing_models_are_downloaded() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (cache, program) = (folder.path().join("hub"), folder.path().join("hf"));
        let script = format!(
            "#!/bin/sh\n[ \"$1 $2\" = 'download owner/model' ] && mkdir -p '{0}' && : > '{0}/model.safetensors'\n",
            cache.join("models--owner--model/snapshots/aaa").display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let find = |name: &str, fetcher| locate_in(Path::new(name), Some(&cache), fetcher);
        assert!(find("owner/model", None).is_err());
        assert!(find("owner/model", Some(OsStr::new("no_such_program"))).is_err());
        assert!(
            find("owner/other", Some(program.as_os_str())).unwrap_err().to_string().contains("hf download owner/other")
        );
        // `src` is a folder in the working directory, so `src/model` is taken for a path, although it does not exist.
        assert!(find("src/model", Some(program.as_os_str())).is_err());
        assert_eq!(
            find("owner/model", Some(program.as_os_str())).unwrap(),
            cache.join("models--owner--model/snapshots/aaa")
        );
        assert_eq!(find("owner/model", None).unwrap(), cache.join("models--owner--model/snapshots/aaa"));
    }
}
