//! `cargo xtask tidy`: keeps the house in order.
//!
//! Refuses: a dependency between our crates that the design does not allow, a
//! panic outside tests, text that `rustfmt` would change. Reports, without
//! refusing: long files and files that do not say what they are for.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;

use crate::command::EX_USAGE;
use crate::command::Exit;
use crate::command::root;

/// Which of our crates each crate may use (ARCHITECTURE.md, "Code map").
const ARROWS: &[(&str, &[&str])] = &[
    ("wrought-wire", &[]),
    ("wrought-formats", &[]),
    ("wrought-plugin", &[]),
    ("wrought-image", &["wrought-formats"]),
    (
        "wrought-agent",
        &[
            "wrought-wire",
            "wrought-image",
            "wrought-formats",
            "wrought-plugin",
        ],
    ),
    ("wrought-store", &["wrought-wire"]),
    ("wrought-bmc", &["wrought-wire"]),
    ("wrought-rpc", &["wrought-wire", "wrought-store"]),
    (
        "wrought-conductor",
        &[
            "wrought-wire",
            "wrought-store",
            "wrought-rpc",
            "wrought-bmc",
            "wrought-formats",
            "wrought-plugin",
        ],
    ),
    (
        "wrought-api",
        &["wrought-wire", "wrought-store", "wrought-rpc"],
    ),
    (
        "wrought",
        &[
            "wrought-wire",
            "wrought-store",
            "wrought-rpc",
            "wrought-bmc",
            "wrought-conductor",
            "wrought-api",
        ],
    ),
    ("wrought-ramdisk", &["wrought-formats"]),
    ("wrought-image-build", &["wrought-formats"]),
    // These two run the programs of the others, as a user does.
    ("xtask", &[]),
    ("wrought-tests", &[]),
];

/// Text that panics, where a reader of the log could not do anything about it.
const PANICS: &[&str] = &[
    ".unwrap()",
    "panic!(",
    "todo!(",
    "unimplemented!(",
    "unreachable!()",
];

/// Lines past which a file is asked for its second idea.
const LONG: usize = 500;

/// Runs all checks; an error when one refuses.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if let Some(unexpected) = args.first() {
        let text = format!("tidy takes no arguments, found {unexpected}");
        return Err(Exit::new(EX_USAGE, text).into());
    }
    let root = &root();
    let mut refused = arrows(root)?;
    let mut remarks = Vec::new();
    for file in sources(root)? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let shown = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        if !text.starts_with("//!") {
            remarks.push(format!("{shown}: does not open with `//!`"));
        }
        let lines = text.lines().count();
        if lines > LONG {
            remarks.push(format!("{shown}: {lines} lines; what is its second idea?"));
        }
        refused.extend(panics(&shown, &text));
    }
    // The fuzz targets are a workspace of their own.
    let folders = [
        (root.clone(), &["--all"][..]),
        (root.join("fuzz"), &["--package", "wrought-fuzz"][..]),
    ];
    for (folder, scope) in folders {
        let formatted = Command::new("cargo")
            .args(["fmt", "--check", "--quiet"])
            .args(scope)
            .current_dir(&folder)
            .status()?
            .success();
        if !formatted {
            let shown = folder.display();
            refused.push(format!(
                "some files in {shown} are not formatted: run `cargo fmt --all` there"
            ));
        }
    }
    for remark in &remarks {
        println!("tidy: note: {remark}");
    }
    for refusal in &refused {
        println!("tidy: REFUSED: {refusal}");
    }
    println!("tidy: {} refused, {} noted", refused.len(), remarks.len());
    if !refused.is_empty() {
        bail!("{} refused; see above", refused.len());
    }
    Ok(())
}

/// Dependencies between our crates that the table does not have.
fn arrows(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut refused = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(krate, _)| *krate == name) else {
            refused.push(format!("crate {name} is not in the table of arrows"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            if names.contains(&on) && !allowed.contains(&on) {
                refused.push(format!("{name} must not use {on}"));
            }
        }
    }
    Ok(refused)
}

/// Panics outside of tests: all text before the first `#[cfg(test)]`, in files
/// that are not tests as a whole.
fn panics(file: &str, text: &str) -> Vec<String> {
    let is_test = file.starts_with("tests/")
        || file.contains("/tests/")
        || file.ends_with("tests.rs")
        || file.ends_with("/testing.rs")
        || file == "xtask/src/tidy.rs";
    if is_test {
        return Vec::new();
    }
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.trim_start().starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter_map(|(number, line)| {
            let found = PANICS.iter().find(|panic| line.contains(**panic))?;
            Some(format!("{file}:{}: `{found}` outside tests", number + 1))
        })
        .collect()
}

/// Every Rust file of ours.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.rs",
        ])
        .current_dir(root)
        .output()
        .context("running git ls-files")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listed
        .lines()
        .map(|line| root.join(line))
        .filter(|path| path.exists())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::panics;

    #[test]
    fn finds_panics_outside_tests_only() {
        let text =
            "fn a() { b.unwrap(); }\n// c.unwrap()\n#[cfg(test)]\nmod tests { d.unwrap() }\n";
        let found = panics("agent/src/x.rs", text);
        assert_eq!(found, ["agent/src/x.rs:1: `.unwrap()` outside tests"]);
        assert!(panics("tests/src/x.rs", text).is_empty());
    }
}
