//! `wrought node …`: operating nodes through the API.

mod change;
mod create;
mod deploy;
mod list;
mod states;
mod values;
mod watch;

use clap::Args;
use clap::Subcommand;

use crate::client::Client;
use crate::exit::Outcome;

pub(crate) use list::all;

/// `wrought node …`
#[derive(Debug, Args)]
pub(crate) struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List nodes
    List(list::List),
    /// Show one node
    Show(list::Show),
    /// Enrol a node, with its ports
    Create(create::Create),
    /// Change a node's settings
    Set(change::Set),
    /// Switch the machine on or off
    Power(states::Power),
    /// Take a node under management (or back from a failed state)
    Manage(states::Plain),
    /// Make a node available for deployment
    Provide(states::Plain),
    /// Write an image to the machine's disk and boot it
    Deploy(deploy::Deploy),
    /// Tear the instance down and clean the node
    Undeploy(states::Plain),
    /// Deploy the same image, or another one, over the instance
    Rebuild(deploy::Rebuild),
    /// Stop the operation that is going on
    Abort(states::Plain),
    /// Switch maintenance on or off
    Maintenance(states::Maintenance),
    /// Delete a node with its ports
    Delete(change::Delete),
    /// Follow a node until nothing goes on any more
    Watch(watch::Watch),
}

/// Runs the command.
pub(crate) async fn run(command: Command, client: &Client, json: bool) -> Outcome {
    match command.what {
        What::List(list) => list.run(client, json).await,
        What::Show(show) => show.run(client, json).await,
        What::Create(create) => create.run(client, json).await,
        What::Set(set) => set.run(client, json).await,
        What::Power(power) => power.run(client).await,
        What::Manage(plain) => plain.run(client, "manage", json).await,
        What::Provide(plain) => plain.run(client, "provide", json).await,
        What::Deploy(deploy) => deploy.run(client, json).await,
        What::Undeploy(plain) => plain.run(client, "deleted", json).await,
        What::Rebuild(rebuild) => rebuild.run(client, json).await,
        What::Abort(plain) => plain.run(client, "abort", json).await,
        What::Maintenance(maintenance) => maintenance.run(client).await,
        What::Delete(delete) => delete.run(client).await,
        What::Watch(watch) => watch.run(client, json).await,
    }
}
