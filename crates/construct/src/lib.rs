//! Builds caption hierarchies from captions: four texts from general to specific for each caption, and four that
//! contradict them, as in HierarCaps (supplement, Sec. 2.1). Builds phrases with boxes from photos with captions
//! ([`grounding`]).
//!
//! A tier is made by rules (part-of-speech tags, is-a relations between nouns), by a language model behind an
//! OpenAI-compatible endpoint, or by a small model that was fine-tuned on hierarchies ([`distil`]), and is checked by a
//! judge of textual [`entailment`]. The [`pipeline`] runs the stages, each of which reads a file and writes one.
//!
//! ```
//! use std::sync::Arc;
//!
//! use conifer_construct::{Hypernyms, RuleCompleter, Tagger};
//!
//! let completer = RuleCompleter::new(Arc::new(Tagger::default()), Arc::new(Hypernyms::default()), 1);
//! let tiers = completer.complete("A black dog is running through the deep snow near a fence.").expect("has a subject");
//! assert_eq!(tiers[..2], ["animal", "dog"]);
//! ```

mod chunks;
mod clause;
mod completer;
pub mod distil;
pub mod entailment;
mod error;
mod expressions;
pub mod grounding;
mod hypernyms;
mod lexicon;
pub mod llm;
mod negatives;
pub mod pipeline;
mod tagger;
pub mod text;
mod wordnet;

pub use chunks::{NounChunk, noun_chunks};
pub use completer::RuleCompleter;
pub use error::{Error, Result};
pub use hypernyms::Hypernyms;
pub use negatives::RuleNegatives;
pub use tagger::{PartOfSpeech, Tagger, Token};
pub use wordnet::WordNetNouns;
