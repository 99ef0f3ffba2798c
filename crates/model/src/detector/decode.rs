//! Boxes and scores from the outputs of a detector. Needs no ONNX Runtime.

use super::LogitKind;
use super::layout::{DetectionLayout, OutputPlan};
use crate::onnx::OnnxOutput;

/// Scores outside of [0, 1] by more than this are no probabilities. Rounding in f16 stays below it.
const SCORE_SLACK: f32 = 1e-3;

/// A box in pixels of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RawBox {
    /// Left, top, right and bottom border.
    pub(super) corners: [f32; 4],
    pub(super) score: f32,
    /// `None` if the model has no classes.
    pub(super) class: Option<usize>,
}

impl RawBox {
    pub(super) fn is_finite(&self) -> bool {
        self.score.is_finite() && self.corners.iter().all(|it| it.is_finite())
    }

    fn centred([x, y, width, height]: [f32; 4], score: f32, class: usize) -> Self {
        let (half_width, half_height) = (width / 2.0, height / 2.0);
        let corners = [x - half_width, y - half_height, x + half_width, y + half_height];
        Self { corners, score, class: Some(class) }
    }
}

/// The boxes whose score is at least `min_score` or not a number, in the order of the outputs. `size` is the width and
/// height of the input. `Err` names an output of another shape, or scores that are no probabilities.
pub(super) fn decode(
    plan: &OutputPlan,
    outputs: &[OnnxOutput],
    size: (usize, usize),
    min_score: f32,
    logits: LogitKind,
) -> Result<Vec<RawBox>, String> {
    let boxes = match plan.layout {
        DetectionLayout::Corners => corners(outputs),
        DetectionLayout::Queries => queries(outputs, size, logits),
        DetectionLayout::Grid => grid(plan.declared(), outputs),
    }?;
    let is_wrong = |score: f32| !score.is_nan() && !(-SCORE_SLACK..=1.0 + SCORE_SLACK).contains(&score);
    if let Some(wrong) = boxes.iter().map(|it| it.score).find(|score| is_wrong(*score)) {
        return Err(format!(
            "a score is {wrong}; expected scores in [0, 1]. Export the detector with probabilities as scores, in one of \
             the layouts of the documentation"
        ));
    }
    Ok(boxes.into_iter().filter(|it| it.score.is_nan() || it.score >= min_score).collect())
}

fn corners(outputs: &[OnnxOutput]) -> Result<Vec<RawBox>, String> {
    let [boxes, scores, labels @ ..] = outputs else { return Err("outputs are missing".to_owned()) };
    let (boxes, scores) = (Table::of(boxes, "boxes", Some(4))?, column(scores, "scores")?);
    let labels = labels.first().map(|it| column(it, "labels")).transpose()?;
    for (name, found) in [("scores", Some(scores)), ("labels", labels)] {
        if let Some(found) = found.filter(|it| it.len() != boxes.rows) {
            return Err(format!(
                "there are {} {name} for {} boxes; expected one for each box",
                found.len(),
                boxes.rows
            ));
        }
    }
    let row = |(number, &score): (usize, &f32)| RawBox {
        corners: boxes.four(number),
        score,
        class: labels.and_then(|it| it.get(number)).map(|label| label.max(0.0) as usize),
    };
    Ok(scores.iter().enumerate().map(row).collect())
}

fn queries(outputs: &[OnnxOutput], (width, height): (usize, usize), kind: LogitKind) -> Result<Vec<RawBox>, String> {
    let [boxes, logits] = outputs else { return Err("outputs are missing".to_owned()) };
    let (boxes, logits) = (Table::of(boxes, "pred_boxes", Some(4))?, Table::of(logits, "logits", None)?);
    if logits.rows != boxes.rows {
        return Err(format!(
            "there are {} rows of logits for {} boxes; expected equal numbers",
            logits.rows, boxes.rows
        ));
    }
    let least = if kind == LogitKind::Softmax { 2 } else { 1 };
    if logits.columns < least {
        return Err(format!("the logits have {} columns; expected at least {least}", logits.columns));
    }
    let row = |number: usize| {
        let [x, y, w, h] = boxes.four(number);
        let (width, height) = (width as f32, height as f32);
        let (class, score) = query_score(logits.row(number), kind);
        RawBox::centred([x * width, y * height, w * width, h * height], score, class)
    };
    Ok((0..boxes.rows).map(row).collect())
}

