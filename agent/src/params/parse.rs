//! From words to typed parameters.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;
use wrought_wire::secret::Secret;

use super::Params;
use super::Trust;
use super::Words;

/// A parameter whose value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parameter {key}={value}: expected {expected}")]
pub struct ParamError {
    /// The key as it was given.
    pub key: &'static str,
    /// The value as it was given.
    pub value: String,
    /// What would be right.
    pub expected: &'static str,
}

impl Params {
    /// Checks all words. The token is moved out of them.
    pub fn from_words(mut words: Words) -> Result<Self, ParamError> {
        let defaults = Self::default();
        let agent_token = words
            .remove("ipa-agent-token")
            .filter(|token| !token.is_empty());
        let seconds = "a number of seconds";
        let port = "a port from 1 to 65535";
        let address = "an IP address";
        let nonzero = |port: &u16| *port != 0;
        Ok(Self {
            api_urls: api_urls(&words)?,
            trust: trust(&words)?,
            image_ca: None,
            image_ca_sha256: fingerprint(&words, "wrought-image-ca-sha256")?,
            agent_token: agent_token.map(Secret::new),
            bootif: value(&words, "BOOTIF", "01-aa-bb-cc-dd-ee-ff")?,
            network_interface: words.get("ipa-network-interface").map(str::to_owned),
            vmedia: words.get("boot_method") == Some("vmedia"),
            network_data: None,
            heartbeat_interval: duration(&words, "ipa-heartbeat-interval", seconds)?
                .filter(|interval| !interval.is_zero()),
            lookup_timeout: duration(&words, "ipa-lookup-timeout", seconds)?
                .unwrap_or(defaults.lookup_timeout),
            lookup_interval: duration(&words, "ipa-lookup-interval", seconds)?
                .unwrap_or(defaults.lookup_interval),
            listen_host: value::<IpAddr>(&words, "ipa-listen-host", address)?
                .unwrap_or(defaults.listen_host),
            listen_port: value(&words, "ipa-listen-port", port)?.unwrap_or(defaults.listen_port),
            advertise_host: value(&words, "ipa-advertise-host", address)?,
            advertise_port: value(&words, "ipa-advertise-port", port)?.filter(nonzero),
            disk_wait_attempts: value(&words, "ipa-disk-wait-attempts", "a number")?
                .unwrap_or(defaults.disk_wait_attempts),
            disk_wait_delay: duration(&words, "ipa-disk-wait-delay", seconds)?
                .unwrap_or(defaults.disk_wait_delay),
            download_timeout: duration(&words, "ipa-image-download-connection-timeout", seconds)?
                .unwrap_or(defaults.download_timeout),
            download_retries: value(&words, "ipa-image-download-connection-retries", "a number")?
                .unwrap_or(defaults.download_retries),
            download_retry_interval: duration(
                &words,
                "ipa-image-download-connection-retry-interval",
                seconds,
            )?
            .unwrap_or(defaults.download_retry_interval),
            memory_mib: memory(&words)?,
            verify_after_write: flag(&words, "wrought-verify-after-write")?.unwrap_or(false),
            debug: flag(&words, "ipa-debug")?.unwrap_or(false),
            words,
        })
    }
}

/// Parses one value; absent and empty are both "not given".
fn value<T: FromStr>(
    words: &Words,
    key: &'static str,
    expected: &'static str,
) -> Result<Option<T>, ParamError> {
    let Some(text) = words
        .get(key)
        .map(str::trim)
        .filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    let error = |_| ParamError {
        key,
        value: text.to_owned(),
        expected,
    };
    text.parse().map(Some).map_err(error)
}

fn duration(
    words: &Words,
    key: &'static str,
    expected: &'static str,
) -> Result<Option<Duration>, ParamError> {
    let Some(seconds) = value::<f64>(words, key, expected)? else {
        return Ok(None);
    };
    let error = |_| ParamError {
        key,
        value: seconds.to_string(),
        expected,
    };
    Duration::try_from_secs_f64(seconds)
        .map(Some)
        .map_err(error)
}

pub(super) fn flag(words: &Words, key: &'static str) -> Result<Option<bool>, ParamError> {
    let Some(text) = words.get(key) else {
        return Ok(None);
    };
    match text.to_ascii_lowercase().as_str() {
        "" | "1" | "true" | "yes" | "on" => Ok(Some(true)),
        "0" | "false" | "no" | "off" => Ok(Some(false)),
        _ => Err(ParamError {
            key,
            value: text.to_owned(),
            expected: "0 or 1",
        }),
    }
}

fn api_urls(words: &Words) -> Result<Vec<String>, ParamError> {
    let key = "ipa-api-url";
    let list = words.get(key).unwrap_or_default();
    let mut urls = Vec::new();
    for text in list
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        let error = |expected| ParamError {
            key,
            value: text.to_owned(),
            expected,
        };
        if text == "mdns" {
            return Err(error("URLs; finding the API by mDNS is not built yet"));
        }
        let url = Url::parse(text).map_err(|_| error("a list of http:// or https:// URLs"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(error("a list of http:// or https:// URLs"));
        }
        let trimmed = text.trim_end_matches('/');
        urls.push(trimmed.strip_suffix("/v1").unwrap_or(trimmed).to_owned());
    }
    Ok(urls)
}

