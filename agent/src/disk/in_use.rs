//! What keeps a disk from being a target: mounts, swap, devices on top.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::disk::sysfs;

/// Everything on this machine that is in use, by kernel name and by number.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    by_number: HashMap<String, String>,
    by_name: HashMap<String, String>,
}

impl Uses {
    /// Reads mounts, swap and loop devices.
    pub(crate) fn read(proc: &Path, sys: &Path) -> Self {
        let mut uses = Self::default();
        uses.read_mounts(&sysfs::listing(&proc.join("self/mountinfo")));
        uses.read_swaps(&sysfs::listing(&proc.join("swaps")));
        uses.read_loops(sys);
        uses
    }

    /// proc_pid_mountinfo(5): the third field is the device's number, the
    /// one after the type is the source. btrfs shows a number of its own, so
    /// both are looked at.
    fn read_mounts(&mut self, mountinfo: &str) {
        for line in mountinfo.lines() {
            let mut fields = line.split(' ');
            let number = fields.nth(2);
            let point = fields.nth(1).map(unescape);
            let source = line
                .split_once(" - ")
                .and_then(|(_, tail)| tail.split(' ').nth(1));
            let (Some(number), Some(point)) = (number, point) else {
                continue;
            };
            let reason = format!("mounted at {point}");
            if let Some(name) = source.map(unescape).and_then(|source| device_name(&source)) {
                self.by_name.entry(name).or_insert_with(|| reason.clone());
            }
            self.by_number.entry(number.to_owned()).or_insert(reason);
        }
    }

    fn read_swaps(&mut self, swaps: &str) {
        for line in swaps.lines().skip(1) {
            let source = line.split_whitespace().next().map(unescape);
            if let Some(name) = source.and_then(|source| device_name(&source)) {
                self.by_name
                    .entry(name)
                    .or_insert_with(|| "swap".to_owned());
            }
        }
    }

    fn read_loops(&mut self, sys: &Path) {
        for name in sysfs::names(&sys.join("block")) {
            let backing = sys.join("block").join(&name).join("loop/backing_file");
            if let Some(below) = sysfs::text(&backing).and_then(|path| device_name(&path)) {
                self.by_name
                    .entry(below)
                    .or_insert_with(|| format!("backs {name}"));
            }
        }
    }

    /// What people use of the device with this sysfs directory: a mount, swap,
    /// a loop device; not what stands on it.
    pub(crate) fn mounted(&self, name: &str, directory: &Path) -> Option<String> {
        if let Some(reason) = self.by_name.get(name) {
            return Some(reason.clone());
        }
        let number = sysfs::text(&directory.join("dev"))?;
        self.by_number.get(&number).cloned()
    }

    /// Why the device with this sysfs directory is in use, if it is.
    pub(crate) fn reason(&self, name: &str, directory: &Path) -> Option<String> {
        if let Some(reason) = self.mounted(name, directory) {
            return Some(reason);
        }
        let holder = sysfs::names(&directory.join("holders"))
            .into_iter()
            .next()?;
        Some(format!("held by {holder}"))
    }
}

/// Kernel name of a device node, links followed.
fn device_name(source: &str) -> Option<String> {
    if !source.starts_with("/dev/") {
        return None;
    }
    let path = fs::canonicalize(source).unwrap_or_else(|_| source.into());
    Some(path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!"))
}

/// Undoes the octal escapes of mountinfo: `\040` is a blank.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::Uses;
    use super::unescape;
    use std::fs;

    #[test]
    fn mounts_swap_and_holders() {
        let root = tempfile::tempdir().unwrap();
        let (sys, proc) = (root.path().join("sys"), root.path().join("proc"));
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::write(
            proc.join("self/mountinfo"),
            "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/nosuch-sda2 rw\n\
             40 22 0:45 /@ /srv/my\\040data rw - btrfs /dev/nosuch-vdz rw\n\
             41 22 0:5 / /proc rw - proc proc rw\n",
        )
        .unwrap();
        fs::write(
            proc.join("swaps"),
            "Filename\tType\tSize\tUsed\tPriority\n/dev/nosuch-swap partition 1 0 -2\n",
        )
        .unwrap();
        let held = sys.join("block/sdz");
        fs::create_dir_all(held.join("holders/dm-3")).unwrap();
        let partition = sys.join("block/sda/sda2");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("dev"), "8:2\n").unwrap();

        let uses = Uses::read(&proc, &sys);
        assert_eq!(
            uses.reason("sda2", &partition).as_deref(),
            Some("mounted at /")
        );
        assert_eq!(
            uses.reason("nosuch-vdz", &sys.join("block/none"))
                .as_deref(),
            Some("mounted at /srv/my data")
        );
        assert_eq!(uses.reason("nosuch-swap", &sys).as_deref(), Some("swap"));
        assert_eq!(uses.reason("sdz", &held).as_deref(), Some("held by dm-3"));
        assert_eq!(uses.reason("sdy", &sys.join("block/sdy")), None);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\040b\\"), "a b\\");
        assert_eq!(unescape("\\x"), "\\x");
    }
}
