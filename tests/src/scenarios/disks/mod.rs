//! Disks of every kind in one machine, emptied by our ramdisk and read raw
//! on this side afterwards. One boot, many checks.

mod dress;
mod trouble;

use std::cell::OnceCell;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::bare;
use crate::bare::Machine;
use crate::bare::Parts;
use crate::bare::drives::Bus;
use crate::bare::drives::Drive;
use crate::lone::agent::node;
use crate::paths::Paths;
use crate::rundir::RunDir;
use dress::dress;
use dress::pattern;
use dress::refill;
use dress::signatures;

/// Size of each disk, its pattern on it from end to end.
const BYTES: u64 = 32 << 20;
/// A tenant's data: found on a disk, it was not erased.
const SECRET: &str = "tenant-data-";
/// A step on disks of this size, under translation on a busy machine.
const STEP_LIMIT: Duration = Duration::from_secs(300);
/// Serial numbers, in the order in which the disks are attached.
const VIRTIO: &str = "virtio-small";
const VIRTIO_LARGE: &str = "virtio-large";
const SCSI: &str = "scsi-small";
const SCSI_LARGE: &str = "scsi-large";
const SAS: &str = "sas-small";
const SATA: &str = "sata-small";
const NVME: &str = "nvme-small";
const NVME_LARGE: &str = "nvme-large";
const READ_ONLY: &str = "read-only";
const SKIPPED: &str = "to-be-skipped";
const SHARED: &str = "shared-gfs2";
const GPFS: &str = "shared-gpfs";
const VMFS: &str = "shared-vmfs";
const MEDIA: &str = "virtual-media";

/// Those that every erase takes.
const WRITABLE: [&str; 8] = [
    VIRTIO,
    VIRTIO_LARGE,
    SCSI,
    SCSI_LARGE,
    SAS,
    SATA,
    NVME,
    NVME_LARGE,
];

/// A machine with all of them.
struct Rig {
    run: RunDir,
    machine: Machine,
    /// The agent's list of its disks.
    listed: OnceCell<String>,
}

/// The whole story of a machine with disks of every kind.
pub(super) async fn erase(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let paths = Paths::find()?;
    let run = RunDir::create(&paths.runs, "disks")?;
    let at = |serial: &str| run.scratch(serial);
    let drive = |bus, serial: &str| Drive::new(bus, serial, at(serial));
    let drives = vec![
        drive(Bus::Virtio, VIRTIO),
        drive(Bus::Virtio, VIRTIO_LARGE).large_sectors(),
        drive(Bus::Scsi, SCSI),
        drive(Bus::Scsi, SCSI_LARGE).large_sectors(),
        drive(Bus::Sas, SAS),
        drive(Bus::Sata, SATA),
        drive(Bus::Nvme, NVME),
        drive(Bus::Nvme, NVME_LARGE).large_sectors(),
        drive(Bus::Scsi, READ_ONLY).read_only(),
        drive(Bus::Virtio, SKIPPED),
        drive(Bus::Virtio, SHARED),
        drive(Bus::Scsi, GPFS),
        drive(Bus::Scsi, VMFS),
        drive(Bus::Usb, MEDIA),
    ];
    for drive in &drives {
        bare::fill(&drive.path, BYTES, SECRET)?;
        dress(drive)?;
        ensure!(
            !signatures(&drive.path)?.is_empty(),
            "{} does not look used, so that nothing could be wiped",
            drive.serial
        );
    }
    let parts = Parts {
        drives,
        ..Parts::default()
    };
    let machine = Machine::boot(&run, "disks", context.accel, &parts).await?;
    account.say("the machine is up");
    let rig = Rig {
        run,
        machine,
        listed: OnceCell::new(),
    };
    let done = rig.all(&account).await;
    rig.machine.stop().await;
    done
}

impl Rig {
    fn at(&self, serial: &str) -> PathBuf {
        self.run.scratch(serial)
    }

    async fn all(&self, account: &crate::account::Account) -> Result<()> {
        self.enumeration().await?;
        account.say("every disk is listed with what it is");
        self.metadata().await?;
        account
            .say("metadata is gone, data is not; guarded, skipped and read-only disks are named");
        self.express().await?;
        account.say("express: NVMe drives have erased themselves");
        self.everything().await?;
        account.say("no pattern is left on any disk that was to be erased");
        self.random().await?;
        account.say("random data from end to end");
        self.logs().await?;
        self.lockdown().await?;
        account.say("its logs were collected, and it has left the network");
        Ok(())
    }

    fn node(&self, internal: Value) -> Value {
        let properties = json!({"skip_block_devices": [{"serial": SKIPPED}]});
        node(properties, internal)
    }

