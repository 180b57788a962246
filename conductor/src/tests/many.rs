//! Several conductors: who has which node, and what becomes of a node whose
//! conductor goes, comes, or was thought dead.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_store::HistoryQuery;
use wrought_store::lock::LockError;
use wrought_wire::state::PowerTarget;
use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::fleet::Fleet;
use super::fleet::Pair;
use super::fleet::until;
use super::rig::Rig;
use super::rig::request;
use crate::Service;
use crate::membership;

/// Waits until each of them sees that many alive.
async fn see(services: &[&Arc<Service>], count: usize) {
    until("the ring", async || {
        services
            .iter()
            .all(|service| service.membership.members().alive().len() == count)
    })
    .await;
}

/// A pair that the ring of these hosts gives to `host`.
async fn pair_of(fleet: &Fleet, hosts: &[&str], host: &str, number: u8) -> Pair {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let ring = wrought_rpc::ring::Ring::new(&hosts);
    loop {
        let uuid = Uuid::new_v4();
        if ring.owner(uuid) == Some(host) {
            return fleet.pair_as(uuid, "", number).await;
        }
    }
}

#[tokio::test]
async fn rows_tell_who_is_there_with_what() {
    let fleet = Fleet::new().await;
    let mut config = fleet.config("c1");
    config.conductor.group = "Rack-A".to_owned();
    config.rpc_url = Some("https://c1.test:8089".to_owned());
    let service = fleet.conductor_with(config, &[]).await;
    let row = fleet.store.conductors().await.unwrap().remove(0);
    assert_eq!(
        (row.hostname.as_str(), row.conductor_group.as_str()),
        ("c1", "rack-a")
    );
    assert!(row.drivers.contains(&"redfish".to_owned()));
    assert_eq!(row.rpc_url.as_deref(), Some("https://c1.test:8089"));
    let boot = &row.interfaces["redfish"]["boot"];
    assert_eq!(boot[0], "ipxe", "the default is first: {boot:?}");
    assert!(row.properties["redfish"].contains_key("redfish_address"));
    assert!(row.is_alive(Duration::from_secs(4)));
    let first = row.updated_at;
    until("a sign of life", async || {
        fleet.store.conductors().await.unwrap()[0].updated_at > first
    })
    .await;
    service.shutdown().await;
    let row = fleet.store.conductors().await.unwrap().remove(0);
    assert!(!row.online && !row.is_alive(Duration::from_secs(4)));
}

#[tokio::test]
async fn each_node_is_one_conductors_and_the_others_say_whose() {
    let fleet = Fleet::new().await;
    let mut services = Vec::new();
    for host in ["c1", "c2", "c3"] {
        services.push(fleet.conductor(host, &[]).await);
    }
    see(&services.iter().collect::<Vec<_>>(), 3).await;
    let mut hosts = HashSet::new();
    for number in 0..12 {
        let pair = fleet.pair("", number).await;
        let mut owners = Vec::new();
        for service in &services {
            match service.set_maintenance(pair.uuid, true, None).await {
                Ok(()) => owners.push(service.config.host.clone()),
                Err(error) => assert_eq!(error.kind, Kind::NotMine, "{error}"),
            }
        }
        assert_eq!(owners.len(), 1, "{owners:?}");
        for service in &services {
            assert_eq!(
                service.membership.owner("", "redfish", pair.uuid).as_ref(),
                Some(&owners[0])
            );
            let read = service.supported_boot_devices(pair.uuid).await;
            let refused = read.err().map(|error| (error.kind, error.message));
            let mine = service.config.host == owners[0];
            let not_mine = refused
                .as_ref()
                .is_some_and(|(kind, text)| *kind == Kind::NotMine && text.contains(&owners[0]));
            assert_eq!(not_mine, !mine, "{refused:?}");
        }
        let node = fleet.node(pair.uuid).await;
        assert_eq!(node.conductor_affinity.as_ref(), Some(&owners[0]));
        hosts.extend(owners);
    }
    assert!(hosts.len() > 1, "the ring shares nodes out");
}

