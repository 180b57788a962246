//! Which means a drive has, asked before anything is destroyed.

use crate::disk::device::Disk;
use crate::disk::drive::DriveError;
use crate::disk::drive::Passthrough;
use crate::disk::drive::ata;
use crate::disk::drive::ata::AtaSanitizer;
use crate::disk::drive::nvme;
use crate::disk::drive::nvme::FormatErase;
use crate::disk::drive::nvme::NvmeSanitizer;
use crate::disk::drive::sanitize::Action;
use crate::disk::drive::sanitize::Sanitizer;
use crate::disk::drive::sanitize::State;
use crate::disk::drive::scsi;
use crate::disk::drive::scsi::ScsiSanitizer;
use crate::disk::erase::EraseOptions;
use crate::disk::erase::means::Means;

/// Whose words a drive understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    Nvme,
    Ata,
    Scsi,
    /// No commands of its own, but perhaps a secure discard.
    Plain,
}

impl Tongue {
    /// By what sysfs says. USB bridges are left alone: they mangle what they
    /// do not know.
    pub(super) fn of(disk: &Disk) -> Self {
        let usb = disk.transport.as_deref() == Some("usb");
        if disk.name.starts_with("nvme") {
            Self::Nvme
        } else if usb || disk.hctl.is_none() {
            Self::Plain
        } else if disk.vendor.as_deref() == Some("ATA") {
            // SAT-4 §8.1.2: the vendor of every ATA drive behind a translation.
            Self::Ata
        } else {
            Self::Scsi
        }
    }
}

/// What will be tried with a drive.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The drive's own means, the best first.
    pub(super) own: Vec<Means>,
    /// Why the drive's own means cannot be used although it has some.
    pub(super) blocked: Option<DriveError>,
    /// A sanitize is running since before: a loss of power came between.
    pub(super) running: Option<Running>,
    /// The drive refuses reads now, so nobody can look what it holds.
    pub(super) unreadable: bool,
    /// ATA: what the drive says of itself, unlocked.
    pub(super) ata: Option<ata::Identity>,
    /// NVMe: the namespace and its abilities.
    pub(super) nvme: Option<(u32, nvme::Abilities)>,
}

/// A sanitize that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Running {
    /// Which, where the drive tells.
    pub(super) means: Option<Means>,
}

impl Plan {
    /// Asks a drive. An error means that it can neither erase itself nor be
    /// overwritten.
    pub(super) fn make(
        disk: &Disk,
        drive: &dyn Passthrough,
        options: &EraseOptions,
    ) -> Result<Self, DriveError> {
        match Tongue::of(disk) {
            Tongue::Nvme if options.nvme => Ok(Self::nvme(disk, drive)),
            Tongue::Ata if options.ata => Self::ata(disk, drive),
            Tongue::Scsi if options.scsi => Ok(Self::scsi(disk, drive)),
            Tongue::Plain => Ok(Self::plain(disk, drive)),
            Tongue::Nvme | Tongue::Ata | Tongue::Scsi => Ok(Self::default()),
        }
    }

    fn nvme(disk: &Disk, drive: &dyn Passthrough) -> Self {
        let mut plan = Self::default();
        let send = |source| DriveError::Send {
            command: "Identify",
            source,
        };
        let found = drive.namespace().map_err(send).and_then(|namespace| {
            let abilities = nvme::Abilities::read(drive, namespace)?;
            Ok((namespace, abilities))
        });
        let (namespace, abilities) = match found {
            Ok(found) => found,
            Err(error) => {
                plan.blocked = Some(error);
                return plan;
            }
        };
        if !abilities.sanitize.is_empty() {
            let sanitizer = NvmeSanitizer(drive);
            plan.look(disk, &sanitizer, &|action| Means::NvmeSanitize(action));
        }
        let mut sanitize: Vec<Means> = abilities
            .sanitize
            .iter()
            .map(|action| Means::NvmeSanitize(*action))
            .collect();
        let mut format = Vec::new();
        if abilities.format {
            if abilities.format_crypto {
                format.push(Means::NvmeFormat(FormatErase::Crypto));
            }
            format.push(Means::NvmeFormat(FormatErase::UserData));
        }
        if abilities.shared {
            // Others' data: maybe of a namespace that is to be left alone.
            let format_too = abilities.format_takes_all;
            tracing::info!(dev = %disk.path.display(), format_too, "the drive has further namespaces, which a sanitize would erase as well");
            sanitize.clear();
            if format_too {
                format.clear();
            }
        }
        // Overwriting all flash is the last resort, it takes a day and wears.
        let overwrite = Means::NvmeSanitize(Action::Overwrite);
        let slow = sanitize.contains(&overwrite);
        sanitize.retain(|means| *means != overwrite);
        plan.own = sanitize;
        plan.own.extend(format);
        plan.own.extend(slow.then_some(overwrite));
        plan.nvme = Some((namespace, abilities));
        plan
    }

