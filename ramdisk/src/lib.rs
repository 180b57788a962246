//! Kernel, modules and agent become initramfs, UKI and bootable ISO.
