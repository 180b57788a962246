//! Settings and what is refused.

use std::path::Path;

use super::AuthChoice;
use super::Form;
use super::Settings;
use super::options::Back;
use super::options::Calls;
use super::options::Common;
use super::options::Front;
use super::options::Options;

fn load_as(form: Form, text: &str, mut options: Options) -> anyhow::Result<Settings> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wrought.toml");
    std::fs::write(&path, text).unwrap();
    options.common.config = Some(path);
    Settings::load(form, options)
}

fn load(text: &str, options: Options) -> anyhow::Result<Settings> {
    load_as(Form::Serve, text, options)
}

#[test]
fn nothing_set_is_safe() {
    let settings = Settings::load(Form::Serve, Options::default()).unwrap();
    assert_eq!(settings.listen.to_string(), "0.0.0.0:6385");
    assert!(!settings.http);
    assert_eq!(settings.auth, AuthChoice::Generated);
    assert_eq!(settings.database, "sqlite:/var/lib/wrought/wrought.db");
    assert_eq!(settings.ca_dir, Path::new("/var/lib/wrought/ca"));
    assert_eq!(settings.boot.listen, None);
    assert!(!settings.host.is_empty());
}

#[test]
fn a_certificate_may_be_given() {
    let none = Settings::load(Form::Serve, Options::default()).unwrap();
    assert_eq!(none.tls, None);
    let text = "[ramdisk]\nlisten = \"192.0.2.1:6386\"\n\
                [tls]\ncertificate = \"/c.pem\"\nkey = \"/k.pem\"\n";
    let given = load(text, Options::default()).unwrap().tls.unwrap();
    assert_eq!(given.certificate, Path::new("/c.pem"));
    assert_eq!(given.key, Path::new("/k.pem"));
}

#[test]
fn the_command_line_overrides_the_file() {
    let text = "state_dir = \"/a\"\nlisten = \"127.0.0.1:1\"\nauth = \"basic:/f\"\nhost = \"h\"\n\
                [boot]\nlisten = \"192.0.2.1:80\"\nextra_kernel_params = \"x=y\"\n\
                [conductor]\nworkers = 3\n[agent]\nheartbeat_interval = 5\n";
    let settings = load(text, Options::default()).unwrap();
    assert_eq!(settings.auth, AuthChoice::Basic("/f".into()));
    assert_eq!(settings.database, "sqlite:/a/wrought.db");
    assert_eq!(
        (settings.host.as_str(), settings.conductor.workers),
        ("h", 3)
    );
    assert_eq!(settings.agent.heartbeat_interval, 5);
    let options = Options {
        common: Common {
            state_dir: Some("/b".into()),
            ..Common::default()
        },
        front: Front {
            listen: Some("127.0.0.1:2".parse().unwrap()),
            auth: Some(AuthChoice::None),
            http: true,
        },
        back: Back {
            boot_listen: Some("127.0.0.1:3".parse().unwrap()),
        },
        calls: Calls::default(),
    };
    let settings = load(text, options).unwrap();
    assert_eq!(settings.ca_dir, Path::new("/b/ca"));
    assert_eq!(settings.listen.port(), 2);
    assert_eq!(settings.boot.listen.map(|listen| listen.port()), Some(3));
    assert_eq!(settings.boot.extra_kernel_params, "x=y");
    assert!(settings.http);
}

#[test]
fn ramdisks_may_have_a_door_of_their_own() {
    assert!(
        Settings::load(Form::Serve, Options::default())
            .unwrap()
            .ramdisk
            .enabled
    );
    let text = "trusted_proxies = [\"192.0.2.0/24\"]\n[boot]\nlisten = \"192.0.2.1:80\"\n\
                [ramdisk]\nlisten = \"192.0.2.1:6386\"\n";
    let settings = load(text, Options::default()).unwrap();
    assert_eq!(
        settings.ramdisk.listen.map(|listen| listen.port()),
        Some(6386)
    );
    assert_eq!(settings.trusted_proxies.len(), 1);
    let text = text.replace("listen = \"192.0.2.1:6386\"", "listen = \"0.0.0.0:6386\"");
    let error = load(&text, Options::default()).unwrap_err().to_string();
    assert!(error.contains("[ramdisk]"), "{error}");
}

