//! Follows the request boundaries on a connection, to detect ambiguous request heads.
//!
//! A head with both `Content-Length` and `Transfer-Encoding` must be rejected. A proxy in front of this server may use
//! the length while hyper uses the encoding. The rest of the body would then be read as a request of another client
//! (request smuggling; RFC 9112, 6.1). hyper drops one of the two headers before it passes the head on, so this module
//! looks for them in the bytes of the connection.

/// Maximum number of bytes kept of a line. This is more than `Transfer-Encoding: chunked`, a length or a chunk size
/// needs.
const MAX_LINE_BYTES: usize = 128;

/// Parser of the request boundaries of one connection.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    state: FramingState,
    /// The start of the current line, without the line end.
    line: Vec<u8>,
    /// `Content-Length` of the current head.
    length: Option<u64>,
    /// True if the current head has `Transfer-Encoding`.
    encoded: bool,
    heads: u64,
    ambiguous: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramingState {
    #[default]
    RequestLine,
    Fields,
    /// Remaining bytes of a body.
    Body(u64),
    ChunkSize,
    /// Remaining bytes of a chunk, including the line end after it.
    Chunk(u64),
    Trailers,
    /// Parsing has ended, because the request is rejected and the connection is closed.
    Over,
}

impl Framing {
    /// Parses the next bytes of the connection.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.state {
                FramingState::Over => return,
                FramingState::Body(left) | FramingState::Chunk(left) => {
                    let skipped = left.min(bytes.len() as u64);
                    bytes = &bytes[skipped as usize..];
                    self.state = match (self.state, left - skipped) {
                        (FramingState::Body(_), 0) => FramingState::RequestLine,
                        (FramingState::Body(_), left) => FramingState::Body(left),
                        (_, 0) => FramingState::ChunkSize,
                        (_, left) => FramingState::Chunk(left),
                    };
                }
                _ => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    self.line
                        .extend_from_slice(&part[..part.len().min(MAX_LINE_BYTES.saturating_sub(self.line.len()))]);
                    bytes = &bytes[(part.len() + usize::from(end.is_some()))..];
                    if end.is_some() {
                        let line = std::mem::take(&mut self.line);
                        self.state = self.after(line.trim_ascii_end());
                    }
                }
            }
        }
    }

    /// Index of the first request (from 0) whose head has both `Content-Length` and `Transfer-Encoding`.
    pub(crate) fn ambiguous(&self) -> Option<u64> {
        self.ambiguous
    }

    fn after(&mut self, line: &[u8]) -> FramingState {
        match self.state {
            // Empty lines before a request line are skipped.
            FramingState::RequestLine if line.is_empty() => FramingState::RequestLine,
            FramingState::RequestLine => FramingState::Fields,
            FramingState::Fields if line.is_empty() => self.body(),
            FramingState::Fields => self.field(line),
            FramingState::ChunkSize => {
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let size = std::str::from_utf8(size).ok().and_then(|it| u64::from_str_radix(it, 16).ok());
                match size {
                    Some(0) => FramingState::Trailers,
                    // Two more bytes for the line end after the chunk.
                    Some(size) => size.checked_add(2).map_or(FramingState::Over, FramingState::Chunk),
                    None => FramingState::Over,
                }
            }
            FramingState::Trailers if line.is_empty() => FramingState::RequestLine,
            other => other,
        }
    }

    fn field(&mut self, line: &[u8]) -> FramingState {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return FramingState::Fields };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            self.length = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
            // An invalid length counts as a length too. Together with `Transfer-Encoding` it makes the head ambiguous;
            // alone, hyper rejects it.
            self.length = self.length.or(Some(u64::MAX));
        }
        self.encoded |= name.eq_ignore_ascii_case(b"transfer-encoding");
        FramingState::Fields
    }

    /// Returns the state after a complete head.
    fn body(&mut self) -> FramingState {
        let number = self.heads;
        self.heads += 1;
        match (self.length.take(), std::mem::take(&mut self.encoded)) {
            (Some(_), true) => {
                self.ambiguous = Some(number);
                FramingState::Over
            }
            (None, true) => FramingState::ChunkSize,
            (Some(length), false) if length > 0 => FramingState::Body(length),
            _ => FramingState::RequestLine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes in pieces of several sizes. Asserts that the index of the ambiguous request is the same, and
    /// returns it.
    fn ambiguous(bytes: &[u8]) -> Option<u64> {
        let fed = |size: usize| {
            let mut framing = Framing::default();
            bytes.chunks(size).for_each(|piece| framing.feed(piece));
            framing.ambiguous()
        };
        let found = fed(bytes.len());
        for size in [1, 2, 3, 7, 50] {
            assert_eq!(fed(size), found, "pieces of {size}");
        }
        found
    }

    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    const BOTH: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";

    #[test]
    fn ambiguous_heads_are_detected() {
        assert_eq!(ambiguous(BOTH.as_bytes()), Some(0));
        assert_eq!(ambiguous(b"POST / HTTP/1.1\nTRANSFER-ENCODING:chunked\nContent-Length:5\n\n"), Some(0));
        assert_eq!(ambiguous(b"POST / HTTP/1.1\r\ncontent-length: no\r\ntransfer-encoding: x\r\n\r\n"), Some(0));
        let after = |first: &str| ambiguous(format!("{first}{BOTH}").as_bytes());
        assert_eq!(after(GET), Some(1));
        assert_eq!(after(&format!("\r\n\r\n{GET}{GET}")), Some(2));
        // A body that looks like an ambiguous request is skipped, and the request after it is parsed.
        let body = "x\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        let length = body.len();
        let plain = format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}");
        assert_eq!((ambiguous(plain.as_bytes()), after(&plain)), (None, Some(1)));
        let chunked = format!(
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{length:x};a=b\r\n{body}\r\n1\r\nx\r\n0\r\ntrailer: 1\r\n\r\n"
        );
        assert_eq!((ambiguous(chunked.as_bytes()), after(&chunked)), (None, Some(1)));
    }

    #[test]
    fn long_and_malformed_input_is_handled() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\ncontent-length: 0\r\n\r\n{BOTH}", "a".repeat(100_000));
        assert_eq!(ambiguous(long.as_bytes()), Some(1));
        for bytes in [
            &b"\0\xff\xfe"[..],
            b"\x16\x03\x01\x02\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert_eq!(ambiguous(bytes), None);
        }
        let endless = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{BOTH}", u64::MAX);
        assert_eq!(ambiguous(endless.as_bytes()), None);
    }
}
