//! Where everything of a workspace is kept: the names below `.loopexec/` and of the second copy outside.
//!
//! Must not read or write anything.

use std::path::{Path, PathBuf};

use loopexec_core::digest::Digest;

/// The store's directory in a workspace.
pub const STORE: &str = ".loopexec";
/// Longest run id (contract 1.1).
const RUN_ID_MAX: usize = 64;

/// Whether a text can name a run: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
#[must_use]
pub fn valid_run_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= RUN_ID_MAX
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// The paths of one workspace.
#[derive(Clone, Debug)]
pub struct Layout {
    workdir: PathBuf,
    outside: Option<PathBuf>,
}

impl Layout {
    /// The layout of a workspace; `workdir` is canonical, `state_home` the directory for state of programs, where there is one.
    #[must_use]
    pub fn new(workdir: &Path, state_home: Option<&Path>) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let name = Digest::of(workdir.as_os_str().as_bytes()).to_string();
        Self {
            workdir: workdir.to_owned(),
            outside: state_home.map(|home| home.join("loopexec").join(name)),
        }
    }

    /// The workspace.
    #[must_use]
    pub fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// `.loopexec`.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.workdir.join(STORE)
    }

    /// A file of the store.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.store().join(name)
    }

    /// The receipt of a run.
    #[must_use]
    pub fn receipt(&self, run_id: &str) -> PathBuf {
        self.file(&format!("run-{run_id}.jsonl"))
    }

    /// The snapshot of a run's fold.
    #[must_use]
    pub fn state(&self, run_id: &str) -> PathBuf {
        self.file(&state_name(run_id))
    }

    /// The link to the latest run's snapshot.
    #[must_use]
    pub fn latest(&self) -> PathBuf {
        self.file("state.json")
    }

    /// The workspace log.
    #[must_use]
    pub fn workspace_log(&self) -> PathBuf {
        self.file("workspace.jsonl")
    }

    /// The private directory of a run.
    #[must_use]
    pub fn run_directory(&self, run_id: &str) -> PathBuf {
        self.store().join("runs").join(run_id)
    }

    /// The signatures of a run: SSHSIG, Sigstore bundle, HMAC.
    #[must_use]
    pub fn signatures(&self, run_id: &str) -> [PathBuf; 3] {
        [
            self.file(&format!("run-{run_id}.jsonl.sig")),
            self.file(&format!("run-{run_id}.sigstore.json")),
            self.file(&format!("attest-{run_id}.sig")),
        ]
    }

    /// The signed summary of a run's replay.
    #[must_use]
    pub fn summary(&self, run_id: &str) -> PathBuf {
        self.file(&format!("run-{run_id}.svr.json"))
    }

    /// The workspace's directory outside of it, where one can be kept.
    #[must_use]
    pub fn outside(&self) -> Option<&Path> {
        self.outside.as_deref()
    }

    /// The second copy of a receipt.
    #[must_use]
    pub fn anchor(&self, run_id: &str) -> Option<PathBuf> {
        self.outside
            .as_ref()
            .map(|directory| directory.join(format!("run-{run_id}.jsonl")))
    }
}

/// The file name of a run's snapshot.
#[must_use]
pub fn state_name(run_id: &str) -> String {
    format!("run-{run_id}.state.json")
}

/// The run whose snapshot has this file name.
#[must_use]
pub fn run_of_state_name(name: &str) -> Option<&str> {
    let id = name.strip_prefix("run-")?.strip_suffix(".state.json")?;
    valid_run_id(id).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_of_one_to_64_characters_are_valid() {
        for id in ["a", "0", "local", "A.b_c-9", &"x".repeat(64)] {
            assert!(valid_run_id(id), "{id}");
        }
        for id in [
            "",
            ".",
            "..",
            "-a",
            "_a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(!valid_run_id(id), "{id:?}");
        }
    }

    #[test]
    fn a_snapshot_names_its_run_also_when_the_run_is_called_state() {
        assert_eq!(run_of_state_name("run-a.state.json"), Some("a"));
        assert_eq!(run_of_state_name(&state_name("x.state")), Some("x.state"));
        assert_eq!(run_of_state_name("state.json"), None);
        assert_eq!(run_of_state_name("run-../a.state.json"), None);
    }

    #[test]
    fn no_run_id_makes_two_files_of_one_name() {
        let layout = Layout::new(Path::new("/w"), None);
        let all = |id: &str| {
            let mut all = vec![layout.receipt(id), layout.state(id), layout.summary(id)];
            all.extend(layout.signatures(id));
            all
        };
        let mut names: Vec<PathBuf> = [
            "a",
            "a.jsonl",
            "a.state",
            "a.state.json",
            "a.jsonl.sig",
            "a.sigstore",
            "a.svr",
        ]
        .into_iter()
        .flat_map(all)
        .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
