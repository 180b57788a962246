//! The document against the code that it is made of, and its copy.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use wrought_store::Allocation;
use wrought_store::InspectionRule;
use wrought_store::Port;
use wrought_store::Portgroup;
use wrought_store::Runbook;
use wrought_store::VolumeConnector;
use wrought_store::VolumeTarget;

use super::TEXT;
use super::document;
use super::kinds;
use super::operations;
use crate::resource::Resource;
use crate::router::routes;

/// The copy that is checked in.
fn copy() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json")
}

#[test]
fn the_copy_is_up_to_date() {
    let copy = std::fs::read_to_string(copy()).unwrap_or_default();
    assert!(
        copy == *TEXT,
        "docs/openapi.json is not what the code says: look at the difference after \
         'cargo test -p wrought-api --lib openapi -- --ignored'"
    );
}

#[test]
#[ignore = "writes docs/openapi.json"]
fn write_the_copy() {
    std::fs::write(copy(), TEXT.as_str()).unwrap();
}

/// Every path of the router is described and the other way round; which
/// methods a path has is asked of the router in `tests/api`.
#[test]
fn paths_are_those_of_the_router() {
    let all = operations::all();
    let described: BTreeSet<String> = all
        .into_iter()
        .map(|operation| operation.path.into_owned())
        .collect();
    let routed: BTreeSet<String> = routes().paths().iter().cloned().collect();
    let missing: Vec<_> = routed.difference(&described).collect();
    let gone: Vec<_> = described.difference(&routed).collect();
    assert!(missing.is_empty(), "not described: {missing:?}");
    assert!(gone.is_empty(), "described, but not routed: {gone:?}");
}

#[test]
fn each_operation_is_there_once() {
    let mut seen = BTreeMap::new();
    for operation in operations::all() {
        let twice = seen.insert((operation.path.clone(), operation.method), ());
        assert!(twice.is_none(), "{operation:?}");
    }
}

#[test]
fn every_field_has_a_shape() {
    let tables = [
        crate::nodes::FIELDS,
        Allocation::FIELDS,
        InspectionRule::FIELDS,
        Port::FIELDS,
        Portgroup::FIELDS,
        Runbook::FIELDS,
        VolumeConnector::FIELDS,
        VolumeTarget::FIELDS,
    ];
    for (name, _) in tables.into_iter().flatten() {
        assert!(kinds::field(name).is_some(), "{name}");
    }
}

/// What is referred to is there.
#[test]
fn references_lead_somewhere() {
    fn walk(document: &Value, value: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.trim_start_matches('#');
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                members.values().for_each(|inner| walk(document, inner));
            }
            Value::Array(items) => items.iter().for_each(|inner| walk(document, inner)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
}
