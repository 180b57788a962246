//! The kernel's filesystems, and a few of its settings.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::mount::mount;
use tracing::warn;

struct Mount {
    kind: &'static str,
    target: &'static str,
    flags: MsFlags,
    options: &'static str,
}

const QUIET: MsFlags = MsFlags::MS_NOSUID
    .union(MsFlags::MS_NOEXEC)
    .union(MsFlags::MS_NODEV);
const MOUNTS: [Mount; 5] = [
    Mount {
        kind: "proc",
        target: "/proc",
        flags: QUIET,
        options: "",
    },
    Mount {
        kind: "sysfs",
        target: "/sys",
        flags: QUIET,
        options: "",
    },
    Mount {
        kind: "devtmpfs",
        target: "/dev",
        flags: MsFlags::MS_NOSUID,
        options: "mode=0755",
    },
    Mount {
        kind: "tmpfs",
        target: "/run",
        flags: QUIET,
        options: "mode=0755,size=16m",
    },
    Mount {
        kind: "tmpfs",
        target: "/tmp",
        flags: QUIET,
        options: "mode=1777,size=16m",
    },
];
const EFIVARS: Mount = Mount {
    kind: "efivarfs",
    target: "/sys/firmware/efi/efivars",
    flags: QUIET,
    options: "",
};

impl Mount {
    /// Mounts; says nothing when it is there already.
    fn mount(&self) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| {
            format!("cannot mount {} on {}: {error}", self.kind, self.target)
        };
        fs::create_dir_all(self.target).map_err(|error| text(&error))?;
        match mount(
            Some(self.kind),
            self.target,
            Some(self.kind),
            self.flags,
            Some(self.options),
        ) {
            Ok(()) | Err(Errno::EBUSY) => Ok(()),
            Err(error) => Err(text(&error)),
        }
    }
}

/// Mounts what everything else needs. Gives back what went wrong, since there
/// is no console yet to say it on.
pub(super) fn mount_first() -> Vec<String> {
    MOUNTS
        .iter()
        .filter_map(|mount| mount.mount().err())
        .collect()
}

/// Mounts the EFI variables on a machine that has them. The module for it must
/// be loaded.
pub(super) fn mount_efivars() {
    if Path::new("/sys/firmware/efi").exists()
        && let Err(error) = EFIVARS.mount()
    {
        warn!("init: {error}; boot entries cannot be written");
    }
}

/// Kernel settings: restart half a minute after a kernel panic, and call this
/// program when the kernel itself wants a module.
pub(super) fn kernel_settings() {
    for (path, value) in [
        ("/proc/sys/kernel/panic", "30"),
        ("/proc/sys/kernel/modprobe", "/init"),
    ] {
        if let Err(error) = fs::write(path, value) {
            warn!("init: {path} cannot be set: {error}");
        }
    }
    if let Err(error) = nix::unistd::sethostname("wrought") {
        warn!("init: the host name cannot be set: {error}");
    }
}
