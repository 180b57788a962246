//! The client's states (RFC 8415 §18.2), with times as durations since the start
//! of the machine.
//!
//! ```text
//!   Soliciting --advertise--> Requesting --reply--> Bound --T1--> Renewing --T2--> Rebinding
//!       ^                        |  silence           ^  reply       |   reply         |
//!       +------------------------+                    +--------------+-----------------+
//!       +<---------------- no binding, end of the address -----------------------------+
//!   Informing --reply--> Informed
//! ```

use std::net::Ipv6Addr;
use std::time::Duration;

use dhcproto::v6::DhcpOption;
use dhcproto::v6::IANA;
use dhcproto::v6::Message;
use dhcproto::v6::MessageType;
use dhcproto::v6::ORO;
use dhcproto::v6::OptionCode;
use dhcproto::v6::Status;

use crate::api::Random;
use crate::net::mac::Mac;
use crate::net::resolv::clean_domain;

/// Pauses between messages without an answer, the last one repeated (shorter
/// than §7.6 asks of hosts that can wait).
const PAUSES: [u64; 6] = [1, 2, 4, 8, 16, 30];
/// Requests for one offer before a new solicitation.
const REQUESTS: usize = 5;
/// The shortest time until a renewal that a server may ask for.
const LEAST_RENEWAL: Duration = Duration::from_secs(5);
/// Without an end.
const INFINITE: u32 = u32::MAX;
/// Until other things are asked for again (§21.23 without the option).
const REFRESH: Duration = Duration::from_secs(86_400);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// An address and other things.
    Address,
    /// Other things alone: addresses come from elsewhere.
    Other,
}

/// What a server gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The address; none where only other things were asked for.
    pub address: Option<Ipv6Addr>,
    /// DNS servers.
    pub dns: Vec<Ipv6Addr>,
    /// Domains to search.
    pub domains: Vec<String>,
    server: Vec<u8>,
    renew: Duration,
    rebind: Duration,
    expire: Option<Duration>,
}

/// What the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send this to all servers of the link.
    Send(Box<Message>),
    /// Use this, or go on using it.
    Bound(Box<Lease>),
    /// Stop using the address.
    Lost(&'static str),
}

#[derive(Debug, Clone)]
enum State {
    Soliciting,
    Requesting(Box<Lease>),
    Bound(Box<Lease>, Duration),
    Renewing(Box<Lease>, Duration),
    Rebinding(Box<Lease>, Duration),
    Informing,
    Informed,
}

/// One interface's DHCPv6.
#[derive(Debug)]
pub struct Machine {
    mac: Mac,
    wanted: Wanted,
    random: Random,
    state: State,
    xid: [u8; 3],
    tries: usize,
    /// Since when this exchange goes on.
    since: Duration,
    deadline: Duration,
}

impl Machine {
    /// A machine that starts at `now`.
    pub fn new(mac: Mac, wanted: Wanted, random: Random, now: Duration) -> Self {
        let state = match wanted {
            Wanted::Address => State::Soliciting,
            Wanted::Other => State::Informing,
        };
        let mut machine = Self {
            mac,
            wanted,
            random,
            state: state.clone(),
            xid: [0; 3],
            tries: 0,
            since: now,
            deadline: now,
        };
        machine.enter(now, state);
        machine
    }

    /// When [`Machine::on_time`] wants to be called.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A new exchange, due at once.
    fn enter(&mut self, now: Duration, state: State) {
        let [_, a, b, c] = self.random.u32().to_be_bytes();
        self.xid = [a, b, c];
        self.tries = 0;
        (self.since, self.deadline, self.state) = (now, now, state);
    }

