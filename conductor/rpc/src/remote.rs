//! All conductors as one: each call goes to the conductor that has to do with
//! it, over HTTPS.

mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use serde_json::Map;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;
use wrought_store::Change;
use wrought_store::Inventory;
use wrought_store::Node;
use wrought_store::Store;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::state::BootDevice;
use wrought_wire::state::BootMode;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerTarget;

use crate::BootDeviceSetting;
use crate::Caller;
use crate::Conductor;
use crate::Driver;
use crate::Error;
use crate::Hardware;
use crate::Indicator;
use crate::Inspected;
use crate::Kind;
use crate::Media;
use crate::MediaDevice;
use crate::ProvisionRequest;
use crate::Record;
use crate::Result;
use crate::Validation;
use crate::VendorCall;
use crate::VendorMethod;
use crate::Vif;
use crate::members::Members;
use crate::members::NoOwner;
use crate::methods::CALLER;
use crate::methods::Route;
use crate::methods::came;
use crate::methods::crossing;
use crate::methods::every_method;
use crate::view::FRESH;
use crate::view::View;
use wire::Miss;
use wire::Wire;

/// How often the database is asked who lives when it tells nothing by itself:
/// that somebody has come or gone it tells at once, that somebody has fallen
/// silent only who looks finds out. What needs no call (the `conductor` of nodes
/// in a list) is never older.
const LOOK: Duration = FRESH;

/// The conductors of the installation.
#[derive(Debug)]
pub struct Remote {
    store: Store,
    view: View,
    wire: Wire,
    /// Whose turn it is where anybody will do.
    turn: AtomicUsize,
}

/// A node's group, driver and UUID, or less.
#[derive(Debug, Clone)]
enum Goal {
    Owner {
        group: String,
        driver: String,
        node: Uuid,
        /// What nobody's having the driver is to the caller.
        lacking: Kind,
    },
    Driver(String),
    Anybody,
}

/// One conductor to call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    host: String,
    url: String,
}

