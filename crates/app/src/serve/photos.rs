//! `POST /api/photos`: a photo to a point, which is kept under a token for a while.

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

/// Points of photos that are kept.
const KEPT: usize = 4096;
/// Most pixels of a photo that is sent. A decoder may take 8 bytes for each, whatever the file claims.
const MOST_PIXELS: u64 = 40_000_000;

/// Points by their tokens; the oldest ones are forgotten.
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

    /// The point of a photo that was uploaded.
    pub(crate) fn point(&self, token: &str) -> Option<Vec<f32>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).points.get(token).cloned()
    }

    /// Keeps a point; its token is 128 bits that cannot be guessed from others: keyed hashes of a count, under keys of the system.
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