    /// Time has come to the deadline.
    pub fn on_time(&mut self, now: Duration) -> Vec<Output> {
        if now < self.deadline {
            return Vec::new();
        }
        match self.state.clone() {
            State::Requesting(_) if self.tries >= REQUESTS => {
                self.enter(now, State::Soliciting);
                Vec::new()
            }
            State::Soliciting | State::Requesting(_) | State::Informing => self.send(now),
            State::Informed => {
                self.enter(now, State::Informing);
                Vec::new()
            }
            State::Bound(lease, from) => {
                self.enter(now, State::Renewing(lease, from));
                Vec::new()
            }
            State::Renewing(lease, from) if now >= from + lease.rebind => {
                self.enter(now, State::Rebinding(lease, from));
                Vec::new()
            }
            State::Renewing(lease, from) => {
                let outputs = self.send(now);
                self.deadline = self.deadline.min(from + lease.rebind);
                outputs
            }
            State::Rebinding(lease, from) => {
                let end = lease.expire.map(|expire| from + expire);
                if end.is_some_and(|end| now >= end) {
                    self.enter(now, State::Soliciting);
                    return vec![Output::Lost("the address has come to its end")];
                }
                let outputs = self.send(now);
                if let Some(end) = end {
                    self.deadline = self.deadline.min(end);
                }
                outputs
            }
        }
    }

