//! The one table of what can be called from afar: each asynchronous method of
//! [`crate::Conductor`] and [`crate::Hardware`] with its parameters, its answer
//! and who is to have the call. From it come the server's dispatch and the
//! client's two implementations; a method that is in a trait and not here, or
//! is here with other types, does not compile.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::Inventory;
use wrought_store::Node;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::state::BootDevice;
use wrought_wire::state::BootMode;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerTarget;

use crate::BootDeviceSetting;
use crate::Conductor;
use crate::Indicator;
use crate::Inspected;
use crate::Media;
use crate::MediaDevice;
use crate::ProvisionRequest;
use crate::Record;
use crate::Validation;
use crate::VendorCall;
use crate::VendorMethod;
use crate::Vif;
use crate::jsonrpc::Fault;

/// The parameter beside a method's own that says who asks: [`crate::Caller`].
pub(crate) const CALLER: &str = "caller";

/// Who is to have a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The conductor that looks after a stored node.
    Node(Uuid),
    /// The one that is to look after a node as the caller wants it: its driver
    /// may be a new one, and only who has that can check the rest.
    Wanted {
        /// Group of conductors.
        group: String,
        /// Hardware type.
        driver: String,
        /// Which node.
        node: Uuid,
    },
    /// One that has a driver.
    Driver(String),
    /// Any one.
    Anybody,
}

impl Route {
    /// To whom `node` is to belong.
    pub(crate) fn wanted(node: &Node) -> Self {
        Self::Wanted {
            group: node.conductor_group.clone(),
            driver: node.driver.clone(),
            node: node.uuid,
        }
    }

    /// To the node's, when there is one.
    pub(crate) fn maybe(node: Option<Uuid>) -> Self {
        node.map_or(Self::Anybody, Self::Node)
    }
}

/// Calls `$then!` with the table. A type stands in brackets, so that `&str`
/// can be told from the others.
macro_rules! every_method {
    ($then:ident) => {
        $then! {
            Conductor {
                create_node(node: [Node]) -> [Node], Route::wanted(&node);
                update_node(
                    node: [Node],
                    fields: [Vec<String>],
                    reset_interfaces: [bool]
                ) -> [Node], Route::wanted(&node);
                destroy_node(node: [Uuid]) -> [()], Route::Node(node);
                set_maintenance(
                    node: [Uuid],
                    on: [bool],
                    reason: [Option<String>]
                ) -> [()], Route::Node(node);
                change_power(
                    node: [Uuid],
                    target: [PowerTarget],
                    timeout: [Option<u32>]
                ) -> [()], Route::Node(node);
                provision(node: [Uuid], request: [ProvisionRequest]) -> [()], Route::Node(node);
                validate(node: [Uuid]) -> [BTreeMap<String, Validation>], Route::Node(node);
                set_boot_device(
                    node: [Uuid],
                    device: [BootDevice],
                    persistent: [bool]
                ) -> [()], Route::Node(node);
                boot_device(node: [Uuid]) -> [BootDeviceSetting], Route::Node(node);
                supported_boot_devices(node: [Uuid]) -> [Vec<BootDevice>], Route::Node(node);
                heartbeat(node: [Uuid], heartbeat: [Heartbeat]) -> [()], Route::Node(node);
                lookup(node: [Uuid]) -> [Map<String, Value>], Route::Node(node);
                create_record(record: [Record]) -> [Record], Route::maybe(record.node());
                update_record(record: [Record]) -> [Record], Route::maybe(record.node());
                destroy_record(record: [Record]) -> [()], Route::maybe(record.node());
                continue_inspection(
                    node: [Option<Uuid>],
                    found: [Inventory]
                ) -> [Inspected], Route::maybe(node);
            }
            Hardware {
                set_target_raid(
                    node: [Uuid],
                    config: [Map<String, Value>]
                ) -> [()], Route::Node(node);
                raid_properties(
                    driver: [&str]
                ) -> [BTreeMap<String, String>], Route::Driver(driver.to_owned());
                change_boot_mode(node: [Uuid], mode: [BootMode]) -> [()], Route::Node(node);
                change_secure_boot(node: [Uuid], on: [bool]) -> [()], Route::Node(node);
                inject_nmi(node: [Uuid]) -> [()], Route::Node(node);
                indicators(node: [Uuid]) -> [Vec<Indicator>], Route::Node(node);
                indicator(
                    node: [Uuid],
                    component: [&str],
                    name: [&str]
                ) -> [IndicatorState], Route::Node(node);
                set_indicator(
                    node: [Uuid],
                    component: [&str],
                    name: [&str],
                    state: [IndicatorState]
                ) -> [()], Route::Node(node);
                console(node: [Uuid]) -> [Option<Value>], Route::Node(node);
                set_console(node: [Uuid], on: [bool]) -> [()], Route::Node(node);
                vifs(node: [Uuid]) -> [Vec<String>], Route::Node(node);
                attach_vif(node: [Uuid], vif: [Vif]) -> [()], Route::Node(node);
                detach_vif(node: [Uuid], id: [&str]) -> [()], Route::Node(node);
                media(node: [Uuid]) -> [Vec<MediaDevice>], Route::Node(node);
                attach_media(node: [Uuid], media: [Media]) -> [()], Route::Node(node);
                detach_media(node: [Uuid], kinds: [Vec<MediaKind>]) -> [()], Route::Node(node);
                vendor_methods(
                    node: [Uuid]
                ) -> [BTreeMap<String, VendorMethod>], Route::Node(node);
                vendor_call(
                    node: [Uuid],
                    call: [VendorCall]
                ) -> [Option<Value>], Route::Node(node);
                driver_vendor_methods(
                    driver: [&str]
                ) -> [BTreeMap<String, VendorMethod>], Route::Driver(driver.to_owned());
                driver_vendor_call(
                    driver: [&str],
                    call: [VendorCall]
                ) -> [Option<Value>], Route::Driver(driver.to_owned());
            }
        }
    };
}

