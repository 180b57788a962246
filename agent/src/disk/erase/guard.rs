//! Disks that other machines may be using at the same time: cluster file
//! systems on shared storage.

use uuid::Uuid;
use uuid::uuid;

use crate::disk::block::BlockFile;
use crate::disk::error::Error;
use crate::disk::probe::Region;
use crate::disk::table::PartitionKind;
use crate::disk::table::Table;

/// Partition types of cluster file systems.
const GUARDED_TYPES: [(Uuid, &str); 2] = [
    (
        uuid!("37affc90-ef7d-4e96-91c3-2d7ae055b174"),
        "an IBM GPFS partition",
    ),
    (
        uuid!("aa31e02a-400f-11db-9590-000c2911d1b8"),
        "a VMware VMFS partition",
    ),
];
/// MBR type of VMFS.
const VMFS: u8 = 0xfb;
/// Signatures of cluster file systems.
const GUARDED_KINDS: [&str; 3] = ["gfs2", "VMFS", "VMFS_volume_member"];

/// Fails when the disk or one of its partitions holds such a file system.
pub(super) fn check(
    disk: &BlockFile,
    table: Option<&Table>,
    regions: &[Region<'_>],
) -> Result<(), Error> {
    let guarded = |found: String| {
        Err(Error::Guarded {
            path: disk.path().to_owned(),
            found,
        })
    };
    for partition in table.iter().flat_map(|table| &table.partitions) {
        let what = match partition.kind {
            PartitionKind::Gpt(kind) => GUARDED_TYPES
                .iter()
                .find(|(guid, _)| *guid == kind)
                .map(|(_, what)| *what),
            PartitionKind::Mbr(kind) => (kind == VMFS).then_some("a VMware VMFS partition"),
        };
        if let Some(what) = what {
            return guarded(format!("{what} (number {})", partition.number));
        }
    }
    for region in regions {
        for signature in region.signatures()? {
            if GUARDED_KINDS.contains(&signature.kind) {
                return guarded(signature.to_string());
            }
        }
    }
    Ok(())
}
