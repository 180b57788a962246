//! Sources that misbehave in every way and order: the target is right or
//! both its ends are zero, and the error says where. What only interrupts
//! must not fail the write at all.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use support::MIB;
use support::disk;
use support::ends_are_zero;
use support::qcow2;
use support::request;
use support::server::Answer;
use support::server::Body;
use support::server::Server;
use support::used_disk;
use wrought_image::DiskState;
use wrought_image::Error;
use wrought_image::ErrorKind;
use wrought_image::Stage;
use wrought_image::WriteReport;
use wrought_image::write;

/// Bytes of the disk in the images.
const SIZE: usize = 3 * MIB + 1536;
/// Attempts without a new byte before a write fails; no plan has so many.
const ATTEMPTS: u32 = 8;

static DISK: LazyLock<Vec<u8>> = LazyLock::new(|| disk(SIZE, 42));
/// Every table behind its data, the data in no order: nearly all of it is
/// read twice.
static LATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let layout = qcow2::Layout {
        cluster_bits: 12,
        tables: qcow2::Tables::Last,
        packed: false,
        seed: Some(7),
    };
    qcow2::of_disk(layout, &DISK)
});

/// What goes wrong with one request. Places are in 1/1000 of the image.
#[derive(Debug, Clone)]
enum Fault {
    /// The connection closes there.
    Close(u64),
    /// It is reset there.
    Reset(u64),
    /// Nothing more comes from there on.
    Stall(u64),
    /// No image but this status, which may pass.
    Status(u16),
    /// The answer comes in pieces of so many bytes.
    Pieces(usize),
    /// The whole image, whatever was asked for.
    NoRange,
    /// The announced length is off by so much.
    Length(i64),
    /// One bit is another.
    Corrupt(u64),
    /// Bytes are lost or come twice from there on.
    Slip(u64, i64),
    /// Another range than asked for is announced.
    OtherRange(i64),
    /// Another image, by its ETag.
    OtherTag,
    /// A status that will not pass.
    Refused(u16),
}

impl Fault {
    /// Whether the image is still to be had, byte for byte.
    fn only_interrupts(&self) -> bool {
        matches!(
            self,
            Self::Close(_)
                | Self::Reset(_)
                | Self::Stall(_)
                | Self::Status(_)
                | Self::Pieces(_)
                | Self::NoRange
        )
    }

    fn answer(&self, ordinary: Answer, len: u64) -> Answer {
        let at = |place: &u64| len * place / 1000;
        match self {
            Self::Close(place) => Answer {
                cut: Some(at(place)),
                ..ordinary
            },
            Self::Reset(place) => Answer {
                cut: Some(at(place)),
                reset: true,
                ..ordinary
            },
            Self::Stall(place) => Answer {
                cut: Some(at(place)),
                stall: true,
                ..ordinary
            },
            Self::Status(status) | Self::Refused(status) => Answer {
                status: *status,
                ..ordinary
            },
            Self::Pieces(piece) => Answer {
                piece: *piece,
                ..ordinary
            },
            Self::NoRange => Answer {
                ranges: false,
                ..ordinary
            },
            Self::Length(by) => Answer {
                length_off: *by,
                ..ordinary
            },
            Self::Corrupt(place) => Answer {
                corrupt: Some(at(place)),
                ..ordinary
            },
            Self::Slip(place, by) => Answer {
                slip: Some((at(place), *by)),
                ..ordinary
            },
            Self::OtherRange(by) => Answer {
                range_off: *by,
                ..ordinary
            },
            Self::OtherTag => Answer {
                etag: Some("\"v2\""),
                ..ordinary
            },
        }
    }
}

fn interruption() -> impl Strategy<Value = Fault> {
    let place = || 0..1001u64;
    prop_oneof![
        4 => place().prop_map(Fault::Close),
        4 => place().prop_map(Fault::Reset),
        1 => place().prop_map(Fault::Stall),
        2 => prop::sample::select(vec![500, 502, 503, 504, 408, 429]).prop_map(Fault::Status),
        2 => prop::sample::select(vec![511, 1460, 4096, 65_521]).prop_map(Fault::Pieces),
        2 => Just(Fault::NoRange),
    ]
}

fn deceit() -> impl Strategy<Value = Fault> {
    let place = || 0..1000u64;
    let by = || prop_oneof![-100_000..0i64, 1..100_000i64];
    prop_oneof![
        2 => by().prop_map(Fault::Length),
        3 => place().prop_map(Fault::Corrupt),
        3 => (place(), by()).prop_map(|(place, by)| Fault::Slip(place, by)),
        2 => by().prop_map(Fault::OtherRange),
        1 => Just(Fault::OtherTag),
        1 => prop::sample::select(vec![400, 403, 404, 410, 416]).prop_map(Fault::Refused),
    ]
}

/// How a server behaves: its first answers one by one, then the rest.
#[derive(Debug, Clone)]
struct Plan {
    faults: Vec<Fault>,
    ranges: bool,
    chunked: bool,
    tagged: bool,
    late: bool,
}

