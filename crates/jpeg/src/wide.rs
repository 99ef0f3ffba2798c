//! Runs code with the widest vector instructions of the processor. A generic x86-64 build uses AVX2 or AVX-512 where
//! available. `conifer-data` uses this module for resampling.

/// A unit of work. [`SimdWork::run`] and everything it calls must be `#[inline(always)]`: other functions are compiled
/// for the baseline processor.
pub trait SimdWork {
    /// Result of the work.
    type Output;
    /// Computes the result.
    fn run(self) -> Self::Output;
}

/// Calls [`SimdWork::run`]. Intended for code whose results do not depend on the vector width, such as integer
/// arithmetic.
pub fn widest<W: SimdWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,lzcnt")]
        fn avx512<W: SimdWork>(work: W) -> W::Output {
            work.run()
        }
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
        fn avx2<W: SimdWork>(work: W) -> W::Output {
            work.run()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") {
            if has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq") {
                // SAFETY: a safe function with target features only requires a processor that has them, which was
                // just checked.
                #[allow(unsafe_code)]
                return unsafe { avx512(work) };
            }
            // SAFETY: the features of `avx2` were just checked.
            #[allow(unsafe_code)]
            return unsafe { avx2(work) };
        }
    }
    work.run()
}
