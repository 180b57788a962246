//! Boot mode, secure boot, NMI, indicators, BIOS settings and firmware.

use serde_json::json;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::Error;
use wrought_wire::state::IndicatorState;

use crate::double::Double;
use crate::double::SYSTEM;

const SECURE: &str = "/redfish/v1/Systems/1/SecureBoot";
const BIOS: &str = "/redfish/v1/Systems/1/Bios";

fn link(path: &str) -> serde_json::Value {
    json!({"@odata.id": path})
}

#[tokio::test]
async fn boot_mode_is_set_once_and_only_where_it_can_be() {
    let double = Double::start().await;
    let client = double.client();
    client.set_boot_mode(BootMode::Uefi).await.unwrap();
    assert!(double.requests("PATCH").is_empty(), "it is so already");
    client.set_boot_mode(BootMode::Bios).await.unwrap();
    let sent = json!({"Boot": {"BootSourceOverrideMode": "Legacy"}});
    assert_eq!(double.requests("PATCH"), [(SYSTEM.to_owned(), sent)]);
    assert_eq!(client.boot_mode().await.unwrap(), Some(BootMode::Bios));

    double.bmc().refuse_mode = true;
    let error = client.set_boot_mode(BootMode::Uefi).await.unwrap_err();
    assert!(
        matches!(error, Error::Status { status: 400, .. }),
        "{error}"
    );
    let tried = double.requests("PATCH");
    assert_eq!(tried[2].1["Boot"]["BootSourceOverrideTarget"], "None");
    double.bmc().boot = json!({});
    let error = client.set_boot_mode(BootMode::Uefi).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn secure_boot_and_health() {
    let double = Double::start().await;
    let client = double.client();
    assert_eq!(client.secure_boot().await.unwrap(), None);
    assert_eq!(client.health().await.unwrap(), None);
    let error = client.set_secure_boot(true).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    {
        let mut bmc = double.bmc();
        bmc.more.insert("SecureBoot".to_owned(), link(SECURE));
        let status = json!({"Health": "OK", "HealthRollup": "Warning"});
        bmc.more.insert("Status".to_owned(), status);
        let off = json!({"SecureBootEnable": false});
        bmc.resources.insert(SECURE.to_owned(), off);
    }
    assert_eq!(client.health().await.unwrap().as_deref(), Some("Warning"));
    for _ in 0..2 {
        client.set_secure_boot(true).await.unwrap();
    }
    let sent = (SECURE.to_owned(), json!({"SecureBootEnable": true}));
    assert_eq!(double.requests("PATCH"), [sent]);
    assert_eq!(client.secure_boot().await.unwrap(), Some(true));
}

#[tokio::test]
async fn an_nmi_is_a_reset_on_offer() {
    let double = Double::start().await;
    double.client().inject_nmi().await.unwrap();
    let sent = double.requests("POST");
    assert_eq!(sent.last().unwrap().1, json!({"ResetType": "Nmi"}));
    double.bmc().reset_types = Some(vec!["On", "ForceOff"]);
    let error = double.client().inject_nmi().await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn indicators_of_both_generations() {
    let double = Double::start().await;
    let client = double.client();
    assert!(client.lights().await.unwrap().is_empty());
    let chassis = "/redfish/v1/Chassis/Rack-1";
    {
        let mut bmc = double.bmc();
        bmc.more.insert("IndicatorLED".to_owned(), json!("Off"));
        let links = json!({"Chassis": [link(chassis)]});
        bmc.more.insert("Links".to_owned(), links);
        let resource = json!({"LocationIndicatorActive": false});
        bmc.resources.insert(chassis.to_owned(), resource);
    }
    let blinking = IndicatorState::Blinking;
    client.set_light("system", "1", blinking).await.unwrap();
    client
        .set_light("chassis", "Rack-1", IndicatorState::On)
        .await
        .unwrap();
    let lights = client.lights().await.unwrap();
    let states: Vec<_> = lights
        .iter()
        .map(|light| (light.component, light.state))
        .collect();
    assert_eq!(
        states,
        [("system", blinking), ("chassis", IndicatorState::On)]
    );
    let error = client
        .set_light("chassis", "Rack-1", blinking)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let error = client.set_light("system", "2", blinking).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn bios_settings_with_and_without_their_registry() {
    let double = Double::start().await;
    let client = double.client();
    assert!(client.bios().await.unwrap().is_empty());
    {
        let mut bmc = double.bmc();
        bmc.more.insert("Bios".to_owned(), link(BIOS));
        let bios = json!({"AttributeRegistry": "Reg.1", "Attributes": {"Virt": "On", "Cores": 4, "Tag": null}});
        bmc.resources.insert(BIOS.to_owned(), bios);
    }
    let plain = client.bios().await.unwrap();
    let values: Vec<_> = plain
        .iter()
        .map(|a| (a.name.as_str(), a.value.as_deref()))
        .collect();
    assert_eq!(values.len(), 3);
    assert!(values.contains(&("Cores", Some("4"))) && values.contains(&("Tag", None)));
    assert!(plain.iter().all(|attribute| attribute.kind.is_none()));

    let collection = "/redfish/v1/Registries";
    let (file, other) = (format!("{collection}/a"), format!("{collection}/b"));
    let entries = json!([{"AttributeName": "Virt", "Type": "Enumeration", "ReadOnly": false,
        "ResetRequired": true, "Value": [{"ValueName": "On"}, {"ValueName": "Off"}]},
        {"AttributeName": "Cores", "Type": "Integer", "LowerBound": 1, "UpperBound": 8}]);
    for (path, resource) in [
        (
            collection.to_owned(),
            json!({"Members": [link(&other), link(&file)]}),
        ),
        (other, json!({"Id": "Base"})),
        (
            file,
            json!({"Id": "a", "Registry": "Reg.1", "Location": [{"Uri": "/reg.json"}]}),
        ),
        (
            "/reg.json".to_owned(),
            json!({"RegistryEntries": {"Attributes": entries}}),
        ),
    ] {
        double.bmc().resources.insert(path, resource);
    }
    let described = client.bios().await.unwrap();
    let of = |name: &str| {
        described
            .iter()
            .find(|attribute| attribute.name == name)
            .unwrap()
    };
    let virt = of("Virt");
    assert_eq!(
        virt.allowable,
        Some(vec!["On".to_owned(), "Off".to_owned()])
    );
    assert_eq!(
        (virt.reset_required, virt.read_only),
        (Some(true), Some(false))
    );
    assert_eq!(of("Cores").bounds, (Some(1), Some(8)));
    assert_eq!(of("Tag").kind, None);
}

#[tokio::test]
async fn firmware_of_system_and_manager() {
    let double = Double::start().await;
    double
        .bmc()
        .more
        .insert("BiosVersion".to_owned(), json!("1.2"));
    let found = double.client().firmware().await.unwrap();
    let versions: Vec<_> = found
        .iter()
        .map(|part| (part.component.as_str(), part.version.as_str()))
        .collect();
    assert_eq!(versions, [("bios", "1.2"), ("bmc", "2.7")]);
    assert_eq!(found[1].model.as_deref(), Some("Double BMC"));
}

#[tokio::test]
async fn subscriptions_are_made_and_ended() {
    let double = Double::start().await;
    let client = double.client();
    let error = client.subscriptions().await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let events = "/redfish/v1/EventService";
    let collection = format!("{events}/Subscriptions");
    {
        let mut bmc = double.bmc();
        bmc.events = true;
        let service = json!({"Subscriptions": link(&collection)});
        bmc.resources.insert(events.to_owned(), service);
        let members = json!({"Members": []});
        bmc.resources.insert(collection.clone(), members.clone());
        let one = json!({"Id": "7", "Destination": "https://events.test", "Name": "x"});
        bmc.resources.insert(format!("{collection}/7"), one);
    }
    let all = client.subscriptions().await.unwrap();
    assert_eq!(all, json!({"Members": []}));
    client
        .subscribe(&json!({"Destination": "https://events.test"}))
        .await
        .unwrap();
    let one = client.subscription("7").await.unwrap();
    assert_eq!(
        one,
        json!({"Id": "7", "Destination": "https://events.test"})
    );
    client.unsubscribe("7").await.unwrap();
    assert_eq!(double.requests("DELETE")[0].0, format!("{collection}/7"));
    let error = client.unsubscribe("../../Systems/1").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}
