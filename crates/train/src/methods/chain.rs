//! Points of chains of texts, whose lengths may differ between samples.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::{Error, Result};

/// Points of chains of texts, from general to specific. Link i of all samples is `[B, D]`.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The links, at least two. A shorter chain repeats its last link.
    pub positive: Vec<Tensor<2>>,
    /// One wrong text per link; empty if there are no wrong texts.
    pub negative: Vec<Tensor<2>>,
    /// Number of links of each sample before the repetition, at least 1. Empty if every chain is complete.
    pub lengths: Vec<usize>,
}

impl Chain {
    /// For each sample, the mean over the terms that read only links of its chain: `[B]`. `values[i]`, `[B]`, is the
    /// term that reads the links i to i + `links` - 1. A sample whose chain is too short for any term has mean 0 and no
    /// gradient.
    pub fn mean_of_terms(&self, values: Vec<Tensor<1>>, links: usize) -> Tensor<1> {
        self.mean_of_rows(Tensor::stack(values, 0), links)
    }

    /// Like [`Chain::mean_of_terms`], with the terms in rows: `[terms, B] -> [B]`.
    pub fn mean_of_rows(&self, values: Tensor<2>, links: usize) -> Tensor<1> {
        if self.lengths.is_empty() {
            return values.mean_dim(0).squeeze_dim(0);
        }
        let weights = self.weights(values.dims()[0], links, &values.device()).cast(values.dtype());
        // A repeated link may make a term infinite, and 0 times infinity is not 0.
        let values = values.mask_fill(weights.clone().equal_elem(0.0), 0.0);
        (values * weights).sum_dim(0).squeeze_dim(0)
    }

    /// True where term i, which reads the links i to i + `links` - 1, reads a link beyond the end of the sample's
    /// chain: `[terms, B]`. `None` if every chain is complete.
    pub fn absent(&self, terms: usize, links: usize, device: &Device) -> Option<Tensor<2, Bool>> {
        (!self.lengths.is_empty()).then(|| self.weights(terms, links, device).equal_elem(0.0))
    }

    /// `1 / n` for a term that reads only links of the sample's chain, where n is the number of these terms; else 0:
    /// `[terms, B]`.
    fn weights(&self, terms: usize, links: usize, device: &Device) -> Tensor<2> {
        let own = |length: usize| (length + 1).saturating_sub(links).min(terms);
        let weight = |term: usize, length: usize| if term < own(length) { 1.0 / own(length) as f32 } else { 0.0 };
        let values = (0..terms).flat_map(|term| self.lengths.iter().map(move |&length| weight(term, length)));
        Tensor::from_data(TensorData::new(values.collect::<Vec<f32>>(), [terms, self.lengths.len()]), device)
    }

    /// # Errors
    /// [`Error::Invalid`] if `lengths` has not one entry per sample, or an entry is 0 or more than the number of links.
    pub(super) fn check_lengths(&self, samples: usize) -> Result<()> {
        let links = self.positive.len();
        let possible = self.lengths.iter().all(|length| (1..=links).contains(length));
        if self.lengths.is_empty() || (possible && self.lengths.len() == samples) {
            return Ok(());
        }
        let expected = format!("none, or one from 1 to {links} for each of {samples} samples");
        Err(Error::invalid("lengths of the chains of the batch", format!("{:?}", self.lengths), expected))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(values: &[f32]) -> Tensor<1> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &Device::flex())
    }

    fn chain(lengths: Vec<usize>) -> Chain {
        let link = Tensor::<2>::zeros([3, 2], &Device::flex());
        Chain { positive: vec![link; 4], negative: Vec::new(), lengths }
    }

    #[test]
    fn means_are_over_the_terms_of_a_sample() {
        let values = || vec![row(&[1.0, 2.0, f32::INFINITY]), row(&[4.0, f32::NAN, 6.0])];
        // If a term reads two links, chains of length 3, 2 and 1 have two terms, one and none.
        let found = chain(vec![3, 2, 1]).mean_of_terms(values(), 2).into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(found, [2.5, 2.0, 0.0]);
        // If a term reads three links, chains of length 4, 3 and 2 have two terms, one and none.
        let found = chain(vec![4, 3, 2]).mean_of_terms(values(), 3).into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(found, [2.5, 2.0, 0.0]);
        let complete = || vec![row(&[1.0, 2.0, 3.0]), row(&[4.0, 5.0, 9.0])];
        let found = chain(Vec::new()).mean_of_terms(complete(), 2).into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(found, [2.5, 3.5, 6.0]);
        assert!(chain(Vec::new()).absent(3, 2, &Device::flex()).is_none());
    }

    #[test]
    fn impossible_lengths_are_rejected() {
        assert!(chain(vec![4, 1, 2]).check_lengths(3).is_ok() && chain(Vec::new()).check_lengths(3).is_ok());
        for lengths in [vec![4, 1], vec![4, 0, 1], vec![5, 1, 1]] {
            let message = chain(lengths).check_lengths(3).unwrap_err().to_string();
            assert!(message.contains("from 1 to 4 for each of 3 samples"), "{message}");
        }
    }
}
