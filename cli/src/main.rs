//! The server and operator binary: `wrought serve` runs API and conductor in
//! one process, `wrought api` and `wrought conductor` run them apart, `wrought
//! ca` keeps the installation's certificates, `wrought
//! node` and `wrought port` speak the HTTP API.

mod ca;
mod client;
mod config;
mod exit;
mod node;
mod port;
mod private;
mod serve;
mod step_guard;
mod table;

use std::process::ExitCode;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use tracing_subscriber::EnvFilter;

use crate::client::Client;
use crate::client::Environment;
use crate::config::Form;
use crate::config::options;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;

/// Bare-metal provisioning: server and operator's tool
#[derive(Debug, Parser)]
#[command(
    name = "wrought",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: API and conductor in one process
    Serve(options::Serve),
    /// Run the API alone: conductors of the same database do the work
    Api(options::Api),
    /// Run a conductor alone, beside others of the same database
    Conductor(options::Conductor),
    /// Make the installation's CA and issue certificates
    Ca(ca::Command),
    /// Operate nodes
    Node(Remote<node::Command>),
    /// Operate ports
    Port(Remote<port::Command>),
    /// Ends a step plug-in when its conductor is gone; conductors start it
    #[command(hide = true)]
    StepGuard,
}

/// A command that speaks to a server.
#[derive(Debug, Args)]
struct Remote<C: Args> {
    #[command(flatten)]
    options: client::Options,
    #[command(flatten)]
    command: C,
}

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) => {
            // Help and version are no errors; the rest is wrong usage.
            let code = if error.use_stderr() { 64 } else { 0 };
            error.print().ok();
            return ExitCode::from(code);
        }
    };
    match run(line.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Outcome {
    install_crypto();
    match command {
        Command::Serve(options) => serve(Form::Serve, options),
        Command::Api(options) => serve(Form::Api, options),
        Command::Conductor(options) => serve(Form::Conductor, options),
        Command::Ca(command) => {
            log("warn");
            ca::run(command)
        }
        Command::Node(remote) => {
            remote.run(async |command, client, json| node::run(command, &client, json).await)
        }
        Command::Port(remote) => {
            remote.run(async |command, client, json| port::run(command, &client, json).await)
        }
        Command::StepGuard => step_guard::run(),
    }
}

/// Runs a server of that form.
fn serve(form: Form, options: impl Into<options::Options>) -> Outcome {
    log("info");
    let settings = config::Settings::load(form, options).or_exit(Kind::Usage)?;
    runtime(tokio::runtime::Builder::new_multi_thread())?.block_on(serve::run(settings))
}

impl<C: Args> Remote<C> {
    fn run(self, work: impl AsyncFnOnce(C, Client, bool) -> Outcome) -> Outcome {
        log("warn");
        let json = self.options.json;
        let client = Client::new(self.options, environment())?;
        let runtime = runtime(tokio::runtime::Builder::new_current_thread())?;
        runtime.block_on(work(self.command, client, json))
    }
}

/// Stack of a thread of the server: a step deep inside a flow has more on it
/// than the usual 2 MiB where the compiler does not optimise. What is not used
/// takes no memory.
const STACK: usize = 8 << 20;

fn runtime(mut builder: tokio::runtime::Builder) -> Outcome<tokio::runtime::Runtime> {
    builder.enable_all().thread_stack_size(STACK);
    builder.build().or_exit(Kind::Internal)
}

/// Makes aws-lc the TLS implementation of the process, once.
fn install_crypto() {
    // An error says that it has been installed already.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
}

/// What the environment says to the client.
fn environment() -> Environment {
    let text = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    Environment {
        url: text("WROUGHT_URL").map(|value| value.to_string_lossy().into_owned()),
        ca: text("WROUGHT_CA").map(Into::into),
        password_file: text("WROUGHT_PASSWORD_FILE").map(Into::into),
    }
}

/// Logs to standard error; `WROUGHT_LOG` filters.
fn log(default: &str) {
    let filter = EnvFilter::try_from_env("WROUGHT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
