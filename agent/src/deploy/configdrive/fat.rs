//! A FAT file system that is written once, front to back: everything that
//! goes into it is known, so every file lies in one piece.
//!
//! The `fatfs` crate makes directories whose `.` and `..` carry long names,
//! which fsck.fat rejects; its reader serves the EFI system partition.

use std::io;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;

/// Cluster counts that tell the kinds apart (Microsoft's FAT specification,
/// §3.5).
const LEAST_FAT16: u64 = 4085;
const LEAST_FAT32: u64 = 65525;
/// Entries of FAT16's root folder.
const ROOT_ENTRIES: u64 = 512;
const ENTRY: usize = 32;
/// 1 January 1980, the first day there is.
const DATE: u16 = 0x21;
const ATTRIBUTE_LABEL: u8 = 0x08;
const ATTRIBUTE_FOLDER: u8 = 0x10;
const ATTRIBUTE_FILE: u8 = 0x20;
const ATTRIBUTE_LONG_NAME: u8 = 0x0f;

/// A file or folder.
#[derive(Debug)]
pub(super) enum Node<'a> {
    /// A file with its content.
    File(&'a str, &'a [u8]),
    /// A folder.
    Folder(&'a str, Vec<Node<'a>>),
}

/// What the file system is to be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Bytes of the volume.
    pub(super) length: u64,
    /// Bytes of a sector, and of a cluster.
    pub(super) sector: u32,
    /// Serial number.
    pub(super) serial: u32,
    /// Label, padded with blanks.
    pub(super) label: [u8; 11],
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    fat32: bool,
    sector: u64,
    sectors: u64,
    reserved: u64,
    fat_sectors: u64,
    root_sectors: u64,
    clusters: u64,
}

impl Layout {
    fn of(shape: &Shape) -> io::Result<Self> {
        let large = Self::try_kind(shape, true);
        if large.clusters >= LEAST_FAT32 {
            return Ok(large);
        }
        let small = Self::try_kind(shape, false);
        if (LEAST_FAT16..LEAST_FAT32).contains(&small.clusters) {
            return Ok(small);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} bytes in sectors of {} are too few for FAT16",
                shape.length, shape.sector
            ),
        ))
    }

    fn try_kind(shape: &Shape, fat32: bool) -> Self {
        let sector = u64::from(shape.sector);
        // The count of sectors has 32 bits.
        let sectors = (shape.length / sector).min(u32::MAX.into());
        let (reserved, width) = if fat32 { (32, 4) } else { (1, 2) };
        let root_sectors = if fat32 {
            0
        } else {
            (ROOT_ENTRIES * ENTRY as u64).div_ceil(sector)
        };
        let mut fat_sectors = 1;
        loop {
            let used = reserved + root_sectors + 2 * fat_sectors;
            let clusters = sectors.saturating_sub(used);
            let needed = ((clusters + 2) * width).div_ceil(sector);
            if needed <= fat_sectors {
                return Self {
                    fat32,
                    sector,
                    sectors,
                    reserved,
                    fat_sectors,
                    root_sectors,
                    clusters,
                };
            }
            fat_sectors = needed;
        }
    }

    fn cluster_offset(&self, cluster: u64) -> u64 {
        let data = self.reserved + 2 * self.fat_sectors + self.root_sectors;
        (data + cluster - 2) * self.sector
    }
}

