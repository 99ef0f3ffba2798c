//! Folders of photos, one folder per class. Nested folders form a hierarchy: `animal/dog/1.jpg` has the label "dog" and
//! the taxon animal, dog.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::SourceEntry;
use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::hierarchy::ranks::of_samples;
use crate::names::{path_of, text_of};
use crate::sample::{Broken, ImageRef, Sample, View};
use crate::shard::IMAGE_EXTENSIONS;
use crate::source::{Source, SourceSpec};

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: "image_folder",
    summary: "photos in one folder per class",
    inputs: "path: the folder of class folders; split: a folder between the two (path/<split>/<class>/...); \
             options: caption (a template with {label}, such as \"a photo of a {label}\"; `_` in labels becomes a space)",
    read: |spec| Ok(Box::new(ImageFolder::open(spec)?)),
};

/// Photos in one folder per class.
pub struct ImageFolder {
    root: PathBuf,
    /// Paths relative to the root, sorted, with `/` as separator.
    files: Vec<String>,
    split: Option<String>,
    caption: Option<String>,
    views: Vec<View>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ImageFolderOptions {
    /// Template of the captions. Without this option the samples have no captions.
    caption: Option<String>,
}

impl ImageFolder {
    /// Lists the photos (by extension), ordered by path. Hidden files and folders are skipped.
    ///
    /// # Errors
    /// The folder cannot be read or contains no photo, or the template has no `{label}`.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let ImageFolderOptions { caption } = spec.parse_options()?;
        if let Some(template) = caption.as_ref().filter(|t| !t.contains("{label}")) {
            return Err(Error::invalid("caption", format!("{template:?}"), "a template with `{label}`"));
        }
        let mut root = spec.need_path()?.clone();
        root.extend(spec.split.as_deref());
        let mut files = Vec::new();
        collect(&root, "", &mut files)?;
        if files.is_empty() {
            return Err(Error::Empty {
                place: format!("`{}`", root.display()),
                expected: format!("files of type {}", IMAGE_EXTENSIONS.join(", ")),
            });
        }
        files.sort();
        let mut views = Vec::new();
        views.push(if caption.is_some() { View::Pair } else { View::Photo });
        let nested = files.iter().any(|file| file.matches('/').count() > 1);
        views.extend(nested.then_some(View::Chain));
        Ok(Self { root, files, split: spec.split.clone(), caption, views })
    }

    /// Names of all classes, sorted and without duplicates.
    pub fn labels(&self) -> Vec<String> {
        let mut labels: Vec<_> = self.files.iter().filter_map(|file| label(file)).map(str::to_owned).collect();
        labels.sort();
        labels.dedup();
        labels
    }
}

impl Source for ImageFolder {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let file = &self.files[index];
        let label = label(file).map(str::to_owned);
        let folders = file.rsplit_once('/').map_or("", |(folders, _)| folders);
        let caption = self.caption.as_ref().zip(label.as_ref());
        Ok(Sample {
            id: file.clone(),
            image: Some(ImageRef::File(self.root.join(path_of(file)))),
            captions: caption
                .map(|(template, label)| template.replace("{label}", &label.replace('_', " ")))
                .into_iter()
                .collect(),
            taxon: folders.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            label,
            split: self.split.clone(),
            ..Sample::default()
        })
    }

    fn lists_files(&self) -> bool {
        true
    }

    /// The tree is available if folders are nested.
    fn class_tree(&self) -> Option<Tree> {
        if self.views.contains(&View::Chain) { of_samples(self) } else { None }
    }

    fn views(&self) -> &[View] {
        &self.views
    }

    /// Hash of the names and lengths of the files.
    fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for file in &self.files {
            hash.update(file);
            let len = fs::metadata(self.root.join(path_of(file))).map_or(0, |meta| meta.len());
            hash.update(len.to_le_bytes());
        }
        hex::encode(hash.finalize())
    }
}

/// The class of a photo, which is the name of its innermost folder.
fn label(file: &str) -> Option<&str> {
    file.rsplit('/').nth(1)
}

/// Maximum nesting depth. Deeper nesting indicates a link to an ancestor folder.
const MAX_DEPTH: usize = 32;

/// Collects the photos below `folder`. Each new entry of `files` is `prefix` followed by the path relative to `folder`,
/// as a text that [`path_of`] converts to a path.
pub fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) -> Result<()> {
    if prefix.matches('/').count() > MAX_DEPTH {
        let expected = format!("folders nested at most {MAX_DEPTH} deep");
        return Err(Error::format(format!("`{}`", folder.display()), "more nested folders", expected));
    }
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let name = text_of(&entry.file_name());
        if name.starts_with('.') {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), files)?;
        } else if is_image(&path) {
            files.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    IMAGE_EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension))
}
