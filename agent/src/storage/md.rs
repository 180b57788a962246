//! md arrays: as the kernel has them, and as the superblocks of their members
//! tell of them.

use std::path::Path;
use std::path::PathBuf;

use uuid::Uuid;

use super::Tree;
use crate::disk::Access;
use crate::disk::BlockFile;
use crate::disk::probe::Region;
use crate::disk::sysfs;

/// `MD_SB_MAGIC` of `linux/raid/md_p.h`.
const MAGIC: u32 = 0xa92b_4efc;
/// Bytes of a version 1 superblock that are looked at.
const SUPERBLOCK: usize = 256;

/// What a member's superblock says of its array. Versions 1.0, 1.1 and 1.2
/// (`struct mdp_superblock_1` of `linux/raid/md_p.h`); 0.90 has no name and is
/// not told apart from nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The array's identity.
    pub(crate) array: Uuid,
    /// The array's name, without the host that it was made on.
    pub(crate) name: String,
    /// How many members the array has when it is whole.
    pub(crate) raid_disks: u32,
    /// Whether this member belongs to the whole array, spares not counted.
    pub(crate) active: bool,
}

impl Member {
    /// Looks for a superblock in a part of a disk.
    pub(crate) fn find(region: &Region<'_>) -> Option<Self> {
        let end = (region.length / 512)
            .checked_sub(16)
            .map(|sectors| (sectors & !7) * 512);
        [Some(0), Some(4096), end]
            .into_iter()
            .flatten()
            .find_map(|offset| {
                let bytes = region.read(offset, SUPERBLOCK).ok()??;
                Self::parse(&bytes)
            })
    }

    /// Reads a superblock.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        // magic at 0, major_version at 4.
        if number(0)? != MAGIC || number(4)? != 1 {
            return None;
        }
        // set_uuid at 16, set_name at 32, raid_disks at 92, dev_number at 160,
        // max_dev at 220; the roles follow at 256.
        let array = Uuid::from_bytes(*bytes.get(16..)?.first_chunk()?);
        let name = sysfs::clean(bytes.get(32..64)?.split(|byte| *byte == 0).next()?);
        let name = name.unwrap_or_default();
        let name = name.rsplit(':').next().unwrap_or_default().to_owned();
        let raid_disks = number(92)?;
        Some(Self {
            array,
            name,
            raid_disks,
            active: number(160)? < raid_disks,
        })
    }

    /// Looks at a device by itself.
    pub(crate) fn of_device(path: &Path) -> Option<Self> {
        let file = BlockFile::open(path, Access::Read).ok()?;
        Self::find(&Region::whole(&file))
    }
}

/// An md array that the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    /// Kernel name, such as `md0`.
    pub(crate) device: String,
    /// Node.
    pub(crate) path: PathBuf,
    /// Kernel names of its members.
    pub(crate) members: Vec<String>,
    /// `raid1`…; absent while it does not run.
    pub(crate) level: Option<String>,
    /// What its superblocks say.
    pub(crate) superblock: Option<Member>,
}

impl Array {
    pub(super) fn read(tree: &Tree, name: &str, directory: &Path) -> Self {
        let mut members = tree.below(name);
        // Of an array that does not run.
        for entry in sysfs::names(directory) {
            if let Some(member) = entry.strip_prefix("dev-")
                && !members.iter().any(|known| known == member)
            {
                members.push(member.to_owned());
            }
        }
        let superblock = members
            .iter()
            .find_map(|member| Member::of_device(&tree.node(member)));
        Self {
            device: name.to_owned(),
            path: tree.node(name),
            level: sysfs::text(&directory.join("level")),
            members,
            superblock,
        }
    }

    /// The name that its superblocks give it.
    pub(crate) fn name(&self) -> Option<&str> {
        let superblock = self.superblock.as_ref()?;
        (!superblock.name.is_empty()).then_some(superblock.name.as_str())
    }

    /// Whether its name or its device is among these.
    pub(crate) fn is_named(&self, names: &[String]) -> bool {
        names.iter().any(|name| {
            Some(name.as_str()) == self.name() || name.trim_start_matches("/dev/") == self.device
        })
    }
}
