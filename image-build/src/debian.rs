//! The Debian image: Debian 12 with systemd, OpenSSH, and a service that
//! reads the config drive.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use uuid::Uuid;

use crate::command::run;
use crate::disk;
use crate::disk::Plan;
use crate::disk::Root;
use crate::grub::Config;
use crate::parts::Parts;
use crate::parts::kernel_version;
use crate::sources;

const SUITE: &str = "bookworm";
const ESP_MIB: u64 = 16;
const MIB: u64 = 1 << 20;

/// What the image has beyond the distribution's essential packages.
pub(crate) const PACKAGES: &[&str] = &[
    "dbus",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "less",
    "linux-image-amd64",
    "openssh-server",
    "systemd-sysv",
    "udev",
    "zstd",
];

/// Left out of packages: what a server's disk can do without, so that the
/// image is quick to write.
pub(crate) const LEFT_OUT: &[&str] = &[
    "/lib/modules/*/kernel/drivers/bluetooth/*",
    "/lib/modules/*/kernel/drivers/comedi/*",
    "/lib/modules/*/kernel/drivers/crypto/*",
    "/lib/modules/*/kernel/drivers/edac/*",
    "/lib/modules/*/kernel/drivers/gpu/*",
    "/lib/modules/*/kernel/drivers/hwmon/*",
    "/lib/modules/*/kernel/drivers/iio/*",
    "/lib/modules/*/kernel/drivers/infiniband/*",
    "/lib/modules/*/kernel/drivers/input/*",
    "/lib/modules/*/kernel/drivers/isdn/*",
    "/lib/modules/*/kernel/drivers/media/*",
    "/lib/modules/*/kernel/drivers/mtd/*",
    "/lib/modules/*/kernel/drivers/net/can/*",
    "/lib/modules/*/kernel/drivers/net/hamradio/*",
    "/lib/modules/*/kernel/drivers/net/wireless/*",
    "/lib/modules/*/kernel/drivers/net/wwan/*",
    "/lib/modules/*/kernel/drivers/platform/*",
    "/lib/modules/*/kernel/drivers/staging/*",
    "/lib/modules/*/kernel/drivers/target/*",
    "/lib/modules/*/kernel/drivers/usb/gadget/*",
    "/lib/modules/*/kernel/drivers/usb/misc/*",
    "/lib/modules/*/kernel/drivers/usb/serial/*",
    "/lib/modules/*/kernel/drivers/video/*",
    "/lib/modules/*/kernel/fs/ceph/*",
    "/lib/modules/*/kernel/fs/gfs2/*",
    "/lib/modules/*/kernel/fs/jfs/*",
    "/lib/modules/*/kernel/fs/ocfs2/*",
    "/lib/modules/*/kernel/fs/reiserfs/*",
    "/lib/modules/*/kernel/net/bluetooth/*",
    "/lib/modules/*/kernel/net/mac80211/*",
    "/lib/modules/*/kernel/net/wireless/*",
    "/lib/modules/*/kernel/sound/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
];

/// Our own files: path, mode, content.
pub(crate) const FILES: &[(&str, u32, &str)] = &[
    (
        "usr/local/sbin/config-drive",
        0o755,
        include_str!("../files/debian/config-drive"),
    ),
    (
        "etc/systemd/system/config-drive.service",
        0o644,
        include_str!("../files/debian/config-drive.service"),
    ),
    (
        "etc/systemd/system/ssh.service.d/host-key.conf",
        0o644,
        include_str!("../files/debian/ssh-host-key.conf"),
    ),
    (
        "etc/systemd/network/10-dhcp.network",
        0o644,
        include_str!("../files/debian/10-dhcp.network"),
    ),
    (
        "usr/share/initramfs-tools/modules.d/disks",
        0o644,
        include_str!("../files/debian/initramfs-modules"),
    ),
    (
        "etc/initramfs-tools/conf.d/disks",
        0o644,
        "MODULES=list\nCOMPRESS=zstd\n",
    ),
    ("etc/hostname", 0o644, "debian\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost\n::1 localhost\n"),
];

/// Services that are switched on and what asks for them.
const ENABLED: &[(&str, &str)] = &[
    (
        "multi-user.target.wants",
        "/etc/systemd/system/config-drive.service",
    ),
    (
        "multi-user.target.wants",
        "/lib/systemd/system/systemd-networkd.service",
    ),
];
/// Services that only cost time here, or wait for a person.
const MASKED: &[&str] = &[
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "systemd-firstboot.service",
    "systemd-networkd-wait-online.service",
];