    fn ata(disk: &Disk, drive: &dyn Passthrough) -> Result<Self, DriveError> {
        let mut plan = Self::default();
        let identity = match ata::Identity::read(drive) {
            Ok(identity) => identity,
            Err(error) => {
                // A controller that lets nothing through: no means of its own.
                tracing::info!(dev = %disk.path.display(), %error, "the drive cannot be asked for means of its own");
                return Ok(plan);
            }
        };
        // Nothing else works with a drive that is locked.
        let identity = ata::unlock(drive, identity)?;
        if !identity.sanitize.is_empty() {
            let sanitizer = AtaSanitizer(drive);
            plan.look(disk, &sanitizer, &|action| Means::AtaSanitize(action));
        }
        if plan.blocked.is_none() {
            let actions = identity.sanitize.iter();
            plan.own = actions.map(|action| Means::AtaSanitize(*action)).collect();
        }
        if identity.security && identity.frozen {
            // Without this one there may still be a sanitize.
            if plan.own.is_empty() {
                plan.blocked = Some(DriveError::Frozen);
            }
        } else if identity.security {
            let overwrite = Means::AtaSanitize(Action::Overwrite);
            let slow = plan.own.contains(&overwrite);
            plan.own.retain(|means| *means != overwrite);
            if identity.enhanced {
                plan.own.push(Means::AtaSecurityErase { enhanced: true });
            }
            plan.own.push(Means::AtaSecurityErase { enhanced: false });
            plan.own.extend(slow.then_some(overwrite));
        }
        plan.ata = Some(identity);
        Ok(plan)
    }

    fn scsi(disk: &Disk, drive: &dyn Passthrough) -> Self {
        let mut plan = Self::default();
        match scsi::abilities(drive) {
            Ok(actions) if actions.is_empty() => {}
            Ok(actions) => {
                let sanitizer = ScsiSanitizer(drive);
                plan.look(disk, &sanitizer, &|action| Means::ScsiSanitize(action));
                plan.own = actions.into_iter().map(Means::ScsiSanitize).collect();
            }
            Err(error) => {
                tracing::info!(dev = %disk.path.display(), %error, "the drive cannot be asked for means of its own");
            }
        }
        plan
    }

    fn plain(disk: &Disk, drive: &dyn Passthrough) -> Self {
        let mut plan = Self::default();
        // A range that no device takes: only whether the command is there
        // shows. Stacked devices pass it on to who knows what.
        let stacked = ["md", "dm-"].iter().any(|name| disk.name.starts_with(name));
        let answer = drive.secure_discard(1, 1);
        let there = answer.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
        if there && !stacked {
            plan.own.push(Means::SecureDiscard);
        }
        plan
    }

    /// Whether a sanitize is running or has failed.
    fn look(&mut self, disk: &Disk, sanitizer: &dyn Sanitizer, name: &dyn Fn(Action) -> Means) {
        match sanitizer.state() {
            Ok(State::Running(_, action)) => {
                self.unreadable = true;
                let means = action.map(name);
                self.running = Some(Running { means });
                tracing::warn!(dev = %disk.path.display(), "a sanitize goes on since before this start; it is waited for");
            }
            Ok(State::Failed(detail)) => {
                self.unreadable = true;
                tracing::warn!(dev = %disk.path.display(), detail, "the drive's last sanitize has failed");
            }
            Ok(State::Never | State::Succeeded) => {}
            Err(error @ DriveError::SanitizeFrozen) => self.blocked = Some(error),
            Err(error) => {
                tracing::warn!(dev = %disk.path.display(), %error, "the drive does not tell of its last sanitize");
            }
        }
    }
}
