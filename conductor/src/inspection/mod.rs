//! What becomes of what a ramdisk found out about its machine.
//!
//! `receive` takes it in and answers at once; in the background, `finish` runs
//! the `hooks`, then the [`rules`], stores the outcome and moves the node on.
//! What was taken in is stored first, so that a conductor that dies in between
//! goes on from there.

mod call;
mod discover;
mod document;
mod find;
mod finish;
mod hooks;
mod interfaces;
mod receive;
pub(crate) mod rules;

pub(crate) use find::bmc_addresses;
pub(crate) use finish::fail;
pub(crate) use finish::run;
pub(crate) use hooks::add_port;
pub(crate) use receive::continue_inspection;
