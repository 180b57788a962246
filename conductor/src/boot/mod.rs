//! Boot artefacts: what machines and BMCs fetch over plain HTTP while they boot
//! the ramdisk, since iPXE and BMCs cannot check our CA.
//!
//! Everything but the entry script lies below an unguessable address that is
//! made for one boot of one node and expires. Nothing else is served here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use jiff::SignedDuration;
use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;
use wrought_store::NodeQuery;
use wrought_store::node::Node;

use crate::error::Error;
use crate::internal;
use crate::periodic::pages::Pages;
use crate::service::Service;
use crate::task::store;
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
}

impl Offer {
    /// The offer of a node that has not run out.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let offer: Self = internal::read(node, internal::BOOT)?;
        (offer.expires > Timestamp::now()).then_some(offer)
    }

    /// Makes a fresh offer to the node; the caller saves it.
    pub(crate) fn make(svc: &Service, node: &mut Node, way: Way) -> Self {
        Self::withdraw(svc, node);
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
            token: token::random(),
            way,
            expires,
        };
        internal::set(node, internal::BOOT, &offer);
        svc.offers.put(&offer.token, node.uuid);
        offer
    }

    /// Takes the node's offer back; the caller saves it.
    pub(crate) fn withdraw(svc: &Service, node: &mut Node) {
        if let Some(offer) = internal::read::<Self>(node, internal::BOOT) {
            svc.offers.drop(&offer.token);
        }
        internal::clear(node, &[internal::BOOT, internal::FAST_TRACK]);
    }

    /// Address of one of its files.
    pub(crate) fn url(&self, base: &str, file: &str) -> String {
        format!("{base}/b/{}/{file}", self.token)
    }
}

/// Which node an offer is for.
#[derive(Debug, Default)]
pub(crate) struct Offers(Mutex<HashMap<String, Uuid>>);

impl Offers {
    fn put(&self, token: &str, node: Uuid) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert(token.to_owned(), node);
    }

    fn drop(&self, token: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(token);
    }

    fn get(&self, token: &str) -> Option<Uuid> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(token)
            .copied()
    }

    /// Reads the offers that an earlier life of this conductor made.
    pub(crate) async fn load(&self, svc: &Arc<Service>) -> Result<(), Error> {
        let query = NodeQuery {
            include_children: true,
            ..NodeQuery::default()
        };
        let mut pages = Pages::of(svc, query);
        while let Some(nodes) = pages.try_next().await.map_err(store("list nodes"))? {
            for node in &nodes {
                if let Some(offer) = Offer::of(node) {
                    self.put(&offer.token, node.uuid);
                }
            }
        }
        Ok(())
    }
}
