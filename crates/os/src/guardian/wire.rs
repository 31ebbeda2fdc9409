//! What governor and guardian say to each other: length-prefixed frames over a stream socket.
//!
//! It must not know sockets or processes; it turns messages into bytes and back. Arguments and paths are bytes, not text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Longest frame: the kernel takes some megabytes of arguments and environment, so nothing longer could be executed.
pub(super) const MAX_FRAME: usize = 16 * 1024 * 1024;
/// Bytes of the length before each frame.
const PREFIX: usize = 4;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum WireError {
    #[error("a frame of {0} bytes is longer than the limit")]
    TooLong(usize),
    #[error("a frame ends within a field")]
    Short,
    #[error("a frame has {0} bytes after its last field")]
    Rest(usize),
    #[error("a frame is of the unknown kind {0}")]
    Kind(u8),
}

/// A command to start; its three streams come beside the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunRequest {
    pub(super) argv: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) directory: PathBuf,
}

/// From the governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Run(RunRequest),
    /// `SIGTERM` to everything; no sweep until `Kill` or until all have gone.
    Terminate,
    Kill,
    /// Asks for the time the tree has taken.
    Cpu,
}

/// What the sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Swept {
    pub(super) cpu_millis: u64,
    pub(super) max_rss_kib: u64,
    pub(super) left: u64,
    pub(super) names: Vec<String>,
    pub(super) unkillable: u32,
}

/// From the guardian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// At work; whether it is in the control group made for it.
    Ready {
        in_group: bool,
    },
    /// The program, or (`directory`) its working directory, could not be used.
    NotStarted {
        errno: i32,
        directory: bool,
    },
    /// The raw wait status of the command.
    Exited {
        status: i32,
    },
    Cpu {
        millis: u64,
    },
    /// Still at work on the sweep.
    Sweeping,
    Swept(Swept),
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut frame = Frame::default();
        match self {
            Self::Run(run) => {
                frame.byte(1);
                frame.count(run.argv.len());
                for argument in &run.argv {
                    frame.text(argument);
                }
                frame.count(run.env.len());
                for (name, value) in &run.env {
                    frame.text(name);
                    frame.text(value);
                }
                frame.text(run.directory.as_os_str());
            }
            Self::Terminate => frame.byte(2),
            Self::Kill => frame.byte(3),
            Self::Cpu => frame.byte(4),
        }
        frame.finish()
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields(body);
        let request = match fields.byte()? {
            1 => {
                let mut argv = Vec::new();
                for _ in 0..fields.number()? {
                    argv.push(fields.text()?);
                }
                let mut env = Vec::new();
                for _ in 0..fields.number()? {
                    env.push((fields.text()?, fields.text()?));
                }
                Self::Run(RunRequest {
                    argv,
                    env,
                    directory: fields.text()?.into(),
                })
            }
            2 => Self::Terminate,
            3 => Self::Kill,
            4 => Self::Cpu,
            kind => return Err(WireError::Kind(kind)),
        };
        fields.end().map(|()| request)
    }
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut frame = Frame::default();
        match self {
            Self::Ready { in_group } => {
                frame.byte(1);
                frame.byte(u8::from(*in_group));
            }
            Self::NotStarted { errno, directory } => {
                frame.byte(2);
                frame.signed(*errno);
                frame.byte(u8::from(*directory));
            }
            Self::Exited { status } => {
                frame.byte(3);
                frame.signed(*status);
            }
            Self::Cpu { millis } => {
                frame.byte(4);
                frame.long(*millis);
            }
            Self::Sweeping => frame.byte(5),
            Self::Swept(swept) => {
                frame.byte(6);
                frame.long(swept.cpu_millis);
                frame.long(swept.max_rss_kib);
                frame.long(swept.left);
                frame.long(u64::from(swept.unkillable));
                frame.count(swept.names.len());
                for name in &swept.names {
                    frame.text(OsStr::new(name));
                }
            }
        }
        frame.finish()
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields(body);
        let report = match fields.byte()? {
            1 => Self::Ready {
                in_group: fields.byte()? != 0,
            },
            2 => Self::NotStarted {
                errno: fields.signed()?,
                directory: fields.byte()? != 0,
            },
            3 => Self::Exited {
                status: fields.signed()?,
            },
            4 => Self::Cpu {
                millis: fields.long()?,
            },
            5 => Self::Sweeping,
            6 => {
                let (cpu_millis, max_rss_kib, left) =
                    (fields.long()?, fields.long()?, fields.long()?);
                let unkillable = u32::try_from(fields.long()?).unwrap_or(u32::MAX);
                let mut names = Vec::new();
                for _ in 0..fields.number()? {
                    names.push(fields.text()?.to_string_lossy().into_owned());
                }
                Self::Swept(Swept {
                    cpu_millis,
                    max_rss_kib,
                    left,
                    names,
                    unkillable,
                })
            }
            kind => return Err(WireError::Kind(kind)),
        };
        fields.end().map(|()| report)
    }
}

