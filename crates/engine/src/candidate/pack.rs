//! Packs of our own objects: written in one stream without compression, and read back without a git process.
//!
//! The objects are whole (no deltas) and their zlib streams hold stored blocks only, which every git reads. That is what
//! `core.compression=0` means, at the speed of hashing. This module must not know workspaces, manifests or references.

use super::object::{Object, ObjectFormat, ObjectHasher, ObjectId, ObjectKind};
use super::pack_index::{self, Indexed};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The most bytes of a stored block of deflate; its length field has 16 bits.
const BLOCK_BYTES: u64 = 65_535;

/// Bytes collected before a write, and read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// A zlib header: deflate, 32 KiB window, fastest level, check bits.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];

/// A pack under way.
#[derive(Debug)]
pub(super) struct PackWriter<W> {
    out: W,
    format: ObjectFormat,
    checksum: ObjectHasher,
    offset: u64,
    index: Vec<Indexed>,
    promised: u32,
}

/// A pack under way in a temporary file of a pack directory.
#[derive(Debug)]
pub(super) struct PackFile {
    directory: PathBuf,
    temporary: PathBuf,
    pack: PackWriter<io::BufWriter<fs_err::File>>,
}

/// The zlib stream of one object under way.
struct Deflate<'a, W> {
    pack: &'a mut PackWriter<W>,
    adler: simd_adler32::Adler32,
    crc: crc32fast::Hasher,
    /// Bytes of the object, and of the block, that are still to come.
    left: u64,
    left_in_block: u64,
}

impl PackFile {
    /// Begins a pack of exactly `count` objects.
    pub(super) fn begin(directory: &Path, format: ObjectFormat, count: u32) -> io::Result<Self> {
        let temporary = directory.join(format!("tmp_pack_{}", std::process::id()));
        remove_leftover(&temporary)?;
        let file = io::BufWriter::with_capacity(BUFFER_BYTES, fs_err::File::create(&temporary)?);
        let pack = PackWriter::begin(file, format, count)?;
        Ok(PackFile {
            directory: directory.to_owned(),
            temporary,
            pack,
        })
    }

    /// Where objects are added.
    pub(super) fn writer(&mut self) -> &mut PackWriter<io::BufWriter<fs_err::File>> {
        &mut self.pack
    }

    /// Closes the pack, writes its index and puts both in place, without flushing; gives the path of the index.
    pub(super) fn finish(self) -> io::Result<PathBuf> {
        let PackFile {
            directory,
            temporary,
            pack,
        } = self;
        let format = pack.format;
        let (out, index, checksum) = pack.finish()?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let temporary_index = temporary.with_extension("idx");
        remove_leftover(&temporary_index)?;
        let mut index_file = fs_err::File::create(&temporary_index)?;
        index_file.write_all(&pack_index::encode(format, index, &checksum))?;
        for file in [&file, &index_file] {
            file.file()
                .set_permissions(std::fs::Permissions::from_mode(0o444))?;
        }
        // The index last: a pack without one is invisible, the other way round is damage.
        let index_path = directory.join(format!("pack-{checksum}.idx"));
        fs_err::rename(&temporary, index_path.with_extension("pack"))?;
        fs_err::rename(&temporary_index, &index_path)?;
        Ok(index_path)
    }

    /// Removes the temporary file of a pack that will not be finished.
    pub(super) fn abandon(self) -> io::Result<()> {
        fs_err::remove_file(&self.temporary)
    }
}

