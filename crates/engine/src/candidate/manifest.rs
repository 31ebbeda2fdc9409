//! What a workspace holds, as a list: each path with its kind, full mode, size and digest.
//!
//! A manifest keeps what a git tree cannot: full modes, empty directories, file sizes and digests that no converter of the
//! workspace had a hand in. It must not know where the content lies, nor touch a file.
//!
//! # The encoding, version 1
//!
//! A first line `loopexec-manifest 1`, then one line an entry, sorted by path bytes, then the special files, sorted alike:
//!
//! ```text
//! d <mode> <path>                    a directory (only one that is empty or holds an entry)
//! f <mode> <size> <sha256> <path>    a regular file
//! l <mode> <target> <path>           a symbolic link
//! s <kind> <path>                    named, never read: fifo, socket, character_device, block_device
//! ```
//!
//! Modes are four octal digits, sizes decimal without leading zeros, digests lower-case hex; paths and targets are spelled as
//! in [`super::escape`]. There is one encoding of each manifest; `decode` refuses every other.

use super::escape;
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;
use thiserror::Error;

/// The most entries a workspace may have. Two million is twice the largest public monorepo checkout; a list of them stays
/// within a gigabyte of memory.
pub const MAX_ENTRIES: usize = 2_000_000;

/// The longest encoded manifest that is decoded: [`MAX_ENTRIES`] lines of 512 bytes.
pub const MAX_ENCODED_BYTES: usize = MAX_ENTRIES * 512;

const HEADER: &[u8] = b"loopexec-manifest 1";

/// SHA-256 over the raw bytes of a file.
pub type Sha256Bytes = [u8; 32];

/// The content of a workspace. Both lists are sorted by path bytes and hold each path once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// Directories, files and symbolic links.
    pub entries: Vec<Entry>,
    /// Files that are named but never read.
    pub special: Vec<Special>,
}

/// One path of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Bytes relative to the workspace, `/` between components.
    pub path: Vec<u8>,
    /// The permission bits with set-user-id, set-group-id and sticky (0 to 0o7777).
    pub mode: u16,
    /// What is at the path.
    pub content: Content,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A directory; what is below it has entries of its own.
    Directory,
    /// A regular file.
    File {
        /// Length in bytes.
        size: u64,
        /// Digest of the raw bytes.
        sha256: Sha256Bytes,
    },
    /// A symbolic link.
    Symlink {
        /// The raw bytes of the target, which is never followed.
        target: Vec<u8>,
    },
}

/// A file that has no content of its own to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Special {
    /// Bytes relative to the workspace.
    pub path: Vec<u8>,
    /// What kind of file it is.
    pub kind: SpecialKind,
}

/// The kinds of [`Special`] files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

/// The paths in which two manifests differ, each list sorted by path bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// In the other manifest only.
    pub added: Vec<Vec<u8>>,
    /// In both, with another kind, mode or content.
    pub changed: Vec<Vec<u8>>,
    /// In this manifest only.
    pub removed: Vec<Vec<u8>>,
}

/// Why bytes are no manifest.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ManifestError {
    /// The first line is another one.
    #[error(
        "the first line of the manifest is not `loopexec-manifest 1`; a newer release may have written it"
    )]
    Version,
    /// More bytes or entries than a workspace may have.
    #[error("the manifest is over the limit of {MAX_ENTRIES} entries or {MAX_ENCODED_BYTES} bytes")]
    TooLarge,
    /// A line that `encode` would not write.
    #[error("line {line} of the manifest is malformed or out of order")]
    Line {
        /// Counted from 1.
        line: usize,
    },
}

impl Changes {
    /// Whether the two manifests hold the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl SpecialKind {
    fn word(self) -> &'static str {
        match self {
            SpecialKind::Fifo => "fifo",
            SpecialKind::Socket => "socket",
            SpecialKind::CharacterDevice => "character_device",
            SpecialKind::BlockDevice => "block_device",
        }
    }

    fn from_word(word: &[u8]) -> Option<Self> {
        let all = [
            SpecialKind::Fifo,
            SpecialKind::Socket,
            SpecialKind::CharacterDevice,
            SpecialKind::BlockDevice,
        ];
        all.into_iter().find(|kind| kind.word().as_bytes() == word)
    }
}

