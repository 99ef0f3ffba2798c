//! Tests of files that describe far more data than they hold, of interrupted replacements, and of file modes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use conifer_geometry::ManifoldSpec;

use super::pickle_tests::{legacy_file, text};
use super::published::{self, ImportOptions};
use super::run_folder::{CHECKPOINTS, checkpoint_path, latest_checkpoint};
use super::tests::small;
use super::*;
use crate::encoders::VisualConfig;
use crate::head::{Head, HeadConfig};

/// The pickle of an f32 tensor with the given shape and strides on the storage `key`, which has `count` elements.
fn tensor(key: &str, count: u32, shape: &[u32], strides: &[u32]) -> Vec<u8> {
    let integer = |value: &u32| [b"J".as_slice(), &value.to_le_bytes()].concat();
    let tuple = |values: &[u32]| [b"(".to_vec(), values.iter().flat_map(integer).collect(), b"t".to_vec()].concat();
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text(key),
        text("cpu"),
        integer(&count),
        b"NtQK\x00".to_vec(),
        tuple(shape),
        tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtR".to_vec(),
    ]
    .concat()
}

/// Writes a file of these tensors. Returns the error of its import, which must take less than 20 seconds, and the file
/// size.
fn message(tensors: &[(String, Vec<u8>)], storage: &[f32]) -> (String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pth");
    let entries: Vec<u8> = tensors.iter().flat_map(|(name, tensor)| [text(name), tensor.clone()].concat()).collect();
    let file = legacy_file(&[b"\x80\x02}(".as_slice(), &entries, b"u."].concat(), &[("0", storage)]);
    fs::write(&path, &file).unwrap();
    let started = Instant::now();
    let message = published::import(&path, &ImportOptions::default(), &Device::flex()).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(20), "{message}");
    (message, file.len())
}

#[test]
fn views_larger_than_their_file_are_rejected() {
    // This view has 1.2e9 elements, and its storage has one.
    let expanded = tensor("0", 1, &[30_000, 40_000], &[0, 0]);
    let (message, bytes) = message(&[("visual.pos_embed".to_owned(), expanded)], &[1.0]);
    assert!(bytes < 700, "{bytes}");
    let expected = format!("is [30000, 40000], 4800000000 bytes; expected at most the {bytes} of the file");
    assert!(message.contains("x.pth: `visual.pos_embed`") && message.contains(&expected), "{message}");
}

#[test]
fn storages_referenced_thousands_of_times_are_rejected() {
    let storage = vec![1.0; 4000];
    let named = |times: usize| -> Vec<_> {
        (0..times).map(|i| (format!("visual.blocks.{i}"), tensor("0", 4000, &[4000], &[1]))).collect()
    };
    let (refused, bytes) = message(&named(3000), &storage);
    let expected = format!("its tensors take 48000000 bytes; expected at most twice the {bytes} of the file");
    assert!(refused.contains(&expected), "{refused}");
    // Two modules may share a table.
    let (shared, _) = message(&named(2), &storage);
    assert!(!shared.contains("of the file"), "{shared}");
}

/// The archive has one entry, compressed or stored, that claims 90 MB.
#[test]
fn compressed_pickles_are_checked_before_unpacking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pth");
    for (method, refused) in [(8_u16, true), (0, false)] {
        let name = b"x/data.pkl";
        let sizes = [8_u32.to_le_bytes().as_slice(), &90_000_000_u32.to_le_bytes()].concat();
        let shared =
            [[20_u8, 0, 0, 0].as_slice(), &method.to_le_bytes(), &[0; 8], &sizes, &[name.len() as u8, 0, 0, 0]]
                .concat();
        let local = [b"PK\x03\x04".as_slice(), &shared, name, &[0; 8]].concat();
        let entry = [b"PK\x01\x02\x14\0".as_slice(), &shared, &[0; 14], name].concat();
        let numbers = [
            [0_u8, 0, 0, 0, 1, 0, 1, 0].as_slice(),
            &(entry.len() as u32).to_le_bytes(),
            &(local.len() as u32).to_le_bytes(),
        ];
        let file = [local.as_slice(), &entry, b"PK\x05\x06", &numbers.concat(), &[0, 0]].concat();
        fs::write(&path, &file).unwrap();
        let message = published::import(&path, &ImportOptions::default(), &Device::flex()).unwrap_err().to_string();
        let expected = format!("take 90000000 bytes; expected at most twice the {} of the file", file.len());
        assert_eq!(message.contains(&expected), refused, "{message}");
        assert!(message.contains("x.pth"), "{message}");
    }
}

