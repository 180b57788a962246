//! Kernel modules: which ones the hardware asks for, and loading them, by the
//! kernel's own index files (`modules.dep`, `modules.alias`,
//! `modules.softdep`), without a tool.

mod glob;
mod index;
mod load;

pub use index::Index;
pub use load::Loader;