    /// Hints that match nothing: the answer lists all disks.
    async fn enumeration(&self) -> Result<()> {
        let node = node(json!({"root_device": {"serial": "nothing"}}), json!({}));
        let params = json!({
            "step": {"interface": "deploy", "step": "write_image", "args": {"image_info": {
                "id": "none", "urls": ["http://10.0.2.2:1/none"], "disk_format": "raw",
                "os_hash_algo": "sha256", "os_hash_value": "00".repeat(32),
            }}},
            "node": node, "ports": [],
        });
        let done = self
            .machine
            .agent()
            .command("deploy.execute_deploy_step", params, STEP_LIMIT)
            .await?;
        let Err(error) = done else {
            bail!("a root disk was found for hints that match nothing");
        };
        let details = error["details"].as_str().unwrap_or_default();
        self.listed.get_or_init(|| details.to_owned());
        let wanted: [(&str, &[&str]); 10] = [
            (
                VIRTIO,
                &[
                    "/dev/vd",
                    "tran virtio",
                    "by_path /dev/disk/by-path/pci-0000:00:",
                ],
            ),
            (VIRTIO_LARGE, &["/dev/vd", "size 0.03 GiB"]),
            (
                SCSI,
                &[
                    "/dev/sd",
                    "vendor QEMU",
                    "model QEMU HARDDISK",
                    "wwn 0x5000c50000000002",
                    "hctl ",
                    "-scsi-0:0:",
                ],
            ),
            (SCSI_LARGE, &["wwn 0x5000c50000000003"]),
            (
                SAS,
                &[
                    "tran sas",
                    "wwn 0x5000c50000000004",
                    "by_path /dev/disk/by-path/pci-0000:00:",
                ],
            ),
            (
                SATA,
                &["tran sata", "vendor ATA", "-ata-1.0", "rotational true"],
            ),
            (
                NVME,
                &[
                    "/dev/nvme",
                    "tran nvme",
                    "model QEMU NVMe Ctrl",
                    "-nvme-1",
                    "rotational false",
                ],
            ),
            (NVME_LARGE, &["tran nvme"]),
            (READ_ONLY, &["read-only"]),
            (MEDIA, &["tran usb"]),
        ];
        for (serial, texts) in wanted {
            let found = self.line(serial)?;
            for text in texts {
                ensure!(found.contains(text), "{serial} lacks {text:?}: {found}");
            }
        }
        let order: Vec<&str> = self
            .lines()
            .filter_map(|disk| disk.split(' ').next())
            .collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        ensure!(order == sorted, "the order is not by name: {order:?}");
        Ok(())
    }

