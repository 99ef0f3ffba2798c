//! Models that embed photos and texts.

use std::path::PathBuf;
use std::sync::Arc;

use conifer::data::{Broken, ImageRef, Picture};
use conifer::model::{Device, Embedder, EvalCrop};
use conifer_data::Cause;
use conifer_model::embed::by_length;
use numpy::{Element, PyArray3, PyArray4, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyFileNotFoundError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rayon::prelude::*;

use crate::arrays::{array, shown};
use crate::error::exception;
use crate::set::root_array;
use crate::threads;

/// A model with its tokenizer; `conifer.Model` wraps it.
#[pyclass(name = "Model", module = "conifer._conifer", frozen)]
pub(crate) struct ModelObject {
    embedder: Embedder,
}

#[pymethods]
impl ModelObject {
    #[new]
    fn new(py: Python<'_>, reference: PathBuf, root_text: Option<&str>) -> PyResult<Self> {
        let opened = threads::run(py, || Embedder::open(&reference, &Device::flex()))?.map_err(exception)?;
        let embedder = match root_text {
            Some(text) => opened.with_root_text(text),
            None => opened,
        };
        Ok(ModelObject { embedder })
    }

    /// The file or folder of the model.
    #[getter]
    fn path(&self) -> &str {
        self.embedder.name()
    }

    #[getter]
    fn space_spec(&self) -> (String, usize, usize, Vec<f64>) {
        let spec = self.embedder.spec();
        (spec.kind.name().to_owned(), spec.dim, spec.factors, spec.curv.clone())
    }

    #[getter]
    fn method(&self) -> &str {
        &self.embedder.manifest().method
    }

    /// Side in pixels of the square photos that the image tower reads.
    #[getter]
    fn image_size(&self) -> usize {
        self.embedder.manifest().model.visual.reads().image_size
    }

    /// Maximum number of token ids of a text that the text tower reads.
    #[getter]
    fn context_length(&self) -> usize {
        self.embedder.manifest().model.textual.reads().context
    }

    /// SHA-256 of the weights, in hex.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> PyResult<String> {
        threads::run(py, || self.embedder.fingerprint().to_owned())
    }

    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let root = threads::run(py, || self.embedder.root())?.map_err(exception)?;
        Ok(root_array(py, &root))
    }

    /// Points `[N, dim]` of texts. Between batches, `progress(done, total)` is called and Ctrl-C is checked.
    fn encode_text<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        batch_size: usize,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_batch(batch_size)?;
        let dim = self.embedder.spec().dim;
        let rows = threads::run(py, || self.embedder.tokenize(&texts))?.map_err(exception)?;
        let mut points = vec![0.0; texts.len() * dim];
        let mut done = 0;
        for chunk in by_length(&rows).chunks(batch_size) {
            let batch: Vec<&[u32]> = chunk.iter().map(|(row, _)| *row).collect();
            let found = threads::run(py, || self.embedder.token_batch(&batch))?.map_err(exception)?;
            for ((_, positions), point) in chunk.iter().zip(found.chunks_exact(dim)) {
                for &position in positions {
                    points[position * dim..][..dim].copy_from_slice(point);
                }
                done += positions.len();
            }
            report(py, progress.as_ref(), done, texts.len())?;
        }
        array(py, points, &[texts.len(), dim], false)
    }

    /// Points `[N, dim]` of photos. A photo is a path, the content of a file, or pixels `[height, width, 3]` of uint8.
    fn encode_image<'py>(
        &self,
        py: Python<'py>,
        images: Vec<Bound<'py, PyAny>>,
        batch_size: usize,
        crop: Option<&str>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_batch(batch_size)?;
        let crop = self.crop(crop)?;
        let mut points = Vec::with_capacity(images.len() * self.embedder.spec().dim);
        for (start, chunk) in (0..images.len()).step_by(batch_size).zip(images.chunks(batch_size)) {
            let photos: Vec<ImageRef> =
                chunk.iter().enumerate().map(|(i, it)| photo(start + i, it)).collect::<PyResult<_>>()?;
            let read =
                |(i, it): (usize, &ImageRef)| self.embedder.image_input(it, crop).map_err(|broken| (start + i, broken));
            points.extend(threads::run(py, || -> Result<_, PyErr> {
                let inputs: Result<Vec<_>, _> = photos.par_iter().enumerate().map(read).collect();
                let inputs = inputs.map_err(|(i, broken)| unreadable(i, &broken))?;
                self.embedder.image_batch(&inputs).map_err(exception)
            })??);
            report(py, progress.as_ref(), start + chunk.len(), images.len())?;
        }
        array(py, points, &[images.len(), self.embedder.spec().dim], false)
    }

    /// Converts a photo to the input of the image tower, `[3, size, size]` of uint8.
    fn preprocess<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        crop: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (photo, crop) = (photo(0, image)?, self.crop(crop)?);
        let pixels = threads::run(py, || self.embedder.image_input(&photo, crop))?;
        let size = self.image_size();
        array(py, pixels.map_err(|broken| unreadable(0, &broken))?, &[3, size, size], false)
    }

    /// Points of photos that [`ModelObject::preprocess`] converted: `[N, 3, size, size]` of uint8, or of float32 from 0
    /// to 1.
    fn encode_pixels<'py>(&self, py: Python<'py>, pixels: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (size, dim) = (self.image_size(), self.embedder.spec().dim);
        if let Ok(pixels) = pixels.cast::<PyArray4<f32>>() {
            let values = pixel_values(pixels, size)?;
            let count = values.len() / (3 * size * size);
            let points = threads::run(py, || self.embedder.float_pixels(values))?.map_err(exception)?;
            return array(py, points, &[count, dim], false);
        }
        let pixels = pixels.cast::<PyArray4<u8>>().map_err(|_| {
            PyTypeError::new_err(format!("pixels have another type; expected uint8 or float32 (N, 3, {size}, {size})"))
        })?;
        let rows: Vec<Vec<u8>> =
            pixel_values(pixels, size)?.chunks_exact(3 * size * size).map(<[u8]>::to_vec).collect();
        let points = match rows.len() {
            0 => Vec::new(),
            _ => threads::run(py, || self.embedder.image_batch(&rows))?.map_err(exception)?,
        };
        array(py, points, &[rows.len(), dim], false)
    }

    /// Points of texts, given as token ids.
    fn encode_tokens<'py>(&self, py: Python<'py>, tokens: Vec<Vec<u32>>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(row) = tokens.iter().position(Vec::is_empty) {
            return Err(PyValueError::new_err(format!("text {row} has no token ids; expected at least one")));
        }
        let vocabulary = self.embedder.manifest().model.textual.reads().vocabulary;
        if let Some(id) = tokens.iter().flatten().find(|id| **id as usize >= vocabulary) {
            return Err(PyValueError::new_err(format!("token id {id}; expected ids below {vocabulary}")));
        }
        let rows: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let points = match rows.len() {
            0 => Vec::new(),
            _ => threads::run(py, || self.embedder.token_batch(&rows))?.map_err(exception)?,
        };
        array(py, points, &[tokens.len(), self.embedder.spec().dim], false)
    }

    /// Token ids of each text, truncated to the context of the text tower.
    fn tokenize(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<Vec<u32>>> {
        threads::run(py, || self.embedder.tokenize(&texts))?.map_err(exception)
    }
}

