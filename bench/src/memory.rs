//! Memory use of a case, as counted by the kernel. Only on Linux; elsewhere it is unknown.

use std::fs;

/// Resident memory at one point in time, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryMark {
    resident: u64,
    /// Resident file-backed pages (`RssFile`). The benchmarks map no data files, so these are program code.
    file: u64,
}

/// Returns the current memory and resets the peak, so that [`extra`] measures only what follows.
pub(crate) fn mark() -> Option<MemoryMark> {
    // Writing "5" resets the peak (proc(5)). Without the permission to do so, the extra memory is unknown.
    fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(MemoryMark { resident: field("VmRSS:")?, file: field("RssFile:")? })
}

/// Bytes by which the peak of the resident memory exceeds `mark`. Program code loaded since then is subtracted.
pub(crate) fn extra(mark: MemoryMark) -> Option<u64> {
    let code = field("RssFile:")?.saturating_sub(mark.file);
    Some(peak()?.saturating_sub(mark.resident).saturating_sub(code))
}

/// Peak of the resident memory since the last [`mark`], bytes.
pub(crate) fn peak() -> Option<u64> {
    field("VmHWM:")
}

fn field(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_block_of_64_megabytes_is_seen() {
        let Some(before) = mark() else {
            return;
        };
        let block = vec![1_u8; 64 << 20];
        let sum: u64 = block.iter().map(|&it| u64::from(it)).sum();
        drop(block);
        assert_eq!(sum, 64 << 20);
        let found = extra(before).unwrap();
        // Other tests of this binary run concurrently.
        assert!((60 << 20..256 << 20).contains(&found), "{found}");
    }
}
