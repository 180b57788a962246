//! `PUT /v1/nodes/{ident}/states/raid`: the RAID that is to be.

use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Map;
use serde_json::Value;

use crate::ApiState;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;
use crate::version::since;

/// Disks that one configuration may have.
const MOST: usize = 256;

/// Keys of a logical disk.
const KEYS: [&str; 10] = [
    "controller",
    "disk_type",
    "interface_type",
    "is_root_volume",
    "number_of_physical_disks",
    "physical_disks",
    "raid_level",
    "share_physical_disks",
    "size_gb",
    "volume_name",
];

const LEVELS: [&str; 9] = ["JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"];

/// Stores it.
pub(crate) async fn set(
    State(state): State<ApiState>,
    context: Context,
    Path(ident): Path<String>,
    request: Request,
) -> Result<StatusCode> {
    context.needs("RAID configuration", since::RAID)?;
    Query::read(request.uri(), &context, &[])?;
    let (parts, body) = request.into_parts();
    let config = match body::maybe_json(&parts.headers, body, body::ORDINARY).await? {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(config)) => config,
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "Expected an object for target_raid_config, found {}",
                body::kind(&other)
            )));
        }
    };
    if !config.is_empty() {
        check(&config)?;
    }
    let node = super::find(&state, &context, &ident).await?;
    let stored = state.conductor.set_target_raid(node.uuid, config).await;
    stored.map_err(ApiError::missing_driver_part)?;
    Ok(StatusCode::NO_CONTENT)
}

fn bad(problem: &str) -> ApiError {
    ApiError::bad_request(format!("RAID config validation error: {problem}"))
}

fn check(config: &Map<String, Value>) -> Result<()> {
    let disks = match config.get("logical_disks") {
        None => return Err(bad("'logical_disks' is a required property")),
        Some(Value::Array(disks)) if disks.is_empty() => return Err(bad("[] should be non-empty")),
        Some(Value::Array(disks)) if disks.len() > MOST => {
            return Err(bad(&format!("more than {MOST} logical disks")));
        }
        Some(Value::Array(disks)) => disks,
        Some(other) => return Err(bad(&format!("{other} is not of type 'array'"))),
    };
    if let Some(key) = config.keys().find(|key| *key != "logical_disks") {
        return Err(unexpected(key));
    }
    let mut roots = 0;
    for disk in disks {
        let Value::Object(disk) = disk else {
            return Err(bad(&format!("{disk} is not of type 'object'")));
        };
        check_disk(disk)?;
        roots += u32::from(disk.get("is_root_volume") == Some(&Value::Bool(true)));
    }
    if roots > 1 {
        return Err(ApiError::bad_request(format!(
            "Raid config cannot have more than one root volume. {roots} root volumes were specified"
        )));
    }
    Ok(())
}

fn unexpected(key: &str) -> ApiError {
    bad(&format!(
        "Additional properties are not allowed ('{key}' was unexpected)"
    ))
}

fn check_disk(disk: &Map<String, Value>) -> Result<()> {
    for key in ["raid_level", "size_gb"] {
        if !disk.contains_key(key) {
            return Err(bad(&format!("'{key}' is a required property")));
        }
    }
    if disk.contains_key("physical_disks") && !disk.contains_key("controller") {
        return Err(bad("'controller' is a dependency of 'physical_disks'"));
    }
    for (key, value) in disk {
        if !KEYS.contains(&key.as_str()) {
            return Err(unexpected(key));
        }
        check_value(key, value)?;
    }
    Ok(())
}

fn check_value(key: &str, value: &Value) -> Result<()> {
    let fine = match key {
        "raid_level" => return one_of(value, &LEVELS),
        "disk_type" => return one_of(value, &["hdd", "ssd"]),
        "interface_type" => return one_of(value, &["sata", "scsi", "sas"]),
        "size_gb" if value.is_string() => return one_of(value, &["MAX"]),
        "size_gb" | "number_of_physical_disks" => value.is_u64(),
        "is_root_volume" | "share_physical_disks" => value.is_boolean(),
        "physical_disks" => value.as_array().is_some_and(|disks| {
            disks
                .iter()
                .all(|disk| disk.is_string() || disk.is_object())
        }),
        _ => value.is_string(),
    };
    match fine {
        true => Ok(()),
        false => Err(bad(&format!("{value} is not valid for '{key}'"))),
    }
}

fn one_of(value: &Value, words: &[&str]) -> Result<()> {
    if value.as_str().is_some_and(|word| words.contains(&word)) {
        return Ok(());
    }
    let shown = match value {
        Value::String(word) => format!("'{word}'"),
        other => other.to_string(),
    };
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    Err(bad(&format!(
        "{shown} is not one of [{}]",
        words.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::check;

    fn checked(config: &Value) -> Result<(), u16> {
        check(config.as_object().unwrap()).map_err(|error| error.status())
    }

    #[test]
    fn shapes() {
        let disk = |more: Value| {
            let mut disk = json!({"size_gb": 10, "raid_level": "1"});
            disk.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({"logical_disks": [disk]})
        };
        for good in [
            json!({}),
            json!({"size_gb": "MAX", "raid_level": "6+0"}),
            json!({"controller": "c", "physical_disks": ["a", {"size": "> 1"}], "disk_type": "ssd"}),
            json!({"is_root_volume": true, "number_of_physical_disks": 2, "volume_name": "v"}),
        ] {
            assert_eq!(checked(&disk(good.clone())), Ok(()), "{good}");
        }
        for bad in [
            json!({"size_gb": "max"}),
            json!({"size_gb": -1}),
            json!({"raid_level": "7"}),
            json!({"raid_level": 1}),
            json!({"disk_type": "tape"}),
            json!({"foo": 1}),
            json!({"physical_disks": ["a"]}),
            json!({"controller": "c", "physical_disks": [1]}),
            json!({"is_root_volume": "yes"}),
        ] {
            assert_eq!(checked(&disk(bad.clone())), Err(400), "{bad}");
        }
        let root = json!({"size_gb": 1, "raid_level": "0", "is_root_volume": true});
        for bad in [
            json!({"logical_disks": []}),
            json!({"logical_disks": {}}),
            json!({"logical_disks": [1]}),
            json!({"logical_disks": [{"size_gb": 1}]}),
            json!({"logical_disks": [{"raid_level": "1"}]}),
            json!({"logical_disks": [root, root]}),
            json!({"x": 1}),
        ] {
            assert_eq!(checked(&bad), Err(400), "{bad}");
        }
    }
}
