//! Hardware managers that a test brings along in the ramdisk.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::archive;
use crate::bmc::Bmc;
use crate::deploy::Node;
use crate::deploy::OPERATION;
use crate::initramfs;
use crate::initramfs::Extra;
use crate::paths::Paths;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;
use crate::world::World;

/// A manageable machine whose ramdisk has tools, a shell and this manager.
async fn machine(
    context: &mut Context,
    manager: &str,
    disks: &'static [u64],
) -> Result<(Bmc, Node)> {
    let account = context.account.clone();
    let mut files = initramfs::shell(&Paths::find()?)?;
    let path = "etc/wrought/hardware-managers.d/acme";
    files.push(Extra::program(path, manager));
    let options = world::Options {
        ramdisk: "ramdisk-tools",
        ramdisk_files: files,
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let options = MachineOptions {
        memory_mib: 1024,
        disks,
        ..MachineOptions::new(Firmware::Bios)
    };
    let bmc = world.add_machine("acme", options).await?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.go("manage", json!({}), "manageable").await?;
    Ok((bmc, node))
}

/// A step of the test's own hardware manager, and burn-ins, in a real machine.
pub(super) async fn steps(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let (bmc, node) = machine(context, MANAGER, &[1 << 30]).await?;
    let info = |key: &str| format!("/driver_info/agent_burnin_{key}");
    let settings = [
        (info("cpu_timeout"), json!(5)),
        (info("vm_timeout"), json!(5)),
        (info("vm_vm-bytes"), json!("32M")),
        (info("fio_disk_runtime"), json!(5)),
    ];
    let settings: Vec<(&str, Value)> = settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    node.api.set(&node.uuid, &settings).await?;
    let steps = json!({"clean_steps": [
        {"interface": "vendor", "step": "flash", "args": {"file": "1.1"}},
        {"interface": "deploy", "step": "burnin_cpu"},
        {"interface": "deploy", "step": "burnin_memory"},
        {"interface": "deploy", "step": "burnin_disk"},
    ]});
    let console = node.serial.from_now();
    node.go("clean", steps, "manageable").await?;
    for line in [
        "hardware manager acme 7 (support 3): vendor.flash",
        "hardware manager acme: flashing 1.1",
        "calls stress-ng --cpu 0 --timeout 5 --metrics-brief",
        "calls stress-ng --vm 0 --vm-bytes 32M --verify --timeout 5 --metrics-brief",
        "calls fio --rw=readwrite",
    ] {
        ensure!(
            console.text().contains(line),
            "the ramdisk's console does not say {line:?}"
        );
    }
    let shown = node.api.node(&node.uuid).await?;
    let known = &shown["driver_internal_info"]["hardware_manager_version"];
    ensure!(known["acme"] == "7", "hardware_manager_version is {known}");

    let failing = json!({"clean_steps": [
        {"interface": "vendor", "step": "flash", "args": {"file": "bad"}},
    ]});
    let watch = node.watch();
    node.api.provision(&node.uuid, "clean", failing).await?;
    watch
        .until("clean failed", OPERATION)
        .await
        .context("a step that fails")?;
    let error = node.api.node(&node.uuid).await?["last_error"].clone();
    ensure!(
        error
            .as_str()
            .is_some_and(|error| error.contains("hardware manager acme: bad checksum")),
        "last_error is {error}"
    );
    logs(context.world()?, &node.uuid)?;
    account.say("the failed step's ramdisk has left its logs");

    // A disk that somebody uses, whoever it is, fails an erase by its name.
    node.go("manage", json!({}), "manageable").await?;
    let occupied = json!({"clean_steps": [
        {"interface": "vendor", "step": "occupy"},
        {"interface": "deploy", "step": "erase_devices_metadata"},
    ]});
    let watch = node.watch();
    node.api.provision(&node.uuid, "clean", occupied).await?;
    watch
        .until("clean failed", OPERATION)
        .await
        .context("an erase of swap")?;
    let error = node.api.node(&node.uuid).await?["last_error"].clone();
    ensure!(
        error
            .as_str()
            .is_some_and(|error| error.contains("/dev/vda") && error.contains("swap")),
        "last_error is {error}"
    );
    let found = signatures(&bmc.machine().spec().disks[0].path)?;
    ensure!(found.contains("TYPE=swap"), "the swap is gone: {found:?}");
    Ok(())
}

/// The server has kept the logs of the ramdisk in which the step failed.
fn logs(world: &World, node: &str) -> Result<()> {
    let folder = world.run().scratch("state").join("logs").join(node);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .with_context(|| format!("no logs in {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let archive = files.last().context("no archive of logs")?;
    for (file, text) in [
        ("agent.log", "bad checksum"),
        ("dmesg.txt", "Linux version"),
    ] {
        let content = archive::member(archive, file)?;
        ensure!(content.contains(text), "{file} lacks {text:?}");
    }
    Ok(())
}

/// As docs/hardware-managers.md has it.
const MANAGER: &str = r#"#!/bin/sh
case "$1" in
describe)
    support=0
    [ -d /sys/bus/virtio/drivers/virtio_blk ] && support=3
    echo "{\"contract\": 1, \"version\": \"7\", \"support\": $support, \"steps\": ["
    echo '{"interface": "vendor", "step": "flash", "kinds": ["clean"], "timeout": 60,'
    echo '"argsinfo": {"file": {"description": "What to flash", "required": true}}},'
    echo '{"interface": "vendor", "step": "occupy", "kinds": ["clean"]}]}'
    ;;
run)
    input=$(busybox cat)
    case "$input" in
    *'"step":"occupy"}}')
        busybox mkswap /dev/vda >&2 && busybox swapon /dev/vda >&2 &&
            echo '{"status": "done"}'
        ;;
    *'"file":"bad"'*) echo '{"status": "failed", "message": "bad checksum"}' ;;
    *)
        echo '{"progress": 50, "message": "flashing 1.1"}'
        echo '{"status": "done", "result": "flashed"}'
        ;;
    esac
    ;;
