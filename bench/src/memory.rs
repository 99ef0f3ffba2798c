//! How much memory a piece of work takes, by the kernel's own count (Linux; elsewhere nothing is told).

use std::fs;

/// The resident memory at one time, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryMark {
    resident: u64,
    /// Pages of files, which is program code.
    file: u64,
}

/// The memory now. The highest mark is set back to it, so that [`extra`] tells of what comes after.
pub(crate) fn mark() -> Option<MemoryMark> {
    // "5" resets the peak (proc(5)); where that is not allowed the extra memory is unknown.
    fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(MemoryMark { resident: field("VmRSS:")?, file: field("RssFile:")? })
}

/// Bytes by which the resident memory rose above `mark` at its highest; program code that was read since does not count.
pub(crate) fn extra(mark: MemoryMark) -> Option<u64> {
    let code = field("RssFile:")?.saturating_sub(mark.file);
    Some(peak()?.saturating_sub(mark.resident).saturating_sub(code))
}

/// The highest resident memory since the last [`mark`], bytes.
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
        // Other tests of this binary run beside it.
        assert!((60 << 20..256 << 20).contains(&found), "{found}");
    }
}
