//! Joins the state machine with a transport and the time.

use std::future::Future;
use std::io;
use std::time::Duration;

use dhcproto::Decodable;
use dhcproto::Decoder;
use dhcproto::Encodable;
use dhcproto::v4::Message;
use tokio::time::Instant;
use tracing::debug;
use tracing::warn;

use crate::api::Random;
use crate::net::dhcp::Lease;
use crate::net::dhcp::Machine;
use crate::net::dhcp::Output;
use crate::net::dhcp::To;
use crate::net::mac::Mac;

/// Carries DHCP messages on one link.
pub trait Transport {
    /// Sends a message.
    fn send(&mut self, message: &[u8], to: To) -> impl Future<Output = io::Result<()>> + Send;
    /// Waits for a message.
    fn receive(&mut self) -> impl Future<Output = io::Result<Vec<u8>>> + Send;
    /// No message is awaited for a long time.
    fn rest(&mut self);
}

/// What has come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This lease holds.
    Bound(Box<Lease>),
    /// There is no lease any more, for this reason.
    Lost(&'static str),
}

/// A DHCP client on one interface.
#[derive(Debug)]
pub struct Client<T> {
    machine: Machine,
    transport: T,
    start: Instant,
}

impl<T: Transport> Client<T> {
    /// A client that starts at once.
    pub fn new(mac: Mac, random: Random, transport: T) -> Self {
        let start = Instant::now();
        Self {
            machine: Machine::new(mac, random, Duration::ZERO),
            transport,
            start,
        }
    }

    /// Waits for the next event. Dropping the future in between loses
    /// nothing.
    pub async fn next(&mut self) -> Event {
        loop {
            let outputs = self.step().await;
            let mut event = None;
            for output in outputs {
                match output {
                    Output::Send(message, to) => self.send(&message, to).await,
                    Output::Bound(lease) => event = Some(Event::Bound(lease)),
                    Output::Lost(reason) => event = Some(Event::Lost(reason)),
                }
            }
            if !self.machine.is_listening() {
                self.transport.rest();
            }
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Waits for the deadline or a message, whichever comes first.
    async fn step(&mut self) -> Vec<Output> {
        let deadline = self.start + self.machine.deadline();
        if !self.machine.is_listening() {
            tokio::time::sleep_until(deadline).await;
            return self.machine.on_time(self.start.elapsed());
        }
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {
                self.machine.on_time(self.start.elapsed())
            }
            received = self.transport.receive() => match received {
                Ok(bytes) => match Message::decode(&mut Decoder::new(&bytes)) {
                    Ok(message) => self.machine.on_message(self.start.elapsed(), &message),
                    Err(error) => {
                        debug!("dhcp: a message cannot be read: {error}");
                        Vec::new()
                    }
                },
                Err(error) => {
                    warn!("dhcp: cannot receive: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Vec::new()
                }
            },
        }
    }

    async fn send(&mut self, message: &Message, to: To) {
        let result = match message.to_vec() {
            Ok(mut bytes) => {
                // Some servers drop what is shorter than BOOTP's 300 bytes.
                bytes.resize(bytes.len().max(300), 0);
                self.transport.send(&bytes, to).await
            }
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        // The machine sends again by itself.
        if let Err(error) = result {
            debug!("dhcp: cannot send: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use dhcproto::Decodable;
    use dhcproto::Decoder;
    use dhcproto::Encodable;
    use dhcproto::v4::DhcpOption;
    use dhcproto::v4::Message;
    use dhcproto::v4::MessageType;
    use dhcproto::v4::Opcode;

    use super::Client;
    use super::Event;
    use super::Transport;
    use crate::api::Random;
    use crate::net::dhcp::To;
    use crate::net::mac::Mac;

    const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    /// A server that loses the first messages, then answers, then is gone
    /// after some leases.
    struct Fake {
        lose: u32,
        leases: u32,
        answer: Option<Vec<u8>>,
        rests: u32,
    }

    impl Transport for Fake {
        async fn send(&mut self, message: &[u8], _: To) -> io::Result<()> {
            assert!(message.len() >= 300);
            if self.lose > 0 {
                self.lose -= 1;
                return Err(io::Error::other("no carrier"));
            }
            let request = Message::decode(&mut Decoder::new(message)).unwrap();
            let kind = match request.opts().msg_type().unwrap() {
                MessageType::Discover => MessageType::Offer,
                _ => MessageType::Ack,
            };
            if kind == MessageType::Ack {
                if self.leases == 0 {
                    return Ok(());
                }
                self.leases -= 1;
            }
            let mut reply = request.clone();
            reply
                .set_opcode(Opcode::BootReply)
                .set_yiaddr(Ipv4Addr::new(192, 0, 2, 9));
            let options = reply.opts_mut();
            options.insert(DhcpOption::MessageType(kind));
            options.insert(DhcpOption::ServerIdentifier(SERVER));
            options.insert(DhcpOption::AddressLeaseTime(600));
            self.answer = Some(reply.to_vec().unwrap());
            Ok(())
        }

        async fn receive(&mut self) -> io::Result<Vec<u8>> {
            match self.answer.take() {
                Some(answer) => Ok(answer),
                None => std::future::pending().await,
            }
        }

        fn rest(&mut self) {
            self.rests += 1;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn binds_renews_and_loses() {
        let fake = Fake {
            lose: 3,
            leases: 2,
            answer: None,
            rests: 0,
        };
        let mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
        let mut client = Client::new(mac, Random::default(), fake);
        let start = tokio::time::Instant::now();
        assert!(matches!(client.next().await, Event::Bound(_)));
        assert!(
            start.elapsed() < Duration::from_secs(12),
            "three lost, then at once"
        );
        assert!(matches!(client.next().await, Event::Bound(_)), "renewed");
        assert!(client.transport.rests >= 2);
        assert!(matches!(client.next().await, Event::Lost(_)));
        assert!(start.elapsed() > Duration::from_secs(300 + 600));
    }
}
