//! Which loader of an EFI system partition is to be started.

use std::io;
use std::io::Read;

use fatfs::Dir;
use fatfs::FileSystem;
use fatfs::FsOptions;

use crate::boot::csv;
use crate::disk::BlockFile;
use crate::disk::Window;

/// Bytes that looking for a loader may read from the partition in all.
const READ_BUDGET: u64 = 64 << 20;
/// Longest CSV file that is read.
const CSV_LIMIT: u64 = 64 << 10;
/// Folders and files below `EFI` that are looked at.
const MOST_FILES: usize = 4096;
/// Depth below the root: `EFI`, the vendor's folder, one more.
const DEEPEST: usize = 3;
/// Description of an entry for a loader that has no CSV file.
const DEFAULT_LABEL: &str = "wrought";

/// A loader with the description of its boot entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loader {
    /// Path with backslashes from the root.
    pub path: String,
    /// Description of the entry.
    pub label: String,
    /// Passed to the loader.
    pub options: String,
}

/// Why there is no loader.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    /// The file system cannot be read.
    #[error("read the file system of the EFI system partition")]
    Read(#[from] io::Error),
    /// It holds none that is known.
    #[error(
        "the EFI system partition holds no boot loader for {arch}; it needs EFI/<vendor>/{csv}, or one of {known}; found {found}"
    )]
    None {
        /// Architecture suffix, such as `x64`.
        arch: &'static str,
        /// Name of the CSV file.
        csv: String,
        /// Loaders that are known.
        known: String,
        /// Files that are there.
        found: String,
    },
}

/// Suffix of loader names for the machine that this runs on.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "aa64",
        "riscv64" => "riscv64",
        "loongarch64" => "loongarch64",
        _ => "x64",
    }
}

/// Known loaders for an architecture, the best first: shim before all, since
/// with secure boot it alone is accepted; the removable-media name before
/// loaders that it may stand for.
fn known(arch: &str) -> Vec<String> {
    let mut known = vec![
        format!("shim{arch}.efi"),
        format!("boot{arch}.efi"),
        format!("grub{arch}.efi"),
        format!("systemd-boot{arch}.efi"),
    ];
    if arch == "x64" {
        known.push("bootmgfw.efi".to_owned());
    }
    known
}

/// Finds the loaders in the partition at bytes `start..start + length` of a
/// disk: those that the first CSV file names, else the best known one.
pub fn find(
    disk: &BlockFile,
    start: u64,
    length: u64,
    arch: &'static str,
) -> Result<Vec<Loader>, LoaderError> {
    let window = Window::reader(disk, start, length, READ_BUDGET);
    let volume = FileSystem::new(window, FsOptions::new())?;
    let mut files = Vec::new();
    walk(&volume.root_dir(), "", 0, &mut files)?;
    // The same choice on every run, whatever order the folders have.
    files.sort_unstable_by_key(|file| file.to_lowercase());

    let csv_name = format!("boot{arch}.csv");
    let by_csv = files
        .iter()
        .find(|file| matches_name(file, &csv_name) || matches_name(file, "boot.csv"));
    if let Some(csv_file) = by_csv {
        let loaders = from_csv(&volume, csv_file, &files)?;
        if !loaders.is_empty() {
            return Ok(loaders);
        }
    }
    for name in known(arch) {
        for file in files.iter().filter(|file| matches_name(file, &name)) {
            if is_executable(&volume, file)? {
                let label = DEFAULT_LABEL.to_owned();
                return Ok(vec![Loader {
                    path: backslashes(file),
                    label,
                    options: String::new(),
                }]);
            }
        }
    }
    let found = if files.is_empty() {
        "no files below EFI".to_owned()
    } else {
        files.join(", ")
    };
    Err(LoaderError::None {
        arch,
        csv: csv_name.to_uppercase(),
        known: known(arch).join(", "),
        found,
    })
}

type Volume<'a> = FileSystem<Window<'a>>;

/// Paths, with slashes, of the files below `EFI`.
fn walk(
    folder: &Dir<'_, Window<'_>>,
    path: &str,
    depth: usize,
    files: &mut Vec<String>,
) -> io::Result<()> {
    for entry in folder.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name == "." || name == ".." || files.len() >= MOST_FILES {
            continue;
        }
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}/{name}")
        };
        if entry.is_dir() {
            let wanted = depth > 0 || name.eq_ignore_ascii_case("efi");
            if wanted && depth < DEEPEST {
                walk(&entry.to_dir(), &below, depth + 1, files)?;
            }
        } else if depth > 0 {
            files.push(below);
        }
    }
    Ok(())
}

fn matches_name(path: &str, name: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|last| last.eq_ignore_ascii_case(name))
}

fn backslashes(path: &str) -> String {
    format!("\\{}", path.replace('/', "\\"))
}

fn from_csv(volume: &Volume<'_>, csv_file: &str, files: &[String]) -> io::Result<Vec<Loader>> {
    let mut bytes = Vec::new();
    volume
        .root_dir()
        .open_file(csv_file)?
        .take(CSV_LIMIT)
        .read_to_end(&mut bytes)?;
    let folder = csv_file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut loaders = Vec::new();
    for entry in csv::parse(&bytes) {
        let wanted = format!("{folder}/{}", entry.file);
        let Some(file) = files.iter().find(|file| file.eq_ignore_ascii_case(&wanted)) else {
            tracing::warn!(
                csv = csv_file,
                file = wanted,
                "a CSV file names a loader that is not there"
            );
            continue;
        };
        loaders.push(Loader {
            path: backslashes(file),
            label: entry.label,
            options: entry.options,
        });
    }
    Ok(loaders)
}

/// A PE image begins with `MZ`.
fn is_executable(volume: &Volume<'_>, path: &str) -> io::Result<bool> {
    let mut start = Vec::new();
    volume
        .root_dir()
        .open_file(path)?
        .take(2)
        .read_to_end(&mut start)?;
    Ok(start == b"MZ")
}

#[cfg(test)]
mod tests;
