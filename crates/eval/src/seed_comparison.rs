//! Comparison of two models over several training seeds, and the verdict on a claim.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use crate::metrics::BootstrapUnits;
use crate::suite::Better;
use crate::{Baseline, Outcomes, Record};

/// The opponent of the model that the claim is about.
#[derive(Clone, Copy, Debug)]
pub enum Opponent<'a> {
    /// Another model: one record for each seed, in the order of the seeds.
    Model(&'a [&'a Record]),
    /// The baseline in the records of the claimed model.
    Trivial,
}

/// A difference over seeds and queries with its interval. Positive differences support the claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeedComparison {
    /// Values of the claimed model and of the opponent, one pair for each seed.
    pub values: Vec<[f64; 2]>,
    /// Mean over the seeds of claimed minus opponent; the sign is reversed if less is better.
    pub difference: f64,
    /// 95 % percentile bootstrap interval of `difference` over seeds and queries.
    pub interval: [f64; 2],
    /// Comparison with the trivial answer of the records. `None` if they have no trivial answer, or if it is the
    /// opponent.
    pub trivial: Option<TrivialComparison>,
    /// Number of units that a resample draws for each seed: queries, or clusters of queries.
    pub units: usize,
    /// Number of resamples.
    pub resamples: usize,
}

/// The better one of two models, compared with a trivial answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrivialComparison {
    /// The trivial answer. Its value is the mean over the seeds.
    pub answer: Baseline,
    /// True if the claimed model is the better one on average over the seeds, false if the opponent is.
    pub of_claimed: bool,
    /// 95 % interval of the better model minus the trivial answer; the sign is reversed if less is better.
    pub interval: [f64; 2],
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum ClaimVerdict {
    /// The difference is above the margin.
    Holds,
    /// The difference is below the margin.
    DoesNotHold,
    /// The data do not decide the claim; see [`decide`].
    Undecided,
}

impl From<ClaimVerdict> for &'static str {
    fn from(verdict: ClaimVerdict) -> Self {
        verdict.name()
    }
}

impl ClaimVerdict {
    /// The verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::Undecided => "cannot be decided here",
        }
    }
}

/// Maximum number of resamples.
const MAX_RESAMPLES: usize = 10_000;
/// Minimum number of resamples.
const MIN_RESAMPLES: usize = 1_000;
/// Maximum number of resamples of a statistic that sorts or ranks all queries in each resample.
const MAX_RANKED_RESAMPLES: usize = 1_000;
/// Approximate number of queries drawn in a comparison, over all resamples.
const TOTAL_DRAWS: usize = 200_000_000;
/// Smallest number of units with which a difference can be significant. An exact sign-flip test of m units has p of at
/// least `2^(1 - m)`; m = 6 is the smallest with p below 0.05.
const MIN_UNITS: usize = 6;

