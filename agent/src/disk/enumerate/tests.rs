//! Enumeration of made-up machines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::Enumerator;
use super::natural;

/// Writes one device into a sysfs tree, linked from `block/` as the kernel
/// does it.
fn device(root: &Path, directory: &str, attributes: &[(&str, &str)]) {
    let real = root.join("sys/devices").join(directory);
    fs::create_dir_all(real.join("holders")).unwrap();
    for (name, value) in attributes {
        let file = real.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, value).unwrap();
    }
    let block = root.join("sys/block");
    fs::create_dir_all(&block).unwrap();
    symlink(&real, block.join(real.file_name().unwrap())).unwrap();
}

fn machine() -> (tempfile::TempDir, Enumerator) {
    let root = tempfile::tempdir().unwrap();
    device(
        root.path(),
        "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
        &[
            ("size", "1953525168\n"),
            ("dev", "8:0\n"),
            ("queue/rotational", "1\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "4096\n"),
            ("device/model", "ST1000NX0443    \n"),
            ("device/vendor", "ATA     \n"),
            ("device/vpd_pg80", "\0\u{1}\0\u{8}W470ABCD"),
            ("device/wwid", "naa.5000c5009d1f2a3b\n"),
            ("sda1/partition", "1\n"),
            ("sda1/start", "2048\n"),
            ("sda1/size", "1024000\n"),
            ("sda1/dev", "8:1\n"),
        ],
    );
    device(
        root.path(),
        "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1",
        &[
            ("size", "7814037168\n"),
            ("dev", "259:0\n"),
            ("queue/logical_block_size", "4096\n"),
            ("wwid", "eui.0025385b71b0a1c2\n"),
            ("device/model", "SAMSUNG MZQL2\n"),
            ("device/serial", "S64ENE0R\n"),
        ],
    );
    device(
        root.path(),
        "pci0000:00/0000:00:05.0/virtio2/block/vda",
        &[
            ("size", "20971520\n"),
            ("serial", "disk-1"),
            ("dev", "254:0\n"),
            ("ro", "1\n"),
        ],
    );
    for (name, size) in [
        ("ram0", "8192"),
        ("zram0", "8"),
        ("loop0", "20000"),
        ("sr0", "700000"),
        ("fd0", "8"),
    ] {
        device(
            root.path(),
            &format!("virtual/block/{name}"),
            &[("size", size)],
        );
    }
    device(root.path(), "virtual/block/sdb", &[("size", "0\n")]);
    device(root.path(), "virtual/block/md127", &[("size", "100000\n")]);
    device(
        root.path(),
        "virtual/block/dm-0",
        &[("size", "1"), ("dm/uuid", "LVM-abc\n")],
    );
    device(
        root.path(),
        "virtual/block/dm-1",
        &[
            ("size", "1"),
            ("dm/uuid", "mpath-360\n"),
            ("dm/name", "mpatha\n"),
            ("slaves/sdx/x", ""),
            ("slaves/sdy/x", ""),
        ],
    );
    for (name, target) in [("sdx", 1), ("sdy", 2)] {
        device(
            root.path(),
            &format!(
                "pci0000:00/0000:05:00.0/host9/target9:0:{target}/9:0:{target}:0/block/{name}"
            ),
            &[
                ("size", "1"),
                ("device/model", "LUN\n"),
                ("device/wwid", "naa.60a98000572d44\n"),
                ("diskseq", "7\n"),
            ],
        );
    }
    let stick = "pci0000:00/0000:00:14.0/usb1/1-4";
    device(
        root.path(),
        &format!("{stick}/1-4:1.0/host6/target6:0:0/6:0:0:0/block/sdz"),
        &[("size", "100"), ("removable", "1\n")],
    );
    let stick = root.path().join("sys/devices").join(stick);
    fs::write(stick.join("idVendor"), "46f4\n").unwrap();
    fs::write(stick.join("serial"), "0123-stick\n").unwrap();
    let dev = root.path().join("dev");
    fs::create_dir_all(dev.join("disk/by-path")).unwrap();
    for name in ["sda", "vda", "loop0"] {
        fs::write(dev.join(name), "").unwrap();
    }
    symlink(
        dev.join("sda"),
        dev.join("disk/by-path/pci-0000:00:1f.2-ata-1.0"),
    )
    .unwrap();
    let proc = root.path().join("proc");
    fs::create_dir_all(proc.join("self")).unwrap();
    fs::write(
        proc.join("self/mountinfo"),
        "22 1 8:1 / /boot rw - ext4 /dev/none rw\n",
    )
    .unwrap();
    let enumerator = Enumerator {
        sys: root.path().join("sys"),
        dev,
        proc,
        only: Vec::new(),
    };
    (root, enumerator)
}

#[test]
fn lists_disks_and_nothing_else() {
    let (_root, enumerator) = machine();
    let disks = enumerator.disks();
    let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["dm-1", "md127", "nvme0n1", "sda", "sdz", "vda"]);

    // The paths are not there beside the device that they lead to.
    let multipath = &disks[0];
    assert_eq!(multipath.model.as_deref(), Some("LUN"));
    assert_eq!(multipath.wwn.as_deref(), Some("0x60a98000572d44"));
    assert_eq!(multipath.by_path, None);
    let name = crate::disk::hints::parse(&serde_json::json!({"name": "/dev/mapper/mpatha"}));
    assert!(name.unwrap().matches(multipath));

    let sda = &disks[3];
    assert_eq!(sda.size, 1_953_525_168 * 512);
    assert_eq!(sda.model.as_deref(), Some("ST1000NX0443"));
    assert_eq!(sda.serials, ["W470ABCD"]);
    assert_eq!(sda.wwn.as_deref(), Some("0x5000c5009d1f2a3b"));
    assert_eq!(sda.hctl.as_deref(), Some("0:0:0:0"));
    assert_eq!(sda.transport.as_deref(), Some("sata"));
    assert_eq!(
        sda.by_path.as_deref(),
        Some("/dev/disk/by-path/pci-0000:00:1f.2-ata-1.0")
    );
    assert!(sda.rotational);
    assert_eq!((sda.logical_sector, sda.physical_sector), (512, 4096));
    assert_eq!(sda.partitions.len(), 1);
    assert_eq!(sda.partitions[0].start, 1 << 20);
    assert_eq!(sda.in_use.as_deref(), Some("sda1 mounted at /boot"));

    let nvme = &disks[2];
    assert_eq!(nvme.serial(), Some("S64ENE0R"));
    assert_eq!(nvme.wwn.as_deref(), Some("eui.0025385b71b0a1c2"));
    assert_eq!((nvme.logical_sector, nvme.physical_sector), (4096, 4096));
    assert_eq!(
        nvme.by_path.as_deref(),
        Some("/dev/disk/by-path/pci-0000:01:00.0-nvme-1")
    );
    assert_eq!(nvme.in_use, None);

    let stick = &disks[4];
    assert_eq!(stick.serial(), Some("0123-stick"));
    assert!(stick.is_virtual_media());

    let vda = &disks[5];
    assert!(vda.read_only);
    assert_eq!(vda.serial(), Some("disk-1"));
    assert_eq!(vda.transport.as_deref(), Some("virtio"));
}

