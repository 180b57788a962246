//! Inspection rules: the conditions and actions of Ironic's rule language
//! (<https://docs.openstack.org/ironic/latest/admin/inspection/rules.html>),
//! read from JSON and checked for form. What they do is the conductor's.

use serde_json::Map;
use serde_json::Value;

/// The one phase of an inspection in which rules have their turn.
pub const PHASE_MAIN: &str = "main";
/// Highest priority.
pub const MAX_PRIORITY: u32 = 9999;
/// Conditions of one rule, at most; the same for actions.
pub const MAX_ITEMS: usize = 200;
/// Items that one condition or action is repeated for, at most.
pub const MAX_LOOP: usize = 1000;

/// Defines operations with their names and arguments.
macro_rules! operations {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal
        [$($needed:literal)*] [$($optional:literal)*],)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Arguments that must be there, in their order.
            pub const fn needed(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($needed,)*],)+ }
            }

            /// Arguments that may be there, in their order.
            pub const fn optional(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($optional,)*],)+ }
            }

            fn find(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

operations! {
    /// What a condition tests.
    ConditionOp {
        /// All values are equal.
        Eq = "eq" ["values"] ["force_strings"],
        /// Each value is less than the next.
        Lt = "lt" ["values"] ["force_strings"],
        /// Each value is greater than the next.
        Gt = "gt" ["values"] ["force_strings"],
        /// Null, or an empty string, list or object.
        IsEmpty = "is-empty" ["value"] [],
        /// An IP address lies in a network.
        InNet = "in-net" ["address" "subnet"] [],
        /// A regular expression matches all of a text.
        Matches = "matches" ["value" "regex"] [],
        /// A regular expression matches some of a text.
        Contains = "contains" ["value" "regex"] [],
        /// One of several values.
        OneOf = "one-of" ["value" "values"] [],
        /// Null.
        IsNone = "is-none" ["value"] [],
        /// True, a number other than 0, "yes" or "true".
        IsTrue = "is-true" ["value"] [],
        /// False, 0, null, "no" or "false".
        IsFalse = "is-false" ["value"] [],
    }
}

operations! {
    /// What an action does.
    ActionOp {
        /// Ends the inspection with an error.
        Fail = "fail" ["msg"] [],
        /// Writes a line to the log.
        Log = "log" ["msg"] ["level"],
        /// Sets an attribute of the node.
        SetAttribute = "set-attribute" ["path" "value"] [],
        /// Appends to a list in an attribute of the node.
        ExtendAttribute = "extend-attribute" ["path" "value"] ["unique"],
        /// Unsets an attribute of the node.
        DelAttribute = "del-attribute" ["path"] [],
        /// Sets a capability of the node.
        SetCapability = "set-capability" ["name" "value"] [],
        /// Removes a capability of the node.
        UnsetCapability = "unset-capability" ["name"] [],
        /// Adds a trait to the node.
        AddTrait = "add-trait" ["name"] [],
        /// Removes a trait of the node.
        RemoveTrait = "remove-trait" ["name"] [],
        /// Sets a value in the plugin data.
        SetPluginData = "set-plugin-data" ["path" "value"] [],
        /// Appends to a list in the plugin data.
        ExtendPluginData = "extend-plugin-data" ["path" "value"] ["unique"],
        /// Unsets a value in the plugin data.
        UnsetPluginData = "unset-plugin-data" ["path"] [],
        /// Sets an attribute of a port.
        SetPortAttribute = "set-port-attribute" ["port_id" "path" "value"] [],
        /// Appends to a list in an attribute of a port.
        ExtendPortAttribute = "extend-port-attribute" ["port_id" "path" "value"] ["unique"],
        /// Unsets an attribute of a port.
        DelPortAttribute = "del-port-attribute" ["port_id" "path"] [],
        /// Sends an HTTP GET.
        ApiCall = "api-call" ["url"] ["headers" "proxies" "timeout" "retries" "backoff_factor"],
    }
}

/// How the results of a condition that is repeated become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Multiple {
    /// One is true.
    #[default]
    Any,
    /// Each is true.
    All,
    /// The first counts.
    First,
    /// The last counts.
    Last,
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What is tested.
    pub op: ConditionOp,
    /// Whether the opposite must hold.
    pub negated: bool,
    /// Arguments by name, not yet formatted.
    pub args: Map<String, Value>,
    /// How the results of a loop become one.
    pub multiple: Multiple,
    /// Items that it is repeated for; none: once, without an item.
    pub items: Option<Vec<Value>>,
}

