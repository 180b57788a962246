//! What an image is, and whether it would be written: from its first MiB, and
//! where it is on this machine from its tables too.

mod peek;
mod qcow2;

use std::sync::Arc;

use wrought_formats::detect;
use wrought_formats::detect::Format;
use wrought_formats::qcow2::Header;

use crate::container;
use crate::control::Control;
use crate::decoder;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::report::TableReport;
use crate::request::HttpOptions;
use crate::request::Retry;
use crate::source;
use crate::source::Source;
use crate::table;
use crate::table::Disk;
use crate::target::END;
use peek::Peek;

/// What [`inspect`] found out.
#[derive(Debug)]
pub struct ImageFacts {
    /// The URL or path, without credentials.
    pub source: String,
    /// What the image is compressed with as a whole.
    pub container: Option<Format>,
    /// The format found by content, inside of the container if there is one;
    /// `None` when several signatures match or none can be seen.
    pub format: Option<Format>,
    /// Size of the source in bytes, when it is announced.
    pub bytes: Option<u64>,
    /// Size of the disk in the image in bytes, when it is known without
    /// decoding all of it.
    pub virtual_size: Option<u64>,
    /// More about a qcow2 image.
    pub qcow2: Option<Qcow2Facts>,
    /// The partition table, when the part of the image that was looked at
    /// holds it.
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
    /// Whether all tables were looked at; on a server only those in the
    /// first MiB are.
    pub all_tables_checked: bool,
}

/// Looks at an image.
///
/// # Errors
/// The source cannot be read. An image that would not be written is no
/// error: see [`ImageFacts::refusal`].
pub fn inspect(location: &str, http: &HttpOptions, retry: Retry) -> Result<ImageFacts, Error> {
    let control = Arc::new(Control::new(crate::CancelToken::new()));
    let mut source = source::open(&[location.to_owned()], http, retry, &control)?;
    let head = peek::read(&mut *source, 0, END as usize)?;
    let mut facts = ImageFacts {
        source: source.name().to_owned(),
        container: None,
        format: None,
        bytes: source.length(),
        virtual_size: None,
        qcow2: None,
        table: None,
        refusal: None,
    };
    let local = source::is_local(location).then_some(source);
    match look(&head, local, &mut facts) {
        Ok(()) => Ok(facts),
        // The image's own fault, and not the reading's.
        Err(error) if error.kind() != ErrorKind::Source => {
            facts.refusal = Some(error);
            Ok(facts)
        }
        Err(error) => Err(error),
    }
}

/// Fills in what the content tells; the error is why it is refused.
fn look(head: &[u8], source: Option<Box<dyn Source>>, facts: &mut ImageFacts) -> Result<(), Error> {
    if head.is_empty() {
        let text = format!("{} is empty", facts.source);
        return Err(Error::new(ErrorKind::Format, Stage::Check, text));
    }
    let Some(container) = container::recognise(head)? else {
        let peek = Peek::new(head, facts.bytes, source);
        return look_inside(peek, facts);
    };
    facts.container = Some(container.kind.format());
    let inner = container::peek(container, head, END as usize)?;
    if inner.is_empty() {
        let text = format!("nothing is in {}, which is compressed", facts.source);
        return Err(Error::new(ErrorKind::Format, Stage::Check, text));
    }
    look_inside(Peek::new(&inner, None, None), facts)
}

fn look_inside(mut peek: Peek<'_>, facts: &mut ImageFacts) -> Result<(), Error> {
    facts.format = detect::detect(peek.head()).ok().map(|found| found.format);
    let found = decoder::examine(peek.head(), false)?;
    if found.format == Format::Qcow2 {
        return qcow2::look(&mut peek, facts);
    }
    facts.virtual_size = peek.size();
    facts.table = table_of(peek.head(), peek.size())?;
    Ok(())
}

/// The start of the disk in a qcow2 image, where its own first bytes show it.
pub(crate) fn disk_in_qcow2(header: &Header, head: &[u8]) -> Option<Vec<u8>> {
    let mut peek = Peek::new(head, header.file_size, None);
    // What is damaged is told when it is decoded.
    qcow2::guest_head(header, &mut peek).ok().flatten()
}

/// Judges the table of a disk that begins with `head`; `None` when that lies
/// behind it.
fn table_of(head: &[u8], size: Option<u64>) -> Result<Option<TableReport>, Error> {
    let far = std::cell::Cell::new(false);
    let fitted = table::fit(&Disk {
        head,
        // Any that is large enough.
        size: size.unwrap_or(1 << 62),
        sector_size: None,
        read: &|_, _| {
            far.set(true);
            let text = "the image's GPT lies far from its start";
            Err(Error::new(ErrorKind::Format, Stage::Check, text))
        },
    });
    match fitted {
        Ok(fitted) => Ok(Some(fitted.report)),
        Err(_) if far.get() => Ok(None),
        Err(error) => Err(error),
    }
}
