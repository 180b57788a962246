//! Laying out an image: where every byte goes, without the bytes themselves.

use std::io;
use std::io::Read;
use std::io::Write;

use thiserror::Error;

use super::PRIMARY_SECTOR;
use super::SECTOR;
use super::encode::Boot;
use super::encode::Kind;
use super::encode::boot_catalogue;
use super::encode::boot_descriptor;
use super::encode::path_table;
use super::encode::primary;
use super::encode::record;
use super::encode::record_len;
use super::encode::terminator;

/// Where the part of a BIOS boot loader begins that its table's sum is of.
const BOOT_INFO_END: usize = 64;

/// Why an image cannot be laid out as asked.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// ISO 9660 level 1 allows eight characters, a dot and three more, out of
    /// `A`–`Z`, `0`–`9` and `_`.
    #[error("file name {0:?} is not an ISO 9660 level 1 name (8.3, upper case letters, digits, _)")]
    Name(String),
    /// The same name was given twice.
    #[error("file name {0:?} is given twice")]
    Duplicate(String),
    /// Volume identifiers have at most 32 characters out of `A`–`Z`, `0`–`9`
    /// and `_`.
    #[error("volume identifier {0:?} is not 1 to 32 upper case letters, digits or _")]
    Volume(String),
    /// One extent holds less than 4 GiB.
    #[error(
        "{name} has {len} bytes, an ISO 9660 extent holds at most {}",
        u32::MAX
    )]
    TooLong {
        /// The file or `boot image`.
        name: String,
        /// Its length in bytes.
        len: u64,
    },
}

/// Collects what an image shall hold.
///
/// Files are known by the order in which they were added; see
/// [`Content::File`].
#[derive(Debug, Clone)]
pub struct Builder {
    volume: String,
    boot: Option<u64>,
    bios: Option<u64>,
    files: Vec<(String, u64)>,
}

impl Builder {
    /// Starts an image with the volume identifier `volume`.
    pub fn new(volume: &str) -> Self {
        Self {
            volume: volume.to_owned(),
            boot: None,
            bios: None,
            files: Vec::new(),
        }
    }

    /// Adds a UEFI boot image (a FAT file system) of `len` bytes.
    #[must_use]
    pub fn boot_image(mut self, len: u64) -> Self {
        self.boot = Some(len);
        self
    }

    /// Adds a program of `len` bytes that a BIOS starts; it finds the rest of
    /// itself by the table that [`boot_info`] makes.
    #[must_use]
    pub fn bios_image(mut self, len: u64) -> Self {
        self.bios = Some(len);
        self
    }

    /// Adds a file of `len` bytes to the root directory.
    #[must_use]
    pub fn file(mut self, name: &str, len: u64) -> Self {
        self.files.push((name.to_owned(), len));
        self
    }