/// Compares a model with an opponent on the same queries, over the seeds of their training.
///
/// `claimed` has one record for each seed. Seeds and queries are crossed: the models of all seeds answer the same
/// queries. A resample therefore draws seeds with replacement and, once for all seeds, queries (or whole clusters of
/// them) with replacement. This is the pigeonhole bootstrap (Owen 2007, Annals of Applied Statistics 1(2)). The
/// difference of a resample is the mean over the drawn seeds of `claimed - opponent` on the drawn queries. The interval
/// runs from the 2.5 to the 97.5 percentile of these differences. The number of resamples is 10,000, or fewer for many
/// queries (at least 1,000). With one seed the interval covers the queries only.
///
/// The same `bootstrap_seed` gives the same result.
///
/// # Errors
/// The reason why no comparison is possible: no seeds, different numbers of seeds, no outcomes, no trivial answer, or
/// different queries.
pub fn compare_over_seeds(
    claimed: &[&Record],
    opponent: Opponent<'_>,
    better: Better,
    bootstrap_seed: u64,
) -> Result<SeedComparison, String> {
    let first = *claimed.first().ok_or("no seeds; expected at least one record")?;
    let others = match opponent {
        Opponent::Model(others) if others.len() != claimed.len() => {
            return Err(format!("{} and {} seeds; expected as many for both models", claimed.len(), others.len()));
        }
        Opponent::Model(others) => others,
        Opponent::Trivial => &[],
    };
    for record in claimed.iter().chain(others) {
        let (Some(own), Some(reference)) = (&record.outcomes, &first.outcomes) else {
            return Err(format!("{} has no outcomes of single queries", record.metric));
        };
        if !own.pairs_with(reference) || record.clusters != first.clusters {
            return Err("the models answer different queries".into());
        }
    }
    let trivial = |record: &Record| record.baseline.as_ref().map(|it| it.value);
    if matches!(opponent, Opponent::Trivial) && claimed.iter().any(|it| trivial(it).is_none()) {
        return Err(format!("{} has no trivial answer", first.metric));
    }

    let sign = if better == Better::Higher { 1.0 } else { -1.0 };
    let values: Vec<[f64; 2]> = claimed
        .iter()
        .enumerate()
        .map(|(i, own)| [own.value, others.get(i).map_or_else(|| trivial(own).unwrap_or(f64::NAN), |it| it.value)])
        .collect();
    let mean = |of: &dyn Fn(&[f64; 2]) -> f64| values.iter().map(of).sum::<f64>() / values.len() as f64;
    let difference = sign * mean(&|[own, other]| own - other);
    let bootstrap = SeedBootstrap::new(first, claimed.len(), bootstrap_seed)?;
    let interval = match opponent {
        Opponent::Model(others) => bootstrap.interval(claimed, &|seed| Subtrahend::Outcomes(others[seed]), sign),
        Opponent::Trivial => bootstrap.interval(claimed, &|seed| Subtrahend::Number(values[seed][1]), sign),
    }?;
    let of_claimed = difference >= 0.0;
    let winner = if of_claimed || others.is_empty() { claimed } else { others };
    let answers: Option<Vec<f64>> = winner.iter().map(|it| trivial(it)).collect();
    let trivial = match (answers, &winner[0].baseline, opponent) {
        (Some(answers), Some(Baseline { name, .. }), Opponent::Model(_)) => Some(TrivialComparison {
            answer: Baseline { name: name.clone(), value: answers.iter().sum::<f64>() / answers.len() as f64 },
            of_claimed,
            interval: bootstrap.interval(winner, &|seed| Subtrahend::Number(answers[seed]), sign)?,
        }),
        _ => None,
    };
    Ok(SeedComparison {
        values,
        difference,
        interval,
        trivial,
        units: bootstrap.units.len(),
        resamples: bootstrap.resamples,
    })
}

/// Decides a claim. Returns the verdict and the reason.
///
/// * *holds*: the whole interval of the difference is above `margin`;
/// * *does not hold*: the whole interval is below `margin`;
/// * *cannot be decided here*: the interval contains `margin`; or there are fewer than six units; or the better one of
///   the two models does not beat the trivial answer (its interval does not lie above 0) and `needs_trivial` is true.
///
/// `margin` is 0 for a claim of "better", and negative for a claim of "not worse by more than".
pub fn decide(comparison: &SeedComparison, margin: f64, needs_trivial: bool) -> (ClaimVerdict, String) {
    let [low, high] = comparison.interval;
    let undecided = |why: String| (ClaimVerdict::Undecided, why);
    if comparison.units < MIN_UNITS {
        return undecided(format!("only {} independent queries; expected at least {MIN_UNITS}", comparison.units));
    }
    let decided = match (low > margin, high < margin) {
        (true, _) => ClaimVerdict::Holds,
        (_, true) => ClaimVerdict::DoesNotHold,
        // This arm also catches NaN.
        _ => return undecided(format!("the interval contains {margin}")),
    };
    match &comparison.trivial {
        Some(trivial) if needs_trivial && (trivial.interval[0] <= 0.0 || trivial.interval[0].is_nan()) => {
            undecided(format!("the better model does not beat the trivial answer, {}", trivial.answer.name))
        }
        _ => (decided, format!("the interval is {} {margin}", if low > margin { "above" } else { "below" })),
    }
}

/// The number that is subtracted from the number of a model in each resample.
enum Subtrahend<'a> {
    /// The number of another model on the same draw.
    Outcomes(&'a Record),
    /// A constant.
    Number(f64),
}

struct SeedBootstrap {
    units: BootstrapUnits,
    seeds: usize,
    resamples: usize,
    bootstrap_seed: u64,
}

impl SeedBootstrap {
    fn new(first: &Record, seeds: usize, bootstrap_seed: u64) -> Result<Self, String> {
        let outcomes = first.outcomes.as_ref().ok_or("no outcomes of single queries")?;
        let units = outcomes.units(first.clusters.as_deref());
        if units.len() < 2 {
            return Err("fewer than two queries".into());
        }
        let most = match outcomes {
            Outcomes::Spearman { .. } | Outcomes::AveragePrecision { .. } | Outcomes::RocAuc { .. } => {
                MAX_RANKED_RESAMPLES
            }
            _ => MAX_RESAMPLES,
        };
        let resamples = (TOTAL_DRAWS / (outcomes.len() * seeds * 2)).clamp(MIN_RESAMPLES, most);
        Ok(Self { units, seeds, resamples, bootstrap_seed })
    }

