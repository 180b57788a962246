//! A deploy whose BMC is not ours: sushy-emulator over libvirt.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use reqwest::Method;
use serde_json::json;

use super::Context;
use crate::child;
use crate::child::Daemon;
use crate::deploy::Guest;
use crate::deploy::OPERATION;
use crate::netns;
use crate::paths::existing;
use crate::paths::system_file;
use crate::serial::SerialLog;
use crate::watch::Watch;
use crate::world::World;

/// Where sushy-emulator listens.
const PORT: u16 = 8001;
/// MAC of the guest's NIC.
const MAC: &str = "52:54:00:77:02:01";
/// The account in the emulator.
const USER: &str = "wrought";

/// One deploy on a libvirt guest, driven through somebody else's Redfish.
pub(super) async fn deploy(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let world = context.start().await?;
    let image = world.offer_image("tiny")?;
    let emulator = Emulator::start(world).await?;
    account.say(&format!(
        "sushy-emulator manages the libvirt domain {}",
        emulator.domain
    ));

    let api = world.api()?;
    let node = json!({
        "name": "sushy",
        "driver": "redfish",
        "boot_interface": "ipxe",
        "driver_info": {
            "redfish_address": format!("http://{}:{PORT}", netns::HOST),
            "redfish_system_id": format!("/redfish/v1/Systems/{}", emulator.domain),
            "redfish_username": USER,
            "redfish_password": emulator.password,
            "redfish_auth_type": "basic",
        },
        "properties": {"capabilities": "boot_mode:uefi"},
        "instance_info": image,
    });
    let node = api.call(Method::POST, "/v1/nodes", Some(&node)).await?;
    let uuid = node["uuid"]
        .as_str()
        .context("the node has no uuid")?
        .to_owned();
    let port = json!({"node_uuid": uuid, "address": MAC});
    api.call(Method::POST, "/v1/ports", Some(&port)).await?;

    let serial = SerialLog::new(&emulator.serial);
    let watch = Watch {
        api: &api,
        node: &uuid,
        account: &account,
        console: Some(serial.from_now()),
    };
    api.provision(&uuid, "manage", json!({})).await?;
    watch.until("manageable", OPERATION).await?;
    api.provision(&uuid, "provide", json!({})).await?;
    watch.until("available", OPERATION).await?;
    let guest = Guest::random();
    let console = serial.from_now();
    let extra = json!({"configdrive": guest.configdrive()});
    api.provision(&uuid, "active", extra).await?;
    watch.until("active", OPERATION).await?;
    guest.wait_for(&console).await?;
    emulator.stop().await;
    Ok(())
}

/// libvirt and the emulator, in a PID and mount namespace of their own: all
/// of libvirt's files are in memory, and its guests end with it.
struct Emulator {
    daemon: Daemon,
    password: String,
    domain: uuid::Uuid,
    serial: PathBuf,
}

/// Run by `sh` as the first process of the new namespaces. libvirt wants its
/// folders at fixed places; what is mounted there is seen by nobody else. Its
/// QEMU driver does not start without an account that another package makes.
const SCRIPT: &str = r#"set -e
for folder in /run /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
for accounts in passwd group; do
    cp "/etc/$accounts" "/run/$accounts"
done
printf 'libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin\n' >>/run/passwd
printf 'libvirt-qemu:x:64055:\n' >>/run/group
for accounts in passwd group; do
    mount --bind "/run/$accounts" "/etc/$accounts"
done
printf 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\ncgroup_controllers = []\nnamespaces = []\n' >/etc/libvirt/qemu.conf
printf 'auth_unix_rw = "none"\n' >/etc/libvirt/libvirtd.conf
virtlogd &
libvirtd &
tries=0
until "$PYTHON" "$DEFINE" "$DOMAIN"; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ]
    sleep 0.5
done
exec "$SUSHY" --config "$CONFIG"
"#;

/// Defines the domain with the binding that the emulator itself uses.
const DEFINE: &str = "import libvirt, sys\n\
                      connection = libvirt.open('qemu:///system')\n\
                      connection.defineXML(open(sys.argv[1]).read())\n";

