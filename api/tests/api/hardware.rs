//! What is below a node for its hardware: the answers that a real Ironic gave,
//! also to mistakes of the caller.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use wrought_api::Auth;
use wrought_store::BiosSetting;
use wrought_store::FirmwareComponent;

use crate::support::Api;
use crate::support::N1;
use crate::support::N2;
use crate::support::On;

fn node(api: &Api) -> On<'_> {
    On(api, format!("/v1/nodes/{N1}"))
}

#[tokio::test]
async fn virtual_interfaces() {
    let api = Api::open().await;
    let node = node(&api);
    assert_eq!(node.get("/vifs").await.json(), json!({"vifs": []}));
    for (body, text) in [
        (
            json!({}),
            "Schema error for vif: 'id' is a required property",
        ),
        (
            Value::Null,
            "Schema error for vif: 'id' is a required property",
        ),
        (json!({"id": 5}), "Schema error for vif: id"),
        (json!([]), "Schema error for vif: "),
        (
            json!({"id": "v", "port_uuid": N2, "portgroup_uuid": N2}),
            "Cannot specify both port_uuid and portgroup_uuid",
        ),
        (
            json!({"id": "v", "port_uuid": "zz"}),
            "Expected UUID for port_uuid: zz",
        ),
    ] {
        let refused = node.ask("POST", "/vifs", body.clone()).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.fault().starts_with(text), "{}", refused.fault());
    }
    let placed = json!({"id": "v", "port_uuid": N2, "more": [1]});
    assert_eq!(
        node.at("1.66", "POST", "/vifs", placed.clone())
            .await
            .status,
        204
    );
    assert_eq!(
        node.get("/vifs").await.json(),
        json!({"vifs": [{"id": "v"}]})
    );
    assert_eq!(node.ask("POST", "/vifs", placed).await.status, 204);
    let vifs = node.get("/vifs").await.json();
    assert_eq!(vifs, json!({"vifs": [{"id": format!("v on {N2}")}]}));
    assert_eq!(
        node.ask("DELETE", "/vifs/nope", Value::Null).await.status,
        400
    );
    assert_eq!(node.get("/vifs/v").await.status, 405);
}