/// The type that a parameter is read as.
macro_rules! owned {
    (&str) => { String };
    ($($type:tt)+) => { $($type)+ };
}

/// A parameter that was read, as the method takes it.
macro_rules! lent {
    ($value:expr, &str) => {
        &$value
    };
    ($value:expr, $($type:tt)+) => {
        $value
    };
}

/// The type that an answer crosses as. One that may be absent is a list of
/// none or one: null may be the answer itself.
macro_rules! crossing {
    (Option<$($rest:tt)+) => { Vec<$($rest)+ };
    ($($type:tt)+) => { $($type)+ };
}

/// An answer on its way out.
macro_rules! sent {
    ($value:expr, Option<$($rest:tt)+) => {
        Vec::from_iter($value)
    };
    ($value:expr, $($type:tt)+) => {
        $value
    };
}

/// An answer that came in.
macro_rules! came {
    ($value:expr, Option<$($rest:tt)+) => {
        $value.into_iter().next()
    };
    ($value:expr, $($type:tt)+) => {
        $value
    };
}

macro_rules! dispatch {
    ($($trait:ident { $(
        $method:ident($($name:ident: [$($type:tt)+]),*) -> [$($answer:tt)+], $route:expr;
    )+ })+) => {
        /// Reads the parameters of a method, calls it and writes its answer.
        pub(crate) async fn dispatch(
            conductor: &dyn Conductor,
            method: &str,
            params: Map<String, Value>,
        ) -> Result<Value, Fault> {
            match method {
                $($(stringify!($method) => {
                    #[derive(serde::Deserialize)]
                    #[serde(deny_unknown_fields)]
                    struct Params {
                        $($name: owned!($($type)+),)*
                    }
                    let params: Params = serde_json::from_value(Value::Object(params))
                        .map_err(|_| Fault::Params(stringify!($method)))?;
                    let outcome = conductor.$method($(lent!(params.$name, $($type)+)),*).await;
                    let answer: crossing!($($answer)+) =
                        sent!(outcome.map_err(Fault::Refused)?, $($answer)+);
                    serde_json::to_value(answer)
                        .map_err(|_| Fault::Broken("the answer has no JSON form"))
                })+)+
                _ => Err(Fault::NoMethod),
            }
        }

        /// Names of all methods.
        #[cfg(test)]
        pub(crate) const METHODS: &[&str] = &[$($(stringify!($method),)+)+];
    };
}

every_method!(dispatch);

pub(crate) use came;
pub(crate) use crossing;
pub(crate) use every_method;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn null_is_an_answer_and_none_is_none() {
        for answer in [None, Some(Value::Null), Some(Value::Bool(true))] {
            let crossed: crossing!(Option<Value>) = sent!(answer.clone(), Option<Value>);
            assert_eq!(came!(crossed, Option<Value>), answer);
        }
    }
}
