//! Fetching what is inserted into the virtual CD drive.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use tokio::io::AsyncWriteExt;

/// Largest medium; our ISO is a tenth of it.
const LIMIT: u64 = 512 << 20;

/// Fetches `url` into `file`, as a BMC with a disk of its own would.
pub async fn fetch(url: &str, file: &Path) -> Result<u64> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(120))
        .build()?;
    let mut response = client.get(url).send().await?.error_for_status()?;
    let mut out = tokio::fs::File::create(file)
        .await
        .with_context(|| format!("creating {}", file.display()))?;
    let mut length = 0;
    while let Some(chunk) = response.chunk().await.context("the medium broke off")? {
        length += chunk.len() as u64;
        if length > LIMIT {
            bail!("the medium is larger than {LIMIT} bytes");
        }
        out.write_all(&chunk).await?;
    }
    out.flush().await?;
    Ok(length)
}
