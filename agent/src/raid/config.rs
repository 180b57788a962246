//! `target_raid_config`, read and checked.

use serde_json::Map;
use serde_json::Value;

use super::RaidError;
use crate::disk::hints::Hints;
use crate::disk::hints::parse;

/// Volumes that software RAID can have.
const MOST: usize = 2;

/// A RAID level, under Ironic's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Raid0,
    Raid1,
    Raid5,
    Raid6,
    Raid10,
}

impl Level {
    fn named(name: &str) -> Option<Self> {
        match name {
            "0" => Some(Self::Raid0),
            "1" => Some(Self::Raid1),
            "5" => Some(Self::Raid5),
            "6" => Some(Self::Raid6),
            "1+0" => Some(Self::Raid10),
            _ => None,
        }
    }

    /// As mdadm knows it.
    pub(crate) fn mdadm(self) -> &'static str {
        match self {
            Self::Raid0 => "0",
            Self::Raid1 => "1",
            Self::Raid5 => "5",
            Self::Raid6 => "6",
            Self::Raid10 => "10",
        }
    }

    /// Disks that it needs.
    pub(crate) fn least(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 | Self::Raid10 => 2,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }

    /// What each of `disks` disks must give to a volume of `total` bytes.
    pub(crate) fn share(self, total: u64, disks: usize) -> u64 {
        let disks = disks as u64;
        match self {
            Self::Raid0 => total.div_ceil(disks.max(1)),
            Self::Raid1 => total,
            Self::Raid5 => total.div_ceil(disks.saturating_sub(1).max(1)),
            Self::Raid6 => total.div_ceil(disks.saturating_sub(2).max(1)),
            Self::Raid10 => total.saturating_mul(2).div_ceil(disks.max(1)),
        }
    }
}

/// One volume.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Volume {
    /// Its level.
    pub(crate) level: Level,
    /// Its size in GiB; none for all that is left.
    pub(crate) gib: Option<u64>,
    /// Its name, when it was given one.
    pub(crate) name: Option<String>,
    /// Whether the operating system goes there.
    pub(crate) root: bool,
    /// Which disks it is made of; all of them when empty.
    pub(crate) disks: Vec<Hints>,
}

impl Volume {
    /// Reads and checks the volumes; all that is wrong is told at once.
    pub(crate) fn list(config: &Map<String, Value>) -> Result<Vec<Self>, RaidError> {
        let Some(Value::Array(disks)) = config.get("logical_disks") else {
            return Err(RaidError::Config(vec![
                "expected a list logical_disks".to_owned(),
            ]));
        };
        let mut problems = Vec::new();
        if disks.is_empty() || disks.len() > MOST {
            problems.push(format!(
                "software RAID has one or two volumes, found {}",
                disks.len()
            ));
        }
        let mut volumes = Vec::new();
        for (index, disk) in disks.iter().enumerate() {
            match Self::one(disk) {
                Ok(volume) => volumes.push(volume),
                Err(found) => {
                    problems.extend(
                        found
                            .into_iter()
                            .map(|p| format!("logical disk {index}: {p}")),
                    );
                }
            }
        }
        if volumes.len() == disks.len() {
            problems.extend(together(&volumes));
        }
        if problems.is_empty() {
            return Ok(volumes);
        }
        Err(RaidError::Config(problems))
    }

    fn one(disk: &Value) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let given = |key: &str| disk.get(key).filter(|value| !value.is_null());
        if given("controller").and_then(Value::as_str) != Some("software") {
            let found = given("controller").cloned().unwrap_or_default();
            problems.push(format!(
                "expected controller software, as for all logical disks, found {found}"
            ));
        }
        let level = given("raid_level").and_then(Value::as_str);
        let level = level.and_then(Level::named);
        if level.is_none() {
            let found = given("raid_level").cloned().unwrap_or_default();
            problems.push(format!(
                "expected raid_level 0, 1, 5, 6 or 1+0, found {found}"
            ));
        }
        let size = given("size_gb").cloned().unwrap_or_default();
        let gib = match &size {
            Value::String(text) if text == "MAX" => Some(None),
            Value::String(text) => text.parse::<u64>().ok().map(Some),
            number => number.as_u64().map(Some),
        };
        let gib = gib.filter(|gib| *gib != Some(0) && gib.is_none_or(|gib| gib < 1 << 30));
        if gib.is_none() {
            problems.push(format!(
                "expected size_gb as a whole number of GiB or MAX, found {size}"
            ));
        }
        let name = given("volume_name").map(|name| match name.as_str() {
            Some(name) if is_volume_name(name) => Ok(name.to_owned()),
            _ => Err(format!(
                "expected volume_name of 1 to 32 letters, digits, -, _ and ., found {name}"
            )),
        });
        let name = name.transpose().unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let hints = match given("physical_disks") {
            None => Vec::new(),
            Some(list) => hints(list).unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            }),
        };
        match (level, gib) {
            (Some(level), Some(gib)) if problems.is_empty() => Ok(Self {
                level,
                gib,
                name,
                root: given("is_root_volume") == Some(&Value::Bool(true)),
                disks: hints,
            }),
            _ => Err(problems),
        }
    }
}

/// mdadm's superblock has 32 bytes for it.
fn is_volume_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 32 && !name.starts_with(['-', '.']) && name.chars().all(fits)
}

fn hints(list: &Value) -> Result<Vec<Hints>, String> {
    let list = list.as_array().filter(|list| list.len() >= 2);
    let list = list.ok_or("expected physical_disks as a list of at least two hints of disks")?;
    list.iter()
        .map(|hints| match parse(hints) {
            Ok(hints) if hints.0.is_empty() => Err("physical_disks: an empty hint".to_owned()),
            Ok(hints) => Ok(hints),
            Err(error) => Err(format!("physical_disks: {error}")),
        })
        .collect()
}

/// What volumes must be to each other.
fn together(volumes: &[Volume]) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(first) = volumes.first()
        && first.level != Level::Raid1
    {
        problems.push("the first logical disk must have raid_level 1".to_owned());
    }
    if volumes.iter().filter(|volume| volume.gib.is_none()).count() > 1 {
        problems.push("only one logical disk can have size_gb MAX".to_owned());
    }
    if volumes.iter().filter(|volume| volume.root).count() > 1 {
        problems.push("only one logical disk can be the root volume".to_owned());
    }
    for (index, volume) in volumes.iter().enumerate() {
        let same = |other: &Volume| other.name.is_some() && other.name == volume.name;
        if volumes[..index].iter().any(same) {
            problems.push("two logical disks have the same volume_name".to_owned());
        }
    }
    problems
}
