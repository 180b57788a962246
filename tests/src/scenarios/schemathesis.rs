//! Requests that somebody else's program makes of the OpenAPI document, sane
//! ones and others, and what the document says of the answers.

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use reqwest::Method;
use serde_json::json;

use super::Context;
use crate::bench::serving::Wrought;
use crate::child;
use crate::paths::Paths;
use crate::paths::existing;

/// Requests that must have been made for it to mean something.
const LEAST: u64 = 10_000;
/// Requests made of each operation by chance, beside those that go to the
/// bounds of every value.
const EXAMPLES: u32 = 60;
/// What is looked at in the answers. No answer is 500 and above but the 503
/// that the document has, which would be a status that it does not have.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance";
/// How much of its words is shown when it finds something.
const SHOWN: usize = 60;

/// No answer is worse than it may be, and none breaks its closed schema.
pub(super) async fn requests(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let work = tempfile::Builder::new()
        .prefix("schemathesis-")
        .tempdir_in(&paths.runs)?;
    let program = paths
        .root
        .join("target/tools/schemathesis/bin/schemathesis");
    let program = existing(program, "cargo xtask setup --all")?;
    let mut server = Wrought::new(&paths.binary("wrought")?, work.path(), false)?;
    server.start().await?;
    let api = server.api()?;
    // Something to be shown.
    for number in 0..3 {
        let name = format!("node-{number}");
        let body = json!({"driver": "fake-hardware", "name": name});
        let node = api.call(Method::POST, "/v1/nodes", Some(&body)).await?;
        let address = format!("52:54:00:00:00:0{number}");
        let body = json!({"node_uuid": node["uuid"], "address": address});
        api.call(Method::POST, "/v1/ports", Some(&body)).await?;
    }
    let output = child::command(program)
        .arg("run")
        .arg(format!("http://{}/openapi.json", server.address))
        .args(["--header", "X-OpenStack-Ironic-API-Version: latest"])
        .args(["--checks", CHECKS, "--phases", "coverage,fuzzing"])
        .args(["--max-examples", &EXAMPLES.to_string(), "--seed", "1"])
        .args(["--warnings", "off", "--no-color"])
        // It keeps what it found where it is.
        .current_dir(work.path())
        .output()
        .await
        .context("starting schemathesis")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    ensure!(output.status.success(), "it found something:\n{end}");
    let made = generated(&said).with_context(|| format!("how many requests? {end}"))?;
    ensure!(made >= LEAST, "{made} requests only");
    context
        .account
        .say(&format!("{made} requests, nothing found"));
    server.stop().await;
    Ok(())
}

/// The number in `6746 generated, 6746 passed`.
fn generated(said: &str) -> Option<u64> {
    let (before, _) = said.split_once(" generated")?;
    before.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::generated;

    #[test]
    fn the_number_of_requests_is_read() {
        let said = "Test cases:\n  6746 generated, 6746 passed\n\nSeed: 1\n";
        assert_eq!(generated(said), Some(6746));
        assert_eq!(generated("nothing"), None);
    }
}
