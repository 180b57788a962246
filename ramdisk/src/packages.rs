//! Programs of distribution packages in the ramdisk: everything of the named
//! packages that a program needs to run, and of other packages the libraries
//! that those programs ask the dynamic linker for.
//!
//! No package script runs, and nothing is configured. Libraries that a program
//! opens by itself later (`dlopen`) come along only when they belong to a named
//! package.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use wrought_formats::cpio::Archive;

use crate::elf;
use crate::elf::Dynamic;

/// What a machine without users, manuals and service managers does without.
const LEFT_OUT: &[&str] = &[
    "etc/cron.d",
    "etc/cron.daily",
    "etc/cron.weekly",
    "etc/init.d",
    "etc/logrotate.d",
    "lib/systemd",
    "usr/include",
    "usr/lib/systemd",
    "usr/share/applications",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/doc-base",
    "usr/share/icons",
    "usr/share/info",
    "usr/share/initramfs-tools",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/pixmaps",
    "usr/share/zsh",
];
/// Deepest folder of a package that is looked into.
const DEPTH_MAX: usize = 16;
/// Most symbolic links on the way to a library.
const LINKS_MAX: usize = 8;
/// The C library, which opens [`UNWINDER`] by itself when a thread ends.
const C_LIBRARY: &str = "libc.so.6";
const UNWINDER: &str = "libgcc_s.so.1";

/// One file of the ramdisk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// The file that has its content, and whether it can be run.
    File(PathBuf, bool),
    /// A symbolic link's target.
    Link(String),
}

/// A library that no package has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// Its file name.
    pub library: String,
    /// The unpacked package whose file asks for it.
    pub wanted_by: PathBuf,
}

/// The files of packages, by path in the ramdisk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packages {
    files: BTreeMap<String, Entry>,
    missing: BTreeSet<Missing>,
}

/// Libraries of the unpacked packages `named` and `libraries` that are asked
/// for and not there.
///
/// # Errors
/// A package that cannot be read.
pub fn missing(named: &[PathBuf], libraries: &[PathBuf]) -> Result<Vec<Missing>> {
    Ok(Packages::gather(named, libraries)?
        .missing
        .into_iter()
        .collect())
}

impl Packages {
    /// Takes the files of the unpacked packages `named`, and what they need of
    /// `libraries`.
    pub(crate) fn gather(named: &[PathBuf], libraries: &[PathBuf]) -> Result<Self> {
        let mut gathered = Self::default();
        let mut programs = VecDeque::new();
        for package in named {
            let package = package.as_path();
            gathered.take(package, package, 0, &mut programs)?;
        }
        let all: Vec<&Path> = named
            .iter()
            .chain(libraries)
            .map(PathBuf::as_path)
            .collect();
        while let Some((package, path)) = programs.pop_front() {
            let file = package.join(&path);
            let bytes = read(&file)?;
            if !elf::is_elf(&bytes) {
                continue;
            }
            let dynamic = elf::dynamic(&bytes).with_context(|| file.display().to_string())?;
            for wanted in wanted(&dynamic, &path) {
                if !gathered.find(&all, &wanted, &mut programs)? && !wanted.is_wish {
                    gathered.missing.insert(Missing {
                        library: wanted.name,
                        wanted_by: package.to_owned(),
                    });
                }
            }
        }
        Ok(gathered)
    }

    /// Takes all files below `folder` of `package`.
    fn take<'a>(
        &mut self,
        package: &'a Path,
        folder: &Path,
        depth: usize,
        programs: &mut VecDeque<(&'a Path, String)>,
    ) -> Result<()> {
        if depth > DEPTH_MAX {
            bail!("{} has folders in folders", folder.display());
        }
        for entry in sorted(folder)? {
            let path = inside(package, &entry)?;
            if LEFT_OUT.contains(&path.as_str()) || path.ends_with(".a") {
                continue;
            }
            let kind = fs::symlink_metadata(&entry)
                .with_context(|| format!("reading {}", entry.display()))?
                .file_type();
            if kind.is_dir() {
                self.take(package, &entry, depth + 1, programs)?;
            } else if kind.is_symlink() || kind.is_file() {
                self.add(package, &path, programs)?;
            }
        }
        Ok(())
    }

