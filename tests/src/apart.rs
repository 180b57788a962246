//! An installation with API and conductors apart: `wrought api`, some `wrought
//! conductor` and a PostgreSQL server of their own, all of which die with the
//! harness.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use nix::sys::signal::Signal;

use crate::api::Api;
use crate::bench::serving::Serving;
use crate::bench::serving::free_address;
use crate::child;
use crate::postgres::Postgres;

/// A running installation.
#[derive(Debug)]
pub struct Apart {
    binary: PathBuf,
    work: PathBuf,
    postgres: Postgres,
    database: String,
    address: SocketAddr,
    api: Option<Serving>,
    conductors: Vec<Conductor>,
}

/// One of its conductors.
#[derive(Debug)]
struct Conductor {
    host: String,
    address: SocketAddr,
    serving: Option<Serving>,
}

impl Apart {
    /// Starts the API and conductors of these names, which are `conductor`
    /// with `more` lines in their configuration. Files are in `work`.
    pub async fn start(binary: &Path, work: &Path, hosts: &[&str], more: &str) -> Result<Self> {
        let postgres = Postgres::start(false).await?;
        let database = postgres.database("wrought").await?;
        let mut conductors = Vec::new();
        for host in hosts {
            conductors.push(Conductor {
                host: (*host).to_owned(),
                address: free_address()?,
                serving: None,
            });
        }
        let mut apart = Self {
            binary: binary.to_owned(),
            work: work.to_owned(),
            postgres,
            database,
            address: free_address()?,
            api: None,
            conductors,
        };
        let mut init = child::command(binary);
        let init = init.args(["ca", "init", "--ca-dir"]).arg(work.join("ca"));
        ensure!(init.status().await?.success(), "`wrought ca init` failed");
        let listen = format!("listen = \"{}\"\nauth = \"none\"\n", apart.address);
        apart.configure("api", &listen)?;
        for conductor in &apart.conductors {
            let text = format!(
                "host = \"{}\"\npublic_endpoint = \"https://{}\"\n[rpc]\nlisten = \"{}\"\n{more}",
                conductor.host, apart.address, conductor.address
            );
            apart.configure(&conductor.host, &text)?;
        }
        for number in 0..hosts.len() {
            apart.start_conductor(number).await?;
        }
        apart.start_api().await?;
        Ok(apart)
    }

    fn configure(&self, name: &str, more: &str) -> Result<()> {
        let text = format!(
            "database = {:?}\nca_dir = {:?}\nstate_dir = {:?}\n{more}",
            self.database,
            self.work.join("ca"),
            self.work.join(name),
        );
        std::fs::write(self.work.join(format!("{name}.toml")), text)
            .with_context(|| format!("writing {name}.toml"))
    }

    async fn run(&self, command: &str, name: &str, at: SocketAddr, ready: &str) -> Result<Serving> {
        let mut process = child::command(&self.binary);
        process
            .arg(command)
            .arg("--config")
            .arg(self.work.join(format!("{name}.toml")))
            .env("WROUGHT_LOG", "info");
        let log = self.work.join(format!("{name}.log"));
        Serving::start(&format!("wrought {command}"), process, at, &log, ready).await
    }

    /// Starts the API.
    pub async fn start_api(&mut self) -> Result<()> {
        let serving = self.run("api", "api", self.address, "API on").await?;
        self.api = Some(serving);
        Ok(())
    }

    /// Starts a conductor, by its place in the list of names.
    pub async fn start_conductor(&mut self, number: usize) -> Result<()> {
        let conductor = self.conductor(number)?;
        let (host, address) = (conductor.host.clone(), conductor.address);
        let serving = self.run("conductor", &host, address, "takes calls at");
        let serving = serving.await?;
        self.conductor(number)?.serving = Some(serving);
        Ok(())
    }

    /// Ends a conductor in order.
    pub async fn stop_conductor(&mut self, number: usize) -> Result<()> {
        if let Some(serving) = self.conductor(number)?.serving.take() {
            serving.stop().await;
        }
        Ok(())
    }

    /// Ends a conductor as a power cut would.
    pub async fn kill_conductor(&mut self, number: usize) -> Result<()> {
        if let Some(serving) = self.conductor(number)?.serving.take() {
            serving.kill().await;
        }
        Ok(())
    }

    /// Sends a signal to a conductor that runs.
    pub fn signal_conductor(&mut self, number: usize, signal: Signal) -> Result<()> {
        let serving = self.conductor(number)?.serving.as_ref();
        serving.context("it does not run")?.signal(signal);
        Ok(())
    }

    fn conductor(&mut self, number: usize) -> Result<&mut Conductor> {
        self.conductors.get_mut(number).context("no such conductor")
    }

    /// A client of the API.
    pub fn api(&self) -> Result<Api> {
        let ca = self.work.join("ca/ca.pem");
        Api::new(&format!("https://{}", self.address), &ca, None)
    }

    /// Where a conductor that has a listener for figures says that they are.
    pub fn metrics(&self, host: &str) -> Result<String> {
        let log = std::fs::read_to_string(self.work.join(format!("{host}.log")))?;
        let told = log
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("wrought: metrics on "));
        Ok(told
            .with_context(|| format!("{host} has no listener for figures"))?
            .to_owned())
    }

    /// The URL of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Ends everything in order.
    pub async fn stop(mut self) {
        if let Some(api) = self.api.take() {
            api.stop().await;
        }
        for conductor in &mut self.conductors {
            if let Some(serving) = conductor.serving.take() {
                serving.stop().await;
            }
        }
        self.postgres.stop().await;
    }
}
