use std::collections::BTreeSet;

/// `steps` depths from the shallowest to the deepest of `depths`, equally spaced, ends included: the
/// radii that HierarCaps' evaluator opens one after the other.
pub fn depth_levels(depths: &[f64], steps: usize) -> Vec<f64> {
    let lo = depths.iter().copied().fold(f64::INFINITY, f64::min);
    let hi = depths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let last = steps.saturating_sub(1).max(1) as f64;
    (0..steps).map(|i| if i + 1 == steps && steps > 1 { hi } else { lo + (hi - lo) * i as f64 / last }).collect()
}

/// The candidates that a widening ball around the root finds for one query, general to specific.
///
/// At each level the candidate with the highest score among those at most that deep is taken, and kept when
/// it differs from the one before. `by_depth` lists candidates by ascending depth; among equal scores the
/// candidate with the smaller index wins, as an `argmax` over candidates does.
/// `same` tells whether two candidates read the same.
pub fn retrieve_chain(
    by_depth: &[usize],
    depths: &[f64],
    levels: &[f64],
    scores: &[f32],
    same: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let mut chain: Vec<usize> = Vec::new();
    let mut best: Option<usize> = None;
    let mut next = 0;
    for &level in levels {
        while let Some(&candidate) = by_depth.get(next).filter(|&&c| depths[c] <= level) {
            let better =
                best.is_none_or(|b| scores[candidate] > scores[b] || (scores[candidate] == scores[b] && candidate < b));
            if better {
                best = Some(candidate);
            }
            next += 1;
        }
        if let Some(found) = best
            && chain.last().is_none_or(|&last| !same(last, found))
        {
            chain.push(found);
        }
    }
    chain
}

/// Precision and recall of one retrieved chain against its reference chain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChainRetrieval {
    /// `|retrieved ∩ reference| / |retrieved|` over distinct texts.
    pub precision: f64,
    /// Share of reference tiers whose text was retrieved.
    pub recall: f64,
}

/// Compares texts by their spelling, as the released evaluator of HierarCaps does.
///
/// `tiers[t]` lists the texts accepted for tier `t`. Nothing retrieved has precision 0.
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
