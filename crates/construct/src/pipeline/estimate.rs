//! Number of prompts of a run with a language model, computed before the first request.

use serde::Serialize;

use super::{Pipeline, Stage, TIERS};

/// Approximate number of characters per token of English text.
const CHARS_PER_TOKEN: u64 = 4;
/// Number of characters of a prompt with ten hierarchies of HierarCaps.
const LIST_CHARS: u64 = 1200;
/// Number of characters of an instruction with a caption.
const INSTRUCTION_CHARS: u64 = 330;
/// Draws of a model for each negative tier.
const TRIES: u64 = 8;

/// Estimated number of prompts of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PromptEstimate {
    /// The stage.
    pub stage: Stage,
    /// Number of prompts if every first draw is valid.
    pub fewest: u64,
    /// Number of prompts if no draw is valid before the last.
    pub most: u64,
    /// Approximate number of tokens of `fewest` prompts, without the answers.
    pub tokens: u64,
}

impl Pipeline<'_> {
    /// Estimates the prompts for a number of captions. Stored answers are not subtracted.
    pub fn estimate(&self, captions: u64) -> Vec<PromptEstimate> {
        let settings = &self.settings;
        let of = |stage, fewest: u64, most: u64, chars: u64| PromptEstimate {
            stage,
            fewest,
            most,
            tokens: fewest * chars / CHARS_PER_TOKEN,
        };
        let asked = if settings.seed_hierarchies.is_some() { 0 } else { settings.seed_captions as u64 };
        let seeds = captions.min(asked);
        let grown = settings.grow_count as u64;
        let tiers = TIERS as u64;
        let mut stages = vec![
            of(Stage::Seeds, 3 * seeds, 3 * seeds, INSTRUCTION_CHARS),
            of(Stage::Grow, grown, 4 * grown, LIST_CHARS),
        ];
        if self.completing_llm().is_some() {
            let most = captions * u64::from(settings.candidates);
            stages.push(of(Stage::Complete, captions, most, LIST_CHARS));
            stages.push(of(Stage::Negatives, tiers * captions, tiers * captions * TRIES, LIST_CHARS));
        }
        stages
    }
}
