//! The disks of this machine.
