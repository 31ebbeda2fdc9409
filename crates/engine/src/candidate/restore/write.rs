//! Writes files of a content: new ones only, several side by side, each checked against its digest on the way.
//!
//! This module must not know what was there before.

use super::{RestoreError, mode_of, write_error};
use crate::candidate::beneath::{Parents, Root};
use crate::candidate::manifest::Sha256Bytes;
use crate::candidate::object::ObjectId;
use crate::candidate::pack;
use crate::candidate::source::{self, ObjectSource, Pack};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

/// Writers at most: hashing keeps one processor busy, and more than four wait for the disk.
const MAX_WRITERS: usize = 4;

/// Below this many bytes and files another thread costs more than it brings.
const PARALLEL_BYTES: u64 = 4 << 20;
pub(super) const PARALLEL_FILES: usize = 256;

/// A file to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) path: &'a [u8],
    pub(super) mode: u16,
    pub(super) size: u64,
    pub(super) sha256: Sha256Bytes,
    pub(super) id: ObjectId,
}

/// A file written: its place in the manifest, and how it looks.
pub(super) type Written<'a> = (Job<'a>, Stat);

/// Writes the files: those of our own packs side by side, the others one after the other through git.
pub(super) fn write_files<'a>(
    root: &Root,
    packs: &[Pack],
    source: &mut ObjectSource<'_>,
    jobs: Vec<Job<'a>>,
) -> Result<Vec<Written<'a>>, RestoreError> {
    let (own, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| source.is_own(&job.id));
    let mut written = Vec::with_capacity(own.len() + others.len());
    let mut open = others;
    for (jobs, rest) in write_own_files(root, packs, &own)? {
        written.extend(jobs);
        open.extend(rest);
    }
    let mut parents = root.parents();
    for job in open {
        let read = |sink: &mut dyn FnMut(&[u8]) -> io::Result<()>| match source.read(&job.id, sink)
        {
            Ok((kind, _)) => Ok(kind == "blob"),
            Err(source) => Err(RestoreError::Object {
                path: root.display(job.path),
                source,
            }),
        };
        let stat = write_file(root, &mut parents, &job, read)?;
        written.push((
            job,
            stat.ok_or_else(|| RestoreError::Damaged {
                path: root.display(job.path),
            })?,
        ));
    }
    Ok(written)
}

type Share<'a> = (Vec<Written<'a>>, Vec<Job<'a>>);

/// What was written, and what something else has packed anew, for each writer.
fn write_own_files<'a>(
    root: &Root,
    packs: &[Pack],
    jobs: &[Job<'a>],
) -> Result<Vec<Share<'a>>, RestoreError> {
    let bytes: u64 = jobs.iter().map(|job| job.size).sum();
    let writers = if bytes >= PARALLEL_BYTES || jobs.len() >= PARALLEL_FILES {
        std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MAX_WRITERS)
    } else {
        1
    };
    let length = jobs.len().div_ceil(writers).max(1);
    std::thread::scope(|scope| {
        let mut shares = jobs.chunks(length);
        let first = shares.next().unwrap_or_default();
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(|| write_share(root, packs, share)))
            .collect();
        let mut done = vec![write_share(root, packs, first)?];
        for thread in threads {
            let gone = || {
                write_error(
                    root,
                    "finish writing",
                    b"",
                    io::Error::other("a writer ended early"),
                )
            };
            done.push(thread.join().map_err(|_| gone())??);
        }
        Ok(done)
    })
}

fn write_share<'a>(
    root: &Root,
    packs: &[Pack],
    jobs: &[Job<'a>],
) -> Result<Share<'a>, RestoreError> {
    let mut parents = root.parents();
    let (mut written, mut rest) = (Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        let read = |sink: &mut dyn FnMut(&[u8]) -> io::Result<()>| {
            let Some((pack, offset)) = source::find(packs, &job.id) else {
                return Ok(false);
            };
            let read = pack::read_object(&pack.file, offset, sink);
            Ok(read
                .map_err(|source| write_error(root, "write", job.path, source))?
                .is_some())
        };
        match write_file(root, &mut parents, job, read)? {
            Some(stat) => written.push((*job, stat)),
            None => rest.push(*job),
        }
    }
    Ok((written, rest))
}

/// Writes one file, which must not exist; `None`, and no file, when `read` has no bytes for it.
fn write_file(
    root: &Root,
    parents: &mut Parents<'_>,
    job: &Job<'_>,
    read: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<bool, RestoreError>,
) -> Result<Option<Stat>, RestoreError> {
    let failed = |action, source: Errno| write_error(root, action, job.path, source.into());
    let (parent, name) = parents
        .parent(job.path)
        .map_err(|source| failed("reach", source))?;
    let name = OsStr::from_bytes(name);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR);
    let file = file.map_err(|source| failed("write", source))?;
    let mut digest = Sha256::new();
    let found = read(&mut |piece| {
        digest.update(piece);
        let mut rest = piece;
        while !rest.is_empty() {
            let length = rustix::io::write(&file, rest)?;
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    })?;
    let right = found && <Sha256Bytes>::from(digest.finalize()) == job.sha256;
    if !right {
        rustix::fs::unlinkat(&parent, name, AtFlags::empty())
            .map_err(|source| failed("remove", source))?;
    }
    if !found {
        return Ok(None);
    }
    if !right {
        return Err(RestoreError::Damaged {
            path: root.display(job.path),
        });
    }
    // After the bytes, because writing takes the set-user-id bit away.
    rustix::fs::fchmod(&file, mode_of(job.mode))
        .map_err(|source| failed("set the mode of", source))?;
    Ok(Some(
        rustix::fs::fstat(&file).map_err(|source| failed("look at", source))?,
    ))
}
