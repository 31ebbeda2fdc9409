//! What a run asked of the disk, in order, from a recording by `strace`.
//!
//! Follows the governor's first thread: it alone writes what the store promises.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::super::scenario::{Place, Scenario};

/// What a sync was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// A receipt or its copy outside.
    Receipt,
    /// The snapshot of the fold.
    Snapshot,
    /// A directory.
    Directory,
    /// Any other file.
    Other,
}

/// One thing a run asked of the disk, or showed to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create(PathBuf),
    MakeDirectory(PathBuf),
    Link {
        path: PathBuf,
        target: PathBuf,
    },
    Write {
        path: PathBuf,
        bytes: Vec<u8>,
    },
    Truncate(PathBuf),
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove(PathBuf),
    Sync {
        path: PathBuf,
        kind: Sync,
    },
    /// A work command was asked for: the world changes.
    StartsWork,
    /// The object on standard output.
    Answers,
}

/// What was promised by the operations so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promised {
    /// Work commands that were asked for.
    pub(super) work: usize,
    /// The object is out.
    pub(super) answered: bool,
}

/// What these operations have promised.
pub(super) fn promised(operations: &[Operation]) -> Promised {
    let mut promised = Promised::default();
    for operation in operations {
        promised.work += usize::from(*operation == Operation::StartsWork);
        promised.answered |= *operation == Operation::Answers;
    }
    promised
}

/// A recorded run.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) operations: Vec<Operation>,
}

const CALLS: &str = "open,creat,openat,write,fdatasync,fsync,rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir,symlink,symlinkat,ftruncate,pwrite64,link,linkat,sendmsg";

impl Trace {
    /// Records a scenario, undisturbed.
    pub(super) fn record(place: &Place, scenario: &Scenario, file: &Path) -> Result<Self, String> {
        place.prepare(scenario)?;
        let (name, trace) = (
            file.to_string_lossy().into_owned(),
            format!("trace={CALLS}"),
        );
        let wrapper = [
            "strace", "-qq", "-y", "-xx", "-s", "10000000", "-o", &name, "-e", &trace,
        ]
        .map(str::to_owned);
        let outcome = place.disturbed(scenario, &wrapper)?;
        if outcome.code != Some(scenario.exit) {
            return Err(format!("the recorded run failed: {}", outcome.text()));
        }
        let text = fs_err::read_to_string(file).map_err(|error| error.to_string())?;
        let mut reader = Reader {
            roots: [place.workdir(), place.state_home()],
            workdir: place.workdir(),
            known: BTreeSet::new(),
            operations: Vec::new(),
        };
        for line in text.lines() {
            reader.line(line)?;
        }
        if promised(&reader.operations).work == 0 || !promised(&reader.operations).answered {
            return Err("the recording holds no acknowledgement".to_owned());
        }
        Ok(Self {
            operations: reader.operations,
        })
    }
}

struct Reader {
    roots: [PathBuf; 2],
    workdir: PathBuf,
    known: BTreeSet<PathBuf>,
    operations: Vec<Operation>,
}

