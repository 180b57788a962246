//! The machine behind a BMC: what is plugged in, set and running.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use tokio::sync::Mutex;
use tokio::sync::mpsc;

use crate::accel::Accel;
use crate::qemu::BootFrom;
use crate::qemu::Firmware;
use crate::qemu::Spec;
use crate::qemu::process::Running;
use crate::qemu::qmp::Event;

/// How long an override lasts (`BootSourceOverrideEnabled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// No override.
    Disabled,
    /// For the next boot.
    Once,
    /// Until it is changed.
    Continuous,
}

/// The boot override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// What is booted instead of the firmware's own order.
    pub target: BootFrom,
    /// For how long.
    pub lasting: Lasting,
}

impl Override {
    /// What the next boot tries.
    pub fn next_boot(self) -> BootFrom {
        match self.lasting {
            Lasting::Disabled => BootFrom::Default,
            Lasting::Once | Lasting::Continuous => self.target,
        }
    }

    /// What is left after that boot has begun.
    pub fn after_boot(self) -> Self {
        match self.lasting {
            Lasting::Once => Self::NONE,
            Lasting::Disabled | Lasting::Continuous => self,
        }
    }

    /// No override.
    pub const NONE: Self = Self {
        target: BootFrom::Default,
        lasting: Lasting::Disabled,
    };
}

/// An image in the virtual CD drive.
#[derive(Debug, Clone)]
pub struct Media {
    /// Where it was fetched from.
    pub url: String,
    /// Where it is now.
    pub file: PathBuf,
}

/// Something that happened to the machine, for people and for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// Powered on, with what the firmware tries.
    On(BootFrom),
    /// Powered off by the BMC.
    Off,
    /// The guest powered itself off.
    GuestOff,
    /// The guest rebooted.
    GuestReset(BootFrom),
}

#[derive(Debug)]
struct Inner {
    running: Option<Arc<Running>>,
    boot: Override,
    firmware: Firmware,
    media: Option<Media>,
    unplugged: Vec<usize>,
    happenings: Vec<(Instant, Happening)>,
}

/// A machine with a power button. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Machine {
    spec: Arc<Spec>,
    accel: Accel,
    inner: Arc<Mutex<Inner>>,
}