    /// Percentile interval of `sign` times the mean over drawn seeds of model minus subtrahend.
    fn interval<'a>(
        &self,
        models: &[&Record],
        subtrahend: &dyn Fn(usize) -> Subtrahend<'a>,
        sign: f64,
    ) -> Result<[f64; 2], String> {
        let statistic = |record: &'a Record| record.outcomes.as_ref().map(Outcomes::draws);
        let models: Vec<_> = models.iter().filter_map(|it| it.outcomes.as_ref().map(Outcomes::draws)).collect();
        let subtrahends: Vec<_> = (0..self.seeds)
            .map(|seed| match subtrahend(seed) {
                Subtrahend::Outcomes(record) => (statistic(record), 0.0),
                Subtrahend::Number(value) => (None, value),
            })
            .collect();
        let mut differences: Vec<f64> = (0..self.resamples)
            .into_par_iter()
            .map_init(Vec::new, |rows, resample| {
                // Each resample has a separate random stream, so the result does not depend on the number of threads.
                let mut rng = ChaCha8Rng::seed_from_u64(self.bootstrap_seed);
                rng.set_stream(resample as u64);
                let mut drawn = vec![0_usize; self.seeds];
                (0..self.seeds).for_each(|_| drawn[rng.random_range(0..self.seeds)] += 1);
                self.units.draw(&mut rng, rows);
                let of_seed = |seed: usize| {
                    let (other, value) = &subtrahends[seed];
                    models[seed](rows) - other.as_ref().map_or(*value, |other| other(rows))
                };
                let times = |seed: usize| drawn[seed] as f64;
                let sum: f64 = (0..self.seeds).filter(|&it| drawn[it] > 0).map(|it| times(it) * of_seed(it)).sum();
                sign * sum / self.seeds as f64
            })
            .collect();
        differences.retain(|it| !it.is_nan());
        differences.sort_by(f64::total_cmp);
        let at = |q: f64| differences.get((differences.len().saturating_sub(1) as f64 * q).round() as usize).copied();
        Ok([at(0.025), at(0.975)].map(|it| it.unwrap_or(f64::NAN)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::RecordKey;

    fn record(values: &[f64], trivial: f64) -> Record {
        let key = RecordKey { benchmark: "b", split: "all", protocol: "p", metric: "m" };
        Record::of(key, values.to_vec(), Baseline::named("guess", trivial), 0)
    }

    fn compared(claimed: &[Record], other: &[Record], better: Better) -> SeedComparison {
        let (a, b): (Vec<_>, Vec<_>) = (claimed.iter().collect(), other.iter().collect());
        compare_over_seeds(&a, Opponent::Model(&b), better, 0).unwrap()
    }

    /// A record in which every query has the same value, so only the seeds vary.
    fn constant(value: f64, trivial: f64) -> Record {
        record(&[value; 8], trivial)
    }

    #[test]
    fn interval_over_seeds_by_hand() {
        // The differences are .1 and .3. Two drawn seeds have the mean .1, .2 or .3 with probability 1/4, 1/2, 1/4, so
        // the 2.5 and 97.5 percentiles are .1 and .3.
        let claimed = [constant(0.6, 0.1), constant(0.8, 0.1)];
        let other = [constant(0.5, 0.1), constant(0.5, 0.1)];
        let it = compared(&claimed, &other, Better::Higher);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(it.difference, 0.2) && near(it.interval[0], 0.1) && near(it.interval[1], 0.3), "{it:?}");
        // The trivial answer is .1: the claimed model is .5 or .7 above it.
        let trivial = it.trivial.as_ref().unwrap();
        assert!(trivial.of_claimed && near(trivial.interval[0], 0.5) && near(trivial.interval[1], 0.7), "{it:?}");
        assert_eq!(decide(&it, 0.0, true).0, ClaimVerdict::Holds);
        assert_eq!(decide(&it, 0.2, true).0, ClaimVerdict::Undecided);
        assert_eq!(decide(&it, 0.35, true).0, ClaimVerdict::DoesNotHold);
        // If less is better, the same numbers contradict the claim, and a model must be below the trivial answer.
        let lower = compared(&claimed, &other, Better::Lower);
        assert!(near(lower.difference, -0.2) && near(lower.interval[0], -0.3), "{lower:?}");
        assert_eq!(decide(&lower, 0.0, false).0, ClaimVerdict::DoesNotHold);
        let (verdict, why) = decide(&lower, 0.0, true);
        assert_eq!((verdict, why.contains("guess")), (ClaimVerdict::Undecided, true), "{why}");
    }

    #[test]
    fn interval_over_queries_by_hand() {
        // 400 queries: 240 differences of +1 and 160 of -1. Mean .2, standard deviation sqrt(1 - .04) = .98, standard
        // error .049, so the interval is .2 -+ 1.96 x .049 = .104 .. .296.
        let ones = |count: usize| -> Vec<f64> { (0..400).map(|i| f64::from(u8::from(i < count))).collect() };
        let claimed = [record(&ones(240), 0.1)];
        let flipped: Vec<f64> = ones(240).iter().map(|it| 1.0 - it).collect();
        let it = compared(&claimed, &[record(&flipped, 0.1)], Better::Higher);
        assert!((it.difference - 0.2).abs() < 1e-12, "{it:?}");
        assert!((it.interval[0] - 0.104).abs() < 0.015 && (it.interval[1] - 0.296).abs() < 0.015, "{it:?}");
        assert_eq!((it.units, it.resamples), (400, 10_000));
        // Three equal seeds add no evidence, because the queries are the same.
        let three = |it: &Record| [it.clone(), it.clone(), it.clone()];
        let again = compared(&three(&claimed[0]), &three(&record(&flipped, 0.1)), Better::Higher);
        assert!((again.interval[0] - it.interval[0]).abs() < 0.015, "{again:?}");
    }

    #[test]
    fn verdicts_of_synthetic_outcomes() {
        let (good, bad) = ([constant(0.9, 0.5), constant(0.8, 0.5)], [constant(0.6, 0.5), constant(0.7, 0.5)]);
        let verdict = |a: &[Record], b: &[Record]| decide(&compared(a, b, Better::Higher), 0.0, true);
        assert_eq!(verdict(&good, &bad).0, ClaimVerdict::Holds);
        // The opponent is better and beats the trivial answer.
        assert_eq!(verdict(&bad, &good).0, ClaimVerdict::DoesNotHold);
        // The differences of the seeds are +.1 and -.1, so the interval is -.1 .. .1.
        let (verdict_of_mixed, why) = verdict(&good, &[constant(0.8, 0.5), constant(0.9, 0.5)]);
        assert_eq!((verdict_of_mixed, why.as_str()), (ClaimVerdict::Undecided, "the interval contains 0"));
        // The claimed model (.45) is better than the opponent (.4), but the trivial answer is .5.
        let (low, lower) = ([constant(0.45, 0.5); 1], [constant(0.4, 0.5)]);
        let (verdict_of_low, why) = verdict(&low, &lower);
        assert_eq!(verdict_of_low, ClaimVerdict::Undecided);
        assert_eq!(why, "the better model does not beat the trivial answer, guess");
        assert_eq!(decide(&compared(&low, &lower, Better::Higher), 0.0, false).0, ClaimVerdict::Holds);
        // Five queries are too few for a verdict, six are enough.
        let few = |n: usize| {
            decide(&compared(&[record(&vec![1.0; n], 0.1)], &[record(&vec![0.0; n], 0.1)], Better::Higher), 0.0, true)
        };
        assert_eq!((few(5).0, few(6).0), (ClaimVerdict::Undecided, ClaimVerdict::Holds));
        assert!(few(5).1.contains("only 5"));
    }

    #[test]
    fn trivial_answers_are_opponents() {
        let claimed = [constant(0.7, 0.5), constant(0.8, 0.5)];
        let rows: Vec<&Record> = claimed.iter().collect();
        let it = compare_over_seeds(&rows, Opponent::Trivial, Better::Higher, 0).unwrap();
        assert!((it.interval[0] - 0.2).abs() < 1e-12 && (it.interval[1] - 0.3).abs() < 1e-12, "{it:?}");
        assert!((it.values[0][0] - 0.7).abs() < 1e-12 && it.values[0][1] == 0.5 && it.trivial.is_none(), "{it:?}");
        assert_eq!(decide(&it, 0.0, true).0, ClaimVerdict::Holds);
    }

    #[test]
    fn incomparable_records_are_refused() {
        let (a, b) = (record(&[1.0, 0.0, 1.0], 0.1), record(&[1.0, 0.0], 0.1));
        let said =
            |others: &[&Record]| compare_over_seeds(&[&a], Opponent::Model(others), Better::Higher, 0).unwrap_err();
        assert!(said(&[&b]).contains("different queries"));
        assert!(said(&[&a, &a]).contains("1 and 2 seeds"));
        let bare = Record { outcomes: None, ..a.clone() };
        assert!(said(&[&bare]).contains("no outcomes"));
        let no_guess = Record { baseline: None, ..a.clone() };
        let said = compare_over_seeds(&[&no_guess], Opponent::Trivial, Better::Higher, 0).unwrap_err();
        assert!(said.contains("no trivial answer"), "{said}");
        assert!(compare_over_seeds(&[], Opponent::Trivial, Better::Higher, 0).is_err());
    }
}
