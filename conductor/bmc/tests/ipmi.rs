//! The IPMI client against `ipmi_sim` (OpenIPMI), a BMC that others wrote.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only tests")]

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;
use wrought_bmc::ipmi::Client;
use wrought_bmc::ipmi::Endpoint;
use wrought_bmc::ipmi::Error;
use wrought_bmc::ipmi::Tuning;
use wrought_bmc::redfish::PowerAction;
use wrought_wire::state::BootDevice;
use wrought_wire::state::PowerState;

/// For a simulator to start, and for a state to be reached.
const LONG: Duration = Duration::from_secs(30);

/// Keeps power and boot device in files, as the simulator's chassis.
const CHASSIS: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2" in
"get power") echo "power:$(cat power)" ;;
"set power") echo "$3" >power; echo "power $3" >>log ;;
"get boot") echo "boot:$(cat boot)" ;;
"set boot") echo "$3" >boot; echo "boot $3" >>log ;;
"set reset") echo reset >>log ;;
"set shutdown") echo 0 >power; echo shutdown >>log ;;
*) exit 1 ;;
esac
"#;

struct Simulator {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Simulator {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let script = at("chassis");
        std::fs::write(&script, CHASSIS).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        for (name, content) in [("power", "0"), ("boot", "default"), ("log", "")] {
            std::fs::write(at(name), content).unwrap();
        }
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let auths: String = ["callback", "user", "operator", "admin"]
            .map(|level| format!("    allowed_auths_{level} none md2 md5 straight\n"))
            .concat();
        let lan = format!(
            "name \"sim\"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {port}\n    \
             priv_limit admin\n{auths}    guid a123456789abcdefa123456789abcdef\n  endlan\n  \
             chassis_control \"{}\"\n  user 1 true \"\" \"test\" user 10 none md2 md5 straight\n  \
             user 2 true \"operator\" \"hunter2\" admin 10 none md2 md5 straight\n",
            script.display()
        );
        std::fs::write(at("lan.conf"), lan).unwrap();
        let mc = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 \
                  persist_sdr\nmc_enable 0x20\n";
        std::fs::write(at("sim.emu"), mc).unwrap();
        let child = Command::new("ipmi_sim")
            .args(["-n", "-c"])
            .arg(at("lan.conf"))
            .arg("-f")
            .arg(at("sim.emu"))
            .arg("-s")
            .arg(at("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ipmi_sim: cargo xtask setup installs it");
        let simulator = Self {
            child,
            folder,
            port,
        };
        let client = simulator.client(json!({}));
        let until = tokio::time::Instant::now() + LONG;
        while let Err(error) = client.power_state().await {
            assert!(tokio::time::Instant::now() < until, "{error}");
        }
        simulator
    }

    fn endpoint(&self, more: Value) -> Endpoint {
        let mut info = Map::from_iter([
            ("ipmi_address".to_owned(), json!("127.0.0.1")),
            ("ipmi_port".to_owned(), json!(self.port)),
            ("ipmi_username".to_owned(), json!("operator")),
            ("ipmi_password".to_owned(), json!("hunter2")),
        ]);
        info.extend(more.as_object().unwrap().clone());
        Endpoint::from_driver_info(&info).unwrap()
    }

    fn client(&self, more: Value) -> Client {
        let tuning = Tuning {
            response_timeout: Duration::from_millis(500),
            attempts: 6,
            poll: Duration::from_millis(50),
        };
        Client::new(self.endpoint(more), tuning)
    }

    fn read(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        text.trim().to_owned()
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn power_boot_device_and_refusals() {
    let simulator = Simulator::start().await;
    let client = simulator.client(json!({}));
    assert_eq!(client.power_state().await.unwrap(), PowerState::Off);

    // Absolute targets: nothing is sent for what is so already.
    for action in [PowerAction::On, PowerAction::On] {
        let state = client.set_power(action, LONG).await.unwrap();
        assert_eq!(state, PowerState::On);
    }
    assert_eq!(simulator.read("log"), "power 1");
    client
        .set_power(PowerAction::ForceRestart, LONG)
        .await
        .unwrap();
    assert_eq!(simulator.read("log"), "power 1\nreset");
    client.set_power(PowerAction::SoftOff, LONG).await.unwrap();
    assert_eq!(simulator.read("log"), "power 1\nreset\nshutdown");
    client.set_power(PowerAction::On, LONG).await.unwrap();
    client.set_power(PowerAction::Off, LONG).await.unwrap();
    assert_eq!(simulator.read("power"), "0");

    client
        .set_boot_device(BootDevice::Pxe, true, None)
        .await
        .unwrap();
    assert_eq!(simulator.read("boot"), "pxe");
    let (device, _) = client.boot_device().await.unwrap();
    assert_eq!(device, Some(BootDevice::Pxe));
    let wan = client
        .set_boot_device(BootDevice::Wanboot, false, None)
        .await;
    assert!(matches!(wan, Err(Error::Unsupported { .. })), "{wan:?}");

    // Get Device ID: what it is made of above.
    let id = client.raw(&[0x06, 0x01]).await.unwrap();
    assert_eq!(id[..2], [0x00, 0x03]);
    let none = client.raw(&[0x06, 0x7F]).await.unwrap_err();
    assert!(matches!(none, Error::Refused { code: 0xC1, .. }), "{none}");
    for bad in [&[][..], &[6], &[7, 1], &[0x40, 1]] {
        assert!(client.raw(bad).await.unwrap_err().is_configuration());
    }

    for (wrong, word) in [
        (json!({"ipmi_password": "hunter3"}), "password"),
        (json!({"ipmi_username": "nobody"}), "nobody"),
        (
            json!({"ipmi_cipher_suite": "17"}),
            "none of the cipher suites 17",
        ),
        (
            json!({"ipmi_hex_kg_key": "00112233445566778899aabbccddeeff00112233"}),
            "K_G",
        ),
    ] {
        let error = simulator.client(wrong).power_state().await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(word) && !text.contains("hunter"), "{text}");
    }
}

#[tokio::test]
async fn callers_of_one_client_take_turns() {
    let simulator = Simulator::start().await;
    let client = simulator.client(json!({}));
    let asked = (0..20).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.power_state().await })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap().unwrap(), PowerState::Off);
    }
}

#[tokio::test]
async fn nobody_there_is_said() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let info = json!({
        "ipmi_address": "127.0.0.1", "ipmi_port": silent.local_addr().unwrap().port(),
    });
    let endpoint = Endpoint::from_driver_info(info.as_object().unwrap()).unwrap();
    let tuning = Tuning {
        response_timeout: Duration::from_millis(20),
        attempts: 2,
        poll: Duration::from_millis(10),
    };
    let error = Client::new(endpoint, tuning)
        .power_state()
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("2 attempts"), "{error}");
}
