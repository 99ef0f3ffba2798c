//! Photos of a BREEDS task (Santurkar et al. 2021), in one folder per ImageNet class.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;

use conifer_data::names::path_of;
use conifer_data::sources::image_folder::collect;
use conifer_data::{Broken, ClassEntry, Error, ImageRef, Result, Sample, Source, SourceEntry, SourceSpec, View};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::breeds::{BreedsHierarchy, BreedsSplit, BreedsTask, NameLookup};

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "breeds",
    summary: "a BREEDS task: photos in one folder per ImageNet class, with superclass and subclass",
    inputs: "path: the folder of class folders, named by wnid or by class name (\"bald_eagle\"); options: info (folder with class_hierarchy.txt, \
             node_names.txt and dataset_class_info.json), task (entity13, entity30, living17 or nonliving26), unknown (folders that are not in the hierarchy: \"error\", the default, or \
             \"skip\"), partition (none, the default, rand, good or bad); split: source or target, required with \
             a partition other than none",
    read: |spec| Ok(Box::new(BreedsPhotos::open(spec)?)),
};

/// The photos of the classes of a task. The label of a sample is the WordNet identifier of its class. Its taxon is the
/// first name of the superclass and the first name of the class. Photos of other classes of the hierarchy are excluded.
pub struct BreedsPhotos {
    root: PathBuf,
    /// Paths relative to the root, sorted, each with the index of its class.
    photos: Vec<(String, usize)>,
    classes: Vec<ClassEntry>,
    split: Option<String>,
    left_out: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BreedsOptions {
    info: Option<PathBuf>,
    task: Option<String>,
    unknown: Option<String>,
    partition: Option<String>,
}

impl BreedsPhotos {
    /// Lists the photos and computes the classes of the task.
    ///
    /// # Errors
    /// A file or folder cannot be read, an option is missing or unknown, the name of a photo folder is not in the
    /// hierarchy (unless such folders are skipped) or matches several classes, or the task has no photos.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: BreedsOptions = spec.parse_options()?;
        let root = spec.need_path()?.clone();
        let mut files = Vec::new();
        collect(&root, "", &mut files)?;
        files.sort();
        let needed =
            |key: &str, expected: &str| Error::invalid(format!("{key} of source breeds"), "not given", expected);
        let task =
            options.task.as_ref().ok_or_else(|| needed("task", "entity13, entity30, living17 or nonliving26"))?;
        let task = BreedsTask::named(task)?;
        let info =
            options.info.as_ref().ok_or_else(|| needed("info", "the folder with BREEDS' class_hierarchy.txt"))?;
        let skip = match options.unknown.as_deref() {
            None | Some("error") => false,
            Some("skip") => true,
            Some(other) => return Err(Error::invalid("unknown", format!("{other:?}"), "\"error\" or \"skip\"")),
        };
        let breeds = BreedsHierarchy::read(info)?;
        let classes = classes(&breeds, task, options.partition.as_deref(), spec.split.as_deref())?;
        let of_wnid: HashMap<_, _> =
            classes.iter().zip(0..).map(|(class, index)| (class.label.as_str(), index)).collect();
        let in_task = |class: usize| breeds.classes().get(class).and_then(|it| of_wnid.get(it.wnid.as_str()).copied());

        let mut class_of = BTreeMap::new();
        for folder in files.iter().map(|file| folder(file)).collect::<BTreeSet<_>>() {
            let fault = |found: String, expected: &str| {
                Err(Error::format(format!("folder `{}`", root.join(folder).display()), found, expected))
            };
            let class = match breeds.look_up(folder) {
                NameLookup::Class(class) => in_task(class),
                NameLookup::Inner => None,
                NameLookup::Several(several) if several.iter().all(|&class| in_task(class).is_none()) => None,
                NameLookup::Several(several) => {
                    let wnids: Vec<_> =
                        several.iter().filter_map(|&it| Some(&*breeds.classes().get(it)?.wnid)).collect();
                    return fault(
                        format!("its name matches the classes {}", wnids.join(" and ")),
                        "one of these wnids as its name",
                    );
                }
                NameLookup::Unknown if skip => continue,
                NameLookup::Unknown => {
                    let expected = "a wnid or the name of an ImageNet class (unknown = \"skip\" skips such folders)";
                    return fault("its name is no node of the hierarchy".to_owned(), expected);
                }
            };
            class_of.insert(folder, class);
        }
        let folders = files.iter().map(|file| folder(file)).collect::<BTreeSet<_>>().len();
        let known = files.iter().filter(|file| class_of.contains_key(folder(file))).count();
        let left_out = (known < files.len()).then(|| {
            let (folders_out, photos_out) = (folders - class_of.len(), files.len() - known);
            format!("{photos_out} photos in {folders_out} of {folders} folders left out: no node of the hierarchy")
        });
        let photos: Vec<_> = files
            .iter()
            .filter_map(|file| class_of.get(folder(file)).copied().flatten().map(|class| (file.clone(), class)))
            .collect();
        if photos.is_empty() {
            let example = classes.first().map_or("", |class| &class.label);
            let expected =
                format!("photos of the {} classes of {}, in folders such as `{example}`", classes.len(), task.name);
            return Err(Error::Empty { place: format!("`{}`", root.display()), expected });
        }
        Ok(Self { root, photos, classes, split: spec.split.clone(), left_out })
    }
}