    /// A message has come in.
    pub fn on_message(&mut self, now: Duration, message: &Message) -> Vec<Output> {
        let options = message.opts();
        let ours = matches!(options.get(OptionCode::ClientId),
            Some(DhcpOption::ClientId(id)) if *id == self.client_id());
        if message.xid() != self.xid || !ours {
            return Vec::new();
        }
        let answer = self.read(message);
        match (self.state.clone(), message.msg_type()) {
            (State::Soliciting, MessageType::Advertise) => {
                if let Some(lease) = answer.filter(|lease| lease.address.is_some()) {
                    self.enter(now, State::Requesting(Box::new(lease)));
                }
                Vec::new()
            }
            (State::Requesting(offer), MessageType::Reply) => match answer {
                Some(lease) if lease.address.is_some() && lease.server == offer.server => {
                    self.bind(now, lease)
                }
                // It has no address for us any more.
                _ => {
                    self.enter(now, State::Soliciting);
                    self.deadline = now + self.pause();
                    Vec::new()
                }
            },
            (State::Renewing(held, _) | State::Rebinding(held, _), MessageType::Reply) => {
                match answer {
                    Some(lease) if lease.address == held.address => self.bind(now, lease),
                    Some(lease) if lease.address.is_some() => {
                        let mut outputs = vec![Output::Lost("the server gave another address")];
                        outputs.extend(self.bind(now, lease));
                        outputs
                    }
                    // No binding (§18.2.10.1): from the beginning.
                    _ => {
                        self.enter(now, State::Soliciting);
                        vec![Output::Lost("the server took the address back")]
                    }
                }
            }
            (State::Informing, MessageType::Reply) => match answer {
                Some(lease) => {
                    self.state = State::Informed;
                    self.deadline = now + REFRESH;
                    vec![Output::Bound(Box::new(lease))]
                }
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn bind(&mut self, now: Duration, lease: Lease) -> Vec<Output> {
        self.deadline = now + lease.renew;
        self.state = State::Bound(Box::new(lease.clone()), now);
        vec![Output::Bound(Box::new(lease))]
    }

    fn pause(&self) -> Duration {
        let last = PAUSES.len() - 1;
        let seconds = PAUSES.get(self.tries.min(last)).copied().unwrap_or(30);
        let jitter = Duration::from_millis(200).mul_f64(self.random.fraction());
        Duration::from_secs(seconds) + jitter
    }

    fn send(&mut self, now: Duration) -> Vec<Output> {
        let message = self.message(now);
        self.deadline = now + self.pause();
        self.tries = self.tries.saturating_add(1);
        vec![Output::Send(Box::new(message))]
    }

    /// A DUID of the link-layer address (§11.4): the same in each boot.
    fn client_id(&self) -> Vec<u8> {
        [&[0, 3, 0, 1], self.mac.0.as_slice()].concat()
    }

    fn message(&self, now: Duration) -> Message {
        let (kind, held, server) = match &self.state {
            State::Soliciting => (MessageType::Solicit, None, None),
            State::Requesting(offer) => (MessageType::Request, offer.address, Some(&offer.server)),
            State::Bound(held, _) | State::Renewing(held, _) => {
                (MessageType::Renew, held.address, Some(&held.server))
            }
            State::Rebinding(held, _) => (MessageType::Rebind, held.address, None),
            State::Informing | State::Informed => (MessageType::InformationRequest, None, None),
        };
        let mut message = Message::new_with_id(kind, self.xid);
        let options = message.opts_mut();
        options.insert(DhcpOption::ClientId(self.client_id()));
        if let Some(server) = server {
            options.insert(DhcpOption::ServerId(server.clone()));
        }
        let hundredths = now.saturating_sub(self.since).as_millis() / 10;
        let hundredths = u16::try_from(hundredths).unwrap_or(u16::MAX);
        options.insert(DhcpOption::ElapsedTime(hundredths));
        options.insert(DhcpOption::ORO(ORO {
            opts: vec![OptionCode::DomainNameServers, OptionCode::DomainSearchList],
        }));
        if self.wanted == Wanted::Address {
            let mut inner = dhcproto::v6::DhcpOptions::new();
            if let Some(addr) = held {
                inner.insert(DhcpOption::IAAddr(dhcproto::v6::IAAddr {
                    addr,
                    preferred_life: 0,
                    valid_life: 0,
                    opts: dhcproto::v6::DhcpOptions::new(),
                }));
            }
            let [_, _, a, b, c, d] = self.mac.0;
            options.insert(DhcpOption::IANA(IANA {
                id: u32::from_be_bytes([a, b, c, d]),
                t1: 0,
                t2: 0,
                opts: inner,
            }));
        }
        message
    }

    /// An answer; none where it lacks a server, and without an address where the
    /// server has none for us.
    fn read(&self, message: &Message) -> Option<Lease> {
        let options = message.opts();
        let Some(DhcpOption::ServerId(server)) = options.get(OptionCode::ServerId) else {
            return None;
        };
        let dns = match options.get(OptionCode::DomainNameServers) {
            Some(DhcpOption::DomainNameServers(servers)) => servers.clone(),
            _ => Vec::new(),
        };
        let domains = match options.get(OptionCode::DomainSearchList) {
            Some(DhcpOption::DomainSearchList(names)) => names
                .iter()
                .filter_map(|name| clean_domain(&name.to_string()))
                .collect(),
            _ => Vec::new(),
        };
        let mut lease = Lease {
            address: None,
            dns,
            domains,
            server: server.clone(),
            renew: REFRESH,
            rebind: REFRESH,
            expire: None,
        };
        let Some(DhcpOption::IANA(association)) = options.get(OptionCode::IANA) else {
            return Some(lease);
        };
        let refused = |opts: &dhcproto::v6::DhcpOptions| {
            matches!(opts.get(OptionCode::StatusCode),
                Some(DhcpOption::StatusCode(code)) if code.status != Status::Success)
        };
        let inner = association.opts.get_all(OptionCode::IAAddr);
        let address = inner.into_iter().flatten().find_map(|option| match option {
            DhcpOption::IAAddr(address) if address.valid_life > 0 && !refused(&address.opts) => {
                Some(address)
            }
            _ => None,
        });
        if let Some(address) = address.filter(|_| !refused(&association.opts)) {
            let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
            lease.address = Some(address.addr);
            lease.expire = (address.valid_life != INFINITE).then(|| seconds(address.valid_life));
            // A server that leaves the times to us (§21.4).
            let preferred = seconds(address.preferred_life.min(address.valid_life));
            let (t1, t2) = (association.t1, association.t2);
            let rebind = if t2 == 0 {
                preferred * 4 / 5
            } else {
                seconds(t2)
            };
            let renew = if t1 == 0 { preferred / 2 } else { seconds(t1) };
            let end = lease.expire.unwrap_or(Duration::MAX);
            lease.renew = renew.max(LEAST_RENEWAL).min(end);
            lease.rebind = rebind.max(lease.renew).min(end);
        }
        Some(lease)
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
