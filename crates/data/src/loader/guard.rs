//! Decoders meet any bytes there are. One that panics costs its photo, not a run of days.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sample::{Broken, Cause};

/// The result of `read`; [`Broken`] under the name `place` when it panics.
///
/// # Errors
/// Those of `read`, and its panic.
pub fn guarded<T>(place: impl FnOnce() -> String, read: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let message = match panic.downcast_ref::<String>() {
            Some(text) => text,
            None => panic.downcast_ref::<&str>().copied().unwrap_or("no message"),
        };
        Err(Broken::new(place(), Cause::UndecodableImage, format!("the reader panicked: {message}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_broken_sample() {
        let place = || "photo.jpg".to_owned();
        let found = guarded::<()>(place, || panic!("row {} of 3", 7)).map_err(|broken| broken.to_string());
        assert_eq!(found, Err("sample `photo.jpg`: undecodable_image: the reader panicked: row 7 of 3".to_owned()));
        assert_eq!(guarded(place, || Ok(5)), Ok(5));
    }
}
