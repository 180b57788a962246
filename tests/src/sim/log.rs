//! What a machine went through, for people who look for a reason and for
//! programs that look for what must not have happened.

use jiff::Timestamp;

/// What an agent did about a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It ran.
    Taken,
    /// Refused: another command runs.
    Busy,
    /// Refused: its sender had lost the node's lock.
    OldEpoch,
    /// Refused: no such command.
    Unknown,
}

/// A command as an agent met it.
#[derive(Debug, Clone)]
pub struct Order {
    /// When.
    pub at: Timestamp,
    /// In which life of the machine's agent, from 1.
    pub life: u32,
    /// Epoch of the sender's lock.
    pub epoch: Option<i64>,
    /// `extension.command`.
    pub name: String,
    /// `interface.step` of a step.
    pub step: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
}

/// A change of power.
#[derive(Debug, Clone, Copy)]
pub struct Switch {
    /// When.
    pub at: Timestamp,
    /// On or off.
    pub on: bool,
    /// By the BMC; otherwise the machine did it by itself.
    pub by_bmc: bool,
}

/// The log of one machine.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Commands.
    pub orders: Vec<Order>,
    /// Power.
    pub switches: Vec<Switch>,
    /// All of it, in words, with requests to the BMC that change something.
    pub lines: Vec<String>,
}

impl Log {
    /// Adds a line.
    pub fn say(&mut self, text: &str) {
        let now = Timestamp::now().strftime("%H:%M:%S%.3f");
        self.lines.push(format!("{now} {text}"));
    }

    /// Adds a command.
    pub fn order(&mut self, order: Order) {
        let step = order.step.as_deref().unwrap_or("");
        let epoch = order
            .epoch
            .map_or("-".to_owned(), |epoch| epoch.to_string());
        self.say(&format!(
            "life {}: epoch {epoch}: {} {step}: {:?}",
            order.life, order.name, order.verdict
        ));
        self.orders.push(order);
    }

    /// Adds a change of power.
    pub fn switch(&mut self, on: bool, by_bmc: bool) {
        let at = Timestamp::now();
        self.switches.push(Switch { at, on, by_bmc });
        let by = if by_bmc { "the BMC" } else { "the machine" };
        self.say(&format!("{by} switches {}", if on { "on" } else { "off" }));
    }

    /// What came after so many commands and changes of power.
    pub fn since(&self, mark: Mark) -> Self {
        Self {
            orders: self.orders.get(mark.orders..).unwrap_or_default().to_vec(),
            switches: self
                .switches
                .get(mark.switches..)
                .unwrap_or_default()
                .to_vec(),
            lines: self.lines.get(mark.lines..).unwrap_or_default().to_vec(),
        }
    }

    /// Where it ends now.
    pub fn mark(&self) -> Mark {
        Mark {
            orders: self.orders.len(),
            switches: self.switches.len(),
            lines: self.lines.len(),
        }
    }
}

/// A place in a [`Log`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    orders: usize,
    switches: usize,
    lines: usize,
}
