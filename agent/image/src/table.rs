//! The partition table of what was written: found, judged, fitted to the
//! disk, before its sectors are on the disk.

use wrought_formats::detect;
use wrought_formats::gpt;
use wrought_formats::gpt::Gpt;
use wrought_formats::gpt::Patch;
use wrought_formats::mbr::Mbr;
use wrought_formats::mbr::TYPE_ESP;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::layout::check_sector_size;
use crate::layout::no_table;
use crate::report::PartitionInfo;
use crate::report::TableKind;
use crate::report::TableReport;

/// A disk as far as its table is concerned.
pub(crate) struct Disk<'a> {
    /// The first bytes of the image: all of it, or 1 MiB.
    pub(crate) head: &'a [u8],
    /// Bytes of the disk.
    pub(crate) size: u64,
    /// Logical sector size; `None` for plain files, which take any.
    pub(crate) sector_size: Option<u32>,
    /// Reads bytes of the disk behind `head`.
    pub(crate) read: &'a dyn Fn(u64, usize) -> Result<Vec<u8>, Error>,
}

/// A judged table and the bytes that fit it to the disk.
pub(crate) struct Fitted {
    pub(crate) report: TableReport,
    pub(crate) patches: Vec<Patch>,
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::Format, Stage::Finish, text)
}

/// Finds and judges the table.
pub(crate) fn fit(disk: &Disk<'_>) -> Result<Fitted, Error> {
    let found = detect::detect(disk.head).ok().and_then(|found| found.table);
    match found {
        Some(detect::Table::Gpt { sector_size }) => {
            check_sector_size(sector_size, disk.sector_size)?;
            fit_gpt(disk, sector_size)
        }
        Some(detect::Table::Mbr) => fit_mbr(disk),
        None => Err(no_table(detect::filesystem(disk.head))),
    }
}

fn fit_gpt(disk: &Disk<'_>, sector_size: u32) -> Result<Fitted, Error> {
    let damaged =
        |error: gpt::Error| refuse("the image's GPT cannot be used".to_owned()).caused_by(error);
    let sector = u64::from(sector_size);
    let header =
        gpt::Header::parse(&slice(disk, sector, sector_size as usize)?, 1).map_err(damaged)?;
    // At most 1 MiB.
    let len = header.entries_bytes() as usize;
    let entries = slice(disk, header.entries_lba * sector, len)?;
    let mut gpt = Gpt::parse(header, &entries, sector_size).map_err(damaged)?;
    let moved = gpt.relocate(disk.size / sector).map_err(damaged)?;
    let partitions: Vec<PartitionInfo> = gpt
        .partitions()
        .into_iter()
        .map(|partition| PartitionInfo {
            number: partition.number,
            start: partition.first_lba * sector,
            size: (partition.last_lba - partition.first_lba + 1) * sector,
            type_id: partition.kind.to_string(),
            partuuid: partition.guid.to_string(),
            is_esp: partition.kind == gpt::TYPE_ESP,
            name: partition.name,
        })
        .collect();
    if partitions.is_empty() {
        return Err(refuse(
            "the image's GPT lists no partition; a whole-disk image with an operating system is \
             needed"
                .to_owned(),
        ));
    }
    let mbr = Mbr::parse(disk.head).ok();
    let patches = if moved {
        gpt.encode(mbr.as_ref())
    } else {
        Vec::new()
    };
    let report = TableReport {
        kind: TableKind::Gpt,
        disk_id: gpt.header().disk_guid.to_string(),
        partitions,
        backup_moved: moved,
    };
    Ok(Fitted { report, patches })
}

fn fit_mbr(disk: &Disk<'_>) -> Result<Fitted, Error> {
    let mbr = Mbr::parse(disk.head)
        .map_err(|error| refuse("the image's MBR cannot be used".to_owned()).caused_by(error))?;
    if mbr.is_protective() {
        return Err(refuse(
            "the image has a protective MBR but no GPT header behind it: its GPT is damaged"
                .to_owned(),
        ));
    }
    let sector = u64::from(disk.sector_size.unwrap_or(512));
    let signature = mbr.signature();
    let mut partitions = Vec::new();
    for partition in mbr.partitions() {
        let start = u64::from(partition.start) * sector;
        let size = u64::from(partition.sectors) * sector;
        if start + size > disk.size {
            return Err(refuse(format!(
                "partition {} of the image's MBR ends at byte {} but the disk has {} bytes (sectors \
                 of {sector} bytes)",
                partition.number,
                start + size,
                disk.size
            )));
        }
        partitions.push(PartitionInfo {
            number: partition.number,
            start,
            size,
            type_id: format!("{:#04x}", partition.kind),
            partuuid: format!("{signature:08x}-{:02x}", partition.number),
            name: String::new(),
            is_esp: partition.kind == TYPE_ESP,
        });
    }
    let report = TableReport {
        kind: TableKind::Mbr,
        disk_id: format!("{signature:#010x}"),
        partitions,
        backup_moved: false,
    };
    Ok(Fitted {
        report,
        patches: Vec::new(),
    })
}

/// Bytes of the disk, from the head as far as they lie in it.
fn slice(disk: &Disk<'_>, at: u64, len: usize) -> Result<Vec<u8>, Error> {
    let held = usize::try_from(at)
        .ok()
        .and_then(|start| Some(start..start.checked_add(len)?))
        .and_then(|range| disk.head.get(range));
    match held {
        Some(bytes) => Ok(bytes.to_vec()),
        None if at.saturating_add(len as u64) <= disk.size => (disk.read)(at, len),
        None => Err(refuse(format!(
            "the image's GPT names bytes {at} to {} but the disk has {} bytes",
            at.saturating_add(len as u64),
            disk.size
        ))),
    }
}
