//! The governor's handle of one slot: starts its guardian, hands commands to it, replaces it when it was lost.
//!
//! It must not know limits; the watch does.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Signal as Number;

use super::socket::{self, Received};
use super::sweep::{Scope, Sweep, Tally};
use super::watch::{self, Streams, Watch};
use super::wire::{Frames, MAX_FRAME, Report, Request, RunRequest, Swept};
use super::{
    ARGUMENT, CgroupUse, CommandSpec, Ended, Exit, GuardianError, GuardianOptions, Interruption,
    Limits, Observer, registry,
};
use crate::cgroup::Leaf;
use crate::clock::boot_millis;
use crate::process::Pid;
use crate::signals::{Signals, Subscription};
use crate::tree;

/// From the start of a guardian to its first word; it takes a millisecond, and much longer only on a machine that is overwhelmed.
const READY_MILLIS: u64 = 30_000;
/// A guardian that does not take a request for this long is stopped or dead.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// From the closed socket to the guardian's end, which includes a last sweep.
const FAREWELL: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
/// Guardians tried for one command: one that was killed while idle is replaced without a word.
const ATTEMPTS: u32 = 3;

/// One slot: at most one command at a time. Dropping it ends its guardian.
#[derive(Debug)]
pub struct Guardian {
    options: GuardianOptions,
    signals: Signals,
    subscription: Subscription,
    /// What commands with an empty standard input read.
    null: OwnedFd,
    link: Option<Link>,
}

/// A living guardian.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: UnixStream,
    child: Child,
    leaf: Option<Leaf>,
    frames: Frames,
    received: Vec<u8>,
}

impl Guardian {
    /// Starts the guardian of a slot. The calling process becomes a subreaper: orphans of a lost guardian come back to it.
    ///
    /// # Errors
    /// The program cannot be started or does not act as a guardian, or the system refuses descriptors.
    pub fn start(options: GuardianOptions, signals: &Signals) -> Result<Self, GuardianError> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| GuardianError::system("become the parent of orphans", error))?;
        let subscription = signals.subscribe()?;
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| GuardianError::system("open /dev/null", error))?;
        let link = Link::start(&options)?;
        Ok(Self {
            options,
            signals: signals.clone(),
            subscription,
            null,
            link: Some(link),
        })
    }

    /// Whether the slot has a control group, so that also a command that kills its guardian and flees from this process is ended.
    #[must_use]
    pub fn has_group(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.leaf.is_some())
    }

    /// Runs a command to its end and to the end of everything below it. With a signal pending nothing is started.
    ///
    /// # Errors
    /// The command could not be supervised at all. A command that cannot be executed is [`Exit::NotStarted`].
    pub fn run(
        &mut self,
        command: &CommandSpec,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> Result<Ended, GuardianError> {
        if let Some(signal) = self.signals.pending() {
            let mut ended = Ended::not_started(
                libc::ECANCELED,
                format!("{} came before the command was started", signal.name()),
            );
            ended.interruption = Some(Interruption::Cancelled(signal));
            return Ok(ended);
        }
        let request = Request::Run(RunRequest {
            argv: command.argv.clone(),
            env: command.env.clone(),
            directory: std::path::absolute(&command.directory)
                .unwrap_or_else(|_| command.directory.clone()),
        });
        let frame = request.encode();
        if frame.len() > MAX_FRAME {
            return Ok(Ended::not_started(
                libc::E2BIG,
                watch::not_started_reason(command, libc::E2BIG, false),
            ));
        }
        let (streams, streams_of_command) = Streams::open(&command.stdin)?;
        let mut link = self.hand_over(&frame, &streams_of_command)?;
        drop(streams_of_command);
        let outcome = Watch::new(
            &mut link,
            &self.signals,
            &self.subscription,
            limits,
            observer,
            streams,
        )
        .run(command);
        match &outcome {
            Ok(ended) if ended.guardian_lost => drop(link),
            Ok(_) => self.link = Some(link),
            Err(_) => link.end(),
        }
        outcome
    }

    /// Gives the request to the guardian; one that turns out dead is replaced.
    fn hand_over(
        &mut self,
        frame: &[u8],
        streams: &watch::StreamsOfCommand,
    ) -> Result<Link, GuardianError> {
        let mut attempt = 0;
        loop {
            let mut link = match self.link.take() {
                Some(link) if !link.has_ended() => link,
                Some(lost) => {
                    lost.end();
                    Link::start(&self.options)?
                }
                None => Link::start(&self.options)?,
            };
            attempt += 1;
            match socket::send(&link.socket, frame, Some(streams.borrow(&self.null))) {
                Ok(()) => return Ok(link),
                Err(_) if attempt < ATTEMPTS => {
                    link.kill_guardian();
                    link.end();
                }
                Err(error) => {
                    return Err(GuardianError::system(
                        "hand a command to the guardian",
                        error,
                    ));
                }
            }
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.end();
        }
    }
}

