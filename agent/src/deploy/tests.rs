//! Whole commands against a plain file that stands for the machine's disk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;
use wrought_wire::command::CommandResult;
use wrought_wire::command::CommandStatus;

use crate::boot::efivars::EfiVars;
use crate::boot::entries;
use crate::command::Agent;
use crate::command::Args;
use crate::command::Registry;
use crate::command::Runner;
use crate::disk::Enumerator;
use crate::disk::listing;
use crate::params::Params;
use crate::params::Words;

const MIB: u64 = 1 << 20;
const NODE: &str = "aaaaaaaa-0000-4000-8000-0000000000b2";

fn run(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{tool}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A folder in place of the firmware's variables, unless the real ones are
/// asked for.
fn efivars(folder: &tempfile::TempDir) -> PathBuf {
    let real = std::env::var_os("WROUGHT_TEST_EFIVARS").map(PathBuf::from);
    real.unwrap_or_else(|| folder.path().join("efivars"))
}

/// One machine with one disk of 256 MiB, in a folder.
struct Machine {
    folder: tempfile::TempDir,
    disk: PathBuf,
    runner: Arc<Runner>,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        File::create(&disk).unwrap().set_len(256 * MIB).unwrap();
        Self::with_disk(folder, disk)
    }

    fn with_disk(folder: tempfile::TempDir, disk: PathBuf) -> Self {
        std::fs::create_dir(folder.path().join("efivars")).unwrap();
        let mut agent = Agent::for_tests();
        agent.only_disk = vec![disk.clone()];
        agent.memory_budget = 48 * MIB;
        let efivars = efivars(&folder);
        let managers = folder.path().join("managers");
        std::fs::create_dir(&managers).unwrap();
        let words = Words::from_lines(&format!(
            "wrought-efivars={}\nwrought-hardware-managers={}",
            efivars.display(),
            managers.display()
        ));
        agent.params = Params::from_words(words).unwrap();
        let mut registry = Registry::default();
        super::register(&mut registry);
        let runner = Arc::new(Runner::new(Arc::new(agent), registry));
        Self {
            folder,
            disk,
            runner,
        }
    }

    async fn run(&self, name: &str, args: Value) -> CommandResult {
        let args: Args = serde_json::from_value(args).unwrap();
        self.runner.execute(name, args, true).await.unwrap()
    }

    fn node(&self) -> Value {
        json!({
            "uuid": NODE,
            "properties": {"root_device": {"name": self.disk}},
            "instance_info": {},
            "driver_internal_info": {"disk_erasure_concurrency": 4},
        })
    }

    /// A raw image of 64 MiB with an EFI system partition that has a loader.
    fn image(&self) -> (PathBuf, String) {
        let path = self.folder.path().join("image.raw");
        let file = File::create(&path).unwrap();
        file.set_len(64 * MIB).unwrap();
        let text = path.to_str().unwrap();
        run(
            "/usr/sbin/sgdisk",
            &[
                "-n",
                "1:2048:+16M",
                "-t",
                "1:ef00",
                "-n",
                "2:0:+32M",
                "-c",
                "2:root",
                text,
            ],
        );
        let esp = self.folder.path().join("esp");
        File::create(&esp).unwrap().set_len(16 * MIB).unwrap();
        let esp_text = esp.to_str().unwrap();
        run("/usr/sbin/mkfs.vfat", &[esp_text]);
        run("mmd", &["-i", esp_text, "::EFI", "::EFI/BOOT"]);
        let loader = self.folder.path().join("loader");
        std::fs::write(&loader, b"MZ").unwrap();
        run(
            "mcopy",
            &[
                "-i",
                esp_text,
                loader.to_str().unwrap(),
                "::EFI/BOOT/BOOTX64.EFI",
            ],
        );
        file.write_all_at(&std::fs::read(&esp).unwrap(), MIB)
            .unwrap();
        let digest = Sha256::digest(std::fs::read(&path).unwrap());
        let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        (path, hex)
    }

    fn write_step(&self, image: &Path, checksum: &str) -> Value {
        json!({
            "step": {
                "interface": "deploy",
                "step": "write_image",
                "args": {
                    "image_info": {
                        "id": "image.raw", "urls": [image], "disk_format": "raw",
                        "container_format": null, "checksum": checksum, "node_uuid": NODE,
                    },
                    "configdrive": {"meta_data": {"uuid": NODE}, "user_data": "hello"},
                },
            },
            "node": self.node(),
            "ports": [],
            "deploy_version": {"wrought": "0.1"},
        })
    }
}

