//! Textual entailment between captions: whether a text follows from another, and whether the two exclude each other.

mod content;
mod endpoint;
mod rules;

pub use endpoint::EndpointEntailment;
pub use rules::RuleEntailment;

use crate::Result;

/// Scores in [0, 1] of a premise and a hypothesis. A score above 0.5 means yes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EntailmentScores {
    /// The hypothesis follows from the premise.
    pub entailment: f32,
    /// Premise and hypothesis exclude each other.
    pub contradiction: f32,
}

/// The text that HierarCaps gives to a model that judges entailment (supplement, Sec. 2.1).
pub fn as_picture(text: &str) -> String {
    format!("a picture of: \"{text}\"")
}

/// A judge of textual entailment.
pub trait Entailment: Send + Sync {
    /// Name in reports and provenance.
    fn name(&self) -> String;

    /// Everything besides the texts that determines a judgement: the name and, for a model, its weights.
    fn identity(&self) -> String {
        self.name()
    }

    /// Judges whether `hypothesis` follows from `premise`. Both describe the same picture.
    ///
    /// # Errors
    /// The judge cannot be reached.
    fn judge(&self, premise: &str, hypothesis: &str) -> Result<EntailmentScores>;

    /// True if the general text follows from the specific one, and not the reverse: the condition of HierarCaps
    /// (supplement, Sec. 2.1) on neighbouring tiers.
    ///
    /// # Errors
    /// Returns the errors of [`Entailment::judge`].
    fn is_more_general(&self, general: &str, specific: &str) -> Result<bool> {
        Ok(self.judge(specific, general)?.entailment > 0.5 && self.judge(general, specific)?.entailment < 0.5)
    }

    /// True if the texts exclude each other.
    ///
    /// # Errors
    /// Returns the errors of [`Entailment::judge`].
    fn contradict(&self, premise: &str, hypothesis: &str) -> Result<bool> {
        Ok(self.judge(premise, hypothesis)?.contradiction > 0.5)
    }
}
