//! Our server beside what a real Ironic says; see [`crate::peer`].

use anyhow::Result;

use super::Context;
use crate::peer;
use crate::peer::Part;

/// Hundreds of exchanges in order, as a real Ironic answers them.
pub(super) async fn story(_: &mut Context) -> Result<()> {
    peer::check(Part::Story).await
}

/// Every microversion shows and takes what a real Ironic's does.
pub(super) async fn versions(_: &mut Context) -> Result<()> {
    peer::check(Part::Versions).await
}

/// Every command of the unmodified `openstack baremetal`.
pub(super) async fn commands(_: &mut Context) -> Result<()> {
    peer::check(Part::Commands).await
}

/// A program on the unmodified openstacksdk.
pub(super) async fn program(_: &mut Context) -> Result<()> {
    peer::check(Part::Program).await
}

/// Every edge of the state machine, as the real one's table has it.
pub(super) async fn states(context: &mut Context) -> Result<()> {
    let told = peer::check_the_states().await?;
    context.account.say(&told);
    Ok(())
}

/// The real one still says what was recorded.
pub(super) async fn itself(_: &mut Context) -> Result<()> {
    peer::check_the_peer().await
}

/// Inspections come to the same ports and properties as a real Ironic's.
pub(super) async fn inspection(context: &mut Context) -> Result<()> {
    peer::inspection::check(&context.account).await
}
