//! Erasing everything on a disk, by the best means that it has.

use crate::command::CommandFailure;
use crate::disk::block::Access;
use crate::disk::block::BlockFile;
use crate::disk::device::Disk;
use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::ata;
use crate::disk::drive::ata::AtaSanitizer;
use crate::disk::drive::nvme;
use crate::disk::drive::nvme::NvmeSanitizer;
use crate::disk::drive::sanitize;
use crate::disk::drive::sanitize::Sanitizer;
use crate::disk::drive::scsi::ScsiSanitizer;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::guard;
use crate::disk::erase::markers::Markers;
use crate::disk::erase::means::Means;
use crate::disk::erase::metadata;
use crate::disk::erase::overwrite::overwrite;
use crate::disk::erase::plan::Plan;
use crate::disk::erase::plan::Tongue;
use crate::disk::erase::pool::Share;
use crate::disk::erase::report::Done;
use crate::disk::erase::report::Method;
use crate::disk::error::Error;
use crate::disk::probe::Region;
use crate::disk::table::Table;

/// Range of one secure discard.
const DISCARD_PIECE: u64 = 1 << 30;
/// Sanitize tells its progress in parts of this.
const PARTS: u128 = 65536;

/// A disk that is claimed, looked at and found fit to be erased.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    disk: &'a Disk,
    file: BlockFile,
    plan: Plan,
}

/// Claims a disk, asks it for its means, and sees that it may be erased.
/// Nothing is destroyed yet.
pub(super) fn prepare<'a>(disk: &'a Disk, options: &EraseOptions) -> Result<Prepared<'a>, Error> {
    let file = BlockFile::open(&disk.path, Access::Exclusive)?;
    let plan = {
        let drive = (options.drives.0)(&file);
        Plan::make(disk, &*drive, options).map_err(|source| Error::Drive {
            path: disk.path.clone(),
            source,
        })?
    };
    if options.guard && !plan.unreadable {
        let table = Table::read(&file).ok().flatten();
        let partitions = table.iter().flat_map(|table| &table.partitions);
        let mut regions: Vec<Region<'_>> = partitions.map(|p| p.region(&file)).collect();
        regions.push(Region::whole(&file));
        guard::check(&file, table.as_ref(), &regions)?;
    }
    let means: Vec<String> = plan.own.iter().map(Means::to_string).collect();
    let means = if means.is_empty() {
        "none".to_owned()
    } else {
        means.join("; ")
    };
    tracing::info!(%disk, means, blocked = ?plan.blocked, "means by which the drive can erase itself, the best first");
    Ok(Prepared { disk, file, plan })
}

/// Whether means that take as long as the disk is large are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    Thorough,
    Express,
}