    /// Takes one file or link of `package`. What is there already stays: the
    /// package named first has it.
    fn add<'a>(
        &mut self,
        package: &'a Path,
        path: &str,
        programs: &mut VecDeque<(&'a Path, String)>,
    ) -> Result<()> {
        if self.files.contains_key(path) {
            return Ok(());
        }
        let file = package.join(path);
        let meta =
            fs::symlink_metadata(&file).with_context(|| format!("reading {}", file.display()))?;
        let entry = if meta.file_type().is_symlink() {
            let target =
                fs::read_link(&file).with_context(|| format!("reading {}", file.display()))?;
            Entry::Link(target.to_str().context("a link is not UTF-8")?.to_owned())
        } else {
            programs.push_back((package, path.to_owned()));
            Entry::File(file, meta.permissions().mode() & 0o111 != 0)
        };
        self.files.insert(path.to_owned(), entry);
        Ok(())
    }

    /// Looks for a library in all its places and takes it, with the links that
    /// lead to it.
    fn find<'a>(
        &mut self,
        packages: &[&'a Path],
        wanted: &Wanted,
        programs: &mut VecDeque<(&'a Path, String)>,
    ) -> Result<bool> {
        for place in &wanted.places {
            if self.files.contains_key(place) {
                return Ok(true);
            }
            for package in packages {
                let mut path = place.clone();
                for _ in 0..LINKS_MAX {
                    let file = package.join(&path);
                    let Ok(meta) = fs::symlink_metadata(&file) else {
                        break;
                    };
                    if meta.is_dir() {
                        break;
                    }
                    self.add(package, &path, programs)?;
                    if meta.is_file() {
                        return Ok(true);
                    }
                    let Some(next) = follow(&path, &file)? else {
                        break;
                    };
                    path = next;
                }
            }
        }
        Ok(false)
    }

    /// Whether there is a file or link at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// How many files and links there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The archive of all of them, uncompressed, or nothing when there are none.
    ///
    /// # Errors
    /// A library that is missing, named with who asks for it.
    pub(crate) fn archive(&self) -> Result<Option<Vec<u8>>> {
        if let Some(missing) = self.missing.first() {
            bail!(
                "{} needs {}, which no package here has",
                missing.wanted_by.display(),
                missing.library
            );
        }
        if self.files.is_empty() {
            return Ok(None);
        }
        let mut archive = Archive::new();
        for (path, entry) in &self.files {
            match entry {
                Entry::File(file, runs) => {
                    let mode = if *runs { 0o755 } else { 0o644 };
                    archive.file(path, mode, read(file)?)?;
                }
                Entry::Link(target) => archive.symlink(path, target)?,
            }
        }
        let mut out = Vec::new();
        archive.write_to(&mut out)?;
        Ok(Some(out))
    }
}

/// A library that somebody asks for, with the places where the dynamic linker
/// looks, in order.
struct Wanted {
    name: String,
    places: Vec<String>,
    /// Not having it is fine.
    is_wish: bool,
}

fn wanted(dynamic: &Dynamic, asking: &str) -> Vec<Wanted> {
    let mut out = Vec::new();
    if let Some(path) = &dynamic.interpreter {
        let path = path.trim_start_matches('/');
        // A distribution whose /lib64 is a link has it below /usr only.
        out.push(Wanted {
            name: format!("/{path}"),
            places: vec![path.to_owned(), format!("usr/{path}")],
            is_wish: false,
        });
    }
    let multiarch = match dynamic.machine {
        183 => "aarch64-linux-gnu",
        _ => "x86_64-linux-gnu",
    };
    let origin = asking.rsplit_once('/').map_or("", |(folder, _)| folder);
    let own: Vec<String> = dynamic
        .folders
        .iter()
        .map(|folder| folder.replace("${ORIGIN}", "$ORIGIN"))
        .filter_map(|folder| plain(&folder.replace("$ORIGIN", &format!("/{origin}"))))
        .collect();
    let folders = ["lib", "usr/lib"].map(|folder| format!("{folder}/{multiarch}"));
    let more = ["lib", "usr/lib", "lib64", "usr/lib64"].map(str::to_owned);
    let mut library = |name: &str, is_wish| {
        let places = own.iter().chain(&folders).chain(&more);
        out.push(Wanted {
            name: name.to_owned(),
            places: places.map(|folder| format!("{folder}/{name}")).collect(),
            is_wish,
        });
    };
    for name in &dynamic.needed {
        library(name, false);
        if name == C_LIBRARY {
            library(UNWINDER, true);
        }
    }
    out
}

/// Where the link `file` at `path` leads, inside the package.
fn follow(path: &str, file: &Path) -> Result<Option<String>> {
    let target = fs::read_link(file).with_context(|| format!("reading {}", file.display()))?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = Path::new("/").join(folder).join(target);
    Ok(whole.to_str().and_then(plain))
}

/// An absolute path without its `/` and without `.` and `..`.
fn plain(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// What is in a folder, sorted.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        out.push(entry.path());
    }
    out.sort();
    Ok(out)
}