#[tokio::test]
async fn bios_and_firmware_as_they_were_read() {
    let api = Api::open().await;
    let node = node(&api);
    assert_eq!(node.get("/bios").await.json(), json!({"bios": []}));
    assert_eq!(node.get("/firmware").await.json(), json!({"firmware": []}));
    let missing = node.get("/bios/virtualization").await;
    let text = format!("Node {N1} doesn't have a BIOS setting 'virtualization'");
    assert_eq!((missing.status, missing.fault()), (404, text));

    let uuid = N1.parse().unwrap();
    let lease = api
        .store
        .lock_node(uuid, "c", Duration::from_secs(60))
        .await
        .unwrap();
    let setting = BiosSetting {
        name: "Virt".to_owned(),
        value: Some("on".to_owned()),
        attribute_type: Some("Enumeration".to_owned()),
        allowable_values: Some(vec!["on".to_owned(), "off".to_owned()]),
        read_only: Some(false),
        ..BiosSetting::default()
    };
    api.store
        .replace_parts(&lease, vec![setting])
        .await
        .unwrap();
    let bmc = FirmwareComponent {
        vendor: Some("ACME".to_owned()),
        ..FirmwareComponent::read("bmc", "1.0")
    };
    api.store.replace_parts(&lease, vec![bmc]).await.unwrap();

    let keys = |value: &Value| {
        let keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys
    };
    let brief = ["created_at", "links", "name", "updated_at", "value"];
    let list = node.get("/bios").await.json();
    assert_eq!(keys(&list["bios"][0]), brief);
    let href = format!("http://api.test/v1/nodes/{N1}/bios/Virt");
    assert_eq!(list["bios"][0]["links"][0]["href"], href);
    let old = node
        .at("1.73", "GET", "/bios/Virt", Value::Null)
        .await
        .json();
    assert_eq!(keys(&old["Virt"]), brief);
    let one = node.get("/bios/Virt").await.json();
    let detail = node.get("/bios?detail=true").await.json();
    assert_eq!(one["Virt"], detail["bios"][0]);
    assert_eq!(keys(&one["Virt"]).len(), 14);
    assert_eq!(one["Virt"]["allowable_values"], json!(["on", "off"]));
    assert_eq!(one["Virt"]["lower_bound"], Value::Null);
    let some = node.get("/bios?fields=name,read_only").await.json();
    assert_eq!(keys(&some["bios"][0]), ["links", "name", "read_only"]);
    for (version, query) in [
        ("1.73", "detail=true"),
        ("latest", "x=1"),
        ("latest", "fields=bogus"),
        ("latest", "fields=name&detail=true"),
    ] {
        let path = format!("/bios?{query}");
        assert_eq!(
            node.at(version, "GET", &path, Value::Null).await.status,
            400,
            "{query}"
        );
    }

    let old = node
        .at("1.113", "GET", "/firmware", Value::Null)
        .await
        .json();
    assert_eq!(old["firmware"][0].get("vendor"), None);
    let new = node.get("/firmware").await.json();
    let mut shown = new["firmware"][0].clone();
    assert!(shown["created_at"].is_string());
    shown.as_object_mut().unwrap().remove("created_at");
    let expected = json!({"component": "bmc", "initial_version": "1.0", "current_version": "1.0",
        "last_version_flashed": null, "updated_at": null, "vendor": "ACME", "model": null,
        "serial_number": null});
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn states_beside_power_and_provisioning() {
    let api = Api::open().await;
    let node = node(&api);
    let place = format!("http://api.test/v1/nodes/{N1}/states");
    for (path, body, location) in [
        (
            "/states/boot_mode",
            json!({"target": "bios"}),
            place.clone(),
        ),
        (
            "/states/secure_boot",
            json!({"target": "on"}),
            place.clone(),
        ),
        (
            "/states/console",
            json!({"enabled": true}),
            format!("{place}/console"),
        ),
    ] {
        let answer = node.ask("PUT", path, body).await;
        assert_eq!((answer.status, answer.text.as_str()), (202, ""), "{path}");
        assert_eq!(answer.headers["location"], location);
    }
    let raid = json!({"logical_disks": [{"size_gb": 100, "raid_level": "1"}]});
    assert_eq!(
        node.ask("PUT", "/states/raid", raid.clone()).await.status,
        204
    );
    let states = node.get("/states").await.json();
    assert_eq!(states["boot_mode"], "bios");
    assert_eq!(states["secure_boot"], true);
    assert_eq!(states["target_raid_config"], raid);
    let console = node.get("/states/console").await.json();
    assert_eq!(
        console,
        json!({"console_enabled": true, "console_info": {}})
    );
    assert_eq!(
        node.ask("PUT", "/states/console", json!({"enabled": "no"}))
            .await
            .status,
        202
    );
    let console = node.get("/states/console").await.json();
    assert_eq!(
        console,
        json!({"console_enabled": false, "console_info": null})
    );
    assert_eq!(
        node.ask("PUT", "/states/raid", Value::Null).await.status,
        204
    );
    assert_eq!(
        node.get("/states").await.json()["target_raid_config"],
        json!({})
    );

    let words = "Unrecognized value 'nope', acceptable values are: '0', '1', 'f', 'false', 'n', \
                 'no', 'off', 'on', 't', 'true', 'y', 'yes'";
    for (path, body, text) in [
        (
            "/states/boot_mode",
            json!({"target": "nope"}),
            "Invalid boot mode nope requested for node. Allowed boot modes are: bios, uefi",
        ),
        (
            "/states/boot_mode",
            json!({}),
            "Missing mandatory parameter: target",
        ),
        (
            "/states/boot_mode",
            json!({"x": 1}),
            "Unexpected arguments: x",
        ),
        (
            "/states/boot_mode",
            json!({"target": true}),
            "Expected string for target: true",
        ),
        (
            "/states/secure_boot",
            json!({"target": "nope"}),
            &format!("Invalid target: {words}"),
        ),
        (
            "/states/console",
            json!({"enabled": "nope"}),
            &format!("Invalid enabled: {words}"),
        ),
        (
            "/states/console",
            json!({}),
            "Missing mandatory parameter: enabled",
        ),
        (
            "/states/raid",
            json!({"logical_disks": [{"size_gb": 100}]}),
            "RAID config validation error: 'raid_level' is a required property",
        ),
        (
            "/states/raid",
            json!({"logical_disks": [{"size_gb": 1, "raid_level": "7"}]}),
            "RAID config validation error: '7' is not one of ['JBOD', '0', '1', '2', '5', '6', \
             '1+0', '5+0', '6+0']",
        ),
    ] {
        let refused = node.ask("PUT", path, body).await;
        assert_eq!((refused.status, refused.fault().as_str()), (400, text));
    }
}

#[tokio::test]
async fn locked_nodes_say_so() {
    let api = Api::new("locked", Auth::none()).await;
    let node = On(&api, format!("/v1/nodes/{N2}"));
    for (method, path, body) in [
        ("PUT", "/states/raid", json!({})),
        ("PUT", "/states/boot_mode", json!({"target": "uefi"})),
        ("PUT", "/states/console", json!({"enabled": true})),
        ("POST", "/vifs", json!({"id": "v"})),
    ] {
        assert_eq!(node.ask(method, path, body).await.status, 409, "{path}");
    }
}

#[tokio::test]
async fn indicators_and_nmi() {
    let api = Api::open().await;
    let node = node(&api);
    let list = node.get("/management/indicators").await.json();
    let path = format!("nodes/{N1}/management/indicators/led@system");
    let expected = json!({"indicators": [{"name": "led@system", "component": "system",
        "readonly": false, "states": ["blinking", "off", "on"], "links": [
            {"href": format!("http://api.test/v1/{path}"), "rel": "self"},
            {"href": format!("http://api.test/{path}"), "rel": "bookmark"}]}]});
    assert_eq!(list, expected);
    let led = node.get("/management/indicators/led@system").await.json();
    assert_eq!(led, json!({"state": "on"}));
    let no = |extension: &str| {
        format!("Driver fake-hardware does not support {extension} (disabled or not implemented).")
    };
    for (method, path, body, text) in [
        (
            "GET",
            "indicators/led@nope",
            Value::Null,
            "Invalid component nope specified.".to_owned(),
        ),
        (
            "GET",
            "indicators/led",
            Value::Null,
            "Malformed indicator name \"led\"".to_owned(),
        ),
        (
            "PUT",
            "indicators/led@system",
            json!({}),
            "Missing mandatory parameter: state".to_owned(),
        ),
        (
            "PUT",
            "indicators/led@system",
            json!({"state": "ON"}),
            no("set_indicator_state"),
        ),
        ("PUT", "inject_nmi", json!({}), no("inject_nmi")),
        ("PUT", "inject_nmi", Value::Null, no("inject_nmi")),
        (
            "PUT",
            "inject_nmi",
            json!({"a": 1}),
            "Unexpected arguments: a".to_owned(),
        ),
    ] {
        let refused = node.ask(method, &format!("/management/{path}"), body).await;
        assert_eq!((refused.status, refused.fault()), (400, text));
    }
    let purple = json!({"state": "purple"});
    let refused = node
        .ask("PUT", "/management/indicators/led@system", purple)
        .await;
    assert_eq!(refused.status, 400);
    assert_eq!(node.get("/management/inject_nmi").await.status, 405);
    assert_eq!(
        node.get("/management/indicators/system/led").await.status,
        404
    );
}

#[tokio::test]
async fn virtual_media() {
    let api = Api::open().await;
    let node = node(&api);
    let devices = node.get("/vmedia").await.json();
    assert_eq!(
        devices,
        json!([{"media_types": ["CD"], "inserted": false, "image": null}])
    );
    let disc = |url: &str| json!({"device_type": "cdrom", "image_url": url});
    for (body, text) in [
        (
            json!({}),
            "Schema error for vmedia: 'device_type' is a required property",
        ),
        (
            json!({"device_type": "disk"}),
            "Schema error for vmedia: 'image_url' is a required property",
        ),
        (disc("ftp://x/y"), "Unsupported or missing URL scheme: ftp"),
        (disc("nope"), "Unsupported or missing URL scheme: "),
        (
            json!({"device_type": "zip", "image_url": "http://x/y"}),
            "Schema error for vmedia: 'zip' is not one of ['disk', 'cdrom', 'floppy']",
        ),
        (
            json!({"device_type": "disk", "image_url": "http://x/y", "x": 1}),
            "Schema error for vmedia: Additional properties are not allowed ('x' was unexpected)",
        ),
    ] {
        let refused = node.ask("POST", "/vmedia", body).await;
        assert_eq!((refused.status, refused.fault().as_str()), (400, text));
    }
    for source in ["http", "local", "swift"] {
        let mut body = disc("https://images.test/x.iso");
        body["image_download_source"] = json!(source);
        assert_eq!(
            node.ask("POST", "/vmedia", body).await.status,
            204,
            "{source}"
        );
    }
    for (query, status) in [
        ("", 204),
        ("?device_types=cdrom,disk", 204),
        ("?device_types=zip", 400),
        ("?device_types=floppy", 400),
    ] {
        let path = format!("/vmedia{query}");
        assert_eq!(
            node.ask("DELETE", &path, Value::Null).await.status,
            status,
            "{query}"
        );
    }
}
