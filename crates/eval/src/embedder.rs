use conifer_data::ImageRef;
use conifer_space::{ManifoldSpec, Root};

use crate::Result;

/// Anything that turns texts and photographs into points of one space.
///
/// A benchmark asks for points and for nothing else: which method trained the model, and which encoder
/// it has, cannot be asked for.
pub trait Embedder {
    /// The space all points live in.
    fn spec(&self) -> &ManifoldSpec;

    /// The most general point: the origin of a hyperbolic space, the embedding of the empty text on a sphere.
    ///
    /// # Errors
    /// Fails where the root has to be embedded and that fails.
    fn root(&self) -> Result<Root>;

    /// Points of `texts`, row-major `[texts.len(), dim]`.
    ///
    /// # Errors
    /// Fails when the model fails; any text, empty ones too, has a point.
    fn texts(&self, texts: &[String]) -> Result<Vec<f32>>;

    /// Points of `images`, row-major `[images.len(), dim]`, prepared as `crop` says.
    ///
    /// # Errors
    /// [`crate::Error::Broken`] when a picture cannot be read: nothing is dropped.
    fn images(&self, images: &[ImageRef], crop: conifer_data::transform::EvalCrop) -> Result<Vec<f32>>;
}
