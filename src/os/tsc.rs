//! The processor's time stamp counter.

#![allow(unsafe_code)]

/// Whether the counter runs at one speed whatever the processor does, as the processor says.
pub(crate) fn is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const LEAF: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= LEAF && __cpuid(LEAF).edx & 1 << 8 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The counter, read after all loads before this call are done and before anything after it
/// begins: without that, a lookup's waits for memory would not be in its time.
#[inline(always)]
pub(crate) fn read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: both are part of x86_64 and read no memory of the program.
        unsafe {
            _mm_lfence();
            let now = _rdtsc();
            _mm_lfence();
            now
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}
