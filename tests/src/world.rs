//! A world: one network with its services and machines.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;
use serde_json::json;

use crate::accel::Accel;
use crate::api::Api;
use crate::bmc::Bmc;
use crate::bmc::Machine;
use crate::child::Daemon;
use crate::dnsmasq;
use crate::images::Images;
use crate::initramfs;
use crate::initramfs::Extra;
use crate::netns;
use crate::netns::HostPort;
use crate::paths::Paths;
use crate::qemu::Body;
use crate::qemu::Disk;
use crate::qemu::Firmware;
use crate::qemu::Spec;
use crate::rundir::RunDir;
use crate::serial::SerialLog;
use crate::server;
use crate::server::Server;
use crate::tagger;

/// How a world is set up.
#[derive(Debug, Default)]
pub struct Options {
    /// Goes into the run folder's name.
    pub label: String,
    /// The override of the accelerator.
    pub accel: Option<Accel>,
    /// A port on the host that leads to the API.
    pub host_port: Option<HostPort>,
    /// Lines for the server's configuration: top-level keys and tables.
    pub server_config: String,
    /// Folder of the ramdisk below `target`; `ramdisk` when it is empty.
    pub ramdisk: &'static str,
    /// Files that come into the ramdisk beside what it has.
    pub ramdisk_files: Vec<Extra>,
    /// Starts no server; iPXE is sent to this script instead.
    pub script_only: Option<String>,
}

/// What a machine is made of.
#[derive(Debug, Clone, Copy)]
pub struct MachineOptions {
    /// Its firmware.
    pub firmware: Firmware,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Size of each disk in bytes.
    pub disks: &'static [u64],
    /// Whether it is only an agent on this host.
    pub host_agent: bool,
    /// The VLAN that its switch carries, tagged, and nothing else.
    pub vlan: Option<u16>,
}

impl MachineOptions {
    /// 512 MiB and one disk of 8 GiB.
    pub const fn new(firmware: Firmware) -> Self {
        Self {
            firmware,
            memory_mib: 512,
            disks: &[8 << 30],
            host_agent: false,
            vlan: None,
        }
    }

    /// No machine at all: the agent as a process, its disk a file.
    pub const fn host_agent() -> Self {
        Self {
            host_agent: true,
            ..Self::new(Firmware::Bios)
        }
    }
}

/// The world. The process is its network namespace's first member, so there
/// is one world in a process.
#[derive(Debug)]
pub struct World {
    /// Where artefacts lie.
    pub paths: Paths,
    /// Images with faults on demand.
    pub images: Images,
    server: Option<Server>,
    host_address: Option<SocketAddr>,
    accel: Accel,
    dnsmasq: Daemon,
    machines: Vec<Bmc>,
    run: RunDir,
}

impl World {
    /// Starts everything but machines.
    pub async fn start(options: Options) -> Result<Self> {
        let mut paths = Paths::find()?;
        if !options.ramdisk.is_empty() {
            paths.ramdisk = paths.root.join("target").join(options.ramdisk);
        }
        let run = RunDir::create(&paths.runs, &options.label)?;
        if !options.ramdisk_files.is_empty() {
            let folder = run.scratch_dir("ramdisk")?;
            paths.ramdisk = initramfs::extend(&paths, &folder, &options.ramdisk_files)?;
        }
        let accel = Accel::choose(
            options.accel,
            &paths.runs.join("accel"),
            &paths.ramdisk.join("vmlinuz"),
        )
        .await?;
        let images = Images::start().await?;
        let script = match &options.script_only {
            Some(text) => images.offer_text("boot.ipxe", text),
            None => server::ipxe_script(),
        };
        let network = run.scratch_dir("network")?;
        let dnsmasq = dnsmasq::start(&network, &run.log("dnsmasq.log"), Some(&script))?;
        let server = match options.script_only {
            Some(_) => None,
            None => Some(Server::start(&paths, &run, &options.server_config).await?),
        };
        let mut host_address = None;
        if let Some(port) = options.host_port {
            host_address = Some(port.address()?);
            port.forward(server::api_address())?;
        }
        let machines = Vec::new();
        Ok(Self {
            paths,
            images,
            server,
            host_address,
            accel,
            dnsmasq,
            machines,
            run,
        })
    }

    /// The server.
    pub fn server(&self) -> Result<&Server> {
        self.server.as_ref().context("this world has no server")
    }

    /// A client of the API.
    pub fn api(&self) -> Result<Api> {
        self.server()?.api()
    }

    /// Where people on the host reach the API.
    pub fn host_address(&self) -> Option<SocketAddr> {
        self.host_address
    }