fn trust(words: &Words) -> Result<Trust, ParamError> {
    if flag(words, "ipa-insecure")? == Some(true) {
        return Ok(Trust::Insecure);
    }
    let digest = fingerprint(words, "wrought-ca-sha256")?;
    Ok(digest.map_or(Trust::Nothing, Trust::Fingerprint))
}

fn fingerprint(words: &Words, key: &'static str) -> Result<Option<[u8; 32]>, ParamError> {
    let Some(text) = words.get(key).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let expected = "64 hex digits, the SHA-256 of the CA certificate's DER";
    let error = || ParamError {
        key,
        value: text.to_owned(),
        expected,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let mut digest = [0; 32];
    if digits.len() != 64 {
        return Err(error());
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(error);
        let (high, low) = (digit(pair[0])?, digit(pair[1])?);
        *byte = u8::try_from(high << 4 | low).map_err(|_| error())?;
    }
    Ok(Some(digest))
}

fn memory(words: &Words) -> Result<Option<u64>, ParamError> {
    let key = "wrought-memory";
    let expected = "a number of MiB from 8 to 1048576";
    let mib = value::<u64>(words, key, expected)?;
    match mib {
        Some(mib) if !(8..=1_048_576).contains(&mib) => Err(ParamError {
            key,
            value: mib.to_string(),
            expected,
        }),
        _ => Ok(mib),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Params;
    use super::Trust;
    use super::Words;

    fn parse(line: &str) -> Result<Params, String> {
        Params::from_words(Words::from_cmdline(line)).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_a_ramdisk_command_line() {
        let digest = "AB".repeat(32);
        let line = format!(
            "console=tty0 console=ttyS0,115200 ipa-api-url=https://192.0.2.1:6385/,https://[2001:db8::1]:6385/v1 \
             wrought-ca-sha256={digest} BOOTIF=01-52-54-00-12-34-56 ipa-heartbeat-interval=2.5 \
             ipa-listen-port=9998 wrought-memory=64 ipa-agent-token=hunter2"
        );
        let params = parse(&line).unwrap();
        assert_eq!(
            params.api_urls,
            ["https://192.0.2.1:6385", "https://[2001:db8::1]:6385"]
        );
        assert_eq!(params.trust, Trust::Fingerprint([0xab; 32]));
        assert_eq!(params.bootif.unwrap().to_string(), "52:54:00:12:34:56");
        assert_eq!(params.heartbeat_interval, Some(Duration::from_millis(2500)));
        assert_eq!(params.listen_port, 9998);
        assert_eq!(params.memory_budget(1 << 40), 64 << 20);
        assert_eq!(params.agent_token.as_ref().unwrap().expose(), "hunter2");
        assert_eq!(params.get("ipa-agent-token"), None);
        assert!(!format!("{params:?}").contains("hunter2"));
        assert!(!params.vmedia && !params.debug);
    }

    #[test]
    fn budget_follows_the_ram() {
        let params = parse("").unwrap();
        assert_eq!(params.memory_budget(128 << 20), 48 << 20);
        assert_eq!(params.memory_budget(1 << 30), 256 << 20);
        assert_eq!(params.memory_budget(1 << 40), 512 << 20);
    }

    #[test]
    fn bad_values_say_key_value_and_expectation() {
        for (line, message) in [
            (
                "ipa-listen-port=x",
                "parameter ipa-listen-port=x: expected a port from 1 to 65535",
            ),
            (
                "ipa-api-url=mdns",
                "parameter ipa-api-url=mdns: expected URLs; finding the API by mDNS is not built yet",
            ),
            (
                "ipa-api-url=ftp://x",
                "parameter ipa-api-url=ftp://x: expected a list of http:// or https:// URLs",
            ),
            (
                "ipa-insecure=maybe",
                "parameter ipa-insecure=maybe: expected 0 or 1",
            ),
            (
                "ipa-lookup-timeout=-1",
                "parameter ipa-lookup-timeout=-1: expected a number of seconds",
            ),
            (
                "wrought-memory=1",
                "parameter wrought-memory=1: expected a number of MiB from 8 to 1048576",
            ),
            (
                "wrought-ca-sha256=12",
                "parameter wrought-ca-sha256=12: expected 64 hex digits, the SHA-256 of the CA certificate's DER",
            ),
            (
                "BOOTIF=eth0",
                "parameter BOOTIF=eth0: expected 01-aa-bb-cc-dd-ee-ff",
            ),
        ] {
            assert_eq!(parse(line).unwrap_err(), message);
        }
    }

    #[test]
    fn insecure_wins_over_a_fingerprint() {
        let digest = "00".repeat(32);
        let params = parse(&format!("wrought-ca-sha256={digest} ipa-insecure=1")).unwrap();
        assert_eq!(params.trust, Trust::Insecure);
    }
}
