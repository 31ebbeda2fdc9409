//! The signals that ask the program to stop.
//!
//! Handlers only count and wake; nothing is decided in them. It must not know what is being stopped.
//! Handlers, unlike ignored signals and masks, do not pass to executed programs, so children start with default dispositions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::io::Errno;
use signal_hook::SigId;

/// A signal that asks the program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`: a person pressed Ctrl-C.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
    /// `SIGHUP`: the terminal went away.
    Hangup,
    /// `SIGQUIT`.
    Quit,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Terminate, Self::Hangup, Self::Quit];

    /// The number the system uses.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Hangup => libc::SIGHUP,
            Self::Quit => libc::SIGQUIT,
        }
    }

    /// The name people know: `SIGINT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
            Self::Quit => "SIGQUIT",
        }
    }

    fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|signal| signal.number() == number)
    }
}

/// Why the handlers could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// The system refused a handler.
    #[error("cannot handle {signal}")]
    Register {
        /// The signal's name.
        signal: &'static str,
        /// Why.
        source: io::Error,
    },
    /// No descriptor to wake a waiting thread could be made.
    #[error("cannot make the pipe that signals wake")]
    Pipe(#[source] io::Error),
}

#[derive(Debug, Default)]
struct Counters {
    /// Number of the first unacknowledged signal; 0: none.
    first: AtomicI32,
    interrupts: AtomicU32,
}

/// The installed handlers. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Signals {
    counters: Arc<Counters>,
    handled: Arc<Vec<Signal>>,
}

impl Signals {
    /// Installs the handlers; called once, before any other thread and any guardian.
    ///
    /// A `SIGHUP` that is ignored at the start stays ignored: that is how `nohup` is meant. The others are handled even then, because a
    /// shell without job control ignores `SIGINT` and `SIGQUIT` for everything it puts into the background.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn install() -> Result<Self, SignalError> {
        let counters = Arc::new(Counters::default());
        undo_inherited();
        let handled: Vec<Signal> = Signal::ALL
            .into_iter()
            .filter(|signal| *signal != Signal::Hangup || !is_ignored(signal.number()))
            .collect();
        for signal in &handled {
            count(*signal, &counters).map_err(|source| SignalError::Register {
                signal: signal.name(),
                source,
            })?;
        }
        survive_size_limits().map_err(|source| SignalError::Register {
            signal: "SIGXFSZ",
            source,
        })?;
        Ok(Self {
            counters,
            handled: Arc::new(handled),
        })
    }

    /// The first signal that came since the start or since [`Self::acknowledge`].
    #[must_use]
    pub fn pending(&self) -> Option<Signal> {
        Signal::from_number(self.counters.first.load(Ordering::SeqCst))
    }

    /// How many `SIGINT` came since the start: the second one makes every grace zero.
    #[must_use]
    pub fn interrupts(&self) -> u32 {
        self.counters.interrupts.load(Ordering::SeqCst)
    }

    /// Forgets the pending signal, so that what must still run after a cancellation can run. The count of interrupts stays.
    pub fn acknowledge(&self) {
        self.counters.first.store(0, Ordering::SeqCst);
    }

    /// A descriptor of its own for one waiting thread: it becomes readable when a signal comes.
    ///
    /// # Errors
    /// The system refuses a descriptor or a handler.
    pub fn subscribe(&self) -> Result<Subscription, SignalError> {
        let (reader, writer) = UnixStream::pair().map_err(SignalError::Pipe)?;
        reader.set_nonblocking(true).map_err(SignalError::Pipe)?;
        let mut subscription = Subscription {
            reader,
            registered: Vec::new(),
        };
        for signal in self.handled.iter() {
            let register =
                || signal_hook::low_level::pipe::register(signal.number(), writer.try_clone()?);
            let id = register().map_err(|source| SignalError::Register {
                signal: signal.name(),
                source,
            })?;
            subscription.registered.push(id);
        }
        Ok(subscription)
    }
}

/// A descriptor that becomes readable when a signal comes.
#[derive(Debug)]
pub struct Subscription {
    reader: UnixStream,
    registered: Vec<SigId>,
}

impl Subscription {
    /// Takes back the readiness. To be called before [`Signals::pending`] is asked, or a signal between the two is slept over.
    pub fn drain(&self) {
        drain(self.reader.as_fd());
    }

    /// Sleeps until a signal comes; another reason to wake up is no error, so [`Signals::pending`] is to be asked.
    ///
    /// # Errors
    /// The descriptor cannot be waited on.
    pub fn wait(&self) -> io::Result<()> {
        let mut waited = [rustix::event::PollFd::new(
            &self.reader,
            rustix::event::PollFlags::IN,
        )];
        match rustix::event::poll(&mut waited, None) {
            Ok(_) | Err(Errno::INTR) => {
                self.drain();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Reads a non-blocking wake-up descriptor empty.
pub(crate) fn drain(reader: BorrowedFd<'_>) {
    let mut buffer = [0_u8; 64];
    loop {
        match rustix::io::read(reader, &mut buffer) {
            Ok(read) if read == buffer.len() => {}
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

#[expect(
    unsafe_code,
    reason = "a signal handler cannot be registered otherwise"
)]
fn count(signal: Signal, counters: &Arc<Counters>) -> io::Result<()> {
    let counters = Arc::clone(counters);
    let number = signal.number();
    let handler = move || {
        let _ = counters
            .first
            .compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
        if number == libc::SIGINT {
            counters.interrupts.fetch_add(1, Ordering::SeqCst);
        }
    };
    // SAFETY: the handler only changes atomics, which is async-signal-safe; it neither allocates, locks nor panics.
    unsafe { signal_hook::low_level::register(number, handler) }.map(|_| ())
}

/// A limit on the size of files must be an error of the write, which is recorded and reported, and not the end of the program.
///
/// A handler rather than ignoring: an ignored signal would stay ignored in the commands.
fn survive_size_limits() -> io::Result<()> {
    signal_hook::flag::register(libc::SIGXFSZ, Arc::default()).map(|_| ())
}

/// Undoes what whoever started this program may have left: a blocked signal would never be heard, and with an ignored `SIGCHLD` the
/// status of a child is lost.
#[expect(unsafe_code, reason = "dispositions and the mask have no safe wrapper")]
fn undo_inherited() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: the default disposition replaces no handler: there was none.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    let mut ours = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `ours` is initialised by `sigemptyset` before it is changed or read.
    unsafe {
        libc::sigemptyset(ours.as_mut_ptr());
        for signal in Signal::ALL {
            libc::sigaddset(ours.as_mut_ptr(), signal.number());
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, ours.as_ptr(), std::ptr::null_mut());
    }
}

#[expect(
    unsafe_code,
    reason = "the current disposition can only be read with a raw call"
)]
fn is_ignored(number: i32) -> bool {
    let mut current = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only reads; `current` is valid for writes, and all-zero bytes are a valid `sigaction`.
    let outcome = unsafe { libc::sigaction(number, std::ptr::null(), current.as_mut_ptr()) };
    // SAFETY: zeroed at first and then at most filled by the kernel.
    let current = unsafe { current.assume_init() };
    outcome == 0 && current.sa_sigaction == libc::SIG_IGN
}
