//! LLM client with retries, a rate limit and a response cache on disk.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use conifer_search::{ClientError, ClientReply, PlainHttpClient};
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::answers::{AnswerStore, StoredAnswer};
use super::prompts::Prompt;
use crate::pipeline::DropCause;
use crate::{Error, Result};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// First and longest waiting time before a request is repeated.
const BACKOFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// Number of consecutive prompts without an answer after which a run fails.
const MAX_FAILURES: u32 = 20;

/// HTTP API of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlmApi {
    /// `/completions`: the model continues a text, so a prompt may begin the answer.
    Completions,
    /// `/chat/completions`: the model answers a message.
    Chat,
}

/// Address of an endpoint and limits of its use.
#[derive(Clone)]
pub struct LlmSettings {
    /// `http://HOST:PORT[/PATH]`; the path is `/v1` if it is left out.
    pub url: String,
    /// Name of the model.
    pub model: String,
    /// API key, sent as `Authorization: Bearer KEY`.
    pub key: Option<String>,
    /// HTTP API of the endpoint.
    pub api: LlmApi,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Maximum number of repetitions of a failed request.
    pub retries: u32,
    /// Maximum number of requests per minute; `None` for no limit.
    pub per_minute: Option<u32>,
    /// Maximum number of tokens of an answer.
    pub max_tokens: u32,
    /// Seed of the model's draws.
    pub seed: u64,
}

/// Client of an endpoint.
pub struct LlmClient {
    http: PlainHttpClient,
    /// Drives the connections of all threads.
    runtime: tokio::runtime::Runtime,
    path: String,
    settings: LlmSettings,
    answers: AnswerStore,
    next_request: Mutex<Instant>,
    failures: AtomicU32,
    usage: UsageCounts,
}

/// Requests and tokens of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LlmUsage {
    /// Number of answers from the endpoint.
    pub asked: u64,
    /// Number of answers from disk.
    pub stored: u64,
    /// Number of repeated requests.
    pub repeated: u64,
    /// Tokens of the prompts that were sent, as counted by the endpoint.
    pub prompt_tokens: u64,
    /// Tokens of the answers from the endpoint.
    pub answer_tokens: u64,
}

#[derive(Default)]
struct UsageCounts {
    asked: AtomicU64,
    stored: AtomicU64,
    repeated: AtomicU64,
    prompt_tokens: AtomicU64,
    answer_tokens: AtomicU64,
}

