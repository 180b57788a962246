//! ISO 9660 images with El Torito boot.
