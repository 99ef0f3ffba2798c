//! Work compiled for the widest vectors of the processor at hand: a generic x86-64 program that uses AVX-512 where it is.

/// A piece of work. [`Work::run`] and all that it calls has to be `#[inline(always)]`: what is not becomes a function of its own, compiled
/// for the smallest processor.
pub(crate) trait Work {
    type Output;
    fn run(self) -> Self::Output;
}

/// Does the work. For whole numbers, whose results do not depend on the width of vectors.
pub(crate) fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,lzcnt")]
        fn avx512<W: Work>(work: W) -> W::Output {
            work.run()
        }
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
        fn avx2<W: Work>(work: W) -> W::Output {
            work.run()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") {
            if has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq") {
                // SAFETY: the only condition of a safe function with target features is a processor that has them.
                #[allow(unsafe_code)]
                return unsafe { avx512(work) };
            }
            // SAFETY: as above.
            #[allow(unsafe_code)]
            return unsafe { avx2(work) };
        }
    }
    work.run()
}
