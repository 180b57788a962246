//! `wrought port …`: the NICs of nodes.

use clap::Args;
use clap::Subcommand;
use reqwest::Method;
use serde_json::json;

use crate::client::Client;
use crate::exit::Outcome;
use crate::node;
use crate::table;

/// `wrought port …`
#[derive(Debug, Args)]
pub(crate) struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List ports
    List {
        /// Only ports of this node (UUID or name)
        #[arg(long)]
        node: Option<String>,
    },
    /// Add a port to a node
    Create {
        /// UUID or name of the node
        node: String,
        /// MAC address
        address: String,
        /// The node does not boot from the network by it
        #[arg(long)]
        no_pxe: bool,
        /// Name of the physical network
        #[arg(long)]
        physical_network: Option<String>,
    },
    /// Delete a port
    Delete {
        /// UUID
        port: String,
    },
}

const FIELDS: &str = "uuid,address,node_uuid,pxe_enabled,physical_network";

/// Runs the command.
pub(crate) async fn run(command: Command, client: &Client, json: bool) -> Outcome {
    match command.what {
        What::List { node } => {
            let mut query = vec![("fields", FIELDS), ("limit", "1000")];
            query.extend(node.iter().map(|node| ("node", node.as_str())));
            let ports = node::all(client, "ports", &query).await?;
            if json {
                println!("{}", json!({ "ports": ports }));
                return Ok(());
            }
            let fields: Vec<&str> = FIELDS.split(',').collect();
            let rows: Vec<Vec<String>> = ports
                .iter()
                .map(|port| {
                    fields
                        .iter()
                        .map(|field| table::text(&port[*field]))
                        .collect()
                })
                .collect();
            let headings = ["UUID", "ADDRESS", "NODE", "PXE", "PHYSICAL NETWORK"];
            print!("{}", table::columns(&headings, &rows));
        }
        What::Create {
            node,
            address,
            no_pxe,
            physical_network,
        } => {
            let found = client.get(&["nodes", &node], &[("fields", "uuid")]).await?;
            let mut body = json!({
                "node_uuid": found["uuid"],
                "address": address,
                "pxe_enabled": !no_pxe,
            });
            if let Some(network) = physical_network {
                body["physical_network"] = json!(network);
            }
            let port = client.change(Method::POST, &["ports"], Some(&body)).await?;
            if json {
                println!("{port}");
            } else {
                println!("{}", table::text(&port["uuid"]));
            }
        }
        What::Delete { port } => {
            client
                .change(Method::DELETE, &["ports", &port], None)
                .await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Command;
    use super::What;
    use crate::client::tests::Double;

    #[tokio::test]
    async fn node_by_name_becomes_its_uuid() {
        let answers = [(200, json!({"uuid": "u"})), (201, json!({"uuid": "p"}))];
        let (double, client) = Double::start(&answers).await;
        let what = What::Create {
            node: "n".to_owned(),
            address: "02::1".to_owned(),
            no_pxe: true,
            physical_network: None,
        };
        super::run(Command { what }, &client, false).await.unwrap();
        let body = json!({"node_uuid": "u", "address": "02::1", "pxe_enabled": false});
        assert_eq!(double.asked()[1].2, body);
    }
}
