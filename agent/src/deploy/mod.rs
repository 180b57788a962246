//! Deploying: images, boot, steps.

use crate::command::Registry;

/// Adds the commands of deploying and cleaning.
pub fn register(_registry: &mut Registry) {}
