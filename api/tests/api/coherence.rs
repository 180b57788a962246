//! What one client has changed every other sees, over connections of their own
//! and a database in a file.

use std::net::SocketAddr;

use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use wrought_api::Auth;

use crate::support::Api;

/// A client that keeps its connection.
struct Client(TcpStream);

impl Client {
    async fn new(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn ask(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nX-OpenStack-Ironic-API-Version: latest\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let (head, length) = loop {
            assert!(self.0.read_buf(&mut read).await.unwrap() > 0);
            let text = String::from_utf8_lossy(&read);
            let Some((head, _)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then_some(value)
            });
            let length: usize = length.unwrap_or("0").parse().unwrap();
            break (head.to_owned(), length);
        };
        while read.len() < head.len() + 4 + length {
            assert!(self.0.read_buf(&mut read).await.unwrap() > 0);
        }
        let status = head[9..12].parse().unwrap();
        let answer = serde_json::from_slice(&read[head.len() + 4..]).unwrap_or(Value::Null);
        (status, answer)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_connection_sees_what_any_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("w.db").display());
    let api = Api::over(&url, "nodes", Auth::none()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(wrought_api::serve(
        listener,
        None,
        api.router.clone(),
        async {
            stopped.await.ok();
        },
    ));
    let mut writer = Client::new(address).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(Client::new(address).await);
    }
    for number in 0..40 {
        let name = format!("coherent-{number}");
        let path = format!("/v1/nodes/{name}");
        let new = json!({"driver": "fake-hardware", "name": name});
        let (status, made) = writer.ask("POST", "/v1/nodes", new).await;
        assert_eq!(status, 201, "{made}");
        let own = format!("/v1/nodes/{}", made["uuid"].as_str().unwrap());
        for reader in &mut readers {
            let (status, read) = reader.ask("GET", &path, Value::Null).await;
            assert_eq!((status, &read), (200, &made));
        }
        for value in 0..3 {
            let patch = json!([{"op": "add", "path": "/extra/n", "value": value},
                {"op": "add", "path": "/driver_info/x_password", "value": value}]);
            let (status, changed) = writer.ask("PATCH", &own, patch).await;
            assert_eq!(status, 200, "{changed}");
            assert_eq!(changed["driver_info"]["x_password"], "******");
            for reader in &mut readers {
                let (_, read) = reader.ask("GET", &own, Value::Null).await;
                // While the lock is held, the answer shows it.
                let same = |key: &str| read[key] == changed[key];
                assert!(
                    same("extra") && same("updated_at") && same("driver_info"),
                    "{read}"
                );
                assert_eq!(read["extra"]["n"], value);
                assert_eq!(read["reservation"], Value::Null);
                let fields = format!("{own}?fields=extra");
                let (_, read) = reader.ask("GET", &fields, Value::Null).await;
                assert_eq!(read["extra"]["n"], value);
            }
        }
        let (status, _) = writer.ask("DELETE", &own, Value::Null).await;
        assert_eq!(status, 204);
        for reader in &mut readers {
            assert_eq!(reader.ask("GET", &path, Value::Null).await.0, 404);
            assert_eq!(reader.ask("GET", &own, Value::Null).await.0, 404);
        }
    }
    stop.send(()).unwrap();
    drop((writer, readers));
    served.await.unwrap().unwrap();
    api.store.close().await;
}
