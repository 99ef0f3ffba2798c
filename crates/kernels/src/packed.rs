//! [`PackedCache`]: caches weights in the layout of an inference kernel until a weight tensor changes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::Flex;
use burn::tensor::{Bytes, Tensor};

use crate::arrays::is_fused;

/// Caches a value that was computed from weights, such as a packed network, until a weight changes.
///
/// Burn copies the memory of a tensor before a change if another tensor shares it. The cache holds a reference to the
/// memory of every weight, so that memory is never changed in place. A weight with the same memory therefore has the
/// same numbers, also after training, loading or moving the module.
pub struct PackedCache<T>(Mutex<Option<CacheEntry<T>>>);

struct CacheEntry<T> {
    weights: Vec<WeightStorage>,
    value: Arc<T>,
}

/// The memory of a weight tensor. [`PackedCache`] compares its address to detect a changed weight.
#[derive(Clone)]
pub struct WeightStorage(Arc<Bytes>);

impl WeightStorage {
    /// `None` unless the weight is an `f32` tensor on the CPU without autodiff.
    pub fn of<const D: usize>(weight: &Tensor<D>) -> Option<Self> {
        if !is_fused(weight) || weight.is_autodiff() {
            return None;
        }
        let array = weight.clone().try_into_primitive::<Flex>().ok()?;
        Some(Self(array.data_arc()))
    }
}

impl<T> PackedCache<T> {
    /// The value for these weights, computed with `build` if the weights changed since the last call.
    pub fn get_or_build(&self, weights: Vec<WeightStorage>, build: impl FnOnce() -> T) -> Arc<T> {
        let mut entry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |a: &WeightStorage, b: &WeightStorage| Arc::ptr_eq(&a.0, &b.0);
        match &*entry {
            Some(known)
                if known.weights.len() == weights.len()
                    && known.weights.iter().zip(&weights).all(|(a, b)| same(a, b)) =>
            {
                known.value.clone()
            }
            _ => {
                let value = Arc::new(build());
                *entry = Some(CacheEntry { weights, value: value.clone() });
                value
            }
        }
    }
}

impl<T> Default for PackedCache<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// A clone starts empty, because it may get other weights.
impl<T> Clone for PackedCache<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> fmt::Debug for PackedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PackedCache")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn a_changed_weight_rebuilds_the_value() {
        let device = Device::flex();
        let cache = PackedCache::<f32>::default();
        let get = |weight: &Tensor<1>| {
            let sum = || weight.clone().sum().into_scalar::<f32>();
            *cache.get_or_build(vec![WeightStorage::of(weight).unwrap()], sum)
        };
        let weight = Tensor::<1>::from_floats([1.0, 2.0], &device);
        assert_eq!(get(&weight), 3.0);
        // The memory of the weight is the same, so the closure must not run.
        let kept = cache.get_or_build(vec![WeightStorage::of(&weight.clone()).unwrap()], || f32::NAN);
        assert_eq!(*kept, 3.0);
        // Burn may add in place; the reference of the cache forces a copy.
        let weight = weight.add_scalar(1.0);
        assert_eq!(get(&weight), 5.0);
        assert_eq!(*cache.clone().get_or_build(Vec::new(), || 7.0), 7.0);
    }

    #[test]
    fn tracked_and_wide_weights_are_not_packed() {
        let device = Device::flex();
        let weight = Tensor::<1>::from_floats([1.0], &device);
        assert!(WeightStorage::of(&weight.clone().cast(burn::tensor::DType::F64)).is_none());
        assert!(WeightStorage::of(&Tensor::<1>::from_floats([1.0], &device.autodiff())).is_none());
    }
}
