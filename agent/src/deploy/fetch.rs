//! A config drive from a URL: servers are trusted as image servers are.

use std::time::Duration;

use tokio::runtime::Handle;
use wrought_image::HttpOptions;

use crate::api;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::deploy::configdrive::Image;
use crate::deploy::configdrive::SIZE;
use crate::deploy::request;

/// The whole transfer must be over by then.
const TIMEOUT: Duration = Duration::from_secs(300);
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(5);
/// Base64 makes a third more of the largest image, and there are line ends.
const LIMIT: u64 = SIZE / 2 * 3;

/// Fetches the image with a bound on its size. Call it from a blocking
/// thread of the runtime.
pub(super) fn config_drive(context: &Context, url: &str) -> Result<Image, CommandFailure> {
    let mut http = HttpOptions::default();
    request::trust_image_servers(&context.agent.params, &mut http);
    let tls = wrought_image::tls_config(&http)
        .map_err(|error| failed(url, &CommandFailure::chain(&error)))?;
    let client = api::builder(tls)
        .timeout(TIMEOUT)
        .build()
        .map_err(|error| failed(url, &CommandFailure::chain(&error.without_url())))?;
    Handle::current().block_on(async {
        let mut attempt = 1;
        loop {
            match get(&client, url).await {
                Ok(bytes) => return Ok(Image::new(bytes)),
                Err(problem) if attempt == ATTEMPTS || !problem.retry => {
                    return Err(failed(url, &problem.text));
                }
                Err(problem) => {
                    tracing::warn!(
                        attempt,
                        problem = problem.text,
                        "the config drive is fetched again"
                    );
                    attempt += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}

struct Problem {
    text: String,
    retry: bool,
}

async fn get(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, Problem> {
    let network = |error: reqwest::Error| Problem {
        text: CommandFailure::chain(&error.without_url()),
        retry: true,
    };
    let mut answer = client.get(url).send().await.map_err(network)?;
    let status = answer.status();
    if status != reqwest::StatusCode::OK {
        let text = format!("status {status}, expected 200");
        return Err(Problem {
            text,
            retry: status.is_server_error(),
        });
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(network)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > LIMIT {
            let text = format!("more than {LIMIT} bytes; a config drive has {SIZE} at most");
            return Err(Problem { text, retry: false });
        }
    }
    Ok(bytes)
}

/// The URL without its query, which may hold a signature.
fn failed(url: &str, problem: &str) -> CommandFailure {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let shown = match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => shown.to_owned(),
    };
    CommandFailure::new(
        "ConfigDriveError",
        500,
        "Error fetching the config drive",
        format!("config drive from {shown}: {problem}"),
    )
}
