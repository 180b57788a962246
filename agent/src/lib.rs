//! The agent that runs in the ramdisk.