esac
"#;

/// Disks: two for the node's own array, two for a tenant's, one with LUKS, one
/// with ZFS.
const STACKED: &[u64] = &[1 << 30; 6];

/// What blkid sees on the last four.
const STACKED_KINDS: [&str; 4] = [
    "linux_raid_member",
    "linux_raid_member",
    "crypto_LUKS",
    "zfs_member",
];

/// The node's own array is made anew over what a tenant left and is empty then;
/// a metadata wipe takes LVM on a tenant's array down, and leaves the own one.
pub(super) async fn stacked_storage(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let (bmc, node) = machine(context, STACKS, STACKED).await?;
    node.api
        .set(&node.uuid, &[("/raid_interface", json!("agent"))])
        .await?;
    let hint = |name: &str| json!({ "name": name });
    let target = json!({"logical_disks": [{
        "controller": "software", "raid_level": "1", "size_gb": "MAX", "volume_name": "own",
        "physical_disks": [hint("/dev/vda"), hint("/dev/vdb")],
    }]});
    let path = format!("/v1/nodes/{}/states/raid", node.uuid);
    node.api.call(Method::PUT, &path, Some(&target)).await?;
    let step = |interface: &str, step: &str| json!({"interface": interface, "step": step});
    let steps = json!({"clean_steps": [
        step("raid", "create_configuration"),
        step("vendor", "spoil"),
        step("raid", "create_configuration"),
        step("vendor", "look"),
        step("vendor", "stack"),
        step("power", "hold"),
        step("deploy", "erase_devices_metadata"),
        step("vendor", "stacked"),
    ]});
    let console = node.serial.from_now();
    node.go("clean", steps, "clean hold").await?;
    let disks = &bmc.machine().spec().disks;
    for (disk, kind) in disks[2..].iter().zip(STACKED_KINDS) {
        let found = signatures(&disk.path)?;
        ensure!(
            found.contains(&format!("TYPE={kind}")),
            "{} should be {kind}: {found:?}",
            disk.path.display()
        );
    }
    account.say("blkid finds what a tenant has left");
    node.go("unhold", json!({}), "manageable").await?;
    let text = console.text();
    for line in ["mapping vg-data (dm-0) stopped", "array md5 stopped"] {
        ensure!(text.contains(line), "the console does not say {line:?}");
    }
    for disk in &disks[..2] {
        let found = signatures(&disk.path)?;
        ensure!(
            found.contains("PTTYPE=dos"),
            "the own array's disk {} has lost its table: {found:?}",
            disk.path.display()
        );
    }
    for disk in &disks[2..] {
        let found = signatures(&disk.path)?;
        ensure!(
            found.is_empty(),
            "{} still shows {found:?}",
            disk.path.display()
        );
    }
    account.say("blkid finds nothing on the tenant's disks");

    let steps = json!({"clean_steps": [step("raid", "delete_configuration")]});
    node.go("clean", steps, "manageable").await?;
    for disk in disks {
        let found = signatures(&disk.path)?;
        ensure!(
            found.is_empty(),
            "after the RAID is deleted {} still shows {found:?}",
            disk.path.display()
        );
    }
    let kept = node.api.node(&node.uuid).await?["raid_config"].clone();
    ensure!(kept == json!({}), "raid_config is still {kept}");
    Ok(())
}

