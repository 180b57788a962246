//! A machine: power, boot device, disc drive, and what runs when it is on.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use super::Net;
use super::Program;
use super::agent;
use super::log::Log;
use super::log::Mark;
use crate::bmc::machine::Override;
use crate::qemu::BootFrom;
use crate::qemu::Firmware;

/// How a machine behaves.
#[derive(Debug, Clone)]
pub struct Habits {
    /// From power on to a running agent that looks for its API.
    pub boot: Duration,
    /// Between two heartbeats; one more comes when a command ends.
    pub heartbeat: Duration,
    /// What a step takes.
    pub step: Duration,
    /// What steps (`interface.step`) take that differ from that.
    pub takes: HashMap<String, Duration>,
    /// Steps that fail.
    pub failing: HashSet<String>,
    /// What its ramdisk is, when it is not simulated.
    pub program: Option<Arc<Program>>,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            boot: Duration::from_millis(200),
            heartbeat: Duration::from_secs(1),
            step: Duration::from_millis(300),
            takes: HashMap::new(),
            failing: HashSet::new(),
            program: None,
        }
    }
}

/// One life of an agent, from its start to power off or its own end.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) number: u32,
    alive: watch::Receiver<bool>,
}

impl Life {
    /// Whether it goes on.
    pub(crate) fn is_alive(&self) -> bool {
        *self.alive.borrow()
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) {
        // An error means that the machine itself is gone.
        self.alive.wait_for(|alive| !*alive).await.ok();
    }
}

#[derive(Debug)]
struct State {
    on: bool,
    boot: Override,
    firmware: Firmware,
    disc: Option<String>,
    lives: u32,
    life: Option<watch::Sender<bool>>,
    /// What the ramdisk was told at its boot.
    told: HashMap<String, String>,
    /// Where its agent listened last.
    port: u16,
    habits: Habits,
    log: Log,
}

#[derive(Debug)]
struct Inner {
    name: String,
    mac: String,
    uuid: Uuid,
    net: Arc<Net>,
    state: Mutex<State>,
}

/// A simulated machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Machine(Arc<Inner>);

impl Machine {
    pub(super) fn new(net: Arc<Net>, name: &str, mac: &str, habits: Habits) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            mac: mac.to_owned(),
            uuid: Uuid::new_v4(),
            net,
            state: Mutex::new(State {
                on: false,
                boot: Override::NONE,
                firmware: Firmware::Uefi,
                disc: None,
                lives: 0,
                life: None,
                told: HashMap::new(),
                port: 0,
                habits,
                log: Log::default(),
            }),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name, the last part of its path at the BMC.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its NIC.
    pub fn mac(&self) -> &str {
        &self.0.mac
    }

    /// Its SMBIOS UUID.
    pub fn uuid(&self) -> Uuid {
        self.0.uuid
    }

    pub(super) fn net(&self) -> &Net {
        &self.0.net
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.state().on
    }

    /// A copy of its log.
    pub fn log(&self) -> Log {
        self.state().log.clone()
    }

    /// What was logged after `mark`.
    pub fn log_since(&self, mark: Mark) -> Log {
        self.state().log.since(mark)
    }

    /// Where its log ends now.
    pub fn mark(&self) -> Mark {
        self.state().log.mark()
    }

    pub(super) fn write<T>(&self, write: impl FnOnce(&mut Log) -> T) -> T {
        write(&mut self.state().log)
    }

    /// How it behaves.
    pub fn habits(&self) -> Habits {
        self.state().habits.clone()
    }

    /// Changes how it behaves.
    pub fn train(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut self.state().habits);
    }

    pub(super) fn boot_override(&self) -> (Override, Firmware) {
        let state = self.state();
        (state.boot, state.firmware)
    }

    pub(super) fn set_boot(&self, boot: Override, firmware: Option<Firmware>) {
        let mut state = self.state();
        state.boot = boot;
        state.firmware = firmware.unwrap_or(state.firmware);
        state.log.say(&format!("boot override {boot:?}"));
    }

    pub(super) fn disc(&self) -> Option<String> {
        self.state().disc.clone()
    }

    pub(super) fn set_disc(&self, disc: Option<String>) {
        let mut state = self.state();
        let word = if disc.is_some() { "in" } else { "out" };
        state.log.say(&format!("disc {word}"));
        state.disc = disc;
    }

    pub(super) fn told(&self) -> HashMap<String, String> {
        self.state().told.clone()
    }

    pub(super) fn tell(&self, told: HashMap<String, String>) {
        self.state().told = told;
    }

    pub(super) fn port(&self) -> u16 {
        self.state().port
    }

    pub(super) fn set_port(&self, port: u16) {
        self.state().port = port;
    }

    /// Switches the power; nothing happens when it is as wanted.
    pub fn switch(&self, on: bool, by_bmc: bool) {
        let mut state = self.state();
        if state.on == on {
            return;
        }
        state.on = on;
        state.log.switch(on, by_bmc);
        end(&mut state);
        if !on {
            return;
        }
        let device = state.boot.next_boot();
        state.boot = state.boot.after_boot();
        state.log.say(&format!("boots {device:?}"));
        if matches!(device, BootFrom::Network | BootFrom::Cd) {
            self.live(&mut state, Some(device));
        }
    }

    /// Its agent's life ends as if its kernel had been started anew: RAM, key
    /// and commands are gone, the machine stays on.
    pub fn restart_agent(&self) {
        let mut state = self.state();
        if !state.on || state.life.is_none() {
            return;
        }
        end(&mut state);
        state.log.say("the agent restarts by itself");
        self.live(&mut state, None);
    }

    /// Its agent is gone; the machine stays on without one.
    pub fn kill_agent(&self) {
        let mut state = self.state();
        if state.life.is_some() {
            end(&mut state);
            state.log.say("the agent is killed");
        }
    }

    /// The agent that has this life switches the machine off.
    pub(super) fn power_off_by(&self, life: &Life) {
        // One that has gone cannot switch off what runs now.
        if life.is_alive() {
            self.switch(false, false);
        }
    }

    /// The agent that has this life ends; the machine stays on without one.
    pub(super) fn leave(&self, life: &Life) {
        if life.is_alive() {
            let mut state = self.state();
            end(&mut state);
            state.log.say("the agent ends, the ramdisk stays");
        }
    }

    fn live(&self, state: &mut State, from: Option<BootFrom>) {
        state.lives += 1;
        let (sender, alive) = watch::channel(true);
        state.life = Some(sender);
        let life = Life {
            number: state.lives,
            alive,
        };
        let machine = self.clone();
        self.0.net.runtime.spawn(async move {
            let over = life.clone().end();
            tokio::select! {
                () = agent::run(machine, life, from) => {}
                () = over => {}
            }
        });
    }
}

fn end(state: &mut State) {
    if let Some(life) = state.life.take() {
        life.send_replace(false);
    }
}