impl Source for BreedsPhotos {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.photos.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let (file, class) = &self.photos[index];
        let class = &self.classes[*class];
        Ok(Sample {
            id: file.clone(),
            image: Some(ImageRef::File(self.root.join(path_of(file)))),
            taxon: class.taxon.clone(),
            label: Some(class.label.clone()),
            split: self.split.clone(),
            ..Sample::default()
        })
    }

    fn lists_files(&self) -> bool {
        true
    }

    fn views(&self) -> &[View] {
        &[View::Chain, View::Photo]
    }

    /// Hash of the names and lengths of the photos and of the classes of the task.
    fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for class in &self.classes {
            hash.update(format!("{} {}\n", class.label, class.taxon.join(" > ")));
        }
        for (file, class) in &self.photos {
            let len = fs::metadata(self.root.join(path_of(file))).map_or(0, |meta| meta.len());
            hash.update(format!("{file} {class} {len}\n"));
        }
        hex::encode(hash.finalize())
    }

    fn classes(&self) -> Vec<ClassEntry> {
        self.classes.clone()
    }

    fn left_out(&self) -> Option<String> {
        self.left_out.clone()
    }
}

/// Name of the folder that contains a photo.
fn folder(file: &str) -> &str {
    file.rsplit('/').nth(1).unwrap_or("")
}

