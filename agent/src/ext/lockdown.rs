//! `system.lockdown`: the end of a deploy on a machine that must not be
//! switched off. The agent answers, serves nothing any more, and takes all NICs
//! off the network; the machine waits for its BMC.

use serde_json::Value;

use crate::command::Args;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Outcome;
use crate::command::Registry;
use crate::shutdown::Goal;

pub(super) fn register(registry: &mut Registry) {
    registry.blocking("system.lockdown", Mode::Sync, lockdown);
}

fn lockdown(context: &Context, _: Args) -> Outcome {
    // Nothing that was written may depend on what comes after.
    nix::unistd::sync();
    context.agent.shutdown.request(Goal::Lockdown);
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Map;
    use serde_json::Value;

    use super::lockdown;
    use crate::command::Agent;
    use crate::command::Context;
    use crate::shutdown::Goal;

    #[test]
    fn the_answer_comes_before_the_end() {
        let agent = Arc::new(Agent::for_tests());
        let answer = lockdown(&Context::new(Arc::clone(&agent)), Map::new()).unwrap();
        assert_eq!(answer, Value::Null);
        assert_eq!(agent.shutdown.requested(), Some(Goal::Lockdown));
    }
}