impl Remote {
    /// The conductors that are registered in `store` and gave a sign of life
    /// within `dead_after`. `tls` shows this process's certificate and trusts
    /// the installation's CA alone; a call may take `timeout`.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn start(
        store: Store,
        dead_after: Duration,
        tls: ClientConfig,
        timeout: Duration,
    ) -> std::result::Result<Arc<Self>, reqwest::Error> {
        let remote = Arc::new(Self {
            view: View::new(store.clone(), dead_after),
            store,
            wire: Wire::new(tls, timeout)?,
            turn: AtomicUsize::new(0),
        });
        let look = Arc::downgrade(&remote);
        // Before the first look, so that nothing falls in between.
        let mut changes = remote.store.changes();
        tokio::spawn(async move {
            while let Some(remote) = look.upgrade() {
                if let Err(error) = remote.view.refreshed().await {
                    tracing::warn!(%error, "the conductors could not be read");
                }
                drop(remote);
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = moved(&mut changes) => {}
                }
            }
        });
        Ok(remote)
    }

    /// Calls a method of whoever is to have it; once more when that has
    /// changed.
    async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        route: Route,
        mut params: Map<String, Value>,
    ) -> Result<T> {
        let caller = Caller::current();
        if caller != Caller::default() {
            let user = serde_json::to_value(caller).unwrap_or_default();
            params.insert(CALLER.to_owned(), user);
        }
        let goal = self.goal(route).await?;
        let members = self.view.current().await.map_err(unread)?;
        let first = match self.target(&members, &goal, None) {
            Ok(target) => target,
            // Somebody may have come since.
            Err(_) => {
                let members = self.view.refreshed().await.map_err(unread)?;
                self.target(&members, &goal, None)?
            }
        };
        let missed = match self.try_call(&first, method, &params).await {
            Ok(value) => return read(method, value),
            Err(miss) => miss,
        };
        let why = match &missed {
            Miss::Refused(error) if error.kind == Kind::NotMine => &error.message,
            Miss::Unreached(why) => why,
            _ => return Err(failed(&first, method, missed)),
        };
        tracing::info!(
            method,
            host = first.host,
            why,
            "looking for another conductor"
        );
        let members = self.view.refreshed().await.map_err(unread)?;
        let second = self.target(&members, &goal, Some(&first))?;
        if matches!(missed, Miss::Unreached(_)) && second == first {
            return Err(failed(&first, method, missed));
        }
        match self.try_call(&second, method, &params).await {
            Ok(value) => read(method, value),
            Err(miss) => Err(failed(&second, method, miss)),
        }
    }

    async fn try_call(
        &self,
        target: &Target,
        method: &str,
        params: &Map<String, Value>,
    ) -> std::result::Result<Value, Miss> {
        let url = Url::parse(&target.url).map_err(|error| {
            Miss::Unreached(format!("its address {:?} is no URL: {error}", target.url))
        })?;
        self.wire.call(url, method, params).await
    }

    /// What a route leads to.
    async fn goal(&self, route: Route) -> Result<Goal> {
        Ok(match route {
            Route::Node(node) => {
                let place = self.store.node_place(node).await.map_err(unread)?;
                let place = place.ok_or_else(|| {
                    let text = format!("Node {node} could not be found.");
                    Error::new(Kind::NotFound, text)
                })?;
                Goal::Owner {
                    group: place.conductor_group,
                    driver: place.driver,
                    node,
                    lacking: Kind::NotFound,
                }
            }
            Route::Wanted {
                group,
                driver,
                node,
            } => Goal::Owner {
                group,
                driver,
                node,
                lacking: Kind::InvalidParameter,
            },
            Route::Driver(driver) => Goal::Driver(driver),
            Route::Anybody => Goal::Anybody,
        })
    }

    /// Who that is among these members; not `tried`, where there is a choice.
    fn target(&self, members: &Members, goal: &Goal, tried: Option<&Target>) -> Result<Target> {
        let conductor = match goal {
            Goal::Owner {
                group,
                driver,
                node,
                lacking,
            } => members
                .owner(group, driver, *node)
                .map_err(|error| match error {
                    NoOwner::NoDriver { .. } => Error::new(*lacking, error.to_string()),
                    NoOwner::NobodyAlive => error.into(),
                })?,
            Goal::Driver(driver) => {
                let with = members.with_driver(driver).collect();
                let nobody = || {
                    let text = format!("The driver '{driver}' is unknown.");
                    Error::new(Kind::NotFound, text)
                };
                match members.alive().is_empty() {
                    true => return Err(NoOwner::NobodyAlive.into()),
                    false => self.next(with, tried).ok_or_else(nobody)?,
                }
            }
            Goal::Anybody => {
                let all = members.alive().iter().collect();
                self.next(all, tried).ok_or(NoOwner::NobodyAlive)?
            }
        };
        let url = conductor.rpc_url.clone().ok_or_else(|| {
            let text = format!(
                "The conductor {} takes no calls from other processes: it has no rpc_url.",
                conductor.hostname
            );
            Error::new(Kind::Busy, text)
        })?;
        Ok(Target {
            host: conductor.hostname.clone(),
            url,
        })
    }

    /// The next of several that will do.
    fn next<'a>(
        &self,
        mut all: Vec<&'a wrought_store::Conductor>,
        tried: Option<&Target>,
    ) -> Option<&'a wrought_store::Conductor> {
        if all.len() > 1 {
            all.retain(|conductor| tried.is_none_or(|tried| tried.host != conductor.hostname));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        all.get(turn % all.len().max(1)).copied()
    }
}

