//! Boot entries and loaders.
