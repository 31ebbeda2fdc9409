//! The guardian's side: starts commands on request, reaps, sweeps, and ends everything when the governor is gone.
//!
//! It must not know limits or deadlines; it does what it is told and reports. It holds no descriptor but its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::socket::{self, Received, STREAMS};
use super::spawn::{self, NotStarted};
use super::sweep::{self, Scope, Sweep, Tally};
use super::wire::{Frames, Report, Request, RunRequest};
use crate::cgroup::Leaf;
use crate::process::Pid;
use crate::{signals, tree};

/// Signals that would end the guardian, and with it every command, when a command sends them around. It takes them without effect.
/// Handlers rather than ignoring: an ignored signal would stay ignored in the commands.
const SHRUGGED_OFF: [i32; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];
/// First descriptor that is not a standard stream.
const FIRST_OTHER: u32 = 3;
/// Highest signal number of Linux.
const LAST_SIGNAL: i32 = 64;

/// What the program does when its first argument is [`super::ARGUMENT`]: serves the governor at descriptor 0, and never returns.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the whole main of the guardian, which has no envelope to print"
)]
pub fn guardian_main() -> ! {
    // Nobody hears a guardian: a failure shows to the governor as the end of the socket.
    match Server::prepare().and_then(Server::serve) {
        Ok(never) => match never {},
        Err(_) => std::process::exit(1),
    }
}

struct Running {
    main: Pid,
    tally: Tally,
    /// The command's output streams, kept open until its report: the governor then wakes once for the end of both and for the report.
    outputs: [OwnedFd; 2],
    /// Whether everything was told to end; the tree then has its grace even when the command itself is gone.
    terminating: bool,
}

struct Server {
    socket: UnixStream,
    /// Readable when a child ended.
    wake: UnixStream,
    leaf: Option<Leaf>,
    frames: Frames,
    streams: VecDeque<OwnedFd>,
    received: Vec<u8>,
    running: Option<Running>,
}

impl Server {
    fn prepare() -> io::Result<Self> {
        rustix::process::setsid()?;
        let socket = take_socket()?;
        reset_signals();
        for number in SHRUGGED_OFF {
            signal_hook::flag::register(number, Arc::new(AtomicBool::new(false)))?;
        }
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(libc::SIGCHLD, waker)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // Should a command have stopped this guardian when the governor dies, it goes on and sees that.
        rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
        // A name people find in a list of processes, which may otherwise be that of a link in /proc.
        rustix::thread::set_name(c"loopexec-guard")?;
        // Neither the workspace nor a mount below it may be kept busy.
        rustix::process::chdir("/")?;
        let leaf = std::env::args_os()
            .nth(2)
            .map(|path: OsString| Leaf::existing(path.into()));
        let leaf = leaf.filter(|leaf| leaf.join().is_ok());
        let ready = Report::Ready {
            in_group: leaf.is_some(),
        };
        socket::send(&socket, &ready.encode(), None)?;
        Ok(Self {
            socket,
            wake,
            leaf,
            frames: Frames::default(),
            streams: VecDeque::new(),
            received: Vec::new(),
            running: None,
        })
    }

    fn serve(mut self) -> io::Result<Infallible> {
        let outcome = self.serve_until_the_end();
        // Whatever the reason: no command outlives its guardian.
        self.sweep(&mut Tally::default(), None);
        if let Some(leaf) = &self.leaf {
            // The governor may be dead, so whoever is last removes the group.
            if leaf.leave().is_ok() {
                leaf.remove();
            }
        }
        outcome
    }

