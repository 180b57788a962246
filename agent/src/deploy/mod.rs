//! Deploying and cleaning: an image on the root disk with its config drive,
//! what the firmware is to start, and the steps that do it.
//!
//! | command | does |
//! |---|---|
//! | `clean.get_clean_steps`, `clean.execute_clean_step` | erasing, burn-in, what hardware managers have |
//! | `deploy.get_deploy_steps`, `deploy.execute_deploy_step` | `write_image`, `erase_devices_metadata` |
//! | `service.get_service_steps`, `service.execute_service_step` | `write_image`, burn-in, what hardware managers have |
//! | `raid.create_configuration`, `raid.delete_configuration`, `raid.get_logical_disks` | software RAID |
//! | `standby.prepare_image`, `deploy.prepare_image`, `deploy.write_image` | image and config drive |
//! | `standby.cache_image` | the image alone |
//! | `standby.get_partition_uuids` | what was written |
//! | `image.install_bootloader`, `deploy.install_bootloader` | boot entries |

mod bootloader;
pub mod configdrive;
mod failure;
mod fetch;
mod image;
mod node;
mod raid;
mod request;
mod root;
mod state;
mod step;
mod write;

use std::sync::Arc;

use crate::command::Registry;
use state::State;

/// Adds the commands of deploying and cleaning.
pub fn register(registry: &mut Registry) {
    let state = Arc::new(State::default());
    step::register(registry, &state);
    image::register(registry, &state);
    bootloader::register(registry, &state);
    raid::register(registry, &state);
}

#[cfg(test)]
mod tests;
