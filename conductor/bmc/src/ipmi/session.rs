//! A session: opened by RAKP (§13.15 and on), protected, and closed.

use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;

use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::Endpoint;
use super::Error;
use super::Result;
use super::Suite;
use super::Tuning;
use super::crypto;
use super::crypto::Exchange;
use super::crypto::Keys;
use super::error;
use super::packet;
use super::packet::Answer;
use super::packet::Command;
use super::packet::Payload;
use super::packet::Sealed;

/// Larger than any answer that is asked for here.
const DATAGRAM: usize = 1024;
/// "Name only lookup" of RAKP message 1 (§13.20).
const BY_NAME: u8 = 0x10;

const CAPABILITIES: Command = Command {
    name: "Get Channel Authentication Capabilities",
    netfn: 0x06,
    code: 0x38,
};
const SET_PRIVILEGE: Command = Command {
    name: "Set Session Privilege Level",
    netfn: 0x06,
    code: 0x3B,
};
const CLOSE: Command = Command {
    name: "Close Session",
    netfn: 0x06,
    code: 0x3C,
};

/// A socket that is connected to the BMC, with its patience.
struct Wire {
    socket: UdpSocket,
    address: String,
    tuning: Tuning,
}

impl Wire {
    async fn to(endpoint: &Endpoint, tuning: &Tuning) -> Result<Self> {
        let address = endpoint.shown();
        let network = |source| Error::Network {
            address: address.clone(),
            source,
        };
        let found = tokio::net::lookup_host((endpoint.address.as_str(), endpoint.port)).await;
        let target = found.map_err(network)?.next().ok_or_else(|| {
            network(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "the name has no address",
            ))
        })?;
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).await.map_err(network)?;
        // Only what comes from there is received.
        socket.connect(target).await.map_err(network)?;
        Ok(Self {
            socket,
            address,
            tuning: tuning.clone(),
        })
    }

    /// Sends a datagram until `read` takes one that comes back. Datagrams that
    /// it does not take are late, forged or damaged, and are passed over.
    async fn ask<T>(
        &self,
        action: &'static str,
        mut datagram: impl FnMut() -> Result<Vec<u8>>,
        mut read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<T> {
        let mut buffer = [0; DATAGRAM];
        for _ in 0..self.tuning.attempts {
            let datagram = datagram()?;
            // A refusal that an earlier datagram met may come here; like
            // silence, it is given some time.
            if let Err(error) = self.socket.send(&datagram).await {
                tracing::debug!(address = self.address, err = %error, "datagram not sent");
            }
            let until = Instant::now() + self.tuning.response_timeout;
            loop {
                match tokio::time::timeout_at(until, self.socket.recv(&mut buffer)).await {
                    Err(_) => break,
                    Ok(Ok(length)) => {
                        if let Some(found) = read(&buffer[..length]) {
                            return Ok(found);
                        }
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(address = self.address, err = %error, "no datagram");
                        tokio::time::sleep_until(until).await;
                        break;
                    }
                }
            }
        }
        Err(Error::Unreachable {
            action,
            address: self.address.clone(),
            attempts: self.tuning.attempts,
        })
    }

    /// Sends a message that opens a session and gives the payload of the
    /// answer that carries the same tag.
    async fn open_step(
        &self,
        action: &'static str,
        (kind, expected): (Payload, Payload),
        payload: &[u8],
    ) -> Result<Vec<u8>> {
        let tag = payload.first().copied();
        self.ask(
            action,
            || Ok(packet::plain(kind, payload)),
            |datagram| {
                let received = packet::receive(datagram, 0)?;
                let ours = received.kind == expected && received.payload.first().copied() == tag;
                ours.then(|| received.payload.to_vec())
            },
        )
        .await
    }
}

/// What the BMC said to the request for a session.
enum Opened {
    /// Its ID of the session.
    Session(u32),
    /// It does not have the cipher suite.
    OtherSuite,
}

