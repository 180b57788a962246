//! Headers made by hand, one field wrong at a time.

use super::*;

/// A good version 3 header of a 1 GiB disk with 64 KiB clusters.
fn good() -> Vec<u8> {
    let mut head = vec![0u8; 4096];
    head[..4].copy_from_slice(&MAGIC);
    put32(&mut head, 4, 3);
    put32(&mut head, 20, 16);
    put64(&mut head, 24, 1 << 30);
    put32(&mut head, 36, 2);
    put64(&mut head, 40, 3 << 16);
    put64(&mut head, 48, 1 << 16);
    put32(&mut head, 56, 1);
    put32(&mut head, 96, 4);
    put32(&mut head, 100, 112);
    head
}

fn put32(head: &mut [u8], at: usize, value: u32) {
    head[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(head: &mut [u8], at: usize, value: u64) {
    head[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn parse(edit: impl Fn(&mut Vec<u8>)) -> Result<Header, Error> {
    let mut head = good();
    edit(&mut head);
    Header::parse(&head, Some(1 << 20))
}

#[test]
fn a_good_header_is_read() {
    let header = parse(|_| {}).unwrap();
    assert_eq!(header.l2_span(), 512 << 20);
    assert_eq!((header.l1_entries, header.cluster_size()), (2, 65536));
}

#[test]
fn refusals_name_their_reason() {
    let backing = parse(|h| {
        put64(h, 8, 2048);
        put32(h, 16, 8);
        h[2048..2056].copy_from_slice(b"base.img");
    });
    assert_eq!(backing, Err(Error::BackingFile("base.img".to_owned())));
    assert_eq!(parse(|h| put32(h, 4, 1)), Err(Error::Version(1)));
    assert_eq!(parse(|h| put32(h, 32, 2)), Err(Error::Encrypted("LUKS")));
    assert_eq!(parse(|h| put64(h, 72, 2)), Err(Error::Corrupt));
    assert_eq!(parse(|h| put64(h, 72, 4)), Err(Error::DataFile));
    assert_eq!(
        parse(|h| h.truncate(71)),
        Err(Error::Short { have: 71, need: 72 })
    );
    assert!(matches!(parse(|h| h[104] = 7), Err(Error::Compression(7))));
    assert!(matches!(parse(|h| h[104] = 1), Err(Error::Field { .. })));
    assert!(matches!(
        parse(|h| put32(h, 20, 22)),
        Err(Error::Field { .. })
    ));
    assert!(matches!(
        parse(|h| put64(h, 24, 0)),
        Err(Error::Field { .. })
    ));
    assert!(matches!(
        parse(|h| put32(h, 36, 1)),
        Err(Error::Field {
            field: "l1_size",
            ..
        })
    ));
}

#[test]
fn tables_must_lie_in_the_file_and_off_the_header() {
    let problem = |result| match result {
        Err(Error::Table { table, problem, .. }) => (table, problem),
        other => panic!("expected a table error, found {other:?}"),
    };
    assert_eq!(
        problem(parse(|h| put64(h, 40, 0))),
        ("L1 table", "lies on the header")
    );
    assert_eq!(
        problem(parse(|h| put64(h, 40, 1 << 20))),
        ("L1 table", "does not lie inside the file")
    );
    assert_eq!(
        problem(parse(|h| put64(h, 40, !0xffff))),
        ("L1 table", "does not lie inside the file")
    );
    assert_eq!(
        problem(parse(|h| put32(h, 56, 1000))),
        ("refcount table", "does not lie inside the file")
    );
    assert_eq!(
        problem(parse(|h| put64(h, 48, 100))),
        ("refcount table", "does not start at a cluster boundary")
    );
}

#[test]
fn unknown_features_are_named_from_the_image() {
    let result = parse(|h| {
        put64(h, 72, 1 << 9 | 1 << 11);
        put32(h, 112, 0x6803_f857);
        put32(h, 116, 48);
        h[120] = 0;
        h[121] = 9;
        h[122..127].copy_from_slice(b"magic");
    });
    let expected = ["\"magic\" (incompatible bit 9)", "incompatible bit 11"];
    assert_eq!(
        result,
        Err(Error::Features(expected.map(str::to_owned).to_vec()))
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(edits in proptest::collection::vec((0usize..160, 0u8..), 0..12)) {
        let mut head = good();
        for (at, value) in edits {
            head[at] = value;
        }
        if let Ok(header) = Header::parse(&head, Some(1 << 20)) {
            proptest::prop_assert!(header.l1_offset + header.l1_bytes() <= 1 << 20);
        }
    }
}
