//! Boot artefacts: what machines and BMCs fetch over plain HTTP while they boot
//! the ramdisk, since iPXE and BMCs cannot check our CA.
//!
//! Everything but the entry script lies below an unguessable address that is
//! made for one boot of one node and expires. Nothing else is served here. The
//! node is part of the address, so that every conductor can serve it.

use jiff::SignedDuration;
use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;
use uuid::fmt::Simple;
use wrought_store::node::Node;

use crate::internal;
use crate::service::Service;
use crate::token;

pub(crate) mod file;
pub(crate) mod iso;
pub(crate) mod params;
mod routes;
mod script;

pub(crate) use routes::folder;
pub(crate) use routes::path;
pub(crate) use routes::property;
pub use routes::router;

/// Least time for which artefacts are on offer.
const MIN_LIFE: u64 = 3600;

/// How a node is to boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// iPXE fetches kernel and initramfs.
    Ipxe,
    /// The BMC reads a disc image.
    VirtualMedia,
}

/// Artefacts that are on offer to one node; stored as `wrought_boot`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Part of the address.
    pub(crate) token: String,
    /// What for.
    pub(crate) way: Way,
    /// Until when.
    pub(crate) expires: Timestamp,
    /// The conductor that made it, whose address the machine was told.
    #[serde(default)]
    pub(crate) host: Option<String>,
    /// The life of that conductor's registration.
    #[serde(default)]
    pub(crate) life: Option<Uuid>,
}

impl Offer {
    /// The offer of a node that has not run out.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let offer: Self = internal::read(node, internal::BOOT)?;
        (offer.expires > Timestamp::now()).then_some(offer)
    }

    /// Makes a fresh offer to the node; the caller saves it.
    pub(crate) fn make(svc: &Service, node: &mut Node, way: Way) -> Self {
        let config = &svc.config.conductor;
        let life = config
            .deploy_callback_timeout
            .max(config.clean_callback_timeout)
            .max(config.service_callback_timeout)
            .max(config.rescue_callback_timeout)
            .max(config.inspection.timeout)
            .max(MIN_LIFE);
        let life = SignedDuration::from_secs(i64::try_from(life).unwrap_or(i64::MAX));
        let expires = Timestamp::now()
            .saturating_add(life)
            .unwrap_or(Timestamp::MAX);
        let offer = Self {
            token: format!("{}{}", node.uuid.simple(), token::random()),
            way,
            expires,
            host: Some(svc.config.host.clone()),
            life: Some(svc.membership.life()),
        };
        internal::set(node, internal::BOOT, &offer);
        offer
    }

    /// Takes the node's offer back; the caller saves it.
    pub(crate) fn withdraw(node: &mut Node) {
        internal::clear(node, &[internal::BOOT, internal::FAST_TRACK]);
    }

    /// The node that an offer's token is for, so that every conductor can
    /// serve it. Whether it is the node's offer is not said by that.
    pub(crate) fn node(token: &str) -> Option<Uuid> {
        let (node, secret) = token.split_at_checked(Simple::LENGTH)?;
        Uuid::try_parse(node).ok().filter(|_| !secret.is_empty())
    }

    /// Address of one of its files.
    pub(crate) fn url(&self, base: &str, file: &str) -> String {
        format!("{base}/b/{}/{file}", self.token)
    }
}
