//! HTTP proxies.

use std::io::BufReader;
use std::io::Write;
use std::io::copy;
use std::net::TcpListener;
use std::net::TcpStream;
use std::thread;

use crate::fetch;
use crate::https;
use crate::scripted;
use crate::scripted::Reply;
use crate::scripted::Scripted;
use crate::support::MIB;
use crate::support::disk;

#[test]
fn http_goes_through_the_proxy() {
    let image = disk(4 * MIB, 1);
    let bytes = image.clone();
    let proxy = Scripted::start(move |asked| {
        // A name that only a proxy could know.
        assert_eq!(asked.target, "http://images.invalid/x");
        match asked.header("proxy-authorization") {
            Some("Basic bWU6c2VjcmV0") if asked.number == 0 => Reply::body(&bytes).cut(MIB),
            Some("Basic bWU6c2VjcmV0") => Reply::ranged(asked, &bytes),
            _ => Reply::new(407),
        }
    });
    let source = "http://images.invalid/x";
    fetch(&[source], &image, |request| {
        request.http.http_proxy = Some(format!("http://me:secret@{}", proxy.host));
    })
    .unwrap();
    let error = fetch(&[source], &image, |request| {
        request.http.http_proxy = Some(proxy.base.clone());
    });
    assert!(error.unwrap_err().to_string().contains("407"));
}

#[test]
fn some_hosts_are_reached_without_it() {
    let image = disk(2 * MIB, 2);
    let bytes = image.clone();
    let server = Scripted::start(move |asked| Reply::ranged(asked, &bytes));
    let proxy = Scripted::start(|_| Reply::new(500));
    for no_proxy in ["127.0.0.1", "example.com, 127.0.0.0/8", "*"] {
        fetch(&[&server.url("/x")], &image, |request| {
            request.http.http_proxy = Some(proxy.base.clone());
            request.http.no_proxy = Some(no_proxy.to_owned());
        })
        .unwrap();
    }
    assert_eq!(proxy.asked().len(), 0);
    fetch(&[&server.url("/x")], &image, |request| {
        request.http.http_proxy = Some(proxy.base.clone());
        request.http.no_proxy = Some("example.com".to_owned());
    })
    .unwrap_err();
    assert!(!proxy.asked().is_empty());
}

/// A proxy that connects everything to one address; its own address.
fn connecting(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let (target, _) = scripted::head(&mut reader).unwrap();
            assert_eq!(target, "image-server:443");
            let mut server = TcpStream::connect(&to).unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let mut back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || copy(&mut back.0, &mut back.1));
            thread::spawn(move || copy(&mut reader, &mut server));
        }
    });
    format!("http://{address}")
}

#[test]
fn https_goes_through_a_tunnel() {
    let image = disk(3 * MIB, 3);
    let bytes = image.clone();
    let server = https::Secure::start(move |asked| Reply::ranged(asked, &bytes));
    let proxy = connecting(server.host.clone());
    fetch(&["https://image-server/x"], &image, |request| {
        request.http.extra_ca_pem = vec![server.ca.clone()];
        request.http.https_proxy = Some(proxy);
        // Not for https.
        request.http.http_proxy = Some("http://127.0.0.1:9".to_owned());
    })
    .unwrap();
}
