//! What a real Ironic says, and whether our server says the same.
//!
//! Four things are put to both: a *story* of exchanges in order, questions
//! asked at *every microversion*, the *commands* of `openstack baremetal` and
//! a program on openstacksdk. The first two are recorded from a real Ironic
//! into `tests/peer`; nothing there is made from our own tables. Where we
//! differ, `tests/peer/differences.json` says so with a reason, and a
//! difference that is gone must go from there too.

pub mod client;
pub mod commands;
pub mod compare;
pub mod differences;
pub mod inspection;
pub mod normal;
pub mod program;
pub mod script;
pub mod states;
pub mod story;
pub mod subject;
pub mod versions;

use std::path::PathBuf;

use anyhow::Result;

use self::differences::Found;
use self::differences::Listed;
use self::subject::Kind;
use self::subject::Subject;
use crate::paths::Paths;

/// The parts of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Exchanges in order.
    Story,
    /// Questions at every microversion.
    Versions,
    /// The commands of `openstack baremetal`.
    Commands,
    /// A program on openstacksdk.
    Program,
}

/// All parts.
pub const PARTS: [Part; 4] = [Part::Story, Part::Versions, Part::Commands, Part::Program];

/// What `wrought-harness peer` does.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Task {
    /// Asks a real Ironic and writes down what it says.
    Record(Options),
    /// Prints, a line each, where `wrought serve` answers otherwise and
    /// whether that is reviewed.
    Show(Options),
}

/// Options of a task.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// One part; without it, all.
    part: Option<Part>,
    /// Only the questions of `versions` whose names begin with this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Where the scripts and recordings lie.
pub fn folder(paths: &Paths) -> PathBuf {
    paths.root.join("tests/peer")
}

/// Does what the command line says.
pub async fn run(task: Task) -> Result<()> {
    let paths = Paths::find()?;
    match task {
        Task::Record(options) => {
            if options.part.is_none_or(|part| part == Part::Story) {
                story::record(&paths).await?;
            }
            if options.part.is_none_or(|part| part == Part::Versions) {
                versions::record(&paths, &options.only).await?;
            }
            Ok(())
        }
        Task::Show(options) => {
            let listed = Listed::read(&paths)?;
            for part in PARTS {
                if options.part.is_none_or(|wanted| wanted == part) {
                    let found = find(&paths, part, Kind::Wrought).await?;
                    for (found, mark) in listed.marks(&found) {
                        println!("{mark} {}: {}", found.place, found.text);
                    }
                }
            }
            Ok(())
        }
    }
}

/// One part against our server: nothing may differ that is not reviewed, and
/// nothing reviewed may be gone.
pub async fn check(part: Part) -> Result<()> {
    let paths = Paths::find()?;
    let listed = Listed::read(&paths)?;
    let found = find(&paths, part, Kind::Wrought).await?;
    listed.settle(part.name(), &found)
}

/// Everything against a real Ironic: scripts pass, and it still says what was
/// recorded.
pub async fn check_the_peer() -> Result<()> {
    let paths = Paths::find()?;
    for part in PARTS {
        let found = find(&paths, part, Kind::Ironic).await?;
        Listed::none().settle(part.name(), &found)?;
    }
    Ok(())
}

impl Part {
    /// The first part of the places of its differences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Story => "story",
            Self::Versions => "versions",
            Self::Commands => "commands",
            Self::Program => "program",
        }
    }
}

/// Our state machine beside a real Ironic's; gives what is to be told.
pub async fn check_the_states() -> Result<String> {
    states::check(&Paths::find()?).await
}

async fn find(paths: &Paths, part: Part, kind: Kind) -> Result<Vec<Found>> {
    match part {
        Part::Story => story::replay(paths, kind).await,
        Part::Versions => versions::replay(paths, kind).await,
        Part::Commands => {
            let subject = Subject::start(paths, kind, false).await?;
            let found = commands::run(paths, &subject).await;
            subject.stop().await;
            found
        }
        Part::Program => {
            let subject = Subject::start(paths, kind, false).await?;
            let found = program::run(paths, &subject).await;
            subject.stop().await;
            found
        }
    }
}
