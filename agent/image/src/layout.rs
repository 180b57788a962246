//! Whether an image is what the target takes: a whole disk with a table for
//! its sector size, or what fills one partition.

use std::cell::Cell;

use wrought_formats::detect;
use wrought_formats::detect::Table;
use wrought_formats::mbr::Mbr;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::table;
use crate::table::Disk;
use crate::target::Target;
use crate::target::TargetKind;

/// Judges the image that starts with `head` and covers `bytes` of the disk,
/// where that is known.
pub(crate) fn check(target: &Target, head: &[u8], bytes: Option<u64>) -> Result<(), Error> {
    let table = detect::detect(head).ok().and_then(|found| found.table);
    if target.is_partition() {
        return table.map_or(Ok(()), |table| Err(whole_disk(table, target)));
    }
    let sector_size = (target.kind() == TargetKind::Block).then(|| target.sector_size());
    match table {
        None => Err(no_table(detect::filesystem(head))),
        Some(Table::Gpt { sector_size: image }) => check_sector_size(image, sector_size),
        Some(Table::Mbr) if made_for_512(head, bytes) => check_sector_size(512, sector_size),
        Some(Table::Mbr) => Ok(()),
    }
}

/// Judges the whole table of a raw image, as far as it lies in `head`, before
/// anything is written; what lies behind is judged before the ends are.
pub(crate) fn check_table(target: &Target, head: &[u8], bytes: Option<u64>) -> Result<(), Error> {
    if target.is_partition() {
        return Ok(());
    }
    let far = Cell::new(false);
    let fitted = table::fit(&Disk {
        head,
        // An image whose length is not known is compared with the disk as it
        // comes; a new file gets the image's size.
        size: bytes.map_or(u64::MAX >> 1, |bytes| bytes.max(target.size())),
        sector_size: (target.kind() == TargetKind::Block).then(|| target.sector_size()),
        read: &|_, _| {
            far.set(true);
            Err(refuse("the table lies far from the start".to_owned()))
        },
    });
    match fitted {
        Err(error) if !far.get() => Err(error.in_stage(Stage::Check)),
        _ => Ok(()),
    }
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::Format, Stage::Check, text)
}

/// Why a disk with a table is not put into a partition.
fn whole_disk(table: Table, target: &Target) -> Error {
    let name = match table {
        Table::Gpt { .. } => "a GPT",
        Table::Mbr => "an MBR",
    };
    refuse(format!(
        "the image is a whole disk with {name} but {} is one partition; name the disk itself as the \
         target, or give an image of a single filesystem",
        target.path().display()
    ))
}

/// Why an image without a table is not put on a whole disk.
pub(crate) fn no_table(filesystem: Option<&str>) -> Error {
    let text = match filesystem {
        Some(name) => format!(
            "the image has no partition table: it is {name} from its first byte; a disk needs a \
             whole-disk image with a partition table and a boot loader (an image like this one is \
             written into a partition)"
        ),
        None => {
            "the image has no partition table: neither a GPT nor an MBR was found in its first \
                 sectors; a whole-disk image is needed, with a partition table and a boot loader"
                .to_owned()
        }
    };
    refuse(text)
}

/// Why a table made for another sector size is refused.
pub(crate) fn check_sector_size(image: u32, disk: Option<u32>) -> Result<(), Error> {
    match disk {
        Some(disk) if disk != image => Err(refuse(format!(
            "the image's partition table is made for sectors of {image} bytes but the disk has \
             sectors of {disk} bytes; an image made for {disk}-byte sectors is needed"
        ))),
        _ => Ok(()),
    }
}

/// An MBR does not say for which sectors it is made; but its partitions lie
/// in the image, and with sectors of 4096 bytes they would not.
fn made_for_512(head: &[u8], bytes: Option<u64>) -> bool {
    let (Ok(mbr), Some(bytes)) = (Mbr::parse(head), bytes) else {
        return false;
    };
    let last = mbr
        .partitions()
        .map(|partition| u64::from(partition.start) + u64::from(partition.sectors))
        .max();
    last.is_some_and(|sectors| sectors * 4096 > bytes && sectors * 512 <= bytes)
}
