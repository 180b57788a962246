//! What must hold, shown with real machines.

mod apart;
mod archive;
mod bad_images;
mod bad_input;
mod context;
mod demos;
mod disks;
mod firmware;
mod inspection;
mod killed_server;
mod kills;
mod leftovers;
mod machines;
mod managers;
mod networks;
mod nothing;
mod openstack;
mod peers;
mod raid;
mod ramdisks;
mod real_agent;
mod real_ironic;
mod rescue;
mod schemathesis;
mod steps;
mod sushy;

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

/// All of them, in the order in which they start: the longest first, so that
/// two at a time end together. A name with an underscore in
/// front is part of another scenario.
#[expect(
    clippy::needless_update,
    reason = "some rows have all that others leave out"
)]
pub const SCENARIOS: &[Scenario] = &[
    scenario!(
        "demo_uefi_ipxe",
        demos::uefi_ipxe,
        30,
        "the demo with Debian, then undeploy and deploy again"
    ),
    scenario!(
        "kill_matrix",
        kills::matrix,
        90,
        "a conductor killed at every boundary of the journal and restarted",
        slow = true,
        world = false
    ),
    scenario!(
        "kill_take_over",
        kills::take_over,
        90,
        "a conductor killed at every boundary; another one takes over",
        slow = true,
        world = false
    ),
    scenario!(
        "kill_storm",
        kills::storm,
        30,
        "300 deploys; conductors killed and stopped, the database cut off and restarted",
        slow = true,
        world = false
    ),
    scenario!(
        "sushy_emulator",
        sushy::deploy,
        30,
        "a deploy through somebody else's Redfish service",
        slow = true
    ),
    scenario!(
        "corrupt_image",
        bad_images::corrupt,
        20,
        "one flipped byte: both digests named, nothing boots"
    ),
    scenario!(
        "openstack_client",
        openstack::client,
        20,
        "the unmodified `openstack baremetal` does it all"
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
    scenario!(
        "peer_itself",
        peers::itself,
        30,
        "a real Ironic still says what was recorded of it",
        slow = true,
        world = false
    ),
    scenario!(
        "states_oracle",
        peers::states,
        3,
        "the state machine beside a real Ironic's, edge by edge",
        slow = true,
        world = false
    ),
    scenario!(
        "peer_inspection",
        peers::inspection,
        30,
        "the same inventories become the same ports and properties as in a real Ironic",
        slow = true,
        world = false
    ),
    scenario!(
        "inspection",
        inspection::inspects_and_discovers,
        20,
        "our agent inspects a machine; a rule sets a trait; an unknown machine enrols itself",
        slow = true
    ),
    scenario!(
        "network_of_a_ramdisk",
        networks::tagged,
        20,
        "a VLAN on a bond by network data, then DHCP on a VLAN alone",
        slow = true
    ),
    scenario!(
        "ramdisk_aarch64",
        ramdisks::aarch64,
        20,
        "the ramdisk of an ARM machine boots to a first heartbeat",
        slow = true,
        world = false
    ),
    scenario!(
        "rescue_login",
        rescue::login,
        30,
        "somebody logs in to a rescued machine with the password of the request, nobody before",
        slow = true
    ),
    scenario!(
        "real_agent",
        real_agent::clean_and_deploy,
        20,
        "our conductor drives a real ironic-python-agent through clean and deploy",
        slow = true
    ),
    scenario!(
        "real_ironic",
        real_ironic::our_agent,
        20,
        "a real Ironic inspects, cleans and deploys by our agent",
        slow = true,
        world = false
    ),
    scenario!(
        "ramdisk_boots",
        ramdisks::boots,
        15,
        "kernel with initramfs, UKI and disc boot to a first heartbeat",
        slow = true,
        world = false
    ),
    scenario!(
        "small_memory",
        ramdisks::small_memory,
        20,
        "256 MB of memory are enough for an image of 20 GiB",
        slow = true
    ),
    scenario!(
        "raid_boot",
        raid::boot,
        30,
        "software RAID-1: made in cleaning, deployed on, started without either disk",
        slow = true
    ),
    scenario!(
        "hardware_managers",
        managers::steps,
        20,
        "a vendor's hardware manager and burn-in steps in a real ramdisk",
        slow = true
    ),
    scenario!(
        "stacked_storage",
        managers::stacked_storage,
        20,
        "a metadata wipe over LVM on md, LUKS and ZFS; an array made anew is empty",
        slow = true
    ),
    scenario!(
        "firmware_memory",
        firmware::memory,
        25,
        "crash records and boot entries go from a machine's firmware, all else stays",
        slow = true
    ),
    scenario!(
        "peer_story",
        peers::story,
        5,
        "hundreds of exchanges as a real Ironic answers them",
        world = false
    ),
    scenario!(
        "peer_commands",
        peers::commands,
        5,
        "every command of the unmodified `openstack baremetal`",
        world = false
    ),
    scenario!(
        "peer_program",
        peers::program,
        5,
        "a program on the unmodified openstacksdk",
        world = false
    ),
    scenario!(
        "operators_steps",
        steps::operators_own,
        5,
        "templates, runbooks, a plug-in, holds and aborts by the unmodified client",
        world = false
    ),
    scenario!(
        "peer_versions",
        peers::versions,
        5,
        "what each microversion shows and takes, as a real Ironic has it",
        world = false
    ),
    scenario!(
        "bad_input_images",
        bad_images::others,
        15,
        "wrong images: a clear error, an empty disk, a next attempt"
    ),
    scenario!(
        "bad_input_tokens",
        bad_input::tokens,
        10,
        "nobody passes for the agent"
    ),
    scenario!(
        "bad_input_requests",
        bad_input::requests,
        3,
        "wrong requests have clear answers"
    ),
    scenario!(
        "machine_uefi",
        machines::uefi,
        5,
        "OVMF boots from the network, then finds an empty disk"
    ),
    scenario!("machine_bios", machines::bios, 5, "the same with SeaBIOS"),
    scenario!(
        "side_by_side",
        leftovers::side_by_side,
        5,
        "two worlds at once; nothing stays after Ctrl-C",
        world = false
    ),
    scenario!(
        "api_and_conductors_apart",
        apart::lives,
        5,
        "one API and two conductors on PostgreSQL share nodes out",
        world = false
    ),
    scenario!(
        "sigkill_leaves_nothing",
        leftovers::sigkill,
        5,
        "nothing stays of a killed world",
        world = false
    ),
    scenario!(
        "schemathesis",
        schemathesis::requests,
        30,
        "10,000 requests made of the OpenAPI document",
        slow = true,
        world = false
    ),
    scenario!(
        "erase_disks",
        disks::erase,
        20,
        "NVMe, SCSI, SAS, SATA, virtio and more in one machine, listed, guarded and erased",
        slow = true
    ),
    scenario!(
        "killed_server",
        killed_server::deploy,
        5,
        "the server killed twice in a deploy; the node gets active",
        world = false
    ),
    scenario!(
        "kill_sample",
        kills::sample,
        10,
        "a server killed at some boundaries of a deploy and a tear-down",
        world = false
    ),
    scenario!("_hold", leftovers::hold, 10, "a world that is up"),
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