impl Machine {
    /// A machine that is off.
    pub fn new(spec: Spec, accel: Accel, firmware: Firmware) -> Self {
        let inner = Inner {
            running: None,
            boot: Override::NONE,
            firmware,
            media: None,
            unplugged: Vec::new(),
            happenings: Vec::new(),
        };
        Self {
            spec: Arc::new(spec),
            accel,
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// What it is made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether it is on.
    pub async fn is_on(&self) -> bool {
        self.inner
            .lock()
            .await
            .running
            .as_ref()
            .is_some_and(|running| running.alive())
    }

    /// The override as it is now.
    pub async fn boot_override(&self) -> Override {
        self.inner.lock().await.boot
    }

    /// The firmware that the next power-on uses.
    pub async fn firmware(&self) -> Firmware {
        self.inner.lock().await.firmware
    }

    /// The medium in the virtual drive.
    pub async fn media(&self) -> Option<Media> {
        self.inner.lock().await.media.clone()
    }

    /// What has happened so far.
    pub async fn happenings(&self) -> Vec<(Instant, Happening)> {
        self.inner.lock().await.happenings.clone()
    }

    /// Changes override and firmware; a running guest meets the override at
    /// its next reset.
    pub async fn set_boot(&self, boot: Override, firmware: Option<Firmware>) -> Result<()> {
        let mut inner = self.inner.lock().await;
        inner.boot = boot;
        inner.firmware = firmware.unwrap_or(inner.firmware);
        if let Some(running) = inner.running.as_ref().filter(|running| running.alive()) {
            running.set_boot(boot.next_boot()).await?;
        }
        Ok(())
    }

    /// Takes these disks out, by their places, and puts all others in; the next
    /// power-on meets it.
    pub async fn unplug(&self, disks: &[usize]) {
        self.inner.lock().await.unplugged = disks.to_vec();
    }

    /// Switches on; nothing happens when it is on.
    pub async fn power_on(&self) -> Result<()> {
        let mut inner = self.inner.lock().await;
        if inner
            .running
            .as_ref()
            .is_some_and(|running| running.alive())
        {
            return Ok(());
        }
        let boot = inner.boot.next_boot();
        let media = inner.media.as_ref().map(|media| media.file.as_path());
        let mut spec = (*self.spec).clone();
        let mut place = 0..;
        spec.disks.retain(|_| {
            place
                .next()
                .is_some_and(|place| !inner.unplugged.contains(&place))
        });
        let (running, events) =
            Running::start(&spec, self.accel, inner.firmware, boot, media).await?;
        inner.boot = inner.boot.after_boot();
        // The running boot has its order already; this is for the next one.
        if inner.boot.next_boot() != boot {
            running.set_boot(inner.boot.next_boot()).await?;
        }
        inner.running = Some(Arc::new(running));
        inner.happenings.push((Instant::now(), Happening::On(boot)));
        drop(inner);
        tokio::spawn(self.clone().follow(events));
        Ok(())
    }

    /// Switches off at once; nothing happens when it is off.
    pub async fn power_off(&self) {
        let mut inner = self.inner.lock().await;
        if let Some(running) = inner.running.take().filter(|running| running.alive()) {
            running.stop().await;
            inner.happenings.push((Instant::now(), Happening::Off));
        }
    }

    /// Off, if it is on, and on.
    pub async fn restart(&self) -> Result<()> {
        self.power_off().await;
        self.power_on().await
    }

    /// Asks the guest to shut down.
    pub async fn press_power_button(&self) -> Result<()> {
        match &self.inner.lock().await.running {
            Some(running) if running.alive() => running.press_power_button().await,
            _ => Ok(()),
        }
    }

    /// Puts a medium into the virtual drive, or takes it out.
    pub async fn set_media(&self, media: Option<Media>) -> Result<()> {
        let mut inner = self.inner.lock().await;
        if let Some(running) = inner.running.as_ref().filter(|running| running.alive()) {
            match &media {
                Some(media) => running.insert(&media.file).await?,
                None => running.eject().await?,
            }
        }
        inner.media = media;
        Ok(())
    }

    /// A path in the machine's folder.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.spec.dir.join(name)
    }

    /// Notes what the guest does by itself, until QEMU's connection closes.
    async fn follow(self, mut events: mpsc::UnboundedReceiver<Event>) {
        while let Some(event) = events.recv().await {
            let by_guest = event.data["guest"].as_bool() == Some(true);
            match event.name.as_str() {
                "SHUTDOWN" if by_guest => {
                    let mut inner = self.inner.lock().await;
                    inner.happenings.push((Instant::now(), Happening::GuestOff));
                }
                "RESET" if by_guest => {
                    let mut inner = self.inner.lock().await;
                    let boot = inner.boot.next_boot();
                    inner
                        .happenings
                        .push((Instant::now(), Happening::GuestReset(boot)));
                    inner.boot = inner.boot.after_boot();
                    let next = inner.boot.next_boot();
                    if let Some(running) = inner.running.clone().filter(|_| next != boot)
                        && let Err(error) = running.set_boot(next).await
                    {
                        tracing::warn!(name = self.spec.name, "boot order not set: {error:#}");
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lasting;
    use super::Override;
    use crate::qemu::BootFrom;

    #[test]
    fn once_is_used_up_by_one_boot_and_continuous_is_not() {
        let once = Override {
            target: BootFrom::Network,
            lasting: Lasting::Once,
        };
        assert_eq!(once.next_boot(), BootFrom::Network);
        assert_eq!(once.after_boot().next_boot(), BootFrom::Default);
        let always = Override {
            lasting: Lasting::Continuous,
            ..once
        };
        assert_eq!(always.after_boot(), always);
        let off = Override {
            lasting: Lasting::Disabled,
            ..once
        };
        assert_eq!(off.next_boot(), BootFrom::Default);
    }
}
