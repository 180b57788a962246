//! The rules of heartbeats, lookups and tokens.

use std::time::Duration;

use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_wire::heartbeat::Heartbeat;
use wrought_wire::secret::Secret;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::agent::identity;
use super::rig::Rig;

/// A node in `clean wait` whose ramdisk this test plays itself.
async fn waiting() -> Rig {
    let rig = Rig::new().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    rig.reaches(S::CleanWait).await;
    rig
}

fn beat(url: &str, token: &str, pem: &str) -> Heartbeat {
    Heartbeat {
        callback_url: url.to_owned(),
        agent_token: Some(Secret::new(token)),
        agent_version: Some("1".to_owned()),
        agent_verify_ca: Some(pem.to_owned()),
        ..Heartbeat::default()
    }
}

#[tokio::test]
async fn token_is_handed_out_once_until_our_own_power_action() {
    let rig = waiting().await;
    let token = |config: &serde_json::Map<String, serde_json::Value>| {
        config["agent_token"].as_str().unwrap().to_owned()
    };
    let first = token(&rig.service.lookup(rig.node).await.unwrap());
    assert_eq!(first.len(), 43);
    for _ in 0..3 {
        assert_eq!(
            token(&rig.service.lookup(rig.node).await.unwrap()),
            "******"
        );
    }
    rig.service
        .change_power(rig.node, PowerTarget::Reboot, None)
        .await
        .unwrap();
    rig.until("reboot", async || {
        let node = rig.node().await;
        node.target_power_state.is_none() && node.reservation.is_none()
    })
    .await;
    let second = token(&rig.service.lookup(rig.node).await.unwrap());
    assert!(second.len() == 43 && second != first);
}

#[tokio::test]
async fn lookup_only_where_a_ramdisk_is_expected() {
    let rig = Rig::new().await;
    let refused = rig.service.lookup(rig.node).await.unwrap_err();
    assert_eq!(refused.kind, Kind::NotFound);
    assert_eq!(refused.message, "Resource could not be found.");
}

#[tokio::test]
async fn heartbeats_are_checked() {
    let rig = waiting().await;
    let config = rig.service.lookup(rig.node).await.unwrap();
    let token = config["agent_token"].as_str().unwrap();
    let (pem, _) = identity();
    let (other, _) = identity();
    let url = "https://127.0.0.1:1";
    let send = async |beat: Heartbeat| rig.service.heartbeat(rig.node, beat).await;
    for (bad, text) in [
        (
            beat(url, "wrong", &pem),
            "Invalid or missing agent token received.",
        ),
        (
            beat(url, "", &pem),
            "Invalid or missing agent token received.",
        ),
        (
            Heartbeat {
                agent_token: None,
                ..beat(url, token, &pem)
            },
            "Invalid or missing agent token",
        ),
        (beat("http://127.0.0.1:1", token, &pem), "not https"),
        (
            Heartbeat {
                agent_version: None,
                ..beat(url, token, &pem)
            },
            "agent_version",
        ),
        (
            Heartbeat {
                agent_verify_ca: None,
                ..beat(url, token, &pem)
            },
            "agent_verify_ca",
        ),
        (beat(url, token, "no pem"), "cannot be pinned"),
        (beat("https://", token, &pem), "not usable"),
    ] {
        let refused = send(bad).await.unwrap_err();
        assert_eq!(refused.kind, Kind::InvalidParameter);
        assert!(refused.message.contains(text), "{}", refused.message);
        assert!(!refused.message.contains(token), "the token is never told");
    }
    send(beat(url, token, &pem)).await.unwrap();
    rig.until("stamp", async || {
        rig.store.last_heartbeat(rig.node).await.unwrap().is_some()
    })
    .await;
    let node = rig.node().await;
    assert_eq!(Rig::internal(&node, "agent_url"), url);
    assert_eq!(Rig::internal(&node, "agent_version"), "1");
    let moved = send(beat("https://127.0.0.1:2", token, &pem))
        .await
        .unwrap_err();
    assert_eq!(
        moved.message,
        "Detected change in ramdisk provided \"callback_url\""
    );
    let swapped = send(beat(url, token, &other)).await.unwrap_err();
    assert!(
        swapped.message.contains("agent_verify_ca"),
        "{}",
        swapped.message
    );
    send(beat(url, token, &pem)).await.unwrap();
}

#[tokio::test]
async fn heartbeat_needs_the_lock_only_at_first() {
    let rig = waiting().await;
    let config = rig.service.lookup(rig.node).await.unwrap();
    let token = config["agent_token"].as_str().unwrap().to_owned();
    let (pem, _) = identity();
    let owner = "somebody";
    let lease = rig
        .store
        .lock_node(rig.node, owner, Duration::from_secs(60))
        .await
        .unwrap();
    let locked = rig
        .service
        .heartbeat(rig.node, beat("https://127.0.0.1:1", &token, &pem))
        .await;
    assert_eq!(locked.unwrap_err().kind, Kind::NodeLocked);
    rig.store.unlock(lease).await.unwrap();
    rig.service
        .heartbeat(rig.node, beat("https://127.0.0.1:1", &token, &pem))
        .await
        .unwrap();
}
