//! The writer against the reader, and against xorriso where it is installed.

use std::io;
use std::process::Command;

use proptest::prelude::any;
use proptest::prop_assert;
use proptest::proptest;

use super::Builder;
use super::Content;
use super::LayoutError;
use super::Piece;
use super::ReadError;
use super::Reader;
use super::SECTOR;
use super::boot_info;

const PARAMS: &[u8] = b"ipa-api-url=https://192.0.2.1:6385\n";
const CA: &[u8] = &[b'c'; 3000];

fn boot() -> Vec<u8> {
    (0..100_000u32).map(|i| (i % 251) as u8).collect()
}

fn sample() -> Vec<u8> {
    let boot = boot();
    let layout = Builder::new("WROUGHT_VMEDIA")
        .boot_image(boot.len() as u64)
        .file("PARAMS.TXT", PARAMS.len() as u64)
        .file("CA.PEM", CA.len() as u64)
        .file("EMPTY", 0)
        .layout()
        .unwrap();
    let mut out = Vec::new();
    layout
        .write_to(&mut out, |content| {
            Ok(match content {
                Content::File(0) => PARAMS,
                Content::File(1) => CA,
                Content::BootImage => boot.as_slice(),
                other => panic!("asked for {other:?}"),
            })
        })
        .unwrap();
    assert_eq!(out.len() as u64, layout.total_len());
    out
}

fn from(image: &[u8]) -> impl FnMut(u64, &mut [u8]) -> io::Result<()> + use<> {
    let image = image.to_vec();
    move |offset, out| {
        let end = offset
            .checked_add(out.len() as u64)
            .filter(|end| *end <= image.len() as u64);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(&image[offset as usize..end as usize]);
        Ok(())
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut reader = Reader::open(from(&sample())).unwrap();
    assert_eq!(reader.volume_id(), "WROUGHT_VMEDIA");
    let names: Vec<_> = reader.list().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["CA.PEM", "EMPTY", "PARAMS.TXT"]);
    assert_eq!(reader.read_file("params.txt", 4096).unwrap(), PARAMS);
    assert_eq!(reader.read_file("CA.PEM", 4096).unwrap(), CA);
    assert!(reader.read_file("EMPTY", 0).unwrap().is_empty());
    assert!(matches!(
        reader.read_file("CA.PEM", 2999),
        Err(ReadError::TooLong { .. })
    ));
    assert!(matches!(
        reader.read_file("NONE", 1),
        Err(ReadError::NoFile(_))
    ));
}

#[test]
fn equal_input_gives_equal_bytes() {
    assert_eq!(sample(), sample());
}

#[test]
fn pieces_cover_the_image_without_gaps() {
    let layout = Builder::new("V")
        .boot_image(5000)
        .file("A", 1)
        .file("B", 2048)
        .layout()
        .unwrap();
    let mut at = 0;
    for Piece { offset, len, .. } in layout.pieces() {
        assert_eq!(*offset, at);
        assert!(*len > 0);
        at += len;
    }
    assert_eq!(at, layout.total_len());
    assert_eq!(layout.metadata().len() as u64, layout.pieces()[0].len);
}

#[test]
fn many_files_need_a_longer_directory() {
    let mut builder = Builder::new("MANY");
    for i in 0..500 {
        builder = builder.file(&format!("F{i}.TXT"), 1);
    }
    let layout = builder.layout().unwrap();
    let mut image = Vec::new();
    layout.write_to(&mut image, |_| Ok(&b"x"[..])).unwrap();
    let mut reader = Reader::open(from(&image)).unwrap();
    assert_eq!(reader.list().len(), 500);
    assert_eq!(reader.read_file("F499.TXT", 1).unwrap(), b"x");
}

