//! The states, driven by a made-up clock and server.

use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::DhcpOption;
use dhcproto::v4::Message;
use dhcproto::v4::MessageType;
use dhcproto::v4::Opcode;
use dhcproto::v4::OptionCode;

use super::Machine;
use super::Output;
use super::To;
use crate::api::Random;
use crate::net::mac::Mac;

const MAC: Mac = Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn machine() -> Machine {
    Machine::new(MAC, Random::from_fn(|| 0x1234_5678), seconds(0))
}

fn sent(outputs: &[Output]) -> (&Message, To) {
    match outputs {
        [Output::Send(message, to)] => (message, *to),
        other => panic!("expected one message, found {other:?}"),
    }
}

fn reply(to: &Message, kind: MessageType) -> Message {
    let mut message = Message::default();
    message
        .set_opcode(Opcode::BootReply)
        .set_xid(to.xid())
        .set_chaddr(&MAC.0)
        .set_yiaddr(ADDRESS);
    let options = message.opts_mut();
    options.insert(DhcpOption::MessageType(kind));
    options.insert(DhcpOption::ServerIdentifier(SERVER));
    options.insert(DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 255, 0)));
    options.insert(DhcpOption::Router(vec![SERVER]));
    options.insert(DhcpOption::DomainNameServer(vec![SERVER]));
    options.insert(DhcpOption::AddressLeaseTime(3600));
    message
}

