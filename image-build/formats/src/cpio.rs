//! The cpio "newc" archive format of initramfs images.
