use conifer_data::BBox;

/// Matches detections of one class in one photo to ground-truth boxes, as pycocotools' `COCOeval.evaluateImg` does.
///
/// Detections are matched in order of descending score. Each detection takes the free box with the largest intersection
/// over union (IoU), if the IoU is at least `threshold`. Among boxes with equal IoU the last one is taken. `detections`
/// are pairs (score, box); equal scores keep their order. Returns for each detection whether it was matched.
pub fn iou_matches(detections: &[(f32, BBox)], truth: &[BBox], threshold: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..detections.len()).collect();
    order.sort_by(|&a, &b| detections[b].0.total_cmp(&detections[a].0));
    let mut taken = vec![false; truth.len()];
    let mut found = vec![false; detections.len()];
    for detection in order {
        let overlaps = truth.iter().enumerate().map(|(i, bbox)| (i, iou(&detections[detection].1, bbox)));
        let free = overlaps.filter(|&(i, overlap)| !taken[i] && overlap >= threshold);
        // `max_by` returns the last of equal elements.
        if let Some((best, _)) = free.max_by(|a, b| a.1.total_cmp(&b.1)) {
            taken[best] = true;
            found[detection] = true;
        }
    }
    found
}

/// Intersection over union of two boxes, in [0, 1].
pub fn iou(a: &BBox, b: &BBox) -> f64 {
    let side = |a1: f32, a2: f32, b1: f32, b2: f32| (f64::from(a2.min(b2)) - f64::from(a1.max(b1))).max(0.0);
    let area = |it: &BBox| (f64::from(it.x2) - f64::from(it.x1)) * (f64::from(it.y2) - f64::from(it.y1));
    let shared = side(a.x1, a.x2, b.x1, b.x2) * side(a.y1, a.y2, b.y1, b.y2);
    let union = area(a) + area(b) - shared;
    if union > 0.0 { shared / union } else { 0.0 }
}
