//! The toy world as a benchmark of compositional understanding: pictures with a correct and an incorrect caption.

use conifer_data::{Phrase, Sample};
use rayon::prelude::*;

use super::negatives::{NegativeCaption, hard_negatives};
use super::scene::Scene;
use super::world::ToyWorld;

/// Pictures with a correct and an incorrect caption: one sample for each hard negative of each scene of a world.
#[derive(Clone, Debug)]
pub struct ToyContrasts {
    world: ToyWorld,
    /// Index of the scene, and one of its hard negatives.
    items: Vec<(usize, NegativeCaption)>,
}

impl ToyWorld {
    /// One sample for each of the [`hard_negatives`] of each scene, ordered by scene.
    pub fn contrasts(&self) -> ToyContrasts {
        let of_scene = |number| hard_negatives(&self.scene(number)).into_iter().map(move |it| (number, it));
        let items = (0..self.config().size).into_par_iter().flat_map_iter(of_scene).collect();
        ToyContrasts { world: self.clone(), items }
    }
}

impl ToyContrasts {
    /// Number of samples.
    #[allow(clippy::len_without_is_empty)] // never empty: every scene allows at least `replace_object`
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The world of the scenes.
    pub fn world(&self) -> &ToyWorld {
        &self.world
    }

    /// The hard negative of sample `index`: the kind of the edit and both texts.
    pub fn texts(&self, index: usize) -> &NegativeCaption {
        &self.items[index].1
    }

    /// The scene of sample `index`.
    pub fn scene(&self, index: usize) -> Scene {
        self.world.scene(self.items[index].0)
    }

    /// Sample `index`: the picture with its phrases, the correct caption and the incorrect caption. Split and label are
    /// the kind of the edit.
    pub fn sample(&self, index: usize) -> Sample {
        let (number, NegativeCaption { kind, caption, negative }) = &self.items[index];
        let sample = self.world.sample(*number);
        // The spans refer to captions that this sample does not have.
        let phrases = sample.phrases.into_iter().map(|phrase| Phrase { spans: Vec::new(), ..phrase }).collect();
        Sample {
            id: format!("{}/{}", sample.id, kind.name()),
            captions: vec![caption.clone()],
            wrong: vec![negative.clone()],
            phrases,
            tiers: None,
            label: Some(kind.name().to_owned()),
            split: Some(kind.name().to_owned()),
            ..sample
        }
    }
}
