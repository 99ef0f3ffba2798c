//! Recognises the outputs of a detector by their names and shapes.

use crate::onnx::{OnnxElement, OnnxPort};

/// The outputs that are read, in the order that their layout needs.
#[derive(Debug)]
pub(super) struct OutputPlan {
    pub(super) layout: DetectionLayout,
    /// Corners: boxes, scores, and perhaps labels. Queries: boxes, logits. Grid: the only output.
    ports: Vec<OnnxPort>,
}

/// How outputs describe boxes; the table of [`crate::detector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetectionLayout {
    /// Corners and scores in separate outputs (torchvision).
    Corners,
    /// Logits and boxes in separate outputs (DETR).
    Queries,
    /// Boxes and scores of classes in one output (YOLO).
    Grid,
}

impl OutputPlan {
    /// The plan for these outputs of a file. `Err` names the outputs and the layouts.
    pub(super) fn new(outputs: &[OnnxPort]) -> Result<Self, String> {
        let plan = by_name(outputs).or_else(|| by_shape(outputs));
        plan.map(|(layout, ports)| Self { layout, ports: ports.into_iter().cloned().collect() }).ok_or_else(|| {
            format!(
                "the outputs are {}; expected float32 outputs `boxes` [N, 4] and `scores` [N] (and perhaps `labels` [N]), \
                 or `logits` [1, N, K] and `pred_boxes` [1, N, 4], or a single output [1, 4 + C, N] or [1, N, 5 + C]; \
                 export the detector with one of these layouts",
                shown(outputs)
            )
        })
    }

    /// The outputs, in order.
    pub(super) fn ports(&self) -> Vec<&OnnxPort> {
        self.ports.iter().collect()
    }

    /// The shape that the file declares for the first output.
    pub(super) fn declared(&self) -> &[i64] {
        self.ports.first().map_or(&[], |port| &port.shape)
    }
}

fn by_name(outputs: &[OnnxPort]) -> Option<(DetectionLayout, Vec<&OnnxPort>)> {
    let named =
        |names: &[&str]| outputs.iter().find(|port| names.iter().any(|name| port.name.eq_ignore_ascii_case(name)));
    let floats = |names: &[&str]| named(names).filter(|port| port.element == OnnxElement::F32);
    if let (Some(boxes), Some(scores)) = (floats(&["boxes"]), floats(&["scores"])) {
        let labels = named(&["labels"]).filter(|port| port.element != OnnxElement::Other);
        return Some((DetectionLayout::Corners, [Some(boxes), Some(scores), labels].into_iter().flatten().collect()));
    }
    match (floats(&["pred_boxes"]), floats(&["pred_logits", "logits"])) {
        (Some(boxes), Some(logits)) => Some((DetectionLayout::Queries, vec![boxes, logits])),
        _ => None,
    }
}

fn by_shape(outputs: &[OnnxPort]) -> Option<(DetectionLayout, Vec<&OnnxPort>)> {
    if let [only] = outputs {
        let is_grid = only.element == OnnxElement::F32 && only.shape.len() == 3;
        return is_grid.then(|| (DetectionLayout::Grid, vec![only]));
    }
    let boxes = only_one(outputs, |port| {
        port.element == OnnxElement::F32 && matches!(port.shape.as_slice(), [_, 4] | [_, _, 4])
    })?;
    let flat = |port: &OnnxPort| port.shape.len() + 1 == boxes.shape.len();
    let scores = only_one(outputs, |port| port.element == OnnxElement::F32 && flat(port))?;
    let labels = only_one(outputs, |port| matches!(port.element, OnnxElement::I64 | OnnxElement::I32) && flat(port));
    Some((DetectionLayout::Corners, [Some(boxes), Some(scores), labels].into_iter().flatten().collect()))
}

