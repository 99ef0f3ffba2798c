//! Tests of the MAT-file reader with files written here, and of the two sets that use it.

use super::super::mat::{self, MatValue};
use super::*;

const INT8: u32 = 1;
const UINT8: u32 = 2;
const UINT16: u32 = 4;
const INT32: u32 = 5;
const UINT32: u32 = 6;
const DOUBLE: u32 = 9;
const MATRIX: u32 = 14;

/// Encodes an element: type, length, data, padding to 8 bytes. Up to 4 bytes of data are stored in the 8 bytes of the
/// tag.
fn element(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = match data.len() {
        len @ 1..=4 => (kind | (len as u32) << 16).to_le_bytes().to_vec(),
        len => [kind.to_le_bytes(), (len as u32).to_le_bytes()].concat(),
    };
    out.extend(data);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Encodes an array of the MATLAB class number `class`. `content` follows the name of the array.
fn array(class: u32, count: u32, name: &str, content: &[u8]) -> Vec<u8> {
    let flags = element(UINT32, &[class.to_le_bytes(), [0; 4]].concat());
    let dims = element(INT32, &[1_u32.to_le_bytes(), count.to_le_bytes()].concat());
    element(MATRIX, &[&flags, &dims, &element(INT8, name.as_bytes()), content].concat())
}

fn doubles(name: &str, values: &[f64]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    array(6, values.len() as u32, name, &element(DOUBLE, &data))
}

/// Encodes an array of class double in the smallest sufficient type, as MATLAB does.
fn small(name: &str, values: &[u8]) -> Vec<u8> {
    array(6, values.len() as u32, name, &element(UINT8, values))
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let data: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
    array(4, value.len() as u32, name, &element(UINT16, &data))
}

fn structs(name: &str, fields: &[&str], rows: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut names = Vec::new();
    for field in fields {
        names.extend(field.as_bytes());
        names.resize(names.len().next_multiple_of(32), 0);
    }
    let content = [element(INT32, &32_u32.to_le_bytes()), element(INT8, &names), rows.concat().concat()];
    array(2, rows.len() as u32, name, &content.concat())
}

fn file(arrays: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"MATLAB 5.0 MAT-file".to_vec();
    bytes.resize(124, b' ');
    bytes.extend([0x00, 0x01, b'I', b'M']);
    bytes.extend(arrays.concat());
    bytes
}

fn packed(array: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(array).unwrap();
    let data = encoder.finish().unwrap();
    // Compressed elements are not padded.
    [15_u32.to_le_bytes().to_vec(), (data.len() as u32).to_le_bytes().to_vec(), data].concat()
}

#[test]
fn arrays_of_every_kind() {
    let folder = FixtureFolder::new();
    let cells = array(1, 2, "cells", &[text("", "Type-S"), small("", &[])].concat());
    let table = structs("table", &["fname", "class"], &[vec![text("", "1.jpg"), small("", &[3])]]);
    let path = folder.write("a.mat", file(&[doubles("x", &[1.5, -2.0]), packed(&cells), table]));
    assert_eq!(mat::read(&path, "x").unwrap(), MatValue::Numbers(vec![1.5, -2.0]));
    let expected = vec![MatValue::Text("Type-S".into()), MatValue::Numbers(Vec::new())];
    assert_eq!(mat::read(&path, "cells").unwrap(), MatValue::Cells(expected));
    let fields = vec!["fname".to_owned(), "class".to_owned()];
    let values = vec![MatValue::Text("1.jpg".into()), MatValue::Numbers(vec![3.0])];
    assert_eq!(mat::read(&path, "table").unwrap(), MatValue::Structs(fields, values));
    let error = mat::read(&path, "y").unwrap_err().to_string();
    assert!(error.ends_with("arrays x, cells, table; expected an array `y`"), "{error}");
}

#[test]
fn truncated_or_other_files_are_errors() {
    let folder = FixtureFolder::new();
    let bytes = file(&[structs("table", &["fname"], &[vec![text("", "1.jpg")]]), packed(&doubles("x", &[1.0]))]);
    for len in 0..bytes.len() {
        let path = folder.write("torn.mat", &bytes[..len]);
        assert!(mat::read(&path, "x").is_err(), "{len} of {} bytes", bytes.len());
    }
    let path = folder.write("whole.mat", &bytes);
    assert_eq!(mat::read(&path, "x").unwrap().number(), Some(1.0));
    let hdf5 = folder.write("new.mat", [b"MATLAB 7.3 MAT-file".as_slice(), &[b' '; 200]].concat());
    let error = mat::read(&hdf5, "x").unwrap_err().to_string();
    assert!(error.contains("no byte order mark at byte 126; expected a MAT-file of version 5"), "{error}");
}

#[test]
fn cars() {
    let folder = FixtureFolder::new();
    let labels: Vec<u8> = (0..195).flat_map(|i| text("", &format!("Car {i}"))).collect();
    let labels = [labels, text("", "smart fortwo 2012")].concat();
    let meta = file(&[packed(&array(1, 196, "class_names", &labels))]);
    folder.write("cars/stanford_cars/devkit/cars_meta.mat", meta);
    let row = |class: u8, photo: &str| vec![small("", &[30]), small("", &[class]), text("", photo)];
    let write = |rows: &[Vec<Vec<u8>>]| {
        let table = structs("annotations", &["bbox_x1", "class", "fname"], rows);
        folder.write("cars/stanford_cars/cars_test_annos_withlabels.mat", file(&[packed(&table)]))
    };
    write(&[row(196, "00001.jpg"), row(1, "00002.jpg")]);
    let source = open(&folder, "cars").unwrap();
    assert_eq!(rows(&*source), pairs(&[("00001.jpg", "smart fortwo 2012"), ("00002.jpg", "Car 0")]));
    assert_eq!(class(&*source, 195).1, "smart fortwo 2012");
    write(&[row(1, "00001.jpg"), row(197, "00002.jpg")]);
    let error = message(&folder, "cars");
    assert!(error.contains("`annotations(2)`") && error.contains("a class from 1 to 196"), "{error}");
    write(&[row(0, "00001.jpg")]);
    assert!(message(&folder, "cars").contains("`annotations(1)`"));
    // The published file without labels has no field `class`.
    let table = structs("annotations", &["bbox_x1", "fname"], &[vec![small("", &[30]), text("", "00001.jpg")]]);
    folder.write("cars/stanford_cars/cars_test_annos_withlabels.mat", file(&[table]));
    assert!(message(&folder, "cars").contains("fields bbox_x1, fname; expected structs"));
}

#[test]
fn flowers() {
    let folder = FixtureFolder::new();
    names(&folder, "class_names.json", &[("flowers", 102)]);
    folder.write("flowers102/flowers-102/imagelabels.mat", file(&[packed(&small("labels", &[77, 1, 102]))]));
    let sets = |test: &[u8]| file(&[small("trnid", &[2]), small("tstid", test)]);
    folder.write("flowers102/flowers-102/setid.mat", sets(&[3, 1]));
    let source = open(&folder, "flowers102").unwrap();
    assert_eq!(rows(&*source), pairs(&[("image_00003.jpg", "102"), ("image_00001.jpg", "77")]));
    assert_eq!(class(&*source, 101), ("102".into(), "name 101".into()));
    folder.write("flowers102/flowers-102/setid.mat", sets(&[4]));
    let error = message(&folder, "flowers102");
    assert!(error.contains("is 4") || error.contains(": 4; expected a photo from 1 to 3"), "{error}");
}
