//! What the boot listener gives away, and to whom.

use std::time::Duration;

use axum::body::Body;
use axum::body::to_bytes;
use axum::http::Request;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use tower::ServiceExt;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::MAC;
use super::rig::Rig;
use crate::internal;
use crate::periodic::run_now;
use crate::task::Task;

async fn get(rig: &Rig, path: &str) -> (StatusCode, String) {
    let router = crate::boot::router(&rig.service);
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn only_for_a_node_that_boots_the_ramdisk_and_only_for_a_while() {
    let mut rig = Rig::new().await;
    rig.machine.knobs(|knobs| knobs.dead = true);
    let hyphens = MAC.replace(':', "-").to_uppercase();
    let script = format!("/ipxe/{hyphens}");
    let (_, entry) = get(&rig, "/boot.ipxe").await;
    assert!(
        entry.contains("chain --autofree http://192.0.2.1:8088/ipxe/"),
        "{entry}"
    );
    let (_, text) = get(&rig, &script).await;
    assert!(
        text.contains("sanboot"),
        "a node at rest boots its disk: {text}"
    );
    let (status, text) = get(&rig, "/ipxe/52:54:00:00:00:99").await;
    assert!(
        status == StatusCode::OK && text.contains("sleep 5"),
        "{text}"
    );
    let (status, _) = get(&rig, "/ipxe/52:54:00:00:00:99?from=boot").await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    let node = rig.reaches(S::CleanWait).await;
    let token = node.driver_internal_info["wrought_boot"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let (_, text) = get(&rig, &script).await;
    assert!(
        text.contains(&format!("/b/{token}/vmlinuz initrd=initramfs console=tty0")),
        "{text}"
    );
    assert!(text.contains("wrought-ca-sha256=abab"), "{text}");
    let kernel = format!("/b/{token}/vmlinuz");
    assert_eq!(
        get(&rig, &kernel).await,
        (StatusCode::OK, "kernel".to_owned())
    );
    for path in ["boot.iso", "..%2Fdb", "esp.img"] {
        let (status, _) = get(&rig, &format!("/b/{token}/{path}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(get(&rig, "/b/guess/vmlinuz").await.0, StatusCode::NOT_FOUND);

    // Another life of the conductor still knows the address.
    rig.machine.crash_conductor().await;
    rig.restart().await;
    assert_eq!(get(&rig, &kernel).await.0, StatusCode::OK);

    let mut task = Task::take(&rig.service, rig.node, rig.config.pace.lock_wait)
        .await
        .unwrap();
    let past = Timestamp::UNIX_EPOCH;
    let offer = json!({"token": token, "way": "ipxe", "expires": past});
    internal::set(&mut task.node, internal::BOOT, offer);
    task.save().await.unwrap();
    task.release().await;
    assert_eq!(get(&rig, &kernel).await.0, StatusCode::NOT_FOUND);
    assert!(get(&rig, &script).await.1.contains("sanboot"));
}

#[tokio::test]
async fn a_machine_that_was_to_boot_from_an_earlier_life_is_started_anew() {
    let check = "check_boot_servers";
    let mut rig = Rig::with(
        "redfish",
        |_| {},
        |node| {
            node.interfaces
                .insert("inspect".to_owned(), "agent".to_owned());
        },
    )
    .await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    // Its firmware found nobody to boot from.
    rig.machine.knobs(|knobs| knobs.dead = true);
    rig.ask(Verb::Inspect).await;
    let began = rig.reaches(S::InspectWait).await.inspection_started_at;
    let starts = rig.machine.count("boots pxe");
    tokio::time::sleep(Duration::from_secs(1)).await;
    run_now(&rig.service, check).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.machine.count("boots pxe"), starts, "its server lives");

    rig.machine.crash_conductor().await;
    rig.restart().await;
    run_now(&rig.service, check).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        rig.machine.count("boots pxe"),
        starts,
        "it gets time to call"
    );
    rig.until("another start", async || {
        run_now(&rig.service, check).await;
        rig.machine.count("boots pxe") == starts + 1
    })
    .await;
    let node = rig.reaches(S::InspectWait).await;
    assert_eq!(node.inspection_started_at, began, "the time-out runs on");
    let told = rig.told().await;
    assert!(
        told.iter().any(|text| text.contains("another life")),
        "{told:?}"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    run_now(&rig.service, check).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.machine.count("boots pxe"), starts + 1, "once");
}

#[tokio::test]
async fn machines_that_nobody_knows_boot_only_where_they_are_to_be_found_out() {
    let stranger = "/ipxe/52-54-00-00-00-99";
    for discovers in [false, true] {
        let rig = Rig::with(
            "redfish",
            |config| {
                let settings = &mut config.conductor.inspection;
                settings.discovery_driver = discovers.then(|| "redfish".to_owned());
                settings.extra_kernel_params = "ipa-inspection-collectors=default,lldp".to_owned();
            },
            |_| {},
        )
        .await;
        let (_, entry) = get(&rig, "/boot.ipxe").await;
        assert_eq!(entry.contains("?from=discovery"), discovers);
        let (status, text) = get(&rig, &format!("{stranger}?from=discovery")).await;
        assert_eq!(status == StatusCode::OK, discovers);
        let told = text.contains("/v1/continue_inspection ipa-inspection-collectors=default,lldp ");
        assert_eq!(told, discovers, "{text}");
        for file in ["vmlinuz", "initramfs"] {
            let (status, _) = get(&rig, &format!("/discovery/{file}")).await;
            assert_eq!(status == StatusCode::OK, discovers);
        }
        let (status, _) = get(&rig, "/discovery/manifest.json").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        // One by one, the other NICs are asked about first.
        let (status, _) = get(&rig, &format!("{stranger}?from=boot")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        // A machine that is known boots what it is to boot.
        let known = format!("/ipxe/{}?from=discovery", MAC.replace(':', "-"));
        let (_, text) = get(&rig, &known).await;
        assert!(!text.contains("kernel"), "{text}");
    }
}
