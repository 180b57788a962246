//! Names that are held against what a udev of systemd 252 gives.

use std::fs;
use std::path::Path;

use super::by_id;
use super::by_path;
use super::paths;
use crate::disk::Disk;

#[test]
fn by_slot_from_the_path_alone() {
    let cases: [(&str, &[&str]); 6] = [
        (
            "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
            &["pci-0000:00:1f.2-ata-3.0", "pci-0000:00:1f.2-ata-3"],
        ),
        (
            "pci0000:00/0000:00:02.0/0000:03:00.0/nvme/nvme0/nvme0n1",
            &["pci-0000:03:00.0-nvme-1"],
        ),
        (
            "pci0000:00/0000:00:05.0/virtio2/block/vda",
            &["pci-0000:00:05.0", "virtio-pci-0000:00:05.0"],
        ),
        (
            "pci0000:00/0000:00:05.0/host0/target0:2:1/0:2:1:0/block/sdb",
            &["pci-0000:00:05.0-scsi-0:2:1:0"],
        ),
        (
            "pci0000:00/0000:00:14.0/usb1/1-4/1-4:1.0/host6/target6:0:0/6:0:0:0/block/sdc",
            &["pci-0000:00:14.0-usb-0:4:1.0-scsi-0:0:0:0"],
        ),
        (
            "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme0/nvme0n1",
            &["pci-10000:e1:00.0-nvme-1"],
        ),
    ];
    for (directory, expected) in cases {
        let path = Path::new("/sys/devices").join(directory);
        assert_eq!(paths(&path), expected, "{directory}");
    }
    assert!(paths(Path::new("/sys/devices/virtual/block/md127")).is_empty());
}

/// Writes files below a folder.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    root
}

#[test]
fn numbers_are_counted_on_the_adapter() {
    // The second controller's first port, the eighth of the machine.
    let ata = "devices/pci0000:00/0000:02:00.0/ata8";
    let root = tree(&[
        (&format!("{ata}/ata_port/ata8/port_no"), "1\n"),
        (
            &format!("{ata}/host7/target7:0:0/7:0:0:0/block/sdb/size"),
            "1\n",
        ),
        // The adapter's second host.
        ("devices/pci0000:00/0000:04:00.0/host3/x", ""),
        (
            "devices/pci0000:00/0000:04:00.0/host4/target4:0:2/4:0:2:1/block/sdc/size",
            "1\n",
        ),
    ]);
    let sdb = root
        .path()
        .join(ata)
        .join("host7/target7:0:0/7:0:0:0/block/sdb");
    assert_eq!(paths(&sdb)[0], "pci-0000:02:00.0-ata-1.0");
    let sdc = "devices/pci0000:00/0000:04:00.0/host4/target4:0:2/4:0:2:1/block/sdc";
    assert_eq!(
        paths(&root.path().join(sdc)),
        ["pci-0000:04:00.0-scsi-1:0:2:1"]
    );
}

#[test]
fn sas_by_phy_expander_or_address() {
    let direct = "devices/pci0000:00/0000:02:00.0/host0/port-0:1/end_device-0:1";
    let behind =
        "devices/pci0000:00/0000:02:00.0/host0/port-0:2/expander-0:0/port-0:0:5/end_device-0:0:5";
    let wide = "devices/pci0000:00/0000:02:00.0/host0/port-0:3/end_device-0:3";
    let root = tree(&[
        (
            &format!("{direct}/sas_device/end_device-0:1/phy_identifier"),
            "4\n",
        ),
        (
            &format!("{direct}/sas_device/end_device-0:1/sas_address"),
            "0x5000c50000000001\n",
        ),
        (&format!("{direct}/../sas_port/port-0:1/num_phys"), "1\n"),
        (
            &format!("{behind}/sas_device/end_device-0:0:5/phy_identifier"),
            "5\n",
        ),
        (
            &format!("{behind}/../../sas_device/expander-0:0/sas_address"),
            "0x500056b31234abff\n",
        ),
        (
            &format!("{wide}/sas_device/end_device-0:3/sas_address"),
            "0x5000c50000000003\n",
        ),
        (
            &format!("{wide}/sas_device/end_device-0:3/phy_identifier"),
            "1\n",
        ),
        (&format!("{wide}/../sas_port/port-0:3/num_phys"), "2\n"),
    ]);
    for (end_device, lun, expected) in [
        (direct, 0, "pci-0000:02:00.0-sas-phy4-lun-0"),
        (
            behind,
            0,
            "pci-0000:02:00.0-sas-exp0x500056b31234abff-phy5-lun-0",
        ),
        (wide, 3, "pci-0000:02:00.0-sas-0x5000c50000000003-lun-3"),
        (
            wide,
            256,
            "pci-0000:02:00.0-sas-0x5000c50000000003-lun-0x0100000000000000",
        ),
    ] {
        let disk = format!("{end_device}/target0:0:0/0:0:0:{lun}/block/sda");
        assert_eq!(paths(&root.path().join(disk)), [expected]);
    }
}