    fn serve_until_the_end(&mut self) -> io::Result<Infallible> {
        loop {
            let mut waiting = [
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
            ];
            match rustix::event::poll(&mut waiting, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [socket, wake] = waiting.map(|descriptor| !descriptor.revents().is_empty());
            if socket {
                self.receive()?;
            }
            if wake {
                signals::drain(self.wake.as_fd());
                self.children_ended()?;
            }
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        match socket::receive(&self.socket, &mut self.received, &mut self.streams)? {
            Received::Some => self.frames.push(&self.received),
            Received::Nothing => return Ok(()),
            Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        while let Some(body) = self.frames.next_frame().map_err(io::Error::other)? {
            match Request::decode(&body).map_err(io::Error::other)? {
                Request::Run(request) => self.start(&request)?,
                Request::Terminate => self.terminate()?,
                Request::Kill => self.finish()?,
                Request::Cpu => self.report_cpu()?,
            }
        }
        Ok(())
    }

    fn start(&mut self, request: &RunRequest) -> io::Result<()> {
        let streams: Vec<OwnedFd> = self
            .streams
            .drain(..STREAMS.min(self.streams.len()))
            .collect();
        let streams = <[OwnedFd; STREAMS]>::try_from(streams)
            .map_err(|_| io::Error::other("a command came without its streams"))?;
        let [_, stdout, stderr] = &streams;
        let outputs = [stdout.try_clone()?, stderr.try_clone()?];
        match spawn::spawn(request, streams) {
            Ok(main) => {
                self.running = Some(Running {
                    main,
                    tally: Tally::default(),
                    outputs,
                    terminating: false,
                });
                Ok(())
            }
            Err(NotStarted { errno, directory }) => {
                self.report(&[Report::NotStarted { errno, directory }])
            }
        }
    }

    fn children_ended(&mut self) -> io::Result<()> {
        let Some(running) = &mut self.running else {
            // Something that could not be killed in time has ended after all.
            sweep::reap(Scope::Everything, None, &mut Tally::default(), false);
            return Ok(());
        };
        let left = sweep::reap(
            Scope::Everything,
            Some(running.main),
            &mut running.tally,
            false,
        );
        let main_ended = running.tally.main_status.is_some();
        if !left || (main_ended && !running.terminating) {
            self.finish()
        } else {
            Ok(())
        }
    }

    fn terminate(&mut self) -> io::Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        running.terminating = true;
        for pid in descendants() {
            tree::send(pid, Signal::TERM);
            // A stopped process takes the signal only once it goes on.
            tree::send(pid, Signal::CONT);
        }
        Ok(())
    }

    fn report_cpu(&mut self) -> io::Result<()> {
        let reaped = self
            .running
            .as_ref()
            .map_or(0, |running| running.tally.cpu_micros / 1_000);
        let millis = tree::cpu_millis(&descendants()).saturating_add(reaped);
        self.report(&[Report::Cpu { millis }])
    }

    /// Ends what is left of the command and reports. Without a running command there is nothing to say.
    fn finish(&mut self) -> io::Result<()> {
        let Some(Running {
            main,
            mut tally,
            outputs,
            ..
        }) = self.running.take()
        else {
            return Ok(());
        };
        let left = sweep::reap(Scope::Everything, Some(main), &mut tally, false);
        let exited_before = tally.main_status;
        if let (true, Some(status)) = (left, exited_before) {
            // The sweep may take a while; the command itself took no longer than until here.
            self.report(&[Report::Exited { status }])?;
        }
        let (names, unkillable) = if left {
            self.sweep(&mut tally, Some(main))
        } else {
            (Vec::new(), 0)
        };
        let mut reports = Vec::with_capacity(2);
        if let (Some(status), false) = (tally.main_status, left && exited_before.is_some()) {
            reports.push(Report::Exited { status });
        }
        reports.push(Report::Swept(tally.into_swept(names, unkillable)));
        drop(outputs);
        self.report(&reports)
    }

    fn sweep(&self, tally: &mut Tally, main: Option<Pid>) -> (Vec<String>, u32) {
        let sweep = Sweep {
            scope: Scope::Everything,
            main,
            leaf: self.leaf.as_ref(),
            wake: Some(self.wake.as_fd()),
        };
        // A governor that has died meanwhile changes nothing: the sweep goes on.
        sweep.run(tally, &mut || drop(self.report(&[Report::Sweeping])))
    }

    fn report(&self, reports: &[Report]) -> io::Result<()> {
        let bytes: Vec<u8> = reports.iter().flat_map(Report::encode).collect();
        socket::send(&self.socket, &bytes, None)
    }
}

fn descendants() -> Vec<Pid> {
    tree::with_descendants(tree::children(Pid(std::process::id())))
}

/// Moves the socket away from descriptor 0, so that no command can get at it, and closes all else that was inherited: a lock or a pipe of
/// whoever started the program must not live as long as a guardian.
#[expect(
    unsafe_code,
    reason = "the guardian takes over descriptors by their numbers"
)]
fn take_socket() -> io::Result<UnixStream> {
    // A kernel before 5.9 refuses; what this program opened closes by itself on exec, so only foreign descriptors then stay.
    // SAFETY: called first in a process that has opened nothing yet; what is closed here, nobody in this process owns.
    let _ = unsafe { libc::close_range(FIRST_OTHER, u32::MAX, 0) };
    let socket =
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_OTHER.cast_signed())?;
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(socket))
}

/// Default dispositions and an empty mask, whatever the governor was started with: both pass through exec to every command.
#[expect(unsafe_code, reason = "dispositions and the mask have no safe wrapper")]
fn reset_signals() {
    for number in 1..=LAST_SIGNAL {
        // A broken pipe has to be an error value here; the standard library resets this one in what it starts.
        if number != libc::SIGPIPE {
            // SAFETY: no handler is replaced that anybody relies on: none is installed yet. Refusals (KILL, STOP) are harmless.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
    let mut empty = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `empty` is initialised by `sigemptyset` before it is read, and the process has one thread.
    unsafe {
        libc::sigemptyset(empty.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, empty.as_ptr(), std::ptr::null_mut());
    }
}
