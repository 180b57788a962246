//! The agent's parameters: typed, checked once, from the kernel command line,
//! virtual media and the command line.
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `ipa-api-url` | API addresses, comma list | – |
//! | `wrought-ca-sha256` | hex SHA-256 of the API CA's DER | – |
//! | `ipa-cafile` | PEM file with the API's CA | – |
//! | `ipa-insecure` | check no certificate of API and image servers | 0 |
//! | `ipa-image-cafile` | PEM file with CAs of image servers, beside the API's | – |
//! | `wrought-image-ca-sha256` | hex SHA-256 of the DER of an image server's CA, which the server sends | – |
//! | `ipa-agent-token` | token that was made before the boot | – |
//! | `BOOTIF` | the NIC that the firmware booted from | – |
//! | `boot_method` | `vmedia`: read `PARAMS.TXT`, `CA.PEM`, `IMAGECA.PEM` and `NETDATA.JSN` from the ISO | – |
//! | `ipa-heartbeat-interval` | fixed interval, seconds | from the lookup |
//! | `ipa-lookup-timeout`, `-interval` | seconds | 600, 1 |
//! | `ipa-listen-host`, `-port` | the command server | all, 9999 |
//! | `ipa-advertise-host`, `-port` | what the API is told | by route, as listened |
//! | `ipa-disk-wait-attempts`, `-delay` | waiting for disks | 10, 3 s |
//! | `ipa-image-download-connection-timeout` | a download that brings nothing for so long is dead, seconds | 60 |
//! | `ipa-image-download-connection-retries` | attempts after the first that bring nothing new | 9 |
//! | `ipa-image-download-connection-retry-interval` | pause between attempts, seconds | 10 |
//! | `ipa-network-interface` | the NIC to use | – |
//! | `ipa-enable-vlan-interfaces` | VLANs to make: `eth0.100`, or `eth0` or `all` for those that switches name | – |
//! | `wrought-dhcp-timeout` | how long the NIC to use is asked on before the others, seconds | 45 |
//! | `ipa-collect-lldp`, `ipa-lldp-timeout` | what switches say, in the inventory; how long to listen, seconds | 0, 30 |
//! | `ipa-ntp-server` | where the time is asked for before the API's `Date` | – |
//! | `wrought-memory` | budget of the data path, MiB | a quarter of the RAM, 48–512 |
//! | `wrought-verify-after-write` | read the disk back before it is made bootable | 0 |
//! | `ipa-debug` | log more | 0 |
//!
//! What is not listed stays readable by [`Params::get`].

mod parse;
pub mod vmedia;
mod words;

use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::time::Duration;

use wrought_wire::AGENT_PORT;
use wrought_wire::secret::Secret;

pub use parse::ParamError;
pub use words::Words;

use crate::net::mac::Mac;

/// What the API's certificate is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Nothing was given: https cannot be used.
    Nothing,
    /// Everything is accepted (`ipa-insecure=1`).
    Insecure,
    /// The CA whose DER has this SHA-256; the server sends it in its chain.
    Fingerprint([u8; 32]),
    /// CA certificates, PEM.
    Pem(String),
}

/// All parameters.
#[derive(Debug, Clone)]
pub struct Params {
    /// API base URLs without a slash at the end, in the order to try.
    pub api_urls: Vec<String>,
    /// How the API proves that it is the API.
    pub trust: Trust,
    /// CAs of image servers, PEM, beside what `trust` says.
    pub image_ca: Option<String>,
    /// The SHA-256 of the DER of an image server's CA, beside them.
    pub image_ca_sha256: Option<[u8; 32]>,
    /// The token, when it was made before the boot.
    pub agent_token: Option<Secret>,
    /// The NIC that the firmware booted from.
    pub bootif: Option<Mac>,
    /// The NIC to use, by name.
    pub network_interface: Option<String>,
    /// Whether more parameters are on virtual media.
    pub vmedia: bool,
    /// `network_data.json` of virtual media.
    pub network_data: Option<String>,
    /// Fixed time between heartbeats.
    pub heartbeat_interval: Option<Duration>,
    /// How long a lookup is tried.
    pub lookup_timeout: Duration,
    /// The shortest pause between lookups.
    pub lookup_interval: Duration,
    /// Address of the command server.
    pub listen_host: IpAddr,
    /// Port of the command server.
    pub listen_port: u16,
    /// Address that the API is told, instead of the one the route gives.
    pub advertise_host: Option<IpAddr>,
    /// Port that the API is told, instead of the listener's.
    pub advertise_port: Option<u16>,
    /// How often disks are waited for.
    pub disk_wait_attempts: u32,
    /// Pause between two of those.
    pub disk_wait_delay: Duration,
    /// How long an image server may send nothing.
    pub download_timeout: Duration,
    /// Attempts after the first that bring nothing new before a download fails.
    pub download_retries: u32,
    /// Pause between attempts.
    pub download_retry_interval: Duration,
    /// Budget of the data path in MiB, when given.
    pub memory_mib: Option<u64>,
    /// Whether every written disk is read back.
    pub verify_after_write: bool,
    /// Whether to log more.
    pub debug: bool,
    words: Words,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            api_urls: Vec::new(),
            trust: Trust::Nothing,
            image_ca: None,
            image_ca_sha256: None,
            agent_token: None,
            bootif: None,
            network_interface: None,
            vmedia: false,
            network_data: None,
            heartbeat_interval: None,
            lookup_timeout: Duration::from_secs(600),
            lookup_interval: Duration::from_secs(1),
            listen_host: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            listen_port: AGENT_PORT,
            advertise_host: None,
            advertise_port: None,
            disk_wait_attempts: 10,
            disk_wait_delay: Duration::from_secs(3),
            download_timeout: Duration::from_secs(60),
            download_retries: 9,
            download_retry_interval: Duration::from_secs(10),
            memory_mib: None,
            verify_after_write: false,
            debug: false,
            words: Words::default(),
        }
    }
}

impl Params {
    /// A parameter as it was given, by its key. The token is not among them.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.words.get(key)
    }

    /// A parameter that is a switch: absent, or one of 0/1, false/true,
    /// no/yes, off/on; the bare key counts as on.
    pub fn flag(&self, key: &'static str) -> Result<Option<bool>, ParamError> {
        parse::flag(&self.words, key)
    }

    /// Bytes that the data path may use: what `wrought-memory` says, or a
    /// quarter of the RAM, between 48 and 512 MiB.
    pub fn memory_budget(&self, total_ram: u64) -> u64 {
        const MIB: u64 = 1 << 20;
        match self.memory_mib {
            Some(mib) => mib.saturating_mul(MIB),
            None => (total_ram / 4).clamp(48 * MIB, 512 * MIB),
        }
    }
}
