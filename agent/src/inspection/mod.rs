//! Inspection: what this machine is goes to the API once, before the lookup,
//! when the kernel command line asks for it.

mod buses;
mod collect;
mod dmi;
mod numa;

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde_json::Value;
use tracing::info;
use tracing::warn;
use wrought_wire::lookup::LookupAnswer;

use crate::api::ApiError;
use crate::api::Client;
use crate::command::CommandFailure;
use crate::disk::Enumerator;
use crate::logging::Ring;
use crate::params::Params;

pub use collect::Collector;

/// The API's own place for what a ramdisk found.
const PATH: &str = "/v1/continue_inspection";
/// Pauses after failed attempts.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
];

/// Where the parameters send it; none when no inspection is asked for.
fn target(params: &Params) -> Option<Result<(Params, String), String>> {
    let url = match params.get("ipa-inspection-callback-url") {
        Some(url) if !url.is_empty() => url,
        _ => {
            let asked = params.get("ipa-inspection-collectors").is_some();
            return asked.then(|| Ok((params.clone(), PATH.to_owned())));
        }
    };
    let parsed = match Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => parsed,
        _ => {
            return Some(Err(format!(
                "ipa-inspection-callback-url: expected an http or https URL, found {url:?}"
            )));
        }
    };
    let origin = parsed.origin().ascii_serialization();
    let mut path = parsed.path().to_owned();
    if let Some(query) = parsed.query() {
        path = format!("{path}?{query}");
    }
    let mut params = params.clone();
    params.api_urls = vec![origin];
    Some(Ok((params, path)))
}

/// Collects and sends, when asked to. Gives what the API answered where that is
/// as good as a lookup. Nothing here keeps the agent from going on.
pub async fn run(
    params: &Params,
    only_disk: &[std::path::PathBuf],
    ring: &Arc<Ring>,
) -> Option<LookupAnswer> {
    let (to, path) = match target(params)? {
        Ok(target) => target,
        Err(problem) => {
            warn!("inspection: {problem}");
            return None;
        }
    };
    let client = Client::new(&to)
        .inspect_err(|error| warn!("inspection: {}", CommandFailure::chain(error)))
        .ok()?;
    let (collectors, problems) = Collector::list(params.get("ipa-inspection-collectors"));
    problems
        .iter()
        .for_each(|problem| warn!("inspection: {problem}"));
    let (own, disks, ring) = (params.clone(), only_disk.to_vec(), Arc::clone(ring));
    let collected = tokio::task::spawn_blocking(move || {
        let disks = Enumerator::new(&disks).disks();
        collect::all(&own, &disks, &collectors, problems, &ring)
    });
    let body = collected
        .await
        .inspect_err(|error| warn!("inspection: the collectors ended: {error}"))
        .ok()?;
    send(&client, &path, &body).await
}

async fn send(client: &Client, path: &str, body: &Value) -> Option<LookupAnswer> {
    let mut pauses = PAUSES.iter();
    loop {
        let error = match client.continue_inspection(path, body).await {
            Ok(answer) => {
                info!("inspection: the API at {} has it", client.base_url());
                return answer;
            }
            Err(error) => error,
        };
        let pause = if is_passing(&error) {
            pauses.next()
        } else {
            None
        };
        let text = CommandFailure::chain(&error);
        let Some(pause) = pause else {
            warn!("inspection: {text}; going on without it");
            return None;
        };
        warn!("inspection: {text}; again in {} s", pause.as_secs());
        tokio::time::sleep(*pause).await;
    }
}

/// Whether a later attempt may well succeed.
fn is_passing(error: &ApiError) -> bool {
    match error.status() {
        Some(status) => status == 409 || status >= 500,
        None => matches!(error, ApiError::Connect { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::target;
    use crate::params::Params;
    use crate::params::Words;

    fn params(line: &str) -> Params {
        Params::from_words(Words::from_cmdline(line)).unwrap()
    }

    #[test]
    fn goes_where_the_parameters_say() {
        assert!(target(&params("ipa-api-url=https://a:6385")).is_none());
        let given = params(
            "ipa-api-url=https://a:6385 ipa-inspection-callback-url=https://b:1/v1/x?node_uuid=2",
        );
        let (to, path) = target(&given).unwrap().unwrap();
        assert_eq!(
            (to.api_urls, path.as_str()),
            (vec!["https://b:1".to_owned()], "/v1/x?node_uuid=2")
        );
        let own = params("ipa-api-url=https://a:6385 ipa-inspection-collectors=default");
        let (to, path) = target(&own).unwrap().unwrap();
        assert_eq!(
            (to.api_urls, path.as_str()),
            (vec!["https://a:6385".to_owned()], super::PATH)
        );
        let odd = params("ipa-inspection-callback-url=mdns");
        assert!(target(&odd).unwrap().unwrap_err().contains("mdns"));
    }
}
