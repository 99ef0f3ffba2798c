#![allow(clippy::unwrap_used)]
use std::fs;
use std::io::Write;

use super::*;

/// Builds a tar by hand, so that the reader is tested independently of the writer: ustar headers of 512 bytes
/// (POSIX.1-1988), contents padded to 512.
fn raw_tar(members: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, kind, content) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[108..124].copy_from_slice(b"0000000\x000000000\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[156] = *kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(header);
        out.extend(*content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out
}

fn finished(mut tar: Vec<u8>) -> Vec<u8> {
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn shard(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000.tar");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Two samples. A folder comes before them, a WebDataset record is within the first one, and a hidden file follows it.
fn two_samples() -> Vec<u8> {
    raw_tar(&[
        ("x/", b'5', b""),
        ("x/1.jpg", b'0', &[7; 1000]),
        ("__meta__.txt", b'0', b"skip"),
        ("x/1.txt", b'0', "grün".as_bytes()),
        ("x/.cache", b'0', b"skip"),
        ("x/2.jpg", b'0', &[8; 512]),
        ("x/2.txt", b'0', b"two"),
    ])
}

#[test]
fn samples_are_read_in_any_order() {
    let (_folder, path) = shard(&finished(two_samples()));
    let shards = Shards::open(&path).unwrap();
    assert_eq!((shards.len(), shards.torn().len()), (2, 0));
    for (index, key, text) in [(1, "x/2", "two"), (0, "x/1", "grün")] {
        let record = shards.record(index).unwrap();
        assert_eq!(record.key, key);
        assert_eq!(record.extensions().collect::<Vec<_>>(), ["jpg", "txt"]);
        assert_eq!(record.need_text("txt").unwrap(), text);
    }
    let image = shards.record(1).unwrap().image("").unwrap();
    assert_eq!(&*image.bytes(1 << 20).unwrap().unwrap(), &[8; 512]);
    assert!(image.place().ends_with("00000.tar/x/2.jpg"));
}

#[test]
fn missing_members() {
    let (_folder, path) = shard(&finished(two_samples()));
    let record = Shards::open(&path).unwrap().record(0).unwrap();
    assert_eq!(record.text("json").unwrap(), None);
    let broken = record.need_text("json").unwrap_err();
    assert_eq!((broken.cause, broken.sample.as_str()), (Cause::BadRecord, "x/1"));
    assert!(broken.detail.starts_with("members are `.jpg`, `.txt`; expected `.json` (in `"), "{broken}");
    assert!(record.need_image("child.").is_err());
}

#[test]
fn invalid_text_members() {
    let (_folder, path) = shard(&finished(raw_tar(&[("1.txt", b'0', b"ab\xff")])));
    let record = Shards::open(&path).unwrap().record(0).unwrap();
    let broken = record.need_text("txt").unwrap_err();
    assert_eq!(broken.cause, Cause::BadRecord);
    assert!(broken.detail.contains("is not UTF-8"), "{broken}");
}

/// Names of 150 characters in GNU format (a member of type `L` with the name as content) and in PAX format (a member
/// of type `x` with `len path=name\n`).
#[test]
fn long_names() {
    let long = format!("{}.jpg", "k".repeat(150));
    let pax = format!("{} path={long}\n", 10 + long.len());
    assert_eq!(pax.len(), 10 + long.len());
    for (kind, content) in [(b'L', format!("{long}\0")), (b'x', pax)] {
        let tar = raw_tar(&[
            ("0.txt", b'0', b"zero"),
            ("././@LongLink", kind, content.as_bytes()),
            (&long[..99], b'0', b"photo"),
            ("1.txt", b'0', b"one"),
        ]);
        let (_folder, path) = shard(&finished(tar));
        let shards = Shards::open(&path).unwrap();
        assert_eq!(shards.len(), 3);
        assert_eq!(shards.record(1).unwrap().key, "k".repeat(150));
        assert_eq!(shards.record(2).unwrap().need_text("txt").unwrap(), "one");
    }
}

/// Truncates the shard around every border and at regular steps. Nothing panics, every complete sample before the cut
/// is readable, and damage is reported if and only if a member is cut.
#[test]
fn truncation_at_any_byte() {
    let whole = two_samples();
    // Sample 1 ends after: folder 512, photo 512 + 1024, record 1024, text 1024 bytes. The hidden file has 1024 more
    // bytes.
    let after_first = 512 + 1536 + 1024 + 1024;
    let borders: [usize; 8] = [0, 512, 2048, 3072, 4096, 5120, 6144, 7168];
    assert_eq!(whole.len(), 7168);
    let around = borders.iter().flat_map(|&b| [b.saturating_sub(1), b, b + 1]);
    for keep in around.chain((0..whole.len()).step_by(97)).filter(|&k| k < whole.len()) {
        let (_folder, path) = shard(&whole[..keep]);
        // A cut within the padding after a member counts as a cut at the border.
        let at_border =
            |b: &usize| keep == *b || (keep < *b && whole[keep..*b].iter().all(|&x| x == 0) && *b - keep < 512);
        match Shards::open(&path) {
            Err(error) => {
                assert!(keep < after_first, "{keep}: {error}");
                assert!(error.to_string().starts_with("data: shards `"));
            }
            Ok(shards) => {
                let torn = shards.torn().len();
                assert_eq!(torn == 0, borders.iter().any(at_border), "{keep}");
                let samples = shards.len() - torn;
                for index in 0..samples {
                    shards.record(index).unwrap();
                }
                if keep >= after_first {
                    assert_eq!(shards.record(0).unwrap().need_text("txt").unwrap(), "grün");
                }
                if torn == 1 {
                    let broken = shards.record(samples).unwrap_err();
                    assert_eq!(broken.cause, Cause::TornShard);
                }
            }
        }
    }
}

#[test]
fn truncation_message() {
    // The photo of sample 2 begins at 5120 + 512.
    let (_folder, path) = shard(&two_samples()[..5120 + 512 + 100]);
    let shards = Shards::open(&path).unwrap();
    assert_eq!(shards.len(), 2);
    let broken = shards.record(1).unwrap_err();
    assert_eq!(
        broken.to_string(),
        format!(
            "sample `{0}`: torn_shard: `{0}` is damaged after 1 complete samples: member `x/2.jpg` has 100 of its 512 bytes; expected all of them",
            path.display()
        )
    );
}

#[test]
fn corrupt_bytes_in_the_middle() {
    let mut tar = two_samples();
    tar.splice(5120..5632, [b'?'; 512]);
    let (_folder, path) = shard(&finished(tar));
    let shards = Shards::open(&path).unwrap();
    assert_eq!((shards.len(), shards.torn()[0].samples), (2, 1));
    assert!(shards.torn()[0].detail.ends_with("at byte 5120; expected a tar header"), "{}", shards.torn()[0]);
}

#[test]
fn other_formats_and_empty_shards() {
    let (_folder, path) = shard(&[b'x'; 2000]);
    let error = Shards::open(&path).err().unwrap().to_string();
    assert!(error.ends_with("; expected a tar file"), "{error}");
    let (_folder, path) = shard(&[0; 1024]);
    let error = Shards::open(&path).err().unwrap().to_string();
    assert!(error.ends_with("holds no sample; expected members with a name and an extension"), "{error}");
}

#[test]
fn shard_deleted_or_truncated_after_opening() {
    let (_folder, path) = shard(&finished(two_samples()));
    let shards = Shards::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(600).unwrap();
    assert_eq!(shards.record(1).unwrap_err().cause, Cause::TornShard);
    fs::remove_file(&path).unwrap();
    assert_eq!(shards.record(1).unwrap_err().cause, Cause::MissingFile);
}

#[test]
fn fingerprints_depend_on_names_and_texts_only() {
    let hash = |tar: Vec<u8>| {
        let (_folder, path) = shard(&finished(tar));
        Shards::open(&path).unwrap().fingerprint().to_owned()
    };
    let base = hash(raw_tar(&[("1.jpg", b'0', b"photo"), ("1.txt", b'0', b"dog")]));
    assert_eq!(base.len(), 64);
    assert_eq!(base, hash(raw_tar(&[("1.jpg", b'0', b"photo"), ("1.txt", b'0', b"dog")])));
    assert_ne!(base, hash(raw_tar(&[("1.jpg", b'0', b"photo"), ("1.txt", b'0', b"cat")])));
    assert_ne!(base, hash(raw_tar(&[("1.jpg", b'0', b"photos"), ("1.txt", b'0', b"dog")])));
}

#[test]
fn written_shards_rotate_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let size = ShardSize { samples: 2, bytes: 1000 };
    let mut writer = ShardWriter::new(folder.path(), size).unwrap();
    let long = "k".repeat(300);
    let contents = [600, 10, 10, 1000, 1];
    for (i, len) in contents.into_iter().enumerate() {
        let key = if i == 2 { long.clone() } else { format!("{i:03}") };
        writer.write(&key, &[("jpg", &vec![i as u8; len]), ("txt", b"t")]).unwrap();
    }
    // Shards: {0, 1} and {2, 3} closed by count, then {4}.
    let files = writer.finish().unwrap();
    let names: Vec<_> = files.iter().map(|f| f.file_name().unwrap()).collect();
    assert_eq!(names, ["00000.tar", "00001.tar", "00002.tar"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    let shards = Shards::open(folder.path()).unwrap();
    assert_eq!((shards.len(), shards.torn().len()), (5, 0));
    assert_eq!(shards.record(2).unwrap().key, long);
    for (i, len) in contents.into_iter().enumerate() {
        let image = shards.record(i).unwrap().need_image("").unwrap();
        assert_eq!(*image.bytes(1 << 20).unwrap().unwrap(), vec![i as u8; len]);
    }
}

#[test]
fn large_sample_closes_its_shard() {
    let folder = tempfile::tempdir().unwrap();
    let size = ShardSize { samples: 100, bytes: 10 };
    let mut writer = ShardWriter::new(folder.path(), size).unwrap();
    for key in ["a", "b"] {
        writer.write(key, &[("txt", b"0123456789")]).unwrap();
    }
    assert_eq!(writer.finish().unwrap().len(), 2);
}

#[test]
fn existing_shards_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("00007.tar"), "old").unwrap();
    let error = ShardWriter::new(folder.path(), ShardSize::default()).err().unwrap().to_string();
    let found = format!("`{}` with 1 shards", folder.path().display());
    assert_eq!(error, format!("data: `folder` is {found}; expected a folder without `*.tar` files"));
}

#[test]
fn names_that_cannot_be_read_back_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path(), ShardSize::default()).unwrap();
    for key in ["", "a.b", "__x", "a/", "/a"] {
        assert!(writer.write(key, &[("txt", b"")]).is_err(), "{key}");
    }
    let error = writer.write("a", &[("TXT", b"")]).unwrap_err().to_string();
    assert_eq!(error, "data: `member of a shard` is `TXT`; expected an extension of a-z, 0-9, `.` and `_`");
    assert_eq!(writer.finish().unwrap(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// An interrupted writer leaves complete shards only.
#[test]
fn dropped_writer_leaves_complete_shards_only() {
    let folder = tempfile::tempdir().unwrap();
    let size = ShardSize { samples: 2, ..ShardSize::default() };
    let mut writer = ShardWriter::new(folder.path(), size).unwrap();
    for key in ["a", "b", "c"] {
        writer.write(key, &[("txt", b"t")]).unwrap();
    }
    drop(writer);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["00000.tar"]);
}

/// Bytes appended by another program behind the end-of-archive marker are not read.
#[test]
fn bytes_after_the_end_marker_are_ignored() {
    let (_folder, path) = shard(&finished(two_samples()));
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[b'?'; 700]).unwrap();
    let shards = Shards::open(&path).unwrap();
    assert_eq!((shards.len(), shards.torn().len()), (2, 0));
}

/// A PAX record: its length in decimal digits (including the digits), a space, key, `=`, value, line break.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
    format!("{}{rest}", rest.len() + digits).into_bytes()
}

