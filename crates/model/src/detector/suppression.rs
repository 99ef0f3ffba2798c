use super::decode::RawBox;

/// Greedy non-maximum suppression, class by class: the boxes that no better kept box of their class overlaps by more
/// than `max_overlap` (intersection over union), at most `limit`. `boxes` are sorted, the best first. With
/// `max_overlap` 1 every box is kept.
pub(super) fn suppress(boxes: &[RawBox], max_overlap: f32, limit: usize) -> Vec<RawBox> {
    let mut kept: Vec<RawBox> = Vec::new();
    for candidate in boxes {
        if kept.len() == limit {
            break;
        }
        let rivals = kept.iter().filter(|it| it.class == candidate.class);
        if rivals.map(|it| overlap(it.corners, candidate.corners)).all(|overlap| overlap <= max_overlap) {
            kept.push(*candidate);
        }
    }
    kept
}

/// Intersection over union of two boxes; 0 if one has no area.
fn overlap(a: [f32; 4], b: [f32; 4]) -> f32 {
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let area = |[x1, y1, x2, y2]: [f32; 4]| (x2 - x1).max(0.0) * (y2 - y1).max(0.0);
    let both = width * height;
    if both > 0.0 { both / (area(a) + area(b) - both) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(corners: [f32; 4], score: f32, class: usize) -> RawBox {
        RawBox { corners, score, class: Some(class) }
    }

    #[test]
    fn only_boxes_of_the_same_class_suppress_each_other() {
        // The second box shares 8 of 12 columns with the first: IoU 2 / 3. The third shares 5 of 15: IoU 1 / 3.
        let boxes = [
            raw([0.0, 0.0, 10.0, 10.0], 0.9, 0),
            raw([2.0, 0.0, 12.0, 10.0], 0.8, 0),
            raw([5.0, 0.0, 15.0, 10.0], 0.7, 0),
            raw([0.0, 0.0, 10.0, 10.0], 0.6, 1),
        ];
        let scores = |max_overlap, limit| -> Vec<f32> {
            suppress(&boxes, max_overlap, limit).iter().map(|it| it.score).collect()
        };
        assert_eq!(scores(0.5, 10), [0.9, 0.7, 0.6]);
        assert_eq!(scores(0.7, 10), [0.9, 0.8, 0.7, 0.6]);
        assert_eq!(scores(0.3, 10), [0.9, 0.6]);
        assert_eq!(scores(1.0, 2), [0.9, 0.8]);
        assert!(suppress(&[], 0.5, 10).is_empty());
    }

    #[test]
    fn boxes_without_area_overlap_nothing() {
        let point = [3.0, 3.0, 3.0, 3.0];
        let inverted = [9.0, 9.0, 1.0, 1.0];
        assert_eq!(overlap(point, point), 0.0);
        assert_eq!(overlap(inverted, [0.0, 0.0, 10.0, 10.0]), 0.0);
    }
}
