//! The index of a pack (version 2): written for our own packs, read for ours and for those of the person's repository.
//!
//! Reading answers one question: is an object in this pack, and where. This module must not read objects.

use super::object::{ObjectFormat, ObjectId};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// An index larger than this is not read; then content is stored once more, which costs space and nothing else.
const MAX_INDEX_BYTES: u64 = 512 << 20;

const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

/// Where an object of a pack begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexed {
    pub(super) id: ObjectId,
    pub(super) crc: u32,
    pub(super) offset: u64,
}

/// A pack index in memory.
#[derive(Debug)]
pub(super) struct PackIndex {
    format: ObjectFormat,
    bytes: Vec<u8>,
    count: usize,
}

/// The index of these objects as bytes.
pub(super) fn encode(
    format: ObjectFormat,
    mut objects: Vec<Indexed>,
    pack_checksum: &ObjectId,
) -> Vec<u8> {
    objects.sort_unstable_by_key(|object| object.id);
    let mut out = MAGIC.to_vec();
    for first in 0..=255_u8 {
        let up_to = objects.partition_point(|object| {
            object
                .id
                .as_bytes()
                .first()
                .is_some_and(|&byte| byte <= first)
        });
        out.extend_from_slice(&u32::try_from(up_to).unwrap_or(u32::MAX).to_be_bytes());
    }
    for object in &objects {
        out.extend_from_slice(object.id.as_bytes());
    }
    for object in &objects {
        out.extend_from_slice(&object.crc.to_be_bytes());
    }
    let mut large = Vec::new();
    for object in &objects {
        let word = match u32::try_from(object.offset) {
            Ok(offset) if offset < 1 << 31 => offset,
            Ok(_) | Err(_) => {
                large.push(object.offset);
                // The table of large offsets has at most as many rows as the pack has objects.
                (1 << 31) | u32::try_from(large.len() - 1).unwrap_or(0)
            }
        };
        out.extend_from_slice(&word.to_be_bytes());
    }
    for offset in large {
        out.extend_from_slice(&offset.to_be_bytes());
    }
    out.extend_from_slice(pack_checksum.as_bytes());
    let mut checksum = format.hasher();
    checksum.update(&out);
    out.extend_from_slice(checksum.finish().as_bytes());
    out
}

impl PackIndex {
    /// Reads an index; `None` for a version, format or size that is not read here.
    pub(super) fn load(path: &Path, format: ObjectFormat) -> io::Result<Option<Self>> {
        let found = fs_err::metadata(path)?;
        if !found.is_file() || found.len() > MAX_INDEX_BYTES {
            return Ok(None);
        }
        let bytes = loopexec_os::durable::read_regular(path, MAX_INDEX_BYTES)?;
        if !bytes.starts_with(&MAGIC) {
            return Ok(None);
        }
        let mut index = PackIndex {
            format,
            bytes,
            count: 0,
        };
        index.count = index.word(8 + 255 * 4).unwrap_or(0) as usize;
        let least = index.offsets_start() + index.count * 4 + 2 * format.id_length();
        Ok(if index.bytes.len() < least {
            None
        } else {
            Some(index)
        })
    }

    /// Whether the checksum at the end is that of the bytes before it.
    pub(super) fn is_whole(&self) -> bool {
        let end = self.bytes.len().saturating_sub(self.format.id_length());
        let mut hasher = self.format.hasher();
        hasher.update(self.bytes.get(..end).unwrap_or_default());
        self.bytes.get(end..) == Some(hasher.finish().as_bytes())
    }

    /// Whether the pack ends in the checksum that is noted here, and so was written to its end.
    pub(super) fn is_of_pack(&self, pack: &fs_err::File) -> io::Result<bool> {
        let length = self.format.id_length();
        let start = self.bytes.len().saturating_sub(2 * length);
        let noted = self.bytes.get(start..start + length).unwrap_or_default();
        let size = pack.metadata()?.len();
        let Some(offset) = size.checked_sub(length as u64) else {
            return Ok(false);
        };
        let mut found = vec![0; length];
        pack.file().read_exact_at(&mut found, offset)?;
        Ok(found == noted)
    }

    /// Whether the pack holds the object.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.position(id).is_some()
    }

    /// Where the object begins in the pack.
    pub(super) fn offset(&self, id: &ObjectId) -> Option<u64> {
        let word = self.word(self.offsets_start() + self.position(id)? * 4)?;
        if word < 1 << 31 {
            return Some(u64::from(word));
        }
        let row = (word & !(1 << 31)) as usize;
        let start = self.offsets_start() + self.count * 4 + row * 8;
        let (high, low) = (self.word(start)?, self.word(start + 4)?);
        Some((u64::from(high) << 32) | u64::from(low))
    }

    fn position(&self, id: &ObjectId) -> Option<usize> {
        let wanted = id.as_bytes();
        let first = usize::from(*wanted.first()?);
        let mut low = if first == 0 {
            0
        } else {
            self.word(8 + (first - 1) * 4)? as usize
        };
        let mut high = (self.word(8 + first * 4)? as usize).min(self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.id_at(middle)?.cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn id_at(&self, position: usize) -> Option<&[u8]> {
        let length = self.format.id_length();
        let start = 8 + 256 * 4 + position * length;
        self.bytes.get(start..start + length)
    }

    fn offsets_start(&self) -> usize {
        8 + 256 * 4 + self.count * (self.format.id_length() + 4)
    }

    fn word(&self, start: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes.get(start..)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::object::{Object, ObjectKind};
    use crate::candidate::testing::directory;

    #[test]
    fn offsets_around_two_gigabytes_come_back() {
        let format = ObjectFormat::Sha1;
        let offsets = [12, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 40];
        let objects: Vec<_> = offsets
            .iter()
            .map(|&offset: &u64| {
                let id = Object::new(format, ObjectKind::Blob, offset.to_be_bytes().to_vec()).id;
                Indexed { id, crc: 0, offset }
            })
            .collect();
        let place = directory();
        let path = place.path().join("pack-1.idx");
        fs_err::write(&path, encode(format, objects.clone(), &objects[0].id)).expect("written");
        let index = PackIndex::load(&path, format)
            .expect("readable")
            .expect("an index");
        for object in &objects {
            assert_eq!(index.offset(&object.id), Some(object.offset));
        }
        let absent = Object::new(format, ObjectKind::Blob, Vec::new()).id;
        assert!(!index.contains(&absent));
    }

    #[test]
    fn a_cut_index_and_another_version_are_not_read() {
        let place = directory();
        let path = place.path().join("pack-1.idx");
        let checksum = Object::new(ObjectFormat::Sha1, ObjectKind::Blob, Vec::new()).id;
        let whole = encode(ObjectFormat::Sha1, Vec::new(), &checksum);
        let mut other = whole.clone();
        other[7] = 3;
        for bytes in [whole.get(..whole.len() - 1).expect("shorter"), &other, b""] {
            fs_err::write(&path, bytes).expect("written");
            assert!(
                PackIndex::load(&path, ObjectFormat::Sha1)
                    .expect("readable")
                    .is_none()
            );
        }
    }
}