/// One action.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// What is done.
    pub op: ActionOp,
    /// Arguments by name, not yet formatted.
    pub args: Map<String, Value>,
    /// Items that it is repeated for; none: once, without an item.
    pub items: Option<Vec<Value>>,
}

impl Condition {
    /// Reads a condition; the error is a sentence for the caller.
    pub fn read(value: &Value) -> Result<Self, String> {
        let given = fields(value, &["op", "args", "multiple", "loop"])?;
        let name = text(given, "op")?;
        let (negated, bare) = match name.strip_prefix('!') {
            Some(bare) => (true, bare.trim_start()),
            None => (false, name),
        };
        let op = ConditionOp::find(bare).ok_or_else(|| {
            let plain = ConditionOp::ALL.iter().map(|op| op.as_str().to_owned());
            let negated = ConditionOp::ALL
                .iter()
                .map(|op| format!("!{}", op.as_str()));
            one_of(name, plain.chain(negated))
        })?;
        let args = match (op, given.get("args")) {
            // `eq` and its like took their values one by one once.
            (ConditionOp::Eq | ConditionOp::Lt | ConditionOp::Gt, Some(Value::Array(list))) => {
                let values = match list.as_slice() {
                    [Value::Array(inner)] => inner.clone(),
                    _ => list.clone(),
                };
                Map::from_iter([("values".to_owned(), Value::Array(values))])
            }
            (_, args) => named(args, bare, op.needed(), op.optional())?,
        };
        let multiple = match given.get("multiple") {
            None | Some(Value::Null) => Multiple::default(),
            Some(Value::String(word)) => match word.as_str() {
                "any" => Multiple::Any,
                "all" => Multiple::All,
                "first" => Multiple::First,
                "last" => Multiple::Last,
                other => {
                    let known = ["any", "all", "first", "last"].map(str::to_owned);
                    return Err(one_of(other, known.into_iter()));
                }
            },
            Some(other) => return Err(not_of_type(other, "string")),
        };
        Ok(Self {
            op,
            negated,
            args,
            multiple,
            items: items(given)?,
        })
    }
}

impl Action {
    /// Reads an action; the error is a sentence for the caller.
    pub fn read(value: &Value) -> Result<Self, String> {
        let given = fields(value, &["op", "args", "loop"])?;
        let name = text(given, "op")?;
        let op = ActionOp::find(name)
            .ok_or_else(|| one_of(name, ActionOp::ALL.iter().map(|op| op.as_str().to_owned())))?;
        let args = named(given.get("args"), name, op.needed(), op.optional())?;
        Ok(Self {
            op,
            args,
            items: items(given)?,
        })
    }
}

fn fields<'a>(value: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let Value::Object(object) = value else {
        return Err(not_of_type(value, "object"));
    };
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "Schema error: Additional properties are not allowed ({key:?} was unexpected)"
        )),
        None => Ok(object),
    }
}

fn text<'a>(given: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    match given.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(not_of_type(other, "string")),
        None => Err(required(key)),
    }
}

/// Arguments by name, or in their order.
fn named(
    args: Option<&Value>,
    op: &str,
    needed: &[&str],
    optional: &[&str],
) -> Result<Map<String, Value>, String> {
    let mut names = needed.iter().chain(optional);
    let args: Map<String, Value> = match args {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(Value::Array(list)) => {
            let most = needed.len() + optional.len();
            if list.len() > most {
                return Err(format!(
                    "Schema error: {op} takes {most} arguments at most, found {}",
                    list.len()
                ));
            }
            let pair = |value: &Value| names.next().map(|name| ((*name).to_owned(), value.clone()));
            list.iter().filter_map(pair).collect()
        }
        Some(other) => return Err(not_of_type(other, "object")),
    };
    if let Some(missing) = needed.iter().find(|name| !args.contains_key(**name)) {
        return Err(required(missing));
    }
    let known = |name: &str| needed.contains(&name) || optional.contains(&name);
    match args.keys().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "Schema error: {op} has no argument {name:?}; it takes {}",
            [needed, optional].concat().join(", ")
        )),
        None => Ok(args),
    }
}

