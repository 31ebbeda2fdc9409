//! The SSH agent protocol, as far as signing needs it: list the keys, sign with one.
//!
//! The agent is another program: every length is checked against a limit before anything is read. Where the socket is,
//! the caller says.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key::PublicKey;

/// How long an agent may take: a person may have to confirm the use of the key.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The largest answer that agents send.
pub const ANSWER_BYTES: usize = 256 << 10;

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Why an agent gave no signature.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No connection, or it ended early.
    #[error("talking to the SSH agent at {socket}")]
    Connection {
        /// The agent's socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The answer is longer than [`ANSWER_BYTES`].
    #[error("the SSH agent announces an answer of {found} bytes, more than {ANSWER_BYTES}")]
    AnswerTooLong {
        /// The announced length.
        found: usize,
    },
    /// The answer is not what the protocol says.
    #[error("the answer of the SSH agent to {request} is malformed")]
    Malformed {
        /// What was asked.
        request: &'static str,
    },
    /// The agent does not hold the key.
    #[error("the SSH agent does not hold {key_id}; add it with ssh-add")]
    UnknownKey {
        /// The key's fingerprint.
        key_id: String,
    },
    /// The agent refused.
    #[error(
        "the SSH agent refused to sign with {key_id}; it may be locked, or the use was not confirmed"
    )]
    Refused {
        /// The key's fingerprint.
        key_id: String,
    },
}

/// Asks the agent for a signature by `key` over `message`.
///
/// # Errors
/// See [`AgentError`].
pub fn sign(socket: &Path, key: &PublicKey, message: &[u8]) -> Result<[u8; 64], AgentError> {
    let failed = |source| AgentError::Connection {
        socket: socket.into(),
        source,
    };
    let stream = UnixStream::connect(socket).map_err(failed)?;
    stream
        .set_read_timeout(Some(ANSWER_WITHIN))
        .map_err(failed)?;
    stream
        .set_write_timeout(Some(ANSWER_WITHIN))
        .map_err(failed)?;
    let mut agent = Agent { stream, socket };
    if !agent.holds(key)? {
        return Err(AgentError::UnknownKey {
            key_id: key.key_id(),
        });
    }
    agent.sign(key, message)
}

struct Agent<'a> {
    stream: UnixStream,
    socket: &'a Path,
}

impl Agent<'_> {
    fn holds(&mut self, key: &PublicKey) -> Result<bool, AgentError> {
        let answer = self.ask(&[REQUEST_IDENTITIES])?;
        let malformed = || AgentError::Malformed {
            request: "a list of keys",
        };
        let mut fields = Fields {
            rest: answer
                .strip_prefix(&[IDENTITIES_ANSWER])
                .ok_or_else(malformed)?,
        };
        let wire = key.wire();
        let count = fields.number().ok_or_else(malformed)?;
        for _ in 0..count {
            let blob = fields.string().ok_or_else(malformed)?;
            fields.string().ok_or_else(malformed)?;
            if blob == wire {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn sign(&mut self, key: &PublicKey, message: &[u8]) -> Result<[u8; 64], AgentError> {
        let mut request = vec![SIGN_REQUEST];
        put_string(&mut request, &key.wire());
        put_string(&mut request, message);
        request.extend_from_slice(&[0; 4]); // no flags: they choose RSA digests
        let answer = self.ask(&request)?;
        if answer.first() == Some(&FAILURE) {
            return Err(AgentError::Refused {
                key_id: key.key_id(),
            });
        }
        signature(&answer).ok_or(AgentError::Malformed {
            request: "a signature",
        })
    }

    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, AgentError> {
        let failed = |source| AgentError::Connection {
            socket: self.socket.into(),
            source,
        };
        let mut framed = Vec::with_capacity(request.len() + 4);
        put_string(&mut framed, request);
        self.stream.write_all(&framed).map_err(failed)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(failed)?;
        let found = u32::from_be_bytes(length) as usize;
        if found > ANSWER_BYTES {
            return Err(AgentError::AnswerTooLong { found });
        }
        let mut answer = vec![0; found];
        self.stream.read_exact(&mut answer).map_err(failed)?;
        Ok(answer)
    }
}

fn signature(answer: &[u8]) -> Option<[u8; 64]> {
    let mut fields = Fields {
        rest: answer.strip_prefix(&[SIGN_RESPONSE])?,
    };
    let mut inner = Fields {
        rest: fields.string()?,
    };
    if inner.string()? != b"ssh-ed25519" {
        return None;
    }
    inner.string()?.try_into().ok()
}

/// Appends a length and the bytes.
///
/// What is sent is a key or a statement; a length above 4 GiB would be refused by the agent.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The fields of a message, read from the front.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (string, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(string)
    }
}