/// The classes of a task, or of one half of the task, ordered by superclass.
fn classes(
    breeds: &BreedsHierarchy,
    task: &BreedsTask,
    partition: Option<&str>,
    half: Option<&str>,
) -> Result<Vec<ClassEntry>> {
    let partition = partition.map_or(Ok(BreedsSplit::None), BreedsSplit::named)?;
    let target = match (partition, half) {
        (BreedsSplit::None, None) => false,
        (BreedsSplit::None, Some(half)) => {
            return Err(Error::invalid(
                "split of source breeds",
                format!("{half:?}"),
                "no split, because no partition is set",
            ));
        }
        (_, Some("source")) => false,
        (_, Some("target")) => true,
        (_, other) => {
            let found = other.map_or_else(|| "not given".to_owned(), |half| format!("{half:?}"));
            return Err(Error::invalid(
                "split of source breeds",
                found,
                "source or target, because a partition is set",
            ));
        }
    };
    let mut classes = Vec::new();
    for superclass in breeds.superclasses(task, partition)? {
        let general = breeds.word(&superclass.wnid);
        for &class in if target { &superclass.target } else { &superclass.source } {
            let Some(class) = breeds.classes().get(class) else { continue };
            let name = class.words.first().unwrap_or(&class.wnid).clone();
            let taxon = vec![general.to_owned(), name.clone()];
            classes.push(ClassEntry { label: class.wnid.clone(), name, taxon });
        }
    }
    Ok(classes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::fixtures::{FixtureFolder, jpeg, shared_data};
    use serde_json::json;

    use super::*;
    use crate::sources::open;

    fn spec(path: PathBuf, split: Option<&str>, options: serde_json::Value) -> SourceSpec {
        let options = serde_json::from_value(options).unwrap();
        SourceSpec {
            kind: "breeds".to_owned(),
            path: Some(path),
            split: split.map(str::to_owned),
            options,
            ..SourceSpec::default()
        }
    }

    /// A hierarchy for the task living17. At its level are "dog", with four classes, and "cat", with one class, which
    /// is too few. The zebra is not below the ancestor of the task.
    fn fixture() -> FixtureFolder {
        let folder = FixtureFolder::new();
        let chain = "n00001740 n00004258\nn00004258 one\none two\ntwo three\nthree dog\nthree cat\nn00001740 zebra\n";
        folder.write("info/class_hierarchy.txt", chain.to_owned() + "dog d1\ndog d2\ndog d3\ndog d4\ncat c1\n");
        folder.write("info/node_names.txt", "dog\tdog, domestic dog\ncat\tcat\n");
        let rows: Vec<_> = ["d1", "d2", "d3", "d4", "c1", "zebra", "far1", "far2"]
            .into_iter()
            .zip([
                "pug, pug-dog",
                "puli",
                "kuvasz",
                "Tibetan mastiff, mastiff",
                "tabby",
                "zebra",
                "crane",
                "crane, mastiff",
            ])
            .enumerate()
            .map(|(number, (wnid, names))| (number, wnid, names))
            .collect();
        folder.write("info/dataset_class_info.json", serde_json::to_string(&rows).unwrap());
        for photo in [
            "d1/a.jpg",
            "PULI/a.jpg",
            "PULI/b.jpg",
            "tibetan_mastiff/a.jpg",
            "zebra/a.jpg",
            "crane/a.jpg",
            "domestic-dog/a.jpg",
        ] {
            folder.write(&format!("photos/{photo}"), jpeg(4, 4));
        }
        folder
    }

    #[test]
    fn photos_of_the_task_by_wnid_and_by_name() {
        let folder = fixture();
        let (photos, info) = (folder.path().join("photos"), folder.path().join("info"));
        let source = open(&spec(photos.clone(), None, json!({"info": info, "task": "living17"}))).unwrap();
        // The names of the folders `zebra`, `crane` (two classes) and `domestic-dog` (an inner node) are known, but
        // none of them is a class of the task.
        let samples: Vec<_> = (0..source.len()).map(|index| source.get(index).unwrap()).collect();
        let found: Vec<_> =
            samples.iter().map(|it| (&*it.id, it.label.as_deref().unwrap(), it.taxon.join(" > "))).collect();
        let of = |id, label, taxon: &str| (id, label, taxon.to_owned());
        assert_eq!(
            found,
            [
                of("PULI/a.jpg", "d2", "dog > puli"),
                of("PULI/b.jpg", "d2", "dog > puli"),
                of("d1/a.jpg", "d1", "dog > pug"),
                of("tibetan_mastiff/a.jpg", "d4", "dog > Tibetan mastiff"),
            ]
        );
        let mut labels: Vec<_> = source.classes().into_iter().map(|class| class.label).collect();
        labels.sort();
        assert_eq!((labels, source.left_out()), (["d1", "d2", "d3", "d4"].map(str::to_owned).to_vec(), None));
        let halves = ["source", "target"].map(|half| {
            let options = json!({"info": info, "task": "living17", "partition": "good"});
            open(&spec(photos.clone(), Some(half), options)).unwrap()
        });
        // The four groups have one class each. The first two groups form the source half.
        assert_eq!(halves.each_ref().map(|it| it.classes()[0].label.clone()), ["d1", "d3"]);
        assert_eq!(halves.each_ref().map(|it| it.len()), [3, 1]);
        assert_ne!(halves[0].fingerprint(), source.fingerprint());
    }

    #[test]
    fn unknown_folders_are_an_error_or_reported() {
        let folder = fixture();
        folder.write("photos/DODO/a.jpg", jpeg(4, 4));
        folder.write("photos/DODO/b.jpg", jpeg(4, 4));
        let (photos, info) = (folder.path().join("photos"), folder.path().join("info"));
        let fails =
            |split, options: serde_json::Value| open(&spec(photos.clone(), split, options)).err().unwrap().to_string();
        let text = fails(None, json!({"info": info, "task": "living17"}));
        assert!(text.contains("photos/DODO`: its name is no node of the hierarchy"), "{text}");
        let options = json!({"info": info, "task": "living17", "unknown": "skip"});
        let source = open(&spec(photos.clone(), None, options.clone())).unwrap();
        assert_eq!(source.len(), 4);
        assert_eq!(source.left_out().unwrap(), "2 photos in 1 of 7 folders left out: no node of the hierarchy");

        for (split, options, message) in [
            (None, json!({"info": info}), "`task of source breeds` is not given"),
            (None, json!({"task": "living17"}), "`info of source breeds` is not given"),
            (None, json!({"info": info, "task": "living18"}), "task of BREEDS `living18` is unknown"),
            (None, json!({"info": info, "task": "living17", "unknown": "no"}), "`unknown` is \"no\""),
            (None, json!({"info": info, "task": "living17", "partition": "worse"}), "split of BREEDS `worse`"),
            (None, json!({"info": info, "task": "living17", "partition": "bad"}), "source or target, because"),
            (Some("source"), options.clone(), "no split, because no partition is set"),
            (None, json!({"info": info, "task": "entity13", "unknown": "skip"}), "no superclass of entity13"),
        ] {
            let text = fails(split, options);
            assert!(text.contains(message), "{text}");
        }
        // Two classes have this name; one of them is in the task.
        folder.write("photos/mastiff/a.jpg", jpeg(4, 4));
        let text = fails(None, options);
        assert!(text.contains("photos/mastiff`: its name matches the classes d4 and far2"), "{text}");
    }

    /// Of the folders of the shared bird photos, eleven have the name of an ImageNet class. `PURPLE_GALLINULE` is the
    /// name of an inner node.
    #[test]
    fn shared_bird_photos() {
        let (Some(info), Some(birds)) = (shared_data("breeds/modified"), shared_data("birds525/images")) else {
            return;
        };
        let options = |unknown: &str| json!({"info": info, "task": "entity13", "unknown": unknown});
        let text = open(&spec(birds.clone(), None, options("error"))).err().unwrap().to_string();
        assert!(text.contains("ABBOTTS_BABBLER`: its name is no node"), "{text}");
        let source = open(&spec(birds, None, options("skip"))).unwrap();
        assert_eq!(source.classes().len(), 260);
        let mut taxa: Vec<_> = (0..source.len()).map(|index| source.get(index).unwrap().taxon.join(" > ")).collect();
        assert_eq!(taxa.len(), 9);
        taxa.dedup();
        assert_eq!(taxa, ["bird > American coot", "bird > indigo bunting", "bird > limpkin"]);
        let left_out = source.left_out().unwrap();
        assert_eq!(left_out, "1422 photos in 474 of 486 folders left out: no node of the hierarchy");
    }
}