impl Manifest {
    /// The one encoding of this manifest, as the module describes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.entries.len() * 128);
        out.extend_from_slice(HEADER);
        out.push(b'\n');
        for entry in &self.entries {
            encode_entry(entry, &mut out);
        }
        for special in &self.special {
            out.extend_from_slice(format!("s {} ", special.kind.word()).as_bytes());
            escape::escape_into(&special.path, &mut out);
            out.push(b'\n');
        }
        out
    }

    /// Reads what [`Manifest::encode`] wrote.
    ///
    /// # Errors
    /// Another version, over the limits, or a line that is not the one spelling of an entry in its place.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_ENCODED_BYTES {
            return Err(ManifestError::TooLarge);
        }
        let mut lines = bytes.split(|&byte| byte == b'\n');
        if lines.next() != Some(HEADER) {
            return Err(ManifestError::Version);
        }
        let mut manifest = Manifest::default();
        let mut ended = false;
        for (index, line) in lines.enumerate() {
            let refused = ManifestError::Line { line: index + 2 };
            if ended {
                return Err(refused);
            }
            // The split leaves one empty piece after the last newline, and nothing may follow it.
            if line.is_empty() {
                ended = true;
            } else if manifest.entries.len() + manifest.special.len() >= MAX_ENTRIES {
                return Err(ManifestError::TooLarge);
            } else if manifest.push_line(line).is_none() {
                return Err(refused);
            }
        }
        if ended {
            Ok(manifest)
        } else {
            Err(ManifestError::Line { line: 1 })
        }
    }

    /// SHA-256 of the encoding as lower-case hex: the name of this content in receipts.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.encode()))
    }

    /// The entry at `path`.
    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        let index = self
            .entries
            .binary_search_by(|entry| entry.path.as_slice().cmp(path))
            .ok()?;
        self.entries.get(index)
    }

    /// What `other` has added, changed and removed, special files included.
    pub fn diff(&self, other: &Manifest) -> Changes {
        let mut changes = Changes::default();
        merge(
            &self.entries,
            &other.entries,
            |entry| &entry.path,
            &mut changes,
        );
        merge(
            &self.special,
            &other.special,
            |special| &special.path,
            &mut changes,
        );
        for list in [
            &mut changes.added,
            &mut changes.changed,
            &mut changes.removed,
        ] {
            list.sort();
        }
        changes
    }

    fn push_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = line.split(|&byte| byte == b' ');
        let tag = words.next()?;
        if tag == b"s" {
            let kind = SpecialKind::from_word(words.next()?)?;
            let path = path_word(words.next()?)?;
            if words.next().is_some() || self.special.last().is_some_and(|last| last.path >= path) {
                return None;
            }
            self.special.push(Special { path, kind });
            return Some(());
        }
        let mode = mode_word(words.next()?)?;
        let content = match tag {
            b"d" => Content::Directory,
            b"f" => Content::File {
                size: size_word(words.next()?)?,
                sha256: sha256_word(words.next()?)?,
            },
            b"l" => Content::Symlink {
                target: escape::unescape(words.next()?)?,
            },
            _ => return None,
        };
        let path = path_word(words.next()?)?;
        let in_order =
            self.special.is_empty() && self.entries.last().is_none_or(|last| last.path < path);
        if words.next().is_some() || !in_order {
            return None;
        }
        self.entries.push(Entry {
            path,
            mode,
            content,
        });
        Some(())
    }
}

/// Lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('?');
    bytes
        .iter()
        .flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The bytes of lower-case hex of exactly `out.len()` bytes.
pub(super) fn unhex(text: &[u8], out: &mut [u8]) -> Option<()> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != out.len() * 2 {
        return None;
    }
    for (pair, byte) in text.chunks_exact(2).zip(out) {
        let &[high, low] = pair else { return None };
        *byte = (value(high)? << 4) | value(low)?;
    }
    Some(())
}

fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    match &entry.content {
        Content::Directory => out.extend_from_slice(format!("d {:04o} ", entry.mode).as_bytes()),
        Content::File { size, sha256 } => {
            out.extend_from_slice(
                format!("f {:04o} {size} {} ", entry.mode, hex(sha256)).as_bytes(),
            );
        }
        Content::Symlink { target } => {
            out.extend_from_slice(format!("l {:04o} ", entry.mode).as_bytes());
            escape::escape_into(target, out);
            out.push(b' ');
        }
    }
    escape::escape_into(&entry.path, out);
    out.push(b'\n');
}

fn merge<T: PartialEq>(
    ours: &[T],
    theirs: &[T],
    path: impl Fn(&T) -> &Vec<u8>,
    changes: &mut Changes,
) {
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(our), Some(their)) => path(our).cmp(path(their)),
        };
        match order {
            Ordering::Less => changes
                .removed
                .extend(ours.next().map(|item| path(item).clone())),
            Ordering::Greater => changes
                .added
                .extend(theirs.next().map(|item| path(item).clone())),
            Ordering::Equal => {
                if let (Some(our), Some(their)) = (ours.next(), theirs.next())
                    && our != their
                {
                    changes.changed.push(path(their).clone());
                }
            }
        }
    }
}

/// A path that stays below the root whatever is done with it: hostile manifests are read from exports.
fn path_word(word: &[u8]) -> Option<Vec<u8>> {
    let path = escape::unescape(word)?;
    let safe =
        |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0);
    path.split(|&byte| byte == b'/').all(safe).then_some(path)
}

fn mode_word(word: &[u8]) -> Option<u16> {
    let octal = word.len() == 4 && word.iter().all(|byte| (b'0'..=b'7').contains(byte));
    octal.then(|| {
        word.iter()
            .fold(0, |mode, byte| (mode << 3) | u16::from(byte - b'0'))
    })
}

