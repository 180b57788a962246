//! An API over a database in memory and a conductor that only pretends.

mod conductor;
mod fixture;
mod hardware;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::body::to_bytes;
use axum::http::HeaderMap;
use axum::http::Request;
use serde_json::Value;
use tower::ServiceExt;
use wrought_api::ApiState;
use wrought_api::Auth;
use wrought_api::Proxies;
use wrought_api::router;
use wrought_store::Store;

pub(crate) use conductor::Fake;
pub(crate) use fixture::A;
pub(crate) use fixture::N1;
pub(crate) use fixture::N2;

/// A router with the database and the conductor behind it.
pub(crate) struct Api {
    pub(crate) router: Router,
    pub(crate) store: Store,
    pub(crate) conductor: Arc<Fake>,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The sentence of an error body.
    pub(crate) fn fault(&self) -> String {
        wrought_wire::fault::Fault::message_from_body(&self.text).unwrap_or_default()
    }
}

impl Api {
    /// An API over one of the named fixtures.
    pub(crate) async fn new(fixture: &str, auth: Auth) -> Self {
        Self::over("sqlite::memory:", fixture, auth).await
    }

    /// The same over a database of one's own.
    pub(crate) async fn over(url: &str, fixture: &str, auth: Auth) -> Self {
        let store = Store::open(url).await.unwrap();
        fixture::fill(&store, fixture).await;
        let conductor = Arc::new(Fake::new(store.clone()));
        let state = ApiState {
            store: store.clone(),
            conductor: conductor.clone(),
            auth,
            public_endpoint: None,
            proxies: Proxies::default(),
            dead_after: Duration::from_secs(60),
        };
        Self {
            router: router(state),
            store,
            conductor,
        }
    }

    pub(crate) async fn open() -> Self {
        Self::new("nodes", Auth::none()).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 1 << 26).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text,
        }
    }

    /// A request at a microversion, with a JSON body unless that is null.
    pub(crate) async fn call(
        &self,
        version: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "api.test")
            .header("x-openstack-ironic-api-version", version);
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        self.send(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("latest", "GET", path, Value::Null).await
    }
}

/// What is at and below one path.
pub(crate) struct On<'a>(pub(crate) &'a Api, pub(crate) String);

impl On<'_> {
    pub(crate) async fn at(&self, version: &str, method: &str, path: &str, body: Value) -> Answer {
        let path = format!("{}{path}", self.1);
        self.0.call(version, method, &path, body).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        self.at("latest", method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, Value::Null).await
    }
}
