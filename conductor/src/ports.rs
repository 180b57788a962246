//! Creating, changing and deleting ports, under their node's lock.

use std::sync::Arc;

use uuid::Uuid;
use wrought_store::port::Port;

use crate::error::Error;
use crate::nodes::taken;
use crate::service::Service;
use crate::task::Task;
use crate::task::store;

/// Stores a new port.
pub(crate) async fn create(svc: &Arc<Service>, port: Port) -> Result<Port, Error> {
    let task = match Task::take(svc, port.node_uuid, svc.config.pace.lock_wait).await {
        Err(error @ Error::NodeNotFound(_)) => return Err(Error::Invalid(error.to_string())),
        taken => taken?,
    };
    let stored = svc.store.create_port(&port).await.map_err(taken);
    task.release().await;
    stored?;
    let read = svc
        .store
        .port(port.uuid)
        .await
        .map_err(store("read a port"))?;
    read.ok_or_else(|| missing(port.uuid))
}

/// Stores a changed port.
pub(crate) async fn update(svc: &Arc<Service>, mut port: Port) -> Result<Port, Error> {
    let task = Task::take(svc, port.node_uuid, svc.config.pace.lock_wait).await?;
    let saved = svc.store.save_port(&mut port).await.map_err(taken);
    task.release().await;
    saved?;
    Ok(port)
}

/// Deletes a port.
pub(crate) async fn destroy(svc: &Arc<Service>, uuid: Uuid) -> Result<(), Error> {
    let read = svc.store.port(uuid).await.map_err(store("read a port"))?;
    let port = read.ok_or_else(|| missing(uuid))?;
    let task = Task::take(svc, port.node_uuid, svc.config.pace.lock_wait).await?;
    let gone = svc.store.destroy_port(uuid).await.map_err(taken);
    task.release().await;
    gone
}

fn missing(uuid: Uuid) -> Error {
    Error::NotFound(format!("Port {uuid} could not be found."))
}
