//! What is asked of the hardware beside power: boot mode, media, lights, VIFs.

use serde_json::Value;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Hardware;
use wrought_rpc::Kind;
use wrought_rpc::Media;
use wrought_rpc::Record;
use wrought_rpc::VendorCall;
use wrought_rpc::Vif;
use wrought_store::BiosSetting;
use wrought_store::FirmwareComponent;
use wrought_store::HistoryEntry;
use wrought_store::HistoryQuery;
use wrought_store::Portgroup;
use wrought_store::node::Node;
use wrought_wire::secret::Secret;
use wrought_wire::state::BootMode;
use wrought_wire::state::IndicatorState;
use wrought_wire::state::MediaKind;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::testing;

async fn fake() -> Rig {
    Rig::with("fake-hardware", |_| {}, |_| {}).await
}

async fn stored(rig: &Rig, port: Uuid) -> Record {
    rig.store.port(port).await.unwrap().unwrap().into()
}

fn flat(node: &mut Node) {
    node.interfaces
        .insert("network".to_owned(), "flat".to_owned());
}

fn vif(id: &str) -> Vif {
    Vif {
        id: id.to_owned(),
        port: None,
        portgroup: None,
    }
}

fn call(http_method: &str, method: &str, parameters: &Value) -> VendorCall {
    VendorCall {
        http_method: http_method.to_owned(),
        method: method.to_owned(),
        parameters: parameters.as_object().cloned().unwrap_or_default(),
    }
}

impl Rig {
    /// Waits until the node shows it and nobody holds it.
    async fn shows(&self, what: &str, is: impl Fn(&Node) -> bool) -> Node {
        self.until(what, async || {
            let node = self.node().await;
            is(&node) && node.reservation.is_none()
        })
        .await;
        self.node().await
    }
}

#[tokio::test]
async fn verification_reads_what_the_bmc_tells() {
    let rig = Rig::new().await;
    rig.ask(Verb::Manage).await;
    let node = rig.reaches(S::Manageable).await;
    assert_eq!(node.boot_mode.as_deref(), Some("uefi"));
    assert_eq!(node.secure_boot, Some(false));
    assert_eq!(node.health.as_deref(), Some("OK"));
    let bios = rig.store.parts::<BiosSetting>(rig.node).await.unwrap();
    assert_eq!(bios[0].part.value.as_deref(), Some("Enabled"));
    let firmware = rig
        .store
        .parts::<FirmwareComponent>(rig.node)
        .await
        .unwrap();
    assert_eq!(firmware[0].part.initial_version, "1.0");
}

#[tokio::test]
async fn boot_mode_and_secure_boot_change_in_the_background() {
    for driver in ["fake-hardware", "redfish"] {
        let rig = Rig::with(driver, |_| {}, |_| {}).await;
        rig.service
            .change_boot_mode(rig.node, BootMode::Bios)
            .await
            .unwrap();
        rig.shows("mode", |node| node.boot_mode.as_deref() == Some("bios"))
            .await;
        rig.service
            .change_secure_boot(rig.node, true)
            .await
            .unwrap();
        let node = rig
            .shows("secure", |node| node.secure_boot == Some(true))
            .await;
        assert_eq!(node.last_error, None);
    }
    let rig = Rig::with("redfish", |_| {}, |_| {}).await;
    rig.machine.knobs(|knobs| knobs.bmc_gone = true);
    rig.service
        .change_boot_mode(rig.node, BootMode::Bios)
        .await
        .unwrap();
    let node = rig.shows("error", |node| node.last_error.is_some()).await;
    let error = node.last_error.unwrap();
    assert!(
        error.starts_with("Failed to change boot_mode state to 'bios': BMC of node"),
        "{error}"
    );
    assert_eq!(node.boot_mode, None);
}

