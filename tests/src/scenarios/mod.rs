//! What must hold, shown with real machines.

mod context;
mod demos;
mod machines;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;

use crate::accel::Accel;
use crate::netns::HostPort;

pub use context::Context;

/// A scenario's work.
type Work = for<'a> fn(&'a mut Context) -> std::pin::Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// One scenario.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Whether it needs `--all`.
    pub slow: bool,
    /// Whether it runs in a namespace of its own.
    pub world: bool,
    /// Longest time that it may take.
    pub limit: Duration,
    work: Work,
}

/// A row of [`SCENARIOS`].
macro_rules! scenario {
    ($name:literal, $function:path, $minutes:literal, $shows:literal $(, $flag:ident = $value:literal)*) => {
        Scenario {
            name: $name,
            shows: $shows,
            limit: Duration::from_secs($minutes * 60),
            work: |context| Box::pin($function(context)),
            $($flag: $value,)*
            ..Scenario { name: "", shows: "", slow: false, world: true, limit: Duration::ZERO,
                work: |_| Box::pin(async { Ok(()) }) }
        }
    };
}

/// All of them, in the order in which they run.
pub const SCENARIOS: &[Scenario] = &[
    scenario!(
        "machine_uefi",
        machines::uefi,
        5,
        "OVMF boots from the network; power, override and reset work"
    ),
    scenario!("machine_bios", machines::bios, 5, "the same with SeaBIOS"),
    scenario!(
        "demo_uefi_ipxe",
        demos::uefi_ipxe,
        20,
        "the demo with Debian, then undeploy and deploy again"
    ),
    scenario!(
        "demo_bios_ipxe",
        demos::bios_ipxe,
        20,
        "the demo on a BIOS machine"
    ),
    scenario!(
        "demo_vmedia",
        demos::vmedia,
        20,
        "the demo by virtual media"
    ),
];

/// The scenario of this name.
pub fn find(name: &str) -> Result<&'static Scenario> {
    SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .with_context(|| format!("no scenario is named {name:?}"))
}

/// Runs it in this process, which is in its namespace already.
pub async fn run(scenario: &Scenario, port: HostPort, accel: Option<Accel>) -> Result<ExitCode> {
    let mut context = Context::new(scenario.name, port, accel);
    let done = (scenario.work)(&mut context).await;
    context.stop().await;
    done.map(|()| ExitCode::SUCCESS)
}
