//! A "machine" that is the agent as a process on this host.

use std::path::Path;

use anyhow::Context;
use anyhow::Result;

use super::BootFrom;
use super::Spec;
use crate::child;
use crate::child::Daemon;

/// Starts what the boot order leads to.
pub(super) async fn start(
    spec: &Spec,
    program: &Path,
    scripts: &str,
    boot: BootFrom,
) -> Result<Daemon> {
    let parameters = match boot {
        BootFrom::Network => parameters(&script(scripts, &spec.mac).await?),
        BootFrom::Default | BootFrom::Disk | BootFrom::Cd => Vec::new(),
    };
    let name = format!("agent of {}", spec.name);
    if parameters.is_empty() {
        let mut command = child::command("sleep");
        command.arg("infinity");
        return Daemon::start(&name, command, &spec.serial_log);
    }
    let mut command = child::command(program);
    command.arg("run");
    for parameter in parameters
        .iter()
        .chain([&format!("wrought-addresses={}", spec.mac)])
    {
        command.arg("--param").arg(parameter);
    }
    for disk in &spec.disks {
        command.arg("--only-disk").arg(&disk.path);
    }
    Daemon::start(&name, command, &spec.serial_log)
}

/// The conductor's script for this MAC.
async fn script(base: &str, mac: &str) -> Result<String> {
    let url = format!("{base}/ipxe/{mac}");
    let response = reqwest::Client::builder()
        .no_proxy()
        .build()?
        .get(&url)
        .send()
        .await?;
    response
        .error_for_status()?
        .text()
        .await
        .with_context(|| format!("reading {url}"))
}

/// The agent's parameters on the script's kernel line.
fn parameters(script: &str) -> Vec<String> {
    script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("kernel "))
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("ipa-") || word.starts_with("wrought-"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn only_the_agents_parameters_are_taken() {
        let script = "#!ipxe\nkernel http://h/b/1/vmlinuz initrd=initramfs console=ttyS0,115200 \
                      ipa-api-url=https://h:6385 wrought-ca-sha256=ab BOOTIF=01-${net0/mac:hexhyp}\n\
                      initrd http://h/b/1/initramfs\nboot\n";
        assert_eq!(
            parameters(script),
            ["ipa-api-url=https://h:6385", "wrought-ca-sha256=ab"]
        );
        assert!(parameters("#!ipxe\nexit\n").is_empty());
    }
}
