//! `POST /api/photos`: embeds a photo and keeps its point under a token.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use conifer_data::{Broken, Cause, ImageRef, PixelLimits};
use conifer_model::head::Tower;

use crate::Server;
use crate::api::replies::PhotoReply;
use crate::body::json;
use crate::error::{HttpError, HttpResult};

/// Maximum number of points kept.
const MAX_STORED: usize = 4096;
/// Maximum number of pixels of an uploaded photo. A decoder may need 8 bytes of memory per pixel.
const MAX_PIXELS: u64 = 40_000_000;

/// Points of uploaded photos by token. The oldest points are dropped when there are too many.
pub(crate) struct UploadedPhotos {
    seed: [RandomState; 2],
    stored: Mutex<StoredPoints>,
}

#[derive(Default)]
struct StoredPoints {
    points: HashMap<String, Vec<f32>>,
    order: VecDeque<String>,
    count: u64,
}

impl UploadedPhotos {
    pub(crate) fn new() -> Self {
        Self { seed: [RandomState::new(), RandomState::new()], stored: Mutex::default() }
    }

    /// Returns the point of an uploaded photo.
    pub(crate) fn point(&self, token: &str) -> Option<Vec<f32>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).points.get(token).cloned()
    }

    /// Stores a point and returns its token: two 64-bit hashes of a counter with the random keys of [`RandomState`], so
    /// that clients cannot easily guess other tokens.
    fn store(&self, point: Vec<f32>) -> String {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.count += 1;
        let token: String = self.seed.iter().map(|seed| format!("{:016x}", seed.hash_one(stored.count))).collect();
        stored.points.insert(token.clone(), point);
        stored.order.push_back(token.clone());
        if stored.order.len() > MAX_STORED
            && let Some(oldest) = stored.order.pop_front()
        {
            stored.points.remove(&oldest);
        }
        token
    }
}

pub(crate) async fn upload(State(server): State<Arc<Server>>, bytes: Bytes) -> HttpResult {
    let model = Arc::clone(server.embedder()?.model());
    if let Some(width) = model.vector_width(Tower::Image) {
        return Err(HttpError::invalid(format!(
            "the model reads vectors and has no encoder of photos; expected a query `image_vector` of {width} numbers"
        )));
    }
    let max = server.max_upload;
    let (pixels, width, height) = server
        .decode(move || {
            let limits = PixelLimits { max_bytes: max as u64, max_pixels: MAX_PIXELS, ..PixelLimits::default() };
            let picture = ImageRef::Encoded(Vec::from(bytes).into()).open(&limits).map_err(|it| refused(&it))?;
            let pixels = model.pixels(&picture, model.manifest().images.crop);
            Ok((pixels, picture.width, picture.height))
        })
        .await?;
    let point = server.embedder()?.photo(pixels).await?;
    json(&PhotoReply { photo: server.photos.store(point), width, height })
}

fn refused(broken: &Broken) -> HttpError {
    match broken.cause {
        Cause::ImageTooLarge => HttpError::too_large(format!("the photo: {}", broken.detail)),
        _ => HttpError::invalid(format!("the photo: {}", broken.detail)),
    }
}