#[tokio::test]
async fn groups_are_apart_and_a_server_on_its_own_is_for_all() {
    let fleet = Fleet::new().await;
    let mut config = fleet.config("a1");
    config.conductor.group = "rack-a".to_owned();
    let of_a = fleet.conductor_with(config, &[]).await;
    let of_none = fleet.conductor("n1", &[]).await;
    see(&[&of_a, &of_none], 2).await;
    for (number, group, owner) in [
        (1, "rack-a", Some(&of_a)),
        (2, "", Some(&of_none)),
        (3, "b", None),
    ] {
        let pair = fleet.pair(group, number).await;
        for service in [&of_a, &of_none] {
            let mine = owner.is_some_and(|owner| Arc::ptr_eq(owner, service));
            assert_eq!(
                service.is_mine(group, "redfish", pair.uuid),
                mine,
                "{group}"
            );
            let done = service.set_maintenance(pair.uuid, true, None).await;
            assert_eq!(done.is_ok(), mine, "{done:?}");
        }
    }
    let mut config = fleet.config("alone");
    config.alone = true;
    let alone = fleet.conductor_with(config, &[]).await;
    assert!(alone.is_mine("b", "redfish", Uuid::new_v4()));
}

#[tokio::test]
async fn a_dead_owners_deploy_goes_on_and_each_command_is_given_once() {
    let fleet = Fleet::new().await;
    let pair = pair_of(&fleet, &["c1", "c2"], "c1", 1).await;
    let first = fleet.conductor("c1", &[&pair.machine]).await;
    let second = fleet.conductor("c2", &[&pair.machine]).await;
    see(&[&first, &second], 2).await;
    pair.machine.meets(Some(Arc::clone(&first)));
    fleet.make_available(&first, &pair).await;
    pair.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(1500));
    let before = pair.machine.logged().len();
    let refused = second.provision(pair.uuid, request(Verb::Active)).await;
    assert_eq!(refused.unwrap_err().kind, Kind::NotMine);
    first
        .provision(pair.uuid, request(Verb::Active))
        .await
        .unwrap();
    until("write_image", async || {
        pair.machine.count("run deploy.write_image") == 1
    })
    .await;
    pair.machine.crash_conductor().await;
    // The agent goes on, and calls whoever has its node now.
    pair.machine.meets(Some(Arc::clone(&second)));
    let node = fleet.reaches(&pair, S::Active).await;
    assert_eq!(node.last_error, None);
    assert_eq!(node.conductor_affinity.as_deref(), Some("c2"));
    let log = pair.machine.logged().split_off(before);
    for once in [
        "run deploy.write_image",
        "done deploy.write_image",
        "boots pxe",
        "boots disk",
    ] {
        let times = log.iter().filter(|line| *line == once).count();
        assert_eq!(times, 1, "{once}: {log:#?}");
    }
    see(&[&second], 1).await;
}

/// Killed at several moments: whatever was under way is ended by the other.
#[tokio::test]
async fn a_dead_owner_is_replaced_at_any_moment() {
    let fleet = Fleet::new().await;
    let pair = pair_of(&fleet, &["c1", "c2"], "c1", 1).await;
    let second = fleet.conductor("c2", &[&pair.machine]).await;
    let mut first = fleet.conductor("c1", &[&pair.machine]).await;
    see(&[&first, &second], 2).await;
    pair.machine.meets(Some(Arc::clone(&first)));
    fleet.make_available(&first, &pair).await;
    for moment in [3, 60, 160] {
        let before = pair.machine.logged().len();
        first
            .provision(pair.uuid, request(Verb::Active))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(moment)).await;
        pair.machine.crash_conductor().await;
        pair.machine.meets(Some(Arc::clone(&second)));
        fleet.reaches(&pair, S::Active).await;
        let log = pair.machine.logged().split_off(before);
        for boot in log.split(|line| line == "boots pxe") {
            let writes = boot.iter().filter(|line| *line == "run deploy.write_image");
            assert!(writes.count() <= 1, "after {moment} ms: {log:#?}");
        }
        // It comes back, and has its node again.
        first = fleet.conductor("c1", &[&pair.machine]).await;
        see(&[&first, &second], 2).await;
        pair.machine.meets(Some(Arc::clone(&first)));
        first
            .provision(pair.uuid, request(Verb::Deleted))
            .await
            .unwrap();
        fleet.reaches(&pair, S::Available).await;
        fleet.set_image(&first, &pair).await;
    }
}

