//! A conductor that notes what it is asked and answers what it was told to,
//! certificates for it, and a listener.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use axum::serve::Listener;
use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::IsCa;
use rcgen::Issuer;
use rcgen::KeyPair;
use rustls::ClientConfig;
use rustls::ServerConfig;
use rustls::client::ResolvesClientCert;
use rustls::server::ClientHello;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use serde_json::Map;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use uuid::Uuid;
use wrought_store::Inventory;
use wrought_store::Node;
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
use crate::methods::every_method;

/// What a conductor was asked: methods with their parameters.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    asked: Mutex<Vec<(String, Value)>>,
    callers: Mutex<Vec<Caller>>,
    answers: Mutex<HashMap<String, Result<Value>>>,
}

impl Recorder {
    /// Answers every call of `method` with that.
    pub(crate) fn answer(&self, method: &str, answer: Result<Value>) {
        let mut answers = self.answers.lock().unwrap();
        answers.insert(method.to_owned(), answer);
    }

    /// The calls since this was asked last.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Who asked, since this was asked last.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        std::mem::take(&mut *self.callers.lock().unwrap())
    }

    fn note(&self, method: &str, params: Map<String, Value>) -> Result<Value> {
        let call = (method.to_owned(), Value::Object(params));
        self.asked.lock().unwrap().push(call);
        self.callers.lock().unwrap().push(Caller::current());
        let answers = self.answers.lock().unwrap();
        let nothing = || Error::new(Kind::Unsupported, format!("no answer to {method}"));
        answers
            .get(method)
            .cloned()
            .unwrap_or_else(|| Err(nothing()))
    }
}

macro_rules! noted {
    ($trait:ident { $($more:tt)* } $(
        $method:ident($($name:ident: [$($type:tt)+]),*) -> [$($answer:tt)+], $route:expr;
    )+) => {
        #[async_trait]
        impl $trait for Recorder {
            $($more)*

            $(
                async fn $method(&self, $($name: $($type)+),*) -> Result<$($answer)+> {
                    let mut params = Map::new();
                    $(
                        let value = serde_json::to_value(&$name).unwrap();
                        params.insert(stringify!($name).to_owned(), value);
                    )*
                    let answer = self.note(stringify!($method), params)?;
                    Ok(serde_json::from_value(answer).unwrap())
                }
            )+
        }
    };
}

macro_rules! recorder {
    (
        Conductor { $($conductor:tt)+ }
        Hardware { $($hardware:tt)+ }
    ) => {
        noted! {
            Conductor {
                fn drivers(&self) -> Vec<Driver> {
                    Vec::new()
                }

                fn owner(&self, _: &str, _: &str, _: Uuid) -> Option<String> {
                    None
                }
            }
            $($conductor)+
        }
        noted! { Hardware {} $($hardware)+ }
    };
}

every_method!(recorder);

/// A CA.
pub(crate) struct Ca {
    pub(crate) der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let der = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        Self { der, issuer }
    }

    /// A certificate for that name.
    pub(crate) fn issue(&self, name: &str) -> Arc<Own> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        let chain = vec![leaf.der().clone(), self.der.clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let own = CertifiedKey::from_der(chain, key, &provider).unwrap();
        Arc::new(Own(Arc::new(own)))
    }

    /// The conductor's end for that name.
    pub(crate) fn server(&self, name: &str) -> ServerConfig {
        crate::tls::server(self.der.clone(), self.issue(name)).unwrap()
    }

    /// The API's end.
    pub(crate) fn client(&self) -> ClientConfig {
        crate::tls::client(self.der.clone(), self.issue("api.test")).unwrap()
    }
}

/// A certificate with its key, for either end.
#[derive(Debug)]
pub(crate) struct Own(Arc<CertifiedKey>);

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// A listener with TLS.
struct Listening {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Listening {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, peer) = self.listener.accept().await.unwrap();
            // Whoever has no right certificate is not let in.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A conductor that listens until it is dropped, which breaks its connections.
pub(crate) struct Serving {
    pub(crate) conductor: Arc<Recorder>,
    pub(crate) url: String,
    runtime: Option<Runtime>,
}

impl Serving {
    /// At a free port of 127.0.0.1.
    pub(crate) fn start(tls: ServerConfig) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let conductor = Arc::new(Recorder::default());
        let router = crate::server::router(Arc::clone(&conductor) as Arc<dyn Conductor>);
        // Connections are tasks of their own: they end with their runtime.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            let listening = Listening { listener, acceptor };
            axum::serve(listening, router).await.unwrap();
        });
        Self {
            conductor,
            url,
            runtime: Some(runtime),
        }
    }

    /// Ends it; nothing of it is left.
    pub(crate) async fn stop(mut self) {
        let runtime = self.runtime.take().unwrap();
        let limit = Duration::from_secs(10);
        let end = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(limit));
        end.await.unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