    /// Decides where everything goes.
    ///
    /// # Errors
    /// A name, the volume identifier or a length that the format does not
    /// allow.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        if !volume_ok(&self.volume) {
            return Err(LayoutError::Volume(self.volume.clone()));
        }
        // ECMA-119 §9.3: directory records are in the order of their names.
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by(|a, b| padded(&self.files[*a].0).cmp(&padded(&self.files[*b].0)));
        for pair in order.windows(2) {
            if self.files[pair[0]].0 == self.files[pair[1]].0 {
                return Err(LayoutError::Duplicate(self.files[pair[0]].0.clone()));
            }
        }
        for (name, len) in &self.files {
            if !name_ok(name) {
                return Err(LayoutError::Name(name.clone()));
            }
            if *len > u64::from(u32::MAX) {
                return Err(LayoutError::TooLong {
                    name: name.clone(),
                    len: *len,
                });
            }
        }
        for (name, len) in [("boot image", self.boot), ("BIOS boot image", self.bios)] {
            if let Some(len) = len.filter(|len| *len > u64::from(u32::MAX)) {
                return Err(LayoutError::TooLong {
                    name: name.to_owned(),
                    len,
                });
            }
        }
        Ok(self.place(&order))
    }

    /// Sectors: 16 system area, descriptors, two path tables, root directory,
    /// boot catalogue, files, and the boot image last, because a catalogue
    /// entry without a size means "to the end of the disc".
    fn place(&self, order: &[usize]) -> Layout {
        let boots = self.boot.is_some() || self.bios.is_some();
        let descriptors = if boots { 3 } else { 2 };
        let path_l = PRIMARY_SECTOR + descriptors;
        let path_m = path_l + 1;
        let root = path_m + 1;
        let root_sectors = directory_sectors(order.iter().map(|i| self.files[*i].0.as_str()));
        let catalogue = root + root_sectors;
        let mut next = catalogue + u64::from(boots);
        let metadata = next * SECTOR;
        let mut starts = vec![0; self.files.len()];
        for index in order {
            starts[*index] = next;
            next += sectors(self.files[*index].1);
        }
        let bios_start = next;
        next += self.bios.map_or(0, sectors);
        let boot_start = next;
        next += self.boot.map_or(0, sectors);

        let mut head = vec![0; (metadata) as usize];
        let mut put = |sector: u64, bytes: &[u8]| {
            let at = (sector * SECTOR) as usize;
            head[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let root_record = record(
            &[0],
            root as u32,
            (root_sectors * SECTOR) as u32,
            Kind::Directory,
        );
        put(
            PRIMARY_SECTOR,
            &primary(
                &self.volume,
                next as u32,
                path_l as u32,
                path_m as u32,
                &root_record,
            ),
        );
        if boots {
            let image = |start: u64, len: Option<u64>| {
                len.map(|len| Boot {
                    start: start as u32,
                    len,
                })
            };
            put(PRIMARY_SECTOR + 1, &boot_descriptor(catalogue as u32));
            put(
                catalogue,
                &boot_catalogue(image(bios_start, self.bios), image(boot_start, self.boot)),
            );
        }
        put(PRIMARY_SECTOR + descriptors - 1, &terminator());
        put(
            path_l,
            &path_table((root as u32).to_le_bytes(), 1u16.to_le_bytes()),
        );
        put(
            path_m,
            &path_table((root as u32).to_be_bytes(), 1u16.to_be_bytes()),
        );
        put(
            root,
            &self.directory(order, &starts, &root_record, root_sectors),
        );

        let mut pieces = vec![Piece {
            offset: 0,
            len: metadata,
            content: Content::Metadata,
        }];
        for index in order {
            push(&mut pieces, Content::File(*index), self.files[*index].1);
        }
        if let Some(len) = self.bios {
            push(&mut pieces, Content::BiosImage, len);
        }
        if let Some(len) = self.boot {
            push(&mut pieces, Content::BootImage, len);
        }
        Layout {
            head,
            pieces,
            len: next * SECTOR,
        }
    }

    fn directory(&self, order: &[usize], starts: &[u64], root: &[u8], sectors: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity((sectors * SECTOR) as usize);
        out.extend_from_slice(root);
        let mut parent = root.to_vec();
        parent[33] = 1;
        out.extend_from_slice(&parent);
        for index in order {
            let (name, len) = &self.files[*index];
            let id = format!("{}{};1", name, if name.contains('.') { "" } else { "." });
            let record = record(
                id.as_bytes(),
                starts[*index] as u32,
                *len as u32,
                Kind::File,
            );
            // A record never crosses a sector's end (ECMA-119 §6.8.1.1).
            let room = SECTOR as usize - out.len() % SECTOR as usize;
            if record.len() > room {
                out.resize(out.len() + room, 0);
            }
            out.extend_from_slice(&record);
        }
        out.resize((sectors * SECTOR) as usize, 0);
        out
    }
}

/// Where the bytes of one stretch of the image come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The image's own structures; see [`Layout::metadata`].
    Metadata,
    /// The file with this index, in the order of [`Builder::file`] calls.
    File(usize),
    /// The UEFI boot image.
    BootImage,
    /// The BIOS boot image.
    BiosImage,
    /// Zeroes that fill up a sector.
    Padding,
}

