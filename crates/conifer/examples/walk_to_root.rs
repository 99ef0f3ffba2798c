//! Walks from a photo to the root and prints the texts on the path: "dog", then "animal".
//!
//! `cargo run --release -p conifer --example walk_to_root`
#![allow(clippy::print_stdout)]

mod shared;

use conifer::embeddings::Modality;
use conifer::index::{Filter, FlatIndex, Query, StopPlace, Traversal};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let set = shared::small_tree();
    let index = FlatIndex::new(&set)?;
    let texts = Filter::Modality(&[Modality::Text]);
    for photo in ["dog/1.jpg", "cat/1.jpg", "bus/1.jpg"] {
        let row = set.ids.iter().position(|id| id == photo).unwrap_or_default();
        // Visit 50 points of the geodesic to the root. At each, the stop is the nearest text whose cone contains the
        // point.
        let stops = index.traverse_to_root(&Query::row(&set, row), &Traversal::default(), &texts)?;
        let names = stops.iter().map(|stop| match stop.place {
            StopPlace::Row(row) => set.ids[row].as_str(),
            StopPlace::Root => "(root)",
        });
        println!("{photo}: {}", names.collect::<Vec<_>>().join(" -> "));
    }
    Ok(())
}
