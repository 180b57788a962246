//! The client's states (RFC 2131, figure 5), with times as durations since
//! the start of the machine.
//!
//! ```text
//!   Selecting --offer--> Requesting --ack--> Bound --T1--> Renewing --T2--> Rebinding
//!       ^                    |  nak/silence    ^  ack         |   ack           |
//!       +--------------------+                 +--------------+-----------------+
//!       +<------------------------- nak, end of the lease ----------------------+
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::DhcpOption;
use dhcproto::v4::Flags;
use dhcproto::v4::Message;
use dhcproto::v4::MessageType;
use dhcproto::v4::Opcode;
use dhcproto::v4::OptionCode;

use crate::api::Random;
use crate::net::dhcp::Lease;
use crate::net::mac::Mac;

/// Pauses between requests without an answer, the last one repeated. Short at
/// first, since the answer may be lost while a switch port wakes up.
const PAUSES: [u64; 5] = [1, 2, 4, 8, 8];
/// Requests for one offer before a new discovery.
const REQUESTS: u32 = 4;
/// The least pause between two renewals.
const LEAST_RENEWAL: Duration = Duration::from_secs(60);

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Everybody on the link, from no address.
    Broadcast,
    /// One server, from our address.
    Server {
        /// Our address.
        from: Ipv4Addr,
        /// The server's.
        to: Ipv4Addr,
    },
}

/// What the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send this.
    Send(Box<Message>, To),
    /// Use this lease, or go on using it.
    Bound(Box<Lease>),
    /// Stop using the address.
    Lost(&'static str),
}

#[derive(Debug)]
enum State {
    Selecting { tries: u32 },
    Requesting { offer: Box<Lease>, tries: u32 },
    Bound { lease: Box<Lease>, since: Duration },
    Renewing { lease: Box<Lease>, since: Duration },
    Rebinding { lease: Box<Lease>, since: Duration },
}

/// One NIC's DHCP.
#[derive(Debug)]
pub struct Machine {
    mac: Mac,
    random: Random,
    xid: u32,
    started: Duration,
    state: State,
    deadline: Duration,
    /// The last address, which is asked for again when its lease has ended.
    last: Option<Ipv4Addr>,
}

impl Machine {
    /// A machine that starts at `now`.
    pub fn new(mac: Mac, random: Random, now: Duration) -> Self {
        let (xid, state) = (random.u32(), State::Selecting { tries: 0 });
        Self {
            mac,
            random,
            xid,
            started: now,
            state,
            deadline: now,
            last: None,
        }
    }

    /// When [`Machine::on_time`] wants to be called.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether there is an address.
    pub fn is_bound(&self) -> bool {
        !matches!(
            self.state,
            State::Selecting { .. } | State::Requesting { .. }
        )
    }

    /// Whether answers are awaited, so that a socket must be open.
    pub fn is_listening(&self) -> bool {
        !matches!(self.state, State::Bound { .. })
    }

    /// Time has come to the deadline.
    pub fn on_time(&mut self, now: Duration) -> Vec<Output> {
        if now < self.deadline {
            return Vec::new();
        }
        let state = std::mem::replace(&mut self.state, State::Selecting { tries: 0 });
        match state {
            State::Selecting { tries } => self.discover(now, tries),
            State::Requesting {
                tries: REQUESTS.., ..
            } => self.restart(now),
            State::Requesting { offer, tries } => self.request(now, offer, tries),
            State::Bound { lease, since } => {
                self.xid = self.random.u32();
                self.started = now;
                self.renew(now, lease, since)
            }
            State::Renewing { lease, since } => {
                if now < since + lease.rebind {
                    self.renew(now, lease, since)
                } else {
                    self.rebind(now, lease, since)
                }
            }
            State::Rebinding { lease, since } => self.rebind(now, lease, since),
        }
    }

    /// A message has come in on our NIC.
    pub fn on_message(&mut self, now: Duration, message: &Message) -> Vec<Output> {
        let ours = message.opcode() == Opcode::BootReply
            && message.xid() == self.xid
            && message.chaddr().starts_with(&self.mac.0);
        let Some(kind) = message.opts().msg_type().filter(|_| ours) else {
            return Vec::new();
        };
        let offered = Lease::from_message(message);
        let server = match message.opts().get(OptionCode::ServerIdentifier) {
            Some(DhcpOption::ServerIdentifier(server)) => Some(*server),
            _ => None,
        };
        match (&self.state, kind) {
            (State::Selecting { .. }, MessageType::Offer) => match offered {
                Some(offer) => self.request(now, Box::new(offer), 0),
                None => Vec::new(),
            },
            (State::Requesting { offer, .. }, MessageType::Ack) => match offered {
                Some(lease) if lease.server == offer.server => self.bind(now, lease),
                _ => Vec::new(),
            },
            (State::Requesting { offer, .. }, MessageType::Nak) if server == Some(offer.server) => {
                self.restart(now + Duration::from_secs(1))
            }
            (State::Renewing { .. } | State::Rebinding { .. }, MessageType::Ack) => match offered {
                Some(lease) => self.bind(now, lease),
                None => Vec::new(),
            },
            (State::Renewing { .. } | State::Rebinding { .. }, MessageType::Nak) => {
                self.last = None;
                let mut outputs = vec![Output::Lost("the server took the address back")];
                outputs.extend(self.restart(now));
                outputs
            }
            _ => Vec::new(),
        }
    }

