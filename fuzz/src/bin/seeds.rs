//! `seeds FOLDER`: writes the first inputs of every fuzz target, small and
//! valid, so that the fuzzer starts behind the first checks.

use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use flate2::write::GzEncoder;
use uuid::Uuid;
use wrought_formats::gpt;
use wrought_formats::mbr::Mbr;
use wrought_fuzz::sparse;

fn main() -> io::Result<()> {
    let folder = std::env::args().nth(1);
    let folder = folder.ok_or_else(|| io::Error::other("usage: seeds FOLDER"))?;
    let folder = Path::new(&folder);
    let put = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        let input = match target {
            "qcow2" | "tables" | "write" => sparse(bytes),
            _ => bytes.to_vec(),
        };
        fs::write(folder.join(name), input)
    };
    for (name, image) in qcow2_images()? {
        put("qcow2", &format!("seed-{name}"), &image)?;
        put("write", &format!("seed-{name}"), &image)?;
    }
    let disk = mbr_disk(8 << 10);
    put("write", "seed-mbr", &disk)?;
    put("tables", "seed-mbr", &[&[0, 8][..], &disk[..1024]].concat())?;
    let gpt = gpt_disk(512, 40 << 10);
    put("write", "seed-gpt", &gpt)?;
    put("tables", "seed-gpt", &[&[1, 8][..], &gpt].concat())?;
    let small = small_gpt_disk();
    put("tables", "seed-gpt-small", &[&[1, 4][..], &small].concat())?;
    for (name, bytes) in packed(&disk)? {
        put("write", &format!("seed-{name}"), &bytes)?;
        put("container", &format!("seed-{name}"), &bytes)?;
    }
    for (number, text) in SUMS.iter().enumerate() {
        put("sums", &format!("seed-{number}"), text.as_bytes())?;
    }
    for (number, patches) in STARTS.iter().enumerate() {
        put("detect", &format!("seed-{number}"), patches)?;
    }
    Ok(())
}

const SUMS: &[&str] = &[
    "disk.img\n# made today\r\n0123456789abcdef0123456789abcdef *./x/disk.img\r\n",
    "a b\nSHA256 (dir/a b) = 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n",
    "x\n00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n",
    "y\n\\00112233445566778899aabbccddeeff  y\n",
];

/// Patches as the target `detect` reads them.
const STARTS: &[&[u8]] = &[
    b"\0\0\x08QFI\xfb\0\0\0\x03",
    b"\0\0\x08QFI\xfb\0\0\0\x01",
    b"\0\0\x03\x1f\x8b\x08",
    b"\0\0\x06\xfd7zXZ\0",
    b"\0\0\x04\x28\xb5\x2f\xfd",
    b"\0\0\x0aBZh91AY&SY",
    b"\0\0\x04KDMV",
    b"\0\0\x04COWD",
    b"\0\0\x08vhdxfile",
    b"\0\0\x08conectix",
    b"\0\0\x04QED\0",
    b"\0\0\x06LUKS\xba\xbe",
    b"\0\x20\x04\x7f\x10\xda\xbe",
    b"\x40\0\x06\x01CD001\x01\0\x08EFI PART",
    b"\x01\0\x08EFI PART",
    b"\x08\0\x08EFI PART",
    b"\0\xdf\x12\0\0\0\0\x83\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\xff\x02\x55\xaa",
    b"\x02\x1c\x02\x53\xef",
    b"\xff\xeb<\x90MSDOS5.0",
];

/// A disk with one partition in an MBR and a little text.
fn mbr_disk(size: usize) -> Vec<u8> {
    let mut disk = vec![0; size];
    let sectors = size as u64 / 512;
    let mut bytes = *Mbr::protective(sectors).bytes();
    bytes[446..510].fill(0);
    bytes[450] = 0x83;
    bytes[454] = 1;
    bytes[458] = (sectors - 1) as u8;
    disk[..512].copy_from_slice(&bytes);
    for at in (1024..size).step_by(1536) {
        disk[at..at + 12].copy_from_slice(b"some content");
    }
    disk
}

