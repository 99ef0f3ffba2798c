//! Embeds texts, photos and vectors on one model thread. The thread takes up to [`BATCH`] waiting requests, and embeds
//! those of each kind in one call of the model.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use conifer_model::embed::Embedder;
use conifer_model::head::Tower;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::error::{HttpError, HttpResult};

/// Maximum number of requests that the model thread takes at once.
const BATCH: usize = 32;

/// The bounded request queue of the model thread.
pub(crate) struct EmbeddingQueue {
    model: Arc<Embedder>,
    send: mpsc::Sender<EmbedRequest>,
}

struct EmbedRequest {
    input: EmbedInput,
    answer: oneshot::Sender<HttpResult<Vec<f32>>>,
}

enum EmbedInput {
    Text(String),
    /// Preprocessed pixels of a photo.
    Pixels(Vec<u8>),
    /// Input of a tower without an encoder.
    Vector(Tower, Vec<f32>),
}

impl EmbeddingQueue {
    /// Starts the model thread. The thread ends when the queue is dropped.
    ///
    /// # Errors
    /// The thread cannot be spawned.
    pub(crate) fn start(model: Embedder, max_waiting: usize) -> std::io::Result<Self> {
        let (send, receive) = mpsc::channel(max_waiting.max(1));
        let model = Arc::new(model);
        let worker = Arc::clone(&model);
        std::thread::Builder::new().name("model".to_owned()).spawn(move || serve(&worker, receive))?;
        Ok(Self { model, send })
    }

    /// The model, for work that bypasses the queue, such as preprocessing a photo.
    pub(crate) fn model(&self) -> &Arc<Embedder> {
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

    /// Embeds a vector. The caller has checked its width.
    pub(crate) async fn vector(&self, tower: Tower, values: Vec<f32>) -> HttpResult<Vec<f32>> {
        self.submit(EmbedInput::Vector(tower, values)).await
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
        point.await.map_err(|_| HttpError::fault("the model thread stopped before it answered; restart the server"))?
    }
}

fn serve(model: &Embedder, mut queue: mpsc::Receiver<EmbedRequest>) {
    while let Some(first) = queue.blocking_recv() {
        let mut requests = vec![first];
        while requests.len() < BATCH
            && let Ok(request) = queue.try_recv()
        {
            requests.push(request);
        }
        // Skip requests whose client has disconnected.
        requests.retain(|request| !request.answer.is_closed());
        let (mut texts, mut photos, mut image_vectors, mut text_vectors) =
            (InputBatch::default(), InputBatch::default(), InputBatch::default(), InputBatch::default());
        for EmbedRequest { input, answer } in requests {
            match input {
                EmbedInput::Text(text) => texts.push(text, answer),
                EmbedInput::Pixels(pixels) => photos.push(pixels, answer),
                EmbedInput::Vector(Tower::Image, values) => image_vectors.push(values, answer),
                EmbedInput::Vector(Tower::Text, values) => text_vectors.push(values, answer),
            }
        }
        // A model that reads vectors knows only the texts of --data; any other text is an invalid request.
        let reads_vectors = model.vector_width(Tower::Text).is_some();
        let refused_text: fn(String) -> HttpError = if reads_vectors { HttpError::invalid } else { HttpError::fault };
        let dim = model.spec().dim;
        texts.embed(dim, refused_text, |texts| model.texts(texts, &mut |_, _| {}));
        photos.embed(dim, HttpError::fault, |photos| model.image_batch(photos));
        // Numbers close to the largest f32 can give a point that is not finite.
        image_vectors.embed(dim, HttpError::invalid, |rows| model.vectors(rows, Tower::Image));
        text_vectors.embed(dim, HttpError::invalid, |rows| model.vectors(rows, Tower::Text));
    }
}

/// Inputs of one kind with the senders of their points.
struct InputBatch<T> {
    items: Vec<T>,
    answers: Vec<oneshot::Sender<HttpResult<Vec<f32>>>>,
}

impl<T> Default for InputBatch<T> {
    fn default() -> Self {
        InputBatch { items: Vec::new(), answers: Vec::new() }
    }
}

impl<T> InputBatch<T> {
    fn push(&mut self, item: T, answer: oneshot::Sender<HttpResult<Vec<f32>>>) {
        self.items.push(item);
        self.answers.push(answer);
    }

    fn embed<E: Display>(
        self,
        dim: usize,
        refused: fn(String) -> HttpError,
        embed: impl Fn(&[T]) -> Result<Vec<f32>, E>,
    ) {
        for (answer, point) in self.answers.into_iter().zip(points(&self.items, dim, refused, embed)) {
            // The send fails if the client has disconnected.
            _ = answer.send(point);
        }
    }
}

/// Embeds all items in one call. If the call fails or panics, embeds each item alone, so that one bad item does not
/// fail the others. `refused` is the error for an item that the model rejects.
fn points<T, E: Display>(
    items: &[T],
    dim: usize,
    refused: fn(String) -> HttpError,
    embed: impl Fn(&[T]) -> Result<Vec<f32>, E>,
) -> Vec<HttpResult<Vec<f32>>> {
    let some = |items: &[T]| match catch_unwind(AssertUnwindSafe(|| embed(items))) {
        Ok(Ok(points)) if points.len() == items.len() * dim => Ok(points),
        Ok(Ok(points)) => Err(HttpError::fault(format!(
            "the model returned {} numbers; expected {}",
            points.len(),
            items.len() * dim
        ))),
        Ok(Err(error)) => Err(refused(error.to_string())),
        // The thread must survive a panic to serve other requests.
        Err(_) => Err(HttpError::fault("the model panicked")),
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
        let results = points(&[1.0, -1.0, 2.0, -2.0], 2, HttpError::invalid, embed);
        assert_eq!(results[0], Ok(vec![1.0, 1.0]));
        assert_eq!(results[1], Err(HttpError::fault("the model panicked")));
        assert_eq!(results[2], Ok(vec![2.0, 2.0]));
        assert_eq!(results[3], Err(HttpError::invalid("no point")));
        assert_eq!(points(&[3.0, 3.0], 2, HttpError::fault, embed).len(), 2);
        assert_eq!(points(&[-2.0], 2, HttpError::fault, embed), [Err(HttpError::fault("no point"))]);
        assert_eq!(points(&[], 2, HttpError::fault, embed), []);
    }
}
