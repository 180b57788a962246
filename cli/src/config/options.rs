//! The command lines of `wrought serve`, `wrought api` and `wrought
//! conductor`: each has the parts that its process has.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::AuthChoice;

/// `wrought serve`: the server
#[derive(Debug, Default, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) front: Front,
    #[command(flatten)]
    pub(crate) back: Back,
}

/// `wrought api`: the API alone
#[derive(Debug, Default, Args)]
pub(crate) struct Api {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) front: Front,
}

/// `wrought conductor`: a conductor alone
#[derive(Debug, Default, Args)]
pub(crate) struct Conductor {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) back: Back,
    #[command(flatten)]
    pub(crate) calls: Calls,
}

/// What every form has.
#[derive(Debug, Default, Args)]
pub(crate) struct Common {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for database, CA and passwords [default: /var/lib/wrought]
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Database [default: sqlite: wrought.db in the state folder; the API and
    /// conductors apart share one of PostgreSQL]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Folder of the CA [default: ca in the state folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) ca_dir: Option<PathBuf>,
}

/// What the API has.
#[derive(Debug, Default, Args)]
pub(crate) struct Front {
    /// Where the API listens [default: 0.0.0.0:6385]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve the API as plain HTTP instead of HTTPS
    #[arg(long)]
    pub(crate) http: bool,
    /// Who may use the API: `none`, or `basic:FILE` with FILE in htpasswd form
    /// (bcrypt) [default: basic, with a password made at the first start]
    #[arg(long, value_name = "none|basic:FILE")]
    pub(crate) auth: Option<AuthChoice>,
}

/// What a conductor has.
#[derive(Debug, Default, Args)]
pub(crate) struct Back {
    /// Where boot artefacts are served as plain HTTP [default: off]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) boot_listen: Option<SocketAddr>,
}

/// What a conductor has that the API calls from another process.
#[derive(Debug, Default, Args)]
pub(crate) struct Calls {
    /// Name of the conductor, unique [default: the machine's host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Where the API's calls come in [default: 0.0.0.0:8089]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) rpc_listen: Option<SocketAddr>,
}

/// All options; those that a form does not have are not given.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) common: Common,
    pub(crate) front: Front,
    pub(crate) back: Back,
    pub(crate) calls: Calls,
}

impl From<Serve> for Options {
    fn from(serve: Serve) -> Self {
        Self {
            common: serve.common,
            front: serve.front,
            back: serve.back,
            ..Self::default()
        }
    }
}

impl From<Api> for Options {
    fn from(api: Api) -> Self {
        Self {
            common: api.common,
            front: api.front,
            ..Self::default()
        }
    }
}

impl From<Conductor> for Options {
    fn from(conductor: Conductor) -> Self {
        Self {
            common: conductor.common,
            back: conductor.back,
            calls: conductor.calls,
            ..Self::default()
        }
    }
}
