//! A bootable disc made of a built ramdisk: UEFI firmware finds the UKI in a
//! FAT file system, a BIOS starts GRUB. Kernel and initramfs are on it once:
//! GRUB reads them where they lie inside the UKI, by sector numbers.
//!
//! The disc has the volume identifier that the agent looks for, and its
//! parameters in `PARAMS.TXT`.

use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use wrought_formats::iso9660::Builder;
use wrought_formats::iso9660::Content;
use wrought_formats::iso9660::boot_info;

use crate::build::read;
use crate::pe;

/// What the agent knows its disc by.
const VOLUME: &str = "WROUGHT_VMEDIA";
/// GRUB counts in these.
const SECTOR: u64 = 512;
/// Where GRUB's table lies in its image.
const BOOT_INFO: usize = 8;
/// Bytes of `GRUB.CFG`: its length must not depend on the numbers in it.
const CONFIG: usize = 1024;
/// Most bytes of all parameters: what the agent reads.
const PARAMS_MAX: usize = 64 * 1024;

/// GRUB modules of the BIOS part, beyond what `normal` needs.
pub(crate) const GRUB_MODULES: &[&str] = &["biosdisk", "iso9660", "normal", "linux", "boot"];

/// What is on the disc beside the ramdisk.
#[derive(Debug, Clone, Default)]
pub struct Disc {
    /// Parameters of the agent, `KEY=VALUE` each.
    pub params: Vec<String>,
    /// The CA that the agent knows the API by, PEM.
    pub ca: Option<Vec<u8>>,
}

/// The parts of a ramdisk that a disc is made of.
pub(crate) struct Parts<'a> {
    /// The FAT file system with the UKI.
    pub(crate) esp: &'a [u8],
    /// The UKI.
    pub(crate) uki: &'a [u8],
    /// GRUB's image for CDs, where there is a BIOS to start it.
    pub(crate) bios: Option<&'a [u8]>,
    /// The kernel's command line.
    pub(crate) command_line: &'a str,
}

/// Makes the disc of the ramdisk built in the folder `ramdisk`, in the file
/// `out`. Gives a report in one line.
///
/// # Errors
/// A ramdisk that was not built, or a parameter that is none.
pub fn disc(ramdisk: &Path, disc: &Disc, out: &Path) -> Result<String> {
    let (esp, uki) = (
        read(&ramdisk.join("esp.img"))?,
        read(&ramdisk.join("uki.efi"))?,
    );
    let bios = ramdisk.join("bios.img");
    let bios = bios.is_file().then(|| read(&bios)).transpose()?;
    let parts = Parts {
        esp: &esp,
        uki: &uki,
        bios: bios.as_deref(),
        command_line: &pe::text_section(&uki, ".cmdline")?,
    };
    let mut file =
        BufWriter::new(File::create(out).with_context(|| format!("creating {}", out.display()))?);
    let len = write(&parts, disc, &mut file)?;
    file.flush()
        .with_context(|| format!("writing {}", out.display()))?;
    Ok(format!(
        "{}: {:.2} MB, for {}",
        out.display(),
        len as f64 / 1e6,
        if bios.is_some() {
            "UEFI and BIOS"
        } else {
            "UEFI"
        }
    ))
}

/// Writes the disc and gives its length in bytes.
pub(crate) fn write(parts: &Parts<'_>, disc: &Disc, out: &mut impl Write) -> Result<u64> {
    let params = params(disc)?;
    let mut files: Vec<(&str, Vec<u8>)> = vec![("PARAMS.TXT", params.into_bytes())];
    if let Some(ca) = &disc.ca {
        files.push(("CA.PEM", ca.clone()));
    }
    if parts.bios.is_some() {
        files.push(("GRUB.CFG", vec![b'\n'; CONFIG]));
    }
    let mut builder = Builder::new(VOLUME).boot_image(parts.esp.len() as u64);
    if let Some(bios) = parts.bios {
        builder = builder.bios_image(bios.len() as u64);
    }
    for (name, content) in &files {
        builder = builder.file(name, content.len() as u64);
    }
    let layout = builder.layout()?;
    let mut bios = parts.bios.unwrap_or_default().to_vec();
    if parts.bios.is_some() {
        let at = |content| layout.offset(content).context("a disc without its parts");
        let info = boot_info(&bios, at(Content::BiosImage)?);
        bios.get_mut(BOOT_INFO..BOOT_INFO + info.len())
            .context("GRUB's image is shorter than its table")?
            .copy_from_slice(&info);
        let config = config(parts, at(Content::BootImage)?)?;
        if let Some((_, content)) = files.last_mut() {
            content[..config.len()].copy_from_slice(config.as_bytes());
        }
    }
    layout
        .write_to(out, |content| {
            Ok(match content {
                Content::File(index) => files.get(index).map_or(&[][..], |(_, c)| c.as_slice()),
                Content::BootImage => parts.esp,
                Content::BiosImage => bios.as_slice(),
                Content::Metadata | Content::Padding => &[][..],
            })
        })
        .context("writing the disc")?;
    Ok(layout.total_len())
}

