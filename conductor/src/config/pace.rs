//! How long the conductor waits, and how often it looks.

use std::time::Duration;

/// How long the conductor waits between looks.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Between two questions to an agent at work.
    pub agent_poll: Duration,
    /// Between two questions to a BMC while power changes.
    pub power_poll: Duration,
    /// How long a request waits for a node's lock.
    pub lock_wait: Duration,
    /// Life of a lease.
    pub lease: Duration,
    /// Between two renewals of a lease.
    pub renew: Duration,
    /// How long an agent that was told to power off is waited for.
    pub agent_power_off: Duration,
    /// How long a machine that was to boot from a conductor that is gone is
    /// left alone after its start: it may have fetched all that it needs.
    pub boot_patience: Duration,
    /// The same for a machine whose conductor was started anew meanwhile: it
    /// may be on its way still, and will find what it needs.
    pub restart_patience: Duration,
    /// Silence of an agent's command port after which the agent counts as
    /// gone, while a step runs.
    pub agent_gone: Duration,
}

impl Pace {
    /// The same for a conductor that others replace when it was silent for
    /// `dead_after`: its locks last no longer than that.
    #[must_use]
    pub fn among_others(mut self, dead_after: Duration) -> Self {
        self.lease = self.lease.min(dead_after);
        self.renew = self.renew.min(self.lease / 6);
        self
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            agent_poll: Duration::from_secs(2),
            power_poll: Duration::from_secs(1),
            lock_wait: Duration::from_secs(3),
            lease: Duration::from_secs(60),
            renew: Duration::from_secs(10),
            agent_power_off: Duration::from_secs(30),
            boot_patience: Duration::from_secs(180),
            restart_patience: Duration::from_secs(900),
            agent_gone: Duration::from_secs(90),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pace;

    #[test]
    fn locks_last_no_longer_than_a_silent_conductor() {
        let usual = Pace::default().among_others(Duration::from_secs(60));
        assert_eq!((usual.lease.as_secs(), usual.renew.as_secs()), (60, 10));
        let patient = Pace::default().among_others(Duration::from_secs(600));
        assert_eq!((patient.lease.as_secs(), patient.renew.as_secs()), (60, 10));
        let quick = Pace::default().among_others(Duration::from_secs(12));
        assert_eq!((quick.lease.as_secs(), quick.renew.as_secs()), (12, 2));
    }
}