fn plan(fault: impl Strategy<Value = Fault>) -> impl Strategy<Value = Plan> {
    let faults = prop::collection::vec(fault, 1..5);
    (
        faults,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(faults, ranges, chunked, tagged, late)| Plan {
            faults,
            ranges,
            chunked,
            tagged,
            late,
        })
}

/// Writes from a server that behaves like `plan`, to a disk that was in use,
/// and checks what must hold however it ends.
fn run(plan: &Plan) -> Result<WriteReport, Error> {
    let image: &[u8] = if plan.late { &LATE } else { &DISK };
    let len = image.len() as u64;
    let served = plan.clone();
    let server = Server::start(Body::Bytes(image.to_vec()), move |number| {
        let ordinary = Answer {
            ranges: served.ranges,
            chunked: served.chunked,
            etag: served.tagged.then_some("\"v1\""),
            ..Answer::default()
        };
        match served.faults.get(number as usize) {
            Some(fault) => fault.answer(ordinary, len),
            None => ordinary,
        }
    });
    let dir = support::memory_dir();
    let target = used_disk(dir.path(), SIZE);
    let mut request = request(&server.url, &target, image);
    request.retry.attempts = ATTEMPTS;
    request.retry.delay = Duration::from_millis(1);
    request.memory = 16 << 20;
    let result = write(&request);
    match &result {
        Ok(report) => {
            assert_eq!(report.bytes_in, len);
            assert!(fs::read(&target).unwrap() == *DISK, "{plan:?}: wrong bytes");
        }
        Err(error) => {
            assert_eq!(error.disk(), DiskState::EndsZeroed, "{}", error.chain());
            assert!(ends_are_zero(&target), "{}", error.chain());
            let sources = [ErrorKind::Source, ErrorKind::Checksum];
            let damaged = [ErrorKind::Format, ErrorKind::TooLarge, ErrorKind::Memory];
            assert!(
                sources.contains(&error.kind()) || damaged.contains(&error.kind()),
                "{}",
                error.chain()
            );
            // A digest is of the whole image and has no place in it.
            let placed = error.kind() == ErrorKind::Source;
            assert!(!placed || error.offset().is_some(), "{}", error.chain());
        }
    }
    result
}

fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 64,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn what_only_interrupts_is_got_over(plan in plan(interruption())) {
        prop_assert!(plan.faults.iter().all(Fault::only_interrupts));
        let result = run(&plan);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err().chain());
    }

    #[test]
    fn what_deceives_is_found_out(plan in plan(prop_oneof![deceit(), interruption()])) {
        // `run` has checked the disk either way.
        let _ = run(&plan);
    }

    #[test]
    fn a_byte_that_changes_between_requests_is_found_out(place in 0..1000u64, ranges: bool) {
        let plan = Plan {
            faults: vec![Fault::Pieces(65_536), Fault::Corrupt(place)],
            ranges,
            chunked: false,
            tagged: true,
            late: true,
        };
        let len = LATE.len() as u64;
        let at = len * place / 1000;
        match run(&plan) {
            // Not read again: the header, the tables, and what was still at
            // hand when the tables came.
            Ok(_) => prop_assert!(at < 4096 || at + MIB as u64 > len, "byte {} of {}", at, len),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Source);
                prop_assert_eq!(error.stage(), Stage::Verify);
                let block = 256 << 10;
                prop_assert_eq!(error.offset(), Some(at / block * block));
            }
        }
    }
}

/// A raw image from a server that breaks off once and then answers like
/// this.
fn broken_then(fault: Fault) -> Error {
    let plan = Plan {
        faults: vec![Fault::Close(500), fault],
        ranges: true,
        chunked: false,
        tagged: true,
        late: false,
    };
    run(&plan).unwrap_err()
}

#[test]
fn wrong_answers_to_a_range_are_named() {
    let half = Some(SIZE as u64 / 2);
    for (fault, words) in [
        (Fault::Refused(416), "416"),
        (Fault::Refused(404), "404"),
        (Fault::OtherRange(4096), "other bytes than were asked for"),
        (Fault::OtherRange(-4096), "other bytes than were asked for"),
        (Fault::OtherTag, "changed while it was read"),
    ] {
        let error = broken_then(fault);
        assert!(error.chain().contains(words), "{}", error.chain());
        assert_eq!(
            (error.kind(), error.stage(), error.offset()),
            (ErrorKind::Source, Stage::Fetch, half),
            "{}",
            error.chain()
        );
    }
}

#[test]
fn lost_and_repeated_bytes_change_the_digest() {
    for by in [-65_536, -1, 1, 65_536] {
        let error = broken_then(Fault::Slip(600, by));
        assert_eq!(
            (error.kind(), error.stage()),
            (ErrorKind::Checksum, Stage::Verify),
            "{by}: {}",
            error.chain()
        );
    }
}
