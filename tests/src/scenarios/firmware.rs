//! What a machine's firmware remembers of its last user.

use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::ramdisks::SMALL_MIB;
use super::ramdisks::accel;
use super::ramdisks::work;
use crate::deploy::Guest as Instance;
use crate::deploy::Node;
use crate::first_beat;
use crate::first_beat::Arch;
use crate::first_beat::Boot;
use crate::first_beat::Guest;
use crate::first_beat::guest::VARIABLES;
use crate::initramfs;
use crate::initramfs::Extra;
use crate::lone::Api;
use crate::paths::Paths;
use crate::qemu::Firmware;
use crate::world;
use crate::world::MachineOptions;

/// Vendor of UEFI's own variables.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Some vendor.
const ACME: &str = "5f8d5a10-6f5c-4b5e-9d3e-0a7c3c5e0f11";
/// Where the planted variables lie in the ramdisk.
const PLANTS: &str = "etc/wrought/plants";

/// A machine whose kernel has crashed and that had an instance: cleaning takes
/// the crash records and the instance's boot entry out of its firmware, and
/// leaves all other entries and variables as they are.
pub(super) async fn memory(context: &mut Context) -> Result<()> {
    let account = context.account.clone();
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let accel = accel(context, &paths).await?;
    let work = work(&paths)?;
    let guest = Guest {
        arch: Arch::X86_64,
        memory_mib: SMALL_MIB,
        boot: Boot::Uki(paths.ramdisk_file("uki.efi")?),
        append: String::new(),
    };
    first_beat::crash(&guest, &Api::start().await?, accel, work.path()).await?;
    account.say("the kernel has crashed, and the firmware has a record of it");

    let mut files = initramfs::shell(&paths)?;
    files.extend(plants());
    let manager = "etc/wrought/hardware-managers.d/planter";
    files.push(Extra::program(manager, PLANTER));
    let options = world::Options {
        ramdisk_files: files,
        ..world::Options::default()
    };
    let world = context.start_with(options).await?;
    let options = MachineOptions::new(Firmware::Uefi);
    let bmc = world.add_machine("memory", options).await?;
    std::fs::copy(work.path().join(VARIABLES), bmc.machine().file(VARIABLES))?;
    let image = world.offer_image("tiny")?;
    let node = Node::enrol(world, &bmc, "ipxe", &account).await?;
    node.api
        .set(&node.uuid, &[("/automated_clean", json!(false))])
        .await?;
    node.make_available().await?;
    node.set_image(&image).await?;
    node.deploy(&Instance::random()).await?;
    node.go("deleted", json!({}), "available").await?;
    node.go("manage", json!({}), "manageable").await?;

    let said = clean(
        &node,
        &["plant", "erase_pstore", "clean_uefi_nvram", "look"],
    )
    .await?;
    has(&said, &["erase_pstore: dmesg-efi", "deleted"])?;
    for gone in ["\"Old 起動 🚀\" HD(", "\"debian\" HD("] {
        has(&said, &["clean_uefi_nvram: Boot", gone, "removed"])?;
    }
    has(&said, &["Boot0A02 \"Kept 起動 🚀\"", "stays"])?;
    has(&said, &["Boot0A03", "stays"])?;
    // The firmware's own: its set-up, and the network that it boots from.
    has(&said, &["\"UiApp\"", "stays"])?;
    has(&said, &["UEFI PXEv4", "stays"])?;
    let order = |when: &str| -> Result<Vec<String>> {
        let marker = format!("hardware manager planter: order {when} ");
        let Some((_, rest)) = said.split_once(&marker) else {
            bail!("the console does not say {marker:?}");
        };
        let digits: Vec<char> = rest.chars().take_while(char::is_ascii_hexdigit).collect();
        Ok(digits
            .chunks(4)
            .map(|number| number.iter().collect())
            .collect())
    };
    let (before, after) = (order("before")?, order("after")?);
    let removed: Vec<&String> = before
        .iter()
        .filter(|entry| !after.contains(entry))
        .collect();
    ensure!(
        removed.contains(&&"010a".to_owned()) && removed.len() == 2,
        "BootOrder was {before:?} and is {after:?}"
    );
    let kept: Vec<&String> = before
        .iter()
        .filter(|entry| !removed.contains(entry))
        .collect();
    ensure!(
        kept == after.iter().collect::<Vec<_>>(),
        "BootOrder was {before:?} and is {after:?}: others went or moved"
    );
    account.say("crash records and boot entries of disks are deleted; UTF-16 names and foreign bytes are as they were");

    let said = clean(&node, &["erase_pstore", "clean_uefi_nvram"]).await?;
    for line in ["the kernel keeps no crash records", "boot entries matches"] {
        ensure!(said.contains(line), "the second time: no {line:?}");
    }
    Ok(())
}

/// Runs steps, and gives what the console has said.
async fn clean(node: &Node, steps: &[&str]) -> Result<String> {
    let step = |step: &&str| -> Value {
        let interface = match *step {
            "plant" | "look" => "vendor",
            _ => "deploy",
        };
        json!({"interface": interface, "step": step})
    };
    let steps: Vec<Value> = steps.iter().map(step).collect();
    let console = node.serial.from_now();
    node.go("clean", json!({"clean_steps": steps}), "manageable")
        .await?;
    Ok(console.text())
}

