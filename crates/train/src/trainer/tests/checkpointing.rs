//! Tests of gradient checkpointing.

use super::*;

/// Recomputed activations equal the original ones, so training gives the same bits for every method that reads photos
/// but no edges.
#[test]
fn gradient_checkpointing_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    for entry in METHODS.iter().filter(|entry| View::Photo.is_in(entry.views) && !entry.views.contains(&View::Edges)) {
        let of = |checkpointing: bool| {
            let out = folder.path().join(format!("{} {checkpointing}", entry.name));
            let more = format!("model.gradient_checkpointing={checkpointing}");
            let mut trainer = fresh(entry.name, &out, &more);
            let strategy = trainer.device.gradient_checkpointing_strategy();
            let losses = run(&mut trainer, 4).1;
            (strategy, losses, newest(&out))
        };
        let (stored, again) = (of(false), of(true));
        assert_ne!(stored.0, again.0, "the setting reaches the device");
        assert_eq!(stored.1, again.1, "{}", entry.name);
        for (name, bytes) in &stored.2 {
            assert!(*bytes == again.2[name], "{}: {name} differs", entry.name);
        }
    }
}
