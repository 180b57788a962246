//! Deploying an image and seeing the operating system come up.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;
use serde_json::json;

use crate::account::Account;
use crate::api::Api;
use crate::bmc::Bmc;
use crate::serial::SerialLog;
use crate::watch::Story;
use crate::watch::Watch;
use crate::world::World;

/// Time for a boot of the ramdisk and the steps in it, on a busy machine
/// without KVM.
pub const OPERATION: Duration = Duration::from_secs(900);
/// Time for the operating system to come up.
const OS_BOOT: Duration = Duration::from_secs(900);

/// What makes one deploy recognisable in its guest.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Its host name.
    pub hostname: String,
    /// Carried by the user data.
    pub nonce: String,
}

impl Guest {
    /// A name and a nonce that never were before.
    pub fn random() -> Self {
        Self {
            hostname: format!("demo-{}", crate::random_hex(4)),
            nonce: crate::random_hex(8),
        }
    }

    /// The config drive's content. The user data is a script that says who
    /// it is on the serial console.
    pub fn configdrive(&self) -> Value {
        let Self { hostname, nonce } = self;
        json!({
            "meta_data": {
                "uuid": uuid::Uuid::new_v4(),
                "name": hostname,
                "hostname": hostname,
            },
            "user_data": format!(
                "#!/bin/sh\n\
                 # nonce={nonce}\n\
                 echo \"wrought-guest hostname=$(hostname) nonce={nonce}\" >/dev/ttyS0\n"
            ),
            "network_data": {"links": [], "networks": [], "services": []},
        })
    }

    /// Waits for the guest's own login prompt and marker line; the host name
    /// and the nonce are those that the *guest* wrote.
    pub async fn wait_for(&self, serial: &SerialLog) -> Result<Seen> {
        let prompt = format!("{} login:", self.hostname);
        let what = format!(
            "the line \"wrought-guest hostname={} nonce={}\"",
            self.hostname, self.nonce
        );
        let at = Instant::now();
        serial
            .wait(&what, OS_BOOT, |text| self.marker(text).then_some(()))
            .await?;
        serial
            .wait(&format!("the prompt {prompt:?}"), OS_BOOT, |text| {
                text.lines()
                    .any(|line| line.trim_start().starts_with(&prompt))
                    .then_some(())
            })
            .await?;
        Ok(Seen {
            seconds: at.elapsed().as_secs_f64(),
        })
    }

    /// Whether the guest's own marker line is in `text`.
    fn marker(&self, text: &str) -> bool {
        text.lines()
            .filter_map(|line| line.split_once("wrought-guest "))
            .any(|(_, rest)| {
                let mut words = rest.split_whitespace();
                words.next() == Some(&format!("hostname={}", self.hostname))
                    && words.next() == Some(&format!("nonce={}", self.nonce))
            })
    }
}

/// That the operating system was seen on the serial console.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// How long it took from the wait's beginning.
    pub seconds: f64,
}

/// A node on its machine, as the flows handle it.
#[derive(Debug)]
pub struct Node {
    /// Its UUID.
    pub uuid: String,
    /// Its machine.
    pub bmc: Bmc,
    /// The API.
    pub api: Api,
    /// The machine's console.
    pub serial: SerialLog,
    /// Who is told.
    pub account: Account,
}

impl Node {
    /// Enrols a machine.
    pub async fn enrol(
        world: &World,
        bmc: &Bmc,
        boot_interface: &str,
        account: &Account,
    ) -> Result<Self> {
        let uuid = world.enrol(bmc, boot_interface).await?;
        account.say(&format!(
            "node {} enrolled as {uuid}",
            bmc.machine().spec().name
        ));
        Ok(Self {
            uuid,
            bmc: bmc.clone(),
            api: world.api()?,
            serial: world.serial(bmc),
            account: account.clone(),
        })
    }

    /// A watch on the node that quotes the console from now on.
    pub fn watch(&self) -> Watch<'_> {
        Watch {
            api: &self.api,
            node: &self.uuid,
            account: &self.account,
            console: Some(self.serial.from_now()),
        }
    }

    /// Asks for a verb and follows the node to `goal`.
    pub async fn go(&self, verb: &str, extra: Value, goal: &str) -> Result<Story> {
        let watch = self.watch();
        self.api.provision(&self.uuid, verb, extra).await?;
        watch
            .until(goal, OPERATION)
            .await
            .with_context(|| format!("asking for {verb:?}"))
    }

    /// From `enroll` to `available`, with automated cleaning.
    pub async fn make_available(&self) -> Result<(Story, Story)> {
        let managed = self.go("manage", json!({}), "manageable").await?;
        let cleaned = self.go("provide", json!({}), "available").await?;
        Ok((managed, cleaned))
    }

    /// Sets what is deployed.
    pub async fn set_image(&self, instance_info: &Value) -> Result<()> {
        let patch = ("/instance_info", instance_info.clone());
        self.api.set(&self.uuid, &[patch]).await
    }

    /// Deploys for `guest` and waits until its operating system is up.
    pub async fn deploy(&self, guest: &Guest) -> Result<(Story, Seen)> {
        let console = self.serial.from_now();
        let extra = json!({"configdrive": guest.configdrive()});
        let story = self.go("active", extra, "active").await?;
        let seen = self.see(guest, &console).await?;
        Ok((story, seen))
    }

    /// Waits for the operating system, quoting the console now and then.
    async fn see(&self, guest: &Guest, console: &SerialLog) -> Result<Seen> {
        let mut waiting = std::pin::pin!(guest.wait_for(console));
        let mut last = String::new();
        loop {
            tokio::select! {
                seen = &mut waiting => return seen,
                () = tokio::time::sleep(Duration::from_secs(10)) => {
                    let text = console.text();
                    let line = crate::serial::tail(&text, 1).join("");
                    if line != last {
                        let short: String = line.trim().chars().take(100).collect();
                        self.account.tell(
                            &format!("                console: {short}"),
                            json!({"event": "console", "line": short}),
                        );
                        last = line;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Guest;

    #[test]
    fn only_the_guests_own_marker_counts() {
        let guest = Guest {
            hostname: "demo-1".into(),
            nonce: "ab".into(),
        };
        assert!(guest.marker("x\n[  3.1] wrought-guest hostname=demo-1 nonce=ab\n"));
        assert!(!guest.marker("wrought-guest hostname=demo-1 nonce=abc"));
        assert!(!guest.marker("wrought-guest hostname=demo nonce=ab"));
        assert!(!guest.marker("wrought-guest hostname=$(hostname) nonce=ab"));
    }
}
