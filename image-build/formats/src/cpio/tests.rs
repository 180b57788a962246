//! The writer against GNU cpio, bsdtar or busybox where one is installed, and
//! against a small reader of its own.

use std::io::Write;
use std::process::Command;
use std::process::Stdio;

use super::Archive;
use super::CpioError;

type Step = Box<dyn Fn(&mut Archive)>;

fn sample(reverse: bool) -> Vec<u8> {
    let mut archive = Archive::new();
    let mut steps: Vec<Step> = vec![
        Box::new(|a| a.file("init", 0o755, b"agent".to_vec()).unwrap()),
        Box::new(|a| a.link("bin/wrought-agent", "init").unwrap()),
        Box::new(|a| a.char_device("dev/console", 0o600, 5, 1).unwrap()),
        Box::new(|a| a.symlink("lib64", "lib").unwrap()),
        Box::new(|a| a.directory("tmp", 0o1777).unwrap()),
        Box::new(|a| {
            a.file("etc/hostname", 0o644, b"wrought\n".to_vec())
                .unwrap()
        }),
    ];
    if reverse {
        steps.reverse();
    }
    for step in steps {
        step(&mut archive);
    }
    let mut out = Vec::new();
    archive.write_to(&mut out).unwrap();
    out
}

/// (path, mode, inode, links, content) of every member.
fn parse(mut rest: &[u8]) -> Vec<(String, u32, u32, u32, Vec<u8>)> {
    let mut members = Vec::new();
    loop {
        assert_eq!(&rest[..6], b"070701");
        let field = |i: usize| {
            let text = std::str::from_utf8(&rest[6 + 8 * i..14 + 8 * i]).unwrap();
            u32::from_str_radix(text, 16).unwrap()
        };
        let name_end = 110 + field(11) as usize;
        let name = String::from_utf8(rest[110..name_end - 1].to_vec()).unwrap();
        let start = name_end.next_multiple_of(4);
        let end = start + field(6) as usize;
        if name == "TRAILER!!!" {
            return members;
        }
        members.push((
            name,
            field(1),
            field(0),
            field(4),
            rest[start..end].to_vec(),
        ));
        rest = &rest[end.next_multiple_of(4)..];
    }
}

#[test]
fn order_of_adding_does_not_matter() {
    assert_eq!(sample(false), sample(true));
    assert_eq!(sample(false).len() % 4, 0);
}

#[test]
fn members_are_complete() {
    let members = parse(&sample(false));
    let names: Vec<_> = members.iter().map(|m| m.0.as_str()).collect();
    let expected = [
        "bin",
        "dev",
        "dev/console",
        "etc",
        "etc/hostname",
        "bin/wrought-agent",
        "init",
        "lib64",
        "tmp",
    ];
    assert_eq!(names, expected);
    let link = &members[5];
    let init = &members[6];
    assert_eq!((link.2, link.3), (init.2, 2), "one inode, two links");
    assert!(link.4.is_empty());
    assert_eq!(init.4, b"agent");
    assert_eq!(init.1, 0o100_755);
    assert_eq!(members[2].1, 0o020_600);
    assert_eq!(members[8].1, 0o041_777);
}

#[test]
fn bad_paths_are_refused() {
    let mut archive = Archive::new();
    for path in ["", "/abs", "a//b", "../up", "a/./b", "a/"] {
        assert!(
            matches!(archive.file(path, 0o644, vec![]), Err(CpioError::Path(_))),
            "{path}"
        );
    }
    archive.file("a", 0o644, vec![]).unwrap();
    assert!(matches!(
        archive.file("a", 0o644, vec![]),
        Err(CpioError::Duplicate(_))
    ));
    archive.link("b", "missing").unwrap();
    assert!(matches!(
        archive.write_to(&mut Vec::new()),
        Err(CpioError::Path(_))
    ));
}

#[test]
fn cpio_lists_the_same() {
    let child = Command::new("cpio")
        .args(["-it", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("cpio is not installed, not compared");
        return;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&sample(false))
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("bin/wrought-agent\ninit\n"), "{listed}");
}