fn error_of(result: CommandResult) -> (String, String) {
    assert_eq!(result.command_status, CommandStatus::Failed);
    let error = result.command_error.unwrap();
    (error.kind, error.details)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_from_steps_to_boot_entry() {
    deploy_and_clean(Machine::new()).await;
}

/// Needs a disk that may be lost, 256 MiB or more, such as a loop device.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "set WROUGHT_TEST_DEVICE to a block device that may be overwritten"]
async fn a_deploy_to_a_real_block_device() {
    let device = PathBuf::from(std::env::var("WROUGHT_TEST_DEVICE").unwrap());
    deploy_and_clean(Machine::with_disk(
        tempfile::tempdir().unwrap(),
        device.clone(),
    ))
    .await;
    let machine = Machine::with_disk(tempfile::tempdir().unwrap(), device);
    let erase = json!({
        "step": {"interface": "deploy", "step": "erase_devices"},
        "node": machine.node(), "ports": [], "clean_version": null,
    });
    let erased = machine.run("clean.execute_clean_step", erase).await;
    assert_eq!(
        erased.command_status,
        CommandStatus::Succeeded,
        "{:?}",
        erased.command_error
    );
    let result = erased.command_result.unwrap();
    let method = result["clean_result"][0]["method"].as_str().unwrap();
    let nvme = machine.disk.to_str().unwrap().contains("nvme");
    let expected = if nvme {
        "NVMe format"
    } else {
        "overwritten with zeroes"
    };
    assert!(method.starts_with(expected), "{method}");
    println!("{method}; {}", listing(&Enumerator::new(&[]).disks()));

    // Mounted, it is out of bounds for all.
    let device = machine.disk.to_str().unwrap();
    run("/usr/sbin/mkfs.ext4", &["-q", device]);
    let point = machine.folder.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    run("/usr/bin/mount", &[device, point.to_str().unwrap()]);
    let (image, checksum) = machine.image();
    let step = machine.write_step(&image, &checksum);
    let written = machine.run("deploy.execute_deploy_step", step).await;
    let mut clean = json!({"step": {"step": "erase_devices_metadata"}, "node": machine.node()});
    let wiped = machine.run("clean.execute_clean_step", clean.clone()).await;
    clean["step"]["step"] = json!("erase_devices");
    let erased = machine.run("clean.execute_clean_step", clean).await;
    run("/usr/bin/umount", &[point.to_str().unwrap()]);
    for (result, kind) in [
        (written, "DeviceNotFound"),
        (wiped, "BlockDeviceEraseError"),
        (erased, "BlockDeviceEraseError"),
    ] {
        let (found, details) = error_of(result);
        assert_eq!(found, kind);
        let reason = format!("in use: mounted at {}", point.display());
        assert!(details.contains(&reason), "{details}");
    }
}

/// Needs an image that is meant for UEFI, with its SHA-256 in a file beside
/// it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "set WROUGHT_TEST_IMAGE to a qcow2 image such as target/images/tiny.qcow2"]
async fn an_image_of_this_project_gets_an_entry() {
    let image = std::env::var("WROUGHT_TEST_IMAGE").unwrap();
    let sums = std::fs::read_to_string(format!("{image}.sha256")).unwrap();
    let machine = Machine::new();
    File::options()
        .write(true)
        .open(&machine.disk)
        .unwrap()
        .set_len(8 << 30)
        .unwrap();
    let mut step = machine.write_step(Path::new(&image), sums.split(' ').next().unwrap());
    step["step"]["args"]["image_info"]["disk_format"] = json!("qcow2");
    let done = machine.run("deploy.execute_deploy_step", step).await;
    assert_eq!(
        done.command_status,
        CommandStatus::Succeeded,
        "{:?}",
        done.command_error
    );
    println!("{}", done.command_result.unwrap());
    let boot = machine
        .run(
            "image.install_bootloader",
            json!({"target_boot_mode": "uefi"}),
        )
        .await;
    assert_eq!(
        boot.command_status,
        CommandStatus::Succeeded,
        "{:?}",
        boot.command_error
    );
    println!("{}", boot.command_result.unwrap());
    let disk = machine.disk.to_str().unwrap();
    let verdict = Command::new("/usr/sbin/sgdisk")
        .args(["-v", "-p", disk])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&verdict.stdout);
    assert!(text.contains("No problems found"), "{text}");
    println!("{text}");
}

