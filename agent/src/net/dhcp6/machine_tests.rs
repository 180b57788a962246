//! A server made by hand, and what the machine makes of it.

use std::net::Ipv6Addr;
use std::time::Duration;

use dhcproto::v6::DhcpOption;
use dhcproto::v6::DhcpOptions;
use dhcproto::v6::IAAddr;
use dhcproto::v6::IANA;
use dhcproto::v6::Message;
use dhcproto::v6::MessageType as T;
use dhcproto::v6::OptionCode;
use dhcproto::v6::Status;
use dhcproto::v6::StatusCode;

use super::Machine;
use super::Output;
use super::Wanted;
use crate::api::Random;
use crate::net::mac::Mac;

const ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const SECOND: Duration = Duration::from_secs(1);

fn machine(wanted: Wanted) -> Machine {
    let mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
    Machine::new(mac, wanted, Random::default(), Duration::ZERO)
}

/// The message that is due, and when.
fn sent(machine: &mut Machine) -> (Message, Duration) {
    loop {
        let now = machine.deadline();
        match machine.on_time(now).into_iter().next() {
            Some(Output::Send(message)) => return (*message, now),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

fn answer(request: &Message, kind: T, address: Option<Ipv6Addr>, life: u32) -> Message {
    let mut message = Message::new_with_id(kind, request.xid());
    let client = request.opts().get(OptionCode::ClientId).unwrap().clone();
    let options = message.opts_mut();
    options.insert(client);
    options.insert(DhcpOption::ServerId(vec![0, 1, 2, 3]));
    options.insert(DhcpOption::DomainNameServers(vec![ADDRESS]));
    let mut inner = DhcpOptions::new();
    match address {
        Some(addr) => inner.insert(DhcpOption::IAAddr(IAAddr {
            addr,
            preferred_life: life,
            valid_life: life,
            opts: DhcpOptions::new(),
        })),
        None => inner.insert(DhcpOption::StatusCode(StatusCode {
            status: Status::NoAddrsAvail,
            msg: String::new(),
        })),
    }
    options.insert(DhcpOption::IANA(IANA {
        id: 1,
        t1: 0,
        t2: 0,
        opts: inner,
    }));
    message
}

/// Through solicitation and request; gives when it was bound.
fn bound(machine: &mut Machine, life: u32) -> Duration {
    let (solicit, now) = sent(machine);
    assert_eq!(solicit.msg_type(), T::Solicit);
    let offer = answer(&solicit, T::Advertise, Some(ADDRESS), life);
    assert!(machine.on_message(now, &offer).is_empty());
    let (request, now) = sent(machine);
    assert_eq!(request.msg_type(), T::Request);
    assert!(request.opts().get(OptionCode::ServerId).is_some());
    let outputs = machine.on_message(now, &answer(&request, T::Reply, Some(ADDRESS), life));
    let [Output::Bound(lease)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (lease.address, lease.dns.as_slice()),
        (Some(ADDRESS), [ADDRESS].as_slice())
    );
    now
}

#[test]
fn dhcpv6_binds_renews_rebinds_and_loses() {
    let mut machine = machine(Wanted::Address);
    let now = bound(&mut machine, 1000);
    // T1 is half of the preferred life.
    assert_eq!(machine.deadline(), now + 500 * SECOND);
    let (renew, now) = sent(&mut machine);
    assert_eq!(renew.msg_type(), T::Renew);
    let outputs = machine.on_message(now, &answer(&renew, T::Reply, Some(ADDRESS), 1000));
    assert!(
        matches!(outputs.as_slice(), [Output::Bound(_)]),
        "{outputs:?}"
    );
    // Now nobody answers any more.
    let mut kinds = Vec::new();
    let end = loop {
        let now = machine.deadline();
        for output in machine.on_time(now) {
            match output {
                Output::Send(message) => kinds.push(message.msg_type()),
                Output::Lost(_) => break,
                other => panic!("{other:?}"),
            }
        }
        if machine.deadline() == now && kinds.contains(&T::Rebind) {
            break now;
        }
    };
    assert_eq!(end, now + 1000 * SECOND, "until the end of the address");
    assert_eq!(kinds[0], T::Renew);
    assert!(kinds.len() < 40, "{} messages", kinds.len());
    assert_eq!(sent(&mut machine).0.msg_type(), T::Solicit);
}

#[test]
fn dhcpv6_starts_anew_when_the_server_has_nothing() {
    let mut machine = machine(Wanted::Address);
    let (solicit, now) = sent(&mut machine);
    let none = answer(&solicit, T::Advertise, None, 0);
    assert!(machine.on_message(now, &none).is_empty());
    let (again, now) = sent(&mut machine);
    assert_eq!(again.msg_type(), T::Solicit, "the offer was none");
    // Answers to others, and strange ones.
    let mut other = answer(&again, T::Advertise, Some(ADDRESS), 100);
    other.set_xid([9, 9, 9]);
    machine.on_message(now, &other);
    let bare = Message::new_with_id(T::Advertise, again.xid());
    machine.on_message(now, &bare);
    assert_eq!(sent(&mut machine).0.msg_type(), T::Solicit);
    let now = bound(&mut machine, 100);
    assert!(machine.deadline() > now);
    let (renew, now) = sent(&mut machine);
    let outputs = machine.on_message(now, &answer(&renew, T::Reply, None, 0));
    assert!(
        matches!(outputs.as_slice(), [Output::Lost(_)]),
        "{outputs:?}"
    );
    // A request that is never answered begins anew.
    let (solicit, now) = sent(&mut machine);
    machine.on_message(now, &answer(&solicit, T::Advertise, Some(ADDRESS), 100));
    for _ in 0..5 {
        assert_eq!(sent(&mut machine).0.msg_type(), T::Request);
    }
    assert_eq!(sent(&mut machine).0.msg_type(), T::Solicit);
}

#[test]
fn dhcpv6_asks_for_other_things_alone() {
    let mut machine = machine(Wanted::Other);
    let (ask, now) = sent(&mut machine);
    assert_eq!(ask.msg_type(), T::InformationRequest);
    assert!(ask.opts().get(OptionCode::IANA).is_none());
    let outputs = machine.on_message(now, &answer(&ask, T::Reply, None, 0));
    let [Output::Bound(lease)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((lease.address, lease.dns.len()), (None, 1));
    assert!(machine.deadline() > now + 3600 * SECOND);
}
