//! Looking at a machine's disk from outside.

use std::fs::File;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;

/// How much of each end is looked at.
const END: u64 = 1 << 20;

/// Whether the first and the last MiB hold nothing but zeroes.
pub fn ends_are_zero(disk: &Path) -> Result<bool> {
    let mut file = File::open(disk).with_context(|| format!("opening {}", disk.display()))?;
    let length = file.seek(SeekFrom::End(0))?;
    let last = length
        .checked_sub(END)
        .context("the disk is smaller than one MiB")?;
    Ok(is_zero(&mut file, 0)? && is_zero(&mut file, last)?)
}

fn is_zero(file: &mut File, at: u64) -> Result<bool> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(END).read_to_end(&mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::ends_are_zero;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_byte_at_either_end_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(b"x", 2 << 20).unwrap();
        assert!(ends_are_zero(&path).unwrap());
        file.write_all_at(b"x", (4 << 20) - 1).unwrap();
        assert!(!ends_are_zero(&path).unwrap());
    }
}
