/// Macro and micro average of the top-1 accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Mean over classes of the accuracy within each class. The MERU family reports it for every data set.
    pub macro_average: f64,
    /// Fraction of correct samples.
    pub micro_average: f64,
}

/// Accuracy of `predicted` class indices against `labels`, over `classes` classes.
///
/// Classes without a sample are left out of the macro average. Empty input gives NaN for both averages.
pub fn accuracy(predicted: &[usize], labels: &[usize], classes: usize) -> Accuracy {
    let mut right = vec![0usize; classes];
    let mut total = vec![0usize; classes];
    for (&p, &l) in predicted.iter().zip(labels) {
        total[l] += 1;
        right[l] += usize::from(p == l);
    }
    let per_class: Vec<f64> =
        right.iter().zip(&total).filter(|(_, t)| **t > 0).map(|(&r, &t)| r as f64 / t as f64).collect();
    Accuracy {
        macro_average: per_class.iter().sum::<f64>() / per_class.len() as f64,
        micro_average: right.iter().sum::<usize>() as f64 / labels.len() as f64,
    }
}
