//! Lossless conversion between file names and text, for ids and labels. File names need not be UTF-8, for example in
//! old archives.
//!
//! Invalid UTF-8 bytes are escaped as `\xNN` with two lower-case hexadecimal digits. A backslash that would start such
//! an escape is written as `\x5c`, so that the conversion is reversible ([`path_of`]). All other names are unchanged.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Converts a file name to text.
pub fn text_of(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            match c {
                '\\' if code(&valid.as_bytes()[at..]).is_some() => text.push_str("\\x5c"),
                c => text.push(c),
            }
        }
        // Writing to a string cannot fail.
        chunk.invalid().iter().for_each(|byte| _ = write!(text, "\\x{byte:02x}"));
    }
    text
}

/// Converts a text back to a path: the inverse of [`text_of`] for each component.
pub fn path_of(text: &str) -> PathBuf {
    if !text.contains("\\x") {
        return PathBuf::from(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match code(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    from_bytes(bytes, text)
}

/// The byte of the escape at the start of `text`; `None` if `text` does not start with an escape.
fn code(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |it: u8| match it {
        b'0'..=b'9' => Some(it - b'0'),
        b'a'..=b'f' => Some(it - b'a' + 10),
        _ => None,
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>, _: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

/// On other platforms file names are not byte strings. A name that was not valid text cannot be restored, so its file
/// is reported as missing.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>, text: &str) -> PathBuf {
    String::from_utf8(bytes).map_or_else(|_| PathBuf::from(text), PathBuf::from)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, text) in [
            (&b"caf\xe9"[..], "caf\\xe9"),
            (b"\xe4\xf6/1.jpg", "\\xe4\\xf6/1.jpg"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"a\\b", "a\\b"),
            (b"a\\xzz", "a\\xzz"),
            // A name that looks like an escape is itself escaped.
            (b"caf\\xe9", "caf\\x5cxe9"),
            (b"\\\xff\\x4\xff", "\\\\xff\\x4\\xff"),
        ] {
            let name = OsStr::from_bytes(name);
            assert_eq!(text_of(name), text);
            assert_eq!(path_of(text).as_os_str(), name, "{text}");
        }
    }
}
