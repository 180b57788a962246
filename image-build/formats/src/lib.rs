//! Bytes to structures and back: disk, image and archive formats, without I/O.
