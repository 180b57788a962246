//! What a caller may ask of a write.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier;
use wrought_formats::detect::Format;

use crate::cancel::CancelToken;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::progress::ProgressFn;

/// Default of [`WriteRequest::memory`]: 48 MiB.
pub const DEFAULT_MEMORY: u64 = 48 << 20;
/// Smallest budget that is accepted: 16 MiB.
pub const LEAST_MEMORY: u64 = 16 << 20;

/// One image to write to one disk.
#[derive(Debug, Clone)]
pub struct WriteRequest {
    /// Where the image is: `http://`, `https://`, `oci://`, `file://` or a
    /// path. Tried in order, also when one dies in the middle of the image;
    /// all must hold the same bytes.
    pub sources: Vec<String>,
    /// The expected digest: `ALGO:HEX`, plain hex (algorithm by its length),
    /// or the URL of a sums file. Nothing is written without one; an `oci://`
    /// source with a digest names its own.
    pub checksum: Option<String>,
    /// Algorithm, where the caller knows it (`os_hash_algo`); it overrides
    /// the guess by length.
    pub checksum_algorithm: Option<Algorithm>,
    /// Declared format; must equal what the content says. `None` accepts
    /// whatever is found.
    pub format: Option<Format>,
    /// Formats that may be written; `None` allows all that are supported.
    pub allowed_formats: Option<Vec<Format>>,
    /// Block device (any path to it) or plain file. A file that does not
    /// exist is made, of the image's size.
    pub target: PathBuf,
    /// What the image is to fill.
    pub layout: Layout,
    /// Budget in bytes for buffers and decoder state together.
    pub memory: u64,
    /// Read the disk back, past the page cache, before the ends are written.
    pub verify_after_write: bool,
    /// Zero both ends of the target also when the image is refused before
    /// anything was written, so that what was there before does not boot in
    /// its place. Without it a refusal leaves the target as it was.
    pub zero_on_refusal: bool,
    /// Accept MD5 as the checksum.
    pub allow_md5: bool,
    /// How to talk to HTTP servers.
    pub http: HttpOptions,
    /// What to do about interruptions.
    pub retry: Retry,
    /// Stops the write.
    pub cancel: CancelToken,
    /// Told how far it is.
    pub progress: Option<ProgressFn>,
}

impl WriteRequest {
    /// A request with every option at its default and no checksum yet.
    pub fn new(source: impl Into<String>, target: impl Into<PathBuf>) -> Self {
        Self {
            sources: vec![source.into()],
            checksum: None,
            checksum_algorithm: None,
            format: None,
            allowed_formats: None,
            target: target.into(),
            layout: Layout::default(),
            memory: DEFAULT_MEMORY,
            verify_after_write: false,
            zero_on_refusal: true,
            allow_md5: false,
            http: HttpOptions::default(),
            retry: Retry::default(),
            cancel: CancelToken::new(),
            progress: None,
        }
    }

    /// Refuses what cannot work whatever the source and target hold.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::new(ErrorKind::Request, Stage::Check, text));
        if self.sources.is_empty() {
            return refuse("no image source was given, need a URL or a path".to_owned());
        }
        let given = self
            .checksum
            .as_ref()
            .is_some_and(|text| !text.trim().is_empty());
        if !given && !self.sources.iter().any(|s| crate::source::names_digest(s)) {
            return refuse(format!(
                "no checksum was given for {}; nothing is written unverified: give sha256:HEX, \
                 sha512:HEX, or the URL of a sums file (image_checksum, or os_hash_algo with \
                 os_hash_value, in instance_info; --checksum on the command line)",
                crate::redact::url(&self.sources[0])
            ));
        }
        if self.memory < LEAST_MEMORY {
            return refuse(format!(
                "the memory budget is {} bytes, the least that works is {LEAST_MEMORY} (--memory)",
                self.memory
            ));
        }
        self.sources
            .iter()
            .try_for_each(|location| crate::source::check(location))?;
        crate::checksum::check(self)
    }
}

/// What an image is to fill. The image of a whole disk has a partition table;
/// that of a partition is a filesystem and has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// A partition where the kernel says that the target is one; any other
    /// device and every file is a disk.
    #[default]
    Auto,
    /// A whole disk.
    Disk,
    /// One partition, or what serves as one, such as a logical volume.
    Partition,
}

/// Digest algorithms of checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// MD5: only where it is explicitly allowed.
    Md5,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// Lower-case name, as `os_hash_algo` writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Length of a hex digest in characters.
    #[must_use]
    pub fn hex_len(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }

    /// Reads `sha256`, `SHA-256` and the like.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let plain: String = name
            .chars()
            .filter(|c| *c != '-' && *c != '_')
            .collect::<String>()
            .to_lowercase();
        match plain.as_str() {
            "md5" => Some(Self::Md5),
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Guesses by the length of a hex digest.
    #[must_use]
    pub fn from_hex_len(len: usize) -> Option<Self> {
        [Self::Md5, Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|a| a.hex_len() == len)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How to talk to HTTP servers.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// PEM certificates of authorities to trust beside the system's.
    pub extra_ca_pem: Vec<Vec<u8>>,
    /// Accept any server certificate (`ipa-insecure`). The digest still
    /// decides.
    pub insecure: bool,
    /// Verifiers whose word counts beside that of the authorities.
    pub also_trusted: Vec<Arc<dyn ServerCertVerifier>>,
    /// HTTP basic authentication.
    pub basic_auth: Option<BasicAuth>,
    /// A ready `Authorization` header value, such as a bearer token.
    pub authorization: Option<Secret>,
    /// Proxy for `http://` URLs.
    pub http_proxy: Option<String>,
    /// Proxy for `https://` URLs.
    pub https_proxy: Option<String>,
    /// Comma list of hosts that are reached without a proxy.
    pub no_proxy: Option<String>,
    /// Credentials of single registries, where `basic_auth` is not given.
    pub logins: Vec<RegistryLogin>,
    /// Speak plain HTTP to registries that are not on this machine.
    pub plain_http_registries: bool,
}

/// What one registry is to be shown.
#[derive(Debug, Clone)]
pub struct RegistryLogin {
    /// `HOST[:PORT]`, as in the image's reference.
    pub host: String,
    /// User and password.
    pub auth: BasicAuth,
}

/// User and password for HTTP basic authentication.
#[derive(Debug, Clone)]
pub struct BasicAuth {
    /// User name.
    pub user: String,
    /// Password, never printed.
    pub password: Secret,
}

/// A text that is never printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What to do about interruptions of the source.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Attempts in a row that bring not one new byte before the write fails.
    pub attempts: u32,
    /// Pause between attempts.
    pub delay: Duration,
    /// How long a connection may bring nothing before it counts as dead.
    pub stall: Duration,
    /// How long connecting may take.
    pub connect: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 10,
            delay: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            connect: Duration::from_secs(30),
        }
    }
}
