//! Writes TensorBoard event files without a protobuf library: a scalar needs only three message types.
//!
//! A file is a sequence of TFRecords: length (u64, little endian), masked CRC-32C of the length, payload, masked
//! CRC-32C of the payload. A payload is an `Event` message of tensorflow/core/util/event.proto:
//!
//! ```text
//! Event      { 1: double wall_time  2: int64 step  3: string file_version
//!              5: Summary summary   7: SessionLog session_log }
//! Summary    { 1: repeated Value }      Value { 1: string tag  2: float simple_value }
//! SessionLog { 1: enum status, START = 1 }
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// A TensorBoard event file, open for appending.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// Creates a new event file in `folder` for a run that continues after `step` updates. A session-start event makes
    /// the reader drop later steps of the folder's earlier files.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(folder: &Path, step: u64) -> Result<Self> {
        let seconds = wall_time() as u64;
        let process = std::process::id();
        // Several files can be created within one second, so the first free index is used.
        for number in 0.. {
            let path = folder.join(format!("events.out.tfevents.{seconds:010}.conifer.{process}.{number}"));
            match OpenOptions::new().create_new(true).append(true).open(&path) {
                Ok(file) => {
                    let mut events = Self { path, file };
                    events.event(0, |event| event.bytes(3, b"brain.Event:2"))?;
                    events.event(step + 1, |event| event.bytes(7, &ProtoMessage::with(|log| log.varint(1, 1))))?;
                    return Ok(events);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(&path)(error)),
            }
        }
        unreachable!("one of 2^31 file names is free")
    }

    /// Appends the scalars of one step.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn scalars(&mut self, step: u64, scalars: &[(String, f64)]) -> Result<()> {
        let summary = ProtoMessage::with(|summary| {
            for (tag, value) in scalars {
                let value = ProtoMessage::with(|entry| {
                    entry.bytes(1, tag.as_bytes());
                    entry.fixed32(2, (*value as f32).to_le_bytes());
                });
                summary.bytes(1, &value);
            }
        });
        self.event(step, |event| event.bytes(5, &summary))
    }

    fn event(&mut self, step: u64, content: impl FnOnce(&mut ProtoMessage)) -> Result<()> {
        let payload = ProtoMessage::with(|event| {
            event.fixed64(1, wall_time().to_le_bytes());
            event.varint(2, step);
            content(event);
        });
        self.file.write_all(&tf_record(&payload)).map_err(Error::io(&self.path))
    }
}

fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Frames a payload as a TFRecord.
fn tf_record(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(payload.len() + 16);
    record.extend_from_slice(&length);
    record.extend_from_slice(&masked_crc(&length).to_le_bytes());
    record.extend_from_slice(payload);
    record.extend_from_slice(&masked_crc(payload).to_le_bytes());
    record
}

/// CRC-32C, rotated and offset by a constant. TensorFlow masks it because a checksum of data that contains checksums is
/// weak.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A protobuf message under construction.
struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn with(content: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut message = Self(Vec::new());
        content(&mut message);
        message.0
    }

    fn varint(&mut self, field: u32, value: u64) {
        self.raw(u64::from(field << 3));
        self.raw(value);
    }

    fn fixed64(&mut self, field: u32, value: [u8; 8]) {
        self.raw(u64::from(field << 3 | 1));
        self.0.extend_from_slice(&value);
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.raw(u64::from(field << 3 | 2));
        self.raw(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn fixed32(&mut self, field: u32, value: [u8; 4]) {
        self.raw(u64::from(field << 3 | 5));
        self.0.extend_from_slice(&value);
    }

    /// Writes a varint: seven bits per byte, the lowest first. The top bit marks that more bytes follow.
    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