#[test]
fn huge_dimensions_are_rejected_before_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = manifest.clone();
        change(&mut manifest);
        save(&path, &model, &manifest, None).unwrap();
        // `save` writes the space of the model, so change the saved file instead.
        let file = path.join(MANIFEST);
        let text = fs::read_to_string(&file).unwrap();
        let mut table: toml::Table = toml::from_str(&text).unwrap();
        table.insert("manifold".to_owned(), toml::Value::try_from(&manifest.manifold).unwrap());
        fs::write(&file, toml::to_string(&table).unwrap()).unwrap();
        load(&path, &Device::flex()).unwrap_err().to_string()
    };
    for dim in [1 << 17, 1 << 31, 1 << 62] {
        let message = refused(&|it| it.manifold.dim = dim);
        assert!(
            message.contains("manifest.toml") && message.contains(&format!("`dim` is {dim}; expected 1 to 65536")),
            "{message}"
        );
        let message = refused(&|it| (it.manifold.kind, it.manifold.factors) = ("product_l1".into(), dim));
        assert!(message.contains(&format!("`factors` is {dim}; expected a divisor of `dim` = 8")), "{message}");
        let spec = ManifoldSpec { dim, ..ManifoldSpec::lorentz(8, 1.0) };
        let message = Head::new(&spec, &HeadConfig::default(), &Device::flex()).unwrap_err().to_string();
        assert!(message.contains(&format!("`dim` is {dim}")), "{message}");
    }
    // This dimension is within the allowed range, but describes a model far larger than the weights.
    let message = refused(&|it| it.manifold.dim = 65_536);
    assert!(message.contains("model") && message.contains("expected at most") || message.contains("is ["), "{message}");
    // The total size of this encoder is not visible in any single setting.
    let resnet = VisualConfig::preset("resnet_nano").unwrap().with("bottleneck", 1 << 20).unwrap();
    let message = refused(&|it| it.model.visual = resnet.clone());
    assert!(message.contains("manifest.toml: `model` is an architecture of at least"), "{message}");
    for (key, value) in [("depth", 1025), ("image_size", 1 << 20)] {
        let message = refused(&|it| it.model.visual = it.model.visual.with(key, value).unwrap());
        assert!(message.contains("manifest.toml"), "{message}");
    }
    let message = refused(&|it| it.root = Some(vec![1e39; 8]));
    assert!(message.contains("root: `sqrt(c) |x|`") && message.contains("at most 1e9"), "{message}");
}

#[cfg(unix)]
#[test]
fn modes_follow_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // A new file has the mode that follows from the umask of this process.
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let path = folder.path().join("model");
    save(&path, &model, &manifest, None).unwrap();
    let exported = folder.path().join("model.safetensors");
    published::export(&model, &exported, Precision::F32).unwrap();
    for file in [path.join(WEIGHTS), path.join(MANIFEST), exported] {
        assert_eq!(mode(&file), mode(&plain), "{}", file.display());
    }
}

#[test]
fn interrupted_replacements_are_read_from_the_previous_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    for aside in [".model.previous", ".model.old"] {
        let (path, aside) = (folder.path().join("model"), folder.path().join(aside));
        save(&path, &model, &manifest, None).unwrap();
        fs::rename(&path, &aside).unwrap();
        assert_eq!(export(&load(&path, &Device::flex()).unwrap().0), export(&model));
        assert_eq!(open(&path, &ImportOptions::default(), &Device::flex()).unwrap().path, aside);
        assert_eq!(latest_checkpoint(&path).unwrap(), aside);
        save(&path, &model, &manifest, None).unwrap();
        assert_eq!(latest_checkpoint(&path).unwrap(), path);
        drop(fs::remove_dir_all(&aside));
        fs::remove_dir_all(&path).unwrap();
    }
    // The newest checkpoint of a run must be found, too.
    let run = folder.path().join("run");
    let step = checkpoint_path(&run, 7);
    save(&step, &model, &manifest, None).unwrap();
    for name in ["optimizer.safetensors", "state.json", "config.toml"] {
        fs::write(step.join(name), "").unwrap();
    }
    assert_eq!(latest_checkpoint(&run).unwrap(), step);
    let aside = run.join(CHECKPOINTS).join(".step_00000007.previous");
    fs::rename(&step, &aside).unwrap();
    assert_eq!(latest_checkpoint(&run).unwrap(), aside);
    fs::write(run.join(CHECKPOINTS).join("latest"), "step_00000007").unwrap();
    assert_eq!(latest_checkpoint(&run).unwrap(), aside);
}
