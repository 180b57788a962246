//! The harness binary: `wrought-harness demo` and `wrought-harness test`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;
use clap::Subcommand;
use wrought_tests::Unavailable;
use wrought_tests::accel::Accel;
use wrought_tests::account::Account;
use wrought_tests::bench;
use wrought_tests::bench::part::Part;
use wrought_tests::demo;
use wrought_tests::demo::Boot;
use wrought_tests::demo::Plan;
use wrought_tests::netns;
use wrought_tests::netns::HostPort;
use wrought_tests::peer;
use wrought_tests::postgres;
use wrought_tests::qemu::Firmware;
use wrought_tests::runner;
use wrought_tests::scenarios;
use wrought_tests::world;
use wrought_tests::world::World;

/// Exit codes of sysexits.h.
const EX_UNAVAILABLE: u8 = 69;
const EX_SOFTWARE: u8 = 70;
/// As a shell reports a death by SIGINT.
const INTERRUPTED: u8 = 130;

/// Machines, BMCs and networks to try Wrought with.
#[derive(Debug, Parser)]
#[command(name = "wrought-harness")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A bare machine becomes a running, verified operating system.
    Demo(Demo),
    /// Runs the scenarios whose names contain the filter.
    Test(Test),
    /// Measures; see SPECIFICATION.md.
    Bench(Bench),
    /// A real Ironic beside ours: what it says, and where we say otherwise.
    Peer {
        /// What to do.
        #[command(subcommand)]
        task: peer::Task,
    },
    /// Does one part of the data path by itself.
    #[command(hide = true)]
    Part {
        /// What to do.
        #[arg(value_enum)]
        part: Part,
        /// To what.
        file: PathBuf,
    },
    /// Runs a program beside a PostgreSQL server, the folder of whose socket is
    /// in its environment.
    #[command(hide = true)]
    Postgres {
        /// The name of the variable.
        #[arg(long)]
        variable: String,
        /// The program with its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<String>,
    },
    /// Runs one scenario in this process.
    #[command(hide = true)]
    Scenario {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Demo {
    /// The machine's firmware.
    #[arg(long, value_enum, default_value = "uefi")]
    firmware: Firmware,
    /// How the agent gets into the machine.
    #[arg(long, value_enum, default_value = "ipxe")]
    boot: Boot,
    /// The image: debian or tiny.
    #[arg(long, default_value = "debian")]
    image: String,
    /// Memory of the machine in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u32,
    /// JSON lines, one final object last.
    #[arg(long)]
    json: bool,
    /// Stay up afterwards until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Port on 127.0.0.1 that leads to the API; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

#[derive(Debug, clap::Args)]
struct Test {
    /// Part of the names of the scenarios.
    filter: Option<String>,
    /// The slow ones, too.
    #[arg(long)]
    all: bool,
    /// How many run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Only lists them.
    #[arg(long)]
    list: bool,
}

#[derive(Debug, clap::Args)]
struct Bench {
    /// What is measured.
    #[command(subcommand)]
    kind: bench::Kind,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wrought-harness: {error:#}");
            let lacking = error.downcast_ref::<Unavailable>().is_some();
            ExitCode::from(if lacking { EX_UNAVAILABLE } else { EX_SOFTWARE })
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    // The only places where the environment is read.
    let accel = match std::env::var("WROUGHT_ACCEL") {
        Ok(text) => Some(Accel::parse(&text)?),
        Err(_) => None,
    };
    match command {
        Command::Demo(demo) => {
            // Said before anything is started or even looked for.
            demo.boot.interface(demo.firmware)?;
            let port = HostPort::bind(demo.port)?;
            netns::enter()?;
            block_on(run_demo(demo, port, accel))
        }
        Command::Test(test) if test.list => {
            runner::list(test.all);
            Ok(ExitCode::SUCCESS)
        }
        Command::Test(test) => block_on(runner::run(test.filter, test.all, test.jobs)),
        Command::Bench(options) => block_on(async move {
            bench::run(options.kind, accel)
                .await
                .map(|()| ExitCode::SUCCESS)
        }),
        Command::Peer { task } => {
            block_on(async move { peer::run(task).await.map(|()| ExitCode::SUCCESS) })
        }
        Command::Part { part, file } => bench::part::run(part, &file).map(|()| ExitCode::SUCCESS),
        Command::Postgres { variable, program } => block_on(async move {
            let (program, arguments) = program.split_first().context("no program")?;
            let passed = postgres::with(&variable, program, arguments).await?;
            Ok(if passed {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }),
        Command::Scenario { name } => {
            let port = HostPort::bind(0)?;
            let scenario = scenarios::find(&name)?;
            if scenario.world {
                netns::enter()?;
            }
            block_on(scenarios::run(scenario, port, accel))
        }
    }
}

/// Runs the work on this one thread: children die with the thread that
/// started them. Ctrl-C and SIGTERM end the work in its tracks; what it
/// holds is dropped, and that ends every child.
fn block_on(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    use tokio::signal::unix::SignalKind;
    use tokio::signal::unix::signal;
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).context("catching Ctrl-C")?;
        let mut terminate = signal(SignalKind::terminate()).context("catching SIGTERM")?;
        tokio::select! {
            done = work => done,
            _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
            _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
        }
    })
}

async fn run_demo(demo: Demo, port: HostPort, accel: Option<Accel>) -> Result<ExitCode> {
    let account = Account::new(demo.json);
    let plan = Plan {
        firmware: demo.firmware,
        boot: demo.boot,
        image: demo.image,
        memory_mib: demo.memory,
    };
    let options = world::Options {
        label: "demo".into(),
        accel,
        host_port: Some(port),
        ..world::Options::default()
    };
    let mut world = World::start(options).await?;
    account.say(&format!(
        "the world is up; logs in {}",
        world.run().log("").display()
    ));
    if let Some(address) = world.host_address() {
        account.say(&format!("the API listens on https://{address}"));
    }
    let outcome = demo::run(&mut world, &plan, &account).await?;
    if demo.keep {
        demo::look_around(&world, &outcome.node, &account)?;
        account.plain("  clean up     Ctrl-C: machine, network and files go, logs stay");
        std::future::pending::<()>().await;
    }
    account.plain(&format!(
        "\nEverything is taken down again; logs stay in {}.\n\
         With --keep the machine stays up, with its API and console, until Ctrl-C.",
        world.run().log("").display()
    ));
    if account.is_json() {
        println!("{}", outcome.report);
    }
    world.stop().await;
    Ok(ExitCode::SUCCESS)
}
