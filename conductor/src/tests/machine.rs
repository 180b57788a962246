//! A machine: power, boot device, disc drive, and what boots from them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::body::to_bytes;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinHandle;
use tower::ServiceExt;
use uuid::Uuid;
use wrought_bmc::redfish::Attribute;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::Firmware;
use wrought_bmc::redfish::Light;
use wrought_bmc::redfish::MediaSlot;
use wrought_bmc::redfish::Nic;
use wrought_bmc::redfish::PowerAction;
use wrought_bmc::redfish::System;
use wrought_formats::iso9660;
use wrought_rpc::Conductor;
use wrought_store::node::Node;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::secret::Secret;
use wrought_wire::state::BootDevice;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerState;

use super::agent;
use super::agent::Agent;
use crate::Service;
use crate::drivers::bmc::Bmc;
use crate::drivers::bmc::Bmcs;
use crate::error::Error;
use crate::error::Source;

/// What a test may have go wrong.
#[derive(Default)]
pub(super) struct Knobs {
    pub(super) step_time: Duration,
    /// Steps that fail, with the agent's story.
    pub(super) failing: HashMap<String, String>,
    /// Kills the conductor when the next step arrives, before its answer.
    pub(super) crash_on_step: Option<()>,
    /// The rescue ramdisk takes no password.
    pub(super) no_login: bool,
    /// The answer to the next lookup is lost.
    pub(super) lose_token: bool,
    /// The ramdisk never comes up.
    pub(super) dead: bool,
    /// The BMC does not answer.
    pub(super) bmc_gone: bool,
    /// The BMC takes its time.
    pub(super) bmc_delay: Duration,
    /// Version of the agent's hardware manager, 1.2 when none; `flapping` is
    /// another one each time.
    pub(super) hardware: Option<String>,
    /// What the agent sends as its logs.
    pub(super) logs: Option<Vec<u8>>,
    /// Heartbeats that come by themselves; none: all.
    pub(super) beats: Option<u32>,
}

#[derive(Default)]
struct State {
    on: bool,
    next: Option<BootDevice>,
    always: Option<BootDevice>,
    disc: Option<String>,
    ramdisk: Option<JoinHandle<()>>,
    callback: Option<Heartbeat>,
    log: Vec<String>,
    bodies: Vec<Value>,
    subscriptions: HashMap<String, Value>,
    knobs: Knobs,
    conductor: Option<Arc<Service>>,
    node: Uuid,
    mac: String,
}

