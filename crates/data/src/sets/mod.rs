//! The evaluation data sets of the papers as they lie on disk, each in the folder that its name says.
//!
//! The twenty classification sets of the MERU family, sets for retrieval, and those of hierarchies, compositions and boxes. A set is read from the layout that
//! its own archive unpacks to. A photo that is not there stays a sample, to be told by whoever reads it; a class
//! list that is too short is an error.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::roots::{AllowedRoots, RootedSource};
use crate::sample::{Broken, Sample, View};
use crate::sources::{Class, Source};

mod annotated;
mod archive;
mod captions;
mod folders;
mod hierarchies;
mod labelled;
mod lists;
mod mat;
mod records;

/// A data set, one split of it.
pub struct DataSet {
    /// Name in configs, records and on the command line, and of its folder.
    pub name: &'static str,
    /// In full, with the split, and what differs from the published evaluations.
    pub title: &'static str,
    /// What `<root>/<name>/` has to hold.
    pub layout: &'static str,
    /// Where to get it.
    pub get: &'static str,
    /// Number of classes, 0 where there are none.
    pub classes: usize,
    /// Number of samples (photos, or items of which several share a photo), 0 where nobody says.
    pub photos: usize,
    /// A file below the set's folder with a line `parent child` for each edge of a tree over its labels.
    pub tree: Option<&'static str>,
    /// Folders beside its own that it reads instead of it; empty where it has one of its own.
    pub beside: &'static [&'static str],
    /// Reads its files; the argument is `<root>/<name>`. See [`DataSet::open`].
    read: fn(&Path) -> Result<Box<dyn Source>>,
}

/// Every data set, the classification sets in the order of the tables of the MERU family.
pub const DATA_SETS: &[DataSet] = &[
    folders::IMAGENET,
    lists::FOOD101,
    records::CIFAR10,
    records::CIFAR100,
    lists::CUB2011,
    lists::SUN397,
    annotated::CARS,
    lists::AIRCRAFT,
    lists::DTD,
    lists::PETS,
    folders::CALTECH101,
    annotated::FLOWERS102,
    records::STL10,
    folders::EUROSAT,
    folders::RESISC45,
    folders::COUNTRY211,
    records::MNIST,
    annotated::CLEVR,
    folders::PCAM,
    folders::SST2,
    captions::COCO,
    captions::COCO_KARPATHY,
    captions::FLICKR30K,
    hierarchies::HIERARCAPS,
    hierarchies::HYPERLEX,
    hierarchies::BREEDS_ENTITY13,
    hierarchies::BREEDS_ENTITY30,
    hierarchies::BREEDS_LIVING17,
    hierarchies::BREEDS_NONLIVING26,
    hierarchies::SUGARCREPE,
    hierarchies::VL_CHECKLIST,
    hierarchies::VG_ATTRIBUTION,
    hierarchies::COCO_DETECTION,
    hierarchies::OPENIMAGES_PARTS,
    hierarchies::LVIS_PARTS,
    hierarchies::INAT21,
    hierarchies::RARE_SPECIES,
];

impl DataSet {
    /// Opens it; `folder` is `<root>/<name>`. No photo is read, but for CIFAR and MNIST, which are one file. What it gives knows how
    /// many samples the whole set has ([`Source::complete`]).
    ///
    /// # Errors
    /// A file that is not there or of another format, a class list of another length.
    pub fn open(&'static self, folder: &Path) -> Result<Box<dyn Source>> {
        let above = folder.parent().unwrap_or(Path::new(""));
        let source = (self.read)(folder)?;
        // The folders that the layout names may be links.
        let beside = self.beside.iter().map(|it| above.join(it));
        let roots = AllowedRoots::new([folder.to_owned()].into_iter().chain(beside).chain(source.roots()));
        let source = Box::new(RootedSource::new(source, roots));
        Ok(Box::new(Opened { set: self, source }))
    }

    /// Whether the folders that it reads are below `root`.
    pub fn is_below(&self, root: &Path) -> bool {
        match self.beside {
            [] => root.join(self.name).is_dir(),
            folders => folders.iter().all(|folder| root.join(folder).is_dir()),
        }
    }
}

/// The data set called `name`.
///
/// # Errors
/// [`Error::Unknown`] with the known names.
pub fn find(name: &str) -> Result<&'static DataSet> {
    DATA_SETS.iter().find(|set| set.name == name).ok_or_else(|| Error::Unknown {
        what: "data set",
        found: name.to_owned(),
        known: DATA_SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", "),
    })
}

/// What a data set reads, under its name and with its published size.
struct Opened {
    set: &'static DataSet,
    source: Box<dyn Source>,
}

impl Source for Opened {
    fn name(&self) -> &str {
        self.set.name
    }

    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        self.source.get(index)
    }

    fn views(&self) -> &[View] {
        self.source.views()
    }

    fn fingerprint(&self) -> String {
        self.source.fingerprint()
    }

    fn classes(&self) -> Vec<Class> {
        self.source.classes()
    }

    fn class_tree(&self) -> Option<Tree> {
        self.source.class_tree()
    }

    fn lists_files(&self) -> bool {
        self.source.lists_files()
    }

    fn roots(&self) -> Vec<PathBuf> {
        self.source.roots()
    }

    fn complete(&self) -> Option<usize> {
        (self.set.photos > 0).then_some(self.set.photos)
    }

    fn left_out(&self) -> Option<String> {
        self.source.left_out()
    }
}

#[cfg(test)]
mod tests;