async fn deploy_and_clean(machine: Machine) {
    let (image, checksum) = machine.image();
    let steps = machine
        .run("deploy.get_deploy_steps", json!({"node": machine.node()}))
        .await;
    let steps = steps.command_result.unwrap();
    assert_eq!(steps["hardware_manager_version"], json!({"wrought": "0.1"}));

    let request = machine.write_step(&image, &checksum);
    let done = machine
        .run("deploy.execute_deploy_step", request.clone())
        .await;
    assert_eq!(
        done.command_status,
        CommandStatus::Succeeded,
        "{:?}",
        done.command_error
    );
    let result = done.command_result.unwrap();
    assert_eq!(result["deploy_step"], request["step"]);
    let text = result["deploy_result"].as_str().unwrap();
    let start = format!(
        "image (image.raw) written to device {} root_uuid=",
        machine.disk.display()
    );
    assert!(text.starts_with(&start), "{text}");
    assert_eq!(result["digest"], format!("sha256:{checksum}"));
    assert_eq!(result["bytes"], 64 * MIB);
    assert!(result["peak_rss_bytes"].as_u64().unwrap() > MIB);
    assert_eq!(result["configdrive"]["partition"], 3);

    let disk = machine.disk.to_str().unwrap();
    let verdict = Command::new("/usr/sbin/sgdisk")
        .args(["-v", disk])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&verdict.stdout).contains("No problems found"));
    if machine.disk.starts_with("/dev") {
        let name = machine.disk.file_name().unwrap().to_str().unwrap();
        let partition = format!("/sys/class/block/{name}p3/size");
        assert!(
            Path::new(&partition).exists(),
            "the kernel knows the config drive"
        );
    }
    let offset = result["configdrive"]["offset"].as_u64().unwrap();
    let drive = format!("{disk}@@{offset}");
    let read = Command::new("mtype")
        .args(["-i", &drive, "::openstack/latest/user_data"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "hello");

    let uuids = machine.run("standby.get_partition_uuids", json!({})).await;
    let id = uuids.command_result.unwrap()["root uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.ends_with(&id));
    let boot = machine
        .run(
            "image.install_bootloader",
            json!({"root_uuid": id, "efi_system_part_uuid": null, "target_boot_mode": "uefi"}),
        )
        .await;
    assert_eq!(
        boot.command_status,
        CommandStatus::Succeeded,
        "{:?}",
        boot.command_error
    );
    let vars = EfiVars::new(&efivars(&machine.folder));
    let first = *entries::order(&vars).unwrap().first().unwrap();
    let entries = entries::list(&vars).unwrap();
    assert!(
        entries
            .iter()
            .any(|e| e.number == first && e.option.description == "wrought")
    );

    // The same again finds the image in place and renews the config drive.
    let again = machine
        .run("deploy.execute_deploy_step", request)
        .await
        .command_result
        .unwrap();
    assert_eq!(again["skipped"], true);
    assert_eq!(again["configdrive"]["reused"], true);

    let clean = json!({
        "step": {"interface": "deploy", "step": "erase_devices_metadata"},
        "node": machine.node(), "ports": [], "clean_version": {"wrought": "0.1"},
    });
    let cleaned = machine.run("clean.execute_clean_step", clean).await;
    assert_eq!(
        cleaned.command_status,
        CommandStatus::Succeeded,
        "{:?}",
        cleaned.command_error
    );
    let result = cleaned.command_result.unwrap();
    assert_eq!(result["clean_result"][0]["method"], "metadata wiped");
    let left = Command::new("/usr/sbin/wipefs")
        .args(["--no-act", disk])
        .output()
        .unwrap();
    assert!(left.stdout.is_empty());
    let uuids = machine.run("standby.get_partition_uuids", json!({})).await;
    assert_eq!(uuids.command_result, Some(json!({})));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_of_what_class_they_are() {
    let machine = Machine::new();
    let (image, checksum) = machine.image();
    let wrong = format!(
        "{}{}",
        if checksum.starts_with('0') { "1" } else { "0" },
        &checksum[1..]
    );

    let step = machine.write_step(&image, &wrong);
    let (kind, details) = error_of(machine.run("deploy.execute_deploy_step", step).await);
    assert_eq!(kind, "ImageChecksumError");
    assert!(
        details.contains(&wrong) && details.contains(&checksum),
        "{details}"
    );

    let mut step = machine.write_step(&image, &checksum);
    step["step"]["args"]["image_info"]["disk_format"] = json!("qcow2");
    let (kind, _) = error_of(machine.run("deploy.execute_deploy_step", step).await);
    assert_eq!(kind, "InvalidImage");

    let mut step = machine.write_step(&image, &checksum);
    step["node"]["properties"]["root_device"] = json!({"serial": "none"});
    let (kind, details) = error_of(machine.run("deploy.execute_deploy_step", step).await);
    assert_eq!(kind, "DeviceNotFound");
    assert!(details.contains("serial: none"), "{details}");

    let mut step = machine.write_step(&image, &checksum);
    step["step"]["args"]["configdrive"] = json!({"user": "x"});
    let (kind, _) = error_of(machine.run("deploy.execute_deploy_step", step).await);
    assert_eq!(kind, "InvalidCommandParamsError");

    let boot = machine
        .run(
            "image.install_bootloader",
            json!({"target_boot_mode": "uefi"}),
        )
        .await;
    assert_eq!(error_of(boot).0, "DeviceNotFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_cannot_be_run() {
    let machine = Machine::new();
    let step = |step: Value, version: Value| json!({"step": step, "node": machine.node(), "ports": [], "clean_version": version});
    let unknown = json!({"interface": "deploy", "step": "no_such_step", "priority": 1});
    let result = machine
        .run(
            "clean.execute_clean_step",
            step(unknown.clone(), json!({"other": "9"})),
        )
        .await;
    assert_eq!(result.command_status, CommandStatus::VersionMismatch);
    assert_eq!(
        result.command_error.unwrap().details,
        "Current versions: {\"wrought\":\"0.1\"}, versions used by ironic: {\"other\":\"9\"}"
    );
    let (kind, details) = error_of(
        machine
            .run("clean.execute_clean_step", step(json!({}), json!(null)))
            .await,
    );
    assert_eq!(kind, "CommandExecutionError");
    assert_eq!(details, "Malformed clean_step, no \"step\" key: {}");
    let (kind, details) = error_of(
        machine
            .run("clean.execute_clean_step", step(unknown, json!(null)))
            .await,
    );
    assert_eq!(kind, "CleaningError");
    assert!(
        details.contains("deploy.erase_devices, deploy.erase_devices_metadata"),
        "{details}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_for_another_node_is_refused() {
    let machine = Machine::new();
    machine
        .run("deploy.get_deploy_steps", json!({"node": machine.node()}))
        .await;
    let mut clean = json!({"step": {"step": "erase_devices"}, "node": machine.node()});
    clean["node"]["uuid"] = json!("aaaaaaaa-0000-4000-8000-0000000000ff");
    let (kind, details) = error_of(machine.run("clean.execute_clean_step", clean).await);
    assert_eq!(kind, "InvalidCommandParamsError");
    assert!(details.contains(NODE), "{details}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked_before_the_start() {
    let machine = Machine::new();
    let args = json!({"image_info": {"id": "x"}});
    let args: Args = serde_json::from_value(args).unwrap();
    let rejected = machine
        .runner
        .execute("standby.prepare_image", args, false)
        .await
        .unwrap_err();
    assert_eq!(rejected.status(), 400);
    assert_eq!(
        rejected.to_string(),
        "Invalid command parameters: Image is missing 'urls' field."
    );
}

/// A hardware manager with one step of its own, and one of ours.
fn add_manager(machine: &Machine, name: &str, support: u8, priority: u8) {
    let text = format!(
        r#"#!/bin/sh
case "$1" in
describe) cat <<'END'
{{"contract": 1, "version": "7", "support": {support}, "steps": [
{{"interface": "vendor", "step": "{name}_flash", "kinds": ["clean"], "reboot_requested": true}},
{{"interface": "deploy", "step": "erase_devices", "kinds": ["clean"], "priority": {priority}}}]}}
END
;;
run) echo '{{"status": "done", "reboot": true, "result": "{name} ran"}}' ;;
esac
"#
    );
    let path = machine.folder.path().join("managers").join(name);
    std::fs::write(&path, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hardware_managers_add_steps_and_take_those_that_they_know_better() {
    let machine = Machine::new();
    // Of equal priority the better support counts, of equal support the name.
    add_manager(&machine, "acme", 3, 10);
    add_manager(&machine, "base", 3, 10);
    add_manager(&machine, "weak", 1, 10);
    let listed = machine
        .run(
            "clean.get_clean_steps",
            json!({"node": machine.node(), "ports": []}),
        )
        .await;
    let listed = listed.command_result.unwrap();
    let versions = json!({"wrought": "0.1", "acme": "7", "base": "7", "weak": "7"});
    assert_eq!(listed["hardware_manager_version"], versions);
    let has = |manager: &str, step: &str| {
        let steps = listed["clean_steps"][manager].as_array().unwrap();
        steps.iter().any(|listed| listed["step"] == step)
    };
    assert!(has("acme", "acme_flash") && has("acme", "erase_devices"));
    assert!(has("weak", "weak_flash") && !has("weak", "erase_devices"));
    assert!(!has("base", "erase_devices") && !has("wrought", "erase_devices"));
    assert!(has("wrought", "erase_devices_metadata"));
    let flash = listed["clean_steps"]["acme"].as_array().unwrap();
    let flash = flash.iter().find(|step| step["step"] == "acme_flash");
    assert_eq!(flash.unwrap()["reboot_requested"], true);

    let step = json!({"interface": "deploy", "step": "erase_devices"});
    let run = json!({"step": step, "node": machine.node(), "ports": [],
        "clean_version": versions});
    let ran = machine.run("clean.execute_clean_step", run.clone()).await;
    let ran = ran.command_result.unwrap();
    assert_eq!(ran["clean_result"], "acme ran");
    assert_eq!(ran["reboot_requested"], true);
    assert_eq!(ran["clean_step"], step);

    // Another ramdisk has another manager: the list is not that one's.
    let mut run = run;
    run["clean_version"]["acme"] = json!("6");
    let refused = machine.run("clean.execute_clean_step", run).await;
    assert_eq!(refused.command_status, CommandStatus::VersionMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_higher_priority_goes_before_better_support() {
    let machine = Machine::new();
    add_manager(&machine, "acme", 3, 5);
    let args = json!({"node": machine.node(), "ports": []});
    let listed = machine.run("clean.get_clean_steps", args).await;
    let listed = listed.command_result.unwrap();
    let steps = listed["clean_steps"]["wrought"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["step"] == "erase_devices"));
    // Deploying has none of its steps.
    let args = json!({"node": machine.node(), "ports": []});
    let listed = machine.run("deploy.get_deploy_steps", args).await;
    let listed = listed.command_result.unwrap();
    assert!(listed["deploy_steps"].get("acme").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn burn_in_steps_are_listed_and_check_their_settings() {
    let machine = Machine::new();
    let args = json!({"node": machine.node(), "ports": []});
    let listed = machine.run("clean.get_clean_steps", args).await;
    let listed = listed.command_result.unwrap();
    let steps = listed["clean_steps"]["wrought"].as_array().unwrap();
    for name in [
        "burnin_cpu",
        "burnin_memory",
        "burnin_disk",
        "burnin_network",
    ] {
        let step = steps.iter().find(|step| step["step"] == name).unwrap();
        assert_eq!(
            (&step["priority"], &step["interface"]),
            (&json!(0), &json!("deploy"))
        );
    }
    let mut node = machine.node();
    node["driver_info"] = json!({"agent_burnin_cpu_timeout": "soon"});
    let step = json!({"interface": "deploy", "step": "burnin_cpu"});
    let args = json!({"step": step, "node": node, "ports": []});
    let (kind, details) = error_of(machine.run("clean.execute_clean_step", args).await);
    assert_eq!(kind, "InvalidCommandParamsError");
    assert!(details.contains("agent_burnin_cpu_timeout"), "{details}");
}

#[tokio::test(flavor = "multi_thread")]
async fn raid_is_there_as_steps_and_as_commands() {
    let machine = Machine::new();
    let args = json!({"node": machine.node(), "ports": []});
    for (kind, names) in [
        (
            "clean",
            &["create_configuration", "delete_configuration"][..],
        ),
        ("deploy", &["apply_configuration"]),
        (
            "service",
            &[
                "create_configuration",
                "delete_configuration",
                "apply_configuration",
            ],
        ),
    ] {
        let command = format!("{kind}.get_{kind}_steps");
        let listed = machine.run(&command, args.clone()).await;
        let listed = listed.command_result.unwrap();
        let steps = listed[format!("{kind}_steps")]["wrought"]
            .as_array()
            .unwrap();
        let found: Vec<&str> = steps
            .iter()
            .filter(|step| step["interface"] == "raid")
            .inspect(|step| assert_eq!(step["priority"], 0))
            .map(|step| step["step"].as_str().unwrap())
            .collect();
        assert_eq!(found, names, "{kind}");
    }
    // Nothing is to be made.
    let made = machine.run("raid.create_configuration", args.clone()).await;
    assert_eq!(made.command_result, Some(json!({})));
    let disks = machine.run("raid.get_logical_disks", args).await;
    assert!(disks.command_result.unwrap()["logical_disks"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raid_that_cannot_be_is_refused() {
    let machine = Machine::new();
    let mut node = machine.node();
    let hardware = json!({"logical_disks": [{"raid_level": "5", "size_gb": 1}]});
    node["target_raid_config"] = hardware;
    let step = json!({"interface": "raid", "step": "create_configuration"});
    let args = json!({"step": step, "node": node, "ports": []});
    let (kind, details) = error_of(machine.run("clean.execute_clean_step", args).await);
    assert_eq!(kind, "SoftwareRAIDError");
    assert!(
        details.contains("expected controller software"),
        "{details}"
    );

    let step = json!({"interface": "raid", "step": "apply_configuration"});
    let args = json!({"step": step, "node": machine.node(), "ports": []});
    let (kind, details) = error_of(machine.run("deploy.execute_deploy_step", args).await);
    assert_eq!(kind, "InvalidCommandParamsError");
    assert!(
        details.starts_with("raid_config: expected an object"),
        "{details}"
    );
    // One disk is too few, and is left as it is.
    let mirror = json!({"logical_disks": [
        {"raid_level": "1", "size_gb": "MAX", "controller": "software"},
    ]});
    let args = json!({"raid_config": mirror, "node": machine.node()});
    let (_, details) = error_of(machine.run("raid.create_configuration", args).await);
    assert!(details.contains("at least 2 disks"), "{details}");
}
