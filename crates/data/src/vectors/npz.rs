//! NumPy's `.npz`: a ZIP archive of `.npy` files, stored or deflated, below 4 GiB.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

use super::{AcceptedShape, VectorMatrix, npy};
use crate::error::{Error, Result};

/// Length in bytes of the end-of-central-directory record, without its comment.
const END_BYTES: u64 = 22;
/// Maximum length in bytes of the archive comment.
const MAX_COMMENT: u64 = 0xffff;
/// Maximum length in bytes of the central directory.
const MAX_LIST: u64 = 1 << 24;
/// Expected content of the file, for messages.
const EXPECTED: &str = "an archive of arrays below 4 GiB, written by numpy.savez (numpy.save writes larger ones)";

/// An entry of the central directory.
struct ZipMember {
    name: String,
    method: u16,
    compressed: u64,
    offset: u64,
}

/// Reads the array `name`, or the only array if `name` is `None`.
pub(super) fn read(place: &str, mut file: File, name: Option<&str>, accepted: AcceptedShape) -> Result<VectorMatrix> {
    let members = members(&mut file).map_err(|error| Error::format(place, error.to_string(), EXPECTED))?;
    let array = |member: &ZipMember| member.name.trim_end_matches(".npy").to_owned();
    let member = match (name, &members[..]) {
        (Some(name), members) => members.iter().find(|member| array(member) == name),
        (None, [member]) => Some(member),
        (None, _) => None,
    };
    let Some(member) = member else {
        let names = members.iter().map(array).collect::<Vec<_>>().join(", ");
        let found =
            name.map_or(format!("{} arrays, none selected", members.len()), |name| format!("no array `{name}`"));
        return Err(Error::format(place, found, format!("the name of one of: {names}")));
    };
    let place = format!("array `{}` of {place}", array(member));
    let input = content(file, member).map_err(|error| Error::format(&place, error.to_string(), EXPECTED))?;
    match member.method {
        0 => npy::read(&place, input, accepted),
        8 => npy::read(&place, BufReader::new(DeflateDecoder::new(input)), accepted),
        other => Err(Error::format(&place, format!("compression method {other}"), EXPECTED)),
    }
}

/// Reads the central directory, which is at the end of the archive.
fn members(file: &mut File) -> std::io::Result<Vec<ZipMember>> {
    let wrong = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    let length = file.metadata()?.len();
    let tail = length.min(END_BYTES + MAX_COMMENT);
    let end = range(file, length - tail, tail)?;
    let start =
        (0..end.len().saturating_sub(END_BYTES as usize - 1)).rev().find(|&at| end[at..].starts_with(b"PK\x05\x06"));
    let end = &end[start.ok_or_else(|| wrong("no end of a ZIP archive"))?..];
    let (bytes, offset) = (number(end, 12, 4), number(end, 16, 4));
    if number(end, 10, 2) == 0xffff || offset == 0xffff_ffff || bytes == 0xffff_ffff {
        return Err(wrong("a ZIP64 archive"));
    }
    if bytes > MAX_LIST {
        return Err(wrong("a list of members of more than 16 MiB"));
    }
    let list = range(file, offset, bytes)?;
    let (mut members, mut rest) = (Vec::new(), &list[..]);
    while rest.len() >= 46 && rest.starts_with(b"PK\x01\x02") {
        let [name, extra, comment] = [28, 30, 32].map(|at| number(rest, at, 2) as usize);
        let (compressed, offset) = (number(rest, 20, 4), number(rest, 42, 4));
        if number(rest, 8, 2) & 1 != 0 {
            return Err(wrong("an encrypted archive"));
        }
        if compressed == 0xffff_ffff || offset == 0xffff_ffff {
            return Err(wrong("a ZIP64 archive"));
        }
        let Some(text) = rest.get(46..46 + name) else { return Err(wrong("a truncated list of members")) };
        let name_text = String::from_utf8_lossy(text).into_owned();
        members.push(ZipMember { name: name_text, method: number(rest, 10, 2) as u16, compressed, offset });
        rest = rest.get(46 + name + extra + comment..).unwrap_or_default();
    }
    Ok(members)
}

/// The bytes of a member as stored, which may be compressed.
fn content(mut file: File, member: &ZipMember) -> std::io::Result<impl Read> {
    let local = range(&mut file, member.offset, 30)?;
    if !local.starts_with(b"PK\x03\x04") {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "no member at its offset"));
    }
    let start = member.offset + 30 + number(&local, 26, 2) + number(&local, 28, 2);
    file.seek(SeekFrom::Start(start))?;
    Ok(BufReader::new(file.take(member.compressed)))
}

fn range(file: &mut File, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A little-endian number of `count` bytes; 0 past the end.
fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    let bytes = bytes.get(at..at + count).unwrap_or_default();
    bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
}
