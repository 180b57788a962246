//! What an image is, and whether it would be written, from its first MiB.

use std::sync::Arc;

use wrought_formats::detect;
use wrought_formats::detect::Format;
use wrought_formats::qcow2::Compression;
use wrought_formats::qcow2::Header;

use crate::control::Control;
use crate::decoder;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::halt::refused;
use crate::redact;
use crate::report::TableReport;
use crate::request::HttpOptions;
use crate::request::Retry;
use crate::source;
use crate::table;
use crate::table::Disk;
use crate::target::END;

/// What [`inspect`] found out.
#[derive(Debug)]
pub struct ImageFacts {
    /// The URL or path, without credentials.
    pub source: String,
    /// The format found by content; `None` when several signatures match.
    pub format: Option<Format>,
    /// Size of the source in bytes, when it is announced.
    pub bytes: Option<u64>,
    /// Size of the disk in the image in bytes.
    pub virtual_size: Option<u64>,
    /// More about a qcow2 image.
    pub qcow2: Option<Qcow2Facts>,
    /// The partition table of a raw image. That of a qcow2 image is known
    /// only after it was decoded.
    pub table: Option<TableReport>,
    /// Why it would not be written.
    pub refusal: Option<Error>,
}

/// What a qcow2 header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qcow2Facts {
    /// 2 or 3.
    pub version: u32,
    /// Cluster size in bytes.
    pub cluster_size: u64,
    /// `zlib` or `zstd`: how compressed clusters, if any, are compressed.
    pub compression: &'static str,
    /// Whether L2 entries have subclusters.
    pub extended_l2: bool,
    /// Number of internal snapshots; they are ignored.
    pub snapshots: u32,
}

/// Looks at the start of an image.
///
/// # Errors
/// The source cannot be read. An image that would not be written is no
/// error: see [`ImageFacts::refusal`].
pub fn inspect(location: &str, http: &HttpOptions, retry: Retry) -> Result<ImageFacts, Error> {
    let control = Arc::new(Control::new(crate::CancelToken::new()));
    let mut source = source::open(&[location.to_owned()], http, retry, &control)?;
    source.seek(0, Some(END));
    let mut head = vec![0; END as usize];
    let mut filled = 0;
    while filled < head.len() {
        match source.read(&mut head[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    head.truncate(filled);
    let bytes = source.length();
    let mut facts = ImageFacts {
        source: redact::url(location),
        format: detect::detect(&head).ok().map(|found| found.format),
        bytes,
        virtual_size: None,
        qcow2: None,
        table: None,
        refusal: None,
    };
    facts.refusal = look(&head, &mut facts).err();
    Ok(facts)
}

/// Fills in what the format tells.
fn look(head: &[u8], facts: &mut ImageFacts) -> Result<(), Error> {
    if head.is_empty() {
        let text = format!("{} is empty", facts.source);
        return Err(Error::new(ErrorKind::Format, Stage::Check, text));
    }
    let found = decoder::examine(head)?;
    if found.format == Format::Qcow2 {
        let header = Header::parse(head, facts.bytes).map_err(refused)?;
        facts.virtual_size = Some(header.virtual_size);
        facts.qcow2 = Some(Qcow2Facts {
            version: header.version,
            cluster_size: header.cluster_size(),
            compression: match header.compression {
                Compression::Zlib => "zlib",
                Compression::Zstd => "zstd",
            },
            extended_l2: header.extended_l2,
            snapshots: header.snapshots,
        });
        return Ok(());
    }
    facts.virtual_size = facts.bytes;
    let fitted = table::fit(&Disk {
        head,
        size: facts.bytes.unwrap_or(u64::MAX >> 1),
        sector_size: None,
        read: &|_, _| {
            let text = "the image's GPT lies far from its start";
            Err(Error::new(ErrorKind::Format, Stage::Check, text))
        },
    })?;
    facts.table = Some(fitted.report);
    Ok(())
}