impl ModelObject {
    fn crop(&self, name: Option<&str>) -> PyResult<EvalCrop> {
        match name {
            None => Ok(self.embedder.manifest().images.crop),
            Some("center") => Ok(EvalCrop::Center),
            Some("squeeze") => Ok(EvalCrop::Squeeze),
            Some(other) => Err(PyValueError::new_err(format!("`crop` is `{other}`; expected `center` or `squeeze`"))),
        }
    }
}

/// The values of contiguous pixels `[N, 3, size, size]`.
fn pixel_values<T: Element + Clone>(pixels: &Bound<'_, PyArray4<T>>, size: usize) -> PyResult<Vec<T>> {
    if pixels.shape()[1..] != [3, size, size] || !pixels.is_c_contiguous() {
        let found = shown(pixels.shape());
        return Err(PyValueError::new_err(format!("pixels have shape {found}; expected (N, 3, {size}, {size})")));
    }
    let pixels = pixels.try_readonly()?;
    Ok(pixels.as_slice().map_err(|error| PyValueError::new_err(error.to_string()))?.to_vec())
}

/// Converts a photo argument: a path, the bytes of a file, or pixels.
fn photo(position: usize, value: &Bound<'_, PyAny>) -> PyResult<ImageRef> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(ImageRef::Encoded(Arc::from(bytes.as_bytes())));
    }
    if let Ok(pixels) = value.cast::<PyArray3<u8>>() {
        let shape = pixels.shape().to_vec();
        let pixels = pixels.try_readonly()?;
        let sides = [shape[0], shape[1]].map(u32::try_from);
        let ([Ok(height), Ok(width)], 3, true) = (sides, shape[2], pixels.is_c_contiguous()) else {
            return Err(PyValueError::new_err(format!(
                "image {position} has shape {}; expected contiguous (height, width, 3) of uint8",
                shown(&shape)
            )));
        };
        if width == 0 || height == 0 {
            return Err(PyValueError::new_err(format!(
                "image {position} has shape {}; expected pixels",
                shown(&shape)
            )));
        }
        let rgb = pixels.as_slice().map_err(|error| PyValueError::new_err(error.to_string()))?.to_vec();
        return Ok(ImageRef::Pixels(Arc::new(Picture { width, height, rgb })));
    }
    value.extract::<PathBuf>().map(ImageRef::File).map_err(|_| {
        let found = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "image {position} is a {found}; expected a PIL image, a path, bytes of an image file, or an array (height, \
             width, 3) of uint8"
        ))
    })
}

fn unreadable(position: usize, broken: &Broken) -> PyErr {
    let text = format!("image {position} cannot be read: {broken}");
    match broken.cause {
        Cause::MissingFile => PyFileNotFoundError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

fn report(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, done: usize, total: usize) -> PyResult<()> {
    py.check_signals()?;
    progress.map_or(Ok(()), |it| it.call1((done, total)).map(drop))
}

fn check_batch(rows: usize) -> PyResult<()> {
    match rows {
        0 => Err(PyValueError::new_err("`batch_size` is 0; expected at least 1")),
        _ => Ok(()),
    }
}
