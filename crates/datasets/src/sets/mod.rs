//! The evaluation data sets of the papers, each read from `<root>/<name>/` in the layout of its published archive.
//!
//! These are the twenty classification sets of the MERU family, sets for retrieval, and sets of hierarchies,
//! compositions and boxes. A listed photo whose file is missing still counts as a sample; reading it fails. A class
//! list of the wrong length is an error.

use std::path::Path;

use conifer_data::roots::{AllowedRoots, PublishedSet, RootedSource};
use conifer_data::{Error, Result, Source};

mod annotated;
mod archive;
mod captions;
mod folders;
mod hierarchies;
mod labelled;
mod lists;
mod mat;
mod records;

/// One split of a data set.
pub struct DataSet {
    /// Name in configs, records and on the command line; also the name of its folder.
    pub name: &'static str,
    /// Full name with the split, and differences from the published evaluations.
    pub title: &'static str,
    /// Required content of `<root>/<name>/`.
    pub layout: &'static str,
    /// Download location.
    pub get: &'static str,
    /// Number of classes; 0 for a set without classes.
    pub classes: usize,
    /// Number of samples (photos, or items of which several can have the same photo); 0 if unknown.
    pub photos: usize,
    /// A file in the set's folder with one line `parent child` per edge of a tree over its labels.
    pub tree: Option<&'static str>,
    /// Names of the folders below `<root>` that the set reads instead of `<root>/<name>`; empty for most sets.
    pub beside: &'static [&'static str],
    /// Reads the files in `<root>/<name>`. See [`DataSet::open`].
    read: fn(&Path) -> Result<Box<dyn Source>>,
}

/// All data sets. The classification sets are in the order of MERU's tables.
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
    hierarchies::VOC_DETECTION,
    hierarchies::OPENIMAGES_PARTS,
    hierarchies::LVIS_PARTS,
    hierarchies::INAT21,
    hierarchies::RARE_SPECIES,
];

impl DataSet {
    /// Opens the data set in `folder`, which is `<root>/<name>`. Reads no photo, except for CIFAR and MNIST, whose
    /// photos are in one file that is kept in memory. [`Source::complete`] returns the size of the published set, if
    /// known.
    ///
    /// # Errors
    /// A file is missing or has another format, or the class list has another length.
    pub fn open(&'static self, folder: &Path) -> Result<Box<dyn Source>> {
        let above = folder.parent().unwrap_or(Path::new(""));
        let source = (self.read)(folder)?;
        // The folders named by the layout may be links.
        let beside = self.beside.iter().map(|it| above.join(it));
        let roots = AllowedRoots::new([folder.to_owned()].into_iter().chain(beside).chain(source.roots()));
        let published = PublishedSet { name: self.name, samples: (self.photos > 0).then_some(self.photos) };
        Ok(Box::new(RootedSource::new(source, roots).named(published)))
    }

    /// Returns true if the folders of the set exist below `root`.
    pub fn is_below(&self, root: &Path) -> bool {
        match self.beside {
            [] => root.join(self.name).is_dir(),
            folders => folders.iter().all(|folder| root.join(folder).is_dir()),
        }
    }
}

/// Finds the data set with this name.
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

#[cfg(test)]
mod tests;