#[tokio::test]
async fn nothing_changes_beneath_an_operation() {
    let rig = fake().await;
    let mut busy = testing::node("fake-hardware");
    busy.provision_state = S::DeployWait;
    busy.target_provision_state = Some(S::Active);
    rig.store.create_node(&busy).await.unwrap();
    let refused = rig
        .service
        .change_boot_mode(busy.uuid, BootMode::Uefi)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    let refused = rig
        .service
        .change_secure_boot(busy.uuid, true)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
}

#[tokio::test]
async fn what_a_driver_cannot_do_is_told_in_ironics_words() {
    let rig = Rig::with(
        "fake-hardware",
        |_| {},
        |node| {
            for (kind, name) in [
                ("raid", "no-raid"),
                ("console", "no-console"),
                ("vendor", "no-vendor"),
            ] {
                node.interfaces.insert(kind.to_owned(), name.to_owned());
            }
        },
    )
    .await;
    let service = &rig.service;
    let state = IndicatorState::Off;
    for (refused, extension) in [
        (
            service.inject_nmi(rig.node).await.unwrap_err(),
            "inject_nmi",
        ),
        (
            service
                .set_indicator(rig.node, "system", "led", state)
                .await
                .unwrap_err(),
            "set_indicator_state",
        ),
        (
            service.media(rig.node).await.unwrap_err(),
            "get_virtual_media",
        ),
        (
            service.set_console(rig.node, true).await.unwrap_err(),
            "console",
        ),
        (
            service
                .set_target_raid(rig.node, Default::default())
                .await
                .unwrap_err(),
            "raid",
        ),
    ] {
        assert_eq!(refused.kind, Kind::Unsupported);
        let text = format!(
            "Driver fake-hardware does not support {extension} (disabled or not implemented)."
        );
        assert_eq!(refused.message, text);
    }
    assert!(service.vendor_methods(rig.node).await.unwrap().is_empty());
    assert_eq!(rig.node().await.reservation, None);
}

#[tokio::test]
async fn indicators_are_found_by_component_and_name() {
    let rig = fake().await;
    let all = rig.service.indicators(rig.node).await.unwrap();
    let names: Vec<String> = all
        .iter()
        .map(|i| format!("{}@{}", i.name, i.component))
        .collect();
    assert_eq!(names, ["led-0@chassis", "led@system"]);
    let state = rig
        .service
        .indicator(rig.node, "system", "led")
        .await
        .unwrap();
    assert_eq!(state, IndicatorState::On);
    for (component, name, text) in [
        ("nope", "led", "Invalid component nope specified."),
        ("system", "nope", "Invalid indicator nope specified."),
    ] {
        let refused = rig
            .service
            .indicator(rig.node, component, name)
            .await
            .unwrap_err();
        assert_eq!(
            (refused.kind, refused.message.as_str()),
            (Kind::InvalidParameter, text)
        );
    }
}

#[tokio::test]
async fn virtual_media_goes_in_and_out() {
    let rig = Rig::new().await;
    let media = |kind| Media {
        kind,
        url: Secret::new("http://images.test/x.iso"),
    };
    rig.service
        .attach_media(rig.node, media(MediaKind::Cdrom))
        .await
        .unwrap();
    rig.until("disc", async || rig.machine.disc().is_some())
        .await;
    rig.shows("end", |_| true).await;
    let devices = rig.service.media(rig.node).await.unwrap();
    assert!(devices[0].inserted && devices[0].image.as_deref() == Some("http://images.test/x.iso"));
    rig.service
        .detach_media(rig.node, Vec::new())
        .await
        .unwrap();
    rig.until("no disc", async || rig.machine.disc().is_none())
        .await;
    rig.service
        .attach_media(rig.node, media(MediaKind::Floppy))
        .await
        .unwrap();
    let node = rig.shows("error", |node| node.last_error.is_some()).await;
    let error = node.last_error.unwrap();
    assert!(
        error.starts_with("Could not attach device floppy to node"),
        "{error}"
    );
}

