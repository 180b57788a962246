//! One life of an agent: it looks itself up, serves commands, calls in.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use axum::Router;
use reqwest::Method;
use serde_json::Value;
use tokio::net::TcpListener;

use super::Machine;
use super::boot;
use super::boot::Booted;
use super::commands;
use super::commands::Runner;
use super::machine::Life;
use super::program;
use crate::api::Api;
use crate::fleet::Agent;
use crate::fleet::tls;
use crate::qemu::BootFrom;

/// Between two lookups.
const AGAIN: Duration = Duration::from_millis(300);
/// What a lookup shows of a token that was handed out before.
const MASK: &str = "******";

/// From the machine's start (`from`), or from the restart of a ramdisk that has
/// booted before, to the end of this life.
pub(super) async fn run(machine: Machine, life: Life, from: Option<BootFrom>) {
    if let Some(from) = from {
        match boot::boot(&machine, from).await {
            Booted::Disk => {
                machine.write(|log| log.say("the disk is booted after all"));
                return;
            }
            Booted::Ramdisk(told) => machine.tell(told),
        }
    }
    let habits = machine.habits();
    tokio::time::sleep(habits.boot).await;
    let done = match &habits.program {
        Some(program) => program::run(&machine, &life, program).await,
        None => live(&machine, &life).await,
    };
    if let Err(error) = done {
        machine.write(|log| log.say(&format!("life {}: {error:#}", life.number)));
    }
}

async fn live(machine: &Machine, life: &Life) -> Result<()> {
    let told = machine.told();
    let url = told
        .get("ipa-api-url")
        .context("the ramdisk is told no API")?;
    let api = machine.net().now().api.at(url);
    let (node, token) = look_up(machine, &api, told.get("ipa-agent-token")).await;
    let runner = Arc::new(Runner::new(machine.clone(), life.clone(), token.clone()));
    let (url, certificate) = serve(machine, life, commands::router(&runner)).await?;
    let agent = Agent {
        node,
        token,
        url,
        certificate: Some(certificate),
    };
    machine.write(|log| log.say(&format!("life {}: serves {}", life.number, agent.url)));
    let (path, body) = (agent.path(), agent.heartbeat());
    let mut said = String::new();
    loop {
        let answer = api.send(Method::POST, &path, Some(&body)).await;
        let problem = match answer {
            Ok(answer) if answer.status == 202 => String::new(),
            Ok(answer) => format!("{} {}", answer.status, answer.error_text()),
            Err(error) => format!("{error:#}"),
        };
        if !problem.is_empty() && problem != said {
            machine.write(|log| log.say(&format!("heartbeat: {problem}")));
        }
        said = problem;
        // A command that has ended calls for a heartbeat at once.
        tokio::time::timeout(machine.habits().heartbeat, runner.ended())
            .await
            .ok();
    }
}

/// Asks for the node until there is one and its token is known. `given`: the
/// token came with the ramdisk.
async fn look_up(machine: &Machine, api: &Api, given: Option<&String>) -> (String, String) {
    let mut said = String::new();
    loop {
        let problem = match ask(machine, api).await {
            Ok((node, token)) => {
                let token = given.cloned().or(Some(token).filter(|token| token != MASK));
                match token {
                    Some(token) => return (node, token),
                    None => "lookup gives no token".to_owned(),
                }
            }
            Err(error) => format!("{error:#}"),
        };
        if problem != said {
            machine.write(|log| log.say(&problem));
            said = problem;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn ask(machine: &Machine, api: &Api) -> Result<(String, String)> {
    let path = format!("/v1/lookup?addresses={}", machine.mac());
    let answer = api.send(Method::GET, &path, None).await?;
    if answer.status != 200 {
        bail!("lookup: {} {}", answer.status, answer.error_text());
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let node = text(&answer.body["node"]["uuid"]).context("lookup gives no node")?;
    let token = text(&answer.body["config"]["agent_token"]).context("lookup gives no token")?;
    Ok((node, token))
}

/// Serves commands until this life ends; gives URL and certificate.
async fn serve(machine: &Machine, life: &Life, router: Router) -> Result<(String, String)> {
    // A real agent always has the same port; here others may have taken it.
    let listener = match TcpListener::bind(("127.0.0.1", machine.port())).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind(("127.0.0.1", 0)).await?,
    };
    let address = listener.local_addr()?;
    machine.set_port(address.port());
    let (listener, certificate) = tls::Listener::new(listener)?;
    let end = life.clone().end();
    // Connections that are kept alive end with this life, too.
    tokio::spawn(async move {
        axum::serve(listener, router)
            .with_graceful_shutdown(end)
            .await
    });
    Ok((format!("https://{address}"), certificate))
}
