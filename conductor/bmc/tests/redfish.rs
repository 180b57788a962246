//! The Redfish client against a service with quirks.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first thing that is wrong"
)]

mod double;
mod hardware;
mod tls;

use serde_json::json;
use wrought_bmc::redfish::AuthType;
use wrought_bmc::redfish::BootMode;
use wrought_bmc::redfish::Client;
use wrought_bmc::redfish::Enabled;
use wrought_bmc::redfish::Error;
use wrought_bmc::redfish::PowerAction;
use wrought_wire::secret::Secret;
use wrought_wire::state::BootDevice;
use wrought_wire::state::MediaKind;
use wrought_wire::state::PowerState;

use double::Double;
use double::SYSTEM;
use double::tuning;

const ISO: &str = "http://192.0.2.9/b/x/boot.iso";

#[tokio::test]
async fn one_session_serves_many_calls_and_is_renewed_and_ended() {
    let double = Double::start().await;
    let client = double.client();
    assert_eq!(
        client.system().await.unwrap().model.as_deref(),
        Some("Double")
    );
    client.power_state().await.unwrap();
    assert_eq!(double.bmc().logins, 1);
    double.bmc().token = Some("expired".to_owned());
    client.power_state().await.unwrap();
    assert_eq!(double.bmc().logins, 2);
    client.close().await;
    assert_eq!(double.bmc().token, None);
}

