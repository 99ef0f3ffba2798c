//! The model at work: one thread takes what is asked, all that waits at a time.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
        let embed_texts = |texts: &[String]| model.inner().texts(texts, &mut |_, _| {});
        give(for_texts, points(&texts, dim, embed_texts));
        give(for_photos, points(&photos, dim, |photos| model.inner().image_batch(photos)));
    }
}

fn give(answers: Vec<oneshot::Sender<Result<Vec<f32>, String>>>, points: Vec<Result<Vec<f32>, String>>) {
    for (answer, point) in answers.into_iter().zip(points) {
        // The other end may have gone away.
        _ = answer.send(point);
    }
}

/// A point for each: of all together, or, where that fails, of each by itself, so that what is wrong with one is no fault of the others.
fn points<T, E: Display>(
    items: &[T],
    dim: usize,
    embed: impl Fn(&[T]) -> Result<Vec<f32>, E>,
) -> Vec<Result<Vec<f32>, String>> {
    let some = |items: &[T]| match catch_unwind(AssertUnwindSafe(|| embed(items))) {
        Ok(Ok(points)) if points.len() == items.len() * dim => Ok(points),
        Ok(Ok(points)) => Err(format!("the model gave {} numbers; expected {}", points.len(), items.len() * dim)),
        Ok(Err(error)) => Err(error.to_string()),
        // The thread goes on: others want points, too.
        Err(_) => Err("the model met a fault of its own".to_owned()),
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
    fn what_is_wrong_with_one_is_no_fault_of_the_others() {
        let embed = |items: &[f32]| {
            assert!(!items.contains(&-1.0), "a fault");
            if items.contains(&-2.0) { Err("no point") } else { Ok([items, items].concat()) }
        };
        let told = points(&[1.0, -1.0, 2.0, -2.0], 2, embed);
        assert_eq!(told[0], Ok(vec![1.0, 1.0]));
        assert_eq!(told[1], Err("the model met a fault of its own".to_owned()));
        assert_eq!(told[2], Ok(vec![2.0, 2.0]));
        assert_eq!(told[3], Err("no point".to_owned()));
        assert_eq!(points(&[3.0, 3.0], 2, embed).len(), 2);
        assert_eq!(points(&[-2.0], 2, embed), [Err("no point".to_owned())]);
        assert_eq!(points(&[], 2, embed), []);
    }
}
