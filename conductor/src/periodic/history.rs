//! Trims the histories of nodes.

use std::sync::Arc;

use jiff::Timestamp;
use wrought_store::history::Trim;

use super::conductors::ago;
use crate::error::Error;
use crate::periodic;
use crate::service::Service;
use crate::task::store;

/// One round over all nodes with long histories.
pub(super) async fn trim(svc: &Arc<Service>) -> Result<u64, Error> {
    let config = &svc.config.conductor;
    let trim = Trim {
        keep: config.node_history_max_entries,
        before: match config.node_history_minimum_days {
            0 => Timestamp::MAX,
            days => ago(u64::from(days) * 86400),
        },
        batch: config.node_history_cleanup_batch_count.max(1),
    };
    let mut marker = None;
    let mut seen = 0;
    loop {
        let nodes = svc.store.long_histories(trim.keep, marker).await;
        let nodes = nodes.map_err(store("look for long histories"))?;
        let Some(last) = nodes.last() else {
            return Ok(seen);
        };
        marker = Some(*last);
        seen += periodic::count(nodes.len());
        for node in &nodes {
            let mut deleted = u64::from(trim.batch);
            while deleted >= u64::from(trim.batch) {
                let done = svc.store.trim_history(*node, trim).await;
                deleted = done.map_err(store("trim a history"))?;
            }
        }
    }
}