    /// What the agent says of each disk: its name first.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let listed = self.listed.get().map_or("", String::as_str);
        let (_, disks) = listed.split_once("disks: ").unwrap_or_default();
        disks.split("; ")
    }

    fn line(&self, serial: &str) -> Result<&str> {
        let wanted = format!("serial {serial}");
        self.lines()
            .find(|line| line.contains(&wanted))
            .with_context(|| format!("{serial} is not listed: {:?}", self.listed.get()))
    }

    /// The disk's name in the machine.
    fn device(&self, serial: &str) -> Result<String> {
        let line = self.line(serial)?;
        let name = line.split(' ').next().unwrap_or_default();
        ensure!(name.starts_with("/dev/"), "no name in {line:?}");
        Ok(name.to_owned())
    }

    /// Metadata goes, data stays; the guard refuses one disk and names it.
    async fn metadata(&self) -> Result<()> {
        let step = "erase_devices_metadata";
        let refused = self.refused(step, json!({})).await?;
        let shared = [
            (SHARED, "gfs2 at 0x10000"),
            (GPFS, "GPFS"),
            (VMFS, "VMFS partition"),
        ];
        ensure!(
            refused.matches(" holds ").count() == shared.len(),
            "the guard's refusal: {refused}"
        );
        for (serial, what) in shared {
            let device = self.device(serial)?;
            let named = refused
                .split("; ")
                .any(|part| part.contains(&device) && part.contains(what));
            ensure!(
                named,
                "the guard does not name {device} ({serial}) with {what:?}: {refused}"
            );
            ensure!(
                !signatures(&self.at(serial))?.is_empty(),
                "{serial} was refused and wiped all the same"
            );
        }
        // The others were done all the same; again, and all is well.
        let report = self
            .done(step, json!({"wipe_special_filesystems": false}))
            .await?;
        for serial in WRITABLE.into_iter().chain([SHARED, GPFS, VMFS]) {
            self.says(&report, serial, "metadata wiped", "metadata-only")?;
            let disk = self.at(serial);
            self.clean(&disk)?;
            ensure!(
                bare::find(&disk, SECRET)?.is_some(),
                "a metadata wipe took all of {serial}"
            );
        }
        self.says(&report, READ_ONLY, "skipped: read-only", "untouched")?;
        let skipped = "skipped: listed in skip_block_devices";
        self.says(&report, SKIPPED, skipped, "untouched")?;
        self.says(&report, MEDIA, "skipped: virtual media", "untouched")?;
        self.untouched()
    }

    async fn express(&self) -> Result<()> {
        let report = self.done("erase_devices_express", json!({})).await?;
        for serial in [NVME, NVME_LARGE] {
            let method = "NVMe format, user data erase";
            let disk = self.says(&report, serial, method, "user-data-erase")?;
            // The best of what this drive has: it knows no sanitize.
            ensure!(
                disk["drive_means"] == json!([method]) && disk["failed"] == json!([]),
                "{serial}: {disk}"
            );
            self.erased(serial)?;
        }
        self.says(&report, VIRTIO, "metadata wiped", "metadata-only")?;
        ensure!(bare::find(&self.at(VIRTIO), SECRET)?.is_some());
        // Full again, for the next.
        for serial in [NVME, NVME_LARGE] {
            refill(&self.at(serial))?;
        }
        Ok(())
    }

    /// QEMU's NVMe has a format and neither sanitize nor cryptographic erase,
    /// its other disks have no erase of their own.
    async fn everything(&self) -> Result<()> {
        let refused = self
            .refused("erase_devices", json!({"disk_erasure_concurrency": 4}))
            .await?;
        let device = self.device(READ_ONLY)?;
        ensure!(
            refused.contains("1 of ") && refused.contains(&format!("{device} is read-only")),
            "{device}, a read-only disk, was not refused: {refused}"
        );
        for serial in [NVME, NVME_LARGE] {
            refill(&self.at(serial))?;
        }
        let internal = json!({
            "agent_erase_skip_read_only": true,
            "disk_erasure_concurrency": 4,
        });
        let report = self.done("erase_devices", internal).await?;
        for serial in WRITABLE.into_iter().chain([SHARED, GPFS, VMFS]) {
            let (method, level) = match serial {
                NVME | NVME_LARGE => ("NVMe format, user data erase", "user-data-erase"),
                _ => ("overwritten with zeroes", "overwrite"),
            };
            self.says(&report, serial, method, level)?;
            self.erased(serial)?;
        }
        self.says(&report, READ_ONLY, "skipped: read-only", "untouched")?;
        self.untouched()
    }

    /// Passes as Ironic's settings have them.
    async fn random(&self) -> Result<()> {
        let internal = json!({
            "agent_erase_skip_read_only": true,
            "agent_enable_nvme_secure_erase": false,
            "agent_erase_devices_iterations": 1,
            "agent_erase_devices_zeroize": false,
            "disk_erasure_concurrency": 4,
        });
        let report = self.done("erase_devices", internal).await?;
        for serial in WRITABLE {
            self.says(
                &report,
                serial,
                "overwritten 1 time with random data",
                "overwrite",
            )?;
            let content = std::fs::read(self.at(serial))?;
            for (number, piece) in content.chunks(1 << 16).enumerate() {
                let zeroes = piece.iter().filter(|byte| **byte == 0).count();
                ensure!(
                    zeroes < piece.len() / 64,
                    "{serial} does not look random at {:#x}",
                    number << 16
                );
            }
        }
        Ok(())
    }

    async fn done(&self, step: &str, internal: Value) -> Result<Value> {
        let node = self.node(internal);
        match self
            .machine
            .agent()
            .clean("deploy", step, &node, STEP_LIMIT)
            .await?
        {
            Ok(report) => Ok(report),
            Err(details) => bail!("{step} failed: {details}"),
        }
    }

    async fn refused(&self, step: &str, internal: Value) -> Result<String> {
        let node = self.node(internal);
        match self
            .machine
            .agent()
            .clean("deploy", step, &node, STEP_LIMIT)
            .await?
        {
            Ok(report) => bail!("{step} succeeded: {report}"),
            Err(details) => Ok(details),
        }
    }

    /// What the report says of a disk.
    fn says<'a>(
        &self,
        report: &'a Value,
        serial: &str,
        method: &str,
        level: &str,
    ) -> Result<&'a Value> {
        let disks = report.as_array().into_iter().flatten();
        let mut disks = disks.filter(|disk| disk["serial"] == serial);
        let Some(disk) = disks.next() else {
            bail!("{serial} is not in the report: {report}");
        };
        ensure!(
            disk["method"] == method && disk["level"] == level,
            "{serial}: expected {method:?} ({level}), found {disk}"
        );
        Ok(disk)
    }

    /// Read raw and whole: nothing of the tenant's is there.
    fn erased(&self, serial: &str) -> Result<()> {
        if let Some(at) = bare::find(&self.at(serial), &SECRET[..8])? {
            bail!("{serial} still has the tenant's data at {at:#x}");
        }
        Ok(())
    }

    /// Neither blkid nor we see anything.
    fn clean(&self, disk: &Path) -> Result<()> {
        let found = signatures(disk)?;
        ensure!(found.is_empty(), "{} still shows: {found}", disk.display());
        ensure!(
            bare::find(disk, "EFI PART")?.is_none(),
            "{} still has a GPT",
            disk.display()
        );
        Ok(())
    }

    /// Disks that nobody may touch have all of their bytes.
    fn untouched(&self) -> Result<()> {
        for serial in [READ_ONLY, SKIPPED, MEDIA] {
            let content = std::fs::read(self.at(serial))?;
            ensure!(
                content[1 << 20..2 << 20] == pattern()[1 << 20..2 << 20]
                    && content[content.len() - (1 << 19)..content.len() - (1 << 18)]
                        == pattern()[content.len() - (1 << 19)..content.len() - (1 << 18)]
                    && &content[510..512] == b"\x55\xaa",
                "{serial} was written"
            );
        }
        Ok(())
    }
}
