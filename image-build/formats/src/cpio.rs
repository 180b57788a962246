//! Archives in cpio's `newc` form, as the Linux kernel unpacks them into its
//! initial root file system (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Equal input gives equal bytes: no times, owners or inode numbers of the
//! building machine get in, and entries come out sorted by path.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use thiserror::Error;

/// File type bits of `mode`.
const TYPE_DIRECTORY: u32 = 0o040_000;
const TYPE_FILE: u32 = 0o100_000;
const TYPE_SYMLINK: u32 = 0o120_000;
const TYPE_CHAR_DEVICE: u32 = 0o020_000;

/// Why an entry or an archive is not possible.
#[derive(Debug, Error)]
pub enum CpioError {
    /// Paths are relative, without empty, `.` or `..` parts or NUL.
    #[error("archive path {0:?} must be relative and plain, like etc/hostname")]
    Path(String),
    /// The path was added twice.
    #[error("archive path {0:?} is given twice")]
    Duplicate(String),
    /// The format's fields have 32 bits.
    #[error("archive member {path} has {len} bytes, cpio newc holds at most 4294967295")]
    TooLong {
        /// The member's path.
        path: String,
        /// Its length in bytes.
        len: u64,
    },
    /// The output failed.
    #[error("writing the archive")]
    Io(#[from] io::Error),
}

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File(Vec<u8>),
    Symlink(String),
    CharDevice(u32, u32),
    /// Another name of the file at this path.
    Link(String),
}

/// Collects entries, then writes them sorted by path. Missing parent
/// directories are added with mode 0755.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    entries: BTreeMap<String, (u32, Node)>,
}

impl Archive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory with permission bits `mode`.
    ///
    /// # Errors
    /// A bad path.
    pub fn directory(&mut self, path: &str, mode: u32) -> Result<(), CpioError> {
        self.add(path, mode, Node::Directory)
    }

    /// Adds a regular file.
    ///
    /// # Errors
    /// A bad or repeated path, or 4 GiB and more of content.
    pub fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) -> Result<(), CpioError> {
        let len = content.len() as u64;
        if len > u64::from(u32::MAX) {
            return Err(CpioError::TooLong {
                path: path.to_owned(),
                len,
            });
        }
        self.add(path, mode, Node::File(content))
    }

    /// Adds `path` as a second name (hard link) of the file `target`, which
    /// must be added too.
    ///
    /// # Errors
    /// A bad or repeated path.
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), CpioError> {
        check(target)?;
        self.add(path, 0, Node::Link(target.to_owned()))
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// A bad or repeated path.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), CpioError> {
        self.add(path, 0o777, Node::Symlink(target.to_owned()))
    }

    /// Adds a character device.
    ///
    /// # Errors
    /// A bad or repeated path.
    pub fn char_device(
        &mut self,
        path: &str,
        mode: u32,
        major: u32,
        minor: u32,
    ) -> Result<(), CpioError> {
        self.add(path, mode, Node::CharDevice(major, minor))
    }

    fn add(&mut self, path: &str, mode: u32, node: Node) -> Result<(), CpioError> {
        check(path)?;
        for (at, _) in path.match_indices('/') {
            self.entries
                .entry(path[..at].to_owned())
                .or_insert((0o755, Node::Directory));
        }
        let replaces = match self.entries.get(path) {
            None => true,
            Some((_, Node::Directory)) => matches!(node, Node::Directory),
            Some(_) => false,
        };
        if !replaces {
            return Err(CpioError::Duplicate(path.to_owned()));
        }
        self.entries.insert(path.to_owned(), (mode, node));
        Ok(())
    }

    /// Writes the archive with its trailer; the length is a multiple of 4.
    ///
    /// # Errors
    /// Those of `out`, and a link to a file that was not added.
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), CpioError> {
        // Names of one file must be neighbours: the kernel writes the content
        // that comes with the last of them into the first.
        let mut inode = 0;
        for (path, (mode, node)) in &self.entries {
            let names = self.names_of(path);
            inode += 1;
            match node {
                Node::Link(target) => {
                    if !matches!(self.entries.get(target), Some((_, Node::File(_)))) {
                        return Err(CpioError::Path(target.clone()));
                    }
                }
                Node::Directory => member(out, inode, mode | TYPE_DIRECTORY, 2, (0, 0), path, &[])?,
                Node::Symlink(to) => {
                    member(
                        out,
                        inode,
                        mode | TYPE_SYMLINK,
                        1,
                        (0, 0),
                        path,
                        to.as_bytes(),
                    )?;
                }
                Node::CharDevice(major, minor) => {
                    let number = (*major, *minor);
                    member(out, inode, mode | TYPE_CHAR_DEVICE, 1, number, path, &[])?;
                }
                Node::File(content) => {
                    let links = names.len() as u32 + 1;
                    for name in names {
                        member(out, inode, mode | TYPE_FILE, links, (0, 0), name, &[])?;
                    }
                    member(out, inode, mode | TYPE_FILE, links, (0, 0), path, content)?;
                }
            }
        }
        member(out, 0, 0, 1, (0, 0), "TRAILER!!!", &[])
    }

    /// Paths that are further names of the file `path`.
    fn names_of(&self, path: &str) -> Vec<&str> {
        let is_link = |node: &Node| matches!(node, Node::Link(target) if target == path);
        self.entries
            .iter()
            .filter(|(_, (_, n))| is_link(n))
            .map(|(p, _)| p.as_str())
            .collect()
    }
}

fn check(path: &str) -> Result<(), CpioError> {
    let plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if path.split('/').all(plain) {
        Ok(())
    } else {
        Err(CpioError::Path(path.to_owned()))
    }
}

fn member(
    out: &mut impl Write,
    inode: u32,
    mode: u32,
    links: u32,
    device: (u32, u32),
    path: &str,
    content: &[u8],
) -> Result<(), CpioError> {
    let fields = [
        inode,
        mode,
        0, // uid
        0, // gid
        links,
        0, // mtime
        content.len() as u32,
        0, // device of the file, major and minor
        0,
        device.0,
        device.1,
        path.len() as u32 + 1,
        0, // check sum, unused in newc
    ];
    let mut head = String::from("070701");
    for field in fields {
        head.push_str(&format!("{field:08X}"));
    }
    head.push_str(path);
    head.push('\0');
    out.write_all(head.as_bytes())?;
    pad(out, head.len())?;
    out.write_all(content)?;
    pad(out, content.len())
}

fn pad(out: &mut impl Write, len: usize) -> Result<(), CpioError> {
    out.write_all(&[0; 3][..len.next_multiple_of(4) - len])?;
    Ok(())
}

#[cfg(test)]
mod tests;
