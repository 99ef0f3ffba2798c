//! Turns panics of third-party parsers into errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Number of nested [`catch_panic`] calls on this thread.
    static GUARDED: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` and returns its result, or the message of its panic. Use it for third-party parsers, which may panic on
/// damaged files. While `work` runs, the program's panic hook (which prints a backtrace to stderr) is not called for
/// this thread.
///
/// # Errors
/// `work` panicked; the error is the message of the panic.
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
        Some(text) => format!("the parser panicked: {text}"),
        None => format!("the parser panicked: {}", panic.downcast_ref::<&str>().unwrap_or(&"no message")),
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
            Err("the parser panicked: row 7 of 3".to_owned())
        );
        assert_eq!(catch_panic::<()>(|| panic!("no row")), Err("the parser panicked: no row".to_owned()));
        // Nested calls restore the counter.
        let nested = catch_panic(|| catch_panic::<()>(|| panic!("inner")).is_err());
        assert_eq!((nested, GUARDED.get()), (Ok(true), 0));
    }
}
