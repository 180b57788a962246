//! A whole write of hostile bytes: it puts on the disk what a simple reader
//! finds in the image, or fails and leaves the disk untouched or with both its ends zero. The
//! bound on memory is the fuzzer's `-rss_limit_mb`.

#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::Mutex;

use libfuzzer_sys::fuzz_target;
use wrought_fuzz::expanded;
use wrought_fuzz::file;
use wrought_fuzz::naive;
use wrought_fuzz::sha256;
use wrought_image::DiskState;
use wrought_image::Format;
use wrought_image::WriteRequest;
use wrought_image::write;

/// Bytes of the disk: more than the two ends.
const DISK: u64 = 3 << 20;
const END: usize = 1 << 20;
/// Compared at once: a loop over bytes would be counted byte by byte.
static ZEROES: [u8; END] = [0; END];
/// What a disk that was in use before is full of.
const OLD: u8 = 0xa5;

static PLACE: LazyLock<Mutex<[(File, PathBuf); 2]>> = LazyLock::new(|| {
    let disk = file();
    disk.0.set_len(DISK).expect("room in memory");
    Mutex::new([file(), disk])
});

fuzz_target!(|bytes: &[u8]| {
    let bytes = &expanded(bytes);
    let place = PLACE.lock().expect("one thread");
    let [(image, image_path), (disk_file, disk_path)] = &*place;
    let emptied = image.set_len(0);
    let filled = emptied.and_then(|()| image.write_all_at(bytes, 0));
    filled.expect("room in memory");
    for at in [0, END as u64, DISK - 1] {
        disk_file.write_all_at(&[OLD], at).expect("room in memory");
    }
    let mut request = WriteRequest::new(image_path.display().to_string(), disk_path);
    request.checksum = Some(sha256(bytes));
    request.memory = 16 << 20;
    let result = write(&request);
    assert_eq!(disk_file.metadata().expect("the disk").len(), DISK);
    let mut disk = vec![0; DISK as usize];
    disk_file.read_exact_at(&mut disk, 0).expect("the disk");
    let (head, tail) = (&disk[..END], &disk[DISK as usize - END..]);
    match result {
        Ok(report) => {
            assert_eq!(report.bytes_in, bytes.len() as u64);
            assert!(report.bytes_out <= DISK);
            // A table is in the head; the disk's old end is nowhere.
            assert!(head != ZEROES);
            assert!(tail.last() != Some(&OLD) || report.bytes_out == DISK);
            let image = match (report.container, report.format) {
                (None, Format::Qcow2) => naive::disk(bytes),
                (None, _) => bytes.to_vec(),
                // The target `container` compares those.
                (Some(_), _) => return,
            };
            assert_eq!(report.bytes_out, image.len() as u64);
            // A table that was fitted to the disk is another.
            let moved = report.table.backup_moved;
            let same = moved || disk[..image.len()] == image[..];
            assert!(same, "the disk holds other bytes than the image");
        }
        Err(error) if error.disk() == DiskState::Untouched => {
            assert_eq!((disk[0], disk[END]), (OLD, OLD));
        }
        Err(error) => {
            assert_eq!(error.disk(), DiskState::EndsZeroed, "{}", error.chain());
            assert!(head == ZEROES && tail == ZEROES);
            assert!(!error.chain().is_empty());
        }
    }
});
