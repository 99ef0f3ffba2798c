//! A language model behind an OpenAI-compatible endpoint (llama.cpp's server, vLLM, Ollama).
//!
//! Answers are stored on disk by prompt, settings and number of the draw, so a repeated run sends no request twice.

mod answers;
mod client;
mod prompts;

pub use client::{LlmApi, LlmClient, LlmSettings, LlmUsage};
pub use prompts::{Prompt, ReadingDirection, SeedPrompt, Shots};