/// The port with this property, if there is exactly one.
fn only_one(ports: &[OnnxPort], is: impl Fn(&OnnxPort) -> bool) -> Option<&OnnxPort> {
    let mut found = ports.iter().filter(|port| is(port));
    found.next().filter(|_| found.next().is_none())
}

/// Names, types and shapes of ports, for messages.
pub(super) fn shown(ports: &[OnnxPort]) -> String {
    let element = |port: &OnnxPort| match port.element {
        OnnxElement::F32 => "float32",
        OnnxElement::I32 => "int32",
        OnnxElement::I64 => "int64",
        OnnxElement::Other => "another type",
    };
    let one = |port: &OnnxPort| format!("`{}` {} {:?}", port.name, element(port), port.shape);
    ports.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const F32: OnnxElement = OnnxElement::F32;
    const I64: OnnxElement = OnnxElement::I64;
    type PortList<'a> = &'a [(&'a str, OnnxElement, &'a [i64])];

    fn ports(list: PortList<'_>) -> Vec<OnnxPort> {
        let port = |(name, element, shape): &(&str, OnnxElement, &[i64])| OnnxPort {
            name: (*name).to_owned(),
            element: *element,
            shape: shape.to_vec(),
        };
        list.iter().map(port).collect()
    }

    #[test]
    fn outputs_are_recognised() {
        let cases: &[(PortList<'_>, DetectionLayout, &[&str])] = &[
            // torchvision, with the names of its tutorial and with those that PyTorch numbers.
            (
                &[("boxes", F32, &[-1, 4]), ("labels", I64, &[-1]), ("scores", F32, &[-1])],
                DetectionLayout::Corners,
                &["boxes", "scores", "labels"],
            ),
            (
                &[("2784", F32, &[-1, 4]), ("2786", I64, &[-1]), ("2785", F32, &[-1])],
                DetectionLayout::Corners,
                &["2784", "2785", "2786"],
            ),
            // Without labels, and with masks, which are not read.
            (
                &[("b", F32, &[1, 10, 4]), ("s", F32, &[1, 10]), ("m", F32, &[1, 10, 28, 28])],
                DetectionLayout::Corners,
                &["b", "s"],
            ),
            (
                &[("logits", F32, &[-1, 100, 92]), ("pred_boxes", F32, &[-1, 100, 4]), ("last", F32, &[-1, 100, 256])],
                DetectionLayout::Queries,
                &["pred_boxes", "logits"],
            ),
            (&[("output0", F32, &[1, 84, 8400])], DetectionLayout::Grid, &["output0"]),
        ];
        for (list, layout, expected) in cases {
            let plan = OutputPlan::new(&ports(list)).unwrap();
            let names: Vec<&str> = plan.ports().iter().map(|port| port.name.as_str()).collect();
            assert_eq!((plan.layout, names.as_slice()), (*layout, *expected));
        }
    }

    #[test]
    fn other_outputs_are_named_in_the_message() {
        let cases: &[PortList<'_>] = &[
            &[("features", F32, &[-1, 512])],
            &[("output0", I64, &[1, 84, 8400])],
            // Segmentation by YOLO: boxes and masks.
            &[("output0", F32, &[1, 116, 8400]), ("output1", F32, &[1, 32, 160, 160])],
            // Two outputs could be the scores.
            &[("b", F32, &[-1, 4]), ("s", F32, &[-1]), ("t", F32, &[-1])],
            &[("boxes", F32, &[-1, 4]), ("scores", OnnxElement::Other, &[-1])],
            &[],
        ];
        for list in cases {
            let message = OutputPlan::new(&ports(list)).unwrap_err();
            for (name, _, shape) in *list {
                assert!(message.contains(&format!("`{name}`")) && message.contains(&format!("{shape:?}")), "{message}");
            }
            assert!(message.contains("expected float32 outputs `boxes` [N, 4]"), "{message}");
            assert!(message.contains("[1, 4 + C, N] or [1, N, 5 + C]"), "{message}");
        }
    }
}
