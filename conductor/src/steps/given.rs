//! Lists that were asked for: whether they can be run without the ramdisk.

use wrought_store::node::Node;
use wrought_wire::step::Step;

use crate::drivers;
use crate::error::Error;
use crate::service::Service;
use crate::steps;
use crate::steps::Kind;
use crate::steps::list;
use crate::steps::name;

/// The list that was asked for, when all of it can be done without the ramdisk;
/// none when the ramdisk has to be booted for it. Fails where that is needed
/// and must not be.
pub(crate) fn without_ramdisk(
    svc: &Service,
    node: &Node,
    kind: Kind,
) -> Result<Option<Vec<Step>>, Error> {
    let deploy = drivers::deploy(node)?;
    let given = steps::steps(node, kind).unwrap_or_default();
    let known = steps::known(svc, node, kind)?;
    // Wrong arguments stay wrong in the ramdisk.
    list::check_given(kind, &given, &known)?;
    let found = list::in_given_order(kind, &given, &known);
    let needs = |list: &[Step]| list.iter().find(|step| step.requires_ramdisk).map(name);
    if deploy.cleans_by_agent() && !kind.is_without_ramdisk(node) {
        // A step that nobody knows yet may be one of the agent's.
        return Ok(found.ok().filter(|list| needs(list).is_none()));
    }
    let list = found?;
    match needs(&list) {
        None => Ok(Some(list)),
        Some(step) => Err(Error::Invalid(format!(
            "{} step {step} is one of the ramdisk's, which disable_ramdisk forbids to boot",
            kind.as_str()
        ))),
    }
}
