//! The contract between us and executables of others, as far as it is the same
//! for the server's step plug-ins and the ramdisk's hardware managers: which
//! files are run, what they say of their steps, and how their words are read.
//!
//! Nothing is started here: the server does it with tasks, the agent with
//! threads.

mod file;
mod step;
mod words;

pub use file::is_offered;
pub use file::trusted;
pub use step::Priority;
pub use step::STEPS_MAX;
pub use step::TIMEOUT;
pub use step::contract;
pub use step::one_of;
pub use step::priorities;
pub use words::Bounds;
pub use words::Lines;
pub use words::Tail;
pub use words::ended;
pub use words::plain;

/// The version of the contract.
pub const CONTRACT: u32 = 1;

/// Where programs are looked for.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
