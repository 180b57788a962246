//! `cargo xtask setup`: installs what is missing for building, testing and
//! the demo, and says each thing it does. Run again, it finds nothing to do.

mod apt;
pub(crate) mod fuzz;
pub(crate) mod ironic;
mod python;
pub(crate) mod real_agent;
mod rust;
mod schemathesis;

use anyhow::Result;

use crate::command::EX_UNAVAILABLE;
use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::is_root;

/// For building ramdisk and images, and for virtual machines.
const PACKAGES: &[&str] = &[
    "gcc",
    "libc6-dev",
    "qemu-system-x86",
    "qemu-utils",
    "ovmf",
    "ipxe",
    "dnsmasq-base",
    "iproute2",
    "mtools",
    "dosfstools",
    "gdisk",
    "mmdebstrap",
    "openipmi",
    "e2fsprogs",
    "curl",
    "zstd",
    "xz-utils",
    "python3-venv",
    // Makers of what the agent must see on disks and in tables, and judges of
    // what it says: tests without them skip.
    "bcache-tools",
    "btrfs-progs",
    "cryptsetup-bin",
    "dmidecode",
    "exfatprogs",
    "f2fs-tools",
    "jfsutils",
    "ntfs-3g",
    "reiserfsprogs",
    "udftools",
    "xfsprogs",
];

/// For the comparisons that only `--all` runs.
const PACKAGES_ALL: &[&str] = &[
    "g++",
    "qemu-system-arm",
    "qemu-efi-aarch64",
    "openssh-client",
    "xorriso",
    "libvirt-daemon",
    "libvirt-daemon-driver-qemu",
    "libvirt-dev",
    "postgresql",
    "python3-dev",
    "pkg-config",
];

/// The client that operators use.
const PYTHON: &[&str] = &["python-openstackclient", "python-ironicclient"];

/// Peers for side-by-side tests. The binding must be of the version of the
/// distribution's libvirt.
const PYTHON_ALL: &[&str] = &["sushy-tools", "libvirt-python==9.0.0"];

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let all = match args {
        [] => false,
        [flag] if flag == "--all" => true,
        _ => return Err(Exit::new(EX_USAGE, "usage: cargo xtask setup [--all]").into()),
    };
    let rust = rust::plan();
    let mut packages = PACKAGES.to_vec();
    let mut python = PYTHON.to_vec();
    packages.extend(rust.packages());
    python.extend(rust.python());
    if all {
        packages.extend(PACKAGES_ALL);
        python.extend(PYTHON_ALL);
        let cross = rust::cross();
        packages.extend(cross.packages());
        python.extend(cross.python());
    }
    let missing = apt::missing(&packages)?;
    if !missing.is_empty() {
        if !apt::is_debian() || !is_root() {
            return Err(Exit::new(EX_UNAVAILABLE, needed(&missing, &python)).into());
        }
        if missing.contains(&"postgresql") {
            apt::without_cluster()?;
        }
        apt::install(&missing)?;
    }
    python::install(&python)?;
    rust.check()?;
    if all {
        fuzz::install()?;
        ironic::install();
        schemathesis::install()?;
    }
    println!("everything is set up");
    Ok(())
}

/// What a person has to do where this program cannot.
fn needed(packages: &[&str], python: &[&str]) -> String {
    format!(
        "this needs Debian or a relative of it, and root; by hand:\n  \
         sudo apt-get install --no-install-recommends {}\n  \
         python3 -m venv target/tools/venv && target/tools/venv/bin/pip install {}\n\
         (on another system: the same programs by its own names), then run it again",
        packages.join(" "),
        python.join(" ")
    )
}
