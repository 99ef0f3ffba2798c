//! The inputs of a detector: pixels, and two integer inputs that exports of DETR have.

use std::path::Path;

use conifer_data::transform::PaddedPhoto;

use crate::onnx::{OnnxElement, OnnxPort};
use crate::{Error, Result};

/// The inputs and their sizes.
#[derive(Debug)]
pub(super) struct DetectorInputs {
    /// The input of the pixels, f32 `[1, 3, H, W]` or `[3, H, W]`.
    pub(super) pixels: OnnxPort,
    /// Shape of the pixels of a photo.
    pub(super) shape: Vec<usize>,
    others: Vec<(OnnxPort, OtherInput)>,
}

/// An input besides the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherInput {
    /// `pixel_mask` `[1, H, W]` of DETR in `transformers`: 1 for the photo, 0 for the padding.
    Mask { height: usize, width: usize },
    /// `orig_target_sizes` `[1, 2]` of RT-DETR: width and height to which the file scales its boxes.
    TargetSize,
}

impl DetectorInputs {
    pub(super) fn new(path: &Path, ports: &[OnnxPort], size: Option<usize>) -> Result<Self> {
        let is_pixels = |port: &&OnnxPort| port.element == OnnxElement::F32 && matches!(port.shape.len(), 3 | 4);
        let shown = || super::layout::shown(ports);
        let Some(pixels) = ports.iter().find(is_pixels).cloned() else {
            let expected = "float32 pixels [1, 3, height, width] or [3, height, width]";
            return Err(Error::format(path, format!("the inputs are {}; expected {expected}", shown())));
        };
        let (batch, axes) = pixels.shape.split_at(pixels.shape.len() - 3);
        let fits = |declared: i64, expected: i64| declared == expected || declared < 0;
        let &[channels, height, width] = axes else { return Err(Error::format(path, "an input without axes")) };
        if !fits(channels, 3) || !batch.iter().all(|&declared| fits(declared, 1)) {
            let expected = "[1, 3, height, width] or [3, height, width], where -1 stands for any size";
            return Err(Error::format(
                path,
                format!("input `{}` has shape {:?}; expected {expected}", pixels.name, pixels.shape),
            ));
        }
        let (height, width) = (side(&pixels, height, size)?, side(&pixels, width, size)?);
        let mut shape = vec![1; batch.len()];
        shape.extend([3, height, width]);
        let mut others = Vec::new();
        for port in ports.iter().filter(|port| port.name != pixels.name) {
            let is_integer = matches!(port.element, OnnxElement::I64 | OnnxElement::I32);
            let other = match (port.name.as_str(), port.shape.as_slice()) {
                ("pixel_mask", &[_, rows, columns]) if is_integer => OtherInput::Mask {
                    height: usize::try_from(rows).unwrap_or(height),
                    width: usize::try_from(columns).unwrap_or(width),
                },
                ("orig_target_sizes", &[_, _]) if is_integer => OtherInput::TargetSize,
                _ => {
                    let expected =
                        "only pixels, and perhaps the integers pixel_mask [1, H, W] or orig_target_sizes [1, 2]";
                    return Err(Error::format(path, format!("the inputs are {}; expected {expected}", shown())));
                }
            };
            others.push((port.clone(), other));
        }
        Ok(Self { pixels, shape, others })
    }

    /// Width and height of the pixels.
    pub(super) fn size(&self) -> (usize, usize) {
        match self.shape.as_slice() {
            [.., height, width] => (*width, *height),
            _ => (0, 0),
        }
    }

    /// The values of the other inputs with their shapes.
    pub(super) fn other_values(&self, padded: &PaddedPhoto) -> Vec<(&OnnxPort, Vec<usize>, Vec<i64>)> {
        let values = |(port, input)| match input {
            OtherInput::Mask { height, width } => (port, vec![1, height, width], mask(padded, height, width)),
            OtherInput::TargetSize => {
                let (width, height) = self.size();
                (port, vec![1, 2], vec![width as i64, height as i64])
            }
        };
        self.others.iter().map(|(port, input)| (port, *input)).map(values).collect()
    }
}

/// The size of an axis of the pixels.
fn side(port: &OnnxPort, declared: i64, given: Option<usize>) -> Result<usize> {
    match (usize::try_from(declared), given) {
        (Ok(declared), None) if declared > 0 => Ok(declared),
        (Ok(declared), Some(given)) if declared == given => Ok(declared),
        (Ok(declared), given) if declared > 0 => {
            let found = given.map_or_else(|| "absent".to_owned(), |given| given.to_string());
            Err(Error::invalid("--detector-size", found, format!("{declared}, the size of the file, or no option")))
        }
        (_, Some(given)) if given > 0 => Ok(given),
        _ => {
            let expected = format!("a size in pixels, because input `{}` of the file accepts any size", port.name);
            Err(Error::invalid("--detector-size", "absent", expected))
        }
    }
}