fn bound() -> (Machine, Message) {
    let mut machine = machine();
    let outputs = machine.on_time(seconds(0));
    let (discover, to) = sent(&outputs);
    assert_eq!(
        (discover.opts().msg_type(), to),
        (Some(MessageType::Discover), To::Broadcast)
    );
    let outputs = machine.on_message(seconds(1), &reply(discover, MessageType::Offer));
    let (request, to) = sent(&outputs);
    assert_eq!(
        (request.opts().msg_type(), to),
        (Some(MessageType::Request), To::Broadcast)
    );
    assert_eq!(
        request.opts().get(OptionCode::RequestedIpAddress),
        Some(&DhcpOption::RequestedIpAddress(ADDRESS))
    );
    let ack = reply(request, MessageType::Ack);
    let outputs = machine.on_message(seconds(1), &ack);
    let [Output::Bound(lease)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(
        (lease.address, lease.prefix, lease.server),
        (ADDRESS, 24, SERVER)
    );
    assert_eq!(lease.routes, [(Ipv4Addr::UNSPECIFIED, 0, SERVER)]);
    assert_eq!((lease.renew, lease.rebind), (seconds(1800), seconds(3150)));
    assert!(machine.is_bound() && !machine.is_listening());
    let request = request.clone();
    (machine, request)
}

#[test]
fn discovery_is_repeated_with_growing_pauses() {
    let mut machine = machine();
    let mut times = Vec::new();
    for _ in 0..7 {
        let now = machine.deadline();
        times.push(now.as_secs());
        assert_eq!(
            sent(&machine.on_time(now)).0.opts().msg_type(),
            Some(MessageType::Discover)
        );
    }
    assert_eq!(times, [0, 1, 3, 7, 15, 23, 31]);
    assert!(
        machine.on_time(seconds(32)).is_empty(),
        "not before its time"
    );
}

#[test]
fn what_is_not_for_us_changes_nothing() {
    let mut machine = machine();
    let outputs = machine.on_time(seconds(0));
    let discover = sent(&outputs).0;
    let mut other_xid = reply(discover, MessageType::Offer);
    other_xid.set_xid(discover.xid().wrapping_add(1));
    let mut other_mac = reply(discover, MessageType::Offer);
    other_mac.set_chaddr(&[2; 6]);
    let mut not_a_reply = reply(discover, MessageType::Offer);
    not_a_reply.set_opcode(Opcode::BootRequest);
    let early_ack = reply(discover, MessageType::Ack);
    let mut no_address = reply(discover, MessageType::Offer);
    no_address.set_yiaddr(Ipv4Addr::UNSPECIFIED);
    for message in [other_xid, other_mac, not_a_reply, early_ack, no_address] {
        assert!(machine.on_message(seconds(1), &message).is_empty());
    }
    assert!(!machine.is_bound());
}

#[test]
fn silence_and_refusal_lead_to_a_new_discovery() {
    for refuse in [false, true] {
        let mut machine = machine();
        let outputs = machine.on_time(seconds(0));
        let outputs = machine.on_message(seconds(1), &reply(sent(&outputs).0, MessageType::Offer));
        if refuse {
            let nak = reply(sent(&outputs).0, MessageType::Nak);
            assert!(machine.on_message(seconds(1), &nak).is_empty());
        }
        let mut kinds = Vec::new();
        for _ in 0..5 {
            let now = machine.deadline();
            if let [Output::Send(message, _)] = machine.on_time(now).as_slice() {
                kinds.push(message.opts().msg_type());
            }
        }
        let requests = kinds
            .iter()
            .filter(|kind| **kind == Some(MessageType::Request))
            .count();
        assert_eq!(requests, if refuse { 0 } else { 3 });
        assert_eq!(kinds.last(), Some(&Some(MessageType::Discover)));
    }
}

#[test]
fn a_lease_is_renewed_by_its_server() {
    let (mut machine, _) = bound();
    assert_eq!(machine.deadline(), seconds(1801));
    let outputs = machine.on_time(seconds(1801));
    let (request, to) = sent(&outputs);
    assert_eq!(
        to,
        To::Server {
            from: ADDRESS,
            to: SERVER
        }
    );
    assert_eq!(request.ciaddr(), ADDRESS);
    assert_eq!(request.opts().get(OptionCode::RequestedIpAddress), None);
    let outputs = machine.on_message(seconds(1802), &reply(request, MessageType::Ack));
    assert!(matches!(outputs.as_slice(), [Output::Bound(_)]));
    assert_eq!(machine.deadline(), seconds(3602));
}

#[test]
fn without_its_server_it_is_rebound_then_lost() {
    let (mut machine, _) = bound();
    let mut broadcasts = 0;
    let lost = loop {
        let now = machine.deadline();
        match machine.on_time(now).as_slice() {
            [Output::Send(_, To::Broadcast)] => broadcasts += 1,
            [Output::Send(_, To::Server { .. })] => assert!(now < seconds(1 + 3150)),
            [Output::Lost(_)] => break now,
            other => panic!("{other:?}"),
        }
    };
    assert!(broadcasts > 1);
    assert_eq!(lost, seconds(3601));
    assert!(!machine.is_bound());
    let now = machine.deadline();
    let outputs = machine.on_time(now);
    let discover = sent(&outputs).0.opts();
    assert_eq!(discover.msg_type(), Some(MessageType::Discover));
    assert_eq!(
        discover.get(OptionCode::RequestedIpAddress),
        Some(&DhcpOption::RequestedIpAddress(ADDRESS)),
        "the same address as before, if it can be"
    );
}

#[test]
fn a_refused_renewal_gives_the_address_up() {
    let (mut machine, _) = bound();
    let outputs = machine.on_time(seconds(1801));
    let nak = reply(sent(&outputs).0, MessageType::Nak);
    assert!(matches!(
        machine.on_message(seconds(1802), &nak).as_slice(),
        [Output::Lost(_)]
    ));
    assert!(!machine.is_bound());
    let now = machine.deadline();
    let outputs = machine.on_time(now);
    let discover = sent(&outputs).0.opts();
    assert_eq!(discover.msg_type(), Some(MessageType::Discover));
    assert_eq!(discover.get(OptionCode::RequestedIpAddress), None);
}

#[test]
fn classless_routes_win_and_odd_values_are_left_out() {
    let (_, request) = bound();
    let mut ack = reply(&request, MessageType::Ack);
    let options = ack.opts_mut();
    let network = "198.51.100.0/24".parse().unwrap();
    options.insert(DhcpOption::ClasslessStaticRoute(vec![(network, ADDRESS)]));
    options.insert(DhcpOption::InterfaceMtu(68));
    options.insert(DhcpOption::DomainName(
        "evil\nnameserver 1.2.3.4".to_owned(),
    ));
    options.insert(DhcpOption::AddressLeaseTime(u32::MAX));
    let lease = super::Lease::from_message(&ack).unwrap();
    assert_eq!(
        lease.routes,
        [(Ipv4Addr::new(198, 51, 100, 0), 24, ADDRESS)]
    );
    assert_eq!((lease.mtu, lease.domain, lease.expire), (None, None, None));
}
