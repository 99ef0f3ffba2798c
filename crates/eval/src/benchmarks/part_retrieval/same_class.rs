//! Fraction of candidates with the correct class among the first k (Wang et al., Tables 1, 3 and 5).

use super::RetrievalMetrics;
use super::ranking::{RankingProtocol, ScoredCandidate};

const TOP: [usize; 4] = [5, 10, 50, 100];

pub(super) struct SameClassPrecision {
    pub(super) ranking: RankingProtocol,
}

impl RetrievalMetrics for SameClassPrecision {
    fn protocol(&self) -> String {
        self.ranking.protocol()
    }

    fn metrics(&self) -> Vec<(String, &'static str)> {
        TOP.iter().map(|k| (format!("same class, top {k}"), "chance")).collect()
    }

    /// Each value is `None` if there is no candidate. If there are fewer than k candidates, all of them count.
    fn values(&self, _: &[u32], scored: &[ScoredCandidate]) -> Vec<Option<[f64; 2]>> {
        let mut candidates = self.ranking.candidates(scored);
        let most = TOP[TOP.len() - 1].min(candidates.len());
        if most == 0 {
            return vec![None; TOP.len()];
        }
        let right = |top: &[&ScoredCandidate]| top.iter().filter(|it| it.right).count() as f64 / top.len() as f64;
        let chance = right(&candidates);
        let order = self.ranking.order(|it| it.right);
        candidates.select_nth_unstable_by(most - 1, &order);
        candidates.truncate(most);
        candidates.sort_by(&order);
        TOP.map(|k| Some([right(&candidates[..k.min(most)]), chance])).to_vec()
    }
}
