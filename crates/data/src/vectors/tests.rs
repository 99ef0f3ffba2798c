#![allow(clippy::unwrap_used)]
use std::io::Write as _;

use super::*;
use crate::fixtures::{FixtureFolder, npy};

fn header(descr: &str, fortran: bool, shape: &str) -> String {
    let order = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")
}

/// A `.npy` file of version 1.0.
fn file(header: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(content);
    bytes
}

fn refusal(folder: &FixtureFolder, name: &str, content: impl AsRef<[u8]>) -> String {
    VectorMatrix::read(&folder.write(name, content), None).unwrap_err().to_string()
}

#[test]
fn every_float_type_of_npy_is_read() {
    let folder = FixtureFolder::new();
    let expected = VectorMatrix::new(3, vec![1.0, -2.0, 0.5, 4.0, 0.25, -0.125]).unwrap();
    let numbers = [1.0, -2.0, 0.5, 4.0, 0.25, -0.125];
    let half: Vec<u8> = numbers.iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect();
    let single: Vec<u8> = numbers.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
    let double: Vec<u8> = numbers.iter().flat_map(|&x: &f64| x.to_le_bytes()).collect();
    for (descr, content) in [("<f2", half), ("<f4", single.clone()), ("<f8", double)] {
        let path = folder.write("a.npy", file(&header(descr, false, "(2, 3)"), &content));
        assert_eq!(VectorMatrix::read(&path, None).unwrap(), expected, "{descr}");
    }
    // Version 2.0 has four bytes of header length.
    let head = header("<f4", false, "(2, 3)");
    let mut second = b"\x93NUMPY\x02\x00".to_vec();
    second.extend((head.len() as u32).to_le_bytes());
    second.extend(head.as_bytes());
    second.extend(&single);
    let path = folder.write("b.npy", second);
    let found = VectorMatrix::read(&path, None).unwrap();
    assert_eq!((found.len(), found.width(), found.row(1)), (2, 3, Some(&[4.0, 0.25, -0.125][..])));
    assert_eq!(found.row(2), None);
    assert_eq!(folder.write("c.npy", npy(3, &single_row(&expected))).metadata().unwrap().len() % 64, 24);
    assert_eq!(VectorMatrix::read(&folder.path().join("c.npy"), None).unwrap(), expected);
}

fn single_row(matrix: &VectorMatrix) -> Vec<f32> {
    matrix.rows().flatten().copied().collect()
}

#[test]
fn one_vector_has_one_dimension_or_one_row() {
    let folder = FixtureFolder::new();
    let content: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    for shape in ["(2,)", "(1, 2)"] {
        let path = folder.write("a.npy", file(&header("<f4", false, shape), &content));
        assert_eq!(VectorMatrix::read_one(&path).unwrap(), [1.0, 2.0], "{shape}");
    }
    let path = folder.write("b.npy", file(&header("<f4", false, "(2, 1)"), &content));
    let message = VectorMatrix::read_one(&path).unwrap_err().to_string();
    assert!(message.contains("an array of shape [2, 1]; expected one vector"), "{message}");
}

#[test]
fn damaged_and_unsuitable_arrays_are_refused_by_name() {
    let folder = FixtureFolder::new();
    let numbers = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let content = numbers(&[1.0, 2.0, 3.0, 4.0]);
    let of = |descr: &str, fortran, shape: &str, content: &[u8]| file(&header(descr, fortran, shape), content);
    for (bytes, words) in [
        (of("<f4", true, "(2, 2)", &content), "an array in Fortran order; expected an array in C order"),
        (of(">f4", false, "(2, 2)", &content), "numbers of type `>f4`; expected little-endian floats"),
        (of("<i8", false, "(2, 1)", &content), "numbers of type `<i8`"),
        (of("<f4", false, "(4,)", &content), "an array of shape [4]; expected two dimensions"),
        (of("<f4", false, "(0, 4)", &content), "an array of shape [0, 4]; expected at least one row"),
        (of("<f4", false, "(2, 2)", &content[..15]), "the file ends within the array; expected 16 bytes"),
        (of("<f4", false, "(2, 1)", &content), "more bytes after the array; expected 8 bytes"),
        (of("<f4", false, "(4000000000, 60000)", &content), "the file ends within the array"),
        (of("<f4", false, "(2, x)", &content), "side `x`"),
        (of("<f4", false, "(2, 2)", &numbers(&[1.0, 2.0, 3.0, f32::NAN])), "row 1, column 1 is NaN; expected finite"),
        (of("<f8", false, "(1, 1)", &1e300_f64.to_le_bytes()), "row 0, column 0 is inf"),
        (file("{'fortran_order': False, 'shape': (2, 2)}", &content), "has no `descr`"),
        (b"\x93NUMPY\x03\x00".to_vec(), "version 3.0 of .npy; expected version 1.0 or 2.0"),
        (b"PK\x03\x04zip file".to_vec(), "no .npy header"),
        (b"\x93NUMPY\x01\x00\xff".to_vec(), "failed to fill whole buffer"),
    ] {
        let message = refusal(&folder, "a.npy", bytes);
        assert!(message.contains(words) && message.contains("a.npy`"), "{words}: {message}");
    }
    assert!(refusal(&folder, "a.pt", "x").contains("a file of type `pt`; expected vectors in a .npy"));
    let named = VectorMatrix::read(&folder.write("b.npy", npy(2, &[1.0, 2.0])), Some("x")).unwrap_err().to_string();
    assert!(named.contains("array `x` was selected"), "{named}");
    assert!(VectorMatrix::new(2, vec![1.0]).is_none() && VectorMatrix::new(1, vec![f32::NAN]).is_none());
}