/// Builds the raw image `path`. Needs root, because owners and permissions
/// of the system's files are real ones.
pub(crate) fn build(parts: &Parts, seed: [u8; 16], work: &Path, path: &Path) -> Result<()> {
    let uuid = disk::guid(seed, 0x80);
    let overlay = work.join("overlay");
    stage(&overlay, uuid)?;
    let tree = work.join("tree");
    bootstrap(&overlay, &tree, work)?;
    finish(&tree, uuid)?;
    let used = tree_bytes(&tree)?;
    let root = Root {
        tree: tree.clone(),
        mib: (used / MIB) * 115 / 100 + 64,
        uuid,
    };
    let plan = Plan {
        config: Config::FileSystem(uuid.to_string()),
        esp_files: Vec::new(),
        esp_mib: ESP_MIB,
        esp_id: u32::from_le_bytes([seed[0], seed[1], seed[2], seed[3]]),
        root: Some(root),
        seed,
    };
    disk::compose(&plan, parts, work, path)?;
    fs::remove_dir_all(&tree).with_context(|| format!("removing {}", tree.display()))
}

/// Puts our files into a folder from which they get into the tree before
/// packages are configured.
fn stage(overlay: &Path, root: Uuid) -> Result<()> {
    let fstab = format!("UUID={root} / ext4 errors=remount-ro 0 1\n");
    let files = FILES
        .iter()
        .copied()
        .chain([("etc/fstab", 0o644, fstab.as_str())]);
    for (path, mode, content) in files {
        let path = overlay.join(path);
        write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .with_context(|| path.display().to_string())?;
    }
    let units = overlay.join("etc/systemd/system");
    for (wants, unit) in ENABLED {
        let name = unit.rsplit('/').next().unwrap_or(unit);
        link(unit, &units.join(wants).join(name))?;
    }
    for unit in MASKED {
        link("/dev/null", &units.join(unit))?;
    }
    Ok(())
}

fn bootstrap(overlay: &Path, tree: &Path, work: &Path) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=minbase", "--format=directory"]);
    command.arg(format!("--include={}", PACKAGES.join(",")));
    for path in LEFT_OUT {
        command.arg(format!("--dpkgopt=path-exclude={path}"));
    }
    command.arg("--dpkgopt=path-include=/usr/share/doc/*/copyright");
    command.arg(format!(
        "--essential-hook=copy-in {etc} {usr} /",
        etc = overlay.join("etc").display(),
        usr = overlay.join("usr").display()
    ));
    command.arg(SUITE).arg(tree);
    let lines = sources::for_release(SUITE, Path::new("/etc/apt"));
    if !lines.is_empty() {
        let list = work.join("sources.list");
        write(&list, &(lines.join("\n") + "\n"))?;
        command.arg(list);
    }
    run(&mut command).map(drop)
}

/// What must differ from machine to machine goes out of the tree, and GRUB
/// learns the kernel's name.
fn finish(tree: &Path, root: Uuid) -> Result<()> {
    let version = kernel_version(&tree.join("boot")).context("the tree has no kernel")?;
    let initrd = tree.join(format!("boot/initrd.img-{version}"));
    ensure!(initrd.is_file(), "the tree has no {}", initrd.display());
    write(&tree.join("etc/machine-id"), "")?;
    for path in ["etc/resolv.conf", "var/lib/dbus/machine-id"] {
        let _ = fs::remove_file(tree.join(path));
    }
    let ssh = tree.join("etc/ssh");
    for entry in fs::read_dir(&ssh)
        .with_context(|| format!("reading {}", ssh.display()))?
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            fs::remove_file(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    write(
        &tree.join("boot/grub/grub.cfg"),
        &format!(
            "set timeout=0\n\
             search.fs_uuid {root} root\n\
             linux /boot/vmlinuz-{version} root=UUID={root} ro console=tty0 console=ttyS0,115200 quiet no_timer_check\n\
             initrd /boot/initrd.img-{version}\n\
             boot\n"
        ),
    )
}

fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

fn link(target: &str, path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    symlink(target, path).with_context(|| format!("linking {}", path.display()))
}

/// Bytes that a folder takes on disk.
fn tree_bytes(tree: &Path) -> Result<u64> {
    let printed = run(Command::new("du")
        .args(["-s", "--block-size=1", "-x"])
        .arg(tree))?;
    let number = printed.split_whitespace().next().unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("du printed {printed:?}"))
}