#[derive(Clone, Default)]
pub(super) struct Machine(Arc<Mutex<State>>);

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl Machine {
    pub(super) fn belongs_to(&self, node: Uuid, mac: &str) {
        let mut state = self.0.lock().unwrap();
        state.node = node;
        state.mac = mac.to_owned();
        state.knobs.step_time = Duration::from_millis(40);
    }

    pub(super) fn meets(&self, conductor: Option<Arc<Service>>) {
        self.0.lock().unwrap().conductor = conductor;
    }

    /// Versions of the agent's hardware managers.
    pub(super) fn versions(&self) -> Value {
        let version = self.knobs(|knobs| knobs.hardware.clone());
        let version = match version.as_deref() {
            None => "1.2".to_owned(),
            Some("flapping") => Uuid::new_v4().to_string(),
            Some(version) => version.to_owned(),
        };
        json!({"generic": version})
    }

    pub(super) fn knobs<T>(&self, change: impl FnOnce(&mut Knobs) -> T) -> T {
        change(&mut self.0.lock().unwrap().knobs)
    }

    pub(super) fn log(&self, line: &str) {
        self.0.lock().unwrap().log.push(line.to_owned());
    }

    pub(super) fn keep(&self, body: &Value) {
        self.0.lock().unwrap().bodies.push(body.clone());
    }

    pub(super) fn body(&self, name: &str) -> Value {
        let state = self.0.lock().unwrap();
        state
            .bodies
            .iter()
            .rfind(|body| body["name"] == name)
            .cloned()
            .unwrap()
    }

    pub(super) fn logged(&self) -> Vec<String> {
        self.0.lock().unwrap().log.clone()
    }

    pub(super) fn count(&self, line: &str) -> usize {
        self.logged()
            .iter()
            .filter(|logged| *logged == line)
            .count()
    }

    pub(super) fn is_of(&self, node: Uuid) -> bool {
        self.0.lock().unwrap().node == node
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.lock().unwrap().on
    }

    pub(super) fn disc(&self) -> Option<String> {
        self.0.lock().unwrap().disc.clone()
    }

    fn conductor(&self) -> Option<Arc<Service>> {
        self.0.lock().unwrap().conductor.clone()
    }

    pub(super) async fn crash_conductor(&self) {
        let conductor = self.0.lock().unwrap().conductor.take();
        conductor.unwrap().crash().await;
    }

    pub(super) async fn agent_powers_off(&self) {
        self.log("agent powers off");
        self.switch(false);
    }

    /// The agent serves nothing any more, and does not call; the machine runs on.
    pub(super) fn agent_leaves(&self) {
        if let Some(ramdisk) = self.0.lock().unwrap().ramdisk.take() {
            ramdisk.abort();
        }
    }

    /// The agent's process dies and starts anew; its memory is gone.
    pub(super) fn agent_restarts(&self) {
        let old = self.0.lock().unwrap().ramdisk.take();
        old.unwrap().abort();
        self.log("agent restarts");
        self.boot_ramdisk(None);
    }

    /// The ramdisk crashes and boots again from the disc, by itself.
    pub(super) fn ramdisk_restarts_from_disc(&self) {
        let old = self.0.lock().unwrap().ramdisk.take();
        old.unwrap().abort();
        self.log("ramdisk restarts");
        self.boot_ramdisk(Some(BootDevice::Cdrom));
    }

    fn switch(&self, on: bool) {
        let mut state = self.0.lock().unwrap();
        if state.on == on {
            return;
        }
        state.on = on;
        if let Some(ramdisk) = state.ramdisk.take() {
            ramdisk.abort();
        }
        let device = state.next.take().or(state.always);
        let dead = state.knobs.dead;
        drop(state);
        match device {
            Some(device @ (BootDevice::Pxe | BootDevice::Cdrom)) if on && !dead => {
                self.log(&format!("boots {device}"));
                self.boot_ramdisk(Some(device));
            }
            device if on => self.log(&format!("boots {}", device.map_or("?", BootDevice::as_str))),
            _ => {}
        }
    }

    fn boot_ramdisk(&self, from: Option<BootDevice>) {
        let machine = self.clone();
        let task = tokio::spawn(async move { machine.ramdisk(from).await });
        self.0.lock().unwrap().ramdisk = Some(task);
    }

    /// What a ramdisk does from its boot on.
    async fn ramdisk(self, from: Option<BootDevice>) {
        let own_token = match from {
            Some(BootDevice::Cdrom) => self.read_disc().await,
            Some(_) => {
                self.fetch_by_ipxe().await;
                None
            }
            None => None,
        };
        let node = self.0.lock().unwrap().node;
        let token = loop {
            if let Some(token) = &own_token {
                break token.clone();
            }
            if let Some(conductor) = self.conductor()
                && let Ok(config) = conductor.lookup(node).await
            {
                assert_eq!(config["agent_token_required"], true);
                let token = config["agent_token"].as_str().unwrap();
                let lost = self.knobs(|knobs| std::mem::take(&mut knobs.lose_token));
                if token != "******" && !lost {
                    break token.to_owned();
                }
                self.log("lookup gave no token");
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        };
        let (pem, tls) = agent::identity();
        let agent = Agent::new(self.clone(), token.clone());
        let (url, server) = agent::serve(tls, agent.router()).await;
        // The server ends with this task.
        let _end = EndOnDrop(server, agent);
        self.0.lock().unwrap().callback = Some(Heartbeat {
            callback_url: url,
            agent_token: Some(Secret::new(token)),
            agent_version: Some("1".to_owned()),
            agent_verify_ca: Some(pem),
            ..Heartbeat::default()
        });
        loop {
            let silent = self.knobs(|knobs| match &mut knobs.beats {
                None => false,
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    false
                }
            });
            if !silent {
                self.beat().await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(super) async fn beat(&self) {
        let (callback, node) = {
            let state = self.0.lock().unwrap();
            (state.callback.clone(), state.node)
        };
        if let (Some(conductor), Some(callback)) = (self.conductor(), callback)
            && let Err(error) = conductor.heartbeat(node, callback).await
        {
            self.log(&format!("heartbeat refused: {error}"));
        }
    }

    async fn get(&self, path: &str) -> axum::body::Bytes {
        // Firmware asks again while nobody serves.
        let conductor = loop {
            if let Some(conductor) = self.conductor() {
                break conductor;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let router = crate::boot::router(&conductor);
        let request = axum::http::Request::get(path).body(Body::empty()).unwrap();
        let answer = router.oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        to_bytes(answer.into_body(), usize::MAX).await.unwrap()
    }

    async fn fetch_by_ipxe(&self) {
        let mac = self.0.lock().unwrap().mac.replace(':', "-");
        let script = self.get(&format!("/ipxe/{mac}?from=boot")).await;
        let script = String::from_utf8(script.to_vec()).unwrap();
        let kernel = script
            .lines()
            .find_map(|line| line.strip_prefix("kernel "))
            .unwrap();
        let url = kernel.split(' ').next().unwrap();
        assert!(
            kernel.contains("ipa-api-url=https://192.0.2.1:6385"),
            "{kernel}"
        );
        assert!(kernel.contains(&format!("BOOTIF=01-{mac}")), "{kernel}");
        let path = url.strip_prefix("http://192.0.2.1:8088").unwrap();
        assert_eq!(&self.get(path).await[..], b"kernel");
    }

    async fn read_disc(&self) -> Option<String> {
        let url = self.disc().unwrap();
        let path = url.strip_prefix("http://192.0.2.1:8088").unwrap();
        let image = self.get(path).await;
        let mut reader = iso9660::Reader::open(|at: u64, out: &mut [u8]| {
            let at = usize::try_from(at).unwrap();
            let end = at + out.len();
            let found = image
                .get(at..end)
                .ok_or(std::io::ErrorKind::UnexpectedEof)?;
            out.copy_from_slice(found);
            Ok(())
        })
        .unwrap();
        assert_eq!(reader.volume_id(), "WROUGHT_VMEDIA");
        assert_eq!(reader.read_file("CA.PEM", 4096).unwrap(), b"pem");
        let params = String::from_utf8(reader.read_file("PARAMS.TXT", 4096).unwrap()).unwrap();
        assert!(
            params.contains("ipa-api-url=https://192.0.2.1:6385\n"),
            "{params}"
        );
        params
            .lines()
            .find_map(|line| line.strip_prefix("ipa-agent-token=").map(str::to_owned))
    }
}

struct EndOnDrop(JoinHandle<()>, Agent);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
        self.1.die();
    }
}

impl Bmcs for Machine {
    fn of(&self, node: &Node) -> Result<Arc<dyn Bmc>, Error> {
        if node.driver_info.contains_key("redfish_address") {
            return Ok(Arc::new(self.clone()));
        }
        Err(Error::Invalid(
            "driver_info redfish_address: found nothing".to_owned(),
        ))
    }
}

#[async_trait]
impl Bmc for Machine {
    async fn power_state(&self) -> Result<PowerState, Source> {
        tokio::time::sleep(self.knobs(|knobs| knobs.bmc_delay)).await;
        if self.knobs(|knobs| knobs.bmc_gone) {
            return Err("the BMC does not answer".into());
        }
        Ok(if self.is_on() {
            PowerState::On
        } else {
            PowerState::Off
        })
    }

    async fn set_power(
        &self,
        action: PowerAction,
        _within: Duration,
    ) -> Result<PowerState, Source> {
        self.power_state().await?;
        let on = matches!(action, PowerAction::On | PowerAction::ForceRestart);
        if self.is_on() != on {
            self.log(if on { "power on" } else { "power off" });
        }
        self.switch(on);
        self.power_state().await
    }

    async fn boot_device(&self) -> Result<(Option<BootDevice>, Option<bool>), Source> {
        let state = self.0.lock().unwrap();
        Ok((state.next.or(state.always), Some(state.next.is_none())))
    }

    async fn boot_devices(&self) -> Result<Vec<BootDevice>, Source> {
        Ok(vec![BootDevice::Pxe, BootDevice::Disk, BootDevice::Cdrom])
    }

    async fn set_boot_device(
        &self,
        device: BootDevice,
        persistent: bool,
        _mode: Option<BootMode>,
    ) -> Result<(), Source> {
        let mut state = self.0.lock().unwrap();
        let word = if persistent { "always" } else { "once" };
        state.log.push(format!("boot device {device} {word}"));
        if persistent {
            state.always = Some(device);
            state.next = None;
        } else {
            state.next = Some(device);
        }
        Ok(())
    }

    async fn boot_mode(&self) -> Result<Option<BootMode>, Source> {
        Ok(Some(BootMode::Uefi))
    }

    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), Source> {
        self.power_state().await?;
        self.log(&format!("boot mode {mode}"));
        Ok(())
    }

    async fn secure_boot(&self) -> Result<Option<bool>, Source> {
        Ok(Some(false))
    }

    async fn set_secure_boot(&self, on: bool) -> Result<(), Source> {
        self.power_state().await?;
        self.log(&format!("secure boot {on}"));
        Ok(())
    }

    async fn health(&self) -> Result<Option<String>, Source> {
        Ok(Some("OK".to_owned()))
    }

    async fn inject_nmi(&self) -> Result<(), Source> {
        self.log("nmi");
        Ok(())
    }

    async fn lights(&self) -> Result<Vec<Light>, Source> {
        Ok(Vec::new())
    }

    async fn set_light(&self, _: &str, _: &str, _: IndicatorState) -> Result<(), Source> {
        Err("there is no light".into())
    }

    async fn bios(&self) -> Result<Vec<Attribute>, Source> {
        Ok(vec![Attribute {
            name: "Virt".to_owned(),
            value: Some("Enabled".to_owned()),
            kind: Some("Enumeration".to_owned()),
            ..Attribute::default()
        }])
    }

    async fn system(&self) -> Result<System, Source> {
        self.power_state().await?;
        Ok(System {
            manufacturer: Some("ACME".to_owned()),
            memory_gib: Some(16),
            processors: Some(2),
            ..System::default()
        })
    }

    async fn nics(&self) -> Result<Vec<Nic>, Source> {
        let nic = |id: &str, mac: String| Nic {
            id: id.to_owned(),
            mac,
            link: Some(true),
            speed: None,
        };
        let first = self.0.lock().unwrap().mac.to_uppercase();
        Ok(vec![
            nic("1", first),
            nic("2", "52-54-00-AA-BB-02".to_owned()),
            nic("3", "infiniband".to_owned()),
        ])
    }

    async fn firmware(&self) -> Result<Vec<Firmware>, Source> {
        Ok(vec![Firmware {
            component: "bmc".to_owned(),
            version: "1.0".to_owned(),
            ..Firmware::default()
        }])
    }

    async fn subscriptions(&self) -> Result<Value, Source> {
        let members = self.0.lock().unwrap().subscriptions.len();
        Ok(json!({"Members": vec![json!({}); members]}))
    }

    async fn subscription(&self, id: &str) -> Result<Value, Source> {
        let known = self.0.lock().unwrap().subscriptions.get(id).cloned();
        known.ok_or_else(|| "there is no such subscription".into())
    }

    async fn subscribe(&self, wanted: &Value) -> Result<Value, Source> {
        let mut made = wanted.clone();
        made["Id"] = json!("1");
        let subscriptions = &mut self.0.lock().unwrap().subscriptions;
        subscriptions.insert("1".to_owned(), made.clone());
        Ok(made)
    }

    async fn unsubscribe(&self, id: &str) -> Result<(), Source> {
        self.subscription(id).await?;
        self.0.lock().unwrap().subscriptions.remove(id);
        Ok(())
    }

    async fn media(&self) -> Result<Vec<MediaSlot>, Source> {
        let image = self.disc();
        Ok(vec![MediaSlot {
            path: "/Cd".to_owned(),
            media_types: vec!["CD".to_owned()],
            inserted: Some(image.is_some()),
            image,
        }])
    }

    async fn insert_media(&self, kind: MediaKind, url: &str) -> Result<(), Source> {
        if kind != MediaKind::Cdrom {
            return Err(format!("there is no {kind} device").into());
        }
        self.log("disc in");
        self.0.lock().unwrap().disc = Some(url.to_owned());
        Ok(())
    }

    async fn eject_media(&self, kind: MediaKind) -> Result<(), Source> {
        if kind == MediaKind::Cdrom && self.0.lock().unwrap().disc.take().is_some() {
            self.log("disc out");
        }
        Ok(())
    }
}
