//! Commands that are not about disks.

mod lockdown;
mod log;
pub(crate) mod rescue;
mod standby;
mod system;
mod tar;

use std::io;
use std::sync::Arc;

use crate::command::Registry;
use crate::logging::Ring;

/// What happened here so far, as a small tar.gz.
pub(crate) fn archive(ring: &Ring) -> io::Result<Vec<u8>> {
    log::archive(ring)
}

/// Adds `standby`, `system`, `system_passthrough`, `rescue` and `log`.
pub fn register(registry: &mut Registry, ring: Arc<Ring>) {
    standby::register(registry);
    system::register(registry);
    lockdown::register(registry);
    rescue::register(registry);
    log::register(registry, ring);
}
