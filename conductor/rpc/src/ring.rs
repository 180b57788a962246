//! The hash ring: which of several hosts looks after a node. Points and
//! positions are Ironic's, so that both put every node on the same host.

use md5::Digest;
use md5::Md5;
use uuid::Uuid;

/// Points that each host has: Ironic's default, two to the fifth.
const PARTITIONS: usize = 32;

/// Hosts around a circle of MD5 values.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    hosts: Vec<String>,
    /// Where hosts stand, in order, each with its place in `hosts`.
    points: Vec<(u128, usize)>,
}

impl Ring {
    /// A ring of these hosts; their order does not matter.
    pub fn new(hosts: &[String]) -> Self {
        let mut hosts = hosts.to_vec();
        hosts.sort_unstable();
        hosts.dedup();
        let mut points = Vec::with_capacity(hosts.len() * PARTITIONS);
        for (place, host) in hosts.iter().enumerate() {
            // One digest that takes the name again and again: the points are
            // those of the name written twice, three times and so on.
            let mut state = Md5::new_with_prefix(host);
            for _ in 0..PARTITIONS {
                state.update(host);
                points.push((number(state.clone()), place));
            }
        }
        points.sort_unstable();
        Self { hosts, points }
    }

    /// The host that a node is with: the first one after the node's place.
    /// None: the ring has no hosts.
    pub fn owner(&self, uuid: Uuid) -> Option<&str> {
        let mut text = Uuid::encode_buffer();
        let text = uuid.hyphenated().encode_lower(&mut text);
        let position = number(Md5::new_with_prefix(text));
        let after = self.points.partition_point(|(point, _)| *point <= position);
        let (_, place) = self.points.get(after).or(self.points.first())?;
        self.hosts.get(*place).map(String::as_str)
    }

    /// The hosts, sorted.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }
}

/// A digest as the number that its hexadecimal form spells.
fn number(state: Md5) -> u128 {
    u128::from_be_bytes(state.finalize().into())
}

#[cfg(test)]
mod tests {
    use md5::Digest;
    use md5::Md5;
    use uuid::Uuid;

    use super::PARTITIONS;
    use super::Ring;
    use super::number;

    fn ring(hosts: &[&str]) -> Ring {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        Ring::new(&hosts)
    }

    /// Nodes with their hosts among three and among the first two.
    const VECTORS: [(&str, &str, &str); 5] = [
        (
            "00000000-0000-0000-0000-000000000000",
            "conductor-3",
            "conductor-2",
        ),
        (
            "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
            "conductor-1",
            "conductor-1",
        ),
        (
            "6d85703a-565d-469a-96ce-30b6de53079d",
            "conductor-2",
            "conductor-2",
        ),
        (
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "conductor-2",
            "conductor-2",
        ),
        (
            "c0a1fa35-1111-4222-8333-abcdefabcdef",
            "conductor-1",
            "conductor-1",
        ),
    ];

    #[test]
    fn nodes_are_where_ironic_has_them() {
        let three = ring(&["conductor-3", "conductor-1", "conductor-2"]);
        let two = ring(&["conductor-1", "conductor-2"]);
        for (uuid, of_three, of_two) in VECTORS {
            let uuid: Uuid = uuid.parse().unwrap();
            assert_eq!(three.owner(uuid), Some(of_three), "{uuid}");
            assert_eq!(two.owner(uuid), Some(of_two), "{uuid}");
        }
    }

    #[test]
    fn points_are_ironics() {
        let one = ring(&["conductor-1"]);
        assert_eq!(one.points.len(), PARTITIONS);
        let first = 0x1d6a_ce5f_d34f_7710_e348_9874_6ffc_bd25;
        assert!(one.points.contains(&(first, 0)));
        assert!(one.points.is_sorted());
    }

    #[test]
    fn the_last_point_is_followed_by_the_first() {
        let ring = ring(&["a", "b", "c"]);
        let (last, _) = *ring.points.last().unwrap();
        let first = ring.hosts[ring.points[0].1].as_str();
        // Some UUID whose digest lies behind every point.
        let uuid = (0..100_000_u128)
            .map(Uuid::from_u128)
            .find(|uuid| number(Md5::new_with_prefix(uuid.to_string())) >= last);
        assert_eq!(ring.owner(uuid.unwrap()), Some(first));
    }

    #[test]
    fn nobody_owns_in_an_empty_ring_and_one_owns_all() {
        assert!(Ring::default().is_empty());
        assert_eq!(ring(&[]).owner(Uuid::nil()), None);
        let one = ring(&["only", "only"]);
        assert_eq!(one.hosts(), ["only"]);
        assert_eq!(one.owner(Uuid::new_v4()), Some("only"));
    }

    #[test]
    fn a_host_that_goes_takes_only_its_own_nodes_along() {
        let hosts: Vec<String> = (0..5).map(|n| format!("host-{n}")).collect();
        let all = Ring::new(&hosts);
        let fewer = Ring::new(&hosts[..4]);
        let mut moved = 0;
        for n in 0..2000_u128 {
            let uuid = Uuid::from_u128(n);
            match all.owner(uuid) {
                Some("host-4") => moved += 1,
                owner => assert_eq!(fewer.owner(uuid), owner),
            }
        }
        assert!((100..900).contains(&moved), "{moved}");
    }
}