/// Waits until the database tells that conductors have come or gone.
async fn moved(changes: &mut Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(Change::Conductors | Change::Missed) | Err(RecvError::Lagged(_)) => return,
            Ok(Change::Freed(_)) => {}
            // The store is being closed.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// What a call that failed is to the API's caller.
fn failed(target: &Target, method: &str, miss: Miss) -> Error {
    let host = &target.host;
    match miss {
        Miss::Refused(error) => error,
        Miss::Unreached(why) => {
            tracing::warn!(host, method, why, "conductor not reached");
            let text = format!("The conductor {host} cannot be reached, please retry.");
            Error::new(Kind::Busy, text)
        }
        Miss::Lost(why) => {
            tracing::warn!(host, method, why, "conductor did not answer");
            let text = format!(
                "The conductor {host} did not answer: whether it carried out {method} is not \
                 known. Look at the node before you retry."
            );
            Error::new(Kind::Busy, text)
        }
    }
}

/// An answer as its type.
fn read<T: DeserializeOwned>(method: &str, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|_| {
        // The error's own text may cite the answer.
        let text = format!(
            "The answer to {method} is of another shape: API and conductor are of different \
             versions."
        );
        Error::new(Kind::Internal, text)
    })
}

fn unread(error: wrought_store::Error) -> Error {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(&error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    tracing::error!(error = text, "routing a call");
    Error::new(Kind::Internal, "The database cannot be read.")
}

/// The interfaces and properties of drivers as the conductors registered them.
fn drivers(members: &Members) -> Vec<Driver> {
    let mut drivers: BTreeMap<&str, Driver> = BTreeMap::new();
    for conductor in members.alive() {
        for name in &conductor.drivers {
            let driver = drivers.entry(name).or_insert_with(|| Driver {
                name: name.clone(),
                hosts: Vec::new(),
                defaults: BTreeMap::new(),
                enabled: BTreeMap::new(),
                properties: BTreeMap::new(),
            });
            driver.hosts.push(conductor.hostname.clone());
            for (kind, names) in conductor.interfaces.get(name).into_iter().flatten() {
                let enabled = driver.enabled.entry(kind.clone()).or_default();
                for name in names {
                    if !enabled.contains(name) {
                        enabled.push(name.clone());
                    }
                }
                if let Some(first) = names.first() {
                    let default = driver.defaults.entry(kind.clone());
                    default.or_insert_with(|| first.clone());
                }
            }
            let told = conductor.properties.get(name).into_iter().flatten();
            let told = told.map(|(key, text)| (key.clone(), text.clone()));
            driver.properties.extend(told);
        }
    }
    drivers.into_values().collect()
}

/// The parameters of a call by name.
macro_rules! named {
    ($($name:ident),*) => {{
        let mut params = Map::new();
        $(
            let value = serde_json::to_value(&$name).map_err(|_| {
                let text = format!("{} has no JSON form", stringify!($name));
                Error::new(Kind::Internal, text)
            })?;
            params.insert(stringify!($name).to_owned(), value);
        )*
        params
    }};
}

macro_rules! methods {
    ($trait:ident { $($more:tt)* } $(
        $method:ident($($name:ident: [$($type:tt)+]),*) -> [$($answer:tt)+], $route:expr;
    )+) => {
        #[async_trait]
        impl $trait for Remote {
            $($more)*

            $(
                async fn $method(&self, $($name: $($type)+),*) -> Result<$($answer)+> {
                    let params = named!($($name),*);
                    let call =
                        self.call::<crossing!($($answer)+)>(stringify!($method), $route, params);
                    Ok(came!(call.await?, $($answer)+))
                }
            )+
        }
    };
}

macro_rules! remote {
    (
        Conductor { $($conductor:tt)+ }
        Hardware { $($hardware:tt)+ }
    ) => {
        methods! {
            Conductor {
                fn drivers(&self) -> Vec<Driver> {
                    drivers(&self.view.last())
                }

                fn owner(&self, group: &str, driver: &str, node: Uuid) -> Option<String> {
                    let members = self.view.last();
                    let owner = members.owner(group, driver, node).ok()?;
                    Some(owner.hostname.clone())
                }
            }
            $($conductor)+
        }
        methods! { Hardware {} $($hardware)+ }
    };
}

every_method!(remote);
