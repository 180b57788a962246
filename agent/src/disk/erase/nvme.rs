//! NVMe's own erase: the Format NVM command.

use std::os::fd::AsRawFd;
use std::path::Path;

use crate::disk::block::BlockFile;
use crate::disk::erase::report::Method;
use crate::disk::error::Error;
use crate::disk::sysfs;

/// NVMe base specification 2.0, §5.17 Identify and §5.14 Format NVM.
const IDENTIFY: u8 = 0x06;
const FORMAT: u8 = 0x80;
const IDENTIFY_BYTES: usize = 4096;
/// A large drive without cryptographic erase may take hours.
const FORMAT_TIMEOUT_MS: u32 = 6 * 3600 * 1000;
const IDENTIFY_TIMEOUT_MS: u32 = 30_000;
/// OACS: Format NVM is supported.
const OACS_FORMAT: u8 = 1 << 1;
/// FNA: format or erase always apply to all namespaces.
const FNA_ALL: u8 = 0b11;
/// FNA: cryptographic erase is supported.
const FNA_CRYPTO: u8 = 1 << 2;
/// Secure erase settings of Format NVM.
const SES_USER_DATA: u32 = 1;
const SES_CRYPTO: u32 = 2;

/// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

mod raw {
    nix::ioctl_readwrite!(admin, b'N', 0x41, super::AdminCommand);
    nix::ioctl_none!(namespace_id, b'N', 0x40);
}

/// What a drive can do, and how it is formatted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Abilities {
    format: bool,
    crypto: bool,
    all_namespaces: bool,
    /// LBA format in use, with its metadata and protection settings, as
    /// Format NVM takes it in its dword 10.
    layout: u32,
}

impl Abilities {
    fn decode(controller: &[u8], namespace: &[u8]) -> Self {
        let (oacs, fna) = (controller[256], controller[524]);
        let (flbas, dps) = (namespace[26], namespace[29]);
        let low = u32::from(flbas & 0x0f);
        let high = u32::from((flbas >> 5) & 0b11);
        let extended = u32::from((flbas >> 4) & 1);
        let protection = u32::from(dps & 0b111);
        let first = u32::from((dps >> 3) & 1);
        Self {
            format: oacs & OACS_FORMAT != 0,
            crypto: fna & FNA_CRYPTO != 0,
            all_namespaces: fna & FNA_ALL != 0,
            layout: low | extended << 4 | protection << 5 | first << 8 | high << 12,
        }
    }
}

/// Lets the drive erase itself: by throwing away its key where it can, else
/// all user data. `None` when the drive has no such command, or when it
/// would take other namespaces with it.
pub(super) fn format(file: &BlockFile, name: &str, sys: &Path) -> Result<Option<Method>, Error> {
    let Some((controller, namespace_name)) = split_name(name) else {
        return Ok(None);
    };
    let namespace = namespace_id(file)?;
    let mut page = vec![0_u8; IDENTIFY_BYTES];
    identify(file, 0, 1, &mut page)?;
    let mut namespace_page = vec![0_u8; IDENTIFY_BYTES];
    identify(file, namespace, 0, &mut namespace_page)?;
    let abilities = Abilities::decode(&page, &namespace_page);
    if !abilities.format {
        return Ok(None);
    }
    let siblings = sysfs::names(&sys.join("block")).into_iter().any(|other| {
        other != namespace_name && split_name(&other).is_some_and(|(other, _)| other == controller)
    });
    if abilities.all_namespaces && siblings {
        tracing::info!(dev = %file.path().display(), "a format would erase other namespaces as well");
        return Ok(None);
    }
    if abilities.crypto {
        match format_with(file, namespace, &abilities, SES_CRYPTO) {
            Ok(()) => return Ok(Some(Method::NvmeCryptographicErase)),
            Err(error) => {
                tracing::warn!(dev = %file.path().display(), %error, "cryptographic erase failed, user data erase follows");
            }
        }
    }
    format_with(file, namespace, &abilities, SES_USER_DATA)?;
    Ok(Some(Method::NvmeUserDataErase))
}

/// `nvme0n1` is namespace 1 of `nvme0`.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let digits = name.strip_prefix("nvme")?;
    let (controller, namespace) = digits.split_once('n')?;
    let numeric = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (numeric(controller) && numeric(namespace)).then(|| (&name[..4 + controller.len()], name))
}

fn namespace_id(file: &BlockFile) -> Result<u32, Error> {
    // SAFETY: NVME_IOCTL_ID takes no argument and touches no memory.
    let id = unsafe { raw::namespace_id(file.fd().as_raw_fd()) };
    let id = id.map_err(|e| Error::io("read the namespace number of", file.path(), e.into()))?;
    u32::try_from(id).map_err(|e| {
        Error::io(
            "read the namespace number of",
            file.path(),
            std::io::Error::other(e),
        )
    })
}

fn identify(file: &BlockFile, nsid: u32, structure: u32, page: &mut [u8]) -> Result<(), Error> {
    let mut command = AdminCommand {
        opcode: IDENTIFY,
        nsid,
        addr: page.as_mut_ptr() as u64,
        data_len: u32::try_from(page.len()).unwrap_or_default(),
        cdw10: structure,
        timeout_ms: IDENTIFY_TIMEOUT_MS,
        ..AdminCommand::default()
    };
    submit(file, "identify", &mut command)
}

fn format_with(
    file: &BlockFile,
    nsid: u32,
    abilities: &Abilities,
    erase: u32,
) -> Result<(), Error> {
    let mut command = AdminCommand {
        opcode: FORMAT,
        nsid,
        cdw10: abilities.layout | erase << 9,
        timeout_ms: FORMAT_TIMEOUT_MS,
        ..AdminCommand::default()
    };
    let name = if erase == SES_CRYPTO {
        "format with cryptographic erase"
    } else {
        "format with user data erase"
    };
    submit(file, name, &mut command)
}

fn submit(file: &BlockFile, name: &'static str, command: &mut AdminCommand) -> Result<(), Error> {
    // SAFETY: the command has the kernel's layout; the buffer it points to,
    // if any, has data_len bytes and outlives the call.
    let status = unsafe { raw::admin(file.fd().as_raw_fd(), command) };
    let status = status.map_err(|e| Error::io("send an NVMe command to", file.path(), e.into()))?;
    if status == 0 {
        return Ok(());
    }
    let status = u32::try_from(status).unwrap_or_default();
    Err(Error::Nvme {
        path: file.path().to_owned(),
        command: name,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::Abilities;
    use super::AdminCommand;
    use super::split_name;

    #[test]
    fn the_kernels_layout() {
        assert_eq!(std::mem::size_of::<AdminCommand>(), 72);
    }

    #[test]
    fn names() {
        assert_eq!(split_name("nvme12n3"), Some(("nvme12", "nvme12n3")));
        assert_eq!(split_name("nvme0c0n1"), None);
        assert_eq!(split_name("sda"), None);
    }

    #[test]
    fn abilities_and_layout() {
        let (mut controller, mut namespace) = (vec![0; 4096], vec![0; 4096]);
        controller[256] = 0b10;
        controller[524] = 0b101;
        // LBA format 0x12 with metadata at the end, protection type 1 first.
        namespace[26] = 0b0011_0010;
        namespace[29] = 0b1001;
        let abilities = Abilities::decode(&controller, &namespace);
        assert!(abilities.format && abilities.crypto && abilities.all_namespaces);
        assert_eq!(abilities.layout, 0x2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 12);
    }
}
