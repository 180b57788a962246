//! Choosing how an image is decoded, by its first block.

use std::ops::Range;
use std::sync::Arc;

use wrought_formats::detect;
use wrought_formats::detect::Detection;
use wrought_formats::detect::Format;
use wrought_formats::qcow2::Header;

use crate::budget::Budget;
use crate::budget::Memory;
use crate::buffer::Block;
use crate::container::Container;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::foreign;
use crate::halt::Halt;
use crate::halt::refused;
use crate::inspect;
use crate::layout;
use crate::qcow2::Placer;
use crate::raw::Raw;
use crate::request::WriteRequest;
use crate::sink::Sink;
use crate::worker::Jobs;

/// What is written: raw and qcow2.
#[derive(Debug)]
pub(crate) enum Decoder {
    Raw(Raw),
    Qcow2(Box<Placer>),
}

impl Decoder {
    /// Looks at the start of the source, refuses what is not written, and
    /// fixes the image's extent where it is known. Nothing is written here.
    pub(crate) fn choose(
        request: &WriteRequest,
        container: Option<Container>,
        memory: Memory,
        first: &Block,
        total: Option<u64>,
        sink: &Sink<'_>,
    ) -> Result<(Self, Budget), Error> {
        let found = examine(first.bytes(), takes_iso(request))?;
        let format = found.format;
        let outer = container.map(|container| container.kind.format());
        if let Some(declared) = request.format
            && declared != format
            && Some(declared) != outer
            && (declared, format) != (Format::Raw, Format::Iso)
        {
            let inside = outer.map_or(String::new(), |outer| format!(" inside of {outer}"));
            return Err(refuse(format!(
                "the image was declared to be {declared} but its content is {format}{inside}"
            )));
        }
        if let Some(allowed) = &request.allowed_formats
            && !allowed.contains(&format)
        {
            let mut names: Vec<&str> = allowed.iter().map(|format| format.name()).collect();
            names.dedup();
            let names = if names.is_empty() {
                "nothing that is known here".to_owned()
            } else {
                format!("only {}", names.join(", "))
            };
            return Err(refuse(format!(
                "the image is {format}, but {names} may be written by the installation's list of \
                 permitted formats"
            )));
        }
        if format == Format::Qcow2 {
            let header = Header::parse(first.bytes(), total).map_err(refused)?;
            let budget = Budget::qcow2(memory, &header)?;
            sink.set_extent(header.virtual_size)?;
            sink.target.expect_pieces_of(header.piece_size());
            if let Some(head) = inspect::disk_in_qcow2(&header, first.bytes()) {
                layout::check(sink.target, &head, Some(header.virtual_size))?;
            }
            let placer = Placer::new(header, budget.limits)?;
            return Ok((Self::Qcow2(Box::new(placer)), budget));
        }
        layout::check(sink.target, first.bytes(), total)?;
        if let Some(total) = total {
            sink.check_size(total)?;
        }
        layout::check_table(sink.target, first.bytes(), total)?;
        if let Some(total) = total {
            sink.set_extent(total)?;
        }
        Ok((Self::Raw(Raw::default()), Budget::raw(memory)))
    }

    /// The format that is decoded.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Raw(_) => Format::Raw,
            Self::Qcow2(_) => Format::Qcow2,
        }
    }

    /// Takes the next block.
    pub(crate) fn block(
        &mut self,
        block: Arc<Block>,
        sink: &Sink<'_>,
        jobs: Jobs<'_>,
    ) -> Result<(), Halt> {
        match self {
            Self::Raw(raw) => raw.block(block, sink, jobs),
            Self::Qcow2(placer) => {
                sink.check_head()?;
                placer.block(block, jobs)
            }
        }
    }

    /// Refuses a container that decodes to more than an image for this disk
    /// can hold; for raw images the sink does.
    pub(crate) fn check_unpacked(
        &self,
        container: Option<Container>,
        bytes: u64,
        sink: &Sink<'_>,
    ) -> Result<(), Error> {
        let (Self::Qcow2(_), Some(_)) = (self, container) else {
            return Ok(());
        };
        let disk = sink.extent().unwrap_or(0).max(sink.target.size());
        // Tables and snapshots come on top of the disk's own bytes.
        let limit = disk.saturating_mul(2).saturating_add(64 << 20);
        if bytes <= limit {
            return Ok(());
        }
        let text = format!(
            "the qcow2 image inside of the compressed one is larger than {limit} bytes, too much \
             for a disk of {disk} bytes; convert it once with 'qemu-img convert -O qcow2'"
        );
        Err(Error::new(ErrorKind::TooLarge, Stage::Decode, text))
    }

    /// Ends a pass over a source of `end` bytes.
    pub(crate) fn end_pass(
        &mut self,
        end: u64,
        sink: &Sink<'_>,
        jobs: Jobs<'_>,
    ) -> Result<(), Halt> {
        match self {
            Self::Raw(raw) => raw.end(end, sink, jobs),
            Self::Qcow2(placer) => placer.end_pass(end, jobs),
        }
    }

    /// Source ranges that must be read once more.
    pub(crate) fn next_pass(&mut self) -> Result<Option<Vec<Range<u64>>>, Error> {
        match self {
            Self::Raw(_) => Ok(None),
            Self::Qcow2(placer) => placer.next_pass(),
        }
    }
}

fn refuse(text: String) -> Error {
    Error::new(ErrorKind::Format, Stage::Check, text)
}

/// Whether an ISO 9660 image is meant; one that has a partition table too is
/// a disk for whoever starts it.
fn takes_iso(request: &WriteRequest) -> bool {
    let allowed = request.allowed_formats.as_ref();
    request.format == Some(Format::Iso) || allowed.is_some_and(|list| list.contains(&Format::Iso))
}

/// Finds the format and refuses those that are not written; an ISO with a
/// partition table passes where `iso` says so.
pub(crate) fn examine(head: &[u8], iso: bool) -> Result<Detection, Error> {
    let found = detect::detect(head)
        .map_err(|error| refuse("the image's format is not clear".to_owned()).caused_by(error))?;
    if iso && found.format == Format::Iso && found.table.is_some() {
        return Ok(found);
    }
    match foreign::refusal(&found, head) {
        Some(error) => Err(error),
        None => Ok(found),
    }
}