fn inside(package: &Path, path: &Path) -> Result<String> {
    let path = path.strip_prefix(package).context("a file outside")?;
    let path = path.to_str().context("a file name is not UTF-8")?;
    Ok(path.to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::path::PathBuf;

    use super::Entry;
    use super::Missing;
    use super::Packages;
    use super::missing;
    use crate::elf::tests::program;

    fn put(package: &Path, path: &str, content: &[u8], mode: u32) {
        let file = package.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A program `tool` that needs libz and libown; libz needs libc.
    fn packages(dir: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let tool = dir.join("tool_1_amd64");
        let asks = program(
            "/lib64/ld.so.2",
            &["libz.so.1", "libown.so"],
            "$ORIGIN/../lib/tool",
        );
        put(&tool, "usr/bin/tool", &asks, 0o4755);
        put(
            &tool,
            "usr/lib/tool/libown.so",
            &program("", &[], ""),
            0o644,
        );
        put(&tool, "usr/share/doc/tool/README", b"x", 0o644);
        put(&tool, "etc/tool.conf", b"x", 0o640);
        let libz = dir.join("zlib1g_1_amd64");
        let path = "lib/x86_64-linux-gnu/libz.so.1.2";
        put(&libz, path, &program("", &["libc.so.6"], ""), 0o644);
        symlink("libz.so.1.2", libz.join("lib/x86_64-linux-gnu/libz.so.1")).unwrap();
        put(&libz, "lib/x86_64-linux-gnu/libmore.so", b"", 0o644);
        let libc = dir.join("libc6_1_amd64");
        let path = "lib/x86_64-linux-gnu/libc.so.6";
        put(&libc, path, &program("", &[], ""), 0o755);
        put(
            &libc,
            "lib/x86_64-linux-gnu/ld.so.2",
            &program("", &[], ""),
            0o755,
        );
        fs::create_dir_all(libc.join("lib64")).unwrap();
        symlink("/lib/x86_64-linux-gnu/ld.so.2", libc.join("lib64/ld.so.2")).unwrap();
        (vec![tool], vec![libz, libc])
    }

    #[test]
    fn a_program_comes_with_what_it_needs_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let (named, libraries) = packages(dir.path());
        let found = Packages::gather(&named, &libraries).unwrap();
        let paths: Vec<&str> = found.files.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "etc/tool.conf",
                "lib/x86_64-linux-gnu/ld.so.2",
                "lib/x86_64-linux-gnu/libc.so.6",
                "lib/x86_64-linux-gnu/libz.so.1",
                "lib/x86_64-linux-gnu/libz.so.1.2",
                "lib64/ld.so.2",
                "usr/bin/tool",
                "usr/lib/tool/libown.so",
            ]
        );
        assert!(matches!(&found.files["usr/bin/tool"], Entry::File(_, true)));
        assert!(matches!(
            &found.files["etc/tool.conf"],
            Entry::File(_, false)
        ));
        assert!(missing(&named, &libraries).unwrap().is_empty());
        assert!(found.archive().unwrap().is_some());
        let none = Packages::gather(&[], &libraries).unwrap();
        assert!(none.archive().unwrap().is_none());
    }

    #[test]
    fn a_library_that_no_package_has_is_named_with_who_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        let (named, libraries) = packages(dir.path());
        let found = missing(&named, &libraries[..1]).unwrap();
        let lacks = |library: &str, by: &Path| Missing {
            library: library.to_owned(),
            wanted_by: by.to_owned(),
        };
        assert_eq!(
            found,
            [
                lacks("/lib64/ld.so.2", &named[0]),
                lacks("libc.so.6", &libraries[0])
            ]
        );
        let gathered = Packages::gather(&named, &libraries[..1]).unwrap();
        let error = gathered.archive().unwrap_err().to_string();
        assert!(error.contains("needs /lib64/ld.so.2"), "{error}");
    }
}
