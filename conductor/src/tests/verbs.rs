//! Every verb in every state, against what the documents say of it; and random
//! runs of verbs.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::ProptestConfig;
use proptest::prelude::any;
use proptest::prelude::prop;
use proptest::prelude::proptest;
use serde_json::json;
use uuid::Uuid;
use wrought_rpc::Conductor;
use wrought_rpc::Kind;
use wrought_rpc::ProvisionRequest;
use wrought_store::node::Node;
use wrought_wire::secret::Secret;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

use super::rig::Rig;
use super::rig::request;
use crate::machine;

/// Where a node of `fake-hardware` rests after a verb that its state allows;
/// `state: verb where`. What is not listed is refused.
const ENDS: &str = "
enroll: manage manageable
manageable: provide available; clean manageable; inspect manageable; adopt active; service manageable
available: active active; deploy active; manage manageable
wait call-back: abort deploy failed; deleted available; undeploy available
deploy hold: unhold wait call-back; abort deploy failed
deploy failed: active active; deploy active; rebuild active; deleted available; undeploy available; manage manageable
active: rebuild active; deleted available; undeploy available; rescue rescue; service active
error: rebuild active; deleted available; undeploy available
clean wait: abort clean failed
clean hold: unhold clean wait; abort clean failed
clean failed: manage manageable
inspect wait: abort inspect failed
inspect failed: manage manageable; inspect manageable
adopt failed: adopt active; manage manageable
rescue wait: abort rescue failed; deleted available; undeploy available
rescue: rescue rescue; unrescue active; deleted available; undeploy available
rescue failed: rescue rescue; unrescue active; deleted available; undeploy available; manage manageable
unrescue failed: rescue rescue; unrescue active; deleted available; undeploy available
service wait: abort active; deleted available; undeploy available
service hold: service active; unhold service wait; abort active
service failed: service active; rescue rescue; deleted available; undeploy available; abort active; manage manageable
";

fn ends() -> BTreeMap<(&'static str, &'static str), &'static str> {
    let lines = ENDS.lines().filter_map(|line| line.split_once(": "));
    lines
        .flat_map(|(state, verbs)| {
            verbs.split("; ").map(move |verb| {
                let (verb, end) = verb.split_once(' ').unwrap();
                ((state, verb), end)
            })
        })
        .collect()
}

/// A request with all that the verb needs.
fn whole(verb: Verb) -> ProvisionRequest {
    let steps = || {
        Some(vec![
            json!({"interface": "vendor", "step": "log_passthrough"}),
        ])
    };
    let mut asked = request(verb);
    match verb {
        Verb::Clean => asked.clean_steps = steps(),
        Verb::Service => asked.service_steps = steps(),
        Verb::Rescue => asked.rescue_password = Some(Secret::new("secret12")),
        _ => {}
    }
    asked
}

/// A node that came into a state somehow.
fn node_in(state: ProvisionState) -> Node {
    let mut node = crate::testing::node("fake-hardware");
    node.provision_state = state;
    node.target_provision_state = machine::target_of(state);
    node.driver_internal_info.insert(
        "wrought_wait".to_owned(),
        json!({"for": "agent", "then": "next"}),
    );
    node
}

