//! Panics of third-party parsers.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// How many calls of [`catch_panic`] this thread is inside of.
    static GUARDED: Cell<usize> = const { Cell::new(0) };
}

/// The result of `work`, or the message of its panic. For libraries that parse files of others: what they make of a damaged file is an
/// error of that file. While `work` runs, the panic hook of the program (which prints a backtrace on stderr) is not called for this
/// thread.
///
/// # Errors
/// The message of the panic.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if GUARDED.get() == 0 {
                previous(info);
            }
        }));
    });
    GUARDED.set(GUARDED.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(GUARDED.get() - 1);
    result.map_err(|panic| match panic.downcast_ref::<String>() {
        Some(text) => format!("its reader panicked: {text}"),
        None => format!("its reader panicked: {}", panic.downcast_ref::<&str>().unwrap_or(&"no message")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(catch_panic(|| 5), Ok(5));
        let row = 7;
        assert_eq!(
            catch_panic(|| assert!(row < 3, "row {row} of 3")),
            Err("its reader panicked: row 7 of 3".to_owned())
        );
        assert_eq!(catch_panic::<()>(|| panic!("no row")), Err("its reader panicked: no row".to_owned()));
        // Within another one, and afterwards.
        let nested = catch_panic(|| catch_panic::<()>(|| panic!("inner")).is_err());
        assert_eq!((nested, GUARDED.get()), (Ok(true), 0));
    }
}