impl Link {
    #[expect(
        clippy::disallowed_methods,
        reason = "this starts the guardian, under which all commands run"
    )]
    fn start(options: &GuardianOptions) -> Result<Self, GuardianError> {
        let leaf = match options.cgroup {
            CgroupUse::WhereAllowed => Leaf::create(),
            CgroupUse::Never => None,
        };
        let failed = |source: io::Error| GuardianError::Start {
            program: options.program.clone(),
            source,
        };
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_PATIENCE))
            .map_err(|error| failed(error.into()))?;
        let mut command = Command::new(&options.program);
        command
            .arg0("loopexec-guardian")
            .arg(ARGUMENT)
            .args(leaf.as_ref().map(Leaf::path))
            .env_clear();
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let spawned = registry::spawn(&mut command);
        // It holds the guardian's end of the socket.
        drop(command);
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                leaf.iter().for_each(Leaf::remove);
                return Err(failed(error));
            }
        };
        let mut link = Self {
            socket,
            child,
            leaf,
            frames: Frames::default(),
            received: Vec::new(),
        };
        if let Some(in_group) = link.wait_until_ready() {
            if !in_group {
                link.leaf.take().iter().for_each(Leaf::remove);
            }
            return Ok(link);
        }
        link.kill_guardian();
        link.end();
        Err(GuardianError::NotReady {
            program: options.program.clone(),
            patience_ms: READY_MILLIS,
        })
    }

    /// Waits for the guardian's first word: whether it is in its group. `None`: it has ended or says nothing.
    fn wait_until_ready(&mut self) -> Option<bool> {
        let give_up = boot_millis().saturating_add(READY_MILLIS);
        loop {
            let Incoming::Reports(reports) = self.receive() else {
                return None;
            };
            if let Some(Report::Ready { in_group }) = reports.first() {
                return Some(*in_group);
            }
            let left = give_up
                .checked_sub(boot_millis())
                .filter(|left| *left > 0)?;
            let mut waiting = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            // Too early a return only makes one round more.
            let _ = rustix::event::poll(&mut waiting, Some(&watch::timespec(left)));
        }
    }

    /// Takes what the guardian has said. Something that is no report is as good as its death.
    pub(super) fn receive(&mut self) -> Incoming {
        match socket::receive(&self.socket, &mut self.received, &mut VecDeque::new()) {
            Ok(Received::Some) => self.frames.push(&self.received),
            Ok(Received::Nothing) => {}
            Ok(Received::End) | Err(_) => return Incoming::Lost,
        }
        let mut reports = Vec::new();
        loop {
            match self.frames.next_frame() {
                Ok(Some(body)) => match Report::decode(&body) {
                    Ok(report) => reports.push(report),
                    Err(_) => return Incoming::Lost,
                },
                Ok(None) => return Incoming::Reports(reports),
                Err(_) => return Incoming::Lost,
            }
        }
    }

    /// Sends a request without streams. That the guardian is gone shows at the next reading.
    pub(super) fn ask(&self, request: &Request) {
        let _ = socket::send(&self.socket, &request.encode(), None);
    }

    /// A command may have stopped its guardian: lets it go on.
    pub(super) fn nudge(&self) {
        tree::send(Pid(self.child.id()), Number::CONT);
    }

    pub(super) fn kill_guardian(&mut self) {
        // Refused only when it is gone already.
        let _ = self.child.kill();
    }

    /// Whether the other end of the socket is closed. A late answer that nobody read is no end.
    fn has_ended(&self) -> bool {
        let mut socket = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        let polled = rustix::event::poll(
            &mut socket,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        );
        let [socket] = socket;
        polled.is_err() || socket.revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Ends everything of a guardian that is lost: its group where there is one, and the orphans that came back to this process.
    pub(super) fn end_orphans(&mut self) -> Swept {
        self.kill_guardian();
        // Only once it is reaped have its children been given to this process.
        let _ = self.child.wait();
        registry::forget(Pid(self.child.id()));
        if let Some(leaf) = &self.leaf {
            let _ = leaf.kill();
        }
        let mut tally = Tally::default();
        let sweep = Sweep {
            scope: Scope::Adopted,
            main: None,
            leaf: self.leaf.as_ref(),
            wake: None,
        };
        let (names, unkillable) = sweep.run(&mut tally, &mut || {});
        tally.into_swept(names, unkillable)
    }

    /// Closes the socket and sees the guardian off.
    fn end(mut self) {
        let pid = Pid(self.child.id());
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        if !self.wait_for_end() {
            self.kill_guardian();
        }
        let _ = self.child.wait();
        registry::forget(pid);
        if let Some(leaf) = &self.leaf {
            leaf.remove();
        }
    }

    fn wait_for_end(&self) -> bool {
        let Some(pid) = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return false;
        };
        let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        else {
            return false;
        };
        self.nudge();
        let mut waiting = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut waiting, Some(&FAREWELL)).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Link {
    /// A guardian that was lost in a run has been reaped there; its group is what remains.
    fn drop(&mut self) {
        if let Some(leaf) = &self.leaf {
            leaf.remove();
        }
    }
}

/// What a reading of the socket brought.
pub(super) enum Incoming {
    /// Nothing or something.
    Reports(Vec<Report>),
    /// The guardian is gone, or talks nonsense.
    Lost,
}

impl Ended {
    fn not_started(errno: i32, reason: String) -> Self {
        Self {
            exit: Exit::NotStarted { errno, reason },
            interruption: None,
            stdout: super::Captured::default(),
            stderr: super::Captured::default(),
            duration_ms: 0,
            cpu_ms: 0,
            max_rss_kib: 0,
            left_processes: super::LeftProcesses::default(),
            guardian_lost: false,
            unkillable: 0,
        }
    }
}