/// Writes the file system into a volume that is all zeroes.
pub(super) fn write<T>(volume: &mut T, shape: &Shape, root: &[Node<'_>]) -> io::Result<()>
where
    T: Write + Seek,
{
    let layout = Layout::of(shape)?;
    let mut writer = Writer {
        volume,
        layout,
        next: 2,
        chains: Vec::new(),
    };
    let mut entries = entry(&shape.label, ATTRIBUTE_LABEL, 0, 0).to_vec();
    if layout.fat32 {
        // The root is a chain like any other, and comes first.
        let length = folder_length(root) + ENTRY;
        let cluster = writer.allocate(length)?;
        writer.children(root, 0, &mut entries)?;
        writer.put(layout.cluster_offset(cluster), &entries)?;
    } else {
        writer.children(root, 0, &mut entries)?;
        let start = (layout.reserved + 2 * layout.fat_sectors) * layout.sector;
        writer.put(start, &entries)?;
    }
    writer.tables()?;
    writer.boot_sector(shape)
}

struct Writer<'a, T> {
    volume: &'a mut T,
    layout: Layout,
    next: u64,
    /// First cluster and count of each file and folder.
    chains: Vec<(u64, u64)>,
}

impl<T: Write + Seek> Writer<'_, T> {
    fn put(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.volume.seek(SeekFrom::Start(offset))?;
        self.volume.write_all(bytes)
    }

    /// The next clusters, enough for so many bytes.
    fn allocate(&mut self, length: usize) -> io::Result<u64> {
        let count = (length as u64).div_ceil(self.layout.sector).max(1);
        let first = self.next;
        if first - 2 + count > self.layout.clusters {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.next += count;
        self.chains.push((first, count));
        Ok(first)
    }

    /// Writes what is in a folder and appends its entries.
    fn children(
        &mut self,
        nodes: &[Node<'_>],
        parent: u64,
        entries: &mut Vec<u8>,
    ) -> io::Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            let (name, attribute, cluster, size) = match node {
                Node::File(name, []) => (name, ATTRIBUTE_FILE, 0, 0),
                Node::File(name, bytes) => {
                    let cluster = self.allocate(bytes.len())?;
                    self.put(self.layout.cluster_offset(cluster), bytes)?;
                    (name, ATTRIBUTE_FILE, cluster, bytes.len())
                }
                Node::Folder(name, inner) => {
                    let cluster = self.allocate(folder_length(inner) + 2 * ENTRY)?;
                    let mut own = entry(b".          ", ATTRIBUTE_FOLDER, cluster, 0).to_vec();
                    own.extend(entry(b"..         ", ATTRIBUTE_FOLDER, parent, 0));
                    self.children(inner, cluster, &mut own)?;
                    self.put(self.layout.cluster_offset(cluster), &own)?;
                    (name, ATTRIBUTE_FOLDER, cluster, 0)
                }
            };
            let short = short_name(name, index + 1);
            entries.extend(long_name(name, &short));
            let size = u32::try_from(size).map_err(io::Error::other)?;
            entries.extend(entry(&short, attribute, cluster, size));
        }
        Ok(())
    }

    fn tables(&mut self) -> io::Result<()> {
        let wide = self.layout.fat32;
        let mut table = Vec::new();
        let mut push = |value: u32| {
            if wide {
                table.extend(value.to_le_bytes());
            } else {
                table.extend((value as u16).to_le_bytes());
            }
        };
        let end = if wide { 0x0fff_ffff } else { 0xffff };
        push(if wide { 0x0fff_fff8 } else { 0xfff8 });
        push(end);
        for (first, count) in &self.chains {
            for cluster in *first..first + count {
                let last = cluster + 1 == first + count;
                push(if last {
                    end
                } else {
                    u32::try_from(cluster + 1).unwrap_or(end)
                });
            }
        }
        let start = self.layout.reserved * self.layout.sector;
        self.put(start, &table)?;
        self.put(start + self.layout.fat_sectors * self.layout.sector, &table)
    }

    fn boot_sector(&mut self, shape: &Shape) -> io::Result<()> {
        let layout = self.layout;
        let narrow = |value: u64| u32::try_from(value).map_err(io::Error::other);
        let mut boot = [0_u8; 512];
        let mut set = |at: usize, bytes: &[u8]| boot[at..at + bytes.len()].copy_from_slice(bytes);
        // A jump over the parameters, and a stop: nothing here is started.
        set(
            0,
            if layout.fat32 {
                &[0xeb, 0x58, 0x90]
            } else {
                &[0xeb, 0x3c, 0x90]
            },
        );
        set(3, b"MSWIN4.1");
        set(11, &(shape.sector as u16).to_le_bytes());
        set(13, &[1]);
        set(14, &(layout.reserved as u16).to_le_bytes());
        set(16, &[2]);
        set(21, &[0xf8]);
        set(24, &[63, 0, 255, 0]);
        if layout.sectors < 0x1_0000 && !layout.fat32 {
            set(19, &(layout.sectors as u16).to_le_bytes());
        } else {
            set(32, &narrow(layout.sectors)?.to_le_bytes());
        }
        let tail = if layout.fat32 {
            set(36, &narrow(layout.fat_sectors)?.to_le_bytes());
            set(44, &2_u32.to_le_bytes());
            set(48, &[1, 0, 6, 0]);
            64
        } else {
            set(17, &(ROOT_ENTRIES as u16).to_le_bytes());
            set(22, &(layout.fat_sectors as u16).to_le_bytes());
            36
        };
        set(tail, &[0x80, 0, 0x29]);
        set(tail + 3, &shape.serial.to_le_bytes());
        set(tail + 7, &shape.label);
        set(
            tail + 18,
            if layout.fat32 {
                b"FAT32   "
            } else {
                b"FAT16   "
            },
        );
        set(tail + 26, &[0xf4, 0xeb, 0xfd]);
        set(510, &[0x55, 0xaa]);
        if layout.fat32 {
            let mut info = [0_u8; 512];
            info[..4].copy_from_slice(b"RRaA");
            info[484..488].copy_from_slice(b"rrAa");
            let free = narrow(layout.clusters - (self.next - 2))?;
            info[488..492].copy_from_slice(&free.to_le_bytes());
            info[492..496].copy_from_slice(&narrow(self.next)?.to_le_bytes());
            info[510..].copy_from_slice(&[0x55, 0xaa]);
            for sector in [1, 7] {
                self.put(sector * layout.sector, &info)?;
            }
            self.put(6 * layout.sector, &boot)?;
        }
        self.put(0, &boot)
    }
}