fn items(given: &Map<String, Value>) -> Result<Option<Vec<Value>>, String> {
    match given.get("loop") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) if items.len() <= MAX_LOOP => Ok(Some(items.clone())),
        Some(Value::Array(items)) => Err(format!(
            "Schema error: a loop has {MAX_LOOP} items at most, found {}",
            items.len()
        )),
        Some(other) => Err(not_of_type(other, "array")),
    }
}

fn one_of(found: &str, known: impl Iterator<Item = String>) -> String {
    let known: Vec<String> = known.map(|name| format!("'{name}'")).collect();
    let found: String = found.chars().take(100).collect();
    format!(
        "Schema error: '{found}' is not one of [{}]",
        known.join(", ")
    )
}

fn required(key: &str) -> String {
    format!("Schema error: '{key}' is a required property")
}

fn not_of_type(found: &Value, wanted: &str) -> String {
    let found: String = found.to_string().chars().take(100).collect();
    format!("Schema error: {found} is not of type '{wanted}'")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Action;
    use super::ActionOp;
    use super::Condition;
    use super::ConditionOp;
    use super::Multiple;

    #[test]
    fn conditions_in_each_form() {
        let full = json!({"op": "! matches", "args": {"value": "a", "regex": "b"},
            "multiple": "all", "loop": [1]});
        let condition = Condition::read(&full).unwrap();
        assert_eq!(
            (condition.op, condition.negated),
            (ConditionOp::Matches, true)
        );
        assert_eq!(
            (condition.multiple, condition.items),
            (Multiple::All, Some(vec![json!(1)]))
        );
        for values in [json!(["a", "b"]), json!([["a", "b"]])] {
            let listed = Condition::read(&json!({"op": "eq", "args": values})).unwrap();
            assert_eq!(listed.args["values"], json!(["a", "b"]));
        }
        let listed = Condition::read(&json!({"op": "in-net", "args": ["::1", "::/0"]})).unwrap();
        assert_eq!(listed.args["subnet"], "::/0");
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (rule, text) in [
            (
                json!({"op": "nope"}),
                "'nope' is not one of ['fail', 'log', 'set-attribute'",
            ),
            (json!({"args": {}}), "'op' is a required property"),
            (
                json!({"op": "log", "args": {}}),
                "'msg' is a required property",
            ),
            (
                json!({"op": "log", "args": {"msg": "x", "y": 1}}),
                "no argument \"y\"",
            ),
            (
                json!({"op": "log", "args": ["x", "info", 1]}),
                "2 arguments at most",
            ),
            (json!({"op": "log", "args": 1}), "1 is not of type 'object'"),
            (
                json!({"op": "log", "args": ["x"], "loop": {}}),
                "not of type 'array'",
            ),
            (json!({"op": "log", "x": 1}), "\"x\" was unexpected"),
            (json!([]), "[] is not of type 'object'"),
        ] {
            let error = Action::read(&rule).unwrap_err();
            assert!(
                error.starts_with("Schema error: ") && error.contains(text),
                "{error}"
            );
        }
        let error = Condition::read(&json!({"op": "le", "args": []})).unwrap_err();
        assert!(error.ends_with("'!is-false']"), "{error}");
        let many = json!({"op": "log", "args": ["x"], "loop": vec![0; 1001]});
        assert!(Action::read(&many).is_err());
        for op in ActionOp::ALL {
            let args: serde_json::Map<_, _> = op
                .needed()
                .iter()
                .map(|name| ((*name).to_owned(), json!("x")))
                .collect();
            let read = Action::read(&json!({"op": op.as_str(), "args": args})).unwrap();
            assert_eq!(read.op, *op);
        }
    }
}
