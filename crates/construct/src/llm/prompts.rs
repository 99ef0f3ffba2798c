//! Prompts: the three instructions of HierarCaps, and lists of hierarchies that a model continues.

use rand::SeedableRng as _;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

use crate::negatives::key_of;
use crate::pipeline::{HierarchyRow, Stage, TIERS, WorkFolder};
use crate::{Error, Result};

/// Number of hierarchies in a prompt.
const SHOTS: usize = 10;

/// A prompt with the settings of its draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The instruction or the list.
    pub text: String,
    /// Start of the answer, which the model continues. A chat endpoint gets it only for lists.
    pub begin: String,
    /// Sampling temperature.
    pub temperature: f32,
    /// Text at which the model stops.
    pub stop: Option<&'static str>,
}

impl Prompt {
    /// The prompt for an endpoint that continues a text.
    pub(super) fn as_text(&self) -> String {
        format!("{}\n{}", self.text, self.begin)
    }

    /// The prompt for an endpoint that answers a message. Only a list includes `begin`, the start of its last line.
    pub(super) fn as_message(&self) -> String {
        if self.stop == Some("\n") {
            let task =
                "Complete the last line in the manner of the other lines. Answer with the rest of that line only.";
            return format!("{task}\n\n{}\n{}", self.text, self.begin);
        }
        self.text.clone()
    }
}

/// An instruction of HierarCaps (supplement, Fig. 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedPrompt {
    /// The third tier from the caption.
    Shorten,
    /// The second tier from the third.
    FillBlank,
    /// The first tier from the second.
    GeneralConcept,
}

impl SeedPrompt {
    /// The prompt with a text in its slot.
    pub fn prompt(self, text: &str) -> Prompt {
        let (instruction, begin) = match self {
            Self::Shorten => (
                format!(
                    "Shorten the following image caption. Feel free to remove details.\nPut your answer in quotation marks: \" \"\n\n\"{text}\""
                ),
                format!(
                    "Sure! Here is the original caption and its shortened version:\n\nOriginal caption: \"{text}\"\nShortened version: \""
                ),
            ),
            Self::FillBlank => (
                format!(
                    "You are given the following caption to an image:\n\n\"{text}\"\n\nWhat one or two words should be filled in the blank in the \
                     following alternative caption for the same image?\n\n\"A picture of (a/the) ___ .\""
                ),
                "The best word or words to fill in the blank would be: \"A picture of (a/the)".to_owned(),
            ),
            Self::GeneralConcept => (
                format!(
                    "What term describes a general concept that includes \"{text}\"?\nAnswer in one or two words, and put your answer in quotation \
                     marks: \" \""
                ),
                "The best term that includes the given word or phrase is \"".to_owned(),
            ),
        };
        Prompt { text: instruction, begin, temperature: 1.2, stop: None }
    }

    /// The text in quotation marks of an answer, without the words around the blank of [`Self::FillBlank`]; `None` if a
    /// quotation mark is missing or nothing is left. `begun` is true if the prompt already has the opening mark.
    pub fn quoted(self, answer: &str, begun: bool) -> Option<String> {
        let is_quote = |c: char| matches!(c, '"' | '\u{201c}' | '\u{201d}');
        let inner = match begun {
            true => &answer[..answer.find(is_quote)?],
            false => {
                let from = answer.find(is_quote)?;
                let rest = &answer[from + answer[from..].chars().next()?.len_utf8()..];
                &rest[..rest.find(is_quote)?]
            }
        };
        let mut text = inner.trim();
        if self == Self::FillBlank {
            text = text.strip_prefix("A picture of").unwrap_or(text).trim();
            for article in ["(a/the)", "a ", "an ", "the "] {
                text = text.strip_prefix(article).unwrap_or(text).trim();
            }
            text = text.trim_end_matches(['.', ' ']);
        }
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// Order of the tiers in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadingDirection {
    /// From general to specific.
    Forward,
    /// From the caption to the general concept.
    Backward,
}

impl ReadingDirection {
    fn arrow(self) -> &'static str {
        match self {
            Self::Forward => "->",
            Self::Backward => "<-",
        }
    }

