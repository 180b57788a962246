//! iPXE scripts (<https://ipxe.org/scripting>), the same for UEFI and BIOS.

/// The entry script: asks for the script of the NIC that was booted from, then
/// of the first NICs, until one of them is known. `discovers`: a machine of
/// which none is boots a ramdisk that tells what it is.
pub(super) fn entry(base: &str, discovers: bool) -> String {
    let mut script = String::from("#!ipxe\n:again\n");
    for nic in ["netX", "net0", "net1", "net2", "net3"] {
        script.push_str(&format!(
            "chain --autofree {base}/ipxe/${{{nic}/mac:hexhyp}}?from=boot && goto answered ||\n"
        ));
    }
    if discovers {
        script.push_str(&format!(
            "chain --autofree {base}/ipxe/${{netX/mac:hexhyp}}?from=discovery && goto answered ||\n"
        ));
    }
    script.push_str(
        "echo Wrought does not know this machine, or it has nothing to boot yet\n\
         sleep 5\n\
         goto again\n\
         :answered\n\
         iseq ${wrought-boot} disk || goto again\n\
         clear wrought-boot\n",
    );
    script.push_str(BOOT_DISK);
    script
}

/// UEFI: an error makes the firmware go on with its next boot option. BIOS:
/// iPXE boots the first disk itself.
const BOOT_DISK: &str = "iseq ${platform} efi && exit 1 ||\n\
                         sanboot --no-describe --drive 0x80 || exit 1\n";

/// For a machine that is to boot its disk. Called from the entry script it only
/// says so, since `exit` leads back there.
pub(super) fn disk(from_entry: bool) -> String {
    if from_entry {
        return "#!ipxe\nset wrought-boot disk\nexit 0\n".to_owned();
    }
    format!("#!ipxe\n{BOOT_DISK}")
}

/// For a machine that is not known yet.
pub(super) fn unknown(base: &str) -> String {
    format!(
        "#!ipxe\necho Wrought does not know this machine\nsleep 5\nchain --autofree {base}/boot.ipxe\n"
    )
}

/// Boots kernel and initramfs. `initrd=` names the initramfs for kernels that
/// are started as UEFI programs.
pub(super) fn ramdisk(kernel: &str, initramfs: &str, command_line: &str) -> String {
    format!(
        "#!ipxe\n\
         imgfree\n\
         kernel {kernel} initrd=initramfs {command_line} || goto failed\n\
         initrd --name initramfs {initramfs} || goto failed\n\
         boot || goto failed\n\
         :failed\n\
         echo The deploy ramdisk could not be booted, next try in 5 s\n\
         sleep 5\n\
         exit 1\n"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn scripts_are_scripts() {
        let base = "http://192.0.2.1:8088";
        let ramdisk = super::ramdisk("http://k", "http://i", "console=ttyS0 a=b");
        for script in [
            super::entry(base, false),
            super::entry(base, true),
            super::disk(true),
            super::disk(false),
            super::unknown(base),
            ramdisk.clone(),
        ] {
            assert!(
                script.starts_with("#!ipxe\n") && script.ends_with('\n'),
                "{script}"
            );
        }
        assert!(
            super::entry(base, false).contains(
                "chain --autofree http://192.0.2.1:8088/ipxe/${net0/mac:hexhyp}?from=boot"
            )
        );
        let discovers = |yes| super::entry(base, yes).contains("?from=discovery");
        assert!(discovers(true) && !discovers(false));
        assert!(ramdisk.contains("kernel http://k initrd=initramfs console=ttyS0 a=b ||"));
        assert!(super::disk(false).contains("sanboot --no-describe --drive 0x80"));
    }
}