async fn rests(rig: &Rig, uuid: Uuid) -> Node {
    for _ in 0..1000 {
        let node = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
        if node.reservation.is_none() && !machine::is_working(node.provision_state) {
            return node;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let node = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
    panic!(
        "{uuid} does not rest: {} {:?} {:?}",
        node.provision_state, node.reservation, node.last_error
    );
}

#[tokio::test]
async fn every_verb_in_every_state_has_the_documented_end() {
    let rig = Rig::with("fake-hardware", |_| {}, |_| {}).await;
    let ends = ends();
    let mut met = 0;
    for state in ProvisionState::ALL {
        for verb in Verb::ALL {
            let node = node_in(*state);
            let uuid = node.uuid;
            rig.store.create_node(&node).await.unwrap();
            let answer = rig.service.provision(uuid, whole(*verb)).await;
            let case = format!("{verb} in {state}");
            let end = ends.get(&(state.as_str(), verb.as_str()));
            match (end, answer) {
                (Some(end), Ok(())) => {
                    met += 1;
                    let node = rests(&rig, uuid).await;
                    let found = node.provision_state.as_str();
                    assert_eq!(found, *end, "{case}: {:?}", node.last_error);
                    let steady = node.provision_state.is_stable();
                    assert_eq!(node.target_provision_state.is_none(), steady, "{case}");
                    let quiet = *verb == Verb::Abort || node.last_error.is_none();
                    assert!(quiet, "{case}: {:?}", node.last_error);
                }
                (None, Err(refused)) => {
                    assert_eq!(refused.kind, Kind::InvalidState, "{case}");
                    let kept = rig.store.node_by_uuid(uuid).await.unwrap().unwrap();
                    assert_eq!(kept.provision_state, *state, "{case}");
                    assert_eq!((kept.reservation, kept.last_error), (None, None), "{case}");
                }
                (end, answer) => panic!("{case}: {answer:?}, documented: {end:?}"),
            }
        }
    }
    assert_eq!(met, ends.len());
}

/// The table above is the machine's: whatever it allows is listed.
#[test]
fn the_documented_ends_are_those_of_the_machine() {
    let ends = ends();
    for state in ProvisionState::ALL {
        for verb in Verb::ALL {
            let listed = ends.contains_key(&(state.as_str(), verb.as_str()));
            let allowed = machine::asked(*state, *verb).is_ok();
            assert_eq!(listed, allowed, "{verb} in {state}");
        }
    }
}

/// Asks for one thing after the other, as they are picked; after each the node
/// rests in a state that has a way out, and nobody holds it.
async fn run(picks: Vec<usize>, bmc: Vec<bool>, driver: &str) {
    let rig = Rig::with(
        driver,
        |config| {
            config.conductor.check_interval = 1;
            config.conductor.step_recoveries = 1;
        },
        |node| {
            node.automated_clean = Some(false);
            let rescue = if driver == "redfish" { "agent" } else { "fake" };
            node.interfaces
                .insert("rescue".to_owned(), rescue.to_owned());
        },
    )
    .await;
    rig.set_image().await;
    rig.ask(Verb::Manage).await;
    rests(&rig, rig.node).await;
    for (pick, gone) in picks.into_iter().zip(bmc.into_iter().chain([false; 32])) {
        let state = rig.node().await.provision_state;
        let allowed: Vec<Verb> = Verb::ALL
            .iter()
            .copied()
            .filter(|verb| machine::asked(state, *verb).is_ok())
            .collect();
        assert!(!allowed.is_empty(), "{state} has no way out");
        let verb = allowed[pick % allowed.len()];
        rig.machine.knobs(|knobs| knobs.bmc_gone = gone);
        // Refusals (maintenance, no image any more) are answers as well.
        let refused = rig.service.provision(rig.node, whole(verb)).await.err();
        if let Some(refused) = &refused {
            assert_ne!(refused.kind, Kind::Internal, "{verb} in {state}: {refused}");
        }
        let node = rests(&rig, rig.node).await;
        assert_eq!(node.reservation, None);
        if node.maintenance {
            rig.machine.knobs(|knobs| knobs.bmc_gone = false);
            rig.service
                .set_maintenance(rig.node, false, None)
                .await
                .unwrap();
        }
    }
    rig.service.shutdown().await;
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_verbs_never_trap_a_node(picks in prop::collection::vec(0usize..60, 1..25)) {
        block_on(run(picks, Vec::new(), "fake-hardware"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_verbs_and_a_failing_bmc_never_trap_a_machine(
        picks in prop::collection::vec(0usize..60, 4..10),
        bmc in prop::collection::vec(any::<bool>(), 4..10),
    ) {
        block_on(run(picks, bmc, "redfish"));
    }
}
