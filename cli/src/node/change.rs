//! `wrought node set` and `delete`.

use clap::Args;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use super::values::Pair;
use crate::client::Client;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::Outcome;

/// `wrought node set`
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// UUID or name
    node: String,
    /// New name
    #[arg(long)]
    name: Option<String>,
    /// Hardware type
    #[arg(long)]
    driver: Option<String>,
    /// Set all interfaces that are not named to the new driver's defaults
    #[arg(long, requires = "driver")]
    reset_interfaces: bool,
    /// How to reach the BMC
    #[arg(long = "driver-info", value_name = "KEY=VALUE")]
    driver_info: Vec<Pair>,
    /// What the machine is
    #[arg(long = "property", value_name = "KEY=VALUE")]
    properties: Vec<Pair>,
    /// What is to be deployed
    #[arg(long = "instance-info", value_name = "KEY=VALUE")]
    instance_info: Vec<Pair>,
    /// Your own data
    #[arg(long = "extra", value_name = "KEY=VALUE")]
    extra: Vec<Pair>,
    /// Implementation of an interface, such as `boot=redfish-virtual-media`
    #[arg(long = "interface", value_name = "KIND=NAME")]
    interfaces: Vec<Pair>,
    /// Any other field, such as `description=…`
    #[arg(long = "field", value_name = "FIELD=VALUE")]
    fields: Vec<Pair>,
    /// What is to be removed, such as `driver_info/redfish_password`
    #[arg(long = "unset", value_name = "PATH")]
    unset: Vec<String>,
}

/// `wrought node delete`
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// UUIDs or names
    #[arg(required = true)]
    nodes: Vec<String>,
}

/// One operation of a JSON patch (RFC 6902).
pub(crate) fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

/// A key as part of a JSON pointer (RFC 6901).
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

impl Set {
    pub(crate) async fn run(self, client: &Client, json: bool) -> Outcome {
        let patch = self.patch();
        if patch.is_empty() {
            return Err(Failure::new(
                Kind::Usage,
                "nothing is to be changed: see --help",
            ));
        }
        let query: &[(&str, &str)] = if self.reset_interfaces {
            &[("reset_interfaces", "true")]
        } else {
            &[]
        };
        let patch = Value::Array(patch);
        let node = client.patch(&["nodes", &self.node], query, &patch).await?;
        if json {
            println!("{node}");
        }
        Ok(())
    }

    fn patch(&self) -> Vec<Value> {
        let mut patch = Vec::new();
        if let Some(name) = &self.name {
            patch.push(add("/name", json!(name)));
        }
        if let Some(driver) = &self.driver {
            patch.push(add("/driver", json!(driver)));
        }
        let objects = [
            ("driver_info", &self.driver_info),
            ("properties", &self.properties),
            ("instance_info", &self.instance_info),
            ("extra", &self.extra),
        ];
        for (field, pairs) in objects {
            for pair in pairs {
                let path = format!("/{field}/{}", escape(&pair.key));
                patch.push(add(&path, pair.value.clone()));
            }
        }
        for pair in &self.interfaces {
            patch.push(add(&format!("/{}_interface", pair.key), pair.value.clone()));
        }
        for pair in &self.fields {
            patch.push(add(&format!("/{}", escape(&pair.key)), pair.value.clone()));
        }
        for path in &self.unset {
            let path = format!("/{}", path.trim_start_matches('/'));
            patch.push(json!({"op": "remove", "path": path}));
        }
        patch
    }
}

impl Delete {
    pub(crate) async fn run(self, client: &Client) -> Outcome {
        for node in &self.nodes {
            client
                .change(Method::DELETE, &["nodes", node], None)
                .await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;
    use clap::FromArgMatches;
    use serde_json::Value;
    use serde_json::json;

    use super::Set;
    use crate::client::tests::Double;
    use crate::exit::Kind;

    fn parse(args: &[&str]) -> Set {
        let command = Set::augment_args(clap::Command::new("set").no_binary_name(true));
        Set::from_arg_matches(&command.get_matches_from(args)).unwrap()
    }

    #[tokio::test]
    async fn becomes_a_json_patch() {
        let (double, client) = Double::start(&[(200, json!({}))]).await;
        let set = parse(&[
            "n",
            "--name",
            "m",
            "--driver-info",
            "a/b=c",
            "--unset",
            "extra/x",
            "--field",
            "description=two words",
            "--driver",
            "ipmi",
            "--reset-interfaces",
        ]);
        set.run(&client, false).await.unwrap();
        let asked = double.asked().remove(0);
        assert_eq!(asked.1, "/v1/nodes/n?reset_interfaces=true");
        let add = |path: &str, value: &str| json!({"op": "add", "path": path, "value": value});
        let expected: Value = json!([
            add("/name", "m"),
            add("/driver", "ipmi"),
            add("/driver_info/a~1b", "c"),
            add("/description", "two words"),
            {"op": "remove", "path": "/extra/x"},
        ]);
        assert_eq!(asked.2, expected);
        let failure = parse(&["n"]).run(&client, false).await.unwrap_err();
        assert_eq!(failure.kind, Kind::Usage);
    }
}