#[tokio::test]
async fn who_joins_gets_its_nodes_when_they_are_free() {
    let fleet = Fleet::new().await;
    let pair = pair_of(&fleet, &["c1", "c2"], "c2", 1).await;
    let first = fleet.conductor("c1", &[&pair.machine]).await;
    pair.machine.meets(Some(Arc::clone(&first)));
    fleet.make_available(&first, &pair).await;
    pair.machine
        .knobs(|knobs| knobs.step_time = Duration::from_millis(2500));
    let before = pair.machine.logged().len();
    first
        .provision(pair.uuid, request(Verb::Active))
        .await
        .unwrap();
    until("write_image", async || {
        pair.machine.count("run deploy.write_image") == 1
    })
    .await;
    let second = fleet.conductor("c2", &[&pair.machine]).await;
    see(&[&first, &second], 2).await;
    assert!(second.is_mine("", "redfish", pair.uuid));
    let refused = first
        .change_power(pair.uuid, PowerTarget::Off, None)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::NotMine);
    pair.machine.meets(Some(Arc::clone(&second)));
    let node = fleet.reaches(&pair, S::Active).await;
    assert_eq!(node.conductor_affinity.as_deref(), Some("c2"));
    let log = pair.machine.logged().split_off(before);
    let writes = log.iter().filter(|line| *line == "run deploy.write_image");
    assert_eq!(writes.count(), 1, "{log:#?}");
}

#[tokio::test]
async fn who_leaves_hands_its_work_on_at_once() {
    let fleet = Fleet::new().await;
    let pair = pair_of(&fleet, &["c1", "c2"], "c1", 1).await;
    let first = fleet.conductor("c1", &[&pair.machine]).await;
    let second = fleet.conductor("c2", &[&pair.machine]).await;
    see(&[&first, &second], 2).await;
    pair.machine.meets(Some(Arc::clone(&first)));
    fleet.make_available(&first, &pair).await;
    pair.machine
        .knobs(|knobs| knobs.bmc_delay = Duration::from_millis(150));
    let before = pair.machine.logged().len();
    first
        .provision(pair.uuid, request(Verb::Active))
        .await
        .unwrap();
    // In the middle of the first step: it is done, the second is another's.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = tokio::time::Instant::now();
    first.leave().await;
    let refused = first
        .set_maintenance(pair.uuid, true, None)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::NotMine, "{refused}");
    first.shutdown().await;
    assert_eq!(first.held.get(), 0, "nothing was cut off");
    assert!(began.elapsed() < Duration::from_secs(15));
    let rows = fleet.store.conductors().await.unwrap();
    assert!(rows.iter().any(|row| row.hostname == "c1" && !row.online));
    pair.machine.meets(Some(Arc::clone(&second)));
    let node = fleet.reaches(&pair, S::Active).await;
    assert_eq!(node.conductor_affinity.as_deref(), Some("c2"));
    let log = pair.machine.logged().split_off(before);
    let boots = log.iter().filter(|line| *line == "boots pxe").count();
    assert_eq!(boots, 1, "{log:#?}");
}