/// Collects received bytes and gives whole frames back.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The body of the next frame, when all of it is there.
    pub(super) fn next_frame(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MAX_FRAME {
            return Err(WireError::TooLong(length));
        }
        let Some(body) = rest.get(..length).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.buffer.drain(..PREFIX + length);
        if self.buffer.is_empty() {
            // One long request must not keep its memory for the rest of the run.
            self.buffer = Vec::new();
        }
        Ok(Some(body))
    }
}

#[derive(Debug, Default)]
struct Frame(Vec<u8>);

impl Frame {
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A count beyond the range makes a frame that is refused for its length long before.
    fn count(&mut self, value: usize) {
        self.0
            .extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn signed(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn long(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, value: &OsStr) {
        self.count(value.len());
        self.0.extend_from_slice(value.as_bytes());
    }

    fn finish(self) -> Vec<u8> {
        let mut bytes = u32::try_from(self.0.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes()
            .to_vec();
        bytes.extend_from_slice(&self.0);
        bytes
    }
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_le_bytes)
    }

    fn signed(&mut self) -> Result<i32, WireError> {
        self.take().map(i32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<OsString, WireError> {
        let length = self.number()? as usize;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(OsString::from_vec(taken.to_vec()))
    }

    fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(WireError::Rest(self.0.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(OsString::from_vec)
    }

    fn run() -> impl Strategy<Value = Request> {
        let env = prop::collection::vec((text(), text()), 0..6);
        (prop::collection::vec(text(), 0..6), env, text()).prop_map(|(argv, env, directory)| {
            Request::Run(RunRequest {
                argv,
                env,
                directory: directory.into(),
            })
        })
    }

    fn request() -> impl Strategy<Value = Request> {
        prop_oneof![
            run(),
            Just(Request::Terminate),
            Just(Request::Kill),
            Just(Request::Cpu)
        ]
    }

    fn report() -> impl Strategy<Value = Report> {
        let swept = (
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            any::<u32>(),
            prop::collection::vec(".{0,16}", 0..4),
        )
            .prop_map(|(cpu_millis, max_rss_kib, left, unkillable, names)| {
                Report::Swept(Swept {
                    cpu_millis,
                    max_rss_kib,
                    left,
                    names,
                    unkillable,
                })
            });
        prop_oneof![
            any::<bool>().prop_map(|in_group| Report::Ready { in_group }),
            Just(Report::Sweeping),
            (any::<i32>(), any::<bool>())
                .prop_map(|(errno, directory)| Report::NotStarted { errno, directory }),
            any::<i32>().prop_map(|status| Report::Exited { status }),
            any::<u64>().prop_map(|millis| Report::Cpu { millis }),
            swept,
        ]
    }

    proptest! {
        #[test]
        fn messages_survive_the_wire_in_pieces_of_any_size(requests in prop::collection::vec(request(), 1..5), piece in 1_usize..50) {
            let bytes: Vec<u8> = requests.iter().flat_map(Request::encode).collect();
            let mut frames = Frames::default();
            let mut received = Vec::new();
            for chunk in bytes.chunks(piece) {
                frames.push(chunk);
                while let Some(body) = frames.next_frame().unwrap() {
                    received.push(Request::decode(&body).unwrap());
                }
            }
            prop_assert_eq!(received, requests);
        }

        #[test]
        fn reports_survive_the_wire(report in report()) {
            let bytes = report.encode();
            prop_assert_eq!(Report::decode(&bytes[PREFIX..]).unwrap(), report);
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_read_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::decode(&bytes);
            let _ = Report::decode(&bytes);
        }
    }

    #[test]
    fn a_frame_at_the_limit_is_awaited_and_one_beyond_is_refused() {
        let mut frames = Frames::default();
        frames.push(&u32::try_from(MAX_FRAME).unwrap().to_le_bytes());
        assert_eq!(frames.next_frame(), Ok(None));
        let mut frames = Frames::default();
        frames.push(&u32::try_from(MAX_FRAME + 1).unwrap().to_le_bytes());
        assert_eq!(frames.next_frame(), Err(WireError::TooLong(MAX_FRAME + 1)));
    }

    #[test]
    fn bytes_after_the_last_field_are_refused() {
        assert_eq!(Request::decode(&[2, 0]), Err(WireError::Rest(1)));
        assert_eq!(Request::decode(&[]), Err(WireError::Short));
        assert_eq!(Report::decode(&[99]), Err(WireError::Kind(99)));
    }
}
