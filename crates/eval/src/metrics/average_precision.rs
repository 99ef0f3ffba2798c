/// Average precision of one class, all-points form, as `sklearn.metrics.average_precision_score` computes it: with thresholds at every
/// different score, `sum (R_n - R_{n-1}) P_n`, no interpolation. In [0, 1]; NaN where nothing is right.
///
/// Equal scores pass a threshold together: their order does not count, and a constant score gives the share of right ones. `right` and
/// `scores` are of one length.
pub fn average_precision(scores: &[f32], right: &[bool]) -> f64 {
    let ranking = Ranking::new((0..).zip(scores).zip(right).map(|((i, &score), &right)| (i, score, right)));
    ranking.average_precision(ranking.right() as f64, |_| 1.0)[0]
}

/// Average precision of one class, 101-point form, as pycocotools' `COCOeval.accumulate` computes it (<https://cocodataset.org/#detection-eval>):
/// the mean over recalls 0, 0.01 .. 1 of the best precision at that recall or beyond, 0 where it is not reached. In [0, 1]; NaN where
/// `positives` is 0.
///
/// `positives`: how many there are to be found, found or not. Equal scores are taken in their order here, so that it counts: a program that
/// lists right ones first gains. `right` and `scores` are of one length.
pub fn average_precision_101(scores: &[f32], right: &[bool], positives: usize) -> f64 {
    let ranking = Ranking::new((0..).zip(scores).zip(right).map(|((i, &score), &right)| (i, score, right)));
    ranking.average_precision(positives as f64, |_| 1.0)[1]
}

/// Detections of one class, best first, down to the last right one. Sorted once, it is measured under any weights: the bootstrap draws
/// photos, not rankings.
#[derive(Clone, Debug)]
pub struct Ranking(Vec<Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    group: u32,
    right: bool,
    /// The next one has another score.
    last_of_score: bool,
}

impl Ranking {
    /// From (group, score, right) of each detection; groups are what is weighted: photos.
    pub fn new(detections: impl IntoIterator<Item = (u32, f32, bool)>) -> Self {
        let mut detections: Vec<_> = detections.into_iter().collect();
        detections.sort_by(|a, b| b.1.total_cmp(&a.1));
        let next = detections.iter().skip(1).map(|it| Some(it.1)).chain([None]);
        let entry = |(&(group, score, right), next): (&(u32, f32, bool), Option<f32>)| Entry {
            group,
            right,
            last_of_score: next != Some(score),
        };
        let mut entries: Vec<Entry> = detections.iter().zip(next).map(entry).collect();
        // Behind the last right one, and those of its score, nothing adds to average precision.
        let last = entries.iter().rposition(|it| it.right);
        let end = last.and_then(|last| (last..entries.len()).find(|&i| entries[i].last_of_score));
        entries.truncate(end.map_or(0, |end| end + 1));
        Self(entries)
    }

    /// How many are right.
    pub fn right(&self) -> usize {
        self.0.iter().filter(|it| it.right).count()
    }

    /// All-points and 101-point average precision (see [`average_precision`], [`average_precision_101`]) where a detection counts
    /// `weight(group)` times; `positives` is the weight of all there is to find. Both NaN where that is 0.
    pub fn average_precision(&self, positives: f64, weight: impl Fn(u32) -> f64) -> [f64; 2] {
        if positives <= 0.0 {
            return [f64::NAN; 2];
        }
        let (mut steps, mut right, mut all, mut before) = (0.0, 0.0, 0.0, 0.0);
        // (right so far, precision) behind each right one: between them precision only falls.
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
            // The very numbers of numpy's `linspace(0, 1, 101)`, which decide whether a recall of 7 / 20 reaches 0.35.
            let recall = f64::from(i) * 0.01;
            while curve.get(next).is_some_and(|point| point.0 / positives < recall) {
                next += 1;
            }
            curve.get(next).map_or(0.0, |point| point.1)
        });
        [steps, points.sum::<f64>() / 101.0]
    }
}
