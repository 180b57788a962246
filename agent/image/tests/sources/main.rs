//! Sources: servers, proxies, mirrors and registries, each in this process.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[path = "../support/mod.rs"]
mod support;

mod credentials;
mod https;
mod mirrors;
mod proxy;
mod registry;
mod scripted;
mod transfer;

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::request;
use wrought_image::Error;
use wrought_image::WriteReport;
use wrought_image::WriteRequest;
use wrought_image::write;

/// Writes to a new file and compares it with `image`.
fn fetch(
    sources: &[&str],
    image: &[u8],
    edit: impl FnOnce(&mut WriteRequest),
) -> Result<WriteReport, Error> {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("disk");
    let report = write(&ask(sources, image, &target, edit))?;
    assert!(
        fs::read(&target).unwrap() == image,
        "the target holds other bytes than the image"
    );
    Ok(report)
}

fn ask(
    sources: &[&str],
    image: &[u8],
    target: &Path,
    edit: impl FnOnce(&mut WriteRequest),
) -> WriteRequest {
    let mut request = request("", target, image);
    // No server here stalls, however busy this machine is.
    request.retry.stall = Duration::from_secs(60);
    request.sources = sources.iter().map(|&source| source.to_owned()).collect();
    edit(&mut request);
    request
}
