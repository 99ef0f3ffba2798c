//! Property tests of the toy world over thousands of scenes.
#![allow(clippy::unwrap_used)]

use super::*;

mod general;
mod pictures;
mod scenes;
mod texts;

fn world(split: ToySplit) -> ToyWorld {
    ToyWorld::new(ToyConfig { size: 1000, resolution: 64, seed: 7, split, ..ToyConfig::default() }).unwrap()
}

fn scenes(split: ToySplit, count: usize) -> impl Iterator<Item = Scene> {
    let world = world(split);
    (0..count).map(move |index| world.scene(index))
}