/// Bytes of a folder's entries, without `.` and `..`.
fn folder_length(nodes: &[Node<'_>]) -> usize {
    let name = |node: &Node<'_>| match node {
        Node::File(name, _) | Node::Folder(name, _) => name.encode_utf16().count(),
    };
    nodes
        .iter()
        .map(|node| (name(node).div_ceil(13) + 1) * ENTRY)
        .sum()
}

fn entry(name: &[u8; 11], attribute: u8, cluster: u64, size: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attribute;
    for at in [16, 18, 24] {
        entry[at..at + 2].copy_from_slice(&DATE.to_le_bytes());
    }
    let cluster = u32::try_from(cluster).unwrap_or_default().to_le_bytes();
    entry[20..22].copy_from_slice(&cluster[2..]);
    entry[26..28].copy_from_slice(&cluster[..2]);
    entry[28..].copy_from_slice(&size.to_le_bytes());
    entry
}

/// `META_D~1JSO`: the number keeps names in a folder apart.
fn short_name(name: &str, number: usize) -> [u8; 11] {
    let letters = |text: &str, most: usize| -> Vec<u8> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        text.chars()
            .filter(|c| plain(*c))
            .take(most)
            .map(|c| c.to_ascii_uppercase() as u8)
            .collect()
    };
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let tail = format!("~{number}");
    let mut base = letters(stem, 8 - tail.len());
    base.extend(tail.bytes());
    let mut short = [b' '; 11];
    short[..base.len()].copy_from_slice(&base);
    let extension = letters(extension, 3);
    short[8..8 + extension.len()].copy_from_slice(&extension);
    short
}

/// The entries before the short one that hold the real name, last part
/// first.
fn long_name(name: &str, short: &[u8; 11]) -> Vec<u8> {
    let checksum = short
        .iter()
        .fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let units: Vec<u16> = name.encode_utf16().collect();
    let parts = units.len().div_ceil(13);
    let mut bytes = Vec::new();
    for part in (0..parts).rev() {
        let mut entry = [0_u8; ENTRY];
        let last = if part + 1 == parts { 0x40 } else { 0 };
        entry[0] = last | u8::try_from(part + 1).unwrap_or_default();
        entry[11] = ATTRIBUTE_LONG_NAME;
        entry[13] = checksum;
        let places = (1..11)
            .step_by(2)
            .chain((14..26).step_by(2))
            .chain((28..32).step_by(2));
        for (index, at) in places.enumerate() {
            let unit = match units.get(part * 13 + index) {
                Some(unit) => *unit,
                None if part * 13 + index == units.len() => 0,
                None => 0xffff,
            };
            entry[at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        bytes.extend(entry);
    }
    bytes
}