/// An open session.
pub(super) struct Session {
    wire: Wire,
    keys: Keys,
    suite: Suite,
    console: u32,
    system: u32,
    /// Of datagrams, §13.28.2: begins with 1.
    sequence: u32,
    /// Of messages: 6 bits.
    message: u8,
}

impl Session {
    /// Opens one; `known`: the suite that worked last.
    pub(super) async fn open(
        endpoint: &Endpoint,
        tuning: &Tuning,
        known: Option<Suite>,
    ) -> Result<Self> {
        let wire = Wire::to(endpoint, tuning).await?;
        capabilities(&wire, endpoint).await?;
        let suites: &[Suite] = match endpoint.suite.or(known) {
            Some(Suite::Sha1) => &[Suite::Sha1],
            Some(Suite::Sha256) => &[Suite::Sha256],
            None => &[Suite::Sha256, Suite::Sha1],
        };
        let refused = |problem: &str| Error::Auth {
            address: wire.address.clone(),
            user: endpoint.username.clone(),
            problem: problem.to_owned(),
        };
        let console = u32::from_le_bytes(crypto::random().ok_or_else(|| refused(NO_RANDOM))?) | 1;
        for suite in suites {
            if let Opened::Session(system) = request(&wire, endpoint, *suite, console).await? {
                let keys = authenticate(&wire, endpoint, *suite, (console, system)).await?;
                let mut session = Self {
                    wire,
                    keys,
                    suite: *suite,
                    console,
                    system,
                    sequence: 0,
                    message: 0,
                };
                session
                    .command(SET_PRIVILEGE, &[endpoint.privilege.code()], 1)
                    .await?;
                return Ok(session);
            }
        }
        let tried: Vec<String> = suites
            .iter()
            .map(|suite| suite.number().to_string())
            .collect();
        Err(Error::NoSuite {
            address: wire.address,
            tried: tried.join(" and "),
        })
    }

    pub(super) fn suite(&self) -> Suite {
        self.suite
    }

    pub(super) fn address(&self) -> &str {
        &self.wire.address
    }

    /// Pause between two looks at a state.
    pub(super) fn poll(&self) -> std::time::Duration {
        self.wire.tuning.poll
    }

    /// Sends a command; gives the data of its answer, `least` bytes or more.
    pub(super) async fn command(
        &mut self,
        command: Command,
        data: &[u8],
        least: usize,
    ) -> Result<Vec<u8>> {
        let answer = self.exchange(command, data).await?;
        if answer.completion != 0 {
            return Err(Error::Refused {
                command: command.name,
                address: self.wire.address.clone(),
                code: answer.completion,
                meaning: error::meaning(answer.completion),
            });
        }
        if answer.data.len() < least {
            return Err(Error::Short {
                command: command.name,
                address: self.wire.address.clone(),
                expected: least,
                found: answer.data.len(),
            });
        }
        Ok(answer.data)
    }

    async fn exchange(&mut self, command: Command, data: &[u8]) -> Result<Answer> {
        self.message = (self.message + 1) % 64;
        let (keys, console, system, number) = (&self.keys, self.console, self.system, self.message);
        let length = self.suite.code_length();
        let message = packet::request(command, number, data);
        let sequence = &mut self.sequence;
        let datagram = || {
            // Each one that is sent has its own, also a repetition.
            *sequence += 1;
            let sealed = keys.encrypt(&message).ok_or_else(|| Error::Auth {
                address: self.wire.address.clone(),
                user: String::new(),
                problem: NO_RANDOM.to_owned(),
            })?;
            let sealed = Sealed::new(system, *sequence, &sealed);
            let code = keys.code(sealed.signed());
            Ok(sealed.with_code(&code))
        };
        let read = |datagram: &[u8]| {
            let received = packet::receive(datagram, length)?;
            let ours = received.kind == Payload::Ipmi
                && received.session == console
                && received.encrypted
                && received.authenticated
                && crypto::same(received.code, &keys.code(received.signed));
            let answer = packet::answer(&keys.decrypt(ours.then_some(received.payload)?)?)?;
            let fits = answer.netfn == command.netfn + 1
                && answer.command == command.code
                && answer.sequence == number;
            fits.then_some(answer)
        };
        self.wire.ask(command.name, datagram, read).await
    }

