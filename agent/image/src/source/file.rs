//! A local file or block device.

use std::fs::File;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::Source;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;

#[derive(Debug)]
pub(super) struct FileSource {
    file: File,
    name: String,
    position: u64,
    length: u64,
}

impl FileSource {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let name = path.display().to_string();
        let fail = |error| {
            Error::new(ErrorKind::Source, Stage::Fetch, format!("open {name}")).caused_by(error)
        };
        let mut file = File::open(&path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            let text = format!("{name} is a directory, expected an image file");
            return Err(Error::new(ErrorKind::Source, Stage::Fetch, text));
        }
        // Metadata says 0 for block devices; the end of the seek does not.
        let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self {
            file,
            name,
            position: 0,
            length,
        })
    }
}

impl Source for FileSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        let left = usize::try_from(self.length - self.position).unwrap_or(usize::MAX);
        let want = buf.len().min(left);
        if want == 0 {
            return Ok(0);
        }
        let fail = |text: &str| {
            Error::new(
                ErrorKind::Source,
                Stage::Fetch,
                format!("{text} {}", self.name),
            )
            .at(self.position)
        };
        let got = self
            .file
            .read_at(&mut buf[..want], self.position)
            .map_err(|error| fail("read").caused_by(error))?;
        if got == 0 {
            return Err(fail("unexpected end of"));
        }
        self.position += got as u64;
        Ok(got)
    }

    fn seek(&mut self, position: u64, _end: Option<u64>) {
        self.position = position.min(self.length);
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
