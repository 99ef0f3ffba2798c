//! Writes a safetensors file tensor by tensor.
//!
//! The library's own `serialize_to_file` creates its file through `tempfile` with mode 0600 regardless of the umask, so
//! other accounts could not read it. The bytes written here are the same.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use conifer_files::NewFile;
use safetensors::tensor::{Metadata, TensorInfo, View};

use crate::{Error, Result};

/// The header is padded so that the first tensor starts at a multiple of this.
const ALIGNMENT: usize = 8;

/// Writes `tensors`, with `note` in the header. The file appears as a whole or not at all; its mode follows the umask.
///
/// # Errors
/// [`Error::Io`] or [`Error::Files`] with the path for an I/O error; [`Error::Format`] for tensors that cannot form a
/// valid file (a duplicate name, a shape that does not match its data).
pub(super) fn write<V: View>(
    tensors: Vec<(String, V)>,
    note: Option<HashMap<String, String>>,
    path: &Path,
) -> Result<()> {
    let mut tensors = tensors;
    // The library's order: wide types first, so that every tensor is aligned to its element size.
    tensors.sort_by(|(left, a), (right, b)| b.dtype().cmp(&a.dtype()).then(left.cmp(right)));
    let mut end = 0;
    let infos = tensors
        .iter()
        .map(|(name, tensor)| {
            let begin = end;
            end += tensor.data_len();
            let info = TensorInfo { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), data_offsets: (begin, end) };
            (name.clone(), info)
        })
        .collect();
    let invalid = |error: String| Error::format(path, format!("cannot be written as safetensors: {error}"));
    let metadata = Metadata::new(note, infos).map_err(|error| invalid(error.to_string()))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| invalid(error.to_string()))?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');

    let mut file = NewFile::create(path)?;
    let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(Error::io(path));
    put(&(header.len() as u64).to_le_bytes())?;
    put(&header)?;
    for (_, tensor) in &tensors {
        put(tensor.data().as_ref())?;
    }
    Ok(file.finish()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::borrow::Cow;
    use std::fs;

    use safetensors::tensor::Dtype;

    use super::*;

    struct Bytes(Dtype, Vec<usize>, Vec<u8>);

    impl View for &Bytes {
        fn dtype(&self) -> Dtype {
            self.0
        }

        fn shape(&self) -> &[usize] {
            &self.1
        }

        fn data(&self) -> Cow<'_, [u8]> {
            self.2.as_slice().into()
        }

        fn data_len(&self) -> usize {
            self.2.len()
        }
    }

    #[test]
    fn bytes_equal_those_of_the_safetensors_library() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let tensors = [
            ("b", Bytes(Dtype::F32, vec![2], vec![1; 8])),
            ("mask", Bytes(Dtype::BOOL, vec![3], vec![0, 1, 0])),
            ("half", Bytes(Dtype::BF16, vec![1, 2], vec![2; 4])),
            ("a", Bytes(Dtype::F32, vec![], vec![3; 4])),
            ("empty", Bytes(Dtype::F32, vec![0], vec![])),
        ];
        for note in [None, Some(HashMap::from([("format".to_owned(), "pt".to_owned())]))] {
            let named = || tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor));
            write(named().collect(), note.clone(), &path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), safetensors::serialize(named(), note).unwrap());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        let wrong = Bytes(Dtype::F32, vec![3], vec![0; 8]);
        let message = write(vec![("x".to_owned(), &wrong)], None, &path).unwrap_err().to_string();
        assert!(message.contains("a.safetensors") && message.contains("cannot be written"), "{message}");
    }
}
