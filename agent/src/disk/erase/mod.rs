//! Emptying disks: of what makes them look used, or of everything.
//!
//! Every disk is tried, whatever happens to the others; each is reported
//! with what was achieved, and all failures end in one error. What a drive
//! can do is asked, and told, before anything is destroyed; what it has done
//! is looked at, not believed.

mod full;
mod guard;
mod markers;
mod means;
mod metadata;
mod options;
mod overwrite;
mod plan;
mod pool;
mod report;

pub use means::Level;
pub use means::Means;
pub use metadata::wipe_disk;
pub use metadata::wipe_stacked;
pub use options::EraseOptions;
pub use report::DiskOutcome;
pub use report::EraseError;
pub use report::EraseReport;
pub use report::Method;

use wrought_wire::progress::Progress;

use crate::disk::device::Disk;
use crate::disk::error::Error;
use crate::disk::select::DiskRules;
use full::Prepared;
use pool::Share;
use report::Done;
use report::collect;

/// Receives progress; called from several threads.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// What is to be done with a disk before anything is tried.
fn preset(disk: &Disk, rules: &DiskRules, options: &EraseOptions) -> Option<Result<Method, Error>> {
    if rules.skips(disk) {
        return Some(Ok(Method::Skipped("listed in skip_block_devices")));
    }
    if disk.is_virtual_media() {
        return Some(Ok(Method::Skipped("virtual media")));
    }
    if options.kept.contains(&disk.path) {
        return Some(Ok(Method::Skipped("part of an array that is kept")));
    }
    let stuck = options.stuck.iter().find(|(path, _)| *path == disk.path);
    let stuck = stuck.map(|(_, reason)| reason.clone());
    let reason = stuck.or_else(|| disk.in_use.clone())?;
    Some(Err(Error::InUse {
        path: disk.path.clone(),
        reason,
    }))
}

/// Takes everything off the disks that a machine could recognise: superblocks
/// of the disks and of their partitions, the first and last MiB, tables.
pub fn erase_metadata(
    disks: &[Disk],
    rules: &DiskRules,
    options: &EraseOptions,
    progress: OnProgress<'_>,
) -> Result<EraseReport, EraseError> {
    let steps = pool::Steps::new("erase_devices_metadata", disks.len(), progress);
    // Last names first, as Ironic does it.
    let order: Vec<&Disk> = disks.iter().rev().collect();
    let outcomes = pool::run(order.clone(), options.concurrency, |disk| {
        let result = preset(disk, rules, options).unwrap_or_else(|| {
            options.check_cancelled(disk)?;
            if disk.read_only {
                return Ok(Method::Skipped("read-only"));
            }
            metadata::wipe_disk(disk, options.guard)?;
            Ok(Method::Metadata)
        });
        steps.done_one();
        result.map(Done::from)
    });
    collect(&order, outcomes)
}

/// Erases the disks: each by the best means of its own, else by overwriting.
pub fn erase_all(
    disks: &[Disk],
    rules: &DiskRules,
    options: &EraseOptions,
    progress: OnProgress<'_>,
) -> Result<EraseReport, EraseError> {
    let prepare = |disk| ready_for_all(disk, rules, options);
    let erase = |prepared: Prepared<'_>, share: &Share<'_>| prepared.erase(options, share);
    run("erase_devices", disks, options, progress, prepare, erase)
}

/// Erases NVMe drives by their own quick means, and wipes the metadata of
/// all other disks, and of those that have none or fail.
pub fn erase_express(
    disks: &[Disk],
    rules: &DiskRules,
    options: &EraseOptions,
    progress: OnProgress<'_>,
) -> Result<EraseReport, EraseError> {
    let prepare = |disk| ready_for_express(disk, rules, options);
    let erase = |prepared: Prepared<'_>, share: &Share<'_>| prepared.erase_quickly(options, share);
    run(
        "erase_devices_express",
        disks,
        options,
        progress,
        prepare,
        erase,
    )
}

/// A disk before the work begins.
enum Ready<'a> {
    Done(Result<Method, Error>),
    Wipe(&'a Disk),
    Erase(Prepared<'a>),
}

fn ready_for_all<'a>(disk: &'a Disk, rules: &DiskRules, options: &EraseOptions) -> Ready<'a> {
    if let Some(result) = preset(disk, rules, options) {
        return Ready::Done(result);
    }
    if disk.read_only {
        return Ready::Done(if options.skip_read_only {
            Ok(Method::Skipped("read-only"))
        } else {
            Err(Error::ReadOnly {
                path: disk.path.clone(),
            })
        });
    }
    full::prepare(disk, options).map_or_else(|error| Ready::Done(Err(error)), Ready::Erase)
}

fn ready_for_express<'a>(disk: &'a Disk, rules: &DiskRules, options: &EraseOptions) -> Ready<'a> {
    if let Some(result) = preset(disk, rules, options) {
        return Ready::Done(result);
    }
    if disk.read_only {
        return Ready::Done(Ok(Method::Skipped("read-only")));
    }
    if plan::Tongue::of(disk) == plan::Tongue::Nvme {
        return full::prepare(disk, options)
            .map_or_else(|error| Ready::Done(Err(error)), Ready::Erase);
    }
    Ready::Wipe(disk)
}

/// First all disks are looked at, then the work begins.
fn run<'a>(
    stage: &'static str,
    disks: &'a [Disk],
    options: &EraseOptions,
    progress: OnProgress<'_>,
    prepare: impl Fn(&'a Disk) -> Ready<'a>,
    erase: impl Fn(Prepared<'a>, &Share<'_>) -> Result<Done, Error> + Sync,
) -> Result<EraseReport, EraseError> {
    let order: Vec<&Disk> = disks.iter().rev().collect();
    let total = order.iter().map(|disk| disk.size).sum();
    let counter = pool::Bytes::new(stage, total, progress);
    let ready: Vec<(Ready<'_>, Share<'_>)> = order
        .iter()
        .map(|disk| (prepare(disk), counter.share(disk.size)))
        .collect();
    let outcomes = pool::run(ready, options.concurrency, |(ready, share)| {
        let result = match ready {
            Ready::Done(result) => result.map(Done::from),
            Ready::Wipe(disk) => options
                .check_cancelled(disk)
                .and_then(|()| metadata::wipe_disk(disk, options.guard))
                .map(|()| Done::from(Method::Metadata)),
            Ready::Erase(prepared) => erase(prepared, &share),
        };
        share.finish();
        result
    });
    collect(&order, outcomes)
}

#[cfg(test)]
mod tests;