    /// The tiers of a line, without empty ones at its ends.
    pub fn split(self, line: &str) -> Vec<String> {
        let line = line.trim().trim_start_matches(self.arrow()).trim_end_matches(self.arrow());
        line.split(self.arrow()).map(|tier| tier.trim().to_owned()).collect()
    }

    fn line(self, tiers: &[String; TIERS]) -> String {
        let mut tiers: Vec<&str> = tiers.iter().map(String::as_str).collect();
        if self == Self::Backward {
            tiers.reverse();
        }
        tiers.join(&format!(" {} ", self.arrow()))
    }
}

/// Hierarchies from which prompts draw their examples.
pub struct Shots {
    rows: Vec<[String; TIERS]>,
}

impl Shots {
    /// The hierarchies of the grow stage.
    ///
    /// # Errors
    /// The file cannot be read, or has no row.
    pub fn read(work: &WorkFolder) -> Result<Self> {
        Self::of_stage(work, Stage::Grow)
    }

    /// The hierarchies of a stage.
    ///
    /// # Errors
    /// The file cannot be read, or has no row.
    pub fn of_stage(work: &WorkFolder, stage: Stage) -> Result<Self> {
        let rows = work.rows::<HierarchyRow>(stage)?.map(|row| Ok(row?.positive)).collect::<Result<Vec<_>>>()?;
        if rows.is_empty() {
            return Err(Error::invalid(
                format!("`{}`", work.file(stage).display()),
                "no hierarchy",
                "at least one that a prompt can show; more captions, or a better model",
            ));
        }
        Ok(Self { rows })
    }

    /// A list of up to ten hierarchies and the beginning of the next line. `seed` and `key` determine which
    /// hierarchies.
    pub fn prompt(&self, direction: ReadingDirection, given: &[&str], seed: u64, key: &str) -> Prompt {
        let mut rng = ChaCha8Rng::from_seed(key_of(seed, key));
        let chosen = sample(&mut rng, self.rows.len(), SHOTS.min(self.rows.len()));
        let lines: Vec<String> = chosen.into_iter().map(|row| direction.line(&self.rows[row])).collect();
        let arrow = direction.arrow();
        let begin = given.iter().map(|tier| format!("{tier} {arrow}")).collect::<Vec<_>>().join(" ");
        Prompt { text: lines.join("\n"), begin, temperature: 1.0, stop: Some("\n") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_extracted() {
        use SeedPrompt::{FillBlank, GeneralConcept, Shorten};
        for (prompt, answer, begun, expected) in [
            (Shorten, "Sure: \"A dog runs\". Or \"a dog\".", false, Some("A dog runs")),
            (Shorten, " A dog runs\"\nEnd", true, Some("A dog runs")),
            (Shorten, "A dog runs", false, None),
            (Shorten, "A dog \"runs", false, None),
            (FillBlank, "\"A picture of (a/the) dog .\"", false, Some("dog")),
            (FillBlank, " the old dog.\"", true, Some("old dog")),
            (GeneralConcept, "\u{201c}animal\u{201d}", false, Some("animal")),
            (GeneralConcept, "\"\"", false, None),
        ] {
            assert_eq!(prompt.quoted(answer, begun).as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn lists_run_in_both_directions() {
        let tiers = ["animal", "dog", "dog in snow", "A dog is in the snow ."].map(str::to_owned);
        let shots = Shots { rows: vec![tiers] };
        let prompt = shots.prompt(ReadingDirection::Backward, &["a cat"], 0, "a");
        assert_eq!(prompt.as_text(), "A dog is in the snow . <- dog in snow <- dog <- animal\na cat <-");
        assert_eq!(
            shots.prompt(ReadingDirection::Forward, &[], 0, "a").as_text(),
            "animal -> dog -> dog in snow -> A dog is in the snow .\n"
        );
        assert_eq!(
            ReadingDirection::Backward.split(" dog in snow <- dog <- animal "),
            ["dog in snow", "dog", "animal"]
        );
    }
}
