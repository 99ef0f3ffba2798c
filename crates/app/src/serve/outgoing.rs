//! Answers on their way: bounded, as they are held in memory until their clients have taken them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Refusal;

/// Most bytes of large answers that wait to be taken.
pub(crate) const WAITING: usize = 256 << 20;
/// Answers up to so many bytes are not counted: the number of connections bounds them.
const SMALL: usize = 256 << 10;
/// A large answer goes out in pieces of so many bytes, each with the time for what is ready to be sent.
const PIECE: usize = 64 << 10;

/// The large answers that have not been taken yet.
pub(crate) struct Outgoing {
    most: usize,
    bytes: Arc<Semaphore>,
}

impl Outgoing {
    pub(crate) fn new(most: usize) -> Self {
        Outgoing { most, bytes: Arc::new(Semaphore::new(most)) }
    }

    /// The answer, or that there is no room for it.
    pub(crate) fn send(&self, answer: Response) -> Response {
        let length = answer.body().size_hint().exact().and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        if length <= SMALL {
            return answer;
        }
        // One that is larger than all of the room goes alone.
        let wanted = u32::try_from(length.min(self.most)).unwrap_or(u32::MAX);
        match Arc::clone(&self.bytes).try_acquire_many_owned(wanted) {
            Ok(held) => answer.map(|body| Body::new(Pieces { body, ready: Bytes::new(), left: length, _held: held })),
            Err(_) => {
                let message =
                    format!("others have to take their answers first: {} bytes of them, the limit", self.most);
                Refusal::busy(message).into_response()
            }
        }
    }
}

/// A body that is handed over a piece at a time, so that it lives, and counts, until its last piece goes out.
struct Pieces {
    body: Body,
    /// What came of the body and was not handed over.
    ready: Bytes,
    left: usize,
    _held: OwnedSemaphorePermit,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.ready.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => self.ready = frame.into_data().unwrap_or_default(),
                end => return Poll::Ready(end),
            }
        }
        let length = self.ready.len().min(PIECE);
        self.left = self.left.saturating_sub(length);
        Poll::Ready(Some(Ok(Frame::data(self.ready.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::http::StatusCode;
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn large_answers_count_until_they_are_taken() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outgoing = Outgoing::new(3 << 20);
        let bytes: Vec<u8> = (0..(2 << 20)).map(|it| (it % 251) as u8).collect();
        let answer = |bytes: &[u8]| outgoing.send(Response::new(Body::from(bytes.to_vec())));
        let first = answer(&bytes);
        assert_eq!(first.body().size_hint().exact(), Some(2 << 20));
        let refused = answer(&bytes);
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        // Small ones go all the same, and one that is larger than the room when it is alone.
        assert_eq!(answer(&bytes[..SMALL]).status(), StatusCode::OK);
        let mut taken = Vec::new();
        runtime.block_on(async {
            let mut body = first.into_body();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE);
                taken.extend_from_slice(&piece);
            }
            assert!(body.is_end_stream());
        });
        assert!(taken == bytes);
        assert_eq!(answer(&vec![0; 4 << 20]).status(), StatusCode::OK);
    }
}