/// A disk with a GPT of one partition.
fn gpt_disk(sector_size: u32, size: usize) -> Vec<u8> {
    let mut disk = vec![0; size];
    let sectors = size as u64 / u64::from(sector_size);
    let table = gpt::Gpt::new(sector_size, sectors, Uuid::from_u128(1));
    let mut table = table.expect("the disk is large enough");
    let new = gpt::NewPartition {
        kind: gpt::TYPE_ESP,
        guid: Uuid::from_u128(2),
        name: "esp",
        bytes: 4096,
        align: 512,
    };
    table.add_at_end(&new).expect("there is room");
    for patch in table.encode(None) {
        let at = patch.offset as usize;
        disk[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    disk
}

/// The start of a disk with a GPT of four entries, which QEMU and firmware
/// would take as well; its backup is outside.
fn small_gpt_disk() -> Vec<u8> {
    let mut disk = gpt_disk(512, 40 << 10);
    disk[512 + 80..512 + 84].copy_from_slice(&4u32.to_le_bytes());
    disk.truncate(3 * 512);
    disk
}

/// One image of every kind that has code of its own.
fn qcow2_images() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let plain = Kind::default();
    let disk = mbr_disk(8 << 10);
    let image = |kind: Kind| kind.image(&disk);
    Ok(vec![
        ("v3", image(plain)?),
        (
            "v2",
            image(Kind {
                version: 2,
                ..plain
            })?,
        ),
        (
            "zlib",
            image(Kind {
                packed: Some(0),
                ..plain
            })?,
        ),
        (
            "zstd",
            image(Kind {
                packed: Some(1),
                ..plain
            })?,
        ),
        ("4k", image(Kind { bits: 12, ..plain })?),
        (
            "late",
            image(Kind {
                late: true,
                ..plain
            })?,
        ),
        (
            "late-zlib",
            image(Kind {
                late: true,
                packed: Some(0),
                ..plain
            })?,
        ),
        (
            "extended",
            image(Kind {
                bits: 14,
                extended: true,
                ..plain
            })?,
        ),
    ])
}

/// What kind of image.
#[derive(Clone, Copy)]
struct Kind {
    version: u32,
    bits: u32,
    extended: bool,
    /// 0: zlib, 1: zstd.
    packed: Option<u8>,
    /// Tables behind the data.
    late: bool,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            version: 3,
            bits: 9,
            extended: false,
            packed: None,
            late: false,
        }
    }
}

impl Kind {
    /// `disk` in an image; its refcounts are left out, nobody reads them.
    fn image(self, disk: &[u8]) -> io::Result<Vec<u8>> {
        let cluster = 1usize << self.bits;
        let mut image = vec![0; cluster];
        let mut entries = Vec::new();
        let tables = |image: &mut Vec<u8>| {
            let at = image.len();
            image.resize(at + 2 * cluster, 0);
            at
        };
        let mut at = if self.late { 0 } else { tables(&mut image) };
        for piece in disk.chunks(cluster) {
            let mut whole = piece.to_vec();
            whole.resize(cluster, 0);
            let start = image.len();
            let entry = match self.packed {
                _ if whole.iter().all(|byte| *byte == 0) => 0,
                Some(kind) => {
                    let packed = pack(kind, &whole)?;
                    let first = start / 512;
                    let last = (start + packed.len() - 1) / 512;
                    image.extend(packed);
                    (1 << 62) | ((last - first) as u64) << (62 - (self.bits - 8)) | start as u64
                }
                None => {
                    image.extend(&whole);
                    (1 << 63) | start as u64
                }
            };
            entries.push(entry);
        }
        if self.late {
            image.resize(image.len().next_multiple_of(cluster), 0);
            at = tables(&mut image);
        }
        let mut put = |at: usize, bytes: &[u8]| {
            image[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let l2 = (at + cluster) as u64;
        let step = if self.extended { 16 } else { 8 };
        let span = cluster / step * cluster;
        assert!(disk.len() <= 2 * span, "two L2 tables at most");
        put(at, &(l2 | 1 << 63).to_be_bytes());
        for (number, entry) in entries.iter().take(cluster / step).enumerate() {
            let place = l2 as usize + number * step;
            put(place, &entry.to_be_bytes());
            if self.extended {
                put(place + 8, &0x0000_ff00_0000_00ffu64.to_be_bytes());
            }
        }
        let incompatible = u64::from(self.extended) << 4 | u64::from(self.packed == Some(1)) << 3;
        put(0, b"QFI\xfb");
        put(4, &self.version.to_be_bytes());
        put(20, &self.bits.to_be_bytes());
        put(24, &(disk.len() as u64).to_be_bytes());
        put(36, &(disk.len().div_ceil(span) as u32).to_be_bytes());
        put(40, &(at as u64).to_be_bytes());
        if self.version == 3 {
            put(72, &incompatible.to_be_bytes());
            put(96, &4u32.to_be_bytes());
            put(100, &112u32.to_be_bytes());
            put(104, &[self.packed.unwrap_or(0)]);
        }
        // Of the last cluster only what is used has to be there.
        while !self.late && image.last() == Some(&0) && !image.len().is_multiple_of(512) {
            image.pop();
        }
        Ok(image)
    }
}

/// One cluster, compressed as qcow2 does it.
fn pack(kind: u8, bytes: &[u8]) -> io::Result<Vec<u8>> {
    if kind == 1 {
        return zstd::encode_all(bytes, 3);
    }
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes)?;
    packer.finish()
}

/// `disk` in every container.
fn packed(disk: &[u8]) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(disk)?;
    let gz = gz.finish()?;
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz2.write_all(disk)?;
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(disk)?;
    let zst = zstd::encode_all(disk, 3)?;
    Ok(vec![
        ("gz2", [&gz[..], &gz].concat()),
        ("gz", gz),
        ("bz2", bz2.finish()?),
        ("xz", xz.finish()?),
        (
            "zst2",
            [&zst[..], b"\x50\x2a\x4d\x18\x04\0\0\0skip", &zst].concat(),
        ),
        ("zst", zst),
    ])
}
