use burn::tensor::{DType, Device, TensorData};

use super::*;
use crate::testing::{TestMatrix, check, check_differences, check_threads, outcome};

#[derive(Clone, Copy, Debug, PartialEq)]
enum MaskCase {
    Nothing,
    Future,
    /// Masks the last `i` keys of sequence `i`, for fewer sequences than keys.
    Ends,
}

impl MaskCase {
    fn mask(self, batch: usize, keys: usize) -> Mask {
        match self {
            Self::Nothing => Mask::None,
            Self::Future => Mask::Causal,
            Self::Ends => {
                let hidden: Vec<bool> =
                    (0..batch * keys).map(|i| i % keys > 0 && i % keys + i / keys % keys >= keys).collect();
                Mask::Hidden(Tensor::from_data(TensorData::new(hidden, [batch, keys]), &Device::flex()))
            }
        }
    }
}

const ALL: [MaskCase; 3] = [MaskCase::Nothing, MaskCase::Future, MaskCase::Ends];

/// Sequences, heads, width of a head, queries, keys.
type AttentionSize = [usize; 5];

fn joint(
    plain: bool,
    [batch, heads, _, _, keys]: AttentionSize,
    case: MaskCase,
) -> impl Fn(&[Tensor<2>]) -> Tensor<2> + Sync {
    let operation = if plain { self_attention_plain } else { self_attention };
    move |x| operation(x[0].clone(), batch, heads, case.mask(batch, keys))
}

fn apart(
    plain: bool,
    [batch, heads, _, _, keys]: AttentionSize,
    case: MaskCase,
) -> impl Fn(&[Tensor<2>]) -> Tensor<2> + Sync {
    let operation = if plain { attention_plain } else { attention };
    move |x| operation(x[0].clone(), x[1].clone(), batch, heads, case.mask(batch, keys))
}

fn arguments([batch, heads, d, queries, keys]: AttentionSize, size: f64) -> [TestMatrix; 2] {
    let width = heads * d;
    [
        TestMatrix::scattered([batch * queries, width], 1, size),
        TestMatrix::scattered([batch * keys, 2 * width], 2, size),
    ]
}

fn joint_arguments([batch, heads, d, _, keys]: AttentionSize, size: f64) -> [TestMatrix; 1] {
    [TestMatrix::scattered([batch * keys, 3 * heads * d], 3, size)]
}

#[test]
fn fused_equals_plain_value_and_gradient() {
    for case in ALL {
        for size in [[1, 1, 1, 1, 1], [2, 3, 5, 7, 7], [3, 2, 8, 16, 16], [2, 4, 32, 50, 50], [1, 2, 64, 77, 77]] {
            check(&joint(false, size, case), &joint(true, size, case), &joint_arguments(size, 1.5), 2e-6);
        }
        for size in [[1, 1, 1, 1, 3], [3, 2, 4, 1, 9], [2, 3, 5, 4, 6], [5, 4, 16, 1, 33]] {
            check(&apart(false, size, case), &apart(true, size, case), &arguments(size, 1.5), 2e-6);
        }
    }
}

#[test]
fn gradients_by_differences() {
    let size = [2, 2, 3, 4, 4];
    for case in ALL {
        let (fused, plain) = (joint(false, size, case), joint(true, size, case));
        check_differences(&fused, &plain, &joint_arguments(size, 1.5), 2e-6);
        let (fused, plain) = (apart(false, size, case), apart(true, size, case));
        check_differences(&fused, &plain, &arguments(size, 1.5), 2e-6);
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for case in ALL {
        let size = [3, 4, 16, 40, 40];
        check_threads(joint(false, size, case), &joint_arguments(size, 1.0));
        check_threads(apart(false, size, case), &arguments(size, 1.0));
    }
}

/// Scores of several hundred, which overflow `exp` without the shift, put nearly all weight on one key. The tolerance
/// allows for the rounding of such scores, 1e-5.
#[test]
fn large_scores() {
    let size = [2, 2, 16, 20, 20];
    check(
        &joint(false, size, MaskCase::Nothing),
        &joint(true, size, MaskCase::Nothing),
        &joint_arguments(size, 12.0),
        1e-4,
    );
}

/// Equal keys have equal weights, so the result is the mean of the values.
#[test]
fn equal_keys() {
    let size = [1, 1, 2, 3, 4];
    let mut arguments = arguments(size, 1.0);
    let values = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 6.0, 60.0];
    arguments[1].numbers = values.chunks(2).flat_map(|value| [0.5, -0.25, value[0], value[1]]).collect();
    let found = &outcome(&apart(false, size, MaskCase::Nothing), &arguments, DType::F32)[0];
    assert_eq!(found.as_slice(), [3.0, 30.0, 3.0, 30.0, 3.0, 30.0]);
}

#[test]
fn no_sequences_and_no_queries() {
    for size in [[0, 2, 3, 4, 4], [2, 2, 3, 0, 4]] {
        let found = outcome(&apart(false, size, MaskCase::Nothing), &arguments(size, 1.0), DType::F32);
        assert!(found[0].is_empty() && found[1].is_empty() && found[2].iter().all(|&x| x == 0.0));
    }
}

/// A NaN must affect its own sequence and head only.
#[test]
fn nan_stays_in_its_head() {
    let size = [2, 2, 3, 4, 4];
    let mut arguments = joint_arguments(size, 1.0);
    // This number belongs to a key of the second head of the first sequence.
    arguments[0].numbers[6 + 4] = f64::NAN;
    let values = &outcome(&joint(false, size, MaskCase::Nothing), &arguments, DType::F32)[0];
    for (i, value) in values.iter().enumerate() {
        assert_eq!(value.is_nan(), i < 4 * 6 && i % 6 >= 3, "number {i}");
    }
}

#[test]
fn a_query_without_visible_keys_is_nan() {
    let all = || Mask::Hidden(Tensor::from_data([[true, true, true]], &Device::flex()));
    let found =
        outcome(&|x| self_attention(x[0].clone(), 1, 1, all()), &[TestMatrix::scattered([3, 6], 1, 1.0)], DType::F32);
    assert!(found[0].iter().all(|x| x.is_nan()));
}
