//! The operations, by what they are about.

mod drivers;
mod hardware;
mod nodes;
mod ramdisk;
mod resources;
mod root;

use super::operation::Operation;
use crate::paging;
use crate::query::Known;

/// All of them.
pub(super) fn all() -> Vec<Operation> {
    let tables = [
        root::OPERATIONS,
        nodes::OPERATIONS,
        hardware::OPERATIONS,
        resources::OPERATIONS,
        drivers::OPERATIONS,
        ramdisk::OPERATIONS,
    ];
    let mut all = tables.concat();
    all.extend(resources::all());
    all
}

/// The choice of fields of one thing.
const FIELDS: &[Known] = &[("fields", 8)];
/// The choice of fields of a list.
const CHOICE: &[Known] = &[("fields", 8), ("detail", 43)];
/// Pages.
const PAGE: &[Known] = &paging::ARGUMENTS;
