//! Deploying: images, boot, steps.