/// A ZIP archive of members (name, content, deflated).
fn zip(members: &[(&str, Vec<u8>, bool)]) -> Vec<u8> {
    let (mut bytes, mut list) = (Vec::new(), Vec::new());
    for (name, content, deflated) in members {
        let stored = match deflated {
            true => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            false => content.clone(),
        };
        let offset = bytes.len() as u32;
        let method = if *deflated { 8_u16 } else { 0 };
        // Version, flags, method, time, date, checksum, sizes, length of the name.
        let mut common = Vec::new();
        common.extend([20_u16, 0, method, 0, 0].into_iter().flat_map(u16::to_le_bytes));
        common.extend([0_u32, stored.len() as u32, content.len() as u32].into_iter().flat_map(u32::to_le_bytes));
        common.extend((name.len() as u16).to_le_bytes());
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(0_u16.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(&stored);
        list.extend(b"PK\x01\x02");
        list.extend(20_u16.to_le_bytes());
        list.extend(&common);
        list.extend([0_u16; 4].into_iter().flat_map(u16::to_le_bytes));
        list.extend([0, offset].into_iter().flat_map(u32::to_le_bytes));
        list.extend(name.as_bytes());
    }
    let (offset, count) = (bytes.len() as u32, members.len() as u16);
    bytes.extend(&list);
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0, 0, count, count].into_iter().flat_map(u16::to_le_bytes));
    bytes.extend([list.len() as u32, offset].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(0_u16.to_le_bytes());
    bytes
}

#[test]
fn arrays_of_an_archive_are_read_by_name() {
    let folder = FixtureFolder::new();
    let members = [("images.npy", npy(2, &[1.0, 2.0]), false), ("texts.npy", npy(1, &[3.0, 4.0]), true)];
    let path = folder.write("both.npz", zip(&members));
    assert_eq!(VectorMatrix::read(&path, Some("images")).unwrap().row(0), Some(&[1.0, 2.0][..]));
    assert_eq!(VectorMatrix::read(&path, Some("texts")).unwrap().len(), 2);
    let message = |name| VectorMatrix::read(&path, name).unwrap_err().to_string();
    assert!(message(None).contains("2 arrays, none selected; expected the name of one of: images, texts"));
    assert!(message(Some("boxes")).contains("no array `boxes`"));
    let one = folder.write("one.npz", zip(&members[1..]));
    assert_eq!(VectorMatrix::read(&one, None).unwrap().width(), 1);
    let mut torn = zip(&members);
    torn.truncate(torn.len() - 30);
    assert!(refusal(&folder, "torn.npz", torn).contains("no end of a ZIP archive"));
    assert!(refusal(&folder, "empty.npz", "").contains("no end of a ZIP archive"));
}

#[test]
fn tensors_are_read_by_name() {
    let folder = FixtureFolder::new();
    let head = |dtype: &str, end: usize| {
        let head = format!("{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":[2,1],\"data_offsets\":[0,{end}]}}}}");
        [(head.len() as u64).to_le_bytes().to_vec(), head.into_bytes()].concat()
    };
    let singles = [1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let path = folder.write("a.safetensors", [head("F32", 8), singles.clone()].concat());
    for name in [None, Some("a")] {
        assert_eq!(VectorMatrix::read(&path, name).unwrap().row(1), Some(&[2.0][..]));
    }
    assert!(VectorMatrix::read(&path, Some("b")).unwrap_err().to_string().contains("no tensor `b`; expected the name"));
    let rounded = [bf16::from_f32(1.0), bf16::from_f32(2.0)].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let path = folder.write("b.safetensors", [head("BF16", 4), rounded].concat());
    assert_eq!(VectorMatrix::read(&path, None).unwrap().row(1), Some(&[2.0][..]));
    let integers = [head("I32", 8), singles.clone()].concat();
    assert!(
        refusal(&folder, "c.safetensors", integers).contains("numbers of type I32; expected F16, BF16, F32 or F64")
    );
    let torn = [head("F32", 8), singles[..5].to_vec()].concat();
    assert!(refusal(&folder, "d.safetensors", torn).contains("d.safetensors`"));
}

#[test]
fn a_text_has_one_vector() {
    let names = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    let matrix = VectorMatrix::new(2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.001]).unwrap();
    let texts = TextVectors::new(matrix.clone(), &names(&["a dog", "a cat", "a dog"])).unwrap();
    assert_eq!((texts.width(), texts.len(), texts.get("a cat")), (2, 3, Some(&[0.0, 1.0][..])));
    assert_eq!((texts.id("a dog"), texts.id("a bird"), texts.vector(0)), (Some(1), None, None));
    assert_eq!(texts.vector(3), Some(vec![1.0, 0.001].into()), "rounding differs, the text is the same");
    let other = TextVectors::new(matrix.clone(), &names(&["a dog", "a cat", "an owl"])).unwrap();
    assert_ne!(texts.fingerprint(), other.fingerprint());
    let message = TextVectors::new(matrix.clone(), &names(&["a", "a", "b"])).unwrap_err().to_string();
    assert!(message.contains("text \"a\" has different vectors in rows 0 and 1"), "{message}");
    let message = TextVectors::new(matrix, &names(&["a"])).unwrap_err().to_string();
    assert!(message.contains("1 texts; expected 3, the number of vectors"), "{message}");
    assert!(TextVectors::default().is_empty());
}
