//! One question to an NTP server (SNTP, RFC 4330).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;

use crate::api::Random;

const PORT: u16 = 123;
const PACKET: usize = 48;
/// Seconds from 1900, where NTP counts from, to 1970.
const TO_UNIX: u64 = 2_208_988_800;
/// One era of NTP's seconds: they are counted from 2036 on anew.
const ERA: u64 = 1 << 32;
const TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPTS: u32 = 3;

/// The server's time since 1970.
pub(super) async fn ask(server: &str) -> io::Result<Duration> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let found = tokio::net::lookup_host(address(server)).await?;
    let addresses: Vec<SocketAddr> = found.take(4).collect();
    for _ in 0..ATTEMPTS {
        for address in &addresses {
            match tokio::time::timeout(TIMEOUT, once(*address)).await {
                Ok(Ok(time)) => return Ok(time),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
            }
        }
    }
    Err(last)
}

/// With the port where none is said. An IPv6 address alone has colons too.
fn address(server: &str) -> String {
    if let Ok(v6) = server.parse::<std::net::Ipv6Addr>() {
        return format!("[{v6}]:{PORT}");
    }
    match server.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => server.to_owned(),
        _ => format!("{server}:{PORT}"),
    }
}

async fn once(server: SocketAddr) -> io::Result<Duration> {
    let any = match server {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    let random = Random::default();
    let nonce = u64::from(random.u32()) << 32 | u64::from(random.u32());
    let mut request = [0; PACKET];
    // No warning, version 4, client.
    request[0] = 0x23;
    // Our transmit time comes back as it is: it says that the answer is ours.
    request[40..].copy_from_slice(&nonce.to_be_bytes());
    socket.send(&request).await?;
    let mut answer = [0; PACKET];
    let length = socket.recv(&mut answer).await?;
    let answer = answer.get(..length).unwrap_or_default();
    read(answer, nonce).ok_or_else(|| {
        let text = "it gave no time that can be used";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// The transmit time of an answer to the question with this nonce; none of a
/// server that has no time itself.
fn read(answer: &[u8], nonce: u64) -> Option<Duration> {
    let first = *answer.first()?;
    let (alarm, mode, stratum) = (first >> 6, first & 7, *answer.get(1)?);
    let field = |at: usize| {
        let bytes = answer.get(at..at + 8)?;
        bytes.try_into().ok().map(u64::from_be_bytes)
    };
    if alarm == 3 || mode != 4 || !(1..16).contains(&stratum) || field(24)? != nonce {
        return None;
    }
    let time = field(40)?;
    let (mut seconds, fraction) = (time >> 32, time & (ERA - 1));
    // 1968 to 2036 are in the first era.
    if seconds < ERA / 2 {
        seconds += ERA;
    }
    let nanoseconds = (fraction * 1_000_000_000) >> 32;
    Some(Duration::from_secs(seconds.checked_sub(TO_UNIX)?) + Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::UdpSocket;

    use super::PACKET;
    use super::TO_UNIX;
    use super::address;
    use super::ask;
    use super::read;

    fn answer(request: &[u8], first: u8, stratum: u8, seconds: u64) -> Vec<u8> {
        let mut answer = vec![0; PACKET];
        answer[0] = first;
        answer[1] = stratum;
        answer[24..32].copy_from_slice(&request[40..48]);
        let time = ((seconds + TO_UNIX) << 32) | 1 << 31;
        answer[40..].copy_from_slice(&time.to_be_bytes());
        answer
    }

    #[test]
    fn ntp_answers_are_read_with_care() {
        let mut request = vec![0; PACKET];
        request[47] = 7;
        let time = Duration::from_millis(1_796_058_163_500);
        assert_eq!(
            read(&answer(&request, 0x24, 2, 1_796_058_163), 7),
            Some(time)
        );
        // After 2036.
        let late = 2_100_000_000;
        let found = read(&answer(&request, 0x24, 2, late), 7).unwrap();
        assert_eq!(found.as_secs(), late);
        for (first, stratum, nonce) in [
            (0x24, 0, 7),
            (0x24, 16, 7),
            (0xe4, 2, 7),
            (0x23, 2, 7),
            (0x24, 2, 8),
        ] {
            assert_eq!(read(&answer(&request, first, stratum, late), nonce), None);
        }
        let whole = answer(&request, 0x24, 2, late);
        for end in 0..PACKET {
            assert_eq!(read(&whole[..end], 7), None);
        }
    }

    #[test]
    fn servers_with_and_without_a_port() {
        for (server, expected) in [
            ("ntp.test", "ntp.test:123"),
            ("192.0.2.1:1123", "192.0.2.1:1123"),
            ("2001:db8::1", "[2001:db8::1]:123"),
            ("[2001:db8::1]:1123", "[2001:db8::1]:1123"),
        ] {
            assert_eq!(address(server), expected);
        }
    }

    #[tokio::test]
    async fn a_server_is_asked_by_ntp() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let mut request = [0; PACKET];
            let (_, from) = server.recv_from(&mut request).await.unwrap();
            assert_eq!(request[0], 0x23);
            let bytes = answer(&request, 0x24, 3, 1_796_058_163);
            server.send_to(&bytes, from).await.unwrap();
        });
        let time = ask(&format!("127.0.0.1:{port}")).await.unwrap();
        assert_eq!(time.as_secs(), 1_796_058_163);
        serving.await.unwrap();
    }
}
