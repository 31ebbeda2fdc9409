//! A record as one line of JSON: header fields first, then the event's own, in declared order.

use super::{Event, Header, Record};

/// Longest line that is read: a record holds ids and digests, never bodies.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a line is not a record.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Not JSON, or a common field is missing or of the wrong type.
    #[error("the common fields cannot be read: {0}")]
    Header(#[source] serde_json::Error),
    /// The event's own fields do not fit its name.
    #[error("the fields of {event:?} cannot be read: {source}")]
    Payload {
        /// The event's public name.
        event: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Longer than any record.
    #[error("{length} bytes are more than a record can have ({LINE_BYTES_MAX})")]
    TooLong {
        /// Bytes of the line.
        length: usize,
    },
}

/// Reads one line, without its newline.
///
/// # Errors
///
/// When the line is not JSON of a known event.
pub fn parse(line: &[u8]) -> Result<Record, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong { length: line.len() });
    }
    let header: Header = serde_json::from_slice(line).map_err(LineError::Header)?;
    let event = Event::from_json(header.event, line).map_err(|source| LineError::Payload {
        event: header.event.name(),
        source,
    })?;
    Ok(Record { header, event })
}

/// Writes one line, without its newline.
///
/// # Errors
///
/// Only when a type of this program cannot be written as JSON, which is a defect.
pub fn encode(record: &Record) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&record.header)?;
    let payload = record.event.payload_json()?;
    if let Some(fields) = payload.strip_prefix(b"{")
        && fields != b"}"
    {
        line.pop();
        line.push(b',');
        line.extend_from_slice(fields);
    }
    Ok(line)
}
