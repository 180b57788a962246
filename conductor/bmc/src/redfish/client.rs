//! The client: one service, one login, one system.

use std::fmt;
use std::sync::Arc;

use reqwest::Certificate;
use reqwest::Url;
use reqwest::redirect::Policy;
use tokio::sync::Mutex;
use tokio::sync::OnceCell;

use super::Endpoint;
use super::Error;
use super::Result;
use super::Tuning;
use super::Verify;
use super::session::Login;

/// A client of one Redfish service and one system in it. Clones share login
/// and connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// What clones share.
pub(crate) struct Inner {
    pub(crate) endpoint: Endpoint,
    pub(crate) tuning: Tuning,
    pub(crate) base: Url,
    pub(crate) http: reqwest::Client,
    pub(crate) login: Mutex<Login>,
    pub(crate) system: OnceCell<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.inner.endpoint)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client with the usual patience. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Endpoint`] or [`Error::Setup`] when the endpoint makes no sense.
    pub fn new(endpoint: Endpoint) -> Result<Self> {
        Self::with_tuning(endpoint, Tuning::default())
    }

    /// A client with its own patience.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_tuning(endpoint: Endpoint, tuning: Tuning) -> Result<Self> {
        // Fails when a provider is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let base = endpoint.base()?;
        let setup = |source| Error::Setup {
            address: endpoint.address.clone(),
            source,
        };
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(tuning.connect_timeout)
            .timeout(tuning.request_timeout)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(std::time::Duration::from_secs(5))
            .http1_only();
        builder = match &endpoint.verify {
            // No CAs are loaded where none will be needed.
            _ if base.scheme() == "http" => builder.tls_certs_only([]),
            Verify::Yes => builder,
            Verify::No => builder.tls_danger_accept_invalid_certs(true),
            Verify::CaPem(pem) => {
                let bundle = Certificate::from_pem_bundle(pem.as_bytes()).map_err(setup)?;
                if bundle.is_empty() {
                    return Err(Error::Endpoint {
                        property: "redfish_verify_ca",
                        problem: "expected certificates in PEM form, found none".to_owned(),
                    });
                }
                builder.tls_certs_only(bundle)
            }
        };
        let http = builder.build().map_err(setup)?;
        let login = Mutex::new(Login::Unknown);
        let inner = Inner {
            base,
            http,
            login,
            system: OnceCell::new(),
            endpoint,
            tuning,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The address of the service, for messages.
    pub fn address(&self) -> &str {
        &self.inner.endpoint.address
    }
}
