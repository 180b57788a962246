//! What helps where something went wrong: the log ring; and a machine that is
//! taken off the network.

use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Rig;
use crate::scenarios::archive;

/// A command that does not touch disks.
const LIMIT: Duration = Duration::from_secs(60);

impl Rig {
    /// The log ring, with what was done and found, and the kernel's messages.
    pub(super) async fn logs(&self) -> Result<()> {
        let name = "log.collect_system_logs";
        let done = self.machine.agent().command(name, json!({}), LIMIT).await?;
        let Ok(answer) = done else {
            bail!("{name} failed: {done:?}");
        };
        let text = answer["system_logs"].as_str().unwrap_or_default();
        let packed = STANDARD.decode(text).context("system_logs is no Base64")?;
        let archive = self.at("logs.tar.gz");
        std::fs::write(&archive, packed)?;
        for (file, texts) in [
            (
                "agent.log",
                &["a disk was erased", "a disk was not erased", "gfs2"][..],
            ),
            ("dmesg.txt", &["Linux version", "LSISAS1068"]),
            ("partitions.txt", &["nvme0n1"]),
            ("cmdline.txt", &["ipa-api-url=http://10.0.2.2:"]),
        ] {
            let content = archive::member(&archive, file)?;
            for text in texts {
                ensure!(content.contains(text), "{file} lacks {text:?}");
            }
        }
        Ok(())
    }

    /// It answers, and nobody reaches it afterwards.
    pub(super) async fn lockdown(&self) -> Result<()> {
        let (name, none) = ("system.lockdown", json!({}));
        let done = self
            .machine
            .agent()
            .command(name, none.clone(), LIMIT)
            .await?;
        ensure!(done.is_ok(), "{name} failed: {done:?}");
        self.machine
            .serial()
            .wait("the lockdown", LIMIT, |text| {
                text.contains("lockdown: off the network: ").then_some(())
            })
            .await?;
        let asked = tokio::time::timeout(
            Duration::from_secs(20),
            self.machine.agent().command("standby.sync", none, LIMIT),
        );
        ensure!(
            !matches!(asked.await, Ok(Ok(_))),
            "the agent still answers after {name}"
        );
        Ok(())
    }
}
