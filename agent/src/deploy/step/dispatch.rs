//! Who has which step: this agent, or a hardware manager.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::offers::OFFERS;
use super::offers::Offer;
use super::offers::Purpose;
use crate::command::HARDWARE_MANAGER;
use crate::command::HARDWARE_MANAGER_VERSION;
use crate::managers::Manager;
use crate::managers::ManagerStep;

/// Our own support of any machine: generic, as Ironic's agent has it.
const OWN_SUPPORT: u8 = 1;

/// Who runs a step.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Own(&'static Offer),
    Manager(&'a Manager, &'a ManagerStep),
}

/// A step of the list.
pub(super) struct Listed<'a> {
    pub(super) interface: &'a str,
    pub(super) step: &'a str,
    pub(super) source: Source<'a>,
    manager: &'a str,
    support: u8,
    priority: i64,
    shown: Map<String, Value>,
}

impl Listed<'_> {
    /// Among steps of the same name: the highest priority, then the best
    /// support, then the manager's name.
    fn goes_before(&self, other: &Self) -> bool {
        let rank = |listed: &Self| (listed.priority, listed.support);
        match rank(self).cmp(&rank(other)) {
            std::cmp::Ordering::Equal => self.manager < other.manager,
            order => order.is_gt(),
        }
    }

    fn on_the_wire(&self) -> Value {
        let mut step = self.shown.clone();
        step.insert("step".to_owned(), self.step.into());
        step.insert("interface".to_owned(), self.interface.into());
        step.insert("priority".to_owned(), self.priority.into());
        Value::Object(step)
    }
}

/// The steps for a purpose, each once.
pub(super) fn steps(purpose: Purpose, managers: &[Manager]) -> Vec<Listed<'_>> {
    let own = OFFERS.iter().filter_map(|offer| {
        Some(Listed {
            interface: offer.interface,
            step: offer.name,
            source: Source::Own(offer),
            manager: HARDWARE_MANAGER,
            support: OWN_SUPPORT,
            priority: offer.priority(purpose)?,
            shown: offer.shown(purpose),
        })
    });
    let others = managers.iter().flat_map(|manager| {
        manager.steps.iter().filter_map(move |step| {
            let (_, priority) = step
                .priorities
                .iter()
                .find(|(kind, _)| kind == purpose.name())?;
            Some(Listed {
                interface: &step.interface,
                step: &step.step,
                source: Source::Manager(manager, step),
                manager: &manager.name,
                support: manager.support,
                priority: *priority,
                shown: step.shown.clone(),
            })
        })
    });
    let mut steps: Vec<Listed<'_>> = Vec::new();
    for listed in own.chain(others) {
        let twin = steps
            .iter_mut()
            .find(|known| (known.interface, known.step) == (listed.interface, listed.step));
        match twin {
            Some(known) if listed.goes_before(known) => *known = listed,
            Some(_) => {}
            None => steps.push(listed),
        }
    }
    steps
}

/// The versions of all managers, our own among them.
pub(super) fn versions(managers: &[Manager]) -> Value {
    let mut versions = Map::new();
    versions.insert(HARDWARE_MANAGER.to_owned(), HARDWARE_MANAGER_VERSION.into());
    for manager in managers {
        versions.insert(manager.name.clone(), manager.version.clone().into());
    }
    Value::Object(versions)
}

/// The answer to `get_*_steps`: the steps of each manager.
pub(super) fn answer(purpose: Purpose, managers: &[Manager]) -> Value {
    let mut by_manager = Map::new();
    by_manager.insert(HARDWARE_MANAGER.to_owned(), Value::Array(Vec::new()));
    for listed in steps(purpose, managers) {
        let list = by_manager
            .entry(listed.manager)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(listed.on_the_wire());
        }
    }
    json!({
        format!("{}_steps", purpose.name()): by_manager,
        "hardware_manager_version": versions(managers),
    })
}
