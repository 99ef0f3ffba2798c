//! Share of correct classes among the first k (Wang et al., Tables 1, 3 and 5).

use super::Question;
use super::ranking::{Asked, Seen};

const TOP: [usize; 4] = [5, 10, 50, 100];

pub(super) struct SameClass {
    pub(super) asked: Asked,
}

impl Question for SameClass {
    fn protocol(&self) -> String {
        self.asked.protocol()
    }

    fn metrics(&self) -> Vec<(String, &'static str)> {
        TOP.iter().map(|k| (format!("same class, top {k}"), "chance")).collect()
    }

    /// `None` if there is no candidate. If there are fewer than k, all of them count.
    fn answer(&self, _: &[u32], seen: &[Seen]) -> Vec<Option<[f64; 2]>> {
        let mut seen = self.asked.candidates(seen);
        let most = TOP[TOP.len() - 1].min(seen.len());
        if most == 0 {
            return vec![None; TOP.len()];
        }
        let right = |seen: &[&Seen]| seen.iter().filter(|it| it.right).count() as f64 / seen.len() as f64;
        let chance = right(&seen);
        let order = self.asked.order(|it| it.right);
        seen.select_nth_unstable_by(most - 1, &order);
        seen.truncate(most);
        seen.sort_by(&order);
        TOP.map(|k| Some([right(&seen[..k.min(most)]), chance])).to_vec()
    }
}