#[test]
fn every_name_below_dev_disk_is_a_hint_without_udev() {
    let (_root, enumerator) = machine();
    let disks = enumerator.disks();
    for (name, disk) in [
        ("by-path/pci-0000:00:1f.2-ata-1.0", "sda"),
        ("by-path/pci-0000:00:1f.2-ata-1", "sda"),
        ("by-id/ata-ST1000NX0443_W470ABCD", "sda"),
        ("by-id/wwn-0x5000c5009d1f2a3b", "sda"),
        ("by-id/scsi-35000c5009d1f2a3b", "sda"),
        ("by-path/pci-0000:01:00.0-nvme-1", "nvme0n1"),
        ("by-id/nvme-eui.0025385b71b0a1c2", "nvme0n1"),
        ("by-id/nvme-SAMSUNG_MZQL2_S64ENE0R", "nvme0n1"),
        ("by-path/pci-0000:00:05.0", "vda"),
        ("by-path/virtio-pci-0000:00:05.0", "vda"),
        ("by-id/virtio-disk-1", "vda"),
        ("by-id/dm-name-mpatha", "dm-1"),
        ("by-id/dm-uuid-mpath-360", "dm-1"),
    ] {
        let hint = serde_json::json!({"name": format!("/dev/disk/{name}")});
        let hints = crate::disk::hints::parse(&hint).unwrap();
        let found: Vec<&str> = disks
            .iter()
            .filter(|disk| hints.matches(*disk))
            .map(|disk| disk.name.as_str())
            .collect();
        assert_eq!(found, [disk], "{name}");
    }
}

#[test]
fn only_the_named_disks_exist() {
    let (root, mut enumerator) = machine();
    let image = root.path().join("disk.img");
    fs::write(&image, [0_u8; 4096]).unwrap();
    enumerator.only = vec![enumerator.dev.join("loop0"), image.clone()];
    let disks = enumerator.disks();
    let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["disk.img", "loop0"]);
    assert_eq!(disks[0].size, 4096);
}

#[test]
fn natural_order() {
    let mut names = ["sdaa", "nvme10n1", "sdb", "nvme2n1", "vda", "sda", "md0"];
    names.sort_by(|a, b| natural(a, b));
    assert_eq!(
        names,
        ["md0", "nvme2n1", "nvme10n1", "sda", "sdb", "sdaa", "vda"]
    );
}
