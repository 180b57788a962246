//! NICs of Intel's 700 series (driver `i40e`) have an LLDP agent in their
//! firmware that keeps the frames of the switch to itself. The driver stops it
//! when it is told to, in debugfs.

use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::mount::mount;
use tracing::info;
use tracing::warn;

use crate::net::nic::Nic;

const DRIVER: &str = "i40e";
const COMMAND: &[u8] = b"lldp stop";

/// Stops the agent of each of these NICs that has one, until the NIC is reset;
/// for the ramdisk, where nobody else uses it. One that goes on is told in the
/// log: its switch is not heard.
pub(super) fn stop_lldp_agents(nics: &[Nic]) {
    let sys = Path::new("/sys");
    let found: Vec<(&str, String)> = with_agents(sys, nics);
    let Some((first, _)) = found.first() else {
        return;
    };
    if let Err(error) = mount_debugfs() {
        warn!("lldp: {first}: debugfs cannot be mounted to stop its firmware's agent: {error}");
        return;
    }
    for (name, address) in found {
        match stop(sys, &address) {
            Ok(()) => info!("lldp: the agent in the firmware of {name} is stopped"),
            Err(error) => {
                warn!("lldp: the agent in the firmware of {name} cannot be stopped: {error}");
            }
        }
    }
}

/// Names and PCI addresses of those that have the driver.
fn with_agents<'a>(sys: &Path, nics: &'a [Nic]) -> Vec<(&'a str, String)> {
    let last = |path: &Path| -> Option<String> {
        let target = fs::canonicalize(path).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    };
    nics.iter()
        .filter_map(|nic| {
            let device = sys.join("class/net").join(&nic.name).join("device");
            let driver = last(&device.join("driver"))?;
            (driver == DRIVER).then_some((nic.name.as_str(), last(&device)?))
        })
        .collect()
}

fn mount_debugfs() -> Result<(), Errno> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    let kind = Some("debugfs");
    match mount(kind, "/sys/kernel/debug", kind, flags, None::<&str>) {
        Ok(()) | Err(Errno::EBUSY) => Ok(()),
        Err(error) => Err(error),
    }
}

fn stop(sys: &Path, address: &str) -> io::Result<()> {
    let folder = sys.join("kernel/debug").join(DRIVER).join(address);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(folder.join("command"))?;
    file.write_all(COMMAND)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::stop;
    use super::with_agents;
    use crate::net::mac::Mac;
    use crate::net::nic::Nic;

    #[test]
    fn only_nics_of_that_driver_are_told_to_stop() {
        let sys = tempfile::tempdir().unwrap();
        let path = |text: &str| sys.path().join(text);
        let mut nics = Vec::new();
        for (name, address, driver) in [
            ("eth0", "0000:3d:00.0", "i40e"),
            ("eth1", "0000:3d:00.1", "i40e"),
            ("eth2", "0000:02:00.0", "igb"),
        ] {
            let device = path("devices").join(address);
            fs::create_dir_all(&device).unwrap();
            fs::create_dir_all(path("drivers").join(driver)).unwrap();
            symlink(path("drivers").join(driver), device.join("driver")).unwrap();
            fs::create_dir_all(path("class/net").join(name)).unwrap();
            symlink(&device, path("class/net").join(name).join("device")).unwrap();
            let folder = path("kernel/debug").join(driver).join(address);
            // The second one's driver is one that has no such file.
            if name != "eth1" {
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("command"), "").unwrap();
            }
            nics.push(Nic {
                name: name.to_owned(),
                index: 1,
                mac: Mac([2, 0, 0, 0, 0, 1]),
                permanent_mac: None,
                physical: true,
                stacked: false,
            });
        }
        let found = with_agents(sys.path(), &nics);
        let expected = [("eth0", "0000:3d:00.0"), ("eth1", "0000:3d:00.1")];
        assert!(found.iter().map(|(n, a)| (*n, a.as_str())).eq(expected));
        stop(sys.path(), "0000:3d:00.0").unwrap();
        let written = fs::read(path("kernel/debug/i40e/0000:3d:00.0/command")).unwrap();
        assert_eq!(written, b"lldp stop");
        assert!(stop(sys.path(), "0000:3d:00.1").is_err());
    }
}
