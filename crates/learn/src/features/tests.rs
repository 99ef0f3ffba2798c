#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn statistics_are_mean_and_population_deviation() {
    let rows = FeatureRows { width: 2, values: vec![1.0, 5.0, 3.0, 5.0] };
    let found = rows.statistics();
    assert_eq!((found.mean, found.std), (vec![2.0, 5.0], vec![1.0, 0.0]));
}
