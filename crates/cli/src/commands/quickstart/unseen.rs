//! Test data of a quickstart: scenes and photos that were not used to train the encoders or the model, and the texts
//! that are true of them.

use std::collections::HashMap;

use conifer_data::Sample;
use conifer_data::hierarchy::Tree;
use conifer_toy::{
    ClassChoice, Gallery, GroundTruth, Scene, ToyClass, ToyConfig, ToySplit, ToyWorld, class_words, tree,
};

/// Number of scenes for retrieval, caption hierarchies and depth order.
const SCENES: usize = 200;
/// Number of photos per seen class. An inner node of three classes, one of them held out, then has twelve right
/// answers.
const PER_CLASS: usize = 6;
/// Number of photos per held-out class.
const PER_HELD_OUT_CLASS: usize = 24;
/// Number of scenes in the embedding set; some of them show a single object.
const SHOWN: usize = 300;

pub(super) struct TestData {
    /// Scenes of seen classes; most show several objects.
    pub(super) scenes: ToyWorld,
    /// Single objects of seen classes, in colours and places that occur in training.
    pub(super) seen: Gallery,
    /// Single objects of seen classes, in a colour or a place (or both) that never occurs with the class in training.
    pub(super) combinations: Gallery,
    /// Single objects of held-out classes.
    pub(super) classes: Gallery,
    /// The scenes of the embedding set.
    pub(super) shown: ToyWorld,
    pub(super) shown_scenes: Vec<Scene>,
    pub(super) shown_samples: Vec<Sample>,
    /// Index into `shown_scenes` by sample id.
    index_of: HashMap<String, usize>,
    /// Which texts are true of which scenes.
    pub(super) truths: GroundTruth,
    pub(super) tree: Tree,
}

/// A node of the class tree, except the root.
pub(super) struct ClassTreeNode {
    pub(super) name: &'static str,
    /// The name with its article.
    pub(super) text: String,
    pub(super) is_leaf: bool,
    /// Depth in the tree; 0 for the most general nodes.
    pub(super) level: usize,
}

impl TestData {
    /// Creates the data of the `test` split, or of `val` for comparing settings.
    pub(super) fn new(resolution: u32, split: ToySplit) -> anyhow::Result<Self> {
        let seen = ToyConfig { size: SCENES, resolution, split, classes: ClassChoice::Seen, ..ToyConfig::default() };
        let scenes = ToyWorld::new(seen)?;
        // The split of held-out combinations has no validation part, so validation uses another seed.
        let seed = u64::from(split == ToySplit::Val);
        let combinations = ToyWorld::new(ToyConfig { split: ToySplit::HeldOut, seed, ..seen })?.gallery(PER_CLASS)?;
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
            index_of: shown_samples.iter().enumerate().map(|(i, sample)| (sample.id.clone(), i)).collect(),
            truths: GroundTruth::of(&shown_scenes),
            shown,
            shown_scenes,
            shown_samples,
            tree: tree()?,
        })
    }

    /// The scene of a sample of the embedding set.
    pub(super) fn scene(&self, sample: &str) -> Option<&Scene> {
        self.index_of.get(sample).map(|&index| &self.shown_scenes[index])
    }
}

/// The nodes of the class tree whose names occur in training: all except the held-out classes.
pub(super) fn nodes() -> Vec<ClassTreeNode> {
    let level = |name: &str| ToyClass::all().find_map(|class| class.path().iter().position(|it| *it == name));
    class_words()
        .into_iter()
        .filter(|(name, _)| !ToyClass::named(name).is_some_and(ToyClass::is_held_out))
        .map(|(name, text)| ClassTreeNode {
            name,
            text,
            is_leaf: ToyClass::named(name).is_some(),
            level: level(name).unwrap_or_default(),
        })
        .collect()
}
