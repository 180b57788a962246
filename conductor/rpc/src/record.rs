//! Records that a conductor keeps in one and the same way.

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;
use wrought_store::Allocation;
use wrought_store::Chassis;
use wrought_store::DeployTemplate;
use wrought_store::InspectionRule;
use wrought_store::Port;
use wrought_store::Portgroup;
use wrought_store::Runbook;
use wrought_store::VolumeConnector;
use wrought_store::VolumeTarget;

macro_rules! records {
    ($($kind:ident: $name:literal,)*) => {
        /// One record of any kind.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", content = "record")]
        pub enum Record {
            $(
                #[doc = concat!("A ", $name, ".")]
                $kind($kind),
            )*
        }

        impl Record {
            /// What it is, for messages.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)*
                }
            }
        }

        $(
            impl From<$kind> for Record {
                fn from(record: $kind) -> Self {
                    Self::$kind(record)
                }
            }

            impl TryFrom<Record> for $kind {
                type Error = Record;

                fn try_from(record: Record) -> Result<Self, Record> {
                    match record {
                        Record::$kind(record) => Ok(record),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

impl Record {
    /// The node that it belongs to, for records that are a part of one.
    pub fn node(&self) -> Option<Uuid> {
        match self {
            Self::Port(port) => Some(port.node_uuid),
            Self::Portgroup(group) => Some(group.node_uuid),
            Self::VolumeConnector(connector) => Some(connector.node_uuid),
            Self::VolumeTarget(target) => Some(target.node_uuid),
            Self::Allocation(_)
            | Self::Chassis(_)
            | Self::DeployTemplate(_)
            | Self::InspectionRule(_)
            | Self::Runbook(_) => None,
        }
    }
}

records! {
    Allocation: "allocation",
    Chassis: "chassis",
    DeployTemplate: "deploy template",
    InspectionRule: "inspection rule",
    Port: "port",
    Portgroup: "portgroup",
    Runbook: "runbook",
    VolumeConnector: "volume connector",
    VolumeTarget: "volume target",
}