    /// Back to the beginning, which is at `at`.
    fn restart(&mut self, at: Duration) -> Vec<Output> {
        self.xid = self.random.u32();
        self.started = at;
        self.state = State::Selecting { tries: 0 };
        self.deadline = at;
        Vec::new()
    }

    fn discover(&mut self, now: Duration, tries: u32) -> Vec<Output> {
        self.state = State::Selecting {
            tries: tries.saturating_add(1),
        };
        self.deadline = now + self.pause(tries);
        let mut message = self.message(now, MessageType::Discover);
        // Whoever knows this machine knows it by that address: RFC 2131 §4.4.1
        // has a client suggest the one that it had.
        if let Some(last) = self.last {
            let wanted = DhcpOption::RequestedIpAddress(last);
            message.opts_mut().insert(wanted);
        }
        vec![Output::Send(Box::new(message), To::Broadcast)]
    }

    fn request(&mut self, now: Duration, offer: Box<Lease>, tries: u32) -> Vec<Output> {
        let mut message = self.message(now, MessageType::Request);
        let options = message.opts_mut();
        options.insert(DhcpOption::RequestedIpAddress(offer.address));
        options.insert(DhcpOption::ServerIdentifier(offer.server));
        self.state = State::Requesting {
            offer,
            tries: tries + 1,
        };
        self.deadline = now + self.pause(tries);
        vec![Output::Send(Box::new(message), To::Broadcast)]
    }

    fn bind(&mut self, now: Duration, lease: Lease) -> Vec<Output> {
        // A lease without an end is not renewed: the first deadline is far.
        self.deadline = now + lease.renew;
        self.last = Some(lease.address);
        self.state = State::Bound {
            lease: Box::new(lease.clone()),
            since: now,
        };
        vec![Output::Bound(Box::new(lease))]
    }

    fn renew(&mut self, now: Duration, lease: Box<Lease>, since: Duration) -> Vec<Output> {
        let to = To::Server {
            from: lease.address,
            to: lease.server,
        };
        let end = since + lease.rebind;
        let message = self.extension(now, lease.address);
        self.deadline = (now + ((end - now) / 2).max(LEAST_RENEWAL)).min(end);
        self.state = State::Renewing { lease, since };
        vec![Output::Send(Box::new(message), to)]
    }

    fn rebind(&mut self, now: Duration, lease: Box<Lease>, since: Duration) -> Vec<Output> {
        let Some(end) = lease.expire.map(|expire| since + expire) else {
            self.deadline = now + lease.renew;
            self.state = State::Bound { lease, since };
            return Vec::new();
        };
        if now >= end {
            self.restart(now);
            return vec![Output::Lost("the lease has ended")];
        }
        let message = self.extension(now, lease.address);
        self.deadline = (now + ((end - now) / 2).max(LEAST_RENEWAL)).min(end);
        self.state = State::Rebinding { lease, since };
        vec![Output::Send(Box::new(message), To::Broadcast)]
    }

    /// A request to keep the address.
    fn extension(&mut self, now: Duration, address: Ipv4Addr) -> Message {
        let mut message = self.message(now, MessageType::Request);
        message.set_ciaddr(address);
        message
    }

    fn pause(&self, tries: u32) -> Duration {
        let last = PAUSES[PAUSES.len() - 1];
        let seconds = PAUSES.get(tries as usize).copied().unwrap_or(last);
        let jitter = Duration::from_millis(500).mul_f64(self.random.fraction());
        Duration::from_secs(seconds) + jitter
    }

    /// The part that all of our messages have.
    fn message(&self, now: Duration, kind: MessageType) -> Message {
        let mut message = Message::default();
        let seconds = now.saturating_sub(self.started).as_secs();
        message
            .set_xid(self.xid)
            .set_secs(u16::try_from(seconds).unwrap_or(u16::MAX))
            .set_flags(Flags::default())
            .set_chaddr(&self.mac.0);
        let options = message.opts_mut();
        options.insert(DhcpOption::MessageType(kind));
        let client_id = [&[1], self.mac.0.as_slice()].concat();
        options.insert(DhcpOption::ClientIdentifier(client_id));
        options.insert(DhcpOption::MaxMessageSize(1472));
        options.insert(DhcpOption::ClassIdentifier(b"wrought".to_vec()));
        options.insert(DhcpOption::ParameterRequestList(vec![
            OptionCode::SubnetMask,
            OptionCode::ClasslessStaticRoute,
            OptionCode::Router,
            OptionCode::DomainNameServer,
            OptionCode::DomainName,
            OptionCode::InterfaceMtu,
            OptionCode::AddressLeaseTime,
            OptionCode::Renewal,
            OptionCode::Rebinding,
        ]));
        message
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
