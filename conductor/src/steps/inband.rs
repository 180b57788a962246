//! Steps that the agent runs.

use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;
use wrought_store::PortQuery;
use wrought_wire::command::CommandResult;
use wrought_wire::command::CommandStatus;
use wrought_wire::step::Step;

use crate::agent;
use crate::agent::view;
use crate::error::Error;
use crate::internal;
use crate::steps::Awaited;
use crate::steps::Kind;
use crate::steps::Outcome;
use crate::steps::Then;
use crate::steps::Wait;
use crate::steps::list;
use crate::steps::name;
use crate::steps::raid;
use crate::task::Task;
use crate::task::store;

/// Wraps what a call to the agent gave.
pub(crate) fn failed(task: &Task, action: &str) -> impl FnOnce(agent::Error) -> Error + use<> {
    let (node, action) = (task.node.uuid, action.to_owned());
    move |source| Error::Agent {
        node,
        action,
        source,
    }
}

/// Notes which command is the agent's last one, before a step is given to it:
/// a command after it is this step.
pub(crate) async fn mark(task: &mut Task) -> Result<(), Error> {
    let commands = task
        .agent()?
        .commands()
        .await
        .map_err(failed(task, "ask what it does"))?;
    let last = commands.last().map(|command| command.id);
    internal::set(&mut task.node, internal::MARKER, last);
    Ok(())
}

/// Gives a step to the agent.
pub(crate) async fn start(task: &mut Task, kind: Kind, step: &Step) -> Result<Outcome, Error> {
    let mut params = common(task).await?;
    params.insert(
        "step".to_owned(),
        serde_json::to_value(step).unwrap_or_default(),
    );
    raid::prepare(&task.node, step, &mut params)?;
    let version = internal::read::<Value>(&task.node, internal::HARDWARE_MANAGER_VERSION);
    params.insert(
        format!("{}_version", kind.as_str()),
        version.unwrap_or(Value::Null),
    );
    let client = task.agent()?;
    tracing::info!(node = %task.node.uuid, step = name(step), "step given to the agent");
    match client.run(&kind.execute(), params, false).await {
        Ok(result) => Ok(Outcome::Wait(Wait::for_command(result.id))),
        Err(agent::Error::Busy { url, message }) => {
            tracing::info!(node = %task.node.uuid, url, message, "agent busy, step waits");
            Ok(Outcome::Wait(Wait {
                what: Awaited::Idle,
                then: Then::Repeat,
            }))
        }
        // The answer is lost, the command may not be.
        Err(error) if error.is_connection() => match adopt(task, kind).await? {
            Some(outcome) => Ok(outcome),
            None => Err(failed(task, &format!("start step {}", name(step)))(error)),
        },
        Err(error) => Err(failed(task, &format!("start step {}", name(step)))(error)),
    }
}

/// The command that was given to the agent for the step that was begun, if the
/// agent has it. Asked after a crash, when the answer to the command is lost.
pub(crate) async fn adopt(task: &Task, kind: Kind) -> Result<Option<Outcome>, Error> {
    let client = task.agent()?;
    let commands = client
        .commands()
        .await
        .map_err(failed(task, "ask what it does"))?;
    let marker: Option<Uuid> = internal::read(&task.node, internal::MARKER);
    let after = match marker {
        Some(marker) => match commands.iter().position(|command| command.id == marker) {
            Some(at) => at + 1,
            None => return Ok(None),
        },
        None => 0,
    };
    let command = kind.execute();
    let bare = command.rsplit('.').next().unwrap_or_default();
    let ours = commands[after..]
        .iter()
        .rfind(|found| found.command_name == bare || found.command_name == command);
    Ok(ours.map(|found| Outcome::Wait(Wait::for_command(found.id))))
}

/// Fetches the agent's steps of a kind and keeps them in the node.
pub(crate) async fn fetch(task: &mut Task, kind: Kind) -> Result<Vec<Step>, Error> {
    let params = common(task).await?;
    let command = format!("{0}.get_{0}_steps", kind.as_str());
    let client = task.agent()?;
    let answer = client
        .run(&command, params, true)
        .await
        .map_err(failed(task, &command))?;
    let answer = answer.command_result.unwrap_or_default();
    let steps = list::from_agent(answer.get(kind.list_key()).unwrap_or(&Value::Null));
    let node = &mut task.node;
    if let Some(version) = answer.get(internal::HARDWARE_MANAGER_VERSION) {
        internal::set(node, internal::HARDWARE_MANAGER_VERSION, version);
    }
    let mut cache: Map<String, Value> = Map::new();
    for step in &steps {
        let slot = cache
            .entry(step.interface.clone())
            .or_insert_with(|| Value::Array(Vec::new()));
        if let (Value::Array(list), Ok(step)) = (slot, serde_json::to_value(step)) {
            list.push(step);
        }
    }
    internal::set(node, &kind.cache_key(), cache);
    let now = jiff::Timestamp::now().to_string();
    internal::set(node, &format!("{}_refreshed", kind.cache_key()), now);
    Ok(steps)
}

/// What became of the command that is waited for.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It runs; with its progress, when it tells.
    Running(Option<Value>),
    /// It ended well; with its result.
    Succeeded(Value),
    /// It ended with an error; with the whole story.
    Failed(String),
    /// The agent's steps have changed in between.
    VersionMismatch,
    /// The agent does not know it: it is another one than we gave it to.
    Unknown,
}

/// Reads it off the agent's list of commands.
pub(crate) fn fate(commands: &[CommandResult], id: Uuid) -> Fate {
    let Some(command) = commands.iter().find(|command| command.id == id) else {
        return Fate::Unknown;
    };
    match command.command_status {
        CommandStatus::Running => {
            let result = command.command_result.as_ref();
            Fate::Running(result.and_then(|result| result.get("progress")).cloned())
        }
        CommandStatus::Succeeded => {
            Fate::Succeeded(command.command_result.clone().unwrap_or_default())
        }
        CommandStatus::Failed => Fate::Failed(agent::story(command.command_error.as_ref())),
        CommandStatus::VersionMismatch => Fate::VersionMismatch,
    }
}

async fn common(task: &Task) -> Result<Map<String, Value>, Error> {
    let query = PortQuery {
        node_uuid: Some(task.node.uuid),
        ..PortQuery::default()
    };
    let ports = task
        .svc
        .store
        .list_ports(&query)
        .await
        .map_err(store("list ports"))?;
    let mut params = Map::new();
    let mut node = view::node(&task.node);
    task.svc.config.conductor.erase.show(&mut node);
    params.insert("node".to_owned(), node);
    params.insert("ports".to_owned(), view::ports(&ports));
    Ok(params)
}