#[tokio::test]
async fn vifs_of_a_node_whose_networks_others_look_after() {
    let rig = fake().await;
    rig.service.attach_vif(rig.node, vif("a")).await.unwrap();
    assert!(rig.service.vifs(rig.node).await.unwrap().is_empty());
    rig.service
        .detach_vif(rig.node, "never seen")
        .await
        .unwrap();
}

#[tokio::test]
async fn vifs_bind_to_ports_and_portgroups() {
    let rig = Rig::with("fake-hardware", |_| {}, flat).await;
    let mut second = testing::port(rig.node, "52:54:00:aa:bb:02");
    second.pxe_enabled = false;
    rig.service
        .create_record(second.clone().into())
        .await
        .unwrap();
    rig.service.attach_vif(rig.node, vif("a")).await.unwrap();
    let again = rig
        .service
        .attach_vif(rig.node, vif("a"))
        .await
        .unwrap_err();
    assert_eq!(again.kind, Kind::Conflict);
    let taken = Vif {
        port: Some(second.uuid),
        ..vif("b")
    };
    rig.service.attach_vif(rig.node, taken).await.unwrap();
    let full = rig
        .service
        .attach_vif(rig.node, vif("c"))
        .await
        .unwrap_err();
    assert_eq!(full.kind, Kind::InvalidParameter);
    assert!(
        full.message.contains("not enough free physical ports"),
        "{full}"
    );
    assert_eq!(rig.service.vifs(rig.node).await.unwrap(), ["a", "b"]);
    let port = rig.store.port(second.uuid).await.unwrap().unwrap();
    assert_eq!(port.internal_info["tenant_vif_port_id"], "b");
    let bound = rig
        .service
        .destroy_record(stored(&rig, second.uuid).await)
        .await
        .unwrap_err();
    assert_eq!(bound.kind, Kind::Conflict);

    rig.service.detach_vif(rig.node, "b").await.unwrap();
    let gone = rig.service.detach_vif(rig.node, "b").await.unwrap_err();
    assert_eq!(gone.kind, Kind::InvalidParameter);
    let group = Portgroup {
        node_uuid: rig.node,
        standalone_ports_supported: false,
        ..Portgroup::default()
    };
    rig.store.insert(&group).await.unwrap();
    let mut port = rig.store.port(second.uuid).await.unwrap().unwrap();
    port.portgroup_uuid = Some(group.uuid);
    rig.store.save_port(&mut port).await.unwrap();
    let member = Vif {
        port: Some(second.uuid),
        ..vif("d")
    };
    let refused = rig.service.attach_vif(rig.node, member).await.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
    rig.service.attach_vif(rig.node, vif("d")).await.unwrap();
    let group = rig
        .store
        .row::<Portgroup>(group.uuid)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(group.internal_info["tenant_vif_port_id"], "d");
    rig.service
        .destroy_record(stored(&rig, second.uuid).await)
        .await
        .unwrap();
}

#[tokio::test]
async fn vendor_methods_run_now_or_later() {
    let rig = fake().await;
    let methods = rig.service.vendor_methods(rig.node).await.unwrap();
    assert_eq!(methods.len(), 4);
    assert!(!methods["third_method_sync"].is_async);
    let ask = |http: &'static str, method: &'static str, parameters: Value| {
        let call = call(http, method, &parameters);
        rig.service.vendor_call(rig.node, call)
    };
    let meow = json!({"bar": "meow"});
    assert_eq!(
        ask("POST", "third_method_sync", meow).await.unwrap(),
        Some(json!(true))
    );
    let other = json!({"bar": "woof"});
    assert_eq!(
        ask("POST", "third_method_sync", other).await.unwrap(),
        Some(json!(false))
    );
    for method in [
        "second_method",
        "fourth_method_shared_lock",
        "log_passthrough",
    ] {
        assert_eq!(
            ask("POST", method, json!({"bar": "x"})).await.unwrap(),
            None,
            "{method}"
        );
    }
    for (http, method, text) in [
        ("POST", "nope", "No handler for method nope"),
        (
            "GET",
            "second_method",
            "The method second_method does not support HTTP GET",
        ),
        (
            "POST",
            "second_method",
            "Parameter 'bar' not passed to method 'second_method'.",
        ),
    ] {
        let refused = ask(http, method, json!({})).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.message.as_str()),
            (Kind::InvalidParameter, text)
        );
    }
    rig.shows("end", |node| node.last_error.is_none()).await;
}