/// The headers that `tar --format=posix` writes for long and non-ASCII names, after a global header as `git archive`
/// writes it.
#[test]
fn posix_headers_give_member_names() {
    let long = format!("{}/1", "folder".repeat(40));
    let names = ["jpg", "txt"].map(|extension| pax_record("path", &format!("{long}.{extension}")));
    let other = [pax_record("mtime", "1700000000.123456789"), pax_record("path", "grün.jpg")].concat();
    let tar = finished(raw_tar(&[
        ("pax_global_header", b'g', &pax_record("comment", "0123456789abcdef")),
        ("PaxHeaders/1.jpg", b'x', &names[0]),
        ("folder/1.jpg", b'0', &[7; 700]),
        ("PaxHeaders/1.txt", b'x', &names[1]),
        ("folder/1.txt", b'0', b"one"),
        ("PaxHeaders/2.jpg", b'x', &other),
        ("gr_n.jpg", b'0', &[8; 512]),
    ]));
    let (_folder, path) = shard(&tar);
    let shards = Shards::open(&path).unwrap();
    assert_eq!((shards.len(), shards.torn().len()), (2, 0));
    let one = shards.record(0).unwrap();
    assert_eq!((one.key.as_str(), one.text("txt").unwrap().as_deref()), (long.as_str(), Some("one")));
    assert_eq!(one.need_image("").unwrap().bytes(1 << 20).unwrap().unwrap()[..], [7; 700]);
    let two = shards.record(1).unwrap();
    assert_eq!(two.key, "grün");
    assert_eq!(two.need_image("").unwrap().bytes(1 << 20).unwrap().unwrap()[..], [8; 512]);
}

