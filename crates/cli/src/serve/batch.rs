//! Embeds texts and photos on one model thread. The thread takes up to [`BATCH`] waiting requests, and embeds their
//! texts in one call of the model and their photos in another.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::error::{HttpError, HttpResult};
use crate::embedder::ModelEmbedder;

/// Maximum number of requests that the model thread takes at once.
const BATCH: usize = 32;

/// The bounded request queue of the model thread.
pub(crate) struct EmbeddingQueue {
    model: Arc<ModelEmbedder>,
    send: mpsc::Sender<EmbedRequest>,
}

struct EmbedRequest {
    input: EmbedInput,
    answer: oneshot::Sender<Result<Vec<f32>, String>>,
}

enum EmbedInput {
    Text(String),
    /// Preprocessed pixels of a photo.
    Pixels(Vec<u8>),
}

impl EmbeddingQueue {
    /// Starts the model thread. The thread ends when the queue is dropped.
    ///
    /// # Errors
    /// The thread cannot be spawned.
    pub(crate) fn start(model: ModelEmbedder, max_waiting: usize) -> anyhow::Result<Self> {
        let (send, receive) = mpsc::channel(max_waiting.max(1));
        let model = Arc::new(model);
        let worker = Arc::clone(&model);
        std::thread::Builder::new().name("model".to_owned()).spawn(move || serve(&worker, receive))?;
        Ok(Self { model, send })
    }

    /// The model, for work that bypasses the queue, such as preprocessing a photo.
    pub(crate) fn model(&self) -> &Arc<ModelEmbedder> {
        &self.model
    }

    pub(crate) fn waiting(&self) -> usize {
        self.send.max_capacity() - self.send.capacity()
    }

    pub(crate) async fn text(&self, text: &str) -> HttpResult<Vec<f32>> {
        self.submit(EmbedInput::Text(text.to_owned())).await
    }

    pub(crate) async fn photo(&self, pixels: Vec<u8>) -> HttpResult<Vec<f32>> {
        self.submit(EmbedInput::Pixels(pixels)).await
    }

    async fn submit(&self, input: EmbedInput) -> HttpResult<Vec<f32>> {
        let (answer, point) = oneshot::channel();
        self.send.try_send(EmbedRequest { input, answer }).map_err(|error| match error {
            TrySendError::Full(_) => HttpError::busy(format!(
                "the embedding queue is full (limit {}); retry later",
                self.send.max_capacity()
            )),
            TrySendError::Closed(_) => HttpError::fault("the model thread has stopped; restart the server"),
        })?;
        let point = point
            .await
            .map_err(|_| HttpError::fault("the model thread stopped before it answered; restart the server"))?;
        point.map_err(HttpError::fault)
    }
}

fn serve(model: &ModelEmbedder, mut queue: mpsc::Receiver<EmbedRequest>) {
    while let Some(first) = queue.blocking_recv() {
        let mut requests = vec![first];
        while requests.len() < BATCH
            && let Ok(request) = queue.try_recv()
        {
            requests.push(request);
        }
        // Skip requests whose client has disconnected.
        requests.retain(|request| !request.answer.is_closed());
        let (mut texts, mut photos, mut for_texts, mut for_photos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for EmbedRequest { input, answer } in requests {
            match input {
                EmbedInput::Text(text) => {
                    texts.push(text);
                    for_texts.push(answer);
                }
                EmbedInput::Pixels(pixels) => {
                    photos.push(pixels);
                    for_photos.push(answer);
                }
            }
        }
        let dim = model.inner().spec().dim;
        let embed_texts = |texts: &[String]| model.inner().texts(texts, &mut |_, _| {});
        send_all(for_texts, points(&texts, dim, embed_texts));
        send_all(for_photos, points(&photos, dim, |photos| model.inner().image_batch(photos)));
    }
}

fn send_all(answers: Vec<oneshot::Sender<Result<Vec<f32>, String>>>, points: Vec<Result<Vec<f32>, String>>) {
    for (answer, point) in answers.into_iter().zip(points) {
        // The send fails if the client has disconnected.
        _ = answer.send(point);
    }
}

/// Embeds all items in one call. If the call fails or panics, embeds each item alone, so that one bad item does not
/// fail the others.
fn points<T, E: Display>(
    items: &[T],
    dim: usize,
    embed: impl Fn(&[T]) -> Result<Vec<f32>, E>,
) -> Vec<Result<Vec<f32>, String>> {
    let some = |items: &[T]| match catch_unwind(AssertUnwindSafe(|| embed(items))) {
        Ok(Ok(points)) if points.len() == items.len() * dim => Ok(points),
        Ok(Ok(points)) => Err(format!("the model returned {} numbers; expected {}", points.len(), items.len() * dim)),
        Ok(Err(error)) => Err(error.to_string()),
        // The thread must survive a panic to serve other requests.
        Err(_) => Err("the model panicked".to_owned()),
    };
    if items.is_empty() {
        return Vec::new();
    }
    match some(items) {
        Ok(points) => points.chunks_exact(dim).map(|point| Ok(point.to_vec())).collect(),
        Err(error) if items.len() == 1 => vec![Err(error)],
        Err(_) => items.chunks(1).map(some).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_item_does_not_fail_the_others() {
        let embed = |items: &[f32]| {
            assert!(!items.contains(&-1.0), "a fault");
            if items.contains(&-2.0) { Err("no point") } else { Ok([items, items].concat()) }
        };
        let results = points(&[1.0, -1.0, 2.0, -2.0], 2, embed);
        assert_eq!(results[0], Ok(vec![1.0, 1.0]));
        assert_eq!(results[1], Err("the model panicked".to_owned()));
        assert_eq!(results[2], Ok(vec![2.0, 2.0]));
        assert_eq!(results[3], Err("no point".to_owned()));
        assert_eq!(points(&[3.0, 3.0], 2, embed).len(), 2);
        assert_eq!(points(&[-2.0], 2, embed), [Err("no point".to_owned())]);
        assert_eq!(points(&[], 2, embed), []);
    }
}