    /// Ends the session; a BMC that does not answer ends it by itself after a
    /// minute.
    pub(super) async fn close(mut self) {
        self.wire.tuning.attempts = 1;
        let id = self.system.to_le_bytes();
        if let Err(error) = self.command(CLOSE, &id, 0).await {
            tracing::debug!(address = self.wire.address, err = %error, "session not closed");
        }
    }
}

const NO_RANDOM: &str = "no random bytes to be had for the session's keys";

/// Asks whether the BMC is there and speaks IPMI 2.0 (§22.13).
async fn capabilities(wire: &Wire, endpoint: &Endpoint) -> Result<()> {
    // This channel, and the data of version 2.0.
    let message = packet::request(CAPABILITIES, 0, &[0x8E, endpoint.privilege.code()]);
    let answer = wire
        .ask(
            CAPABILITIES.name,
            || Ok(packet::bare(&message)),
            |datagram| {
                packet::answer(packet::from_bare(datagram)?)
                    .filter(|answer| answer.command == CAPABILITIES.code)
            },
        )
        .await?;
    // Byte 2, bit 7: extended data; byte 4, bit 1: IPMI 2.0.
    let extended = answer.data.get(1).is_some_and(|byte| byte & 0x80 != 0);
    let version_2 = answer.data.get(3).is_some_and(|byte| byte & 0x02 != 0);
    if answer.completion == 0 && extended && !version_2 {
        return Err(Error::Unsupported {
            address: wire.address.clone(),
            wanted: "open a session of version 2.0".to_owned(),
            offered: "only version 1.5, whose passwords can be guessed from what is sent",
        });
    }
    Ok(())
}

