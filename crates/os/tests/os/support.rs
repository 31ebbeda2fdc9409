//! What the tests share: commands, a recording observer, waiting for an event, and who of a test is still alive.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loopexec_os::clock::boot_millis;
use loopexec_os::guardian::{
    Activity, CgroupUse, CommandSpec, Ended, Guardian, GuardianOptions, Limits, Observer, Stdin,
    Stream,
};
use loopexec_os::signals::Signals;

/// Names, which are sentences, and tests.
pub(crate) type Tests = &'static [(&'static str, fn())];

/// Nothing here takes this long unless it hangs.
pub(crate) const PATIENCE_MILLIS: u64 = 60_000;

pub(crate) fn signals() -> &'static Signals {
    static SIGNALS: OnceLock<Signals> = OnceLock::new();
    SIGNALS.get_or_init(|| Signals::install().unwrap())
}

pub(crate) fn guardian() -> Guardian {
    Guardian::start(GuardianOptions::this_program(), signals()).unwrap()
}

pub(crate) fn guardian_without_cgroup() -> Guardian {
    let options = GuardianOptions {
        cgroup: CgroupUse::Never,
        ..GuardianOptions::this_program()
    };
    Guardian::start(options, signals()).unwrap()
}

/// Marks every process of one test through its environment.
pub(crate) struct Tag(String);

impl Tag {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Living processes with this mark.
    pub(crate) fn alive(&self) -> Vec<PathBuf> {
        let entry = format!("OS_TEST_TAG={}\0", self.0);
        let carries = |process: &PathBuf| {
            let environment = fs_err::read(process.join("environ")).unwrap_or_default();
            environment
                .windows(entry.len())
                .any(|window| window == entry.as_bytes())
        };
        let is_number = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.as_bytes().iter().all(u8::is_ascii_digit))
        };
        fs_err::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .filter(is_number)
            .filter(carries)
            .collect()
    }

    pub(crate) fn assert_none_alive(&self) {
        assert_eq!(self.alive(), Vec::<PathBuf>::new());
    }

    pub(crate) fn shell(&self, script: &str) -> CommandSpec {
        CommandSpec {
            argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            env: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("OS_TEST_TAG".into(), self.text().into()),
            ],
            directory: Path::new("/").into(),
            stdin: Stdin::Empty,
        }
    }
}

pub(crate) fn limits() -> Limits {
    Limits {
        timeout: Some(Duration::from_millis(PATIENCE_MILLIS)),
        idle: None,
        grace: Duration::from_secs(20),
        tick: Duration::from_millis(50),
    }
}

/// Counts what it hears.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
    pub(crate) ticks: u64,
}

impl Observer for Heard {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout += bytes.len() as u64,
            Stream::Stderr => self.stderr += bytes.len() as u64,
        }
    }

    fn tick(&mut self, _: &Activity) {
        self.ticks += 1;
    }
}

pub(crate) fn run(guardian: &mut Guardian, command: &CommandSpec, limits: &Limits) -> Ended {
    guardian
        .run(command, limits, &mut Heard::default())
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asks again and again until it is so, or fails by the deadline.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = boot_millis() + PATIENCE_MILLIS;
    let pause = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 5_000_000,
    };
    while !is_so() {
        assert!(boot_millis() < deadline, "waited in vain: {what}");
        let _ = rustix::event::poll(&mut [], Some(&pause));
    }
}
