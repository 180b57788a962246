//! Parameters on virtual media.