#[tokio::test]
async fn one_that_was_taken_for_dead_drops_its_work_and_begins_anew() {
    let fleet = Fleet::new().await;
    let pair = pair_of(&fleet, &["c1", "c2"], "c1", 1).await;
    let mut config = fleet.config("c1");
    // As if it were stopped: it says nothing by itself.
    config.conductor.keepalive_interval = 3600;
    let first = fleet.conductor_with(config, &[&pair.machine]).await;
    let second = fleet.conductor("c2", &[&pair.machine]).await;
    pair.machine.meets(Some(Arc::clone(&first)));
    assert!(first.is_mine("", "redfish", pair.uuid));
    see(&[&second], 1).await;
    assert!(
        !first.is_mine("", "redfish", pair.uuid),
        "it knows by its own clock"
    );
    let refused = first
        .provision(pair.uuid, request(Verb::Manage))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::NotMine);
    assert!(second.is_mine("", "redfish", pair.uuid));
    let instance = |rows: Vec<wrought_store::Conductor>| {
        let own = rows.into_iter().find(|row| row.hostname == "c1");
        own.unwrap().instance
    };
    let before = instance(fleet.store.conductors().await.unwrap());
    first.watch(pair.uuid);
    membership::beat(&first).await;
    assert_ne!(instance(fleet.store.conductors().await.unwrap()), before);
    assert!(first.is_mine("", "redfish", pair.uuid), "it is back");
    see(&[&second], 2).await;
}

#[tokio::test]
async fn a_second_process_of_one_name_takes_over_and_the_first_stands_back() {
    let fleet = Fleet::new().await;
    let first = fleet.conductor("c1", &[]).await;
    let node = Uuid::new_v4();
    assert!(first.is_mine("", "redfish", node));
    let second = fleet.conductor("c1", &[]).await;
    membership::beat(&first).await;
    assert!(!first.is_mine("", "redfish", node));
    assert!(second.is_mine("", "redfish", node));
    second.shutdown().await;
    until("its return", async || first.is_mine("", "redfish", node)).await;
}

#[tokio::test]
async fn locks_of_the_dead_last_no_longer_than_the_lease() {
    let fleet = Fleet::new().await;
    let pair = fleet.pair("", 1).await;
    let lease = Duration::from_secs(3);
    fleet
        .store
        .lock_node(pair.uuid, "long-gone", lease)
        .await
        .unwrap();
    let service = fleet.conductor("c1", &[&pair.machine]).await;
    let shown = fleet.node(pair.uuid).await.reservation;
    assert_eq!(shown.as_deref(), Some("long-gone"), "who holds it is told");
    // The request waits its time out for a lock that runs out meanwhile.
    service
        .set_maintenance(pair.uuid, true, None)
        .await
        .unwrap();
    assert_eq!(fleet.node(pair.uuid).await.reservation, None);
}