    /// How guests run.
    pub fn accel(&self) -> Accel {
        self.accel
    }

    /// The run's folder.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Plugs a new machine in, powered off, with its BMC.
    pub async fn add_machine(&mut self, name: &str, options: MachineOptions) -> Result<Bmc> {
        let number = self.machines.len();
        let dir = self.run.scratch_dir(&format!("machine-{name}"))?;
        let tap = format!("tap{number}");
        let wire = match options.vlan {
            Some(vlan) => Some(tagger::start(&tap, vlan)?),
            None => {
                netns::add_tap(&tap)?;
                None
            }
        };
        let mut disks = Vec::new();
        for (index, size) in options.disks.iter().enumerate() {
            let path = dir.join(format!("disk{index}.raw"));
            let file =
                File::create(&path).with_context(|| format!("creating {}", path.display()))?;
            file.set_len(*size)?;
            disks.push(Disk {
                path,
                serial: format!("wrought-{name}-{index}"),
            });
        }
        let body = match options.host_agent {
            false => Body::Qemu,
            true => Body::HostAgent {
                program: self.paths.binary("wrought-agent")?,
                scripts: server::boot_url(),
            },
        };
        let spec = Spec {
            name: name.to_owned(),
            body,
            uuid: uuid::Uuid::new_v4(),
            mac: format!("52:54:00:77:01:{:02x}", number + 1),
            memory_mib: options.memory_mib,
            cpus: 2,
            tap,
            wire,
            disks,
            dir,
            serial_log: self.run.log(&format!("{name}-serial.log")),
            firmware_log: self.run.log(&format!("{name}-firmware.log")),
        };
        let machine = Machine::new(spec, self.accel, options.firmware);
        let bmc = Bmc::start(machine, &self.run.log(&format!("{name}-bmc.log"))).await?;
        self.machines.push(bmc.clone());
        Ok(bmc)
    }

    /// Makes a node and its port for a machine; gives the node's UUID.
    pub async fn enrol(&self, bmc: &Bmc, boot_interface: &str) -> Result<String> {
        let spec = bmc.machine().spec();
        let api = self.api()?;
        let firmware = bmc.machine().firmware().await;
        let node = json!({
            "name": spec.name,
            "driver": "redfish",
            "driver_info": bmc.driver_info(),
            "boot_interface": boot_interface,
            "properties": {"capabilities": format!("boot_mode:{}", firmware.as_str())},
        });
        let node = api
            .call(reqwest::Method::POST, "/v1/nodes", Some(&node))
            .await?;
        let uuid = node["uuid"]
            .as_str()
            .context("the new node has no uuid")?
            .to_owned();
        let port = json!({"node_uuid": uuid, "address": spec.mac});
        api.call(reqwest::Method::POST, "/v1/ports", Some(&port))
            .await?;
        Ok(uuid)
    }

    /// Offers an image and gives the `instance_info` that deploys it.
    pub fn offer_image(&self, name: &str) -> Result<Value> {
        let file = self.paths.image(name)?;
        let url = self.images.offer_file(&format!("{name}.qcow2"), &file);
        let digest = read_digest(&file.with_extension("qcow2.sha256"))?;
        Ok(instance_info(&url, &digest))
    }

    /// The same for a qcow2 file of the run.
    pub fn offer_file(&self, file: &std::path::Path) -> Result<Value> {
        let url = self.images.offer_file("own.qcow2", file);
        let output = std::process::Command::new("sha256sum").arg(file).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let digest = said.split_whitespace().next().unwrap_or_default();
        anyhow::ensure!(digest.len() == 64, "sha256sum {}: {said}", file.display());
        Ok(instance_info(&url, digest))
    }

    /// The serial console of a machine.
    pub fn serial(&self, bmc: &Bmc) -> SerialLog {
        SerialLog::new(&bmc.machine().spec().serial_log)
    }

    /// Switches everything off in order.
    pub async fn stop(self) {
        for bmc in &self.machines {
            bmc.machine().power_off().await;
        }
        if let Some(server) = &self.server {
            server.stop().await;
        }
        self.dnsmasq.stop(std::time::Duration::from_secs(5)).await;
    }
}

fn instance_info(url: &str, digest: &str) -> Value {
    json!({
        "image_source": url,
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": digest,
        "image_disk_format": "qcow2",
    })
}

/// The first word of a checksum file in the form of `sha256sum`.
fn read_digest(path: &PathBuf) -> Result<String> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let digest = text.split_whitespace().next().unwrap_or_default();
    anyhow::ensure!(
        digest.len() == 64,
        "{} holds no SHA-256 digest: {text:?}",
        path.display()
    );
    Ok(digest.to_owned())
}