/// `PARAMS.TXT`.
fn params(disc: &Disc) -> Result<String> {
    let mut text = String::new();
    for param in &disc.params {
        let sound = param
            .split_once('=')
            .is_some_and(|(key, _)| !key.is_empty())
            && !param.contains('\n');
        ensure!(sound, "parameter {param:?} is not KEY=VALUE");
        text.push_str(param);
        text.push('\n');
    }
    ensure!(
        text.len() <= PARAMS_MAX,
        "the parameters have {} bytes, the agent reads {PARAMS_MAX}",
        text.len()
    );
    Ok(text)
}

/// `GRUB.CFG`: kernel and initramfs by sectors of the disc.
fn config(parts: &Parts<'_>, esp_at: u64) -> Result<String> {
    let uki_at = find(parts.esp, parts.uki).context("the UKI does not lie in one piece")?;
    let range = |name| -> Result<String> {
        let section = pe::section(parts.uki, name)?;
        let start = esp_at + uki_at as u64 + section.start as u64;
        ensure!(
            start.is_multiple_of(SECTOR),
            "section {name} begins inside a sector"
        );
        let sectors = (section.len() as u64).div_ceil(SECTOR);
        Ok(format!("($root){}+{sectors}", start / SECTOR))
    };
    let text = format!(
        "linux {} {}\ninitrd {}\nboot\n",
        range(".linux")?,
        parts.command_line,
        range(".initrd")?
    );
    ensure!(
        text.len() <= CONFIG,
        "GRUB's configuration has {} bytes, expected at most {CONFIG}",
        text.len()
    );
    Ok(text)
}

/// Where `part` lies in `whole`, at a sector's beginning.
fn find(whole: &[u8], part: &[u8]) -> Option<usize> {
    (0..whole.len())
        .step_by(SECTOR as usize)
        .find(|at| whole[*at..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use wrought_formats::iso9660::Reader;

    use super::Disc;
    use super::Parts;
    use super::write;
    use crate::esp;
    use crate::pe;
    use crate::pe::tests::stub;

    fn made(disc: &Disc, bios: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
        let uki = pe::append_sections(
            &stub(),
            &[
                (".cmdline", b"quiet"),
                (".initrd", &[3; 70_000]),
                (".linux", &[7; 90_000]),
            ],
        )
        .unwrap();
        let parts = Parts {
            esp: &esp::build(&uki, esp::X86_64).unwrap(),
            uki: &uki,
            bios,
            command_line: "quiet",
        };
        let mut out = Vec::new();
        write(&parts, disc, &mut out).unwrap();
        (out, uki)
    }

    fn file(disc: &[u8], name: &str) -> String {
        let mut reader = Reader::open(|offset: u64, out: &mut [u8]| {
            out.copy_from_slice(&disc[offset as usize..offset as usize + out.len()]);
            Ok(())
        })
        .unwrap();
        assert_eq!(reader.volume_id(), "WROUGHT_VMEDIA");
        String::from_utf8(reader.read_file(name, 65_536).unwrap()).unwrap()
    }

    #[test]
    fn grub_is_told_where_kernel_and_initramfs_lie() {
        let disc = Disc {
            params: vec!["ipa-api-url=https://192.0.2.1:6385".to_owned()],
            ca: Some(b"a certificate".to_vec()),
        };
        let (image, _) = made(&disc, Some(&[0; 5000]));
        assert_eq!(
            image,
            made(&disc, Some(&[0; 5000])).0,
            "equal input, equal bytes"
        );
        assert_eq!(
            file(&image, "PARAMS.TXT"),
            "ipa-api-url=https://192.0.2.1:6385\n"
        );
        assert_eq!(file(&image, "CA.PEM"), "a certificate");
        let config = file(&image, "GRUB.CFG");
        for (word, byte, len) in [("linux", 7, 90_000), ("initrd", 3, 70_000)] {
            let line = config.lines().find(|l| l.starts_with(word)).unwrap();
            let range = line.split("($root)").nth(1).unwrap();
            let range = range.split_whitespace().next().unwrap();
            let (start, sectors) = range.split_once('+').unwrap();
            let start = start.parse::<usize>().unwrap() * 512;
            let sectors: usize = sectors.parse().unwrap();
            assert!(
                image[start..start + len].iter().all(|b| *b == byte),
                "{line}"
            );
            assert_eq!(sectors, usize::div_ceil(len, 512));
        }
        assert!(config.contains(" quiet\n"), "{config}");
    }

    #[test]
    fn a_disc_for_uefi_alone_has_no_grub() {
        let (image, uki) = made(&Disc::default(), None);
        assert!(file(&image, "PARAMS.TXT").is_empty());
        assert!(super::find(&image, &uki).is_some());
        let refused = Disc {
            params: vec!["no-value".to_owned()],
            ca: None,
        };
        let error = super::params(&refused).unwrap_err().to_string();
        assert!(error.contains("\"no-value\" is not KEY=VALUE"), "{error}");
    }
}
