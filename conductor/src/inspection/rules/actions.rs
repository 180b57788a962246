//! Actions: each changes the copies of the [`Subject`], or adds to the
//! [`Report`].

use serde_json::Map;
use serde_json::Value;
use wrought_wire::inspection::Action;
use wrought_wire::inspection::ActionOp as Op;

use super::Budget;
use super::Call;
use super::Level;
use super::Report;
use super::Stop;
use super::Subject;
use super::format::Context;
use super::format::plain;
use super::paths;

/// Fields of a node that rules may change.
pub(crate) const NODE_FIELDS: [&str; 33] = [
    "automated_clean",
    "bios_interface",
    "boot_interface",
    "conductor_group",
    "console_interface",
    "deploy_interface",
    "description",
    "disable_power_off",
    "driver",
    "driver_info",
    "extra",
    "firmware_interface",
    "inspect_interface",
    "lessee",
    "maintenance",
    "maintenance_reason",
    "management_interface",
    "name",
    "network_data",
    "network_interface",
    "owner",
    "parent_node",
    "power_interface",
    "properties",
    "raid_interface",
    "rescue_interface",
    "resource_class",
    "retired",
    "retired_reason",
    "shard",
    "storage_interface",
    "traits",
    "vendor_interface",
];

/// Fields of a port that rules may change.
const PORT_FIELDS: [&str; 9] = [
    "category",
    "description",
    "extra",
    "is_smartnic",
    "local_link_connection",
    "name",
    "physical_network",
    "pxe_enabled",
    "vendor",
];

/// Traits of a node, at most.
const MOST_TRAITS: usize = 50;
/// Bytes of a trait's name, at most.
const LONGEST_TRAIT: usize = 255;
/// Calls of one inspection, at most.
const MOST_CALLS: usize = 20;
/// Seconds that a call may take, and its retries, at most.
const LONGEST_CALL: f64 = 30.0;
const MOST_RETRIES: u32 = 5;

/// Where actions do their work.
pub(super) struct Run<'a> {
    pub(super) subject: &'a mut Subject,
    pub(super) report: &'a mut Report,
    pub(super) budget: &'a mut Budget,
    /// Beginnings of URLs that may be called.
    pub(super) allowed: &'a [String],
}

/// Formatted arguments.
struct Args(Map<String, Value>);

impl Args {
    fn text(&self, name: &str) -> Result<String, Stop> {
        match self.0.get(name) {
            Some(Value::Null) | None => {
                Err(Stop::problem(format!("the argument {name} is missing")))
            }
            Some(value) => plain(value)
                .ok_or_else(|| Stop::problem(format!("the argument {name} is too long"))),
        }
    }

    fn value(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or_default()
    }

    fn path(&self) -> Result<Vec<String>, Stop> {
        paths::split(&self.text("path")?)
    }

    fn flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(word)) => ["true", "yes"].contains(&word.to_lowercase().as_str()),
            _ => false,
        }
    }

    fn number(&self, name: &str, default: f64, most: f64) -> Result<f64, Stop> {
        let number = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(default),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        number
            .filter(|number| (0.0..=most).contains(number))
            .ok_or_else(|| Stop::problem(format!("{name} is not a number from 0 to {most}")))
    }
}

