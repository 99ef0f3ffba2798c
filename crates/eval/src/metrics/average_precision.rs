/// Average precision of one class in the all-points form of `sklearn.metrics.average_precision_score`: `sum (R_n -
/// R_{n-1}) P_n` over a threshold at every distinct score, without interpolation. In [0, 1]; NaN if no item is right.
///
/// Equal scores pass a threshold together, so their order does not matter, and a constant score gives the fraction of
/// right items. `right` and `scores` have the same length.
pub fn average_precision(scores: &[f32], right: &[bool]) -> f64 {
    let ranking = DetectionRanking::new((0..).zip(scores).zip(right).map(|((i, &score), &right)| (i, score, right)));
    ranking.average_precision(ranking.right() as f64, |_| 1.0)[0]
}

/// Average precision of one class in the 101-point form of pycocotools' `COCOeval.accumulate`
/// (<https://cocodataset.org/#detection-eval>): the mean over recalls 0, 0.01 .. 1 of the highest precision at that
/// recall or beyond, or 0 if the recall is not reached. In [0, 1]; NaN if `positives` is 0.
///
/// `positives` is the number of items to find, whether found or not. Equal scores keep their input order, so listing
/// right items first raises the result. `right` and `scores` have the same length.
pub fn average_precision_101(scores: &[f32], right: &[bool], positives: usize) -> f64 {
    let ranking = DetectionRanking::new((0..).zip(scores).zip(right).map(|((i, &score), &right)| (i, score, right)));
    ranking.average_precision(positives as f64, |_| 1.0)[1]
}

/// Detections of one class, best first, up to the last right one and its ties. They are sorted once and can be
/// evaluated with any weights, as for a bootstrap that resamples photos.
#[derive(Clone, Debug)]
pub struct DetectionRanking(Vec<RankedDetection>);

#[derive(Clone, Copy, Debug)]
struct RankedDetection {
    group: u32,
    right: bool,
    /// True if the next entry has another score.
    last_of_score: bool,
}

impl DetectionRanking {
    /// Builds a ranking from (group, score, right) of each detection. Weights are set per group, such as a photo.
    pub fn new(detections: impl IntoIterator<Item = (u32, f32, bool)>) -> Self {
        let mut detections: Vec<_> = detections.into_iter().collect();
        detections.sort_by(|a, b| b.1.total_cmp(&a.1));
        let next = detections.iter().skip(1).map(|it| Some(it.1)).chain([None]);
        let entry = |(&(group, score, right), next): (&(u32, f32, bool), Option<f32>)| RankedDetection {
            group,
            right,
            last_of_score: next != Some(score),
        };
        let mut entries: Vec<RankedDetection> = detections.iter().zip(next).map(entry).collect();
        // Entries after the last right one and its ties do not change the average precision.
        let last = entries.iter().rposition(|it| it.right);
        let end = last.and_then(|last| (last..entries.len()).find(|&i| entries[i].last_of_score));
        entries.truncate(end.map_or(0, |end| end + 1));
        Self(entries)
    }

    /// Number of right detections.
    pub fn right(&self) -> usize {
        self.0.iter().filter(|it| it.right).count()
    }

    /// All-points and 101-point average precision (see [`average_precision`] and [`average_precision_101`]), where a
    /// detection counts `weight(group)` times. `positives` is the weight of all items to find. Both are NaN if
    /// `positives` is 0.
    pub fn average_precision(&self, positives: f64, weight: impl Fn(u32) -> f64) -> [f64; 2] {
        if positives <= 0.0 {
            return [f64::NAN; 2];
        }
        let (mut steps, mut right, mut all, mut before) = (0.0, 0.0, 0.0, 0.0);
        // `curve` holds (right so far, precision) after each right entry. Wrong entries lower the precision, so they
        // need no point.
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for entry in &self.0 {
            let weight = weight(entry.group);
            all += weight;
            if entry.right && weight > 0.0 {
                right += weight;
                curve.push((right, right / all));
            }
            if entry.last_of_score && right > before {
                steps += (right - before) / positives * (right / all);
                before = right;
            }
        }
        let mut best = 0.0f64;
        for point in curve.iter_mut().rev() {
            best = best.max(point.1);
            point.1 = best;
        }
        let mut next = 0;
        let points = (0..=100).map(|i| {
            // These are the values of numpy's `linspace(0, 1, 101)`. They decide whether a recall of 7 / 20 reaches
            // 0.35.
            let recall = f64::from(i) * 0.01;
            while curve.get(next).is_some_and(|point| point.0 / positives < recall) {
                next += 1;
            }
            curve.get(next).map_or(0.0, |point| point.1)
        });
        [steps, points.sum::<f64>() / 101.0]
    }
}
