//! A disk image: partition table, boot code, EFI system partition, and
//! optionally a root file system. Nothing is mounted.

use std::fs;
use std::fs::File;
use std::io::Cursor;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use uuid::Uuid;

use crate::command::run;
use crate::grub;
use crate::grub::Config;
use crate::parts::Parts;

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;
/// First sector and length of the BIOS boot partition, in sectors.
const BIOS_START: u64 = 2048;
const BIOS_SECTORS: u64 = 2048;
/// Where the EFI system partition starts, in sectors.
const ESP_START: u64 = BIOS_START + BIOS_SECTORS;

/// What a disk shall hold.
pub(crate) struct Plan {
    /// How both boot loaders find their configuration.
    pub(crate) config: Config,
    /// Further files of the EFI system partition.
    pub(crate) esp_files: Vec<(String, Vec<u8>)>,
    /// Size of the EFI system partition in MiB.
    pub(crate) esp_mib: u64,
    /// Identifier of the EFI system partition's file system.
    pub(crate) esp_id: u32,
    /// The root file system.
    pub(crate) root: Option<Root>,
    /// Seed of the table's identifiers.
    pub(crate) seed: [u8; 16],
}

/// A root file system made from a folder.
pub(crate) struct Root {
    /// The folder.
    pub(crate) tree: PathBuf,
    /// Size in MiB.
    pub(crate) mib: u64,
    /// The file system's UUID.
    pub(crate) uuid: Uuid,
}

