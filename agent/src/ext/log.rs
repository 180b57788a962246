//! `log.collect_system_logs`: what happened here, as a small archive.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use serde_json::json;
use wrought_wire::secret::MASK;

use super::tar::Tar;
use crate::command::CommandFailure;
use crate::command::Mode;
use crate::command::Registry;
use crate::logging::Ring;

/// Bytes of each file that are taken.
const LIMIT: u64 = 1 << 20;

/// Files of the system that help to understand a failure.
const FILES: [(&str, &str); 11] = [
    ("init.log", "/run/wrought/init.log"),
    ("partitions.txt", "/proc/partitions"),
    ("mounts.txt", "/proc/self/mounts"),
    ("mdstat.txt", "/proc/mdstat"),
    ("meminfo.txt", "/proc/meminfo"),
    ("cpuinfo.txt", "/proc/cpuinfo"),
    ("modules.txt", "/proc/modules"),
    ("interrupts.txt", "/proc/interrupts"),
    ("net-dev.txt", "/proc/net/dev"),
    ("net-route.txt", "/proc/net/route"),
    ("resolv.conf", "/etc/resolv.conf"),
];

pub(super) fn register(registry: &mut Registry, ring: Arc<Ring>) {
    registry.blocking("log.collect_system_logs", Mode::Sync, move |_, _| {
        collect(&ring)
    });
}

fn collect(ring: &Ring) -> Result<Value, CommandFailure> {
    let archive = archive(ring).map_err(|error| {
        CommandFailure::execution(format!("cannot make the archive of logs: {error}"))
    })?;
    Ok(json!({ "system_logs": STANDARD.encode(archive) }))
}

pub(super) fn archive(ring: &Ring) -> std::io::Result<Vec<u8>> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut tar = Tar::new(GzEncoder::new(Vec::new(), Compression::fast()), now);
    tar.file("agent.log", ring.text().as_bytes())?;
    if let Some(messages) = kernel_messages() {
        tar.file("dmesg.txt", &messages)?;
    }
    if let Some(line) = read("/proc/cmdline") {
        tar.file(
            "cmdline.txt",
            mask_token(&String::from_utf8_lossy(&line)).as_bytes(),
        )?;
    }
    for (name, path) in FILES {
        // What is not there is left out.
        if let Some(content) = read(path) {
            tar.file(name, &content)?;
        }
    }
    tar.file("addresses.txt", addresses().as_bytes())?;
    tar.finish()?.finish()
}

fn read(path: &str) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)
        .ok()?
        .take(LIMIT)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

/// The kernel's own log, which holds its command line as well.
fn kernel_messages() -> Option<Vec<u8>> {
    const SYSLOG_ACTION_READ_ALL: libc::c_int = 3;
    let mut buffer = vec![0_u8; LIMIT as usize];
    let length = libc::c_int::try_from(buffer.len()).ok()?;
    // SAFETY: the pointer and the length are those of a live buffer that the
    // kernel fills with at most that many bytes.
    let got = unsafe { libc::klogctl(SYSLOG_ACTION_READ_ALL, buffer.as_mut_ptr().cast(), length) };
    buffer.truncate(usize::try_from(got).ok()?);
    Some(mask_token(&String::from_utf8_lossy(&buffer)).into_bytes())
}

/// Hides the token that may be on the kernel's command line.
fn mask_token(text: &str) -> String {
    const KEY: &str = "ipa-agent-token=";
    let mut parts = text.split(KEY);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(char::is_whitespace).unwrap_or(part.len());
        masked.push_str(KEY);
        masked.push_str(MASK);
        masked.push_str(&part[end..]);
    }
    masked
}

fn addresses() -> String {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else {
        return String::new();
    };
    let mut text = String::new();
    for interface in interfaces {
        let address = interface
            .address
            .map_or_else(String::new, |address| address.to_string());
        text.push_str(&format!(
            "{} {address} {:?}\n",
            interface.interface_name, interface.flags
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::process::Stdio;

    use super::archive;
    use super::mask_token;
    use crate::logging::Ring;

    #[test]
    fn tokens_are_masked() {
        assert_eq!(
            mask_token("a ipa-agent-token=s3cret b ipa-agent-token=x\nipa-agent-token="),
            "a ipa-agent-token=****** b ipa-agent-token=******\nipa-agent-token=******"
        );
        assert_eq!(mask_token("nothing"), "nothing");
    }

    #[test]
    fn the_archive_is_a_tar_gz_with_our_log() {
        let ring = Ring::default();
        ring.push("[    0.1] hello\n");
        let archive = archive(&ring).unwrap();
        let mut tar = Command::new("tar")
            .args(["-xzO", "agent.log"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&archive).ok();
        assert_eq!(tar.wait_with_output().unwrap().stdout, b"[    0.1] hello\n");
    }
}