/// RMCP+ Open Session (§13.17).
async fn request(wire: &Wire, endpoint: &Endpoint, suite: Suite, console: u32) -> Result<Opened> {
    let mut payload = vec![suite.number(), endpoint.privilege.code(), 0, 0];
    payload.extend(console.to_le_bytes());
    for (kind, algorithm) in (0u8..).zip(suite.algorithms()) {
        payload.extend([kind, 0, 0, 8, algorithm, 0, 0, 0]);
    }
    let kinds = (Payload::OpenRequest, Payload::OpenResponse);
    let answer = wire.open_step("Open Session", kinds, &payload).await?;
    match answer.get(1) {
        Some(0) => {}
        // No such authentication, integrity, confidentiality algorithm or
        // suite.
        Some(0x04 | 0x05 | 0x06 | 0x10 | 0x11) => return Ok(Opened::OtherSuite),
        status => return Err(turned_away(wire, endpoint, "Open Session", status.copied())),
    }
    let word = |at: usize| -> Option<u32> {
        let bytes = answer.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let (Some(ours), Some(system)) = (word(4), word(8)) else {
        return Err(turned_away(wire, endpoint, "Open Session", None));
    };
    if ours != console {
        return Err(turned_away(wire, endpoint, "Open Session", None));
    }
    // Eight bytes each for three algorithms: what was chosen must be what was
    // asked for.
    for (index, wanted) in suite.algorithms().into_iter().enumerate() {
        if answer.get(16 + 8 * index) != Some(&wanted) {
            return Ok(Opened::OtherSuite);
        }
    }
    Ok(Opened::Session(system))
}

/// RAKP messages 1 to 4 (§13.20–§13.23).
async fn authenticate(
    wire: &Wire,
    endpoint: &Endpoint,
    suite: Suite,
    (console_session, system_session): (u32, u32),
) -> Result<Keys> {
    let refuse = |problem: &str| Error::Auth {
        address: wire.address.clone(),
        user: endpoint.username.clone(),
        problem: problem.to_owned(),
    };
    let console_random = crypto::random().ok_or_else(|| refuse(NO_RANDOM))?;
    let role = endpoint.privilege.code() | BY_NAME;
    let user = endpoint.username.as_str();
    let mut first = vec![suite.number(), 0, 0, 0];
    first.extend(system_session.to_le_bytes());
    first.extend(console_random);
    first.extend([role, 0, 0, u8::try_from(user.len()).unwrap_or(u8::MAX)]);
    first.extend(user.as_bytes());
    let kinds = (Payload::Rakp1, Payload::Rakp2);
    let second = wire.open_step("RAKP message 1", kinds, &first).await?;
    if second.get(1) != Some(&0) {
        let status = second.get(1).copied();
        return Err(turned_away(wire, endpoint, "RAKP message 1", status));
    }
    let part = |at: usize| -> Option<[u8; 16]> { second.get(at..at + 16)?.try_into().ok() };
    let ours = second.get(4..8) == Some(&console_session.to_le_bytes()[..]);
    let (Some(system_random), Some(system_guid), true) = (part(8), part(24), ours) else {
        return Err(refuse("its RAKP message 2 is damaged"));
    };
    let kg = endpoint.kg.as_ref().map(|kg| from_hex(kg.expose()));
    let password = endpoint.password.expose().as_bytes();
    let exchange = Exchange {
        suite,
        console_session,
        system_session,
        console_random,
        system_random,
        system_guid,
        role,
        user,
        password,
        kg: kg.as_deref().unwrap_or(password),
    };
    let code = second
        .get(40..40 + suite.exchange_length())
        .unwrap_or_default();
    if !crypto::same(code, &exchange.system_code()) {
        return Err(refuse(
            "it does not prove that it knows the password; check ipmi_username and ipmi_password",
        ));
    }
    let mut third = vec![suite.number(), 0, 0, 0];
    third.extend(system_session.to_le_bytes());
    third.extend(exchange.console_code());
    let kinds = (Payload::Rakp3, Payload::Rakp4);
    let fourth = wire.open_step("RAKP message 3", kinds, &third).await?;
    if fourth.get(1) != Some(&0) {
        let status = fourth.get(1).copied();
        return Err(turned_away(wire, endpoint, "RAKP message 3", status));
    }
    let (keys, check) = exchange.finish();
    if !crypto::same(fourth.get(8..8 + check.len()).unwrap_or_default(), &check) {
        return Err(refuse("its K_G key is another one; check ipmi_hex_kg_key"));
    }
    Ok(keys)
}

/// Status codes of §13.24.
fn turned_away(wire: &Wire, endpoint: &Endpoint, step: &str, status: Option<u8>) -> Error {
    let meaning = match status {
        None => "an answer that is damaged",
        Some(0x01) => "no room for another session; one that was left open ends after a minute",
        Some(0x02) => "an invalid session ID",
        Some(0x09) => "an invalid role",
        Some(0x0A..=0x0C) => {
            "the rights that were asked for are not the user's; lower ipmi_priv_level"
        }
        Some(0x0D) => "the user is not known; check ipmi_username",
        Some(0x0F) => "a wrong integrity check; check ipmi_password",
        Some(0x12) => "an illegal parameter",
        Some(_) => "a refusal",
    };
    let status = status.map_or_else(String::new, |status| format!(" (status {status:#04x})"));
    Error::Auth {
        address: wire.address.clone(),
        user: endpoint.username.clone(),
        problem: format!("{step} gave {meaning}{status}"),
    }
}

/// Hexadecimal digits, which were checked, as bytes.
fn from_hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default();
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .filter_map(|pair| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).ok())
        .collect()
}
