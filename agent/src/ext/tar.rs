//! A writer for ustar archives of small files (POSIX.1-1988, ustar).

use std::io;
use std::io::Write;

const BLOCK: usize = 512;

/// Writes files one after the other.
pub(super) struct Tar<W: Write> {
    out: W,
    /// Seconds since the epoch, for all files.
    mtime: u64,
}

impl<W: Write> Tar<W> {
    pub(super) fn new(out: W, mtime: u64) -> Self {
        Self { out, mtime }
    }

    /// Adds a file that only its owner reads. The name has at most 100 bytes.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        if name.len() > 100 {
            let text = format!("file name {name:?} has more than 100 bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        put(0, name.as_bytes());
        put(100, b"0000600\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", content.len()).as_bytes());
        put(136, format!("{:011o}\0", self.mtime).as_bytes());
        // The checksum counts its own field as blanks.
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(content)?;
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        self.out.write_all(&[0; BLOCK][..rest])
    }

    /// Writes the end and gives the output back.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::Tar;

    #[test]
    fn tar_reads_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar");
        let mut tar = Tar::new(Vec::new(), 1_796_058_828);
        tar.file("a.txt", b"hello\n").unwrap();
        tar.file("sub/b", &[7; 1024]).unwrap();
        tar.file("empty", b"").unwrap();
        assert!(tar.file(&"x".repeat(101), b"").is_err());
        fs::write(&path, tar.finish().unwrap()).unwrap();

        let run = |arguments: &[&str]| {
            let output = Command::new("tar")
                .args(arguments)
                .arg("-f")
                .arg(&path)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            output.stdout
        };
        assert_eq!(run(&["-t"]), b"a.txt\nsub/b\nempty\n");
        assert_eq!(run(&["-xO"]), [b"hello\n".as_slice(), &[7; 1024]].concat());
    }
}
