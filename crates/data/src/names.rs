//! File names as texts, for ids and labels. A name need not be UTF-8: it may come from an old archive or another system.
//!
//! Bytes that are no UTF-8 are written `\xNN`, with two lower-case hexadecimal digits. A backslash that would read as the start of such a
//! code is written `\x5c`, so that every name has a text of its own, from which [`path_of`] makes the name again. All other names are
//! their own text.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The text of a file name.
pub(crate) fn text_of(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            match c {
                '\\' if code(&valid.as_bytes()[at..]).is_some() => text.push_str("\\x5c"),
                c => text.push(c),
            }
        }
        // Writing to a text cannot fail.
        chunk.invalid().iter().for_each(|byte| _ = write!(text, "\\x{byte:02x}"));
    }
    text
}

/// The path of a text: [`text_of`] backwards, for each of its names.
pub(crate) fn path_of(text: &str) -> PathBuf {
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

/// The byte of a code at the start.
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

/// Elsewhere names are no bytes; those that are no text cannot be made again, and are reported as missing.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>, text: &str) -> PathBuf {
    String::from_utf8(bytes).map_or_else(|_| PathBuf::from(text), PathBuf::from)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn every_name_comes_back() {
        for (name, text) in [
            (&b"caf\xe9"[..], "caf\\xe9"),
            (b"\xe4\xf6/1.jpg", "\\xe4\\xf6/1.jpg"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"a\\b", "a\\b"),
            (b"a\\xzz", "a\\xzz"),
            // What looks like a code is none.
            (b"caf\\xe9", "caf\\x5cxe9"),
            (b"\\\xff\\x4\xff", "\\\\xff\\x4\\xff"),
        ] {
            let name = OsStr::from_bytes(name);
            assert_eq!(text_of(name), text);
            assert_eq!(path_of(text).as_os_str(), name, "{text}");
        }
    }
}