#[test]
fn fibre_channel_by_port_name() {
    let port = "devices/pci0000:00/0000:05:00.0/host1/rport-1:0-0";
    let root = tree(&[(
        &format!("{port}/fc_remote_ports/rport-1:0-0/port_name"),
        "0x500a098188888888\n",
    )]);
    let disk = root.path().join(port).join("target1:0:0/1:0:0:2/block/sda");
    assert_eq!(
        paths(&disk),
        ["pci-0000:05:00.0-fc-0x500a098188888888-lun-2"]
    );
}

#[test]
fn a_namespace_of_a_subsystem_has_its_controllers_slot() {
    let root = tree(&[
        ("devices/pci0000:00/0000:03:00.0/nvme/nvme0/model", "x\n"),
        (
            "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/size",
            "1\n",
        ),
    ]);
    let subsystem = root
        .path()
        .join("devices/virtual/nvme-subsystem/nvme-subsys0");
    std::os::unix::fs::symlink(
        root.path()
            .join("devices/pci0000:00/0000:03:00.0/nvme/nvme0"),
        subsystem.join("nvme0"),
    )
    .unwrap();
    assert_eq!(
        by_path(&subsystem.join("nvme0n1")),
        ["/dev/disk/by-path/pci-0000:03:00.0-nvme-1"]
    );
}

#[test]
fn by_what_the_disk_says_of_itself() {
    let nowhere = Path::new("/nonexistent");
    let disk = |transport: Option<&str>, vendor: Option<&str>, wwn: Option<&str>| Disk {
        model: Some("QEMU HARDDISK".into()),
        vendor: vendor.map(str::to_owned),
        serials: vec!["QM 1".into()],
        hctl: (transport != Some("nvme") && transport != Some("virtio")).then(|| "0:0:0:0".into()),
        wwn: wwn.map(str::to_owned),
        wwn_with_extension: wwn.map(str::to_owned),
        transport: transport.map(str::to_owned),
        ..Disk::default()
    };
    let names = |disk: Disk| -> Vec<String> {
        by_id(&disk, nowhere)
            .into_iter()
            .map(|name| name.replace("/dev/disk/by-id/", ""))
            .collect()
    };
    assert_eq!(
        names(disk(Some("sata"), Some("ATA"), Some("0x5000c500aa"))),
        [
            "ata-QEMU_HARDDISK_QM_1",
            "wwn-0x5000c500aa",
            "scsi-35000c500aa"
        ]
    );
    assert_eq!(
        names(disk(None, Some("QEMU"), None)),
        ["scsi-0QEMU_QEMU_HARDDISK_QM_1"]
    );
    assert_eq!(
        names(disk(Some("nvme"), None, Some("eui.0025385b71b0a1c2"))),
        ["nvme-eui.0025385b71b0a1c2", "nvme-QEMU_HARDDISK_QM_1"]
    );
    assert_eq!(names(disk(Some("virtio"), None, None)), ["virtio-QM_1"]);
}
