use conifer_data::ImageRef;
use conifer_geometry::{ManifoldSpec, Root};

use crate::Result;

/// Embeds texts and photos as points of one space.
///
/// A benchmark asks only for points. It cannot see the training method or the encoders.
pub trait EmbeddingModel {
    /// Space of all points.
    fn spec(&self) -> &ManifoldSpec;

    /// The most general point, for example the origin of a hyperbolic space or the embedding of the empty text on a
    /// sphere.
    ///
    /// # Errors
    /// The root has to be embedded and embedding fails.
    fn root(&self) -> Result<Root>;

    /// Points of `texts`, row-major `[texts.len(), dim]`. Every text has a point, including the empty text.
    ///
    /// # Errors
    /// The model fails.
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>>;

    /// Points of `images`, row-major `[images.len(), dim]`, cropped as `crop` says. No image is skipped.
    ///
    /// # Errors
    /// [`crate::Error::Broken`] if an image cannot be read.
    fn images(&self, images: &[ImageRef], crop: conifer_data::transform::EvalCrop) -> Result<Vec<f32>>;
}
