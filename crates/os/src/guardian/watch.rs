//! The governor's side of one running command: one poll loop over the guardian, both streams, the input and the signals.
//!
//! It must not know how processes are ended; it says when. Times are those of the clock that goes on while the machine sleeps.

mod idle;
mod streams;

use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use self::idle::IdleWatch;
pub(super) use self::streams::{Streams, StreamsOfCommand};
use super::slot::{Incoming, Link};
use super::wire::{Report, Request, Swept};
use super::{
    Activity, CommandSpec, Ended, Exit, GuardianError, Interruption, LeftProcesses, Limits,
    Observer, Stream,
};
use crate::clock::boot_millis;
use crate::signals::{Signals, Subscription};

/// A guardian that was told to kill and then says nothing for this long is given up: it is stopped, or hangs in the kernel.
const GUARDIAN_PATIENCE_MILLIS: u64 = 15_000;
/// After the sweep nothing of the command lives. A stream still open was handed to a foreign process, and is not waited for much longer.
const DRAIN_MILLIS: u64 = 1_000;
/// Shortest tick: below it, the loop would do nothing else.
const SHORTEST_TICK_MILLIS: u64 = 10;
/// Longest sleep of the loop, so that no arithmetic on times needs more care.
const LONGEST_SLEEP_MILLIS: u64 = 60_000;

/// How far the end of a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// Told to end; killed at this time.
    Terminating {
        kill_at: u64,
    },
    /// Told to kill; the guardian is given up at this time.
    Killing {
        give_up_at: u64,
    },
    /// Swept; the streams are read out until this time.
    Draining {
        until: u64,
    },
}

