use serde::{Deserialize, Serialize};

/// Why a caption, a generated text, a phrase, a photo or a box did not pass a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropCause {
    /// The source could not read the sample: an empty caption, one of more than 16,384 characters, a bad record.
    BrokenSample,
    /// Fewer words than `--min-words`.
    TooShort,
    /// More than [`super::MAX_WORDS`] words, or more characters than the source accepts.
    TooLong,
    /// No ASCII letter or digit, a control or replacement character, or the delimiter of HierarCaps' files.
    Characters,
    /// Not English by its function words.
    NotEnglish,
    /// An earlier caption has the same words.
    Duplicate,
    /// No noun that could be the subject.
    NoNoun,
    /// The subject is negated: "no people".
    NegatedSubject,
    /// The subject has no known hypernym and no longer form.
    NoGeneralTier,
    /// No part of the caption is longer than the second tier and short enough for the third.
    NoThirdTier,
    /// The tiers form no hierarchy: a tier does not follow from the tier below it, both follow from each other or are
    /// equal, a tier has no word or an invalid character, or the third tier is too long.
    NotEntailed,
    /// A model gave no text with four tiers.
    NotFourTiers,
    /// No text in quotation marks in the answer of a model.
    NoQuotes,
    /// No try gave a valid negative tier.
    NoNegative,
    /// The endpoint answered with an error status.
    EndpointStatus,
    /// The response of the endpoint is no completion.
    EndpointAnswer,
    /// The endpoint did not answer.
    EndpointDown,
    /// Rejected in the review file.
    Rejected,
    /// The caption has no text, or the sample has no caption.
    EmptyCaption,
    /// The sample names no photo.
    NoPhoto,
    /// The photo is not a separate file, but part of a shard, a drawing or a vector.
    NoPhotoFile,
    /// The photo does not exist or cannot be read.
    PhotoGone,
    /// The photo is no image, is damaged, or is too large, too small or too narrow.
    PhotoUnreadable,
    /// The caption has no noun chunk.
    NoPhrase,
    /// The noun is in the list of abstract nouns.
    AbstractNoun,
    /// An earlier phrase of the photo has the same words. The position is added to the earlier phrase.
    RepeatedPhrase,
    /// No box of the photo is left.
    NoBox,
    /// The line is not a proposal.
    MalformedProposal,
    /// The photo of the proposal is not in the data.
    UnknownPhoto,
    /// The box is inverted, not finite, or reaches out of its photo.
    BoxOutside,
    /// The box is smaller than `--min-box`.
    SmallBox,
    /// The best box has less than the required similarity or probability.
    BelowThreshold,
    /// The noun chunk of the expression was dropped.
    ChunkDropped,
    /// No phrase of the photo is left.
    PhotoWithoutPhrase,
}

impl DropCause {
    /// Name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::BrokenSample => "broken_sample",
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::Characters => "characters",
            Self::NotEnglish => "not_english",
            Self::Duplicate => "duplicate",
            Self::NoNoun => "no_noun",
            Self::NegatedSubject => "negated_subject",
            Self::NoGeneralTier => "no_general_tier",
            Self::NoThirdTier => "no_third_tier",
            Self::NotEntailed => "not_entailed",
            Self::NotFourTiers => "not_four_tiers",
            Self::NoQuotes => "no_quotes",
            Self::NoNegative => "no_negative",
            Self::EndpointStatus => "endpoint_status",
            Self::EndpointAnswer => "endpoint_answer",
            Self::EndpointDown => "endpoint_down",
            Self::Rejected => "rejected",
            Self::EmptyCaption => "empty_caption",
            Self::NoPhoto => "no_photo",
            Self::NoPhotoFile => "no_photo_file",
            Self::PhotoGone => "photo_gone",
            Self::PhotoUnreadable => "photo_unreadable",
            Self::NoPhrase => "no_phrase",
            Self::AbstractNoun => "abstract_noun",
            Self::RepeatedPhrase => "repeated_phrase",
            Self::NoBox => "no_box",
            Self::MalformedProposal => "malformed_proposal",
            Self::UnknownPhoto => "unknown_photo",
            Self::BoxOutside => "box_outside",
            Self::SmallBox => "small_box",
            Self::BelowThreshold => "below_threshold",
            Self::ChunkDropped => "chunk_dropped",
            Self::PhotoWithoutPhrase => "photo_without_phrase",
        }
    }

    /// True if the caption may pass when the command is repeated.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::EndpointStatus | Self::EndpointAnswer | Self::EndpointDown)
    }
}
