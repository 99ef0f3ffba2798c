use super::contrasts::{CaptionPairOutcomes, EmbeddedRegion};
use super::{Benchmark, Context, RequiredInput};
use crate::Result;
use crate::record::{Record, RecordKey};

/// SugarCrepe: accuracy in distinguishing the caption of a photo from one in which an object, attribute or relation was
/// replaced, swapped or added.
///
/// An item is correct if `score(photo, caption) > score(photo, negative caption)`; a tie is wrong. The records are the
/// accuracy of each of the seven subsets, the accuracy over all items (printed as "overall" by PHyCLIP's evaluator),
/// and the mean over the subsets. PHyCLIP resizes photos to a square, while SugarCrepe's own evaluator crops the
/// centre. The protocol names the crop.
pub(super) struct Sugarcrepe;

/// Names of the subsets, which are those of the published files.
const SUBSETS: &[&str] = &["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"];

impl Benchmark for Sugarcrepe {
    fn name(&self) -> &'static str {
        "sugarcrepe"
    }
    fn summary(&self) -> &'static str {
        "accuracy of photos between a caption and a hard negative: each of seven subsets, all items, mean over subsets"
    }
    fn reference(&self) -> &'static str {
        "PHyCLIP Table 3; Hsieh et al. 2023"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Captions, RequiredInput::WrongCaptions]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let found = CaptionPairOutcomes::measure(context, self.name(), EmbeddedRegion::Whole)?;
        let (subsets, subset_of) = found.subsets(context, self.name(), SUBSETS)?;
        let seed = context.options.seed;
        let mut records = Vec::new();
        for (subset, number) in subsets.iter().zip(0..) {
            let items: Vec<usize> = (0..subset_of.len()).filter(|&item| subset_of[item] == number).collect();
            let key =
                RecordKey { benchmark: self.name(), split: subset, protocol: &found.protocol, metric: "accuracy" };
            records.push(found.mean(key, &items, seed));
        }
        let items: Vec<usize> = (0..subset_of.len()).collect();
        let all = |metric| RecordKey { benchmark: self.name(), split: "all", protocol: &found.protocol, metric };
        records.push(found.mean(all("accuracy (micro)"), &items, seed));
        let metric = format!("accuracy (mean over {} subsets)", subsets.len());
        records.push(found.mean_of_groups(all(&metric), &items, &subset_of, seed));
        Ok(records)
    }
}