pub(super) struct Watch<'a> {
    link: &'a mut Link,
    signals: &'a Signals,
    subscription: &'a Subscription,
    limits: &'a Limits,
    observer: &'a mut dyn Observer,
    streams: Streams,
    idle: Option<IdleWatch>,
    stage: Stage,
    started: u64,
    last_output: u64,
    next_tick: u64,
    command_ended: Option<u64>,
    exit: Option<Exit>,
    interruption: Option<Interruption>,
    swept: Swept,
    guardian_lost: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        link: &'a mut Link,
        signals: &'a Signals,
        subscription: &'a Subscription,
        limits: &'a Limits,
        observer: &'a mut dyn Observer,
        streams: Streams,
    ) -> Self {
        let now = boot_millis();
        Self {
            link,
            signals,
            subscription,
            limits,
            observer,
            streams,
            idle: limits
                .idle
                .map(|window| IdleWatch::new(millis(window), now)),
            stage: Stage::Running,
            started: now,
            last_output: now,
            next_tick: now.saturating_add(tick(limits)),
            command_ended: None,
            exit: None,
            interruption: None,
            swept: Swept::default(),
            guardian_lost: false,
        }
    }

    /// Runs to the end of the command and of everything below it.
    pub(super) fn run(&mut self, command: &CommandSpec) -> Result<Ended, GuardianError> {
        // A signal that came between the caller's look and the subscription's use is not slept over.
        self.notice_signals(boot_millis());
        loop {
            let now = boot_millis();
            self.act_on_time(now);
            if self.is_over(now) {
                return Ok(self.ended(now));
            }
            let [guardian, signal, stdout, stderr, stdin] = self.wait(now)?;
            if stdout {
                self.read(Stream::Stdout);
            }
            if stderr {
                self.read(Stream::Stderr);
            }
            if stdin {
                self.streams.feed();
            }
            if signal {
                self.subscription.drain();
                self.notice_signals(boot_millis());
            }
            if guardian {
                self.hear_guardian(command);
            }
        }
    }

    fn is_over(&self, now: u64) -> bool {
        match self.stage {
            Stage::Draining { until } => self.streams.both_ended() || now >= until,
            Stage::Running | Stage::Terminating { .. } | Stage::Killing { .. } => false,
        }
    }

    fn act_on_time(&mut self, now: u64) {
        if now >= self.next_tick {
            self.next_tick = now.saturating_add(tick(self.limits));
            self.link.nudge();
            let (stdout_bytes, stderr_bytes) = self.streams.totals();
            let activity = Activity {
                elapsed_ms: now - self.started,
                silent_ms: now - self.last_output,
                stdout_bytes,
                stderr_bytes,
            };
            self.observer.tick(&activity);
        }
        match self.stage {
            Stage::Running => {
                if self.deadline().is_some_and(|deadline| now >= deadline) {
                    self.terminate(Interruption::Deadline, now);
                } else if self
                    .idle
                    .as_mut()
                    .is_some_and(|idle| idle.wants_sample(now))
                {
                    self.link.ask(&Request::Cpu);
                }
            }
            Stage::Terminating { kill_at } if now >= kill_at => self.kill(now),
            Stage::Killing { give_up_at } if now >= give_up_at => self.lose_guardian(),
            Stage::Terminating { .. } | Stage::Killing { .. } | Stage::Draining { .. } => {}
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.limits
            .timeout
            .map(|timeout| self.started.saturating_add(millis(timeout)))
    }

    /// When something has to be done even if nothing happens.
    fn wake_at(&self) -> u64 {
        let for_stage = match self.stage {
            Stage::Running => {
                let sample = self.idle.as_ref().map(IdleWatch::next_sample);
                self.deadline()
                    .into_iter()
                    .chain(sample)
                    .min()
                    .unwrap_or(u64::MAX)
            }
            Stage::Terminating { kill_at } => kill_at,
            Stage::Killing { give_up_at } => give_up_at,
            Stage::Draining { until } => until,
        };
        for_stage.min(self.next_tick)
    }

    /// Sleeps until something is ready: guardian, signal, stdout, stderr, stdin.
    fn wait(&self, now: u64) -> Result<[bool; 5], GuardianError> {
        let sleep = timespec(self.wake_at().saturating_sub(now).min(LONGEST_SLEEP_MILLIS));
        let guardian = if self.guardian_lost {
            None
        } else {
            Some(self.link.socket.as_fd())
        };
        let sources = [
            (guardian, PollFlags::IN),
            (Some(self.subscription.as_fd()), PollFlags::IN),
            (self.streams.descriptor(Stream::Stdout), PollFlags::IN),
            (self.streams.descriptor(Stream::Stderr), PollFlags::IN),
            (self.streams.input(), PollFlags::OUT),
        ];
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(sources.len());
        polled.extend(sources.iter().filter_map(|(descriptor, flags)| {
            descriptor.map(|fd| PollFd::from_borrowed_fd(fd, *flags))
        }));
        match rustix::event::poll(&mut polled, Some(&sleep)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(GuardianError::system("wait", error)),
        }
        let mut answers = polled
            .iter()
            .map(|descriptor| !descriptor.revents().is_empty());
        Ok(sources.map(|(descriptor, _)| descriptor.is_some() && answers.next().unwrap_or(false)))
    }

    fn read(&mut self, stream: Stream) {
        if self.streams.read(stream, self.observer) {
            let now = boot_millis();
            self.last_output = now;
            if let Some(idle) = &mut self.idle {
                idle.active(now);
            }
        }
    }

    fn notice_signals(&mut self, now: u64) {
        let Some(signal) = self.signals.pending() else {
            return;
        };
        let impatient = self.signals.interrupts() >= 2;
        match self.stage {
            Stage::Running if impatient => {
                self.interruption = Some(Interruption::Cancelled(signal));
                self.kill(now);
            }
            Stage::Running => self.terminate(Interruption::Cancelled(signal), now),
            Stage::Terminating { .. } if impatient => self.kill(now),
            Stage::Terminating { .. } | Stage::Killing { .. } | Stage::Draining { .. } => {}
        }
    }

    fn hear_guardian(&mut self, command: &CommandSpec) {
        let reports = match self.link.receive() {
            Incoming::Reports(reports) => reports,
            Incoming::Lost => return self.lose_guardian(),
        };
        for report in reports {
            let now = boot_millis();
            if let Stage::Killing { give_up_at } = &mut self.stage {
                *give_up_at = now.saturating_add(GUARDIAN_PATIENCE_MILLIS);
            }
            match report {
                Report::Ready { .. } | Report::Sweeping => {}
                Report::NotStarted { errno, directory } => {
                    self.exit = Some(Exit::NotStarted {
                        errno,
                        reason: not_started_reason(command, errno, directory),
                    });
                    self.over(now);
                }
                Report::Exited { status } => {
                    self.exit = Some(exit_of(status));
                    self.command_ended = Some(now);
                    self.streams.close_input();
                }
                Report::Cpu { millis } => {
                    let idle = self
                        .idle
                        .as_mut()
                        .is_some_and(|idle| idle.sampled(millis, now));
                    if idle && self.stage == Stage::Running {
                        self.terminate(Interruption::Idle, now);
                    }
                }
                Report::Swept(swept) => {
                    self.swept = swept;
                    self.over(now);
                }
            }
        }
    }

    fn terminate(&mut self, why: Interruption, now: u64) {
        self.interruption = Some(why);
        if self.limits.grace.is_zero() {
            return self.kill(now);
        }
        self.stage = Stage::Terminating {
            kill_at: now.saturating_add(millis(self.limits.grace)),
        };
        self.link.ask(&Request::Terminate);
    }

    fn kill(&mut self, now: u64) {
        self.stage = Stage::Killing {
            give_up_at: now.saturating_add(GUARDIAN_PATIENCE_MILLIS),
        };
        self.link.nudge();
        self.link.ask(&Request::Kill);
    }

    fn lose_guardian(&mut self) {
        if !self.guardian_lost {
            self.guardian_lost = true;
            self.swept = self.link.end_orphans();
        }
        self.over(boot_millis());
    }

    fn over(&mut self, now: u64) {
        self.streams.close_input();
        self.stage = Stage::Draining {
            until: now.saturating_add(DRAIN_MILLIS),
        };
    }

    fn ended(&mut self, now: u64) -> Ended {
        let (stdout, stderr) = self.streams.finish();
        let swept = std::mem::take(&mut self.swept);
        Ended {
            exit: self.exit.take().unwrap_or(Exit::Unknown),
            interruption: self.interruption,
            stdout,
            stderr,
            duration_ms: self
                .command_ended
                .unwrap_or(now)
                .saturating_sub(self.started),
            cpu_ms: swept.cpu_millis,
            max_rss_kib: swept.max_rss_kib,
            left_processes: LeftProcesses {
                count: swept.left,
                names: swept.names,
            },
            guardian_lost: self.guardian_lost,
            unkillable: swept.unkillable,
        }
    }
}

pub(super) fn not_started_reason(command: &CommandSpec, errno: i32, directory: bool) -> String {
    let error = std::io::Error::from_raw_os_error(errno);
    if directory {
        return format!(
            "cannot enter the directory {}: {error}",
            command.directory.display()
        );
    }
    let program = command.argv.first().map_or_else(
        || "an empty command".into(),
        |program| program.to_string_lossy(),
    );
    format!("cannot execute {program}: {error}")
}

fn exit_of(status: i32) -> Exit {
    if libc::WIFEXITED(status) {
        Exit::Code(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Unknown
    }
}

pub(super) fn timespec(millis: u64) -> Timespec {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: millis / 1_000,
        tv_nsec: (millis % 1_000) * 1_000_000,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn tick(limits: &Limits) -> u64 {
    millis(limits.tick).max(SHORTEST_TICK_MILLIS)
}