/// A call of a line: its name, its quoted arguments, the files of its descriptors, all of it as text.
struct Call<'a> {
    name: &'a str,
    quoted: Vec<Vec<u8>>,
    descriptors: Vec<(u32, PathBuf)>,
    text: &'a str,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let Some(call) = parse(line) else {
            return Ok(());
        };
        match call.name {
            "open" | "openat" => self.open(&call),
            "write" => self.write(&call),
            "fsync" | "fdatasync" => self.sync(&call),
            "rename" | "renameat" | "renameat2" => {
                if let (Some(from), Some(to)) = (self.path(&call, 0), self.path(&call, 1))
                    && self.ours(&to)
                {
                    self.known.remove(&from);
                    self.known.insert(to.clone());
                    self.operations.push(Operation::Rename { from, to });
                }
            }
            "mkdir" | "mkdirat" => {
                if let Some(path) = self.path(&call, 0).filter(|path| self.ours(path)) {
                    self.operations.push(Operation::MakeDirectory(path));
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                if let Some(path) = self.path(&call, 0).filter(|path| self.ours(path)) {
                    self.known.remove(&path);
                    self.operations.push(Operation::Remove(path));
                }
            }
            "symlink" | "symlinkat" => {
                if let (Some(target), Some(path)) = (text(call.quoted.first()), self.path(&call, 1))
                {
                    self.operations.push(Operation::Link { path, target });
                }
            }
            "sendmsg" => {
                // A request to the guardian holds the argument vector; work is told by the words of the scenario.
                if call
                    .quoted
                    .iter()
                    .any(|bytes| contains(bytes, b"echo x >> work"))
                {
                    self.operations.push(Operation::StartsWork);
                }
            }
            other => {
                let touches = call.descriptors.iter().any(|(_, path)| self.ours(path))
                    || self.path(&call, 0).is_some_and(|path| self.ours(&path));
                if touches {
                    return Err(format!("the model does not know {other}: {line}"));
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, call: &Call<'_>) {
        let Some(path) = self.path(call, 0).filter(|path| self.ours(path)) else {
            return;
        };
        if !call.text.contains("O_CREAT") {
            return;
        }
        if self.known.insert(path.clone()) {
            self.operations.push(Operation::Create(path));
        } else if call.text.contains("O_TRUNC") {
            self.operations.push(Operation::Truncate(path));
        }
    }

    fn write(&mut self, call: &Call<'_>) {
        let (Some((number, path)), Some(bytes)) = (call.descriptors.first(), call.quoted.last())
        else {
            return;
        };
        if *number == 1 && contains(bytes, b"\"tool\":\"loopexec\"") {
            self.operations.push(Operation::Answers);
        } else if self.ours(path) {
            self.operations.push(Operation::Write {
                path: path.clone(),
                bytes: bytes.clone(),
            });
        }
    }

    fn sync(&mut self, call: &Call<'_>) {
        let Some((_, path)) = call.descriptors.first() else {
            return;
        };
        if !self.ours(path) && !self.roots.contains(path) {
            return;
        }
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let kind = if !self.known.contains(path) {
            Sync::Directory
        } else if name.starts_with("run-") && name.ends_with(".jsonl") {
            Sync::Receipt
        } else if name.contains(".state.json") {
            Sync::Snapshot
        } else {
            Sync::Other
        };
        self.operations.push(Operation::Sync {
            path: path.clone(),
            kind,
        });
    }

    fn path(&self, call: &Call<'_>, index: usize) -> Option<PathBuf> {
        text(call.quoted.get(index)).map(|path| self.workdir.join(path))
    }

    /// Below the store or the directory outside; the person's own files are not what is promised here.
    fn ours(&self, path: &Path) -> bool {
        let [workdir, outside] = &self.roots;
        path.starts_with(workdir.join(".loopexec")) || path.starts_with(outside)
    }
}

fn text(bytes: Option<&Vec<u8>>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    bytes.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes.clone())))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A successful call; `None` for failed ones and for lines that are no calls.
fn parse(line: &str) -> Option<Call<'_>> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') || result.starts_with('?') {
        return None;
    }
    let mut quoted = Vec::new();
    let mut parts = arguments.split('"');
    let mut between = String::new();
    while let Some(outside) = parts.next() {
        between.push_str(outside);
        match parts.next() {
            Some(inside) => quoted.push(unhex(inside)?),
            None => break,
        }
    }
    let mut descriptors = Vec::new();
    for (before, after) in arguments
        .match_indices('<')
        .filter_map(|(at, _)| Some((arguments.get(..at)?, arguments.get(at + 1..)?)))
    {
        let digits: String = before
            .chars()
            .rev()
            .take_while(char::is_ascii_digit)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        if let (Ok(number), Some((path, _))) = (digits.parse(), after.split_once('>')) {
            let bytes = unhex(path).unwrap_or_else(|| path.as_bytes().to_vec());
            descriptors.push((number, text(Some(&bytes))?));
        }
    }
    Some(Call {
        name,
        quoted,
        descriptors,
        text: arguments,
    })
}

/// Bytes written as `\x2f\x61`; `None` when something else is among them.
fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.strip_prefix("\\x")?
        .split("\\x")
        .map(|digits| u8::from_str_radix(digits, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_with_its_bytes_and_the_file_of_its_descriptor() {
        let call = parse(r#"write(4</w/\x61>, "\x61\x0a", 2) = 2"#);
        assert!(call.is_some());
        let call = parse("write(4<\\x2f\\x77>, \"\\x61\\x0a\", 2) = 2").unwrap();
        assert_eq!(call.name, "write");
        assert_eq!(call.quoted, vec![b"a\n".to_vec()]);
        assert_eq!(call.descriptors, vec![(4, PathBuf::from("/w"))]);
    }

    #[test]
    fn a_call_that_failed_did_nothing() {
        assert!(parse("fsync(4</w>) = -1 EIO (Input/output error)").is_none());
        assert!(parse("+++ exited with 0 +++").is_none());
    }
}
