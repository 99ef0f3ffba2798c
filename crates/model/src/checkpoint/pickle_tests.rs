//! Files of `torch.save`: the legacy format, pickles that would run code, and damaged files.
#![allow(clippy::unwrap_used)]

use std::fs;

use burn::tensor::Device;
use conifer_geometry::ManifoldSpec;

use super::export;
use super::published::{self, ImportOptions};
use super::tests::{golden, options, small};

/// The bytes of a file in the legacy format of `torch.save`: magic number, version, system information, pickled object,
/// keys of the storages, storages.
pub(super) fn legacy_file(object: &[u8], storages: &[(&str, &[f32])]) -> Vec<u8> {
    let mut file = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec();
    file.extend(b"\x80\x02M\xe9\x03.");
    file.extend(b"\x80\x02}(X\x10\x00\x00\x00protocol_versionM\xe9\x03X\x0d\x00\x00\x00little_endian\x88u.");
    file.extend(object);
    file.extend(b"\x80\x02](");
    for (key, _) in storages {
        file.extend(text(key));
    }
    file.extend(b"e.");
    for (_, values) in storages {
        file.extend((values.len() as u64).to_le_bytes());
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    file
}

/// The pickle of a str.
pub(super) fn text(value: &str) -> Vec<u8> {
    [b"X".as_slice(), &(value.len() as u32).to_le_bytes(), value.as_bytes()].concat()
}

/// The pickle of a contiguous f32 tensor on the storage `key`.
fn tensor(key: &str, shape: &[usize]) -> Vec<u8> {
    let integers = |values: &[usize]| {
        let items: Vec<u8> =
            values.iter().flat_map(|&value| [b"M".as_slice(), &(value as u16).to_le_bytes()].concat()).collect();
        [b"(".as_slice(), &items, b"t"].concat()
    };
    let count: usize = shape.iter().product();
    let strides: Vec<usize> = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
    let count = [b"M".as_slice(), &(count as u16).to_le_bytes()].concat();
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((".as_slice(),
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text(key),
        &text("cpu"),
        &count,
        b"NtQK\x00",
        &integers(shape),
        &integers(&strides),
        b"\x89ccollections\nOrderedDict\n)RtR",
    ]
    .concat()
}

/// A file in the legacy format: the state dict of a model wrapped for several GPUs, and CLIP's mean embedding.
#[test]
fn older_files_and_wrapped_models_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = small(&ManifoldSpec::sphere(8));
    let weights = export(&model);
    let mut object = b"\x80\x02}(".to_vec();
    object.extend([text("model"), b"}(".to_vec()].concat());
    let learned =
        || weights.iter().filter_map(|(name, array)| Some((name.as_str(), array.shape.as_slice(), array.floats()?)));
    for (name, shape, _) in learned() {
        object.extend([text(&format!("module.{name}")), tensor(name, shape)].concat());
    }
    object.extend(
        [b"u".to_vec(), text("root"), tensor("root", &[8]), text("iteration"), b"M\x07\x00u.".to_vec()].concat(),
    );
    let root: Vec<f32> = (0..8).map(|i| i as f32 / 8.0).collect();
    let mut storages: Vec<(&str, &[f32])> = learned().map(|(name, _, floats)| (name, floats)).collect();
    storages.push(("root", &root));
    let path = folder.path().join("old.pth");
    fs::write(&path, legacy_file(&object, &storages)).unwrap();

    let options = ImportOptions {
        visual_heads: Some(2),
        textual_heads: Some(2),
        activation: crate::encoders::layers::ActivationFn::QuickGelu,
        ..ImportOptions::default()
    };
    let (read, manifest) = published::import(&path, &options, &Device::flex()).unwrap();
    assert_eq!(export(&read), weights);
    assert_eq!(manifest.method, "clip");
    assert_eq!(manifest.root.unwrap(), root.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
}

/// Each of these files would run code when loaded in Python.
#[test]
fn a_pickle_that_would_run_code_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.pth");
    let call = [b"cposix\nsystem\n(".as_slice(), &text("echo owned"), b"tR"].concat();
    let refused = |bytes: Vec<u8>| {
        fs::write(&path, bytes).unwrap();
        published::import(&path, &ImportOptions::default(), &Device::flex()).unwrap_err().to_string()
    };
    let root = [b"\x80\x02".as_slice(), &call, b"."].concat();
    let value = [b"\x80\x02}(".as_slice(), &text("model"), b"}(", &text("visual.cls_token"), &call, b"uu."].concat();
    let nested = [b"\x80\x02}(".as_slice(), &text("scheduler"), b"](", &call, b"eu."].concat();
    let new_object =
        [b"\x80\x02}(".as_slice(), &text("model"), b"csubprocess\nPopen\n(", &text("echo owned"), b"t\x81u."].concat();
    let state = [b"\x80\x02}(".as_slice(), &text("model"), b"cbuiltins\neval\n)R}bu."].concat();
    for (bytes, object, place) in [
        (root, "posix.system", "``"),
        (value.clone(), "posix.system", "`model.visual.cls_token`"),
        (nested, "posix.system", "`scheduler.0`"),
        (new_object, "subprocess.Popen", "`model`"),
        (state, "builtins.eval", "`model`"),
        (legacy_file(&value, &[]), "posix.system", "`model.visual.cls_token`"),
    ] {
        let message = refused(bytes);
        assert!(
            message.contains(&format!("the Python object `{object}` at {place}"))
                && message.contains("nothing was run"),
            "{message}"
        );
    }
}

#[test]
fn files_that_are_not_checkpoints_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pth");
    let message = |bytes: &[u8], options: &ImportOptions| {
        fs::write(&path, bytes).unwrap();
        published::import(&path, options, &Device::flex()).unwrap_err().to_string()
    };
    let default = ImportOptions::default();
    assert!(message(b"", &default).contains("x.pth: not readable as a PyTorch checkpoint"));
    assert!(message(b"hello, world", &default).contains("not readable as a PyTorch checkpoint"));
    let other = legacy_file(
        &[b"\x80\x02}(".as_slice(), &text("fc.weight"), &tensor("0", &[2]), b"u."].concat(),
        &[("0", &[1.0, 2.0])],
    );
    let found = message(&other, &default);
    assert!(found.contains("has no known layout; expected tensors named `visual.pos_embed...`"), "{found}");
    fs::remove_file(&path).unwrap();
    let missing = published::import(&path, &default, &Device::flex()).unwrap_err().to_string();
    assert!(missing.contains("x.pth"), "{missing}");

    let Some(pth) = golden("meru_nano.pth") else { return };
    let whole = fs::read(pth).unwrap();
    for kept in [whole.len() / 2, whole.len() - 30, 40] {
        let found = message(&whole[..kept], &options("meru"));
        assert!(found.contains("not readable as a PyTorch checkpoint"), "{kept}: {found}");
    }
    let mut damaged = whole.clone();
    for byte in &mut damaged[400_000..400_016] {
        *byte ^= 0xff;
    }
    let found = message(&damaged, &options("meru"));
    assert!(found.contains("tensor"), "a checksum fails: {found}");
    let found = message(&whole, &default);
    assert!(found.contains("`visual_heads` is not given for width 48"), "{found}");
}
