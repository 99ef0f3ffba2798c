//! Reads the peak memory of the process.

/// Peak resident memory of the process in MiB (`VmHWM` on Linux), including pages that the allocator keeps for reuse;
/// `None` on other systems.
pub fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Writing to a block of 64 MiB raises the peak by 64 MiB, unless more was resident before.
    #[test]
    #[cfg(target_os = "linux")]
    fn peak_memory_rises_with_allocations() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0 / 1048576.0
        };
        let before = peak_rss_mb().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let here = resident();
        let after = peak_rss_mb().unwrap();
        // The kernel updates page counters per thread in batches, so a few pages may be missing.
        assert!(here > 64.0 && after >= before.max(here - 8.0), "{before} {here} {after}");
        drop(block);
        assert!(peak_rss_mb().unwrap() >= after - 8.0);
    }
}
