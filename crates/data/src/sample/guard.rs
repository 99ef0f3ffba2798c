//! Turns panics of image decoders into broken samples, so that one bad photo does not end a long run.

use super::{Broken, Cause};
use crate::guard::catch_panic;

/// Runs `read`. If it panics, the result is a [`Broken`] whose sample name is `place()`.
///
/// # Errors
/// The error of `read`, or its panic.
pub fn guarded<T>(place: impl FnOnce() -> String, read: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    catch_panic(read).unwrap_or_else(|message| Err(Broken::new(place(), Cause::UndecodableImage, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_broken_sample() {
        let place = || "photo.jpg".to_owned();
        let found = guarded::<()>(place, || panic!("row {} of 3", 7)).map_err(|broken| broken.to_string());
        assert_eq!(found, Err("sample `photo.jpg`: undecodable_image: the parser panicked: row 7 of 3".to_owned()));
        assert_eq!(guarded(place, || Ok(5)), Ok(5));
    }
}
