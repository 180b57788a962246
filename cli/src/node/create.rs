//! `wrought node create`: the node, then its ports.

use clap::Args;
use reqwest::Method;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::values;
use super::values::Pair;
use crate::client::Client;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::Outcome;

/// `wrought node create`
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Hardware type, such as `redfish`
    #[arg(long)]
    driver: String,
    /// Name
    #[arg(long)]
    name: Option<String>,
    /// UUID [default: a new one]
    #[arg(long)]
    uuid: Option<String>,
    /// MAC address of a port; may be given several times
    #[arg(long = "mac", value_name = "MAC")]
    macs: Vec<String>,
    /// How to reach the BMC
    #[arg(long = "driver-info", value_name = "KEY=VALUE")]
    driver_info: Vec<Pair>,
    /// What the machine is
    #[arg(long = "property", value_name = "KEY=VALUE")]
    properties: Vec<Pair>,
    /// Your own data
    #[arg(long = "extra", value_name = "KEY=VALUE")]
    extra: Vec<Pair>,
    /// Implementation of an interface, such as `boot=redfish-virtual-media`
    #[arg(long = "interface", value_name = "KIND=NAME")]
    interfaces: Vec<Pair>,
    /// Scheduling class
    #[arg(long)]
    resource_class: Option<String>,
    /// Group of conductors
    #[arg(long)]
    conductor_group: Option<String>,
}

impl Create {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        let node = client
            .change(Method::POST, &["nodes"], Some(&self.body()))
            .await?;
        let uuid = node["uuid"].as_str().unwrap_or_default();
        for mac in &self.macs {
            let port = json!({"node_uuid": uuid, "address": mac});
            if let Err(failure) = client.change(Method::POST, &["ports"], Some(&port)).await {
                return Err(self.undo(client, uuid, mac, failure).await);
            }
        }
        if json {
            println!("{node}");
        } else {
            println!("{uuid}");
        }
        Ok(())
    }

    /// Half a node is worth nothing: deletes it again.
    async fn undo(&self, client: &Client, uuid: &str, mac: &str, failure: Failure) -> Failure {
        let deleted = client.change(Method::DELETE, &["nodes", uuid], None).await;
        let end = match deleted {
            Ok(_) => "the node was deleted again".to_owned(),
            Err(error) => format!("node {uuid} is left without it ({error})"),
        };
        Failure {
            kind: Kind::Data,
            error: failure
                .error
                .context(format!("port {mac} was not created, {end}")),
        }
    }

    fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("driver".to_owned(), json!(self.driver));
        let texts = [
            ("name", &self.name),
            ("uuid", &self.uuid),
            ("resource_class", &self.resource_class),
            ("conductor_group", &self.conductor_group),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                body.insert(field.to_owned(), json!(text));
            }
        }
        let objects = [
            ("driver_info", &self.driver_info),
            ("properties", &self.properties),
            ("extra", &self.extra),
        ];
        for (field, pairs) in objects {
            if !pairs.is_empty() {
                body.insert(field.to_owned(), values::object(pairs));
            }
        }
        for pair in &self.interfaces {
            body.insert(format!("{}_interface", pair.key), pair.value.clone());
        }
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;
    use clap::FromArgMatches;
    use serde_json::Value;
    use serde_json::json;

    use super::Create;
    use crate::client::tests::Double;

    fn parse(args: &[&str]) -> Create {
        let command = Create::augment_args(clap::Command::new("create").no_binary_name(true));
        Create::from_arg_matches(&command.get_matches_from(args)).unwrap()
    }

    #[tokio::test]
    async fn node_then_ports() {
        let answers = [
            (201, json!({"uuid": "u"})),
            (201, json!({})),
            (201, json!({})),
        ];
        let (double, client) = Double::start(&answers).await;
        let line = "--driver redfish --name n --mac 02::1 --mac 02::2 --driver-info a=b \
                    --property cpus=4 --interface boot=ipxe";
        let create = parse(&line.split_whitespace().collect::<Vec<_>>());
        create.run(&client, false).await.unwrap();
        let asked = double.asked();
        assert_eq!(
            asked[0].2,
            json!({"driver": "redfish", "name": "n", "driver_info": {"a": "b"},
                   "properties": {"cpus": "4"}, "boot_interface": "ipxe"})
        );
        assert_eq!(asked[2].2, json!({"node_uuid": "u", "address": "02::2"}));
    }

    #[tokio::test]
    async fn a_port_that_fails_takes_the_node_back() {
        let taken = json!("A port with MAC address 02::1 already exists.");
        let answers = [
            (201, json!({"uuid": "u"})),
            (409, taken),
            (204, Value::Null),
        ];
        let (double, client) = Double::start(&answers).await;
        let create = parse(&["--driver", "redfish", "--mac", "02::1"]);
        let failure = create.run(&client, false).await.unwrap_err().to_string();
        assert!(failure.contains("already exists"), "{failure}");
        assert!(failure.contains("deleted again"), "{failure}");
        assert_eq!(double.asked()[2].0, "DELETE");
    }
}