/// A crash can leave a read-only file of that name.
fn remove_leftover(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl<W: io::Write> PackWriter<W> {
    /// Begins a pack of exactly `count` objects in `out`.
    pub(super) fn begin(out: W, format: ObjectFormat, count: u32) -> io::Result<Self> {
        let (checksum, index) = (format.hasher(), Vec::with_capacity(count as usize));
        let mut pack = PackWriter {
            out,
            format,
            checksum,
            offset: 0,
            index,
            promised: count,
        };
        pack.put(b"PACK")?;
        pack.put(&2_u32.to_be_bytes())?;
        pack.put(&count.to_be_bytes())?;
        Ok(pack)
    }

    /// Adds an object that is in memory.
    pub(super) fn add(&mut self, object: &Object) -> io::Result<()> {
        let size = object.bytes.len() as u64;
        self.add_pieces(object.id, object.kind, size, |sink| sink(&object.bytes))
    }

    /// Adds an object whose bytes `produce` hands over piece by piece, `size` in all; the caller vouches for the id.
    pub(super) fn add_pieces<E: From<io::Error>>(
        &mut self,
        id: ObjectId,
        kind: ObjectKind,
        size: u64,
        produce: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), E>,
    ) -> Result<(), E> {
        let offset = self.offset;
        let mut deflate = Deflate::begin(self, kind, size)?;
        produce(&mut |piece| deflate.data(piece))?;
        let crc = deflate.finish()?;
        self.index.push(Indexed { id, crc, offset });
        Ok(())
    }

    /// Closes the pack; gives what it was written to, where each object begins, and the checksum.
    pub(super) fn finish(mut self) -> io::Result<(W, Vec<Indexed>, ObjectId)> {
        if self.index.len() as u64 != u64::from(self.promised) {
            return Err(io::Error::other(format!(
                "a pack of {} objects got {}",
                self.promised,
                self.index.len()
            )));
        }
        let checksum = self.checksum.finish();
        self.out.write_all(checksum.as_bytes())?;
        Ok((self.out, self.index, checksum))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

impl<'a, W: io::Write> Deflate<'a, W> {
    fn begin(pack: &'a mut PackWriter<W>, kind: ObjectKind, size: u64) -> io::Result<Self> {
        let (adler, crc) = (simd_adler32::Adler32::new(), crc32fast::Hasher::new());
        let mut deflate = Deflate {
            pack,
            adler,
            crc,
            left: size,
            left_in_block: 0,
        };
        deflate.put(&object_header(kind, size))?;
        deflate.put(&ZLIB_HEADER)?;
        if size == 0 {
            deflate.begin_block()?;
        }
        Ok(deflate)
    }

    fn data(&mut self, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            if self.left_in_block == 0 {
                self.begin_block()?;
            }
            let length = usize::try_from(self.left_in_block)
                .unwrap_or(usize::MAX)
                .min(piece.len());
            let Some((now, later)) = piece
                .split_at_checked(length)
                .filter(|(now, _)| !now.is_empty())
            else {
                return Err(io::Error::other("an object is longer than was said"));
            };
            self.adler.write(now);
            self.put(now)?;
            self.left -= now.len() as u64;
            self.left_in_block -= now.len() as u64;
            piece = later;
        }
        Ok(())
    }

    fn begin_block(&mut self) -> io::Result<()> {
        let length = self.left.min(BLOCK_BYTES);
        let word = u16::try_from(length).unwrap_or(u16::MAX);
        let last = u8::from(self.left <= BLOCK_BYTES);
        let ([low, high], [not_low, not_high]) = (word.to_le_bytes(), (!word).to_le_bytes());
        self.left_in_block = length;
        self.put(&[last, low, high, not_low, not_high])
    }

    fn finish(mut self) -> io::Result<u32> {
        if self.left > 0 {
            return Err(io::Error::other("an object is shorter than was said"));
        }
        let adler = self.adler.finish().to_be_bytes();
        self.put(&adler)?;
        Ok(self.crc.finalize())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.pack.put(bytes)
    }
}

/// Kind and size as a pack spells them: four bits of the size, then seven a byte.
fn object_header(kind: ObjectKind, size: u64) -> Vec<u8> {
    let low_bits = |value: u64, mask: u64| u8::try_from(value & mask).unwrap_or(0);
    let mut byte = (kind.pack_number() << 4) | low_bits(size, 15);
    let mut rest = size >> 4;
    let mut header = Vec::new();
    while rest > 0 {
        header.push(byte | 0x80);
        byte = low_bits(rest, 0x7f);
        rest >>= 7;
    }
    header.push(byte);
    header
}

/// Reads an object that [`PackWriter`] wrote at `offset`, piece by piece; gives its kind and size. `None` when the object
/// has another shape, because something else has packed it anew.
pub(super) fn read_object(
    pack: &fs_err::File,
    offset: u64,
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Option<(ObjectKind, u64)>> {
    let mut header = [0; 12];
    let got = pack.file().read_at(&mut header, offset)?;
    let Some((kind, size, length)) = parse_header(header.get(..got).unwrap_or_default()) else {
        return Ok(None);
    };
    let mut position = offset + length;
    let mut left = size;
    let mut buffer = vec![
        0;
        usize::try_from(size + 64)
            .unwrap_or(BUFFER_BYTES)
            .min(BUFFER_BYTES)
    ];
    loop {
        // Whole blocks only, each with its five bytes in front.
        let blocks = (buffer.len() as u64 / (BLOCK_BYTES + 5)).max(1);
        let wanted = left.min(blocks * BLOCK_BYTES);
        let framed = wanted + wanted.div_ceil(BLOCK_BYTES).max(1) * 5;
        buffer.resize(
            usize::try_from(framed)
                .map_err(io::Error::other)?
                .max(buffer.len()),
            0,
        );
        let piece = buffer
            .get_mut(..usize::try_from(framed).unwrap_or(0))
            .unwrap_or_default();
        pack.file().read_exact_at(piece, position)?;
        position += framed;
        for block in piece.chunks(usize::try_from(BLOCK_BYTES + 5).unwrap_or(usize::MAX)) {
            let Some((&[last, low, high, not_low, not_high], data)) =
                block.split_first_chunk::<5>()
            else {
                return Ok(None);
            };
            let word = u16::from_le_bytes([low, high]);
            left = left.saturating_sub(data.len() as u64);
            let expected = last == u8::from(left == 0) && usize::from(word) == data.len();
            if !expected || word != !u16::from_le_bytes([not_low, not_high]) {
                return Ok(None);
            }
            sink(data)?;
        }
        if left == 0 {
            return Ok(Some((kind, size)));
        }
    }
}

/// Kind, size and the length up to the first block.
fn parse_header(bytes: &[u8]) -> Option<(ObjectKind, u64, u64)> {
    let (&first, rest) = bytes.split_first()?;
    let kind = match (first >> 4) & 7 {
        1 => ObjectKind::Commit,
        2 => ObjectKind::Tree,
        3 => ObjectKind::Blob,
        _ => return None,
    };
    let (mut size, mut shift, mut length) = (u64::from(first & 15), 4_u32, 1);
    let (mut more, mut rest) = (first & 0x80 != 0, rest);
    while more {
        let (&byte, later) = rest.split_first()?;
        size |= u64::from(byte & 0x7f).checked_shl(shift)?;
        (shift, length, more, rest) = (shift + 7, length + 1, byte & 0x80 != 0, later);
    }
    rest.starts_with(&ZLIB_HEADER)
        .then_some((kind, size, length + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::pack_index::PackIndex;
    use crate::candidate::testing::directory;

    fn check(sizes: &[usize]) {
        let place = directory();
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            let objects: Vec<_> = sizes
                .iter()
                .map(|&size| {
                    let bytes = (0..size).map(|index| (index * 31 % 251) as u8).collect();
                    Object::new(format, ObjectKind::Blob, bytes)
                })
                .collect();
            let count = u32::try_from(objects.len()).expect("few");
            let mut pack = PackFile::begin(place.path(), format, count).expect("begun");
            for object in &objects {
                pack.writer().add(object).expect("added");
            }
            let path = pack.finish().expect("finished");
            let index = PackIndex::load(&path, format)
                .expect("readable")
                .expect("an index");
            let file = fs_err::File::open(path.with_extension("pack")).expect("a pack");
            for object in &objects {
                let offset = index.offset(&object.id).expect("it is in there");
                let mut bytes = Vec::new();
                let found = read_object(&file, offset, |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                });
                assert_eq!(
                    found.expect("readable"),
                    Some((ObjectKind::Blob, object.bytes.len() as u64))
                );
                assert_eq!(bytes, object.bytes);
            }
        }
    }

    #[test]
    fn objects_come_back_at_and_around_the_size_of_a_block_and_of_the_buffer() {
        check(&[0, 1, 15, 16, 17, 65_534, 65_535, 65_536, 131_070, 131_071]);
        check(&[(1 << 20) - 64, 1 << 20, (1 << 20) + 1, 3_000_000]);
    }

    #[test]
    fn a_pack_with_fewer_objects_or_bytes_than_promised_is_refused() {
        let place = directory();
        let format = ObjectFormat::Sha1;
        let pack = PackFile::begin(place.path(), format, 1).expect("begun");
        assert!(pack.finish().is_err());
        let id = Object::new(format, ObjectKind::Blob, Vec::new()).id;
        for (size, bytes) in [(1, &b""[..]), (1, b"xy")] {
            let mut pack = PackFile::begin(place.path(), format, 1).expect("begun");
            let added: io::Result<()> =
                pack.writer()
                    .add_pieces(id, ObjectKind::Blob, size, |sink| sink(bytes));
            assert!(added.is_err());
            pack.abandon().expect("removed");
        }
    }
}
