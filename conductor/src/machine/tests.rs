//! The machine against the list of edges as it was read from Ironic, and
//! against properties that every machine of this kind must have.

use std::collections::BTreeSet;

use proptest::prelude::prop;
use proptest::prelude::prop_assert;
use proptest::prelude::proptest;
use wrought_wire::state::ProvisionState;
use wrought_wire::state::Verb;

use super::EDGES;
use super::Event;
use super::Origin;
use super::asked;
use super::is_waiting;
use super::is_working;
use super::next;
use super::target_of;

/// Ironic's machine, written down apart from the table: `from: event to`.
const IRONIC: &str = "
enroll: manage verifying
verifying: done manageable; fail enroll
manageable: provide cleaning; clean cleaning; inspect inspecting; adopt adopting
available: deploy deploying; manage manageable
deploying: wait wait call-back; hold deploy hold; done active; fail deploy failed
wait call-back: resume deploying; hold deploy hold; fail deploy failed; abort deploy failed; delete deleting
deploy hold: unhold wait call-back; abort deploy failed
deploy failed: deploy deploying; rebuild deploying; delete deleting
active: rebuild deploying; delete deleting; rescue rescuing; service servicing
error: rebuild deploying; delete deleting
deleting: clean cleaning; fail error
cleaning: done available; manage manageable; fail clean failed; wait clean wait; hold clean hold
clean wait: resume cleaning; fail clean failed; abort clean failed; hold clean hold
clean hold: unhold clean wait; abort clean failed
clean failed: manage manageable
inspecting: done manageable; fail inspect failed; wait inspect wait
inspect wait: done manageable; resume inspecting; fail inspect failed; abort inspect failed
inspect failed: manage manageable; inspect inspecting
adopting: done active; fail adopt failed
adopt failed: adopt adopting; manage manageable
rescuing: done rescue; wait rescue wait; fail rescue failed
rescue wait: resume rescuing; fail rescue failed; abort rescue failed; delete deleting
rescue: rescue rescuing; unrescue unrescuing; delete deleting
rescue failed: rescue rescuing; unrescue unrescuing; delete deleting
unrescuing: done active; fail unrescue failed
unrescue failed: rescue rescuing; unrescue unrescuing; delete deleting
servicing: done active; wait service wait; hold service hold; fail service failed
service wait: resume servicing; hold service hold; fail service failed; abort service failed; delete deleting
service hold: service servicing; unhold service wait; fail service failed; abort service failed
service failed: service servicing; rescue rescuing; wait service wait; hold service hold; delete deleting; abort active
";

/// What Wrought adds.
const OURS: &str = "
manageable: service servicing
deploy failed: manage manageable
rescue failed: manage manageable
service failed: manage manageable
servicing: manage manageable
";

type Triple = (&'static str, &'static str, &'static str);

fn parse(text: &'static str) -> BTreeSet<Triple> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(from, edges)| {
            edges.split("; ").map(move |edge| {
                let (event, to) = edge.split_once(' ').unwrap();
                (from, event, to)
            })
        })
        .collect()
}

fn ours(origin: Origin) -> BTreeSet<Triple> {
    EDGES
        .iter()
        .filter(|edge| edge.origin == origin)
        .map(|edge| (edge.from.as_str(), edge.event.as_str(), edge.to.as_str()))
        .collect()
}

#[test]
fn edges_are_ironics_and_the_listed_additions() {
    assert_eq!(ours(Origin::Ironic), parse(IRONIC));
    assert_eq!(ours(Origin::Wrought), parse(OURS));
    let pairs: BTreeSet<_> = EDGES
        .iter()
        .map(|e| (e.from.as_str(), e.event.as_str()))
        .collect();
    assert_eq!(
        pairs.len(),
        EDGES.len(),
        "a state and an event have one edge"
    );
}

#[test]
fn each_pair_moves_or_is_refused() {
    for state in ProvisionState::ALL {
        for event in Event::ALL {
            let edge = EDGES.iter().find(|e| e.from == *state && e.event == *event);
            match (next(*state, *event), edge) {
                (Ok(step), Some(edge)) => {
                    assert_eq!(step.to, edge.to);
                    assert_eq!(step.target.is_none(), edge.to.is_stable());
                    assert_eq!(
                        step.towards(Some(ProvisionState::Manageable))
                            .target
                            .is_none(),
                        edge.to.is_stable()
                    );
                }
                (Err(refused), None) => {
                    assert_eq!((refused.state, refused.event), (*state, *event));
                }
                (got, edge) => panic!("{state} {event}: {got:?} against {edge:?}"),
            }
        }
    }
}

#[test]
fn every_state_has_an_exit_and_is_reachable() {
    for state in ProvisionState::ALL {
        assert!(
            EDGES.iter().any(|edge| edge.from == *state),
            "{state} has no exit"
        );
        let entered = *state == ProvisionState::Enroll || EDGES.iter().any(|e| e.to == *state);
        assert!(entered, "{state} cannot be reached");
    }
}

#[test]
fn work_and_waiting_can_fail() {
    for state in ProvisionState::ALL {
        if is_working(*state) || is_waiting(*state) {
            assert!(next(*state, Event::Fail).is_ok(), "{state} cannot fail");
            assert!(target_of(*state).is_some(), "{state} has no target");
        }
    }
}

#[test]
fn nobody_asks_for_anything_while_the_conductor_works() {
    for state in ProvisionState::ALL {
        for verb in Verb::ALL {
            let free = next(*state, (*verb).into()).is_ok() && !is_working(*state);
            assert_eq!(asked(*state, *verb).is_ok(), free, "{verb} in {state}");
        }
    }
}

#[test]
fn page_is_the_table() {
    assert_eq!(
        include_str!("../../../docs/state-machine.md"),
        super::markdown(),
        "run `cargo test -p wrought-conductor -- --ignored write_page`"
    );
}

#[test]
#[ignore = "writes docs/state-machine.md"]
fn write_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/state-machine.md");
    std::fs::write(path, super::markdown()).unwrap();
}

proptest! {
    /// From wherever a run of events led, some further events lead to rest.
    #[test]
    fn no_run_of_events_is_a_trap(picks in prop::collection::vec(0usize..Event::ALL.len(), 0..60)) {
        let mut state = ProvisionState::Enroll;
        for pick in picks {
            if let Ok(step) = next(state, Event::ALL[pick]) {
                state = step.to;
            }
        }
        let mut seen = BTreeSet::from([state.as_str()]);
        let mut front = vec![state];
        while let Some(at) = front.pop() {
            for edge in EDGES.iter().filter(|edge| edge.from == at) {
                if seen.insert(edge.to.as_str()) {
                    front.push(edge.to);
                }
            }
        }
        prop_assert!(seen.contains("available") && seen.contains("active"));
    }
}
