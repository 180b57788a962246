//! Deployable OS images from distribution packages.