#[tokio::test]
async fn console_opens_and_closes() {
    let rig = fake().await;
    assert_eq!(rig.service.console(rig.node).await.unwrap(), None);
    rig.service.set_console(rig.node, true).await.unwrap();
    rig.shows("open", |node| node.console_enabled).await;
    assert_eq!(
        rig.service.console(rig.node).await.unwrap(),
        Some(json!({}))
    );
    rig.service.set_console(rig.node, false).await.unwrap();
    rig.shows("closed", |node| !node.console_enabled).await;
}

#[tokio::test]
async fn bios_steps_of_fake_hardware_are_remembered() {
    let rig = fake().await;
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    let mut clean = request(Verb::Clean);
    let settings = json!([{"name": "Virt", "value": "on"}]);
    clean.clean_steps = Some(vec![
        json!({"interface": "bios", "step": "apply_configuration",
        "args": {"settings": settings}}),
    ]);
    rig.service.provision(rig.node, clean).await.unwrap();
    rig.until("bios", async || {
        !rig.store
            .parts::<BiosSetting>(rig.node)
            .await
            .unwrap()
            .is_empty()
    })
    .await;
    rig.reaches(S::Manageable).await;
    let setting = rig
        .store
        .part::<BiosSetting>(rig.node, "Virt")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(setting.part.value.as_deref(), Some("on"));
    let history = rig.store.history(rig.node, &HistoryQuery::default()).await;
    let history = history.unwrap();
    let ended = |entry: &&HistoryEntry| entry.event.starts_with("Manual cleaning");
    assert!(history.iter().find(ended).unwrap().duration.is_some());
}

#[tokio::test]
async fn subscriptions_of_a_bmc() {
    let rig = Rig::new().await;
    let ask = |http: &'static str, method: &'static str, parameters: Value| {
        let call = call(http, method, &parameters);
        rig.service.vendor_call(rig.node, call)
    };
    let wanted = json!({"Destination": "https://events.test"});
    let made = ask("POST", "create_subscription", wanted)
        .await
        .unwrap()
        .unwrap();
    let expected = json!({"Id": "1", "Destination": "https://events.test", "Context": "",
        "EventTypes": ["Alert"], "Protocol": "Redfish"});
    assert_eq!(made, expected);
    let id = json!({"id": "1"});
    let one = ask("GET", "get_subscription", id.clone()).await.unwrap();
    assert_eq!(one, Some(expected));
    let all = ask("GET", "get_all_subscriptions", json!({}))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(all["Members"].as_array().unwrap().len(), 1);
    let ended = ask("DELETE", "delete_subscription", id.clone())
        .await
        .unwrap();
    assert_eq!(ended, Some(Value::Null));
    let gone = ask("DELETE", "delete_subscription", id).await.unwrap_err();
    assert_eq!(gone.kind, Kind::Hardware);
    for (method, parameters) in [
        ("create_subscription", json!({})),
        ("create_subscription", json!({"Destination": "x", "odd": 1})),
        ("create_subscription", json!({"Destination": 1})),
        ("eject_vmedia", json!({"boot_device": "tape"})),
    ] {
        let refused = ask("POST", method, parameters).await.unwrap_err();
        assert_eq!(refused.kind, Kind::InvalidParameter, "{method}");
    }
    let refused = ask("GET", "get_subscription", json!({})).await.unwrap_err();
    assert_eq!(refused.kind, Kind::InvalidParameter);
}