/// 1 where the centre of a cell of the mask is in the photo.
fn mask(padded: &PaddedPhoto, height: usize, width: usize) -> Vec<i64> {
    let inside = |cell: usize, cells: usize, whole: u32, start: u32, side: u32| {
        let at = (cell as f64 + 0.5) * f64::from(whole) / cells as f64;
        at >= f64::from(start) && at < f64::from(start + side)
    };
    let columns: Vec<bool> =
        (0..width).map(|x| inside(x, width, padded.picture.width, padded.left, padded.width)).collect();
    (0..height)
        .flat_map(|y| {
            let row = inside(y, height, padded.picture.height, padded.top, padded.height);
            columns.iter().map(move |column| i64::from(row && *column))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::Picture;

    use super::*;

    fn port(name: &str, element: OnnxElement, shape: &[i64]) -> OnnxPort {
        OnnxPort { name: name.to_owned(), element, shape: shape.to_vec() }
    }

    fn sized(shape: &[i64], size: Option<usize>) -> Result<(usize, usize), String> {
        let ports = [port("images", OnnxElement::F32, shape)];
        let inputs = DetectorInputs::new(Path::new("d.onnx"), &ports, size).map_err(|error| error.to_string())?;
        assert_eq!(inputs.shape.len(), shape.len());
        Ok(inputs.size())
    }

    #[test]
    fn sizes_come_from_the_file_or_the_option() {
        assert_eq!(sized(&[1, 3, 480, 640], None), Ok((640, 480)));
        assert_eq!(sized(&[-1, 3, -1, -1], Some(320)), Ok((320, 320)));
        assert_eq!(sized(&[3, -1, 640], Some(640)), Ok((640, 640)));
        assert_eq!(sized(&[1, 3, 640, 640], Some(640)), Ok((640, 640)));
        for (shape, size, said) in [
            (vec![1, 3, -1, -1], None, "`--detector-size` is absent; expected a size in pixels"),
            (vec![1, 3, 640, 640], Some(320), "`--detector-size` is 320; expected 640"),
            (vec![1, 640, 640, 3], None, "input `images` has shape [1, 640, 640, 3]; expected [1, 3, height, width]"),
            (vec![8, 3, 640, 640], None, "input `images` has shape [8, 3, 640, 640]"),
            (vec![640, 640], None, "the inputs are `images` float32 [640, 640]; expected float32 pixels"),
        ] {
            let message = sized(&shape, size).unwrap_err();
            assert!(message.contains(said), "{message}\nexpected: {said}");
        }
    }

    #[test]
    fn masks_and_target_sizes_get_values_and_other_inputs_are_refused() {
        let pixels = port("pixel_values", OnnxElement::F32, &[-1, 3, 8, 8]);
        let ports = [
            pixels.clone(),
            port("pixel_mask", OnnxElement::I64, &[-1, 4, 4]),
            port("orig_target_sizes", OnnxElement::I64, &[-1, 2]),
        ];
        let inputs = DetectorInputs::new(Path::new("d.onnx"), &ports, None).unwrap();
        let picture = Picture { width: 8, height: 8, rgb: vec![0; 192] };
        let padded = PaddedPhoto { picture, left: 0, top: 2, width: 8, height: 4 };
        let values = inputs.other_values(&padded);
        // Four rows of the mask for eight rows of pixels: the photo is in rows 2 to 5 of the pixels.
        let expected = [[0; 4], [1; 4], [1; 4], [0; 4]].concat();
        assert_eq!((values[0].1.as_slice(), &values[0].2), (&[1, 4, 4][..], &expected));
        assert_eq!((values[1].1.as_slice(), &values[1].2), (&[1, 2][..], &vec![8, 8]));
        for other in [port("threshold", OnnxElement::F32, &[1]), port("pixel_mask", OnnxElement::Other, &[1, 4, 4])] {
            let ports = [pixels.clone(), other];
            let message = DetectorInputs::new(Path::new("d.onnx"), &ports, None).unwrap_err().to_string();
            assert!(message.contains("`pixel_values` float32 [-1, 3, 8, 8], `"), "{message}");
            assert!(message.contains("expected only pixels"), "{message}");
        }
    }
}
