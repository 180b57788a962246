//! The table as a page for readers.

use std::fmt::Write;

use wrought_wire::state::ProvisionState;

use super::EDGES;
use super::Origin;
use super::is_waiting;
use super::is_working;
use super::target_of;

/// `docs/state-machine.md`: a Mermaid diagram of every edge and a table of
/// the states.
pub fn markdown() -> String {
    let mut page = String::from(
        "# The provision state machine\n\n\
         Generated from `conductor/src/machine/table.rs`; a test keeps it so.\n\
         Edges marked with `*` are Wrought's own, all others are Ironic's.\n\n\
         ```mermaid\nstateDiagram-v2\n",
    );
    let line = |page: &mut String, text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = page.write_fmt(text);
        page.push('\n');
    };
    for state in ProvisionState::ALL {
        line(
            &mut page,
            format_args!("    state \"{state}\" as {}", id(*state)),
        );
    }
    line(
        &mut page,
        format_args!("    [*] --> {}", id(ProvisionState::Enroll)),
    );
    for edge in EDGES {
        let mark = if edge.origin == Origin::Wrought {
            "*"
        } else {
            ""
        };
        line(
            &mut page,
            format_args!(
                "    {} --> {} : {}{mark}",
                id(edge.from),
                id(edge.to),
                edge.event
            ),
        );
    }
    page.push_str("```\n\n| state | kind | going to | leaves by |\n|---|---|---|---|\n");
    for state in ProvisionState::ALL {
        let kind = match *state {
            state if state.is_stable() => "stable",
            state if is_working(state) => "the conductor works",
            state if is_waiting(state) => "waits for the ramdisk, with a time-out",
            state if state.is_failure() => "failed",
            _ => "held until `unhold` or `abort`",
        };
        let target = target_of(*state).map_or("–", ProvisionState::as_str);
        let exits: Vec<String> = EDGES
            .iter()
            .filter(|edge| edge.from == *state)
            .map(|edge| {
                let mark = if edge.origin == Origin::Wrought {
                    "\\*"
                } else {
                    ""
                };
                format!("{}{mark} → {}", edge.event, edge.to)
            })
            .collect();
        line(
            &mut page,
            format_args!("| {state} | {kind} | {target} | {} |", exits.join("; ")),
        );
    }
    page
}

fn id(state: ProvisionState) -> String {
    state.as_str().replace([' ', '-'], "_")
}
