//! The world as a numbered collection of scenes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::caption::{Captions, captions_in, tiers};
use super::choice::ClassChoice;
use super::classes::{Class, ROOT};
use super::dice::Dice;
use super::general::Words;
use super::layout::{Brief, compose};
use super::paint::render;
use super::scene::Scene;
use super::taxonomy::taxon;
use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::sample::{ImageRef, Sample};

/// Which world, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToyConfig {
    /// Number of scenes.
    pub size: usize,
    /// Width and height of a picture, in pixels: 16 to 4096. From 64 on a person recognises what is drawn.
    pub resolution: u32,
    /// Another seed, another world.
    pub seed: u64,
    /// Which scenes of the world.
    pub split: Split,
    /// Which classes they show.
    pub classes: ClassChoice,
    /// Which texts they have.
    pub words: Words,
    /// Share of the scenes that show one object alone, in per cent, beside those that do anyway: 0 to 100.
    pub singles: u8,
}

/// A part of the world that shares no scene with the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// To learn from.
    #[default]
    Train,
    /// To choose settings with.
    Val,
    /// To report, drawn like `Train`.
    Test,
    /// To report: in every scene the main object has a colour or a background (or both) in which its class is in no other split.
    HeldOut,
}

/// A world of scenes. Cheap to make: every scene is made up when it is asked for.
#[derive(Clone, Debug)]
pub struct ToyWorld {
    config: ToyConfig,
}

/// Pictures of single objects, class by class.
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
            split: Split::Train,
            classes: ClassChoice::All,
            words: Words::Captions,
            singles: 0,
        }
    }
}

impl Split {
    /// Every split.
    pub const ALL: &[Self] = &[Self::Train, Self::Val, Self::Test, Self::HeldOut];

    /// As in configs: "held_out".
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
            Self::HeldOut => "held_out",
        }
    }

    /// The split called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|split| split.name() == name).ok_or_else(|| Error::Unknown {
            what: "split of the toy world",
            found: name.to_owned(),
            known: Self::ALL.iter().map(|split| split.name()).collect::<Vec<_>>().join(", "),
        })
    }
}

impl ToyWorld {
    /// The world of this configuration.
    ///
    /// # Errors
    /// No scene, a resolution outside 16 to 4096, or a share above 100 per cent.
    pub fn new(config: ToyConfig) -> Result<Self> {
        if config.size == 0 {
            return Err(Error::config("size of the toy world", 0.to_string(), "at least 1"));
        }
        if !(16..=4096).contains(&config.resolution) {
            let found = config.resolution.to_string();
            return Err(Error::config("resolution of the toy world", found, "16 to 4096"));
        }
        if config.singles > 100 {
            return Err(Error::config("singles of the toy world", config.singles.to_string(), "0 to 100 per cent"));
        }
        Ok(Self { config })
    }

    /// As given.
    pub fn config(&self) -> ToyConfig {
        self.config
    }

    /// Scene `index`. Numbers beyond [`ToyConfig::size`] have scenes, too: the size only says where a source ends.
    pub fn scene(&self, index: usize) -> Scene {
        let ToyConfig { split, classes, singles, .. } = self.config;
        let mut dice = self.dice(SCENES, index as u64);
        // Nothing is drawn for it where no share is asked for: those scenes stay as they are.
        let alone = singles > 0 && dice.below(100) < usize::from(singles);
        compose(&mut dice, Brief { main: None, alone, held_out: split == Split::HeldOut, classes })
    }

    /// Scene `index` with its picture and all that is known about it.
    pub fn sample(&self, index: usize) -> Sample {
        let ToyConfig { seed, split, .. } = self.config;
        let id = format!("toy_{seed}_{}_{index:07}", split.name());
        self.describe(id, &self.scene(index))
    }

    /// Pictures of single objects, `per_class` of each class, for zero-shot classification.
    ///
    /// # Errors
    /// No picture.
    pub fn gallery(&self, per_class: usize) -> Result<Gallery> {
        if per_class == 0 {
            return Err(Error::config("pictures per class of the toy gallery", "0", "at least 1"));
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

    fn dice(&self, purpose: u64, index: u64) -> Dice {
        Dice::new([self.config.seed, self.config.split as u64, index, purpose])
    }
}

impl Gallery {
    /// Number of pictures.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.classes().len() * self.per_class
    }

    /// The classes it shows, in the order of [`Class::all`].
    pub fn classes(&self) -> Vec<Class> {
        Class::all().filter(|class| self.world.config.classes.admits_main(*class)).collect()
    }

    /// Number of pictures of each class.
    pub fn per_class(&self) -> usize {
        self.per_class
    }

    /// The world it is drawn from.
    pub fn world(&self) -> &ToyWorld {
        &self.world
    }

    /// Scene `index`, class by class in the order of [`Class::all`]. More pictures per class leave the first ones as they are.
    pub fn scene(&self, index: usize) -> Scene {
        let (row, copy) = (index / self.per_class, index % self.per_class);
        let classes = self.classes();
        let class = classes[row % classes.len()];
        let ToyConfig { split, classes: choice, .. } = self.world.config;
        let brief = Brief { main: Some(class), alone: true, held_out: split == Split::HeldOut, classes: choice };
        // The number of the class, not of the row: a picture is the same whichever classes are shown beside it.
        let number = (class.index() as u64) << 32 | copy as u64;
        compose(&mut self.world.dice(GALLERY, number), brief)
    }

    /// Scene `index` with its picture and all that is known about it; its label is the class.
    pub fn sample(&self, index: usize) -> Sample {
        let scene = self.scene(index);
        let class = scene.objects[0].class.name().replace(' ', "_");
        let copy = index % self.per_class;
        let ToyConfig { seed, split, .. } = self.world.config;
        let id = format!("toy_{seed}_{}_{class}_{copy:04}", split.name());
        self.world.describe(id, &scene)
    }
}

/// The is-a tree: [`ROOT`], and the path of every class below it. All leaves have depth 4.
///
/// # Errors
/// Never: a test builds it.
pub fn tree() -> Result<Tree> {
    Tree::from_paths(ROOT, Class::all().map(Class::path))
}

/// Names of the leaf classes, in the order of [`Class::all`].
pub fn class_names() -> Vec<&'static str> {
    Class::all().map(Class::name).collect()
}

// Purposes of the streams of choices that make scenes.
const SCENES: u64 = 0;
const GALLERY: u64 = 1;
