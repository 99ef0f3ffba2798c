//! What neither the towers nor the quickstart has seen: scenes, pictures of single objects, and what is true of them.

use std::collections::HashMap;

use conifer_data::Sample;
use conifer_data::hierarchy::Tree;
use conifer_data::toy::{Class, ClassChoice, Gallery, Scene, Split, ToyConfig, ToyWorld, Truths, class_words, tree};

/// Test scenes for retrieval, tiers and depth.
const SCENES: usize = 200;
/// Pictures of each seen class; an inner node of three classes, one of them held out, then has twelve right answers.
const PER_CLASS: usize = 6;
/// Pictures of each held-out class.
const PER_HELD_OUT_CLASS: usize = 24;
/// Scenes and single objects of the set that is searched and walked through.
const SHOWN: usize = 300;

pub(super) struct Unseen {
    /// Of seen classes, several objects in most of them.
    pub(super) scenes: ToyWorld,
    /// Single objects of seen classes, in colours and places in which they were seen.
    pub(super) seen: Gallery,
    /// The same classes in a colour or a place, or both, in which they were never seen.
    pub(super) combinations: Gallery,
    /// Classes that were never seen.
    pub(super) classes: Gallery,
    /// What the embedding set holds.
    pub(super) shown: ToyWorld,
    pub(super) shown_scenes: Vec<Scene>,
    pub(super) shown_samples: Vec<Sample>,
    /// Position in `shown_scenes` by id.
    number: HashMap<String, usize>,
    /// What the texts of the set mean.
    pub(super) truths: Truths,
    pub(super) tree: Tree,
}

/// A node of the class tree below its root.
pub(super) struct Node {
    pub(super) name: &'static str,
    /// With its article.
    pub(super) text: String,
    pub(super) is_leaf: bool,
    /// 0 for the most general ones.
    pub(super) level: usize,
}

impl Unseen {
    /// The split `test`, or `val` for whoever compares settings.
    pub(super) fn new(resolution: u32, split: Split) -> anyhow::Result<Self> {
        let seen = ToyConfig { size: SCENES, resolution, split, classes: ClassChoice::Seen, ..ToyConfig::default() };
        let scenes = ToyWorld::new(seen)?;
        // Another world for the settings: the split of held-out combinations has no part of its own for them.
        let seed = u64::from(split == Split::Val);
        let combinations = ToyWorld::new(ToyConfig { split: Split::HeldOut, seed, ..seen })?.gallery(PER_CLASS)?;
        let classes =
            ToyWorld::new(ToyConfig { classes: ClassChoice::HeldOut, ..seen })?.gallery(PER_HELD_OUT_CLASS)?;
        let shown = ToyWorld::new(ToyConfig { size: SHOWN, singles: 50, ..seen })?;
        let shown_scenes: Vec<Scene> = (0..SHOWN).map(|index| shown.scene(index)).collect();
        let shown_samples: Vec<Sample> = (0..SHOWN).map(|index| shown.sample(index)).collect();
        Ok(Self {
            seen: scenes.gallery(PER_CLASS)?,
            scenes,
            combinations,
            classes,
            number: shown_samples.iter().enumerate().map(|(i, sample)| (sample.id.clone(), i)).collect(),
            truths: Truths::of(&shown_scenes),
            shown,
            shown_scenes,
            shown_samples,
            tree: tree()?,
        })
    }

    /// The scene of a sample of the set.
    pub(super) fn scene(&self, sample: &str) -> Option<&Scene> {
        self.number.get(sample).map(|&number| &self.shown_scenes[number])
    }
}

/// The nodes of the class tree that the model has read of: all but the held-out classes.
pub(super) fn nodes() -> Vec<Node> {
    let level = |name: &str| Class::all().find_map(|class| class.path().iter().position(|it| *it == name));
    class_words()
        .into_iter()
        .filter(|(name, _)| !Class::named(name).is_some_and(Class::is_held_out))
        .map(|(name, text)| Node {
            name,
            text,
            is_leaf: Class::named(name).is_some(),
            level: level(name).unwrap_or_default(),
        })
        .collect()
}