impl Emulator {
    async fn start(world: &World) -> Result<Self> {
        let sushy = world.paths.tool("sushy-emulator").map_err(all)?;
        let python = world.paths.tool("python3")?;
        existing(
            PathBuf::from("/usr/sbin/libvirtd"),
            "cargo xtask setup --all",
        )?;
        let dir = world.run().scratch_dir("sushy")?;
        let password = crate::random_hex(12);
        let domain = uuid::Uuid::new_v4();
        let serial = world.run().log("sushy-serial.log");
        let disk = dir.join("disk.raw");
        std::fs::File::create(&disk)?.set_len(8 << 30)?;

        let accounts = dir.join("htpasswd");
        crate::server::write_secret(
            &accounts,
            &format!("{USER}:{}\n", bcrypt::hash(&password, 4)?),
        )?;
        let config = dir.join("sushy.conf");
        std::fs::write(&config, configuration(&accounts))?;
        let define = dir.join("define.py");
        std::fs::write(&define, DEFINE)?;
        let xml = dir.join("domain.xml");
        std::fs::write(&xml, domain_xml(domain, world, &disk, &serial, &dir)?)?;

        let mut command = child::command("unshare");
        command
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
            ])
            .arg(SCRIPT)
            .env("PYTHON", &python)
            .env("SUSHY", &sushy)
            .env("DEFINE", &define)
            .env("DOMAIN", &xml)
            .env("CONFIG", &config);
        let daemon = Daemon::start("sushy-emulator", command, &world.run().log("sushy.log"))?;
        let emulator = Self {
            daemon,
            password,
            domain,
            serial,
        };
        emulator.ready(&world.run().log("sushy.log")).await?;
        Ok(emulator)
    }

    /// Waits until the emulator shows the domain.
    async fn ready(&self, log: &Path) -> Result<()> {
        let url = format!(
            "http://{}:{PORT}/redfish/v1/Systems/{}",
            netns::HOST,
            self.domain
        );
        let http = reqwest::Client::builder().no_proxy().build()?;
        let limit = tokio::time::Instant::now() + Duration::from_secs(90);
        loop {
            let asked = http
                .get(&url)
                .basic_auth(USER, Some(&self.password))
                .send()
                .await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if self.daemon.status().is_some() || tokio::time::Instant::now() > limit {
                bail!("sushy-emulator did not come up; see {}", log.display());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn stop(&self) {
        self.daemon.stop(Duration::from_secs(5)).await;
    }
}

/// What is missing here comes with the extended set-up.
fn all(error: anyhow::Error) -> anyhow::Error {
    crate::Unavailable(format!("{error:#} (with --all)")).into()
}

/// Firmware without secure boot; the emulator's own choice needs a machine with
/// SMM.
const OVMF_CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const OVMF_VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

fn configuration(accounts: &Path) -> String {
    format!(
        "SUSHY_EMULATOR_LISTEN_IP = '{}'\n\
         SUSHY_EMULATOR_LISTEN_PORT = {PORT}\n\
         SUSHY_EMULATOR_LIBVIRT_URI = 'qemu:///system'\n\
         SUSHY_EMULATOR_AUTH_FILE = '{}'\n\
         SUSHY_EMULATOR_IGNORE_BOOT_DEVICE = False\n\
         SUSHY_EMULATOR_BOOT_LOADER_MAP = {{'UEFI': {{'x86_64': '{OVMF_CODE}'}}, \
         'Legacy': {{'x86_64': None}}}}\n\
         SUSHY_EMULATOR_SECURE_BOOT_DISABLED_NVRAM = '{OVMF_VARS}'\n",
        netns::HOST,
        accounts.display()
    )
}

/// The guest: as our own machines are, in libvirt's words.
fn domain_xml(
    domain: uuid::Uuid,
    world: &World,
    disk: &Path,
    serial: &Path,
    dir: &Path,
) -> Result<String> {
    let code = system_file(&[OVMF_CODE], "ovmf")?;
    let template = system_file(&[OVMF_VARS], "ovmf")?;
    let (kind, cpu) = match world.accel() {
        crate::accel::Accel::Kvm => ("kvm", "host-passthrough"),
        crate::accel::Accel::Tcg => ("qemu", "maximum"),
    };
    ensure!(
        !dir.display().to_string().contains('&'),
        "a path with & does not fit into XML"
    );
    Ok(format!(
        "<domain type='{kind}'>\n\
         <name>sushy</name><uuid>{domain}</uuid>\n\
         <memory unit='MiB'>512</memory><vcpu>2</vcpu><cpu mode='{cpu}'/>\n\
         <os><type arch='x86_64' machine='q35'>hvm</type>\n\
         <loader readonly='yes' type='pflash'>{code}</loader>\n\
         <nvram template='{template}'>{dir}/vars.fd</nvram>\n\
         <boot dev='network'/></os>\n\
         <features><acpi/><apic/></features>\n\
         <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot>\n\
         <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>\n\
         <disk type='file' device='disk'><driver name='qemu' type='raw' cache='unsafe' discard='unmap'/>\n\
         <source file='{disk}'/><target dev='vda' bus='virtio'/></disk>\n\
         <interface type='bridge'><mac address='{MAC}'/><source bridge='{bridge}'/>\n\
         <model type='virtio'/></interface>\n\
         <serial type='file'><source path='{serial}' append='on'/><target port='0'/></serial>\n\
         <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>\n\
         </devices></domain>\n",
        code = code.display(),
        template = template.display(),
        dir = dir.display(),
        disk = disk.display(),
        bridge = netns::BRIDGE,
        serial = serial.display(),
    ))
}