/// Builds the raw image `path`; `work` is for files on the way.
pub(crate) fn compose(plan: &Plan, parts: &Parts, work: &Path, path: &Path) -> Result<()> {
    let root_mib = plan.root.as_ref().map_or(0, |root| root.mib);
    // 2 MiB before the first file system, 1 MiB for the backup table.
    let len = (2 + plan.esp_mib + root_mib + 1) * MIB;
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.set_len(len)
        .with_context(|| format!("sizing {}", path.display()))?;
    drop(file);
    table(plan, path)?;

    let (boot, core) = grub::bios(parts, &plan.config, BIOS_START, work)?;
    ensure!(
        core.len() as u64 <= BIOS_SECTORS * SECTOR,
        "GRUB's core image has {} bytes, its partition only {}",
        core.len(),
        BIOS_SECTORS * SECTOR
    );
    let mut esp_files = grub::esp(parts, &plan.config)?;
    esp_files.extend(plan.esp_files.iter().cloned());
    let esp = fat(&esp_files, plan.esp_mib * MIB, plan.esp_id)?;
    let mut file = File::options()
        .write(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    for (sector, content) in [(0, &boot), (BIOS_START, &core), (ESP_START, &esp)] {
        file.seek(SeekFrom::Start(sector * SECTOR))
            .and_then(|_| file.write_all(content))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    drop(file);
    if let Some(root) = &plan.root {
        let start = (2 + plan.esp_mib) * MIB;
        ext4(root, path, start)?;
    }
    Ok(())
}

/// Writes the partition table and reads it back.
fn table(plan: &Plan, path: &Path) -> Result<()> {
    let esp_end = ESP_START + plan.esp_mib * MIB / SECTOR - 1;
    let mut rows = vec![
        (BIOS_START, BIOS_START + BIOS_SECTORS - 1, "ef02", "bios"),
        (ESP_START, esp_end, "ef00", "esp"),
    ];
    if let Some(root) = &plan.root {
        rows.push((
            esp_end + 1,
            esp_end + root.mib * MIB / SECTOR,
            "8304",
            "root",
        ));
    }
    let mut command = Command::new("sgdisk");
    command.args(["--clear", "--set-alignment=2048"]);
    command.arg(format!("--disk-guid={}", guid(plan.seed, 0)));
    for (index, (first, last, kind, name)) in rows.iter().enumerate() {
        let number = index + 1;
        command.arg(format!("--new={number}:{first}:{last}"));
        command.arg(format!("--typecode={number}:{kind}"));
        command.arg(format!("--change-name={number}:{name}"));
        command.arg(format!(
            "--partition-guid={number}:{}",
            guid(plan.seed, number as u8)
        ));
    }
    run(command.arg(path))?;
    let printed = run(Command::new("sgdisk").arg("--print").arg(path))?;
    let found = printed.lines().filter(|line| is_row(line)).count();
    ensure!(
        found == rows.len(),
        "sgdisk was asked for {} partitions, {} are there",
        rows.len(),
        found
    );
    Ok(())
}

/// Whether a line of `sgdisk --print` describes a partition.
fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words
        .by_ref()
        .take(3)
        .filter(|word| word.parse::<u64>().is_ok())
        .count()
        == 3
}

/// A GUID that follows from the seed.
pub(crate) fn guid(seed: [u8; 16], number: u8) -> Uuid {
    let mut bytes = seed;
    bytes[15] ^= number;
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// A FAT file system with these files.
fn fat(files: &[(String, Vec<u8>)], len: u64, id: u32) -> Result<Vec<u8>> {
    let mut image = vec![0; len as usize];
    let options = fatfs::FormatVolumeOptions::new()
        .volume_id(id)
        .volume_label(*b"ESP        ");
    fatfs::format_volume(Cursor::new(&mut image), options).context("formatting the ESP")?;
    {
        let fs = fatfs::FileSystem::new(Cursor::new(&mut image), fatfs::FsOptions::new())
            .context("opening the ESP")?;
        let root = fs.root_dir();
        for (path, content) in files {
            for (at, _) in path.match_indices('/') {
                root.create_dir(&path[..at])
                    .with_context(|| format!("creating {path}"))?;
            }
            let mut file = root
                .create_file(path)
                .with_context(|| format!("creating {path}"))?;
            file.write_all(content)
                .with_context(|| format!("writing {path}"))?;
            file.flush().with_context(|| format!("writing {path}"))?;
        }
    }
    Ok(image)
}

/// Makes an ext4 file system from a folder, `start` bytes into the image.
fn ext4(root: &Root, path: &Path, start: u64) -> Result<()> {
    run(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-L", "root", "-m", "1", "-b", "4096"])
        // GRUB 2.06 cannot read file systems with these.
        .args(["-O", "^metadata_csum_seed,^orphan_file"])
        .args(["-E", &format!("offset={start},hash_seed={}", root.uuid)])
        .arg("-U")
        .arg(root.uuid.to_string())
        .arg("-d")
        .arg(&root.tree)
        .arg(path)
        .arg(format!("{}k", root.mib * 1024)))
    .map(drop)
}

/// Turns the raw image into a compressed qcow2 file.
pub(crate) fn to_qcow2(raw: &Path, qcow2: &Path) -> Result<()> {
    run(Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "qcow2", "-c"])
        .arg(raw)
        .arg(qcow2))?;
    fs::remove_file(raw).with_context(|| format!("removing {}", raw.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Plan;
    use super::Root;
    use super::fat;
    use super::guid;
    use super::is_row;
    use super::table;
    use crate::grub::Config;

    #[test]
    fn rows_of_a_table_are_told_from_its_head() {
        let printed = "Disk a: 1 sectors\n\nNumber  Start (sector)    End (sector)  Size\n   1            2048            4095   1024.0 KiB  EF02  bios\n";
        assert_eq!(printed.lines().filter(|line| is_row(line)).count(), 1);
    }

    #[test]
    fn sgdisk_verifies_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.raw");
        let len = (2 + 8 + 40 + 1) << 20;
        std::fs::File::create(&image).unwrap().set_len(len).unwrap();
        let plan = Plan {
            config: Config::Text(String::new()),
            esp_files: vec![],
            esp_mib: 8,
            esp_id: 1,
            root: Some(Root {
                tree: dir.path().into(),
                mib: 40,
                uuid: guid([1; 16], 9),
            }),
            seed: [1; 16],
        };
        if Command::new("sgdisk").arg("--version").output().is_err() {
            eprintln!("sgdisk is not installed, not compared");
            return;
        }
        table(&plan, &image).unwrap();
        let run = Command::new("sgdisk")
            .arg("--verify")
            .arg(&image)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(said.contains("No problems found"), "{said}");
        let run = Command::new("sgdisk")
            .arg("--print")
            .arg(&image)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        for kind in ["EF02  bios", "EF00  esp", "8304  root"] {
            assert!(said.contains(kind), "{said}");
        }
    }

    #[test]
    fn identifiers_follow_from_the_seed() {
        assert_eq!(guid([7; 16], 1), guid([7; 16], 1));
        assert_ne!(guid([7; 16], 1), guid([7; 16], 2));
    }

    #[test]
    fn mtools_reads_the_file_system() {
        let files = [(
            "EFI/debian/grub.cfg".to_owned(),
            b"set timeout=0\n".to_vec(),
        )];
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("esp.img");
        std::fs::write(&image, fat(&files, 8 << 20, 1).unwrap()).unwrap();
        let run = Command::new("mtype")
            .arg("-i")
            .arg(&image)
            .arg("::EFI/debian/grub.cfg")
            .output();
        let Ok(output) = run else {
            eprintln!("mtools is not installed, not compared");
            return;
        };
        assert_eq!(output.stdout, b"set timeout=0\n");
    }
}
