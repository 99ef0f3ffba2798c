//! Limits the memory of large responses, which stay in memory until their clients have received them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{HttpError, HttpResult};

/// Maximum number of bytes of large responses that are not sent yet.
pub(crate) const MAX_UNSENT: usize = 256 << 20;
/// Responses of up to this many bytes are not counted, because the connection limit bounds their total size.
const SMALL: usize = 256 << 10;
/// Size in bytes of the pieces in which a large response is sent. The write timeout applies to each piece.
const PIECE: usize = 64 << 10;

/// The budget for large responses that are not sent yet.
pub(crate) struct ResponseBudget {
    max: usize,
    bytes: Arc<Semaphore>,
}

impl ResponseBudget {
    pub(crate) fn new(max: usize) -> Self {
        ResponseBudget { max, bytes: Arc::new(Semaphore::new(max)) }
    }

    /// # Errors
    /// 429: the budget is used up.
    pub(crate) fn send(&self, answer: Response) -> HttpResult {
        let length = answer.body().size_hint().exact().and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        if length <= SMALL {
            return Ok(answer);
        }
        // A response that is larger than the whole budget takes all of it.
        let wanted = u32::try_from(length.min(self.max)).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.bytes).try_acquire_many_owned(wanted).map_err(|_| {
            HttpError::busy(format!("the response buffer is full (limit {} bytes); retry later", self.max))
        })?;
        Ok(answer.map(|body| Body::new(ChunkedBody { body, ready: Bytes::new(), left: length, _held: held })))
    }
}

/// A body that is handed to hyper in pieces, and holds its permits until the last piece is taken.
struct ChunkedBody {
    body: Body,
    /// Data that was taken from `body` but not yet handed to hyper.
    ready: Bytes,
    left: usize,
    _held: OwnedSemaphorePermit,
}

impl HttpBody for ChunkedBody {
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
    use axum::response::IntoResponse as _;
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn large_responses_hold_budget_until_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outgoing = ResponseBudget::new(3 << 20);
        let bytes: Vec<u8> = (0..(2 << 20)).map(|it| (it % 251) as u8).collect();
        let answer = |bytes: &[u8]| outgoing.send(Response::new(Body::from(bytes.to_vec()))).into_response();
        let first = answer(&bytes);
        assert_eq!(first.body().size_hint().exact(), Some(2 << 20));
        let refused = answer(&bytes);
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        // Small responses always pass. A response larger than the budget passes when no other large response is
        // waiting.
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
