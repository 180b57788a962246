//! Putting a config drive onto a disk.

use std::io;
use std::io::Read;

use uuid::Uuid;

use crate::deploy::configdrive::Files;
use crate::deploy::configdrive::Image;
use crate::deploy::configdrive::LABEL;
use crate::deploy::configdrive::PayloadError;
use crate::deploy::configdrive::SIZE;
use crate::disk;
use crate::disk::BlockFile;
use crate::disk::Window;
use crate::disk::probe::volume_label;
use crate::disk::table::Table;
use crate::disk::table::TablePartition;

/// Why the config drive is not on the disk.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The content cannot be used.
    #[error("read the config drive")]
    Payload(#[from] PayloadError),
    /// The disk refuses.
    #[error("write the config drive")]
    Disk(#[from] disk::Error),
    /// The file system could not be made.
    #[error("make the config drive's file system in partition {number} of {}", path.display())]
    FileSystem {
        /// The disk.
        path: std::path::PathBuf,
        /// Number of the partition.
        number: u32,
        /// What went wrong.
        source: io::Error,
    },
    /// No table to enter a partition into.
    #[error("{} has no partition table, so it can have no config drive; is the image a whole disk?", .0.display())]
    NoTable(std::path::PathBuf),
    /// More than one partition could be meant.
    #[error("{} has {count} partitions labelled config-2, one at most is expected; {partitions}", path.display())]
    Ambiguous {
        /// The disk.
        path: std::path::PathBuf,
        /// How many.
        count: usize,
        /// All partitions.
        partitions: String,
    },
    /// The image brought a partition for it, which is too small.
    #[error("partition {number} of {}, labelled config-2, has {found} bytes, the config drive needs {needed}", path.display())]
    TooSmall {
        /// The disk.
        path: std::path::PathBuf,
        /// Number of the partition.
        number: u32,
        /// Its bytes.
        found: u64,
        /// Bytes of the config drive.
        needed: u64,
    },
}

/// Where the config drive is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Number of the partition.
    pub number: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether the partition was there before.
    pub reused: bool,
}

