//! Secrets cross, and nothing but the call itself shows them.

use serde_json::json;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::secret::Secret;
use wrought_wire::state::MediaKind;

use super::routing::Installation;
use crate::Conductor;
use crate::Hardware;
use crate::Media;
use crate::ProvisionRequest;
use crate::jsonrpc;
use crate::testing::Serving;

const SECRET: &str = "hunter2-hunter2";

#[tokio::test]
async fn passwords_and_tokens_arrive() {
    let installation = Installation::new().await;
    let serving = Serving::start(installation.ca.server("127.0.0.1"));
    installation.register("c1", "", &serving.url).await;
    let node = installation.node("").await.uuid;
    let remote = installation.remote();
    for method in ["provision", "heartbeat", "attach_media"] {
        serving.conductor.answer(method, Ok(json!(null)));
    }
    let token = json!({"agent_token": SECRET});
    serving.conductor.answer("lookup", Ok(token));

    let request = json!({"verb": "rescue", "rescue_password": SECRET});
    let request: ProvisionRequest = serde_json::from_value(request).unwrap();
    assert!(!format!("{request:?}").contains(SECRET));
    remote.provision(node, request).await.unwrap();
    let heartbeat = Heartbeat {
        agent_token: Some(Secret::new(SECRET)),
        ..Heartbeat::default()
    };
    remote.heartbeat(node, heartbeat).await.unwrap();
    let media = Media {
        kind: MediaKind::Cdrom,
        url: Secret::new(SECRET),
    };
    remote.attach_media(node, media).await.unwrap();
    let config = remote.lookup(node).await.unwrap();
    assert_eq!(config["agent_token"], SECRET);

    let asked = serving.conductor.asked();
    assert_eq!(asked[0].1["request"]["rescue_password"], SECRET);
    assert_eq!(asked[1].1["heartbeat"]["agent_token"], SECRET);
    assert_eq!(asked[2].1["media"]["url"], SECRET);
}

#[test]
fn faults_never_cite_what_was_sent() {
    for text in [
        format!("{{\"jsonrpc\": \"{SECRET}\"}}"),
        format!("[\"{SECRET}\"]"),
        format!("{{\"{SECRET}\": 1, \"id\": 1}}"),
        format!("\"{SECRET}"),
    ] {
        let (_, fault) = jsonrpc::read(text.as_bytes()).unwrap_err();
        let shown = format!("{fault} {fault:?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let error = jsonrpc::outcome(1, format!("\"{SECRET}\"").as_bytes()).unwrap_err();
    assert!(!error.message.contains(SECRET), "{error}");
}
