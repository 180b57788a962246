//! A node's whole life with the operator's commands: enrolled, managed, made
//! available, deployed, torn down, deleted.

use crate::server::Server;
use serde_json::json;

#[test]
fn from_enrolment_to_tear_down() {
    let config = "host = \"c1\"\n[conductor]\nautomated_clean = true\n";
    let server = Server::start(config, &["--http", "--auth", "none"]);
    let mac = "52:54:00:aa:bb:01";
    server.ok(&[
        "node",
        "create",
        "--driver",
        "fake-hardware",
        "--name",
        "n1",
        "--mac",
        mac,
        "--driver-info",
        "fake_password=x",
        "--property",
        "cpus=4",
    ]);
    assert_eq!(server.field("n1", "provision_state"), "enroll");
    assert_eq!(server.field("n1", "properties"), json!({"cpus": "4"}));
    assert_eq!(server.field("n1", "driver_info")["fake_password"], "******");
    assert!(server.ok(&["port", "list", "--node", "n1"]).contains(mac));
    let again = server.client(&[
        "node",
        "create",
        "--driver",
        "fake-hardware",
        "--name",
        "n1",
    ]);
    assert_eq!(again.status.code(), Some(65));

    server.ok(&["node", "manage", "n1", "--wait"]);
    assert_eq!(server.field("n1", "provision_state"), "manageable");
    let early = server.client(&["node", "undeploy", "n1"]);
    assert_eq!(early.status.code(), Some(65), "{early:?}");

    server.ok(&["node", "provide", "n1", "--wait", "--timeout", "60"]);
    assert_eq!(server.field("n1", "provision_state"), "available");
    let digest = format!("sha256:{}", "0".repeat(64));
    let shown = server.ok(&[
        "node",
        "deploy",
        "n1",
        "--image",
        "http://192.0.2.1/i",
        "--checksum",
        &digest,
        "--wait",
    ]);
    assert!(
        shown
            .lines()
            .last()
            .is_some_and(|line| line.contains("active")),
        "{shown}"
    );
    assert_eq!(
        server.field("n1", "instance_info")["image_source"],
        "http://192.0.2.1/i"
    );
    server.ok(&["node", "power", "n1", "reboot", "--wait"]);
    assert_eq!(server.field("n1", "power_state"), "power on");

    server.ok(&["node", "maintenance", "n1", "on", "--reason", "fan"]);
    assert_eq!(server.field("n1", "maintenance_reason"), "fan");
    server.ok(&["node", "maintenance", "n1", "off"]);
    server.ok(&["node", "undeploy", "n1", "--wait"]);
    assert_eq!(server.field("n1", "provision_state"), "available");
    assert_eq!(server.field("n1", "instance_info"), json!({}));
    let watched = server.ok(&["node", "watch", "n1", "--json"]);
    let last: serde_json::Value = serde_json::from_str(watched.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["result"], &last["provision_state"]),
        (&json!("ok"), &json!("available"))
    );

    server.ok(&["node", "set", "n1", "--name", "n2", "--extra", "rack=5"]);
    assert_eq!(server.field("n2", "extra"), json!({"rack": "5"}));
    server.ok(&["node", "delete", "n2"]);
    assert!(!server.ok(&["node", "list"]).contains("n2"));
    let (code, _dir) = server.stop();
    assert_eq!(code, Some(0));
}
