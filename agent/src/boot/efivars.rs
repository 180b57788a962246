//! EFI variables through efivarfs: one file each, four bytes of attributes
//! before the value.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;

use crate::disk::ioctl;

/// Vendor GUID of the variables that the specification defines (UEFI 2.10
/// §3.3).
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Non-volatile, boot service and runtime access.
const ATTRIBUTES: u32 = 7;
/// Longest variable that we read.
const LIMIT: u64 = 64 << 10;

/// A failed access to an EFI variable.
#[derive(Debug, thiserror::Error)]
#[error("{action} EFI variable {name} ({})", path.display())]
pub struct Error {
    action: &'static str,
    name: String,
    path: PathBuf,
    source: io::Error,
}

/// The variables of the firmware, or of a folder in its place.
#[derive(Debug, Clone)]
pub struct EfiVars {
    root: PathBuf,
}

impl EfiVars {
    /// Variables below `root`, `/sys/firmware/efi/efivars` on a real
    /// machine.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Whether the machine was started by UEFI and efivarfs is mounted.
    pub fn available(&self) -> bool {
        fs::read_dir(&self.root).is_ok_and(|mut entries| entries.next().is_some())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}-{GLOBAL}"))
    }

    fn error(&self, action: &'static str, name: &str, source: io::Error) -> Error {
        Error {
            action,
            name: name.to_owned(),
            path: self.path(name),
            source,
        }
    }

    /// The value of a variable, without its attributes.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let file = match File::open(self.path(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error("open", name, error)),
        };
        let mut bytes = Vec::new();
        file.take(LIMIT)
            .read_to_end(&mut bytes)
            .map_err(|e| self.error("read", name, e))?;
        if bytes.len() < 4 {
            // A variable that was deleted while its file was open.
            return Ok(None);
        }
        Ok(Some(bytes.split_off(4)))
    }

    /// Sets a variable: attributes and value in one write, as the kernel
    /// wants it. The immutable flag that protects variables from careless
    /// deletion is taken off first.
    pub fn write(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        let mut bytes = ATTRIBUTES.to_le_bytes().to_vec();
        bytes.extend(value);
        self.unprotect(name)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| self.error("open for writing", name, e))?;
        let written = file
            .write(&bytes)
            .map_err(|e| self.error("write", name, e))?;
        if written != bytes.len() {
            let cause = io::Error::other(format!("{written} of {} bytes taken", bytes.len()));
            return Err(self.error("write", name, cause));
        }
        Ok(())
    }

    /// Deletes a variable; one that is not there is well.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        self.unprotect(name)?;
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.error("delete", name, error))
            }
            _ => Ok(()),
        }
    }

    fn unprotect(&self, name: &str) -> Result<(), Error> {
        match File::open(self.path(name)) {
            Ok(file) => {
                let cleared = ioctl::set_immutable(file.as_fd(), false);
                cleared
                    .map_err(|e| self.error("unprotect", name, e))
                    .map(drop)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.error("open", name, error)),
        }
    }

    /// Names of the global variables, sorted.
    pub fn names(&self) -> Vec<String> {
        let suffix = format!("-{GLOBAL}");
        let Ok(entries) = fs::read_dir(&self.root) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| Some(name.strip_suffix(&suffix)?.to_owned()))
            .collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::EfiVars;
    use std::fs;

    #[test]
    fn attributes_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let vars = EfiVars::new(folder.path());
        assert!(!vars.available());
        assert_eq!(vars.read("BootOrder").unwrap(), None);
        vars.write("BootOrder", &[1, 0, 2, 0]).unwrap();
        vars.write("BootOrder", &[3, 0]).unwrap();
        let file = folder
            .path()
            .join("BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c");
        assert_eq!(fs::read(file).unwrap(), [7, 0, 0, 0, 3, 0]);
        assert_eq!(vars.read("BootOrder").unwrap(), Some(vec![3, 0]));
        assert_eq!(vars.names(), ["BootOrder"]);
        assert!(vars.available());
        vars.delete("BootOrder").unwrap();
        vars.delete("BootOrder").unwrap();
        assert_eq!(vars.names(), [""; 0]);
    }
}
