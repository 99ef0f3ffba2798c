//! The toy world as an indexed collection of scenes.

use std::sync::Arc;

use conifer_data::hierarchy::Tree;
use conifer_data::{Error, ImageRef, Result, Sample};
use serde::{Deserialize, Serialize};

use super::caption::{Captions, captions_in, tiers};
use super::choice::ClassChoice;
use super::classes::{ROOT, ToyClass};
use super::general::TextChoice;
use super::layout::{SceneConstraints, compose};
use super::paint::render;
use super::rng::ToyRng;
use super::scene::Scene;
use super::taxonomy::taxon;

/// Configuration of a toy world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToyConfig {
    /// Number of scenes, at least 1.
    pub size: usize,
    /// Width and height of a picture in pixels, 16 to 4096. Objects are recognisable to people from 64 on.
    pub resolution: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// The split, which selects a separate sequence of scenes.
    pub split: ToySplit,
    /// Classes that may occur in scenes and texts.
    pub classes: ClassChoice,
    /// The kinds of texts of each sample.
    pub words: TextChoice,
    /// Percentage of scenes that show one object only, 0 to 100, in addition to the scenes that have one object by
    /// chance.
    pub singles: u8,
}

/// A split of the world. Different splits use different random numbers for their scenes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToySplit {
    /// Scenes for training.
    #[default]
    Train,
    /// Scenes for model selection.
    Val,
    /// Scenes for final evaluation, from the same distribution as `Train`.
    Test,
    /// Scenes for final evaluation of compositional generalisation. The main object of every scene has a colour or a
    /// background (or both) that its class has in no other split.
    HeldOut,
}

/// A world of scenes. Creation is cheap: scenes are generated on access.
#[derive(Clone, Debug)]
pub struct ToyWorld {
    config: ToyConfig,
}

/// Pictures of single objects, ordered by class.
#[derive(Clone, Debug)]
pub struct Gallery {
    world: ToyWorld,
    per_class: usize,
}

impl Default for ToyConfig {
    /// 4,096 training scenes at 64 pixels.
    fn default() -> Self {
        Self {
            size: 4096,
            resolution: 64,
            seed: 0,
            split: ToySplit::Train,
            classes: ClassChoice::All,
            words: TextChoice::Captions,
            singles: 0,
        }
    }
}

impl ToySplit {
    /// All splits.
    pub const ALL: &[Self] = &[Self::Train, Self::Val, Self::Test, Self::HeldOut];

    /// The name in configs, such as "held_out".
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
            Self::HeldOut => "held_out",
        }
    }

    /// The split with this name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no such split.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|split| split.name() == name).ok_or_else(|| Error::Unknown {
            what: "split of the toy world",
            found: name.to_owned(),
            known: Self::ALL.iter().map(|split| split.name()).collect::<Vec<_>>().join(", "),
        })
    }
}

impl ToyWorld {
    /// Creates a world.
    ///
    /// # Errors
    /// `size` is 0, `resolution` is outside 16 to 4096, or `singles` is above 100.
    pub fn new(config: ToyConfig) -> Result<Self> {
        if config.size == 0 {
            return Err(Error::invalid("size of the toy world", 0.to_string(), "at least 1"));
        }
        if !(16..=4096).contains(&config.resolution) {
            let found = config.resolution.to_string();
            return Err(Error::invalid("resolution of the toy world", found, "16 to 4096"));
        }
        if config.singles > 100 {
            return Err(Error::invalid("singles of the toy world", config.singles.to_string(), "0 to 100 per cent"));
        }
        Ok(Self { config })
    }

    /// The configuration of this world.
    pub fn config(&self) -> ToyConfig {
        self.config
    }

    /// Scene `index`. Every index is valid: [`ToyConfig::size`] is only the length of the world as a source.
    pub fn scene(&self, index: usize) -> Scene {
        let ToyConfig { split, classes, singles, .. } = self.config;
        let mut rng = self.rng(SCENES, index as u64);
        // No random number is drawn if `singles` is 0, so that existing worlds keep their scenes.
        let alone = singles > 0 && rng.below(100) < usize::from(singles);
        compose(&mut rng, SceneConstraints { main: None, alone, held_out: split == ToySplit::HeldOut, classes })
    }

