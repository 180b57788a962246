//! One client per endpoint: BMCs have room for few sessions, so that calls for
//! the same node must share one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;

use wrought_wire::secret::Secret;

use super::AuthType;
use super::Client;
use super::Endpoint;
use super::Result;
use super::Tuning;
use super::Verify;

/// Everything that makes two endpoints different.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(String, Option<String>, Option<String>, Verify, AuthType);

#[derive(Debug)]
struct Entry {
    client: Client,
    password: Secret,
    used: u64,
}

#[derive(Debug, Default)]
struct Entries {
    map: HashMap<Key, Entry>,
    clock: u64,
}

/// Clients by endpoint, the least recently used dropped first.
#[derive(Debug)]
pub struct Clients {
    tuning: Tuning,
    capacity: usize,
    entries: Mutex<Entries>,
}

impl Clients {
    /// An empty cache for at most `capacity` clients, which all get `tuning`.
    pub fn new(capacity: usize, tuning: Tuning) -> Self {
        Self {
            tuning,
            capacity: capacity.max(1),
            entries: Mutex::default(),
        }
    }

    /// The client of an endpoint; a changed password makes a new one.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn get(&self, endpoint: Endpoint) -> Result<Client> {
        let key = Key(
            endpoint.address.clone(),
            endpoint.system_id.clone(),
            endpoint.username.clone(),
            endpoint.verify.clone(),
            endpoint.auth,
        );
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.clock += 1;
        let used = entries.clock;
        if let Some(entry) = entries.map.get_mut(&key)
            && entry.password == endpoint.password
        {
            entry.used = used;
            return Ok(entry.client.clone());
        }
        let password = endpoint.password.clone();
        let client = Client::with_tuning(endpoint, self.tuning.clone())?;
        entries.map.insert(
            key,
            Entry {
                client: client.clone(),
                password,
                used,
            },
        );
        if entries.map.len() > self.capacity {
            let oldest = entries
                .map
                .values()
                .map(|entry| entry.used)
                .min()
                .unwrap_or(0);
            entries.map.retain(|_, entry| entry.used != oldest);
        }
        Ok(client)
    }

    /// Ends all sessions, at shutdown.
    pub async fn close(&self) {
        let entries = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut entries.map)
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), async {
            for entry in entries.into_values() {
                entry.client.close().await;
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wrought_wire::secret::Secret;

    use super::Clients;
    use crate::redfish::AuthType;
    use crate::redfish::Endpoint;
    use crate::redfish::Tuning;
    use crate::redfish::Verify;

    #[test]
    fn shares_and_forgets() {
        let clients = Clients::new(2, Tuning::default());
        let get = |address: &str, password: &str| {
            let endpoint = Endpoint {
                address: format!("http://{address}"),
                system_id: None,
                username: Some("root".to_owned()),
                password: Secret::new(password),
                verify: Verify::Yes,
                auth: AuthType::Auto,
            };
            clients.get(endpoint).unwrap().inner
        };
        let a = get("a", "1");
        assert!(Arc::ptr_eq(&a, &get("a", "1")));
        assert!(!Arc::ptr_eq(&a, &get("a", "2")));
        let b = get("b", "1");
        get("a", "2");
        get("c", "1");
        assert!(!Arc::ptr_eq(&b, &get("b", "1")));
    }
}