/// Sparse files store only parts of their content, so the stored bytes must not be used as they are.
#[test]
fn sparse_members_are_rejected() {
    let records = [pax_record("GNU.sparse.major", "1"), pax_record("GNU.sparse.name", "x/3.jpg")].concat();
    let posix = raw_tar(&[("PaxHeaders/3", b'x', &records), ("GNUSparseFile.0/3.jpg", b'0', &[0; 512])]);
    // The old format: the real size is at byte 483 of the header, the list of parts at byte 386.
    let mut old = raw_tar(&[("x/3.jpg", b'S', &[9; 512])]);
    old[257..265].copy_from_slice(b"ustar  \0");
    old[386..410].copy_from_slice(b"00000004000\x0000000001000\0");
    old[483..495].copy_from_slice(b"00000005000\0");
    old[148..156].fill(b' ');
    let sum: u32 = old[..512].iter().map(|&b| u32::from(b)).sum();
    old[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    for (sparse, name) in [(posix, "GNUSparseFile.0/3.jpg"), (old, "x/3.jpg")] {
        let begin = two_samples().len();
        let (_folder, path) = shard(&finished([two_samples(), sparse].concat()));
        let shards = Shards::open(&path).unwrap();
        // Samples before the sparse member are used; the rest counts as one broken sample.
        assert_eq!((shards.len(), shards.torn().len()), (3, 1));
        let expected = format!(
            "member `{name}` at byte {begin} is a sparse file of GNU tar; expected whole files (pack the shard again without --sparse)"
        );
        assert_eq!(shards.torn()[0].detail, expected);
        assert_eq!(shards.record(2).unwrap_err().cause, Cause::TornShard);
    }
}
