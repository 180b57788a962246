//! DHCP and TFTP, as a machine that boots from the network expects them.

use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::child;
use crate::child::Daemon;
use crate::netns;
use crate::paths::system_file;

/// Network boot programs from the package `ipxe`, by client architecture.
const PROGRAMS: [&str; 2] = ["snponly.efi", "undionly.kpxe"];

/// Starts dnsmasq. Firmware gets an iPXE program by TFTP; iPXE gets the
/// address of `script`, if there is one.
pub fn start(dir: &Path, log: &Path, script: Option<&str>) -> Result<Daemon> {
    let tftp = dir.join("tftp");
    std::fs::create_dir_all(&tftp)?;
    for program in PROGRAMS {
        let from = system_file(&[&format!("/usr/lib/ipxe/{program}")], "ipxe")?;
        std::fs::copy(&from, tftp.join(program))
            .with_context(|| format!("copying {}", from.display()))?;
    }
    let config = dir.join("dnsmasq.conf");
    std::fs::write(&config, configuration(&tftp, &dir.join("leases"), script))?;
    let program = system_file(&["/usr/sbin/dnsmasq", "/usr/bin/dnsmasq"], "dnsmasq-base")?;
    let mut command = child::command(program);
    // Debug mode: in the foreground, and without a change of user, which a
    // user namespace with one user in it could not do.
    command
        .arg("--no-daemon")
        .arg(format!("--conf-file={}", config.display()));
    let daemon = Daemon::start("dnsmasq", command, log)?;
    if let Some(status) = daemon.status() {
        bail!("dnsmasq ended at once ({status}); see {}", log.display());
    }
    Ok(daemon)
}

/// The whole configuration; nothing is read from the host's.
fn configuration(tftp: &Path, leases: &Path, script: Option<&str>) -> String {
    let (first, last) = netns::DHCP_RANGE;
    let bridge = netns::BRIDGE;
    let [efi, bios] = PROGRAMS;
    let script = script
        .map(|url| format!("dhcp-boot=tag:ipxe,{url}\n"))
        .unwrap_or_default();
    format!(
        "port=0\n\
         no-hosts\n\
         no-resolv\n\
         interface={bridge}\n\
         bind-interfaces\n\
         log-dhcp\n\
         dhcp-authoritative\n\
         # An address is free if it has no lease; a ping would take seconds.\n\
         no-ping\n\
         dhcp-no-override\n\
         dhcp-range={first},{last},255.255.255.0,1h\n\
         dhcp-leasefile={leases}\n\
         # No router and no name server: nothing outside is reachable, and a\n\
         # guest learns that at once.\n\
         dhcp-option=3\n\
         dhcp-option=6\n\
         # iPXE says what it is by option 175.\n\
         dhcp-match=set:ipxe,175\n\
         # It need not wait for a proxy DHCP server (iPXE option 176).\n\
         dhcp-option=tag:ipxe,encap:175,176,1b\n\
         # RFC 4578: 7 and 9 are x86-64 UEFI.\n\
         dhcp-match=set:efi,option:client-arch,7\n\
         dhcp-match=set:efi,option:client-arch,9\n\
         {script}\
         dhcp-boot=tag:!ipxe,tag:efi,{efi}\n\
         dhcp-boot=tag:!ipxe,tag:!efi,{bios}\n\
         enable-tftp\n\
         tftp-root={tftp}\n",
        leases = leases.display(),
        tftp = tftp.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::configuration;
    use std::path::Path;

    #[test]
    fn dnsmasq_itself_accepts_the_configuration() {
        let Ok(program) = crate::paths::system_file(&["/usr/sbin/dnsmasq"], "dnsmasq") else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("conf");
        let text = configuration(
            dir.path(),
            Path::new("leases"),
            Some("http://10.77.0.1/boot.ipxe"),
        );
        std::fs::write(&config, text).unwrap();
        let tested = std::process::Command::new(program)
            .arg("--test")
            .arg(format!("--conf-file={}", config.display()))
            .output()
            .unwrap();
        assert!(
            tested.status.success(),
            "{}",
            String::from_utf8_lossy(&tested.stderr)
        );
    }
}