#[derive(Serialize)]
struct CompletionRequest<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<[ChatMessage<'a>; 1]>,
    temperature: f32,
    max_tokens: u32,
    seed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<[&'a str; 1]>,
}

#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Deserialize)]
struct CompletionReply {
    choices: Vec<CompletionChoice>,
    #[serde(default)]
    usage: Option<TokenUsage>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    text: Option<String>,
    message: Option<ChoiceMessage>,
}

#[derive(Deserialize)]
struct ChoiceMessage {
    content: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// Result of one request.
enum Attempt {
    Answer(StoredAnswer),
    /// The request can be repeated, after this time if the endpoint gave one.
    Failed(DropCause, String, Option<Duration>),
    /// The request would fail again.
    Refused(DropCause, String),
}

impl LlmClient {
    /// The client of an endpoint; `answers` is the file of stored answers.
    ///
    /// # Errors
    /// The URL is not `http://HOST:PORT[/PATH]`, the key cannot be sent, or the file cannot be read.
    pub fn open(settings: LlmSettings, answers: &Path) -> Result<Self> {
        let http = PlainHttpClient::new(&settings.url, settings.key.as_deref(), settings.timeout, MAX_RESPONSE_BYTES)
            .map_err(|error| Error::Endpoint(format!("--llm {}: {error:#}", settings.url)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Error::Endpoint(format!("--llm {}: {error}", settings.url)))?;
        let base = if http.path() == "/" { "/v1" } else { http.path().trim_end_matches('/') };
        let path = match settings.api {
            LlmApi::Completions => format!("{base}/completions"),
            LlmApi::Chat => format!("{base}/chat/completions"),
        };
        Ok(Self {
            path,
            http,
            runtime,
            settings,
            answers: AnswerStore::open(answers)?,
            next_request: Mutex::new(Instant::now()),
            failures: AtomicU32::new(0),
            usage: UsageCounts::default(),
        })
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// Maximum number of concurrent requests.
    pub fn concurrency(&self) -> usize {
        self.settings.concurrency
    }

    /// HTTP API of the endpoint.
    pub fn api(&self) -> LlmApi {
        self.settings.api
    }

    /// All settings that determine an answer. The address is not one of them.
    pub fn identity(&self) -> String {
        let LlmSettings { model, api, max_tokens, seed, .. } = &self.settings;
        format!("{model} {api:?} {max_tokens} {seed}")
    }

    /// The requests and tokens so far.
    pub fn usage(&self) -> LlmUsage {
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        LlmUsage {
            asked: count(&self.usage.asked),
            stored: count(&self.usage.stored),
            repeated: count(&self.usage.repeated),
            prompt_tokens: count(&self.usage.prompt_tokens),
            answer_tokens: count(&self.usage.answer_tokens),
        }
    }

    /// Returns draw number `draw` for a prompt. The inner error is the cause if there is no answer.
    ///
    /// # Errors
    /// The endpoint rejects every request (status 401, 403, 404), has not answered many prompts in a row, or the answer
    /// cannot be stored.
    pub fn answer(&self, prompt: &Prompt, draw: u32) -> Result<std::result::Result<String, DropCause>> {
        let key = self.key(prompt, draw);
        if let Some(answer) = self.answers.get(&key) {
            self.usage.stored.fetch_add(1, Ordering::Relaxed);
            return Ok(Ok(answer.text));
        }
        let mut wait = BACKOFF[0];
        let mut tries = 0;
        loop {
            self.wait_for_turn();
            let (cause, reason) = match self.attempt(prompt, draw)? {
                Attempt::Answer(answer) => {
                    self.failures.store(0, Ordering::Relaxed);
                    self.usage.asked.fetch_add(1, Ordering::Relaxed);
                    self.usage.prompt_tokens.fetch_add(answer.prompt_tokens, Ordering::Relaxed);
                    self.usage.answer_tokens.fetch_add(answer.answer_tokens, Ordering::Relaxed);
                    let text = answer.text.clone();
                    self.answers.put(key, answer)?;
                    return Ok(Ok(text));
                }
                Attempt::Failed(_, _, after) if tries < self.settings.retries => {
                    tries += 1;
                    self.usage.repeated.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(after.unwrap_or(wait).min(BACKOFF[1]));
                    wait = (wait * 2).min(BACKOFF[1]);
                    continue;
                }
                Attempt::Failed(cause, reason, _) | Attempt::Refused(cause, reason) => (cause, reason),
            };
            if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES {
                return Err(Error::Endpoint(format!(
                    "--llm {}: {MAX_FAILURES} prompts in a row have no answer, the last: {reason}; start the endpoint and repeat \
                     the command, which asks only for what is missing",
                    self.settings.url
                )));
            }
            return Ok(Err(cause));
        }
    }

    /// As [`LlmClient::answer`], but returns only the first non-empty line of the answer.
    ///
    /// # Errors
    /// Returns the errors of [`LlmClient::answer`].
    pub fn line(&self, prompt: &Prompt, draw: u32) -> Result<std::result::Result<String, DropCause>> {
        let line =
            |text: String| text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
        Ok(self.answer(prompt, draw)?.map(line))
    }

    fn key(&self, prompt: &Prompt, draw: u32) -> String {
        let mut hash = Sha256::new();
        let Prompt { text, begin, temperature, stop } = prompt;
        let settings = [self.identity(), format!("{temperature} {stop:?} {draw}"), begin.clone(), text.clone()];
        for part in settings {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hex::encode(hash.finalize())
    }

    /// Sleeps until the rate limit allows a request.
    fn wait_for_turn(&self) {
        let Some(per_minute) = self.settings.per_minute else { return };
        let gap = Duration::from_secs(60) / per_minute.max(1);
        let turn = {
            let mut next = self.next_request.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + gap;
            turn
        };
        std::thread::sleep(turn.saturating_duration_since(Instant::now()));
    }

    fn attempt(&self, prompt: &Prompt, draw: u32) -> Result<Attempt> {
        let chat = self.settings.api == LlmApi::Chat;
        let content = prompt.as_message();
        let request = CompletionRequest {
            model: &self.settings.model,
            prompt: (!chat).then(|| prompt.as_text()),
            messages: chat.then_some([ChatMessage { role: "user", content: &content }]),
            temperature: prompt.temperature,
            max_tokens: self.settings.max_tokens,
            // Some servers accept only seeds of up to 31 bits.
            seed: (self.settings.seed as u32).wrapping_mul(0x9e37_79b9).wrapping_add(draw) & 0x7fff_ffff,
            stop: prompt.stop.map(|it| [it]),
        };
        let fault = |error: String| Error::Endpoint(format!("--llm {}: {error}", self.settings.url));
        let body = serde_json::to_vec(&request).map_err(|error| fault(error.to_string()))?;
        let reply = match self.runtime.block_on(self.http.send(Method::POST, &self.path, Some(body))) {
            Ok(reply) => reply,
            Err(ClientError::Timeout(limit)) => {
                let reason = format!("no answer within {} s", limit.as_secs_f64());
                return Ok(Attempt::Failed(DropCause::EndpointDown, reason, None));
            }
            Err(error) => return Ok(Attempt::Failed(DropCause::EndpointDown, error.to_string(), None)),
        };
        match reply.status {
            StatusCode::OK => Ok(parsed(&reply)),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Err(fault(format!(
                "status {} for {}; expected 200; check the address, --llm-model and --llm-key-env",
                reply.status, self.path
            ))),
            status => {
                let reason = format!("status {status}; expected 200");
                let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
                let after = reply.headers.get("retry-after").and_then(|it| it.to_str().ok()?.parse().ok());
                Ok(match busy {
                    true => Attempt::Failed(DropCause::EndpointStatus, reason, after.map(Duration::from_secs)),
                    false => Attempt::Refused(DropCause::EndpointStatus, reason),
                })
            }
        }
    }
}

fn parsed(reply: &ClientReply) -> Attempt {
    // The error of the parser is left out, because it can quote the response.
    let parsed = serde_json::from_slice::<CompletionReply>(&reply.bytes).ok();
    let text = parsed.and_then(|it| {
        let usage = it.usage.unwrap_or_default();
        let choice = it.choices.into_iter().next()?;
        let text = choice.text.or_else(|| choice.message?.content)?;
        Some(StoredAnswer { text, prompt_tokens: usage.prompt_tokens, answer_tokens: usage.completion_tokens })
    });
    match text {
        Some(answer) => Attempt::Answer(answer),
        None => {
            let reason = "no text at `choices[0]` of the response".to_owned();
            Attempt::Failed(DropCause::EndpointAnswer, reason, None)
        }
    }
}
