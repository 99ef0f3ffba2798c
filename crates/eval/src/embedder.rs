use conifer_data::ImageRef;
use conifer_geometry::{ManifoldSpec, Root};

use crate::Result;

/// Embeds texts and photos as points of one space.
///
/// A benchmark only reads points; it cannot see the training method or the encoders.
pub trait EmbeddingModel {
    /// Space of all points.
    fn spec(&self) -> &ManifoldSpec;

    /// The most general point, for example the origin of a hyperbolic space or the embedding of the empty text on a
    /// sphere.
    ///
    /// # Errors
    /// The text of the root cannot be embedded.
    fn root(&self) -> Result<Root>;

    /// Points of `texts`, row-major `[texts.len(), dim]`. Every text has a point, including the empty text.
    ///
    /// # Errors
    /// A text cannot be embedded.
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>>;

    /// Points of `images`, cropped with `crop`, row-major `[images.len(), dim]`. No image is skipped.
    ///
    /// # Errors
    /// [`crate::Error::Broken`] if an image cannot be read.
    fn images(&self, images: &[ImageRef], crop: conifer_data::transform::EvalCrop) -> Result<Vec<f32>>;
}