impl Run<'_> {
    /// Does an action, for each item of its loop.
    pub(super) fn action(&mut self, action: &Action) -> Result<(), Stop> {
        let Some(items) = &action.items else {
            return self.once(action, None);
        };
        for item in items {
            let item = Context::of(self.subject).value(item, self.budget)?;
            self.once(action, Some(&item))?;
        }
        Ok(())
    }

    fn once(&mut self, action: &Action, item: Option<&Value>) -> Result<(), Stop> {
        self.budget.step()?;
        let context = Context::of(self.subject).with(item);
        let mut args = Args(Map::new());
        for (name, value) in &action.args {
            let value = context.value(value, self.budget)?;
            args.0.insert(name.clone(), value);
        }
        match action.op {
            Op::Fail => return Err(Stop::Asked(args.text("msg")?)),
            Op::Log => {
                let line = (level(args.0.get("level"))?, args.text("msg")?);
                self.report.lines.push(line);
            }
            Op::SetAttribute | Op::ExtendAttribute | Op::DelAttribute => {
                let path = within(args.path()?, &NODE_FIELDS, "a node")?;
                edit(&mut self.subject.node, action.op, &path, &mut args)?;
            }
            Op::SetPluginData | Op::ExtendPluginData | Op::UnsetPluginData => {
                let path = args.path()?;
                edit(&mut self.subject.plugin_data, action.op, &path, &mut args)?;
            }
            Op::SetPortAttribute | Op::ExtendPortAttribute | Op::DelPortAttribute => {
                let path = within(args.path()?, &PORT_FIELDS, "a port")?;
                let port = port(&mut self.subject.ports, &args.text("port_id")?)?;
                edit(port, action.op, &path, &mut args)?;
            }
            Op::SetCapability | Op::UnsetCapability => {
                let value = match action.op {
                    Op::SetCapability => Some(args.text("value")?),
                    _ => None,
                };
                capability(&mut self.subject.node, &args.text("name")?, value)?;
            }
            Op::AddTrait | Op::RemoveTrait => {
                let add = action.op == Op::AddTrait;
                change_trait(&mut self.subject.node, &args.text("name")?, add)?;
            }
            Op::ApiCall => {
                let call = self.call(&args)?;
                self.report.calls.push(call);
            }
        }
        Ok(())
    }

    fn call(&self, args: &Args) -> Result<Call, Stop> {
        if self.report.calls.len() >= MOST_CALLS {
            return Err(Stop::problem(format!(
                "more than {MOST_CALLS} calls in one inspection"
            )));
        }
        let url = args.text("url")?;
        if !self.allowed.iter().any(|begin| is_below(&url, begin)) {
            return Err(Stop::problem(
                "api-call names a URL that this conductor does not allow: only those are called \
                 whose beginning is in api_call_allow of [conductor.inspection]",
            ));
        }
        if args
            .0
            .get("proxies")
            .is_some_and(|proxies| !proxies.is_null())
        {
            return Err(Stop::problem("api-call goes through no proxies here"));
        }
        let headers = match args.0.get("headers") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Object(headers)) => {
                let pair = |(name, value): (&String, &Value)| Some((name.clone(), plain(value)?));
                headers.iter().filter_map(pair).collect()
            }
            Some(_) => return Err(Stop::problem("headers are no object")),
        };
        let retries = args.number("retries", 3.0, f64::from(MOST_RETRIES))?;
        Ok(Call {
            url,
            headers,
            timeout: args.number("timeout", 5.0, LONGEST_CALL)?,
            // A small whole number, which the bound has seen to.
            retries: (1..=MOST_RETRIES)
                .rfind(|n| f64::from(*n) <= retries)
                .unwrap_or(0),
            backoff: args.number("backoff_factor", 0.3, LONGEST_CALL)?,
        })
    }
}

fn level(value: Option<&Value>) -> Result<Level, Stop> {
    match value.and_then(Value::as_str) {
        None | Some("info") => Ok(Level::Info),
        Some("debug") => Ok(Level::Debug),
        Some("warning" | "warn") => Ok(Level::Warning),
        Some("error" | "critical") => Ok(Level::Error),
        Some(_) => Err(Stop::problem(
            "level is none of debug, info, warning and error",
        )),
    }
}

fn within(path: Vec<String>, fields: &[&str], what: &str) -> Result<Vec<String>, Stop> {
    match path.first() {
        Some(root) if fields.contains(&root.as_str()) => Ok(path),
        _ => Err(Stop::problem(format!(
            "{} is no field of {what} that rules may change; those are {}",
            paths::shown(&path),
            fields.join(", ")
        ))),
    }
}

fn edit(
    document: &mut Map<String, Value>,
    op: Op,
    path: &[String],
    args: &mut Args,
) -> Result<(), Stop> {
    let unique = args.flag("unique");
    match op {
        Op::DelAttribute | Op::UnsetPluginData | Op::DelPortAttribute => {
            paths::remove(document, path);
            // Plugin data has no fields that must stay.
            if let (Op::UnsetPluginData, [root]) = (op, path) {
                document.remove(root);
            }
            Ok(())
        }
        Op::ExtendAttribute | Op::ExtendPluginData | Op::ExtendPortAttribute => {
            paths::extend(document, path, args.value("value"), unique)
        }
        _ => paths::set(document, path, args.value("value")),
    }
}

fn port<'p>(
    ports: &'p mut [Map<String, Value>],
    ident: &str,
) -> Result<&'p mut Map<String, Value>, Stop> {
    let ident = ident.to_lowercase();
    let is = |port: &&mut Map<String, Value>| {
        ["uuid", "address"]
            .iter()
            .any(|key| port.get(*key).is_some_and(|value| *value == *ident))
    };
    ports.iter_mut().find(is).ok_or_else(|| {
        let ident: String = ident.chars().take(60).collect();
        Stop::problem(format!("the node has no port {ident:?}"))
    })
}

/// Sets or removes one of `properties.capabilities`, which are a text
/// `a:b,c:d` or an object.
fn capability(
    node: &mut Map<String, Value>,
    name: &str,
    value: Option<String>,
) -> Result<(), Stop> {
    let clean = |text: &str| !text.contains([',', ':']);
    if name.is_empty() || !clean(name) || value.as_deref().is_some_and(|text| text.contains(',')) {
        return Err(Stop::problem(
            "a capability's name holds neither comma nor colon, its value no comma",
        ));
    }
    let properties = node
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(properties) = properties else {
        return Err(Stop::problem("the node's properties are no object"));
    };
    let made = match properties.get("capabilities") {
        Some(Value::Object(known)) => {
            let mut known = known.clone();
            known.remove(name);
            if let Some(value) = value {
                known.insert(name.to_owned(), Value::String(value));
            }
            Value::Object(known)
        }
        known => {
            let known = known.and_then(Value::as_str).unwrap_or_default();
            let other = |pair: &&str| pair.split(':').next().is_some_and(|key| key.trim() != name);
            let mut pairs: Vec<String> = known
                .split(',')
                .filter(|pair| !pair.trim().is_empty())
                .filter(other)
                .map(|pair| pair.trim().to_owned())
                .collect();
            pairs.extend(value.map(|value| format!("{name}:{value}")));
            Value::String(pairs.join(","))
        }
    };
    properties.insert("capabilities".to_owned(), made);
    Ok(())
}

