//! What the logs of a machine and the journal of its node must agree on.

use std::collections::BTreeMap;

use super::journal::Row;
use crate::sim::log::Log;
use crate::sim::log::Order;
use crate::sim::log::Verdict;

/// The step of simulated agents that asks for a restart.
const RESTARTING: &str = "management.update_firmware";

/// What must not have been, each in one sentence; none when all is well.
pub fn faults(log: &Log, rows: &[Row]) -> Vec<String> {
    let mut faults = epochs(&log.orders);
    faults.extend(twice(&log.orders, rows));
    faults.extend(unknown(&log.orders));
    faults.extend(ends(rows));
    faults.extend(restarts(&log.orders));
    faults
}

/// A flow may only fail in a step that was begun: nothing else can be in doubt.
pub fn unbegun(rows: &[Row]) -> Option<String> {
    let failed = rows.iter().rfind(|row| row.phase == "failed")?;
    let begun = |row: &Row| row.phase == "started" && row.step == failed.step;
    (!rows.iter().any(begun)).then(|| format!("step {} was never begun", failed.step))
}

/// A step that asks for it was followed by a restart of the machine.
fn restarts(orders: &[Order]) -> Vec<String> {
    let mut asked = None;
    let mut faults = Vec::new();
    for order in orders
        .iter()
        .filter(|order| order.verdict == Verdict::Taken)
    {
        let Some(step) = &order.step else { continue };
        if let Some(life) = asked.take()
            && life == order.life
        {
            faults.push(format!("{step} ran before the machine was restarted"));
        }
        asked = (step == RESTARTING).then_some(order.life);
    }
    faults
}

/// No command of a lower epoch than one before was executed, in any life.
pub fn epochs(orders: &[Order]) -> Vec<String> {
    let mut highest = 0;
    let mut faults = Vec::new();
    for order in orders
        .iter()
        .filter(|order| order.verdict == Verdict::Taken)
    {
        match order.epoch {
            None => faults.push(format!("{} came without an epoch", order.name)),
            Some(epoch) if epoch < highest => faults.push(format!(
                "{} of epoch {epoch} ran after one of epoch {highest}",
                order.name
            )),
            Some(epoch) => highest = epoch,
        }
    }
    faults
}

/// A step ran once, and once more for each time that the journal says that it
/// was lost with its agent.
fn twice(orders: &[Order], rows: &[Row]) -> Vec<String> {
    let mut ran: BTreeMap<(&str, &str), Vec<&Order>> = BTreeMap::new();
    for order in orders
        .iter()
        .filter(|order| order.verdict == Verdict::Taken)
    {
        let kind = order.name.split('.').next().unwrap_or_default();
        if let Some(step) = &order.step {
            ran.entry((kind, step)).or_default().push(order);
        }
    }
    let count = |kind: &str, step: &str, phase: &str| {
        let rows = rows.iter();
        rows.filter(|row| row.kind == kind && row.step == step && row.phase == phase)
            .count()
    };
    let mut faults = Vec::new();
    for ((kind, step), orders) in ran {
        let (begun, lost) = (count(kind, step, "started"), count(kind, step, "failed"));
        if orders.len() > begun {
            faults.push(format!(
                "{kind} step {step} ran {} times, the journal has {begun} beginnings",
                orders.len()
            ));
        }
        if orders.len() > 1 + lost {
            let lives: Vec<u32> = orders.iter().map(|order| order.life).collect();
            faults.push(format!(
                "{kind} step {step} ran {} times, in lives {lives:?}; the journal says that it \
                 was lost {lost} times",
                orders.len()
            ));
        }
    }
    faults
}

/// Nothing was asked that a real agent does not know.
fn unknown(orders: &[Order]) -> Vec<String> {
    let unknown = orders.iter().filter(|o| o.verdict == Verdict::Unknown);
    unknown
        .map(|order| format!("command {:?} is unknown to agents", order.name))
        .collect()
}

/// Every step that was begun has ended.
fn ends(rows: &[Row]) -> Vec<String> {
    let Some(last) = rows.last() else {
        return Vec::new();
    };
    let open = matches!(last.phase.as_str(), "started" | "waiting");
    // Booting the ramdisk before the list of steps is known has no end of its
    // own.
    (open && last.step != "prepare")
        .then(|| format!("the journal ends with {}", last.boundary()))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::faults;
    use crate::kill::journal::Row;
    use crate::sim::log::Log;
    use crate::sim::log::Order;
    use crate::sim::log::Verdict;

    fn row(phase: &str) -> Row {
        Row {
            kind: "deploy".to_owned(),
            index: 1,
            step: "deploy.write_image".to_owned(),
            attempt: 1,
            phase: phase.to_owned(),
            detail: None,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn order(epoch: i64, verdict: Verdict) -> Order {
        Order {
            at: Timestamp::UNIX_EPOCH,
            life: 1,
            epoch: Some(epoch),
            name: "deploy.execute_deploy_step".to_owned(),
            step: Some("deploy.write_image".to_owned()),
            verdict,
        }
    }

    fn log(orders: Vec<Order>) -> Log {
        Log {
            orders,
            ..Log::default()
        }
    }

    #[test]
    fn once_is_right_and_twice_needs_a_reason() {
        let rows = [row("started"), row("waiting"), row("succeeded")];
        let once = log(vec![order(3, Verdict::Taken)]);
        assert_eq!(faults(&once, &rows), Vec::<String>::new());
        let twice = log(vec![order(3, Verdict::Taken), order(4, Verdict::Taken)]);
        assert_eq!(faults(&twice, &rows).len(), 2);
        let again = [
            row("started"),
            row("failed"),
            row("started"),
            row("succeeded"),
        ];
        assert_eq!(faults(&twice, &again), Vec::<String>::new());
    }

    #[test]
    fn older_epochs_run_nowhere() {
        let rows = [
            row("started"),
            row("failed"),
            row("started"),
            row("succeeded"),
        ];
        let behind = log(vec![order(4, Verdict::Taken), order(3, Verdict::Taken)]);
        assert_eq!(faults(&behind, &rows).len(), 1);
        let refused = log(vec![order(4, Verdict::Taken), order(3, Verdict::OldEpoch)]);
        assert_eq!(faults(&refused, &rows), Vec::<String>::new());
        assert_eq!(faults(&refused, &rows[..1]).len(), 1, "no end");
    }
}