    /// Scene `index` as a sample: the picture and all annotations.
    pub fn sample(&self, index: usize) -> Sample {
        let ToyConfig { seed, split, .. } = self.config;
        let id = format!("toy_{seed}_{}_{index:07}", split.name());
        self.describe(id, &self.scene(index))
    }

    /// Pictures of single objects, `per_class` of each class, for zero-shot classification.
    ///
    /// # Errors
    /// `per_class` is 0.
    pub fn gallery(&self, per_class: usize) -> Result<Gallery> {
        if per_class == 0 {
            return Err(Error::invalid("pictures per class of the toy gallery", "0", "at least 1"));
        }
        Ok(Gallery { world: self.clone(), per_class })
    }

    fn describe(&self, id: String, scene: &Scene) -> Sample {
        let main = scene.objects[0].class;
        let Captions { texts, phrases } = captions_in(scene, self.config.words);
        Sample {
            id,
            image: Some(ImageRef::Pixels(Arc::new(render(scene, self.config.resolution)))),
            captions: texts,
            phrases,
            tiers: Some(tiers(scene)),
            taxon: taxon(main).map(|ranks| ranks.map(str::to_owned).to_vec()).unwrap_or_default(),
            label: Some(main.name().to_owned()),
            split: Some(self.config.split.name().to_owned()),
            ..Sample::default()
        }
    }

    fn rng(&self, purpose: u64, index: u64) -> ToyRng {
        ToyRng::new([self.config.seed, self.config.split as u64, index, purpose])
    }
}

impl Gallery {
    /// Number of pictures.
    #[allow(clippy::len_without_is_empty)] // never empty: `per_class` is at least 1
    pub fn len(&self) -> usize {
        self.classes().len() * self.per_class
    }

    /// The classes that the gallery shows, in the order of [`ToyClass::all`].
    pub fn classes(&self) -> Vec<ToyClass> {
        ToyClass::all().filter(|class| self.world.config.classes.admits_main(*class)).collect()
    }

    /// Number of pictures of each class.
    pub fn per_class(&self) -> usize {
        self.per_class
    }

    /// The world of the scenes.
    pub fn world(&self) -> &ToyWorld {
        &self.world
    }

    /// Scene `index`, ordered by class as in [`ToyClass::all`]. The first scenes of a class do not depend on
    /// `per_class`.
    pub fn scene(&self, index: usize) -> Scene {
        let (row, copy) = (index / self.per_class, index % self.per_class);
        let classes = self.classes();
        let class = classes[row % classes.len()];
        let ToyConfig { split, classes: choice, .. } = self.world.config;
        let constraints =
            SceneConstraints { main: Some(class), alone: true, held_out: split == ToySplit::HeldOut, classes: choice };
        // The seed uses the index of the class and not of the row, so that a picture does not depend on the other
        // classes in the gallery.
        let number = (class.index() as u64) << 32 | copy as u64;
        compose(&mut self.world.rng(GALLERY, number), constraints)
    }

    /// Scene `index` as a sample: the picture and all annotations. The label is the class.
    pub fn sample(&self, index: usize) -> Sample {
        let scene = self.scene(index);
        let class = scene.objects[0].class.name().replace(' ', "_");
        let copy = index % self.per_class;
        let ToyConfig { seed, split, .. } = self.world.config;
        let id = format!("toy_{seed}_{}_{class}_{copy:04}", split.name());
        self.world.describe(id, &scene)
    }
}

/// The is-a tree: [`ROOT`] and the path of every class below it. All leaves have depth 4.
///
/// # Errors
/// None: the class tables form a tree, which a test checks.
pub fn tree() -> Result<Tree> {
    Tree::from_paths(ROOT, ToyClass::all().map(ToyClass::path))
}

/// Names of the leaf classes, in the order of [`ToyClass::all`].
pub fn class_names() -> Vec<&'static str> {
    ToyClass::all().map(ToyClass::name).collect()
}

// Purposes of random streams ([`ToyRng::new`]).
const SCENES: u64 = 0;
const GALLERY: u64 = 1;
