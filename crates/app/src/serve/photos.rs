//! `POST /api/photos`: embeds a photo and keeps its point under a token.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, Cause, ImageRef, PixelLimits};
use serde_json::json as value;

use super::Server;
use super::body::{json, read};
use super::error::{Answer, Refusal};

/// Maximum number of points kept.
const KEPT: usize = 4096;
/// Maximum number of pixels of an uploaded photo. A decoder may need 8 bytes of memory per pixel.
const MOST_PIXELS: u64 = 40_000_000;

/// Points of uploaded photos by token. The oldest points are dropped when there are too many.
pub(crate) struct Photos {
    seed: [RandomState; 2],
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    points: HashMap<String, Vec<f32>>,
    order: VecDeque<String>,
    count: u64,
}

impl Photos {
    pub(crate) fn new() -> Self {
        Self { seed: [RandomState::new(), RandomState::new()], kept: Mutex::default() }
    }

    /// Returns the point of an uploaded photo.
    pub(crate) fn point(&self, token: &str) -> Option<Vec<f32>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).points.get(token).cloned()
    }

    /// Stores a point and returns its token. The 128 bits of a token cannot be guessed from other tokens: they are
    /// keyed hashes of a counter, with random keys from the operating system.
    fn keep(&self, point: Vec<f32>) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        let token: String = self.seed.iter().map(|seed| format!("{:016x}", seed.hash_one(kept.count))).collect();
        kept.points.insert(token.clone(), point);
        kept.order.push_back(token.clone());
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.points.remove(&oldest);
        }
        token
    }
}

pub(crate) async fn upload(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Answer {
    let model = Arc::clone(server.embedder()?.model());
    let most = server.max_upload;
    let bytes = read(&headers, body, most).await?;
    let (pixels, width, height) = server
        .decode(move || {
            let limits = PixelLimits { max_bytes: most as u64, max_pixels: MOST_PIXELS, ..PixelLimits::default() };
            let picture = ImageRef::Encoded(bytes.into()).open(&limits).map_err(|it| refused(&it))?;
            let pixels = model.inner().pixels(&picture, EvalCrop::Center);
            Ok((pixels, picture.width, picture.height))
        })
        .await?;
    let point = server.embedder()?.photo(pixels).await?;
    json(&value!({ "photo": server.photos.keep(point), "width": width, "height": height }))
}

fn refused(broken: &Broken) -> Refusal {
    match broken.cause {
        Cause::ImageTooLarge => Refusal::too_large(format!("the photo: {}", broken.detail)),
        _ => Refusal::invalid(format!("the photo: {}", broken.detail)),
    }
}
