use std::collections::BTreeSet;

/// `steps` equally spaced depths from the smallest to the largest of `depths`, both included. If `steps` is 1, only the
/// smallest depth. These are the radii of HierarCaps' evaluator.
pub fn depth_levels(depths: &[f64], steps: usize) -> Vec<f64> {
    let lo = depths.iter().copied().fold(f64::INFINITY, f64::min);
    let hi = depths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let last = steps.saturating_sub(1).max(1) as f64;
    (0..steps).map(|i| if i + 1 == steps && steps > 1 { hi } else { lo + (hi - lo) * i as f64 / last }).collect()
}

/// For each of the ascending `levels`, the candidate with the highest score within the level; `None` if no candidate is
/// within.
///
/// `by_depth` lists the candidates by ascending depth. Among equal scores the smallest index wins, as with `argmax`.
pub fn best_within_levels(by_depth: &[usize], depths: &[f64], levels: &[f64], scores: &[f32]) -> Vec<Option<usize>> {
    let mut best: Option<usize> = None;
    let mut next = 0;
    let mut within = |&level: &f64| {
        while let Some(&candidate) = by_depth.get(next).filter(|&&c| depths[c] <= level) {
            let better =
                best.is_none_or(|b| scores[candidate] > scores[b] || (scores[candidate] == scores[b] && candidate < b));
            if better {
                best = Some(candidate);
            }
            next += 1;
        }
        best
    };
    levels.iter().map(&mut within).collect()
}

/// Retrieves a chain of candidates for one query, general to specific, with a ball that widens around the root.
///
/// At each level, the best candidate within the level is taken ([`best_within_levels`]). It joins the chain if its text
/// differs from the previous one. `same(a, b)` is true if candidates a and b have the same text.
pub fn retrieve_chain(
    by_depth: &[usize],
    depths: &[f64],
    levels: &[f64],
    scores: &[f32],
    same: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let mut chain: Vec<usize> = best_within_levels(by_depth, depths, levels, scores).into_iter().flatten().collect();
    chain.dedup_by(|found, last| same(*last, *found));
    chain
}

/// Precision and recall of a retrieved chain against its reference chain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChainRetrieval {
    /// `|retrieved ∩ reference| / |retrieved|` over distinct texts.
    pub precision: f64,
    /// Fraction of reference tiers whose text was retrieved.
    pub recall: f64,
}

/// Compares texts by spelling, as the released evaluator of HierarCaps does.
///
/// `tiers[t]` lists the texts accepted for tier `t`. An empty retrieved chain has precision 0.
pub fn chain_precision_recall(retrieved: &[&str], tiers: &[Vec<&str>]) -> ChainRetrieval {
    let found: BTreeSet<&str> = retrieved.iter().copied().collect();
    let accepted: BTreeSet<&str> = tiers.iter().flatten().copied().collect();
    let covered = tiers.iter().filter(|texts| texts.iter().any(|text| found.contains(text))).count();
    ChainRetrieval {
        precision: if found.is_empty() {
            0.0
        } else {
            found.intersection(&accepted).count() as f64 / found.len() as f64
        },
        recall: covered as f64 / tiers.len().max(1) as f64,
    }
}
