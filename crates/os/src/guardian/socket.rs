//! The stream socket between governor and guardian, and the descriptors that travel beside its bytes.
//!
//! It must not know what the frames say.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors beside a request: the three streams of the command.
pub(super) const STREAMS: usize = 3;
/// Bytes of one read. Requests are mostly an environment of some kilobytes.
const BUFFER: usize = 16 * 1024;

/// Sends a frame, with the streams of a command beside its first byte when there are any.
pub(super) fn send(
    socket: &UnixStream,
    frame: &[u8],
    streams: Option<[BorrowedFd<'_>; STREAMS]>,
) -> io::Result<()> {
    let mut rest = frame;
    if let Some(streams) = streams {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&streams)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let sent = retry_on_intr(|| {
            sendmsg(
                socket,
                &[IoSlice::new(rest)],
                &mut control,
                SendFlags::NOSIGNAL,
            )
        })?;
        rest = rest.get(sent..).unwrap_or_default();
    }
    while !rest.is_empty() {
        let sent = retry_on_intr(|| rustix::net::send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = rest.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// What one read brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Bytes; they are in the buffer given.
    Some,
    /// Nothing was waiting.
    Nothing,
    /// The other side is gone.
    End,
}

/// Reads what is waiting, without blocking.
pub(super) fn receive(
    socket: &UnixStream,
    bytes: &mut Vec<u8>,
    streams: &mut VecDeque<OwnedFd>,
) -> io::Result<Received> {
    bytes.resize(BUFFER, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let outcome = retry_on_intr(|| {
        recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(bytes)],
            &mut control,
            flags,
        )
    });
    let received = match outcome {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::AGAIN) => {
            bytes.clear();
            return Ok(Received::Nothing);
        }
        // The other side died with our bytes unread.
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => return Err(error.into()),
    };
    bytes.truncate(received);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            streams.extend(descriptors);
        }
    }
    Ok(if received == 0 {
        Received::End
    } else {
        Received::Some
    })
}
