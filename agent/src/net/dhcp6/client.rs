//! Joins the state machine with a socket and the time.

use std::io;
use std::net::Ipv6Addr;
use std::net::SocketAddrV6;
use std::time::Duration;

use dhcproto::Decodable;
use dhcproto::Decoder;
use dhcproto::Encodable;
use dhcproto::v6::Message;
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tracing::debug;

use super::Lease;
use super::Machine;
use super::Output;
use super::Wanted;
use crate::api::Random;
use crate::net::advert;
use crate::net::nic::Nic;

const CLIENT: u16 = 546;
const SERVER: u16 = 547;
/// All servers and relays of the link (§7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
const LARGEST: usize = 4096;

/// What has come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This holds.
    Bound(Box<Lease>),
    /// There is no address any more, for this reason.
    Lost(&'static str),
}

/// A DHCPv6 client on one interface.
#[derive(Debug)]
pub struct Client {
    machine: Machine,
    socket: UdpSocket,
    index: u32,
    start: Instant,
}

impl Client {
    /// A client that starts at once.
    pub fn open(nic: &Nic, wanted: Wanted) -> io::Result<Self> {
        Ok(Self {
            machine: Machine::new(nic.mac, wanted, Random::default(), Duration::ZERO),
            socket: advert::udp(&nic.name, CLIENT)?,
            index: nic.index,
            start: Instant::now(),
        })
    }

    /// Waits for the next event. Dropping the future in between loses nothing.
    pub async fn next(&mut self) -> Event {
        loop {
            let mut event = None;
            for output in self.step().await {
                match output {
                    Output::Send(message) => self.send(&message).await,
                    Output::Bound(lease) => event = Some(Event::Bound(lease)),
                    Output::Lost(reason) => event = Some(Event::Lost(reason)),
                }
            }
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn step(&mut self) -> Vec<Output> {
        let deadline = self.start + self.machine.deadline();
        let mut bytes = vec![0; LARGEST];
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {
                self.machine.on_time(self.start.elapsed())
            }
            received = self.socket.recv_from(&mut bytes) => {
                let Ok((length, _)) = received else {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    return Vec::new();
                };
                let bytes = bytes.get(..length).unwrap_or_default();
                match Message::decode(&mut Decoder::new(bytes)) {
                    Ok(message) => self.machine.on_message(self.start.elapsed(), &message),
                    Err(error) => {
                        debug!("dhcpv6: a message cannot be read: {error}");
                        Vec::new()
                    }
                }
            }
        }
    }

    async fn send(&self, message: &Message) {
        let to = SocketAddrV6::new(SERVERS, SERVER, 0, self.index);
        let result = match message.to_vec() {
            Ok(bytes) => self.socket.send_to(&bytes, to).await.map(drop),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        // The machine sends again by itself.
        if let Err(error) = result {
            debug!("dhcpv6: cannot send: {error}");
        }
    }
}
