//! The model at work: one thread takes what is asked, all that waits at a time.

use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::error::{Answer, Refusal};
use crate::embedder::ModelEmbedder;

/// Texts and photos that are embedded together, at most.
const BATCH: usize = 32;

/// A way to the model. What waits is bounded.
pub(crate) struct Queue {
    model: Arc<ModelEmbedder>,
    send: mpsc::Sender<Job>,
}

struct Job {
    asked: Item,
    answer: oneshot::Sender<Result<Vec<f32>, String>>,
}

enum Item {
    Text(String),
    /// What the model sees of a photo.
    Pixels(Vec<u8>),
}

impl Queue {
    /// Starts the thread; it ends with the queue.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(model: ModelEmbedder, most_waiting: usize) -> anyhow::Result<Self> {
        let (send, receive) = mpsc::channel(most_waiting.max(1));
        let model = Arc::new(model);
        let worker = Arc::clone(&model);
        std::thread::Builder::new().name("model".to_owned()).spawn(move || serve(&worker, receive))?;
        Ok(Self { model, send })
    }

    /// The model itself, for what needs no turn: what it sees of a photo.
    pub(crate) fn model(&self) -> &Arc<ModelEmbedder> {
        &self.model
    }

    /// Jobs that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.send.max_capacity() - self.send.capacity()
    }

    pub(crate) async fn text(&self, text: &str) -> Answer<Vec<f32>> {
        self.ask(Item::Text(text.to_owned())).await
    }

    pub(crate) async fn photo(&self, pixels: Vec<u8>) -> Answer<Vec<f32>> {
        self.ask(Item::Pixels(pixels)).await
    }

    async fn ask(&self, asked: Item) -> Answer<Vec<f32>> {
        let (answer, point) = oneshot::channel();
        self.send.try_send(Job { asked, answer }).map_err(|error| match error {
            TrySendError::Full(_) => {
                Refusal::busy(format!("{} texts and photos wait for the model, the limit", self.send.max_capacity()))
            }
            TrySendError::Closed(_) => Refusal::fault("the model is gone"),
        })?;
        let point = point.await.map_err(|_| Refusal::fault("the model gave no answer"))?;
        point.map_err(Refusal::fault)
    }
}

fn serve(model: &ModelEmbedder, mut queue: mpsc::Receiver<Job>) {
    while let Some(first) = queue.blocking_recv() {
        let mut jobs = vec![first];
        while jobs.len() < BATCH
            && let Ok(job) = queue.try_recv()
        {
            jobs.push(job);
        }
        // Who asked may have gone away meanwhile: then nobody needs the point.
        jobs.retain(|job| !job.answer.is_closed());
        let (mut texts, mut photos, mut for_texts, mut for_photos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Job { asked, answer } in jobs {
            match asked {
                Item::Text(text) => {
                    texts.push(text);
                    for_texts.push(answer);
                }
                Item::Pixels(pixels) => {
                    photos.push(pixels);
                    for_photos.push(answer);
                }
            }
        }
        let dim = model.inner().spec().dim;
        if !texts.is_empty() {
            give(for_texts, model.inner().texts(&texts, &mut |_, _| {}), dim);
        }
        if !photos.is_empty() {
            give(for_photos, model.inner().image_batch(&photos), dim);
        }
    }
}

/// Gives everyone its point, or everyone the error.
fn give(answers: Vec<oneshot::Sender<Result<Vec<f32>, String>>>, points: conifer_learn::Result<Vec<f32>>, dim: usize) {
    match points {
        Ok(points) => {
            for (answer, point) in answers.into_iter().zip(points.chunks_exact(dim)) {
                // The other end may have gone away.
                _ = answer.send(Ok(point.to_vec()));
            }
        }
        Err(error) => answers.into_iter().for_each(|answer| _ = answer.send(Err(error.to_string()))),
    }
}
