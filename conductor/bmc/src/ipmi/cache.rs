//! One client per BMC: its operations must go one after another.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;

use wrought_wire::secret::Secret;

use super::Client;
use super::Endpoint;
use super::Privilege;
use super::Suite;
use super::Tuning;

/// Everything that makes two endpoints different, but for the secrets.
type Key = (String, u16, String, Privilege, Option<Suite>, bool);

#[derive(Debug)]
struct Entry {
    client: Client,
    password: Secret,
    kg: Option<Secret>,
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

    /// The client of an endpoint; a changed secret makes a new one.
    pub fn get(&self, endpoint: Endpoint) -> Client {
        let key = (
            endpoint.address.clone(),
            endpoint.port,
            endpoint.username.clone(),
            endpoint.privilege,
            endpoint.suite,
            endpoint.disable_boot_timeout,
        );
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.clock += 1;
        let used = entries.clock;
        if let Some(entry) = entries.map.get_mut(&key)
            && entry.password == endpoint.password
            && entry.kg == endpoint.kg
        {
            entry.used = used;
            return entry.client.clone();
        }
        let (password, kg) = (endpoint.password.clone(), endpoint.kg.clone());
        let client = Client::new(endpoint, self.tuning.clone());
        let entry = Entry {
            client: client.clone(),
            password,
            kg,
            used,
        };
        entries.map.insert(key, entry);
        if entries.map.len() > self.capacity {
            let oldest = entries.map.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                entries.map.remove(&key);
            }
        }
        client
    }
}
