//! `wrought node list` and `show`.

use clap::Args;
use serde_json::Value;
use serde_json::json;

use crate::client::Client;
use crate::exit::Outcome;
use crate::table;

/// `wrought node list`
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only nodes in this provision state
    #[arg(long)]
    state: Option<String>,
    /// Only nodes with this driver
    #[arg(long)]
    driver: Option<String>,
    /// Only nodes in maintenance
    #[arg(long)]
    maintenance: bool,
}

/// `wrought node show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// UUID or name
    node: String,
    /// Only these fields, separated by commas
    #[arg(long)]
    fields: Option<String>,
}

/// Nodes per page.
const PAGE: &str = "1000";

impl List {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        let mut query = vec![("limit", PAGE)];
        if let Some(state) = &self.state {
            query.push(("provision_state", state));
        }
        if let Some(driver) = &self.driver {
            query.push(("driver", driver));
        }
        if self.maintenance {
            query.push(("maintenance", "true"));
        }
        let nodes = all(client, "nodes", &query).await?;
        if json {
            println!("{}", json!({ "nodes": nodes }));
            return Ok(());
        }
        let rows: Vec<Vec<String>> = nodes
            .iter()
            .map(|node| {
                [
                    "uuid",
                    "name",
                    "power_state",
                    "provision_state",
                    "maintenance",
                    "instance_uuid",
                ]
                .iter()
                .map(|field| table::text(&node[*field]))
                .collect()
            })
            .collect();
        let headings = ["UUID", "NAME", "POWER", "STATE", "MAINTENANCE", "INSTANCE"];
        print!("{}", table::columns(&headings, &rows));
        Ok(())
    }
}

impl Show {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        let query: Vec<(&str, &str)> = self
            .fields
            .iter()
            .map(|fields| ("fields", fields.as_str()))
            .collect();
        let node = client.get(&["nodes", &self.node], &query).await?;
        if json {
            println!("{node}");
        } else {
            print!("{}", table::properties(&node));
        }
        Ok(())
    }
}

/// Every page of a collection.
pub(crate) async fn all(
    client: &Client,
    collection: &str,
    query: &[(&str, &str)],
) -> Outcome<Vec<Value>> {
    let mut found: Vec<Value> = Vec::new();
    loop {
        let marker = found
            .last()
            .and_then(|last| last["uuid"].as_str())
            .map(str::to_owned);
        let mut query = query.to_vec();
        query.extend(marker.iter().map(|marker| ("marker", marker.as_str())));
        let mut page = client.get(&[collection], &query).await?;
        let more = page.get("next").is_some_and(|next| !next.is_null());
        let Some(Value::Array(rows)) = page.get_mut(collection).map(Value::take) else {
            return Ok(found);
        };
        let empty = rows.is_empty();
        found.extend(rows);
        if !more || empty {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::all;
    use crate::client::tests::Double;

    #[tokio::test]
    async fn follows_pages_to_the_end() {
        let next = "http://elsewhere/v1/nodes?marker=x";
        let (double, client) = Double::start(&[
            (
                200,
                json!({"nodes": [{"uuid": "a"}, {"uuid": "b"}], "next": next}),
            ),
            (
                200,
                json!({"nodes": [{"uuid": "c"}, {"uuid": "d"}], "next": next}),
            ),
            (200, json!({"nodes": []})),
        ])
        .await;
        let nodes = all(&client, "nodes", &[("limit", "2")]).await.unwrap();
        assert_eq!(nodes.len(), 4);
        let asked: Vec<String> = double.asked().into_iter().map(|asked| asked.1).collect();
        assert_eq!(
            asked,
            [
                "/v1/nodes?limit=2",
                "/v1/nodes?limit=2&marker=b",
                "/v1/nodes?limit=2&marker=d"
            ]
        );
    }
}