impl Prepared<'_> {
    /// Erases the disk: by its own means, one after the other until one
    /// holds; else, or when the options allow it after a failure, by
    /// overwriting.
    pub(super) fn erase(self, options: &EraseOptions, share: &Share<'_>) -> Result<Done, Error> {
        options.check_cancelled(self.disk)?;
        let (mut done, causes) = match self.by_own_means(options, share, Haste::Thorough)? {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        if !causes.is_empty() {
            let causes = causes.join("; ");
            if !options.overwrite_after_failure {
                return Err(Error::OwnEraseFailed {
                    path: self.disk.path.clone(),
                    causes,
                });
            }
            tracing::warn!(dev = %self.disk.path.display(), causes, "the drive's own erase failed, it is overwritten");
        }
        overwrite(&self.file, self.disk, options, share)?;
        self.file.reread_table()?;
        share.finish();
        done.method = Method::Overwritten {
            random: options.random_passes,
            zeroes: options.zeroes,
        };
        Ok(done)
    }

    /// Erases an NVMe drive by its own quick means, else wipes the metadata.
    pub(super) fn erase_quickly(
        self,
        options: &EraseOptions,
        share: &Share<'_>,
    ) -> Result<Done, Error> {
        options.check_cancelled(self.disk)?;
        let (mut done, causes) = match self.by_own_means(options, share, Haste::Express)? {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        if !causes.is_empty() {
            tracing::warn!(dev = %self.disk.path.display(), causes = causes.join("; "), "the drive's own erase failed, only its metadata is wiped");
        }
        let Self { disk, file, .. } = self;
        drop(file);
        metadata::wipe_disk(disk, options.guard)?;
        share.finish();
        done.method = Method::Metadata;
        Ok(done)
    }

    /// Outer: nothing more can be done with this disk. Inner error: what was
    /// tried, and all causes; none where the drive has no means.
    fn by_own_means(
        &self,
        options: &EraseOptions,
        share: &Share<'_>,
        haste: Haste,
    ) -> Result<Result<Done, (Done, Vec<String>)>, Error> {
        let drive = (options.drives.0)(&self.file);
        let planned: Vec<Means> = self
            .plan
            .own
            .iter()
            .copied()
            .filter(|means| haste == Haste::Thorough || !means.is_slow())
            .collect();
        let mut done = Done {
            planned: planned.clone(),
            ..Done::from(Method::Skipped("not tried"))
        };
        let mut causes = Vec::new();
        if let Some(error) = &self.plan.blocked {
            causes.push(CommandFailure::chain(error));
        }
        if let Some(running) = self.plan.running {
            match self.finish_running(&*drive, running.means, options, share) {
                Ok(Some(means)) => {
                    self.settle()?;
                    done.method = Method::Drive(means);
                    return Ok(Ok(done));
                }
                // Which it was is not known: the drive is erased again.
                Ok(None) => {}
                Err(error @ DriveError::Cancelled { .. }) => return Err(self.error(error)),
                Err(error) => causes.push(CommandFailure::chain(&error)),
            }
        }
        for means in planned {
            options.check_cancelled(self.disk)?;
            tracing::info!(dev = %self.disk.path.display(), %means, "the drive erases itself");
            let cause = match self.try_one(&*drive, means, options, share) {
                Ok(()) => {
                    self.settle()?;
                    share.finish();
                    done.method = Method::Drive(means);
                    return Ok(Ok(done));
                }
                Err(Error::Drive {
                    source: error @ DriveError::Cancelled { .. },
                    ..
                }) => return Err(self.error(error)),
                Err(Error::Drive { source, .. }) => CommandFailure::chain(&source),
                Err(error) => CommandFailure::chain(&error),
            };
            tracing::warn!(dev = %self.disk.path.display(), %means, cause, "the drive's erase did not succeed");
            causes.push(format!("{means}: {cause}"));
            done.failed.push((means, cause));
        }
        Ok(Err((done, causes)))
    }

    fn error(&self, source: DriveError) -> Error {
        Error::Drive {
            path: self.disk.path.clone(),
            source,
        }
    }

    /// Marks the disk, erases it by one means, and looks for the marks.
    fn try_one(
        &self,
        drive: &dyn Passthrough,
        means: Means,
        options: &EraseOptions,
        share: &Share<'_>,
    ) -> Result<(), Error> {
        // A drive after a failed sanitize takes no writes.
        let markers = if self.plan.unreadable {
            None
        } else {
            Some(Markers::plant(&self.file)?)
        };
        self.apply(drive, means, options, share)
            .map_err(|source| self.error(source))?;
        match markers {
            Some(markers) => markers.check_gone(&self.file),
            None => Ok(()),
        }
    }

    fn apply(
        &self,
        drive: &dyn Passthrough,
        means: Means,
        options: &EraseOptions,
        share: &Share<'_>,
    ) -> Result<(), DriveError> {
        let told = |part: u64| share.set(u128::from(part), PARTS);
        let sanitize = |sanitizer: &dyn Sanitizer, action| {
            sanitize::run(drive, sanitizer, action, &options.cancel, &told)
        };
        let missing = || DriveError::Answer {
            command: "Identify",
            wrong: "is missing",
        };
        match means {
            Means::NvmeSanitize(action) => sanitize(&NvmeSanitizer(drive), action),
            Means::AtaSanitize(action) => sanitize(&AtaSanitizer(drive), action),
            Means::ScsiSanitize(action) => sanitize(&ScsiSanitizer(drive), action),
            Means::NvmeFormat(erase) => {
                let (namespace, abilities) = self.plan.nvme.as_ref().ok_or_else(missing)?;
                nvme::format(drive, *namespace, abilities, erase)
            }
            Means::AtaSecurityErase { enhanced } => {
                // As it is now: an attempt before may have changed it.
                let identity = ata::unlock(drive, ata::Identity::read(drive)?)?;
                ata::erase(drive, &identity, enhanced)
            }
            Means::SecureDiscard => self.discard(drive, options, share),
        }
    }

    fn discard(
        &self,
        drive: &dyn Passthrough,
        options: &EraseOptions,
        share: &Share<'_>,
    ) -> Result<(), DriveError> {
        let command = "secure discard";
        let size = self.file.size();
        let mut offset = 0;
        while offset < size {
            if options.check_cancelled(self.disk).is_err() {
                return Err(DriveError::Cancelled { command });
            }
            let length = DISCARD_PIECE.min(size - offset);
            drive
                .secure_discard(offset, length)
                .map_err(|source| DriveError::Send { command, source })?;
            offset += length;
            share.set(u128::from(offset), u128::from(size));
        }
        Ok(())
    }

    /// Waits for a sanitize that somebody has started before a loss of power.
    /// The means, where the drive tells which it was.
    fn finish_running(
        &self,
        drive: &dyn Passthrough,
        means: Option<Means>,
        options: &EraseOptions,
        share: &Share<'_>,
    ) -> Result<Option<Means>, DriveError> {
        let told = |part: u64| share.set(u128::from(part), PARTS);
        let wait =
            |sanitizer: &dyn Sanitizer| sanitize::wait(drive, sanitizer, &options.cancel, &told);
        match Tongue::of(self.disk) {
            Tongue::Nvme => wait(&NvmeSanitizer(drive))?,
            Tongue::Ata => wait(&AtaSanitizer(drive))?,
            Tongue::Scsi => wait(&ScsiSanitizer(drive))?,
            Tongue::Plain => {}
        }
        Ok(means)
    }

    /// What a drive gives back after its erase is its own affair; it must
    /// not look used.
    fn settle(&self) -> Result<(), Error> {
        metadata::wipe_open(&self.file, self.disk, false)
    }
}