/// The best class of a row of logits with its score.
fn query_score(logits: &[f32], kind: LogitKind) -> (usize, f32) {
    match kind {
        LogitKind::Sigmoid => {
            let (class, logit) = largest(logits.iter().copied());
            (class, 1.0 / (1.0 + (-logit).exp()))
        }
        LogitKind::Softmax => {
            let (_, most) = largest(logits.iter().copied());
            let total: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
            let objects = logits.len().saturating_sub(1);
            let (class, logit) = largest(logits.iter().take(objects).copied());
            (class, (logit - most).exp() / total)
        }
    }
}

fn grid(declared: &[i64], outputs: &[OnnxOutput]) -> Result<Vec<RawBox>, String> {
    let [output] = outputs else { return Err("outputs are missing".to_owned()) };
    let &[1, second, third] = output.shape.as_slice() else {
        return Err(format!("the output has shape {:?}; expected [1, 4 + C, N] or [1, N, 5 + C]", output.shape));
    };
    // The number of boxes may depend on the photo, the number of classes does not. If the file declares both sizes, or
    // none, there are more boxes than columns.
    let features_first = match *declared {
        [_, second, third] if (second < 0) != (third < 0) => third < 0,
        _ => second < third,
    };
    let least = if features_first { 5 } else { 6 };
    let columns = if features_first { second } else { third };
    if second == third || columns < least || output.values.len() != second * third {
        return Err(format!(
            "the output has shape {:?} with {} values; expected [1, 4 + C, N] or [1, N, 5 + C] with at least one class and \
             more boxes than columns",
            output.shape,
            output.values.len()
        ));
    }
    let boxes = if features_first { third } else { second };
    let at = |number: usize, column: usize| {
        let place = if features_first { column * third + number } else { number * third + column };
        output.values.get(place).copied().unwrap_or(f32::NAN)
    };
    let row = |number: usize| {
        // The classes follow the four numbers of the box, and in v5 the probability that there is a thing.
        let (class, likely) = largest((least - 1..columns).map(|column| at(number, column)));
        let score = if features_first { likely } else { likely * at(number, 4) };
        RawBox::centred([0, 1, 2, 3].map(|column| at(number, column)), score, class)
    };
    Ok((0..boxes).map(row).collect())
}

/// Position and value of the largest number; the first one of several. NaN if one is NaN.
fn largest(values: impl Iterator<Item = f32>) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (position, value) in values.enumerate() {
        if value.is_nan() {
            return (position, value);
        }
        if value > best.1 {
            best = (position, value);
        }
    }
    best
}

/// The values of an output `[N]` or `[1, N]`.
fn column<'a>(output: &'a OnnxOutput, name: &str) -> Result<&'a [f32], String> {
    match *output.shape.as_slice() {
        [count] | [1, count] if output.values.len() == count => Ok(&output.values),
        _ => Err(wrong_shape(output, name, "[N] or [1, N]")),
    }
}

fn wrong_shape(output: &OnnxOutput, name: &str, expected: &str) -> String {
    format!("{name} have shape {:?} with {} values; expected {expected}", output.shape, output.values.len())
}

/// An output as rows and columns, without the axis of the batch.
struct Table<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
}

impl<'a> Table<'a> {
    /// `columns` is the number of columns, if there is only one valid number.
    fn of(output: &'a OnnxOutput, name: &str, columns: Option<usize>) -> Result<Self, String> {
        match *output.shape.as_slice() {
            [rows, found] | [1, rows, found]
                if columns.is_none_or(|it| it == found) && output.values.len() == rows * found =>
            {
                Ok(Self { values: &output.values, rows, columns: found })
            }
            _ => {
                let width = columns.map_or_else(|| "K".to_owned(), |columns| columns.to_string());
                Err(wrong_shape(output, name, &format!("[N, {width}] or [1, N, {width}]")))
            }
        }
    }

    fn row(&self, row: usize) -> &[f32] {
        self.values.get(row * self.columns..(row + 1) * self.columns).unwrap_or_default()
    }

    /// The first four columns of a row.
    fn four(&self, row: usize) -> [f32; 4] {
        self.row(row).first_chunk().copied().unwrap_or([f32::NAN; 4])
    }
}

#[cfg(test)]
mod tests;