fn change_trait(node: &mut Map<String, Value>, name: &str, add: bool) -> Result<(), Stop> {
    let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > LONGEST_TRAIT || !name.chars().all(word) {
        let name: String = name.chars().take(60).collect();
        return Err(Stop::problem(format!(
            "{name:?} is no trait such as CUSTOM_GOLD"
        )));
    }
    let traits = node
        .entry("traits")
        .or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(traits) = traits else {
        return Err(Stop::problem("the node's traits are no list"));
    };
    traits.retain(|other| other != name);
    if add {
        if traits.len() >= MOST_TRAITS {
            return Err(Stop::problem(format!(
                "a node has at most {MOST_TRAITS} traits"
            )));
        }
        let after = |other: &Value| other.as_str().is_some_and(|other| other < name);
        let at = traits.partition_point(after);
        traits.insert(at, Value::from(name));
    }
    Ok(())
}

/// Whether a URL is the allowed one or one below it: same scheme, host and
/// port, no credentials, and a path that goes on after a slash.
fn is_below(url: &str, begin: &str) -> bool {
    let (Ok(url), Ok(begin)) = (reqwest::Url::parse(url), reqwest::Url::parse(begin)) else {
        return false;
    };
    let web = matches!(url.scheme(), "http" | "https");
    let anonymous = url.username().is_empty() && url.password().is_none();
    let base = begin.path().trim_end_matches('/');
    let below = url
        .path()
        .strip_prefix(base)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    web && anonymous && below && url.origin() == begin.origin()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::capability;
    use super::change_trait;
    use super::is_below;

    #[test]
    fn only_what_is_below_an_allowed_url() {
        let begin = "https://hooks.test/v1/";
        for good in [
            "https://hooks.test/v1",
            "https://hooks.test/v1/x?y#z",
            "https://hooks.test:443/v1/",
        ] {
            assert!(is_below(good, begin), "{good}");
        }
        for bad in [
            "http://hooks.test/v1",
            "https://hooks.test.evil/v1",
            "https://hooks.test/v1evil",
            "https://hooks.test/v1/../v2",
            "https://hooks.test@evil/v1",
            "https://u:p@hooks.test/v1",
            "https://hooks.test:8443/v1",
            "file:///v1",
            "",
        ] {
            assert!(!is_below(bad, begin), "{bad}");
        }
        assert!(!is_below("https://hooks.test", ""));
    }

    #[test]
    fn capabilities_in_both_forms() {
        for (known, expected) in [
            (Value::Null, json!("a:1")),
            (json!("b:2, a:0,,c:x:y"), json!("b:2,c:x:y,a:1")),
            (json!({"a": "0", "b": "2"}), json!({"b": "2", "a": "1"})),
        ] {
            let mut node = json!({"properties": {"capabilities": known}})
                .as_object()
                .unwrap()
                .clone();
            capability(&mut node, "a", Some("1".to_owned())).unwrap();
            assert_eq!(node["properties"]["capabilities"], expected);
            capability(&mut node, "a", None).unwrap();
            assert!(
                !node["properties"]["capabilities"]
                    .to_string()
                    .contains("a:")
            );
            for (name, value) in [("", "x"), ("a,b", "x"), ("a:b", "x"), ("a", "x,y:z")] {
                assert!(capability(&mut node, name, Some(value.to_owned())).is_err());
            }
        }
    }

    #[test]
    fn traits_stay_sorted() {
        let mut node = json!({"traits": ["CUSTOM_B"]}).as_object().unwrap().clone();
        for name in ["CUSTOM_C", "CUSTOM_A", "CUSTOM_B"] {
            change_trait(&mut node, name, true).unwrap();
        }
        assert_eq!(node["traits"], json!(["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]));
        change_trait(&mut node, "CUSTOM_A", false).unwrap();
        change_trait(&mut node, "CUSTOM_X", false).unwrap();
        assert_eq!(node["traits"], json!(["CUSTOM_B", "CUSTOM_C"]));
        for bad in ["", "custom", "CUSTOM A", &"X".repeat(256)] {
            assert!(change_trait(&mut node, bad, true).is_err());
        }
        for n in 0..48 {
            change_trait(&mut node, &format!("CUSTOM_{n}"), true).unwrap();
        }
        assert!(change_trait(&mut node, "CUSTOM_TOO_MANY", true).is_err());
    }
}