#[tokio::test]
async fn basic_authentication_where_there_are_no_sessions() {
    let double = Double::start().await;
    double.bmc().sessions = false;
    double.client().system().await.unwrap();
    let mut endpoint = double.endpoint();
    endpoint.auth = AuthType::Session;
    let error = Client::with_tuning(endpoint, tuning())
        .unwrap()
        .system()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn wrong_password_is_told_without_the_password() {
    let double = Double::start().await;
    for auth in [AuthType::Auto, AuthType::Basic] {
        let mut endpoint = double.endpoint();
        endpoint.password = Secret::new("swordfish");
        endpoint.auth = auth;
        let error = Client::with_tuning(endpoint, tuning())
            .unwrap()
            .system()
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Auth { status: 401, .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("swordfish"));
    }
}

#[tokio::test]
async fn waits_for_a_busy_service_but_not_forever() {
    let double = Double::start().await;
    let client = double.client();
    client.system().await.unwrap();
    double.bmc().busy = 2;
    client.power_state().await.unwrap();
    double.bmc().busy = 3;
    let error = client.power_state().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Busy {
                status: 503,
                attempts: 3,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.is_transient());
}

#[tokio::test]
async fn nothing_listens() {
    let double = Double::start().await;
    let mut endpoint = double.endpoint();
    endpoint.address = "http://127.0.0.1:1".to_owned();
    let error = Client::with_tuning(endpoint, tuning())
        .unwrap()
        .system()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { attempts: 3, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn system_must_be_named_when_there_are_two() {
    let double = Double::start().await;
    double.bmc().second_system = true;
    let error = double.client().system().await.unwrap_err().to_string();
    assert!(
        error.contains("redfish_system_id") && error.contains("Systems/2"),
        "{error}"
    );
    let mut endpoint = double.endpoint();
    endpoint.system_id = Some("1".to_owned());
    assert_eq!(
        Client::new(endpoint).unwrap().system().await.unwrap().path,
        SYSTEM
    );
    let mut endpoint = double.endpoint();
    endpoint.system_id = Some("/redfish/v1/Systems/9".to_owned());
    let error = Client::new(endpoint).unwrap().system().await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn stays_on_the_service_and_bounds_what_it_reads() {
    let double = Double::start().await;
    double.bmc().redirect = Some("http://198.51.100.1/redfish/v1/".to_owned());
    let error = double.client().system().await.unwrap_err();
    assert!(matches!(error, Error::Elsewhere { .. }), "{error}");
    double.bmc().redirect = None;
    double.bmc().padding = 1 << 17;
    let error = double.client().system().await.unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit: 65536, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn power_is_an_absolute_target() {
    let double = Double::start().await;
    let client = double.client();
    assert_eq!(
        client.set_power(PowerAction::Off).await.unwrap(),
        PowerState::Off
    );
    assert!(resets(&double).is_empty());
    double.bmc().power_lag = 3;
    assert_eq!(
        client.set_power(PowerAction::On).await.unwrap(),
        PowerState::On
    );
    client.set_power(PowerAction::On).await.unwrap();
    assert_eq!(resets(&double), ["On"]);
    client.set_power(PowerAction::ForceRestart).await.unwrap();
    client.set_power(PowerAction::SoftOff).await.unwrap();
    assert_eq!(resets(&double), ["On", "ForceRestart", "GracefulShutdown"]);
    assert_eq!(client.power_state().await.unwrap(), PowerState::Off);
}

#[tokio::test]
async fn power_uses_what_is_on_offer_and_insists() {
    let double = Double::start().await;
    let client = double.client();
    double.bmc().reset_types = Some(vec!["ForceOn"]);
    double.bmc().drop_resets = 1;
    client.set_power(PowerAction::On).await.unwrap();
    assert_eq!(resets(&double), ["ForceOn", "ForceOn"]);
    let error = client.set_power(PowerAction::Off).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unsupported { offered, .. } if offered == "ForceOn"),
        "{error}"
    );
    double.bmc().reset_types = None;
    double.bmc().drop_resets = 9;
    let error = client.set_power(PowerAction::Off).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::NotReached {
                what: "PowerState",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn boot_device_is_set_and_read_back() {
    let double = Double::start().await;
    double.bmc().etag = true;
    double.bmc().once_is_continuous = true;
    let client = double.client();
    let read = client
        .set_boot_device(BootDevice::Pxe, false, Some(BootMode::Uefi))
        .await
        .unwrap();
    assert_eq!(
        (read.device, read.enabled),
        (Some(BootDevice::Pxe), Some(Enabled::Continuous))
    );
    assert_eq!(client.boot_mode().await.unwrap(), Some(BootMode::Uefi));
    let error = client
        .set_boot_device(BootDevice::UefiHttp, false, None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("Pxe, Hdd, Cd"), "{error}");
    let devices = client.boot_devices().await.unwrap();
    assert_eq!(
        devices,
        [BootDevice::Pxe, BootDevice::Disk, BootDevice::Cdrom]
    );
    client.clear_boot_device().await.unwrap();
    assert_eq!(
        client.boot_device().await.unwrap().enabled,
        Some(Enabled::Disabled)
    );
}

#[tokio::test]
async fn a_refused_boot_mode_does_not_stand_in_the_way() {
    let double = Double::start().await;
    double.bmc().refuse_mode = true;
    let client = double.client();
    client
        .set_boot_device(BootDevice::Disk, true, Some(BootMode::Bios))
        .await
        .unwrap();
    let (_, last) = double.requests("PATCH").pop().unwrap();
    let expected = json!({"Boot": {"BootSourceOverrideTarget": "Hdd", "BootSourceOverrideEnabled": "Continuous"}});
    assert_eq!(last, expected);
}

#[tokio::test]
async fn media_below_the_system_only() {
    let double = Double::start().await;
    let client = double.client();
    client.eject_media(MediaKind::Cdrom).await.unwrap();
    assert!(media_actions(&double).is_empty());
    let path = client.insert_media(MediaKind::Cdrom, ISO).await.unwrap();
    assert_eq!(path, "/redfish/v1/Systems/1/VirtualMedia/Cd");
    client.insert_media(MediaKind::Cdrom, ISO).await.unwrap();
    assert_eq!(media_actions(&double), ["InsertMedia"]);
    client.eject_media(MediaKind::Cdrom).await.unwrap();
    assert_eq!(double.bmc().images, [None, None]);
}

#[tokio::test]
async fn a_device_that_lies_is_passed_over() {
    let double = Double::start().await;
    {
        let mut bmc = double.bmc();
        bmc.manager_media = true;
        bmc.manager_lies = true;
        bmc.strict_insert = true;
        bmc.refuse_occupied = true;
        bmc.images[1] = Some("http://192.0.2.9/old.iso".to_owned());
    }
    let path = double
        .client()
        .insert_media(MediaKind::Cdrom, ISO)
        .await
        .unwrap();
    assert_eq!(path, "/redfish/v1/Systems/1/VirtualMedia/Cd");
    assert_eq!(double.bmc().images[1].as_deref(), Some(ISO));
}

#[tokio::test]
async fn no_device_for_discs() {
    let double = Double::start().await;
    double.bmc().system_media = false;
    let error = double
        .client()
        .insert_media(MediaKind::Cdrom, ISO)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn nics_as_far_as_they_are_told() {
    let double = Double::start().await;
    assert!(double.client().nics().await.unwrap().is_empty());
    {
        let mut bmc = double.bmc();
        let link = |path: &str| json!({"@odata.id": path});
        bmc.more
            .insert("EthernetInterfaces".to_owned(), link("/Nics"));
        let members = ["/Nics/1", "/Nics/2", "/Nics/3", "/Nics/gone"].map(link);
        bmc.resources
            .insert("/Nics".to_owned(), json!({"Members": members}));
        for (path, body) in [
            (
                "/Nics/1",
                json!({"Id": "NIC.1", "MACAddress": "52:54:00:00:00:01",
                "PermanentMACAddress": "52:54:00:00:00:aa", "LinkStatus": "LinkUp", "SpeedMbps": 10000}),
            ),
            (
                "/Nics/2",
                json!({"MACAddress": "52:54:00:00:00:02", "Status": {"State": "Disabled"}}),
            ),
            ("/Nics/3", json!({"MACAddress": "52:54:00:00:00:03"})),
        ] {
            bmc.resources.insert(path.to_owned(), body);
        }
    }
    let nics = double.client().nics().await.unwrap();
    let told: Vec<_> = nics
        .iter()
        .map(|nic| (nic.id.as_str(), nic.mac.as_str(), nic.link))
        .collect();
    assert_eq!(
        told,
        [
            ("NIC.1", "52:54:00:00:00:aa", Some(true)),
            ("3", "52:54:00:00:00:03", None)
        ]
    );
    assert_eq!(nics[0].speed, Some(10000));
}

fn resets(double: &Double) -> Vec<String> {
    let posts = double.requests("POST").into_iter();
    posts
        .filter_map(|(_, body)| Some(body.get("ResetType")?.as_str()?.to_owned()))
        .collect()
}

fn media_actions(double: &Double) -> Vec<String> {
    let posts = double.requests("POST").into_iter();
    posts
        .filter_map(|(path, _)| Some(path.split_once("/VirtualMedia.")?.1.to_owned()))
        .collect()
}