/// What util-linux's blkid sees on a disk.
fn signatures(disk: &Path) -> Result<String> {
    let output = Command::new("/usr/sbin/blkid")
        .args(["-p", "-o", "export"])
        .arg(disk)
        .output()
        .context("starting blkid")?;
    // 2: nothing was found.
    ensure!(
        matches!(output.status.code(), Some(0 | 2)),
        "blkid: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes what tenants leave behind.
const STACKS: &str = r##"#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
put() { printf "$3" | busybox dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
done_() { echo '{"status": "done"}'; exit 0; }
fail() { echo "{\"status\": \"failed\", \"message\": \"$1\"}"; exit 0; }
lvm_() {
    lvm "$@" --config 'activation{udev_sync=0 udev_rules=0} devices{obtain_device_list_from_udev=0}' >&2
}
if [ "$1" = describe ]; then
    echo '{"contract": 1, "version": "1", "support": 3, "steps": ['
    for step in spoil look stack; do
        echo "{\"interface\": \"vendor\", \"step\": \"$step\", \"kinds\": [\"clean\"]},"
    done
    echo '{"interface": "vendor", "step": "stacked", "kinds": ["clean"]}]}'
    exit 0
fi
# What is to be run stands at the end.
case "$(busybox cat)" in
*'"step":"spoil"}}')
    # A btrfs on the array, which is then taken apart carelessly.
    put /dev/md0 65600 _BHRfS_M
    busybox sync
    mdadm --stop /dev/md0 >&2 || fail "md0 does not stop"
    for disk in vda vdb; do
        mdadm --zero-superblock /dev/${disk}1 >&2
        busybox dd if=/dev/zero of=/dev/$disk bs=512 count=1 conv=notrunc 2>/dev/null
        busybox blockdev --rereadpt /dev/$disk
    done
    done_
    ;;
*'"step":"look"}}')
    found=$(busybox dd if=/dev/md0 bs=1 skip=65600 count=8 2>/dev/null)
    [ "$found" = _BHRfS_M ] && fail "the old btrfs shows through the new array"
    done_
    ;;
*'"step":"stack"}}')
    mdadm --create /dev/md5 --run --metadata=1.2 --level=1 --raid-devices=2 --name=tenant \
        --assume-clean /dev/vdc /dev/vdd >&2 || fail "no tenant's array"
    lvm_ pvcreate -ff -y /dev/md5 || fail pvcreate
    lvm_ vgcreate vg /dev/md5 || fail vgcreate
    lvm_ lvcreate -y -Zn -Wn --noudevsync -n data -L 100M vg || fail lvcreate
    put /dev/mapper/vg-data 1080 '\123\357'
    put /dev/vde 0 'LUKS\272\276\000\002'
    for label in 0 262144 1073217536 1073479680; do
        for slot in 0 1 2 3 4 5 6 7; do
            put /dev/vdf $((label + 131072 + slot * 1024)) '\014\261\272\000\000\000\000\000'
        done
    done
    busybox sync
    done_
    ;;
*'"step":"stacked"}}')
    for gone in /sys/block/md5/md/dev-vdc /sys/block/dm-0/dm; do
        [ -e $gone ] && fail "$gone is still there"
    done
    [ "$(busybox cat /sys/block/md0/md/array_state)" = clear ] && fail "the own array is gone"
    [ -e /sys/block/md0/md ] || fail "the own array is gone"
    done_
    ;;
esac
"##;
