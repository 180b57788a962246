//! Commands that are not about disks.

mod log;
mod standby;
mod system;
mod tar;

use std::sync::Arc;

use crate::command::Registry;
use crate::logging::Ring;

/// Adds `standby`, `system`, `system_passthrough` and `log`.
pub fn register(registry: &mut Registry, ring: Arc<Ring>) {
    standby::register(registry);
    system::register(registry);
    log::register(registry, ring);
}
