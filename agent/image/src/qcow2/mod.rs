//! Placing a qcow2 image that streams past once.
//!
//! The hashed pass reads the file from start to end. Tables that come before
//! their data (the usual order) tell where the following clusters go; those
//! are written as they pass. A cluster whose place is not known yet is left:
//! the block it lies in keeps a keyed digest. Later passes fetch just the
//! blocks that are still wanted, check them against these digests, and so
//! take in what was hashed and nothing else.
//!
//! Memory is bounded: a table is taken in only when all clusters it names
//! fit the list of wanted ones, else it waits for a later pass.

mod digests;
mod placer;
mod wants;
mod window;

pub(crate) use placer::Limits;
pub(crate) use placer::Placer;
