//! A machine off the network for good: `system.lockdown`.

use std::convert::Infallible;
use std::time::Duration;

use tracing::info;
use tracing::warn;

use crate::command::CommandFailure;
use crate::net::link::LinkError;
use crate::net::link::Links;
use crate::net::nic;

/// How often it is looked whether anything came back: a driver that loads
/// late, a lease that is renewed.
const LOOK: Duration = Duration::from_secs(5);

/// Switches all interfaces off and keeps them off, for ever.
pub async fn hold<T>() -> T {
    match keep_off().await {
        Ok(never) => match never {},
        Err(error) => {
            warn!(
                "lockdown: {}; the network may still be up",
                CommandFailure::chain(&error)
            );
            std::future::pending().await
        }
    }
}

async fn keep_off() -> Result<Infallible, LinkError> {
    let links = Links::connect()?;
    let mut said = String::new();
    loop {
        let nics = nic::list();
        for nic in &nics {
            if let Err(error) = links.down(nic.index).await {
                warn!("lockdown: {}: {}", nic.name, CommandFailure::chain(&error));
            }
        }
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        let names = names.join(", ");
        if names != said {
            info!("lockdown: off the network: {names}");
            said = names;
        }
        tokio::time::sleep(LOOK).await;
    }
}
