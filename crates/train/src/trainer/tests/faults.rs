//! Failures during a run, and requests that a run rejects.

use super::*;

#[test]
fn a_save_that_fails_leaves_the_last_checkpoint_usable() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut trainer = fresh("clip", &out, "train.checkpoint_every=4");
    // A file blocks the path of the second checkpoint, so the save fails as on a full disk.
    fs::create_dir_all(out.join(CHECKPOINTS)).unwrap();
    let obstacle = out.join(CHECKPOINTS).join("step_00000008");
    fs::write(&obstacle, b"").unwrap();
    let message = trainer.run(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap_err().to_string();
    assert!(message.contains("step_00000008"), "{message}");
    fs::remove_file(&obstacle).unwrap();

    let mut resumed = Trainer::resume(&out, squares(), &Device::flex()).unwrap();
    assert_eq!(resumed.step(), 4);
    run(&mut resumed, u64::MAX);
    let straight = folder.path().join("straight");
    run(&mut fresh("clip", &straight, "train.checkpoint_every=4"), u64::MAX);
    assert!(newest(&straight)[WEIGHTS] == newest(&out)[WEIGHTS]);
}

#[test]
fn diverging_runs_stop_with_the_step_and_the_term() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = fresh("meru", folder.path(), "optim.lr=1e30 train.checkpoint_every=1 train.keep=9");
    let error = trainer.run(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap_err();
    assert!(matches!(error, Error::Diverged { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("step ") && message.contains("a finite number"), "{message}");
    assert!(message.contains("term `") || message.contains("gradient of `"), "{message}");
    assert!(latest_checkpoint(folder.path()).is_ok());
}

#[test]
fn invalid_requests_are_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |result: Result<Trainer>| result.err().unwrap().to_string();
    let nothing = refused(Trainer::resume(folder.path(), squares(), &Device::flex()));
    assert!(nothing.contains("checkpoint"), "{nothing}");

    run(&mut fresh("clip", folder.path(), ""), 2);
    let again = refused(Trainer::new(config("clip", folder.path(), ""), squares(), &Device::flex()));
    assert!(again.contains("`train.out`") && again.contains("resume"), "{again}");
    let other = Arc::new(Squares { size: 60, name: "others" });
    let other = refused(Trainer::resume(folder.path(), other, &Device::flex()));
    assert!(other.contains("other data") && other.contains("squares-60"), "{other}");

    let checkpoint = latest_checkpoint(folder.path()).unwrap();
    let damaged = |file: &str, bytes: &[u8], word: &str| {
        let path = checkpoint.join(file);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let message = refused(Trainer::resume(folder.path(), squares(), &Device::flex()));
        assert!(message.contains(file) && message.contains(word), "{message}");
        fs::write(&path, whole).unwrap();
    };
    damaged("state.json", b"{\"format\": 1", "EOF");
    damaged("optimizer.safetensors", b"half of it", "safetensors");
    damaged("weights.safetensors", b"half of it", "safetensors");
    damaged("config.toml", b"[optim]\nlrr = 1", "optim.lr");
    assert!(Trainer::resume(folder.path(), squares(), &Device::flex()).is_ok());
}

#[test]
fn weight_decay_follows_the_paper_or_the_released_code() {
    let scalar_of_a_list = 8;
    // (kind, elements, papers, released code)
    for (kind, elements, paper, code) in [
        (ParamKind::Weight, 100, true, true),
        (ParamKind::Bias, 100, false, true),
        (ParamKind::Norm, 100, false, true),
        (ParamKind::Scalar, 1, false, false),
        (ParamKind::Scalar, scalar_of_a_list, false, true),
        (ParamKind::Fixed, 100, false, false),
    ] {
        assert_eq!((decays(kind, elements, false), decays(kind, elements, true)), (paper, code), "{kind:?} {elements}");
    }
}
