//! What firmware does: fetches what the conductor has put up for this machine,
//! and hands the ramdisk its parameters.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;

use super::Machine;
use crate::qemu::BootFrom;

/// Between two tries of firmware that gets no answer.
const AGAIN: Duration = Duration::from_millis(300);
/// Largest artefact that is fetched.
const LIMIT: usize = 64 << 20;
/// Parameters that are looked for.
const PARAMETERS: [&str; 3] = ["ipa-api-url", "ipa-agent-token", "ipa-heartbeat-interval"];

/// What a boot came to.
#[derive(Debug)]
pub(super) enum Booted {
    /// The ramdisk, with its parameters.
    Ramdisk(HashMap<String, String>),
    /// Whatever is on the disk.
    Disk,
}

/// Boots; tries again for as long as nobody answers.
pub(super) async fn boot(machine: &Machine, from: BootFrom) -> Booted {
    let mut said = String::new();
    loop {
        let tried = match from {
            BootFrom::Cd => disc(machine).await,
            _ => network(machine).await,
        };
        let problem = match tried {
            Ok(booted) => return booted,
            Err(error) => format!("{error:#}"),
        };
        if problem != said {
            machine.write(|log| log.say(&format!("firmware: {problem}")));
            said = problem;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// As iPXE does: the script by the MAC address, then kernel and initramfs.
async fn network(machine: &Machine) -> Result<Booted> {
    let mac = machine.mac().replace(':', "-");
    let mut problem = None;
    for base in machine.net().now().boots {
        match script(&format!("{base}/ipxe/{mac}?from=boot")).await {
            Ok(booted) => return Ok(booted),
            Err(error) => problem = Some(error),
        }
    }
    Err(problem.unwrap_or_else(|| anyhow::anyhow!("nobody offers a network boot")))
}

async fn script(url: &str) -> Result<Booted> {
    let script = fetch(url).await?;
    let script = String::from_utf8_lossy(&script).into_owned();
    if script.contains("wrought-boot disk") {
        return Ok(Booted::Disk);
    }
    let line = |word: &str| script.lines().find_map(|line| line.strip_prefix(word));
    let kernel = line("kernel ").context("the script boots no kernel")?;
    let mut words = kernel.split_whitespace();
    fetch(words.next().context("the script names no kernel")?).await?;
    let initramfs =
        line("initrd ").and_then(|line| line.split_whitespace().find(|w| w.contains("://")));
    fetch(initramfs.context("the script names no initramfs")?).await?;
    let told = words.filter_map(|word| word.split_once('='));
    Ok(Booted::Ramdisk(
        told.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    ))
}

/// Reads the parameters off the disc image, which has them as plain lines.
async fn disc(machine: &Machine) -> Result<Booted> {
    let Some(url) = machine.disc() else {
        return Ok(Booted::Disk);
    };
    let image = fetch(&url).await?;
    let mut told = HashMap::new();
    for key in PARAMETERS {
        let wanted = format!("\n{key}=");
        let at = find(&image, wanted.as_bytes())
            .map(|at| at + wanted.len())
            .or_else(|| find(&image, &wanted.as_bytes()[1..]).map(|at| at + wanted.len() - 1));
        if let Some(rest) = at.and_then(|at| image.get(at..)) {
            let value = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            told.insert(key.to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
    ensure!(told.contains_key("ipa-api-url"), "the disc names no API");
    Ok(Booted::Ramdisk(told))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|at| at == wanted)
}

async fn fetch(url: &str) -> Result<Vec<u8>> {
    let client = reqwest::Client::builder()
        .no_proxy()
        // Firmware knows no CAs.
        .tls_certs_only([])
        .timeout(Duration::from_secs(30))
        .build()?;
    let answer = client.get(url).send().await;
    // The address holds a token.
    let mut answer = answer.map_err(reqwest::Error::without_url)?;
    if !answer.status().is_success() {
        bail!("an artefact is not there: {}", answer.status());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
        bytes.extend_from_slice(&chunk);
        ensure!(
            bytes.len() <= LIMIT,
            "an artefact is larger than {LIMIT} bytes"
        );
    }
    Ok(bytes)
}
