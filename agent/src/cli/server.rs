//! Options for image servers, of `write` and `inspect`.

use std::path::PathBuf;

use clap::Args;
use wrought_image::Secret;
use wrought_image::cli::ServerArgs;

/// How image servers are trusted, and what they are shown.
#[derive(Debug, Args)]
pub(super) struct Server {
    /// PEM file with CAs to trust beside the system's, repeatable.
    #[arg(long = "ca", alias = "ca-file", value_name = "PATH")]
    ca_files: Vec<PathBuf>,
    /// Do not check the image server's certificate; the digest still decides.
    #[arg(long)]
    insecure: bool,
    /// User for the image server or registry. Others on this machine can see
    /// a password here; --password-file hides it.
    #[arg(long, value_name = "NAME[:PASSWORD]", value_parser = secret)]
    user: Option<Secret>,
    /// File whose first line is the password.
    #[arg(long, value_name = "PATH")]
    password_file: Option<PathBuf>,
    /// Bearer token for the image server; --bearer-file hides it.
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    bearer: Option<Secret>,
    /// File whose first line is the bearer token.
    #[arg(long, value_name = "PATH")]
    bearer_file: Option<PathBuf>,
    /// Credentials of registries: a config.json or auth.json of container
    /// tools.
    #[arg(long, value_name = "PATH")]
    registry_auth_file: Option<PathBuf>,
    /// Speak plain HTTP to a registry that is not on this machine.
    #[arg(long)]
    plain_http_registry: bool,
    /// Proxy for http:// [default: $http_proxy].
    #[arg(long, value_name = "URL")]
    http_proxy: Option<String>,
    /// Proxy for https:// [default: $https_proxy or $HTTPS_PROXY].
    #[arg(long, value_name = "URL")]
    https_proxy: Option<String>,
    /// Hosts, domains and networks that are reached without a proxy, comma
    /// list [default: $no_proxy or $NO_PROXY].
    #[arg(long, value_name = "LIST")]
    no_proxy: Option<String>,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// The first of `names` that is set. `HTTP_PROXY` is not among them: a web
/// server's request could set it.
fn environment(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok())
}

impl From<Server> for ServerArgs {
    fn from(server: Server) -> Self {
        let or = |given: Option<String>, names: &[&str]| given.or_else(|| environment(names));
        Self {
            ca_files: server.ca_files,
            insecure: server.insecure,
            user: server.user,
            password_file: server.password_file,
            bearer: server.bearer,
            bearer_file: server.bearer_file,
            registry_auth_file: server.registry_auth_file,
            plain_http_registry: server.plain_http_registry,
            http_proxy: or(server.http_proxy, &["http_proxy"]),
            https_proxy: or(server.https_proxy, &["https_proxy", "HTTPS_PROXY"]),
            no_proxy: or(server.no_proxy, &["no_proxy", "NO_PROXY"]),
        }
    }
}