#[tokio::test]
async fn those_who_wait_for_a_lock_get_it_in_the_order_in_which_they_came() {
    let fleet = Fleet::new().await;
    let pair = fleet.pair("", 1).await;
    let service = fleet.conductor("c1", &[&pair.machine]).await;
    let task = crate::Task::take(&service, pair.uuid, Duration::from_secs(5))
        .await
        .unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..8 {
        let (service, order, node) = (Arc::clone(&service), Arc::clone(&order), pair.uuid);
        waiters.push(tokio::spawn(async move {
            let task = crate::Task::take(&service, node, Duration::from_secs(20)).await;
            let task = task.unwrap();
            order.lock().unwrap().push(number);
            task.release().await;
        }));
        // Each is in the line before the next one comes.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let past = crate::Task::take(&service, pair.uuid, Duration::ZERO).await;
    assert!(matches!(past, Err(crate::Error::Locked { host, .. }) if host == "c1"));
    task.release().await;
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    let free = fleet
        .store
        .lock_node(pair.uuid, "x", Duration::from_secs(1))
        .await;
    assert!(!matches!(free, Err(LockError::Held { .. })));
}

#[tokio::test]
async fn a_machine_that_was_to_boot_from_the_dead_is_started_anew() {
    let fleet = Fleet::new().await;
    let pair = pair_of(&fleet, &["c1", "c2"], "c1", 1).await;
    let first = fleet.conductor("c1", &[&pair.machine]).await;
    let second = fleet.conductor("c2", &[&pair.machine]).await;
    see(&[&first, &second], 2).await;
    pair.machine.meets(Some(Arc::clone(&first)));
    first
        .provision(pair.uuid, request(Verb::Manage))
        .await
        .unwrap();
    fleet.reaches(&pair, S::Manageable).await;
    // Its ramdisk does not come up, because nobody serves it any more.
    pair.machine.knobs(|knobs| knobs.dead = true);
    first
        .provision(pair.uuid, request(Verb::Provide))
        .await
        .unwrap();
    fleet.reaches(&pair, S::CleanWait).await;
    pair.machine.crash_conductor().await;
    pair.machine.knobs(|knobs| knobs.dead = false);
    pair.machine.meets(Some(Arc::clone(&second)));
    let node = fleet.reaches(&pair, S::Available).await;
    assert_eq!(node.last_error, None);
    let boots = pair.machine.count("boots pxe");
    assert_eq!(boots, 2, "once in vain, once anew");
}

/// The same where no list of steps waits: in an inspection and in a rescue.
#[tokio::test]
async fn inspections_and_rescues_that_were_to_boot_from_the_dead_begin_anew() {
    for verb in [Verb::Inspect, Verb::Rescue] {
        let fleet = Fleet::new().await;
        let pair = pair_of(&fleet, &["c1", "c2"], "c1", 1).await;
        let first = fleet.conductor("c1", &[&pair.machine]).await;
        let second = fleet.conductor("c2", &[&pair.machine]).await;
        see(&[&first, &second], 2).await;
        pair.machine.meets(Some(Arc::clone(&first)));
        let mut node = fleet.node(pair.uuid).await;
        node.interfaces
            .insert("inspect".to_owned(), "agent".to_owned());
        node.interfaces
            .insert("rescue".to_owned(), "agent".to_owned());
        let fields = vec![
            "inspect_interface".to_owned(),
            "rescue_interface".to_owned(),
        ];
        first.update_node(node, fields, false).await.unwrap();
        let mut asked = request(verb);
        let waits = match verb {
            Verb::Inspect => {
                first
                    .provision(pair.uuid, request(Verb::Manage))
                    .await
                    .unwrap();
                fleet.reaches(&pair, S::Manageable).await;
                S::InspectWait
            }
            _ => {
                fleet.make_available(&first, &pair).await;
                first
                    .provision(pair.uuid, request(Verb::Active))
                    .await
                    .unwrap();
                fleet.reaches(&pair, S::Active).await;
                asked.rescue_password = Some(wrought_wire::secret::Secret::new("secret12"));
                S::RescueWait
            }
        };
        pair.machine.knobs(|knobs| knobs.dead = true);
        first.provision(pair.uuid, asked).await.unwrap();
        fleet.reaches(&pair, waits).await;
        let before = pair.machine.count("boots pxe");
        pair.machine.crash_conductor().await;
        // From here on somebody would serve its ramdisk.
        pair.machine.meets(Some(Arc::clone(&second)));
        until("a start from the other conductor", async || {
            pair.machine.count("boots pxe") == before + 1
        })
        .await;
        let node = fleet.reaches(&pair, waits).await;
        assert_eq!(node.conductor_affinity.as_deref(), Some("c2"));
        assert_eq!(Rig::internal(&node, "wrought_boot")["host"], "c2");
        let history = fleet
            .store
            .history(pair.uuid, &HistoryQuery::default())
            .await;
        let told = history
            .unwrap()
            .iter()
            .any(|row| row.event.contains("which is gone"));
        assert!(told);
    }
}