/// What to place.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A file system is made of these.
    Files(&'a Files),
    /// This is copied.
    Image(&'a Image),
}

/// Writes the config drive into the partition labelled `config-2`, which is
/// made at the disk's end unless it is there. `guid` becomes the new
/// partition's.
pub fn place(disk: &BlockFile, content: Content<'_>, guid: Uuid) -> Result<Placed, PlaceError> {
    // Before anything is changed: can the content be used at all?
    let needed = match content {
        Content::Files(files) => files.room(disk.logical_sector()),
        Content::Image(image) => image.measure()?,
    };
    let path = || disk.path().to_owned();
    let mut table = Table::read(disk)?.ok_or_else(|| PlaceError::NoTable(path()))?;
    let existing = labelled(disk, &table)?;
    let (partition, reused) = match existing.as_slice() {
        [] => (table.add_at_end(disk, guid, LABEL, SIZE)?, false),
        [one] if one.length < needed => {
            let (number, found) = (one.number, one.length);
            return Err(PlaceError::TooSmall {
                path: path(),
                number,
                found,
                needed,
            });
        }
        [one] => (one.clone(), true),
        several => {
            let (count, partitions) = (several.len(), table.listing());
            return Err(PlaceError::Ambiguous {
                path: path(),
                count,
                partitions,
            });
        }
    };
    let TablePartition {
        number,
        start,
        length,
        ..
    } = partition;
    // Nothing of what was there before is to be read by the next owner.
    disk.zero(start, length)?;
    write(disk, content, &partition, guid)?;
    disk.flush()?;
    if !reused {
        tell_kernel(disk, &partition)?;
    }
    Ok(Placed {
        number,
        start,
        length,
        reused,
    })
}

/// Partitions that are a config drive by name or by their file system's
/// label, in any case.
fn labelled(disk: &BlockFile, table: &Table) -> Result<Vec<TablePartition>, disk::Error> {
    let mut found = Vec::new();
    for partition in &table.partitions {
        let by_name = partition.name.eq_ignore_ascii_case(LABEL);
        let is_label = |label: String| label.eq_ignore_ascii_case(LABEL);
        if by_name || volume_label(&partition.region(disk))?.is_some_and(is_label) {
            found.push(partition.clone());
        }
    }
    Ok(found)
}

fn write(
    disk: &BlockFile,
    content: Content<'_>,
    partition: &TablePartition,
    guid: Uuid,
) -> Result<(), PlaceError> {
    let mut window = Window::writer(disk, partition.start, partition.length);
    match content {
        Content::Files(files) => {
            let serial = guid.as_fields().0;
            files
                .write_fat(&mut window, disk.logical_sector(), serial)
                .map_err(|source| PlaceError::FileSystem {
                    path: disk.path().to_owned(),
                    number: partition.number,
                    source,
                })
        }
        Content::Image(image) => {
            let mut reader = image.reader()?.take(partition.length);
            io::copy(&mut reader, &mut window).map_err(PayloadError::Decode)?;
            Ok(())
        }
    }
}

/// The kernel reads the table again, and is told of the new partition in
/// case it could not: someone keeps the old ones busy, or it does not know
/// this kind of table.
fn tell_kernel(disk: &BlockFile, partition: &TablePartition) -> Result<(), disk::Error> {
    let reread = disk.reread_table();
    let told = disk.announce_partition(partition.number, partition.start, partition.length);
    if let Err(error) = &reread {
        tracing::warn!(dev = %disk.path().display(), %error, "the partition table was not read again");
    }
    reread.or(told)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::path::PathBuf;
    use std::process::Command;

    use serde_json::json;
    use uuid::Uuid;

    use super::Content;
    use super::PlaceError;
    use super::place;
    use crate::deploy::configdrive::Files;
    use crate::deploy::configdrive::Image;
    use crate::disk::Access;
    use crate::disk::BlockFile;

    const MIB: u64 = 1 << 20;

    fn files() -> Files {
        Files::parse(json!({"user_data": "hello"}).as_object().unwrap(), "node-1").unwrap()
    }

    fn disk(folder: &Path, arguments: &[&str]) -> PathBuf {
        let path = folder.join("disk");
        let file = File::create(&path).unwrap();
        file.set_len(64 * MIB).unwrap();
        let output = Command::new("/usr/sbin/sgdisk")
            .args(arguments)
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success());
        file.set_len(256 * MIB).unwrap();
        path
    }

    fn user_data(path: &Path, start: u64) -> String {
        let image = format!("{}@@{start}", path.display());
        let output = Command::new("mtype")
            .args(["-i", &image, "::openstack/latest/user_data"])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn a_new_partition_then_the_same_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = disk(folder.path(), &["-n", "1:2048:+16M"]);
        let open = || BlockFile::open(&path, Access::Exclusive).unwrap();
        let first = place(&open(), Content::Files(&files()), Uuid::from_u128(7)).unwrap();
        assert_eq!(
            (first.number, first.length, first.reused),
            (2, 64 * MIB, false)
        );
        assert_eq!(user_data(&path, first.start), "hello");
        let verdict = Command::new("/usr/sbin/sgdisk")
            .arg("-v")
            .arg(&path)
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&verdict.stdout).contains("No problems found"));

        let again = place(&open(), Content::Files(&files()), Uuid::from_u128(8)).unwrap();
        assert_eq!(
            (again.number, again.start, again.reused),
            (2, first.start, true)
        );
    }

    #[test]
    fn large_sectors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        File::create(&path).unwrap().set_len(256 * MIB).unwrap();
        let disk = BlockFile::open(&path, Access::Exclusive)
            .unwrap()
            .with_sector_size(4096);
        let sectors = disk.size() / 4096;
        let table = wrought_formats::gpt::Gpt::new(4096, sectors, Uuid::from_u128(1)).unwrap();
        for patch in table.encode(None) {
            disk.write_at(&patch.bytes, patch.offset).unwrap();
        }
        let placed = place(&disk, Content::Files(&files()), Uuid::from_u128(7)).unwrap();
        assert_eq!(placed.number, 1);
        assert_eq!(user_data(&path, placed.start), "hello");
    }

    #[test]
    fn a_ready_image_into_a_partition_of_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = disk(
            folder.path(),
            &["-n", "1:2048:+16M", "-n", "2:0:+8M", "-c", "2:CONFIG-2"],
        );
        let disk = BlockFile::open(&path, Access::Exclusive).unwrap();
        let content = vec![0xa5; 3 << 20];
        let image = Image::new(content.clone());
        let placed = place(&disk, Content::Image(&image), Uuid::nil()).unwrap();
        assert_eq!((placed.number, placed.reused), (2, true));
        assert!(disk.read_some(placed.start, 3 << 20).unwrap() == content);
        assert!(
            disk.read_some(placed.start + 3 * MIB, 1 << 20)
                .unwrap()
                .iter()
                .all(|b| *b == 0)
        );

        let large = Image::new(vec![0xa5; 9 << 20]);
        let error = place(&disk, Content::Image(&large), Uuid::nil()).unwrap_err();
        assert!(matches!(error, PlaceError::TooSmall { number: 2, .. }));
        place(&disk, Content::Files(&files()), Uuid::nil()).unwrap();
        assert_eq!(user_data(&path, placed.start), "hello");
    }

    #[test]
    fn refusals() {
        let folder = tempfile::tempdir().unwrap();
        let two = [
            "-n",
            "1:2048:+40M",
            "-c",
            "1:config-2",
            "-n",
            "2:0:+8M",
            "-c",
            "2:config-2",
        ];
        let path = disk(folder.path(), &two);
        let file = BlockFile::open(&path, Access::Exclusive).unwrap();
        let error = place(&file, Content::Files(&files()), Uuid::nil()).unwrap_err();
        assert!(matches!(error, PlaceError::Ambiguous { count: 2, .. }));

        let empty = folder.path().join("empty");
        File::create(&empty).unwrap().set_len(128 * MIB).unwrap();
        let file = BlockFile::open(&empty, Access::Exclusive).unwrap();
        let error = place(&file, Content::Files(&files()), Uuid::nil()).unwrap_err();
        assert!(matches!(error, PlaceError::NoTable(_)));
    }
}
