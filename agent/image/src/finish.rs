//! The last steps: everything is on the disk but the two ends.

use wrought_formats::detect;

use crate::buffer::Aligned;
use crate::error::Error;
use crate::layout;
use crate::report::TableReport;
use crate::sink::Sink;
use crate::table;
use crate::table::Disk;
use crate::table::Fitted;
use crate::target::Bounce;
use crate::target::TargetKind;

/// Judges the table, then writes tail, backup table and head, in this order
/// and with a flush before the head: until that last write nothing boots.
///
/// Returns the table, and what fills a target without one.
pub(crate) fn finish(sink: &Sink<'_>) -> Result<(TableReport, Option<&'static str>), Error> {
    let target = sink.target;
    let extent = sink.extent();
    let (mut head, tail, tail_start) = sink.take_ends();
    layout::check(target, &head, extent)?;
    let mut bounce = Bounce::default();
    if target.is_partition() {
        write_aligned(sink, &tail, tail_start, &mut bounce)?;
        target.flush()?;
        write_aligned(sink, &head, 0, &mut bounce)?;
        target.flush()?;
        return Ok((TableReport::absent(), detect::filesystem(&head)));
    }
    let sector_size = (target.kind() == TargetKind::Block).then(|| target.sector_size());
    let Fitted { report, patches } = table::fit(&Disk {
        head: &head,
        size: target.size(),
        sector_size,
        read: &|at, len| {
            let mut bytes = vec![0; len];
            target.read(&mut bytes, at)?;
            Ok(bytes)
        },
    })?;
    write_aligned(sink, &tail, tail_start, &mut bounce)?;
    for patch in patches {
        // What lies in the head waits with it.
        let in_head = usize::try_from(patch.offset)
            .ok()
            .and_then(|start| head.get_mut(start..))
            .map_or(0, |place| {
                let count = place.len().min(patch.bytes.len());
                place[..count].copy_from_slice(&patch.bytes[..count]);
                count
            });
        let rest = &patch.bytes[in_head..];
        target.write(rest, patch.offset + in_head as u64, &mut bounce)?;
    }
    target.flush()?;
    write_aligned(sink, &head, 0, &mut bounce)?;
    target.flush()?;
    target.reread_table()?;
    Ok((report, None))
}

/// Writes from aligned memory, so that it goes past the page cache.
fn write_aligned(sink: &Sink<'_>, bytes: &[u8], at: u64, bounce: &mut Bounce) -> Result<(), Error> {
    let mut aligned = Aligned::new(bytes.len());
    aligned[..bytes.len()].copy_from_slice(bytes);
    sink.target.write(&aligned[..bytes.len()], at, bounce)
}