#[test]
fn errors_name_file_and_key() {
    for (text, key) in [
        ("lissten = \"x\"", "lissten"),
        ("[conductor]\nworker = 3", "worker"),
        ("auth = \"digest\"", "auth"),
        ("listen = \"localhost\"", "listen"),
        ("public_endpoint = \"192.0.2.1\"", "public_endpoint"),
        ("[ramdisk]\nurl = \"192.0.2.1\"", "[ramdisk]"),
        ("[tls]\ncertificate = \"/c\"\nkey = \"/k\"", "[ramdisk]"),
        ("[tls]\ncertificate = \"/c\"", "key"),
        (
            "http = true\nauth = \"none\"\n[tls]\ncertificate = \"/c\"\nkey = \"/k\"\n\
             [ramdisk]\nenabled = false",
            "[tls]",
        ),
        (
            "[ramdisk]\nlisten = \"192.0.2.1:1\"\nenabled = false",
            "[ramdisk]",
        ),
        ("trusted_proxies = [\"192.0.2.0/40\"]", "trusted_proxies"),
    ] {
        let error = format!("{:#}", load(text, Options::default()).unwrap_err());
        assert!(error.contains(key), "{error}");
        assert!(
            error.contains("wrought.toml")
                || ["public_endpoint", "[ramdisk]", "[tls]", "trusted_proxies"].contains(&key),
            "{error}"
        );
    }
}

#[test]
fn unsafe_or_useless_settings_are_refused() {
    let load = |http: bool, listen: Option<&str>, boot: Option<&str>| {
        let address = |text: &str| text.parse().unwrap();
        let options = Options {
            front: Front {
                http,
                listen: listen.map(address),
                auth: None,
            },
            back: Back {
                boot_listen: boot.map(address),
            },
            ..Options::default()
        };
        let loaded = Settings::load(Form::Serve, options);
        loaded.map(drop).map_err(|error| error.to_string())
    };
    let error = load(true, None, None).unwrap_err();
    assert!(error.contains("passwords in the clear"), "{error}");
    load(true, Some("127.0.0.1:1"), None).unwrap();
    let error = load(false, None, Some("192.0.2.1:80")).unwrap_err();
    assert!(error.contains("public_endpoint"), "{error}");
    let error = load(false, Some("192.0.2.1:1"), Some("0.0.0.0:80")).unwrap_err();
    assert!(error.contains("set url in [boot]"), "{error}");
}

const SHARED: &str = "database = \"postgres://u:p@h/d\"\nstate_dir = \"/a\"\nhost = \"c1\"\n";

#[test]
fn api_and_conductor_apart_share_a_database_and_have_folders_of_their_own() {
    let settings = load_as(Form::Api, SHARED, Options::default()).unwrap();
    assert_eq!(settings.own_dir(), Path::new("/a/api"));
    assert_eq!(settings.ca_dir, Path::new("/a/ca"));
    let options = Options {
        calls: Calls {
            host: Some("c2".to_owned()),
            rpc_listen: Some("127.0.0.1:9".parse().unwrap()),
        },
        ..Options::default()
    };
    let settings = load_as(Form::Conductor, SHARED, options).unwrap();
    assert_eq!(settings.own_dir(), Path::new("/a/conductor"));
    assert_eq!(
        (settings.host.as_str(), settings.rpc.listen.port()),
        ("c2", 9)
    );
    let settings = load_as(Form::Conductor, SHARED, Options::default()).unwrap();
    assert_eq!(settings.rpc.listen.to_string(), "0.0.0.0:8089");
    assert_eq!(
        load(SHARED, Options::default()).unwrap().own_dir(),
        Path::new("/a")
    );
}

#[test]
fn sqlite_is_refused_where_several_processes_share_the_database() {
    for form in [Form::Api, Form::Conductor] {
        for text in ["", "database = \"sqlite:/a/wrought.db\""] {
            let error = load_as(form, text, Options::default()).unwrap_err();
            let error = error.to_string();
            let command = format!("`wrought {}`", form.name());
            assert!(error.contains(&command), "{error}");
            assert!(error.contains("--database postgres://"), "{error}");
            assert!(error.contains("wrought serve"), "{error}");
        }
    }
}

#[test]
fn a_conductor_alone_must_know_where_machines_find_the_api() {
    let boot = format!("{SHARED}[boot]\nlisten = \"192.0.2.1:80\"\n");
    let error = load_as(Form::Conductor, &boot, Options::default()).unwrap_err();
    assert!(error.to_string().contains("public_endpoint"), "{error}");
    let told = format!("public_endpoint = \"https://192.0.2.9:6385\"\n{boot}");
    load_as(Form::Conductor, &told, Options::default()).unwrap();
    // What the API alone is told is nothing to it.
    let text = format!("{SHARED}listen = \"0.0.0.0:1\"\nhttp = true\n");
    load_as(Form::Conductor, &text, Options::default()).unwrap();
    for (text, said) in [
        ("url = \"http://c1.example:8089\"", "https://"),
        ("url = \"c1.example\"", "url of [rpc]"),
        ("timeout = 0", "timeout of [rpc]"),
    ] {
        let text = format!("{SHARED}[rpc]\n{text}\n");
        let error = load_as(Form::Conductor, &text, Options::default()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}