fn size_word(word: &[u8]) -> Option<u64> {
    let canonical =
        word == b"0" || (word.first() != Some(&b'0') && word.iter().all(u8::is_ascii_digit));
    if canonical {
        std::str::from_utf8(word).ok()?.parse().ok()
    } else {
        None
    }
}

fn sha256_word(word: &[u8]) -> Option<Sha256Bytes> {
    let mut bytes = [0; 32];
    unhex(word, &mut bytes)?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn content() -> impl Strategy<Value = Content> {
        prop_oneof![
            Just(Content::Directory),
            (any::<u64>(), any::<[u8; 32]>())
                .prop_map(|(size, sha256)| Content::File { size, sha256 }),
            proptest::collection::vec(any::<u8>(), 0..20)
                .prop_map(|target| Content::Symlink { target }),
        ]
    }

    fn component() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            any::<u8>().prop_filter("a name byte", |byte| *byte != 0 && *byte != b'/'),
            1..8,
        )
        .prop_filter("a name", |name| name != b"." && name != b"..")
    }

    fn path() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(component(), 1..4).prop_map(|parts| parts.join(&b'/'))
    }

    fn manifest() -> impl Strategy<Value = Manifest> {
        let entries = proptest::collection::btree_map(path(), (0_u16..=0o7777, content()), 0..12);
        let special = proptest::collection::btree_map(path(), Just(SpecialKind::Socket), 0..3);
        (entries, special).prop_map(|(entries, special)| Manifest {
            entries: entries
                .into_iter()
                .map(|(path, (mode, content))| Entry {
                    path,
                    mode,
                    content,
                })
                .collect(),
            special: special
                .into_iter()
                .map(|(path, kind)| Special { path, kind })
                .collect(),
        })
    }

    proptest! {
        #[test]
        fn a_manifest_comes_back_from_its_encoding(manifest in manifest()) {
            prop_assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
        }

        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes(mut bytes in manifest().prop_map(|manifest| manifest.encode()),
            position in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let index = position.index(bytes.len());
            bytes[index] = byte;
            if let Ok(manifest) = Manifest::decode(&bytes) {
                prop_assert_eq!(manifest.encode(), bytes);
            }
        }

        #[test]
        fn applying_a_difference_gives_the_other_manifest(ours in manifest(), theirs in manifest()) {
            let changes = ours.diff(&theirs);
            let mut entries: BTreeMap<_, _> = ours.entries.iter().map(|entry| (entry.path.clone(), entry)).collect();
            for path in &changes.removed {
                if theirs.get(path).is_none() {
                    entries.remove(path);
                }
            }
            for path in changes.added.iter().chain(&changes.changed) {
                if let Some(entry) = theirs.get(path) {
                    entries.insert(path.clone(), entry);
                }
            }
            prop_assert_eq!(entries.into_values().cloned().collect::<Vec<_>>(), theirs.entries);
        }
    }

    #[test]
    fn a_path_that_leaves_the_workspace_is_refused() {
        for path in ["/etc/passwd", "../a", "a/../b", "a//b", "./a", "a%00"] {
            let text = format!("loopexec-manifest 1\nd 0755 {path}\n");
            assert_eq!(
                Manifest::decode(text.as_bytes()),
                Err(ManifestError::Line { line: 2 }),
                "{path}"
            );
        }
    }

    #[test]
    fn a_cut_line_a_second_end_and_another_version_are_refused() {
        let cases: [(&[u8], ManifestError); 4] = [
            (b"loopexec-manifest 1", ManifestError::Line { line: 1 }),
            (
                b"loopexec-manifest 1\nd 0755 a",
                ManifestError::Line { line: 1 },
            ),
            (
                b"loopexec-manifest 1\n\n\n",
                ManifestError::Line { line: 3 },
            ),
            (b"loopexec-manifest 2\n", ManifestError::Version),
        ];
        for (bytes, error) in cases {
            assert_eq!(Manifest::decode(bytes), Err(error));
        }
    }

    #[test]
    fn the_encoding_is_what_the_module_says() {
        let manifest = Manifest {
            entries: vec![
                Entry {
                    path: b"a b".to_vec(),
                    mode: 0o755,
                    content: Content::Directory,
                },
                Entry {
                    path: b"c".to_vec(),
                    mode: 0o4644,
                    content: Content::File {
                        size: 3,
                        sha256: [0xab; 32],
                    },
                },
                Entry {
                    path: b"d".to_vec(),
                    mode: 0o777,
                    content: Content::Symlink {
                        target: b"../x".to_vec(),
                    },
                },
            ],
            special: vec![Special {
                path: b"pipe".to_vec(),
                kind: SpecialKind::Fifo,
            }],
        };
        let sha = "ab".repeat(32);
        let expect = format!(
            "loopexec-manifest 1\nd 0755 a%20b\nf 4644 3 {sha} c\nl 0777 ../x d\ns fifo pipe\n"
        );
        assert_eq!(String::from_utf8_lossy(&manifest.encode()), expect);
    }
}
