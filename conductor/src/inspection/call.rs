//! `api-call`: an HTTP GET that a rule asked for and the configuration allows.

use std::time::Duration;

use reqwest::header::HeaderName;
use reqwest::header::HeaderValue;

use super::rules::Call;
use crate::error::Source;

/// Sends the request, again after failures. The answer's body is not read.
pub(super) async fn get(call: Call) -> Result<(), Source> {
    let client = reqwest::Client::builder()
        // An allowed address may not lead to one that is not.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(Duration::try_from_secs_f64(call.timeout)?)
        .build()?;
    let mut request = client.get(&call.url);
    for (name, value) in &call.headers {
        let (name, value) = (HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        request = request.header(name, value);
    }
    let mut pause = Duration::try_from_secs_f64(call.backoff)?;
    let mut left = call.retries;
    loop {
        let again = request
            .try_clone()
            .ok_or("the request cannot be sent twice")?;
        let failed: Source = match again.send().await {
            Ok(answer) if !answer.status().is_server_error() => {
                answer.error_for_status()?;
                return Ok(());
            }
            Ok(answer) => format!("the answer was {}", answer.status()).into(),
            Err(error) => error.without_url().into(),
        };
        if left == 0 {
            return Err(failed);
        }
        left -= 1;
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}
