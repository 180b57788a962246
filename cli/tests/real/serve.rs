//! `wrought serve` as an operator meets it at the first start.

use std::io::Read;
use std::io::Write;
use std::net::TcpStream;

use crate::server::Server;
use crate::server::mode;
use crate::server::wrought;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn first_start_is_closed_and_usable() {
    let server = Server::start("host = \"c1\"\n", &[]);
    assert!(server.url.starts_with("https://127.0.0.1:"));
    for file in [
        "wrought.db",
        "wrought.lock",
        "admin-password",
        "htpasswd",
        "server.key",
        "ca/ca.key",
    ] {
        assert_eq!(mode(&server.state(file)), 0o600, "{file}");
    }
    assert_eq!(mode(&server.state("")), 0o700);
    // The password is in its file and nowhere in what was printed.
    let password = std::fs::read_to_string(server.state("admin-password")).unwrap();
    assert!(
        server
            .greeting
            .iter()
            .all(|line| !line.contains(password.trim()))
    );

    let ca = server.state("ca/ca.pem");
    let ca = ca.to_str().unwrap();
    let file = server.state("admin-password");
    let file = file.to_str().unwrap();
    server.ok(&["node", "list", "--ca", ca, "--password-file", file]);

    let untrusted = server.client(&["node", "list", "--password-file", file]);
    assert_eq!(untrusted.status.code(), Some(69));
    assert!(
        text(&untrusted.stderr).contains("--ca"),
        "{}",
        text(&untrusted.stderr)
    );
    let unknown = server.client(&["node", "list", "--ca", ca]);
    assert_eq!(unknown.status.code(), Some(65));
    assert!(
        text(&unknown.stderr).contains("--password-file"),
        "{}",
        text(&unknown.stderr)
    );
    let wrong = server.client(&["node", "list", "--ca", ca, "--password-file", ca]);
    assert_eq!(wrong.status.code(), Some(65));
}

#[test]
fn second_server_is_refused_and_a_restart_keeps_everything() {
    let server = Server::start("", &["--http", "--auth", "none"]);
    let second = wrought(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "--auth",
        "none",
    ])
    .arg("--state-dir")
    .arg(server.state(""))
    .output()
    .unwrap();
    assert_eq!(second.status.code(), Some(69));
    assert!(
        text(&second.stderr).contains("another server"),
        "{}",
        text(&second.stderr)
    );

    let uuid = server.ok(&[
        "node",
        "create",
        "--driver",
        "fake-hardware",
        "--name",
        "n1",
    ]);
    let fingerprint = server
        .greeting
        .iter()
        .find(|line| line.contains("SHA-256"))
        .cloned();
    let (code, dir) = server.stop();
    assert_eq!(code, Some(0));
    let server = Server::start_in(dir, "", &["--http", "--auth", "none"]);
    assert!(server.greeting.contains(&fingerprint.unwrap()));
    assert_eq!(server.field("n1", "uuid"), uuid.trim());
}

#[test]
fn wrong_usage_ends_with_64() {
    let clear = wrought(&["serve", "--http"]).output().unwrap();
    assert_eq!(clear.status.code(), Some(64));
    assert!(
        text(&clear.stderr).contains("in the clear"),
        "{}",
        text(&clear.stderr)
    );
    let nonsense = wrought(&["serve", "--no-such-option"]).output().unwrap();
    assert_eq!(nonsense.status.code(), Some(64));
    // A conductor has no API that could listen.
    let listen = wrought(&["conductor", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(listen.status.code(), Some(64));
    let help = wrought(&["--help"]).output().unwrap();
    assert_eq!(help.status.code(), Some(0));
}

#[test]
fn another_server_gets_its_certificate_from_the_ca() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, out) = (dir.path().join("ca"), dir.path().join("out"));
    let init = wrought(&["ca", "init", "--ca-dir"])
        .arg(&ca)
        .output()
        .unwrap();
    assert!(init.status.success());
    let issue = |name: &str| {
        let mut command = wrought(&["ca", "issue", "--name", name, "--ca-dir"]);
        command.arg(&ca).arg("--out").arg(&out).output().unwrap()
    };
    assert_eq!(issue("not a name").status.code(), Some(64));
    let issued = issue("192.0.2.7");
    assert!(issued.status.success(), "{}", text(&issued.stderr));
    for file in ["ca.pem", "server.pem", "server.key"] {
        assert_eq!(mode(&out.join(file)), 0o600, "{file}");
    }
    assert!(!out.join("ca.key").exists());
}

/// Status and body of a plain GET with more header lines.
fn get(url: &str, path: &str, headers: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let version = "X-OpenStack-Ironic-API-Version: latest";
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\n{version}\r\nConnection: close\r\n{headers}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[test]
fn ramdisks_have_a_door_of_their_own_or_none() {
    let plain = ["--http", "--auth", "none"];
    let server = Server::start("[ramdisk]\nlisten = \"127.0.0.1:0\"\n", &plain);
    let line = "wrought: ramdisk endpoints on ";
    let lines = &server.greeting;
    let ramdisk = lines
        .iter()
        .find_map(|said| said.strip_prefix(line))
        .unwrap();
    for (url, path, status) in [
        (server.url.as_str(), "/v1/nodes", 200),
        (server.url.as_str(), "/v1/lookup", 403),
        (ramdisk, "/v1/lookup", 400),
        (ramdisk, "/v1", 200),
        (ramdisk, "/v1/nodes", 404),
    ] {
        assert_eq!(get(url, path, "").0, status, "{url}{path}");
    }
    let server = Server::start("[ramdisk]\nenabled = false\n", &plain);
    assert_eq!(get(&server.url, "/v1/lookup", "").0, 403);
}

#[test]
fn links_follow_a_trusted_proxy_and_nobody_else() {
    let said = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: api.test\r\n\
                X-Forwarded-Prefix: /baremetal\r\n";
    let plain = ["--http", "--auth", "none"];
    for (config, base) in [
        (
            "trusted_proxies = [\"127.0.0.0/8\"]\n",
            "https://api.test/baremetal/v1/",
        ),
        (
            "trusted_proxies = [\"192.0.2.0/24\"]\n",
            "http://127.0.0.1:",
        ),
        (
            "trusted_proxies = [\"127.0.0.1\"]\npublic_endpoint = \"https://public.test\"\n",
            "https://public.test/v1/",
        ),
    ] {
        let server = Server::start(config, &plain);
        let (status, answer) = get(&server.url, "/", said);
        assert_eq!(status, 200);
        assert!(answer.contains(&format!("\"href\":\"{base}")), "{answer}");
    }
}

#[test]
fn api_and_conductor_apart_need_a_shared_database_and_one_ca() {
    let dir = tempfile::tempdir().unwrap();
    let run = |command: &str, database: &str| {
        let ran = wrought(&[command, "--database", database])
            .arg("--state-dir")
            .arg(dir.path())
            .output()
            .unwrap();
        (ran.status.code(), text(&ran.stderr))
    };
    for command in ["api", "conductor"] {
        let (code, said) = run(command, "sqlite:w.db");
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains("an SQLite database serves one"), "{said}");
        // Before anything is made that would not fit the others.
        let listen = match command {
            "api" => "--listen",
            _ => "--rpc-listen",
        };
        let ran = wrought(&[command, "--database", "postgres://u@127.0.0.1:1/d"])
            .args([listen, "127.0.0.1:0"])
            .arg("--state-dir")
            .arg(dir.path())
            .output()
            .unwrap();
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(69), "{said}");
        assert!(said.contains("wrought ca init"), "{said}");
        assert!(!dir.path().join("ca/ca.key").exists());
    }
}
