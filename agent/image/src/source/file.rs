//! A local file or block device.

use std::fs::File;
use std::fs::OpenOptions;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::Failed;
use super::Place;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

#[derive(Debug)]
pub(super) struct FilePlace {
    file: File,
    name: String,
    position: u64,
    length: u64,
    /// Length of the same image elsewhere.
    expected: Option<u64>,
}

impl FilePlace {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let name = path.display().to_string();
        let fail = |error| {
            Error::new(ErrorKind::Source, Stage::Fetch, format!("open {name}")).caused_by(error)
        };
        // Opening a FIFO would wait for its other end, for ever.
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .map_err(fail)?;
        let kind = file.metadata().map_err(fail)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let found = if kind.is_dir() {
                "a directory"
            } else {
                "neither a file nor a block device"
            };
            let text = format!("{name} is {found}, expected a file with an image");
            return Err(Error::new(ErrorKind::Source, Stage::Fetch, text));
        }
        // Metadata says 0 for block devices; the end of the seek does not.
        let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self {
            file,
            name,
            position: 0,
            length,
            expected: None,
        })
    }

    fn error(&self, text: &str) -> Error {
        Error::new(
            ErrorKind::Source,
            Stage::Fetch,
            format!("{text} {}", self.name),
        )
        .at(self.position)
    }
}

impl Place for FilePlace {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Failed> {
        self.connect()?;
        let left = usize::try_from(self.length - self.position).unwrap_or(usize::MAX);
        let want = buf.len().min(left);
        if want == 0 {
            return Ok(0);
        }
        let got = self
            .file
            .read_at(&mut buf[..want], self.position)
            .map_err(|error| Failed::Final(self.error("read").caused_by(error)))?;
        if got == 0 {
            return Err(Failed::Final(self.error("unexpected end of")));
        }
        self.position += got as u64;
        Ok(got)
    }

    fn connect(&mut self) -> Result<(), Failed> {
        match self.expected {
            Some(expected) if expected != self.length => {
                let length = self.length;
                let text = format!("{expected} bytes are expected, {length} are in");
                Err(Failed::Final(self.error(&text)))
            }
            _ => Ok(()),
        }
    }

    fn seek(&mut self, position: u64, _end: Option<u64>) {
        self.position = position.min(self.length);
    }

    fn expect(&mut self, length: u64) {
        self.expected = Some(length);
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
