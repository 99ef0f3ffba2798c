pub(super) mod novel;
mod precision;
mod vote;

use std::collections::BTreeSet;

use conifer_data::PartRule;

use super::boxes::{EmbeddedBoxes, embed_boxes};
use super::{Benchmark, Context, RequiredInput};
use crate::{Error, Record, Result};

/// Classification of ground-truth boxes. HyCoCLIP and Wang et al. call this zero-shot object detection with
/// ground-truth boxes.
///
/// The text of a phrase is the class of its boxes, and a box is embedded as a crop. Neither paper mentions a minimum
/// size, so boxes of all sizes are kept. About half of them (314 of 619 in 79 photos of COCO val2017) cover less than 1
/// % of their photo. Boxes of groups (crowds in COCO) are left out, because COCO's evaluator does not count them. The
/// protocol states how many were left out.
///
/// * Average precision against class prompts: `precision`.
/// * Accuracy of the majority vote of the five most similar boxes: `vote`.
pub(super) struct Detection;

impl Benchmark for Detection {
    fn name(&self) -> &'static str {
        "detection"
    }
    fn summary(&self) -> &'static str {
        "classes of ground-truth boxes: average precision against class prompts, and the vote of the five nearest boxes"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 3 (AP, 17 novel classes of COCO), visual hierarchies (Wang et al.) Table 4 (vote)"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Phrases]
    }

    fn prompts(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let samples = context.samples(self.name())?;
        let all = samples.iter().flat_map(|it| &it.phrases);
        let groups: usize = all.filter(|phrase| phrase.group_of).map(|phrase| phrase.boxes.len()).sum();
        let proposals = Proposals::new(embed_boxes(self.name(), context, &samples, |group, _| !group)?);
        if proposals.boxes.class_of.is_empty() {
            return Err(Error::Missing {
                benchmark: self.name(),
                missing: "every phrase with a box".into(),
                expected: "expected boxes of single objects, with the class as the phrase".into(),
            });
        }
        let note = if groups > 0 { format!(", boxes of groups left out: {groups}") } else { String::new() };
        let mut records = precision::records(context, &proposals, &note)?;
        records.extend(vote::records(context, &proposals, &note)?);
        Ok(records)
    }
}

const NAME: &str = "detection";

/// The boxes to classify, and their classes.
struct Proposals {
    boxes: EmbeddedBoxes,
    /// Names of the classes, sorted.
    classes: Vec<String>,
    /// Index in `classes` of the class of each box.
    labels: Vec<usize>,
}

impl Proposals {
    fn new(boxes: EmbeddedBoxes) -> Self {
        let classes: BTreeSet<&String> = boxes.class_of.iter().collect();
        let classes: Vec<String> = classes.into_iter().cloned().collect();
        // `binary_search` always succeeds, because the classes come from the boxes.
        let labels = boxes.class_of.iter().filter_map(|class| classes.binary_search(class).ok()).collect();
        Self { boxes, classes, labels }
    }

    /// Indices of the boxes that a size rule keeps.
    fn selected_rows(&self, rule: &PartRule) -> Vec<usize> {
        (0..self.labels.len()).filter(|&i| rule.keeps(&self.boxes.bboxes[i])).collect()
    }

    fn points(&self, rows: &[usize], dim: usize) -> Vec<f32> {
        rows.iter().flat_map(|&row| &self.boxes.points[row * dim..(row + 1) * dim]).copied().collect()
    }
}
