//! The pipes of one command: both outputs read without blocking, the input fed without blocking.
//!
//! It must not know when the command ends.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::capture::Capture;
use crate::guardian::{Captured, GuardianError, Observer, Stdin, Stream};

/// Bytes of one read: what a grown pipe can hold is taken in few calls, and the buffer still fits the processor's cache.
const READ_BUFFER: usize = 128 * 1024;
/// Read at a time until a read was full: most commands print less, and need no large buffer made for them.
const FIRST_READ: usize = 4 * 1024;
/// A pipe that is found this full belongs to a command that prints much, and is made larger.
const FULL_PIPE: usize = 64 * 1024;
/// The size it is made, the largest an ordinary user gets.
const LARGE_PIPE: usize = 1024 * 1024;
/// Reads of one stream in a row, so that neither the other stream nor the time is forgotten.
const MAX_READS: u32 = 16;

/// The command's ends of its pipes; the guardian gets them, and then nobody else may keep them open.
#[derive(Debug)]
pub(in crate::guardian) struct StreamsOfCommand {
    /// `None`: the standard input is empty.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl StreamsOfCommand {
    pub(in crate::guardian) fn borrow<'a>(&'a self, null: &'a OwnedFd) -> [BorrowedFd<'a>; 3] {
        [
            self.stdin.as_ref().unwrap_or(null).as_fd(),
            self.stdout.as_fd(),
            self.stderr.as_fd(),
        ]
    }
}

/// Our ends of them.
#[derive(Debug)]
pub(in crate::guardian) struct Streams {
    stdout: Outlet,
    stderr: Outlet,
    input: Option<Input>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Outlet {
    /// `None` once it has ended.
    pipe: Option<OwnedFd>,
    is_large: bool,
    capture: Capture,
}

#[derive(Debug)]
struct Input {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

impl Streams {
    pub(in crate::guardian) fn open(
        stdin: &Stdin,
    ) -> Result<(Self, StreamsOfCommand), GuardianError> {
        let (our_stdout, stdout) = open_pipe()?;
        let (our_stderr, stderr) = open_pipe()?;
        let (input, stdin) = match stdin {
            Stdin::Empty => (None, None),
            Stdin::Bytes(bytes) => {
                let (stdin, our_stdin) = open_pipe()?;
                never_block(&our_stdin)?;
                (
                    Some(Input {
                        pipe: our_stdin,
                        bytes: bytes.clone(),
                        written: 0,
                    }),
                    Some(stdin),
                )
            }
        };
        never_block(&our_stdout)?;
        never_block(&our_stderr)?;
        let mut streams = Self {
            stdout: Outlet::new(our_stdout),
            stderr: Outlet::new(our_stderr),
            input,
            buffer: vec![0; FIRST_READ],
        };
        // What fits the pipe is in it before the command starts; nothing at all closes it.
        streams.feed();
        Ok((
            streams,
            StreamsOfCommand {
                stdin,
                stdout,
                stderr,
            },
        ))
    }

    pub(in crate::guardian) fn descriptor(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        self.outlet(stream).pipe.as_ref().map(OwnedFd::as_fd)
    }

    pub(in crate::guardian) fn input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(|input| input.pipe.as_fd())
    }

    pub(in crate::guardian) fn both_ended(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Bytes read so far of both streams.
    pub(in crate::guardian) fn totals(&self) -> (u64, u64) {
        (self.stdout.capture.total(), self.stderr.capture.total())
    }

    /// Reads what is there. True: something was.
    pub(in crate::guardian) fn read(
        &mut self,
        stream: Stream,
        observer: &mut dyn Observer,
    ) -> bool {
        let outlet = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let mut any = false;
        for _ in 0..MAX_READS {
            let Some(pipe) = &outlet.pipe else { break };
            match retry_on_intr(|| rustix::io::read(pipe, self.buffer.as_mut_slice())) {
                Ok(0) => outlet.pipe = None,
                Ok(read) => {
                    let bytes = self.buffer.get(..read).unwrap_or_default();
                    outlet.capture.push(bytes);
                    observer.output(stream, bytes);
                    any = true;
                    outlet.grow_if_full(read);
                    if read == self.buffer.len() {
                        self.buffer.resize(READ_BUFFER, 0);
                    }
                    if read < FULL_PIPE {
                        // Mostly all there was; if not, the next poll says so at once.
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(_) => outlet.pipe = None,
            }
        }
        any
    }

    /// Writes as much input as the pipe takes, and closes it behind the last byte.
    pub(in crate::guardian) fn feed(&mut self) {
        loop {
            let Some(input) = &mut self.input else { return };
            let rest = input.bytes.get(input.written..).unwrap_or_default();
            if rest.is_empty() {
                self.input = None;
                return;
            }
            match retry_on_intr(|| rustix::io::write(&input.pipe, rest)) {
                Ok(written) => input.written += written,
                Err(Errno::AGAIN) => return,
                // Nobody reads any more, which is the command's choice.
                Err(_) => self.input = None,
            }
        }
    }

    pub(in crate::guardian) fn close_input(&mut self) {
        self.input = None;
    }

    /// What was kept of both.
    pub(in crate::guardian) fn finish(&mut self) -> (Captured, Captured) {
        (self.stdout.finish(), self.stderr.finish())
    }

    fn outlet(&self, stream: Stream) -> &Outlet {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

impl Outlet {
    fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe: Some(pipe),
            is_large: false,
            capture: Capture::default(),
        }
    }

    fn grow_if_full(&mut self, read: usize) {
        if let (false, true, Some(pipe)) = (self.is_large, read >= FULL_PIPE, &self.pipe) {
            self.is_large = true;
            // Refused to a user with many pipes: it then goes on as it is.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, LARGE_PIPE);
        }
    }

    fn finish(&mut self) -> Captured {
        let held_open = self.pipe.take().is_some();
        std::mem::take(&mut self.capture).finish(held_open)
    }
}

fn open_pipe() -> Result<(OwnedFd, OwnedFd), GuardianError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| GuardianError::system("open a pipe", error))
}

/// Our end alone: the other one belongs to the command, which expects an ordinary pipe.
fn never_block(end: &OwnedFd) -> Result<(), GuardianError> {
    rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK)
        .map_err(|error| GuardianError::system("prepare a pipe", error))
}
