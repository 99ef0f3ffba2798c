#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::fixtures::FixtureFolder;

/// A column of a test file. `None` is a missing value.
pub(crate) enum TestColumn<'a> {
    Texts(&'a [Option<&'a str>]),
    Integers(&'a [i64]),
    Lists(&'a [Option<&'a [f32]>]),
    /// Lists in `required` fields, without null lists or values, as Arrow writes columns that are not nullable.
    Doubles(&'a [&'a [f64]]),
}

/// Writes a Parquet file with one row group per `group` rows.
pub(crate) fn write(path: &Path, columns: &[(&str, TestColumn<'_>)], compression: Compression, group: usize) {
    let fields = columns.iter().map(|(name, column)| match column {
        TestColumn::Texts(_) => format!("optional binary {name} (UTF8);"),
        TestColumn::Integers(_) => format!("required int64 {name};"),
        TestColumn::Lists(_) => {
            format!("optional group {name} (LIST) {{ repeated group list {{ optional float element; }} }}")
        }
        TestColumn::Doubles(_) => {
            format!("required group {name} (LIST) {{ repeated group list {{ required double element; }} }}")
        }
    });
    let schema = format!("message table {{ {} }}", fields.collect::<String>());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = File::create(path).unwrap();
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let rows = match &columns[0].1 {
        TestColumn::Texts(values) => values.len(),
        TestColumn::Integers(values) => values.len(),
        TestColumn::Lists(values) => values.len(),
        TestColumn::Doubles(values) => values.len(),
    };
    for first in (0..rows).step_by(group) {
        let at = first..(first + group).min(rows);
        let mut rows = writer.next_row_group().unwrap();
        for (_, column) in columns {
            let mut out = rows.next_column().unwrap().unwrap();
            match column {
                TestColumn::Texts(values) => {
                    let values = &values[at.clone()];
                    let there: Vec<ByteArray> = values.iter().flatten().map(|text| ByteArray::from(*text)).collect();
                    let levels: Vec<i16> = values.iter().map(|it| i16::from(it.is_some())).collect();
                    out.typed::<ByteArrayType>().write_batch(&there, Some(&levels), None).unwrap();
                }
                TestColumn::Integers(values) => {
                    out.typed::<Int64Type>().write_batch(&values[at.clone()], None, None).unwrap();
                }
                TestColumn::Lists(values) => {
                    let (mut levels, mut starts, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
                    for list in &values[at.clone()] {
                        match list {
                            // An absent list has level 0, and an empty list has level 1.
                            None => levels.push(0),
                            Some([]) => levels.push(1),
                            Some(list) => levels.extend(list.iter().map(|_| 3)),
                        }
                        starts.push(0);
                        starts.extend((1..list.map_or(0, <[f32]>::len)).map(|_| 1));
                        numbers.extend(list.iter().copied().flatten());
                    }
                    out.typed::<FloatType>().write_batch(&numbers, Some(&levels), Some(&starts)).unwrap();
                }
                TestColumn::Doubles(values) => {
                    let lists = &values[at.clone()];
                    let numbers = lists.concat();
                    let starts: Vec<i16> =
                        lists.iter().flat_map(|list| (0..list.len()).map(|at| i16::from(at > 0))).collect();
                    let levels = vec![1; numbers.len()];
                    out.typed::<DoubleType>().write_batch(&numbers, Some(&levels), Some(&starts)).unwrap();
                }
            }
            out.close().unwrap();
        }
        rows.close().unwrap();
    }
    writer.close().unwrap();
}

fn written(folder: &FixtureFolder, name: &str, columns: &[(&str, TestColumn<'_>)]) -> PathBuf {
    let path = folder.path().join(name);
    write(&path, columns, Compression::SNAPPY, 2);
    path
}

fn message(path: &Path) -> String {
    read_named(path, None).unwrap_err().to_string()
}

const IDS: TestColumn<'static> = TestColumn::Texts(&[Some("a"), Some("b"), Some("c")]);
const LISTS: TestColumn<'static> = TestColumn::Lists(&[Some(&[1.0, 2.0]), Some(&[3.0, 4.0]), Some(&[5.0, 6.0])]);

#[test]
fn lists_of_floats_and_doubles_are_read_with_their_ids() {
    let folder = FixtureFolder::new();
    let path = written(&folder, "a.parquet", &[("id", IDS), ("vector", LISTS)]);
    let named = read_named(&path, None).unwrap();
    assert_eq!(named.matrix, VectorMatrix::new(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    assert_eq!((named.ids, named.texts), (["a", "b", "c"].map(str::to_owned).to_vec(), None));
    assert_eq!(VectorMatrix::read(&path, Some("vector")).unwrap(), named.matrix);
    let doubles = TestColumn::Doubles(&[&[1.0, 0.5], &[3.0, 4.0], &[1e-3, 1e3]]);
    let texts = TestColumn::Texts(&[Some("a dog"), Some("a cat"), Some("an owl")]);
    let columns = [("id", TestColumn::Integers(&[7, 8, 9])), ("text", texts), ("other", LISTS), ("v", doubles)];
    let path = written(&folder, "b.parquet", &columns);
    let named = read_named(&path, Some("v")).unwrap();
    assert_eq!(named.matrix.row(2).unwrap(), [1e-3, 1e3]);
    assert_eq!((named.ids[2].as_str(), named.texts.unwrap()[1].as_str()), ("9", "a cat"));
    for compression in [Compression::UNCOMPRESSED, Compression::GZIP(Default::default())] {
        write(&path, &[("id", IDS), ("vector", LISTS)], compression, 100);
        assert_eq!(read_named(&path, None).unwrap().matrix.len(), 3);
    }
}

#[test]
fn faults_name_the_row() {
    let folder = FixtureFolder::new();
    let with = |ids: TestColumn<'_>, lists: TestColumn<'_>| {
        message(&written(&folder, "x.parquet", &[("id", ids), ("vector", lists)]))
    };
    let found = with(TestColumn::Texts(&[Some("a"), None, Some("c")]), LISTS);
    assert!(found.contains("x.parquet`: row 1 has no id; expected a string or an integer in each row"), "{found}");
    for (lists, words) in [
        (
            &[Some(&[1.0, 2.0][..]), Some(&[1.0, 2.0]), Some(&[f32::NAN, 0.0])][..],
            "column `vector` of `{}`: row 2, column 0 is NaN; expected finite numbers",
        ),
        (&[Some(&[1.0, f32::INFINITY]), Some(&[1.0, 2.0]), Some(&[1.0, 2.0])], "row 0, column 1 is inf"),
        (&[Some(&[1.0, 2.0]), Some(&[1.0, 2.0]), Some(&[1.0])], "row 2 has 1 numbers; expected 2, as row 0"),
        (&[Some(&[1.0, 2.0]), None, Some(&[1.0, 2.0])], "row 1 has no vector, or a gap in it; expected a list"),
        (&[Some(&[]), Some(&[]), Some(&[])], "row 0 has no vector"),
    ] {
        let found = with(IDS, TestColumn::Lists(lists));
        let words = words.replace("{}", &folder.path().join("x.parquet").display().to_string());
        assert!(found.contains(&words), "{words}: {found}");
    }
    let found = message(&written(&folder, "y.parquet", &[("name", IDS), ("vector", LISTS)]));
    assert!(found.contains("the columns name, vector; expected a column `id` that names each row"), "{found}");
    let found = message(&written(&folder, "y.parquet", &[("id", IDS)]));
    assert!(
        found.contains("0 columns of lists of float or double, none selected; expected one such column"),
        "{found}"
    );
    let path = written(&folder, "y.parquet", &[("id", IDS), ("a", LISTS), ("b", LISTS)]);
    assert!(message(&path).contains("2 columns of lists of float or double, none selected; expected one of: a, b"));
    let found = read_named(&path, Some("c")).unwrap_err().to_string();
    assert!(found.contains("no column `c` of lists of float or double; expected one of: a, b"), "{found}");
    let texts = TestColumn::Texts(&[Some("a dog"), None, Some("an owl")]);
    let found = message(&written(&folder, "y.parquet", &[("id", IDS), ("text", texts), ("v", LISTS)]));
    assert!(found.contains("row 1 has no text"), "{found}");
}

#[test]
fn damaged_files_are_refused() {
    let folder = FixtureFolder::new();
    let path = written(&folder, "a.parquet", &[("id", IDS), ("vector", LISTS)]);
    let bytes = std::fs::read(&path).unwrap();
    for length in [0, 3, 40, bytes.len() / 2, bytes.len() - 1] {
        let cut = folder.write("cut.parquet", &bytes[..length]);
        assert!(message(&cut).contains("cut.parquet`: ") && message(&cut).contains("a complete Parquet file"));
    }
    // Change one byte at a time: the reader returns an error or other values and never panics.
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        _ = read_named(&folder.write("changed.parquet", &changed), None);
    }
    let found = VectorMatrix::read_one(&path).unwrap_err().to_string();
    assert!(
        found.contains("a file of type `parquet`; expected a vector in a .npy, .npz or .safetensors file"),
        "{found}"
    );
    assert!(read_named(&folder.path().join("absent.parquet"), None).unwrap_err().to_string().contains("cannot read"));
}
