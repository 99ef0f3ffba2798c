use conifer_geometry::random::SplitMix;
use conifer_geometry::safe::EPS_F64;

/// How strongly families of concepts concentrate in single factors of a product space.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorSpecialisation {
    /// Best factor and share of each family.
    pub families: Vec<FamilyShare>,
    /// Mean of the shares over the families.
    pub mean_share: f64,
    /// Mean of `mean_share` over the permutations: the value without specialisation.
    pub mean_share_by_chance: f64,
    /// p-value: share of the permutations, with the data counted as one of them, whose mean share is at least as large
    /// as that of the data.
    pub p: f64,
}

/// The factor in which a family has the largest norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyShare {
    /// Number of members.
    pub members: usize,
    /// Index of the factor.
    pub factor: usize,
    /// Norm in this factor divided by the sum over all factors, both as means over the members; 0 if all are 0.
    pub share: f64,
    /// p-value: share of the permutations, with the data counted as one of them, in which the shuffled family has at
    /// least this share. It is not corrected for the number of families.
    pub p: f64,
}

/// Compares the share of each family in its best factor with that of families whose members are drawn at random.
///
/// `norms` is `[N, factors]`: the norm (or depth) of each concept in each factor. `family_of[n]` is below `families`.
/// Every permutation shuffles the families over the concepts, so the sizes and the factors that are large for all
/// concepts stay as they are. `None` if a family has no member, there are fewer than two families or no factors, an
/// entry of `family_of` is out of range, or the shapes differ.
pub fn factor_specialisation(
    norms: &[f64],
    factors: usize,
    family_of: &[usize],
    families: usize,
    permutations: usize,
    seed: u64,
) -> Option<FactorSpecialisation> {
    let len = family_of.len();
    let mut members = vec![0usize; families];
    family_of.iter().try_for_each(|family| members.get_mut(*family).map(|count| *count += 1))?;
    if families < 2 || factors == 0 || norms.len() != len * factors || members.contains(&0) {
        return None;
    }
    let found = shares(norms, factors, family_of, families);
    let mean = |shares: &[(usize, f64)]| shares.iter().map(|it| it.1).sum::<f64>() / families as f64;
    let mean_share = mean(&found);
    let (mut random, mut shuffled) = (SplitMix::new(seed), family_of.to_vec());
    let (mut as_large, mut mean_as_large, mut sum) = (vec![1usize; families], 1usize, 0.0);
    // Sums in another order differ in their last digits, so ties count as at least as large.
    let reaches = |value: f64, observed: f64| value >= observed * (1.0 - EPS_F64);
    for _ in 0..permutations {
        for at in (1..len).rev() {
            shuffled.swap(at, ((random.uniform() * (at + 1) as f64) as usize).min(at));
        }
        let drawn = shares(norms, factors, &shuffled, families);
        for (count, (drawn, found)) in as_large.iter_mut().zip(drawn.iter().zip(&found)) {
            *count += usize::from(reaches(drawn.1, found.1));
        }
        let drawn = mean(&drawn);
        mean_as_large += usize::from(reaches(drawn, mean_share));
        sum += drawn;
    }
    let p = |count: usize| count as f64 / (permutations + 1) as f64;
    let families = found
        .into_iter()
        .zip(members)
        .zip(as_large)
        .map(|(((factor, share), members), count)| FamilyShare { members, factor, share, p: p(count) })
        .collect();
    Some(FactorSpecialisation {
        families,
        mean_share,
        mean_share_by_chance: if permutations > 0 { sum / permutations as f64 } else { mean_share },
        p: p(mean_as_large),
    })
}

/// The best factor of each family, and the share of the norm in it.
fn shares(norms: &[f64], factors: usize, family_of: &[usize], families: usize) -> Vec<(usize, f64)> {
    let mut sums = vec![0.0; families * factors];
    for (row, family) in norms.chunks_exact(factors).zip(family_of) {
        sums[family * factors..(family + 1) * factors].iter_mut().zip(row).for_each(|(sum, norm)| *sum += norm);
    }
    let best = |sums: &[f64]| {
        let total: f64 = sums.iter().sum();
        let largest = |best: (usize, f64), (at, sum): (usize, &f64)| if *sum > best.1 { (at, *sum) } else { best };
        let (factor, sum) = sums.iter().enumerate().fold((0, f64::NEG_INFINITY), largest);
        (factor, if total > 0.0 { sum / total } else { 0.0 })
    };
    sums.chunks_exact(factors).map(best).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Two families of four words, each with 3/4 of its norm in a different factor. A permutation reaches a mean share
    /// of 3/4 only if it splits the words alike: 2 of C(8, 4) = 70, so p is about .029.
    #[test]
    fn separate_families_specialise() {
        let norms: Vec<f64> = (0..8).flat_map(|word| if word < 4 { [3.0, 1.0] } else { [1.0, 3.0] }).collect();
        let family_of = [0, 0, 0, 0, 1, 1, 1, 1];
        let found = factor_specialisation(&norms, 2, &family_of, 2, 20_000, 7).unwrap();
        assert_eq!([0, 1].map(|at| (found.families[at].factor, found.families[at].members)), [(0, 4), (1, 4)]);
        assert!((found.families[0].share - 0.75).abs() < 1e-12 && (found.mean_share - 0.75).abs() < 1e-12);
        assert!((found.p - 2.0 / 70.0).abs() < 0.005, "{found:?}");
        assert!(found.mean_share_by_chance < 0.65 && found.mean_share_by_chance > 0.5, "{found:?}");
    }

    /// A factor that is large for every word is no specialisation.
    #[test]
    fn a_common_factor_is_no_specialisation() {
        let norms = [9.0, 1.0].repeat(8);
        let found = factor_specialisation(&norms, 2, &[0, 1, 0, 1, 0, 1, 0, 1], 2, 500, 0).unwrap();
        assert!((found.mean_share - 0.9).abs() < 1e-12 && found.p == 1.0, "{found:?}");
    }

    #[test]
    fn shapes_are_checked() {
        assert_eq!(factor_specialisation(&[1.0; 4], 2, &[0, 0], 1, 9, 0), None);
        assert_eq!(factor_specialisation(&[1.0; 4], 2, &[0, 2], 2, 9, 0), None);
        assert_eq!(factor_specialisation(&[1.0; 4], 2, &[0, 0], 2, 9, 0), None);
        assert_eq!(factor_specialisation(&[1.0; 3], 2, &[0, 1], 2, 9, 0), None);
        let zero = factor_specialisation(&[0.0; 4], 2, &[0, 1], 2, 9, 0).unwrap();
        assert_eq!((zero.mean_share, zero.p), (0.0, 1.0));
    }
}