/// One stretch of an image. Pieces follow each other without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the image, in bytes.
    pub offset: u64,
    /// Length in bytes, never 0.
    pub len: u64,
    /// Whose bytes these are, from their first.
    pub content: Content,
}

/// A finished layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    head: Vec<u8>,
    pieces: Vec<Piece>,
    len: u64,
}

impl Layout {
    /// Length of the whole image in bytes, a multiple of [`SECTOR`].
    pub fn total_len(&self) -> u64 {
        self.len
    }

    /// The bytes of the [`Content::Metadata`] piece.
    pub fn metadata(&self) -> &[u8] {
        &self.head
    }

    /// Where `content` begins, in bytes; nothing where it is not in the image.
    pub fn offset(&self, content: Content) -> Option<u64> {
        let piece = self.pieces.iter().find(|piece| piece.content == content)?;
        Some(piece.offset)
    }

    /// All pieces in order, covering the image from 0 to [`Self::total_len`].
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Writes the whole image; `open` gives a reader for a file or the boot
    /// image.
    ///
    /// # Errors
    /// Those of the readers and of `out`, and `UnexpectedEof` where a reader
    /// has fewer bytes than were announced.
    pub fn write_to<R: Read>(
        &self,
        out: &mut impl Write,
        mut open: impl FnMut(Content) -> io::Result<R>,
    ) -> io::Result<()> {
        for piece in &self.pieces {
            let copied = match piece.content {
                Content::Metadata => {
                    out.write_all(&self.head)?;
                    piece.len
                }
                Content::Padding => io::copy(&mut io::repeat(0).take(piece.len), out)?,
                content => io::copy(&mut open(content)?.take(piece.len), out)?,
            };
            if copied != piece.len {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!(
                        "{:?} ended after {copied} of {} bytes",
                        piece.content, piece.len
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// The table of 56 bytes that boot loaders for BIOS expect at byte 8 of
/// themselves (`-boot-info-table` of mkisofs): `image` is the whole loader, as
/// it lies at `offset` of the disc.
pub fn boot_info(image: &[u8], offset: u64) -> [u8; 56] {
    let sum = image
        .get(BOOT_INFO_END..)
        .unwrap_or_default()
        .chunks(4)
        .fold(0u32, |sum, chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            sum.wrapping_add(u32::from_le_bytes(word))
        });
    let mut out = [0; 56];
    for (index, value) in [
        PRIMARY_SECTOR as u32,
        (offset / SECTOR) as u32,
        image.len() as u32,
        sum,
    ]
    .into_iter()
    .enumerate()
    {
        out[index * 4..index * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    out
}

fn push(pieces: &mut Vec<Piece>, content: Content, len: u64) {
    let end = |pieces: &Vec<Piece>| pieces.last().map_or(0, |p| p.offset + p.len);
    if len > 0 {
        pieces.push(Piece {
            offset: end(pieces),
            len,
            content,
        });
    }
    let padding = sectors(len) * SECTOR - len;
    if padding > 0 {
        pieces.push(Piece {
            offset: end(pieces),
            len: padding,
            content: Content::Padding,
        });
    }
}

fn sectors(len: u64) -> u64 {
    len.div_ceil(SECTOR)
}

fn d_characters(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn name_ok(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    (1..=8).contains(&stem.len())
        && extension.len() <= 3
        && d_characters(stem)
        && d_characters(extension)
}

fn volume_ok(volume: &str) -> bool {
    (1..=32).contains(&volume.len()) && d_characters(volume)
}

/// Name and extension filled up with spaces: the order of ECMA-119 §9.3.
fn padded(name: &str) -> String {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    format!("{stem:<8}{extension:<3}")
}

/// Sectors of a directory with these files besides `.` and `..`.
fn directory_sectors<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    let mut at = 2 * 34;
    for name in names {
        let id = name.len() + 2 + usize::from(!name.contains('.'));
        let len = record_len(id);
        let room = SECTOR as usize - at % SECTOR as usize;
        if len > room {
            at += room;
        }
        at += len;
    }
    sectors(at as u64)
}
