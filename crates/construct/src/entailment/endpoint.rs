//! A judge behind an HTTP endpoint.

use std::time::Duration;

use conifer_search::PlainHttpClient;
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use super::{Entailment, EntailmentScores, as_picture};
use crate::{Error, Result};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// Number of times that a failed request is repeated.
const RETRIES: u32 = 4;
/// Waiting time before the first repetition. It doubles each time.
const BACKOFF: Duration = Duration::from_millis(500);

/// Classifier of text pairs with the labels `entailment` and `contradiction` behind the interface of Hugging Face's
/// text-embeddings-inference: `POST /predict` with `{"inputs": [PREMISE, HYPOTHESIS]}` gives `[{"label", "score"}]`.
pub struct EndpointEntailment {
    http: PlainHttpClient,
    /// Drives the connections of all threads.
    runtime: tokio::runtime::Runtime,
    path: String,
    url: String,
}

#[derive(Serialize)]
struct PairRequest {
    inputs: [String; 2],
    /// Long texts are shortened instead of refused.
    truncate: bool,
}

#[derive(Deserialize)]
struct LabelScore {
    label: String,
    score: f32,
}

impl EndpointEntailment {
    /// The judge at `http://HOST:PORT[/PATH]`. Nothing is sent yet.
    ///
    /// # Errors
    /// The address has another form.
    pub fn new(url: &str, timeout: Duration) -> Result<Self> {
        let fault = |error: String| Error::Endpoint(format!("--judge {url}: {error}"));
        let http = PlainHttpClient::new(url, None, timeout, MAX_RESPONSE_BYTES).map_err(|it| fault(it.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| fault(error.to_string()))?;
        let path = format!("{}/predict", http.path().trim_end_matches('/'));
        Ok(Self { path, http, runtime, url: url.to_owned() })
    }

    /// The scores, or why there are none and whether a repetition may help.
    fn attempt(&self, body: &[u8]) -> std::result::Result<EntailmentScores, (String, bool)> {
        let sent = self.runtime.block_on(self.http.send(Method::POST, &self.path, Some(body.to_vec())));
        let reply = sent.map_err(|error| (error.to_string(), true))?;
        if reply.status != StatusCode::OK {
            let busy = reply.status == StatusCode::TOO_MANY_REQUESTS || reply.status.is_server_error();
            return Err((format!("status {} for {}; expected 200", reply.status, self.path), busy));
        }
        // The error of the parser is left out, because it can quote the response.
        let scores: Vec<LabelScore> = serde_json::from_slice(&reply.bytes).map_err(|_| {
            let found = "the response is no list of labels and scores";
            (format!("{found}; expected [{{\"label\": TEXT, \"score\": NUMBER}}, ...]"), false)
        })?;
        let of = |label: &str| {
            let found = scores.iter().find(|it| it.label.eq_ignore_ascii_case(label)).map(|it| it.score);
            found.filter(|score| (0.0..=1.0).contains(score)).ok_or_else(|| {
                let labels: Vec<&str> = scores.iter().map(|it| it.label.as_str()).collect();
                let found = format!("the response has the labels {}", labels.join(", "));
                (format!("{found}; expected a probability of `{label}`"), false)
            })
        };
        Ok(EntailmentScores { entailment: of("entailment")?, contradiction: of("contradiction")? })
    }
}

impl Entailment for EndpointEntailment {
    fn name(&self) -> String {
        self.url.clone()
    }

    fn judge(&self, premise: &str, hypothesis: &str) -> Result<EntailmentScores> {
        let request = PairRequest { inputs: [as_picture(premise), as_picture(hypothesis)], truncate: true };
        let fault = |error: String| Error::Endpoint(format!("--judge {}: {error}", self.url));
        let body = serde_json::to_vec(&request).map_err(|error| fault(error.to_string()))?;
        let (mut wait, mut tries) = (BACKOFF, 0);
        loop {
            match self.attempt(&body) {
                Ok(scores) => return Ok(scores),
                Err((_, true)) if tries < RETRIES => {
                    std::thread::sleep(wait);
                    (wait, tries) = (wait * 2, tries + 1);
                }
                Err((reason, _)) => return Err(fault(reason)),
            }
        }
    }
}
