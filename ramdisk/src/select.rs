//! Which kernel modules go into the ramdisk: what finds disks, network and
//! BMC on bare metal and in virtual machines. Everything they depend on
//! comes with them.

/// Modules by name, grouped by what they are for. Names that a kernel has
/// built in are fine; names that it does not know are an error, so that a
/// renamed driver is noticed.
pub(crate) const MODULES: &[(&str, &[&str])] = &[
    (
        "disks",
        &[
            "sd_mod",
            "sr_mod",
            "sg",
            "ses",
            "nvme",
            "vmd",
            "mmc_block",
            "sdhci_pci",
            "sdhci_acpi",
        ],
    ),
    (
        "SATA and PATA",
        &["ahci", "ata_piix", "ata_generic", "sata_nv", "sata_sil24"],
    ),
    (
        "SCSI, SAS and RAID adapters",
        &[
            "megaraid_sas",
            "megaraid_mbox",
            "mpt3sas",
            "mpi3mr",
            "mptsas",
            "mptspi",
            "hpsa",
            "smartpqi",
            "aacraid",
            "3w_9xxx",
            "3w_sas",
            "arcmsr",
            "isci",
            "mvsas",
            "pm80xx",
            "sym53c8xx",
        ],
    ),
    ("fibre channel", &["lpfc"]),
    (
        "virtual machines",
        &[
            "virtio_pci",
            "virtio_mmio",
            "virtio_blk",
            "virtio_scsi",
            "virtio_net",
            "virtio_rng",
            "vmw_pvscsi",
            "vmxnet3",
            "hv_vmbus",
            "hv_storvsc",
            "hv_netvsc",
            "mana",
            "xen_blkfront",
            "xen_netfront",
            "ena",
            "gve",
        ],
    ),
    (
        "network adapters",
        &[
            "e1000",
            "e1000e",
            "igb",
            "igbvf",
            "igc",
            "ixgbe",
            "ixgbevf",
            "i40e",
            "iavf",
            "ice",
            "bnxt_en",
            "tg3",
            "mlx4_core",
            "mlx4_en",
            "mlx5_core",
            "be2net",
            "cxgb4",
            "sfc",
            "atlantic",
            "r8169",
            "realtek",
            "8139cp",
            "8139too",
            "pcnet32",
            "forcedeth",
            "enic",
            "hinic",
            "amd_xgbe",
            "sky2",
            "atl1c",
            "alx",
        ],
    ),
    ("network layers", &["bonding", "8021q"]),
    (
        "USB: virtual media, keyboards, BMC network",
        &[
            "xhci_pci",
            "ehci_pci",
            "uhci_hcd",
            "ohci_pci",
            "usb_storage",
            "uas",
            "usbhid",
            "hid_generic",
            "cdc_ether",
            "cdc_ncm",
            "rndis_host",
        ],
    ),
    ("BMC", &["ipmi_si", "ipmi_devintf", "ipmi_ssif", "i2c_i801"]),
    (
        "software RAID and device mapper",
        &[
            "md_mod",
            "linear",
            "raid0",
            "raid1",
            "raid10",
            "raid456",
            "dm_mod",
            "dm_multipath",
        ],
    ),
    (
        "file systems",
        &["vfat", "nls_cp437", "nls_ascii", "efivarfs", "efi_pstore"],
    ),
    (
        "check sums",
        &[
            "crc32c_intel",
            "crc32_pclmul",
            "crct10dif_pclmul",
            "crc_t10dif",
        ],
    ),
];

/// Drivers that do nothing without a firmware file: they come in where a
/// firmware set has that file.
pub(crate) const WITH_FIRMWARE: &[&str] = &["bnx2", "bnx2x", "nfp", "qede", "qla2xxx"];

/// Of [`MODULES`], those for hardware that only PCs have.
const ONLY_PC: &[&str] = &[
    "vmd",
    "megaraid_mbox",
    "arcmsr",
    "isci",
    "vmw_pvscsi",
    "vmxnet3",
    "hv_vmbus",
    "hv_storvsc",
    "hv_netvsc",
    "mana",
    "forcedeth",
    "uhci_hcd",
    "i2c_i801",
    "crc32c_intel",
    "crc32_pclmul",
    "crct10dif_pclmul",
];

/// What ARM servers have in their place.
const ARM: &[&str] = &[
    "ahci_platform",
    "crct10dif_ce",
    "fsl_dpaa2_eth",
    "hclge",
    "hisi_sas_v3_hw",
    "hns3",
    "i2c_designware_platform",
    "mvneta",
    "mvpp2",
    "nicvf",
    "thunder_bgx",
    "xgene_enet",
    "xhci_plat_hcd",
];

/// The modules for PCs, or for ARM servers, in no particular order.
pub(crate) fn names(pc: bool) -> impl Iterator<Item = &'static str> {
    let common = MODULES.iter().flat_map(|(_, names)| names.iter().copied());
    let more: &[&str] = if pc { &[] } else { ARM };
    common
        .filter(move |name| pc || !ONLY_PC.contains(name))
        .chain(more.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::names;

    #[test]
    fn no_name_is_there_twice_and_all_use_underscores() {
        for pc in [true, false] {
            let all = || names(pc).chain(super::WITH_FIRMWARE.iter().copied());
            let unique: BTreeSet<_> = all().collect();
            assert_eq!(unique.len(), all().count());
            assert!(all().all(|name| !name.contains('-')));
        }
        assert!(
            super::ONLY_PC
                .iter()
                .all(|name| names(true).any(|n| n == *name))
        );
    }
}