/// Whether a line has all of these.
fn has(said: &str, parts: &[&str]) -> Result<()> {
    let found = said
        .lines()
        .any(|line| parts.iter().all(|part| line.contains(part)));
    ensure!(found, "the console has no line with {parts:?}");
    Ok(())
}

/// Variables as the kernel shows them: attributes first.
fn plants() -> Vec<Extra> {
    // Non-volatile, for boot services and the running system.
    let attributes = 7u32.to_le_bytes();
    let mut odd = option("ab", &on_pci("\\y.efi"));
    // Half a character, and vendor data behind the path.
    odd[6..8].copy_from_slice(&[0x00, 0xd8]);
    odd.extend([0xde, 0xad, 0, 0xff]);
    [
        (
            "Boot0A01",
            GLOBAL,
            option("Old 起動 🚀", &on_disk("\\EFI\\old\\x.efi")),
        ),
        (
            "Boot0A02",
            GLOBAL,
            option("Kept 起動 🚀", &on_pci("\\EFI\\日本\\x.efi")),
        ),
        ("Boot0A03", GLOBAL, odd),
        // Somebody else's, by the name of an entry that goes.
        (
            "Boot0A01",
            ACME,
            option("HD(1)", &on_disk("\\EFI\\x\\shimx64.efi")),
        ),
        ("Licence", ACME, (0..=255).collect()),
    ]
    .into_iter()
    .map(|(name, vendor, value)| Extra {
        path: format!("{PLANTS}/{name}-{vendor}"),
        mode: 0o644,
        content: [&attributes[..], &value].concat(),
    })
    .collect()
}

fn utf16(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}

/// `EFI_LOAD_OPTION` (UEFI 2.10, §3.1.3).
fn option(description: &str, path: &[u8]) -> Vec<u8> {
    let length = u16::try_from(path.len()).unwrap_or(u16::MAX);
    let mut bytes = 1u32.to_le_bytes().to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(utf16(description));
    bytes.extend(path);
    bytes
}

/// A node of a device path (§10.3.1).
fn node(kind: u8, subtype: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = vec![kind, subtype];
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// A file (§10.3.5.4), and the end.
fn file(name: &str) -> Vec<u8> {
    [node(4, 4, &utf16(name)), node(0x7f, 0xff, &[])].concat()
}

/// A file on a partition of a GPT (§10.3.5.1).
fn on_disk(name: &str) -> Vec<u8> {
    let mut drive = 1u32.to_le_bytes().to_vec();
    drive.extend(2048u64.to_le_bytes());
    drive.extend(4096u64.to_le_bytes());
    drive.extend(0x1234_5678_9abc_def0_1122_3344_5566_7788_u128.to_le_bytes());
    drive.extend([2, 2]);
    [node(4, 1, &drive), file(name)].concat()
}

/// A file on a device at PciRoot(0x0)/Pci(0x3,0x0).
fn on_pci(name: &str) -> Vec<u8> {
    let mut root = 0x0a03_41d0_u32.to_le_bytes().to_vec();
    root.extend([0; 4]);
    [node(2, 1, &root), node(1, 1, &[0, 3]), file(name)].concat()
}

/// Plants the variables, and looks what is left of them.
const PLANTER: &str = r##"#!/bin/sh
vars=/sys/firmware/efi/efivars
order=$vars/BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c
gone=Boot0A01-8be4df61-93ca-11d2-aa0d-00e098032b8c
fail() { echo "{\"status\": \"failed\", \"message\": \"$1\"}"; exit 0; }
# A variable is written at once.
put() { busybox dd if="$1" of="$2" bs=65536 conv=notrunc 2>/dev/null || fail "$2 cannot be written"; }
say_order() {
    # Without the attributes; two bytes an entry.
    hex=$(busybox tail -c +5 $order | busybox hexdump -v -e '1/1 "%02x"')
    echo "{\"progress\": 50, \"message\": \"order $1 $hex\"}"
}
if [ "$1" = describe ]; then
    echo '{"contract": 1, "version": "1", "support": 3, "steps": ['
    echo '{"interface": "vendor", "step": "plant", "kinds": ["clean"]},'
    echo '{"interface": "vendor", "step": "look", "kinds": ["clean"]}]}'
    exit 0
fi
cd /etc/wrought/plants || fail "no plants"
case "$(busybox cat)" in
*'"step":"plant"}}')
    for name in *; do put $name $vars/$name; done
    busybox cat $order >/run/order
    printf '\001\012\002\012\003\012' >>/run/order
    put /run/order $order
    say_order before
    ;;
*'"step":"look"}}')
    say_order after
    for name in *; do
        if [ $name = $gone ]; then
            [ -e $vars/$name ] && fail "$name is still there"
        else
            busybox cmp $name $vars/$name >&2 || fail "$name has changed"
        fi
    done
    ;;
esac
echo '{"status": "done"}'
"##;
