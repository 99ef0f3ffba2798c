//! Decoders meet any bytes there are. One that panics costs its photo, not a run of days.

use crate::guard::catch_panic;
use crate::sample::{Broken, Cause};

/// The result of `read`; [`Broken`] under the name `place` when it panics.
///
/// # Errors
/// Those of `read`, and its panic.
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
        assert_eq!(found, Err("sample `photo.jpg`: undecodable_image: its reader panicked: row 7 of 3".to_owned()));
        assert_eq!(guarded(place, || Ok(5)), Ok(5));
    }
}