#[test]
fn a_short_source_is_an_error() {
    let layout = Builder::new("V").file("A", 10).layout().unwrap();
    let error = layout
        .write_to(&mut Vec::new(), |_| Ok(&b"short"[..]))
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn names_outside_level_one_are_refused() {
    for name in [
        "lower.txt",
        "TOOLONGNAME.TXT",
        "A.TEXT",
        "A B",
        "",
        ".TXT",
        "A.B.C",
        "../A",
    ] {
        let error = Builder::new("V").file(name, 1).layout().unwrap_err();
        assert_eq!(error, LayoutError::Name(name.to_owned()));
    }
    let error = Builder::new("V")
        .file("A", 1)
        .file("A", 1)
        .layout()
        .unwrap_err();
    assert_eq!(error, LayoutError::Duplicate("A".to_owned()));
    assert!(matches!(
        Builder::new("a b").layout(),
        Err(LayoutError::Volume(_))
    ));
    let error = Builder::new("V").boot_image(1 << 32).layout().unwrap_err();
    assert!(matches!(error, LayoutError::TooLong { .. }));
}

#[test]
fn a_boot_image_too_long_to_count_reaches_to_the_end() {
    let layout = Builder::new("V")
        .boot_image(40 << 20)
        .file("A", 1)
        .layout()
        .unwrap();
    let catalogue = layout.metadata().len() - SECTOR as usize;
    assert_eq!(&layout.metadata()[catalogue + 38..catalogue + 40], &[0, 0]);
    assert_eq!(layout.pieces().last().unwrap().content, Content::BootImage);
}

#[test]
fn an_image_for_both_firmwares_has_two_catalogue_entries() {
    let bios: Vec<u8> = (0..5000u32).map(|i| (i % 241) as u8).collect();
    let layout = Builder::new("V")
        .boot_image(100_000)
        .bios_image(bios.len() as u64)
        .file("A", 1)
        .layout()
        .unwrap();
    let catalogue = &layout.metadata()[layout.metadata().len() - SECTOR as usize..];
    let sector = |at: usize| u32::from_le_bytes(catalogue[at..at + 4].try_into().unwrap());
    let start = |content| layout.offset(content).unwrap() / SECTOR;
    assert_eq!(catalogue[1], 0, "the first entry is for a BIOS");
    assert_eq!(u64::from(sector(40)), start(Content::BiosImage));
    assert_eq!(catalogue[38..40], [4, 0]);
    assert_eq!((catalogue[64], catalogue[65]), (0x91, 0xef));
    assert_eq!(u64::from(sector(104)), start(Content::BootImage));
    let sum = catalogue[..32].chunks_exact(2).fold(0u16, |sum, word| {
        sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))
    });
    assert_eq!(sum, 0);
    assert_eq!(layout.pieces().last().unwrap().content, Content::Padding);
    let info = boot_info(&bios, 40 * SECTOR);
    assert_eq!(info[..12], [16, 0, 0, 0, 40, 0, 0, 0, 0x88, 0x13, 0, 0]);
    assert_ne!(info[12..16], [0; 4]);
}

#[test]
fn other_bytes_are_no_image() {
    assert!(matches!(
        Reader::open(from(&vec![0; 1 << 20])),
        Err(ReadError::NotIso)
    ));
    assert!(matches!(
        Reader::open(from(&[0; 100])),
        Err(ReadError::Io { .. })
    ));
}

#[test]
fn xorriso_agrees() {
    let dir = std::env::temp_dir().join(format!("wrought-iso-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let iso = dir.join("a.iso");
    std::fs::write(&iso, sample()).unwrap();
    let extracted = dir.join("params");
    let run = Command::new("xorriso")
        .arg("-indev")
        .arg(&iso)
        .args([
            "-pvd_info",
            "-report_el_torito",
            "plain",
            "-osirrox",
            "on",
            "-extract",
        ])
        .arg("/PARAMS.TXT")
        .arg(&extracted)
        .output();
    let Ok(output) = run else {
        eprintln!("xorriso is not installed, not compared");
        let _ = std::fs::remove_dir_all(&dir);
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let content = std::fs::read(&extracted).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&dir);
    assert!(said.contains("WROUGHT_VMEDIA"), "{said}");
    assert!(said.contains("UEFI") && said.contains(" y "), "{said}");
    assert_eq!(content, PARAMS);
}

proptest! {
    #[test]
    fn damage_never_panics(
        changes in proptest::collection::vec((32_768usize..49_000, any::<u8>()), 1..40),
    ) {
        let mut image = sample();
        for (at, value) in changes {
            image[at] = value;
        }
        if let Ok(mut reader) = Reader::open(from(&image)) {
            for entry in reader.list().to_vec() {
                if let Ok(content) = reader.read_file(&entry.name, 1 << 16) {
                    prop_assert!(content.len() <= 1 << 16);
                }
            }
        }
    }
}
