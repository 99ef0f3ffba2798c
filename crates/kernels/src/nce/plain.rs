//! Reference implementations of the losses, composed of tensor operations.

use burn::tensor::{Bool, Tensor};

use super::{NceRule, QuerySide};

/// Reference implementation of [`info_nce`](super::info_nce), for every device and dtype.
pub fn info_nce_plain(similarity: Tensor<2>, scale: Tensor<1>, rule: NceRule) -> Tensor<1> {
    let logits = similarity * scale.reshape([1, 1]);
    match rule.side {
        QuerySide::Rows => rows(logits, rule.with_positive),
        QuerySide::Columns => rows(logits.transpose(), rule.with_positive),
        QuerySide::Both => {
            let columns = rows(logits.clone().transpose(), rule.with_positive);
            Tensor::cat(vec![rows(logits, rule.with_positive), columns], 0)
        }
    }
}

fn rows(logits: Tensor<2>, with_positive: bool) -> Tensor<1> {
    let ([queries, _], device) = (logits.dims(), logits.device());
    let own = Tensor::arange(0..queries as i64, &device).reshape([queries, 1]);
    let positive = logits.clone().gather(1, own);
    let candidates = if with_positive {
        logits
    } else {
        let shape = logits.dims();
        logits.mask_fill(Tensor::<2, Bool>::diag_mask(shape, 0, &device).bool_not(), f64::NEG_INFINITY)
    };
    (log_sum_exp(candidates) - positive).squeeze_dim(1)
}

/// Reference implementation of [`multi_positive_nce`](super::multi_positive_nce), for every device and dtype.
pub fn multi_positive_nce_plain(
    similarity: Tensor<2>,
    scale: Tensor<1>,
    positive: Tensor<2, Bool>,
    same: Tensor<2, Bool>,
) -> Tensor<1> {
    let logits = similarity * scale.reshape([1, 1]);
    let alone = positive.clone().any_dim(1).bool_not();
    // In a row without a positive both sums run over all cells, so that their difference and its gradient are 0.
    let left_out = |mask: Tensor<2, Bool>| {
        let shape = mask.dims();
        mask.bool_and(alone.clone().bool_not().expand(shape))
    };
    let candidates = logits.clone().mask_fill(left_out(same), f64::NEG_INFINITY);
    let positives = logits.mask_fill(left_out(positive.bool_not()), f64::NEG_INFINITY);
    (log_sum_exp(candidates) - log_sum_exp(positives)).squeeze_dim(1)
}

/// `log sum_k exp(x_ik)`, `[M, N] -> [M, 1]`, shifted by the row maximum against overflow.
fn log_sum_exp(x: Tensor<2>) -> Tensor<2> {
    // The shift cancels in the value and in the gradient, so it needs no gradient.
    let shift = x.clone().detach().max_dim(1);
    (x - shift.clone()).exp().sum_dim(1).log() + shift
}
