//! The installation's certification authority and the certificates that it
//! issues: `wrought ca init|issue`, and what `wrought serve` does by itself.

pub(crate) mod authority;
pub(crate) mod check;
pub(crate) mod leaf;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::Subcommand;

use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;
use crate::private;
use authority::Authority;
use leaf::Name;

/// `wrought ca …`
#[derive(Debug, Args)]
pub(crate) struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make the CA, unless it is there already
    Init {
        /// Folder of the CA
        #[arg(long, value_name = "DIR")]
        ca_dir: PathBuf,
    },
    /// Issue a certificate for another server of this installation
    Issue {
        /// Folder of the CA
        #[arg(long, value_name = "DIR")]
        ca_dir: PathBuf,
        /// Host name or IP address of the server; may be given several times
        #[arg(long = "name", value_name = "DNS|IP", required = true)]
        names: Vec<String>,
        /// Folder for ca.pem, server.pem and server.key
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(command: Command) -> Outcome {
    match command.what {
        What::Init { ca_dir } => {
            private::folder(&ca_dir).or_exit(Kind::Io)?;
            let authority = Authority::load_or_make(&ca_dir).or_exit(Kind::Io)?;
            println!("CA certificate {}", ca_dir.join(authority::CERT).display());
            println!("SHA-256 {}", authority.fingerprint());
        }
        What::Issue { ca_dir, names, out } => {
            let names = names
                .iter()
                .map(|name| Name::parse(name))
                .collect::<anyhow::Result<Vec<_>>>()
                .or_exit(Kind::Usage)?;
            let authority = Authority::load(&ca_dir)
                .and_then(|found| {
                    found.with_context(|| format!("there is no CA in {}", ca_dir.display()))
                })
                .or_exit(Kind::Data)?;
            private::folder(&out).or_exit(Kind::Io)?;
            let leaf = authority.issue(&names).or_exit(Kind::Data)?;
            leaf.save(&out).or_exit(Kind::Io)?;
            private::write(&out.join(authority::CERT), authority.pem()).or_exit(Kind::Io)?;
            println!("certificate {}", out.join(leaf::CERT).display());
        }
    }
    Ok(())
}
