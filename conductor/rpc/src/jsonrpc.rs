//! JSON-RPC 2.0: one call and its answer as bytes. There are no batches, no
//! positional parameters, no notifications (every call has an answer) and no
//! earlier versions.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::Error;
use crate::Kind;

/// The one version that is spoken.
const VERSION: &str = "2.0";

/// A call as it came in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// What its answer is known by: a string or a number.
    pub(crate) id: Value,
    /// What is called.
    pub(crate) method: String,
    /// Its parameters by name.
    pub(crate) params: Map<String, Value>,
}

/// Why a call has no result. No text of these holds what a caller sent:
/// parameters may be secrets.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    /// The bytes are no JSON.
    #[error("the call is no JSON: line {line}, column {column}")]
    Parse {
        /// Where, from 1.
        line: usize,
        /// Where, from 1.
        column: usize,
    },
    /// It is JSON, but no call.
    #[error("{0}")]
    Invalid(&'static str),
    /// There is no such method.
    #[error("there is no such method: API and conductor are of different versions")]
    NoMethod,
    /// The method takes other parameters.
    #[error("parameters do not fit {0}: API and conductor are of different versions")]
    Params(&'static str),
    /// The conductor's own answer is no.
    #[error(transparent)]
    Refused(Error),
    /// Something broke while it was carried out.
    #[error("{0}")]
    Broken(&'static str),
}

impl Fault {
    /// The number by which JSON-RPC knows such an error.
    fn code(&self) -> i64 {
        match self {
            Self::Parse { .. } => -32700,
            Self::Invalid(_) => -32600,
            Self::NoMethod => -32601,
            Self::Params(_) => -32602,
            Self::Broken(_) => -32603,
            Self::Refused(_) => REFUSED,
        }
    }
}

/// The conductor's own errors; `data` has the error itself.
const REFUSED: i64 = -32000;

/// Reads a call. A fault comes with the id of the call, null where that is not
/// known.
pub(crate) fn read(bytes: &[u8]) -> Result<Call, (Value, Fault)> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        (Value::Null, Fault::Parse { line, column })
    })?;
    let mut call = match value {
        Value::Object(call) => call,
        Value::Array(_) => {
            return Err((Value::Null, Fault::Invalid("batches are not taken")));
        }
        _ => {
            let text = "a call is an object with jsonrpc, id, method and params";
            return Err((Value::Null, Fault::Invalid(text)));
        }
    };
    let id = match call.remove("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        Some(_) => {
            let text = "an id is a string or a number";
            return Err((Value::Null, Fault::Invalid(text)));
        }
        None => {
            let text = "a call without an id would have no answer: notifications are not taken";
            return Err((Value::Null, Fault::Invalid(text)));
        }
    };
    match parts(call) {
        Ok((method, params)) => Ok(Call { id, method, params }),
        Err(text) => Err((id, Fault::Invalid(text))),
    }
}

/// All but the id.
fn parts(mut call: Map<String, Value>) -> Result<(String, Map<String, Value>), &'static str> {
    match call.remove("jsonrpc") {
        Some(Value::String(version)) if version == VERSION => {}
        _ => return Err("jsonrpc is not \"2.0\": no other version is spoken"),
    }
    let Some(Value::String(method)) = call.remove("method") else {
        return Err("method is no string");
    };
    let params = match call.remove("params") {
        Some(Value::Object(params)) => params,
        None => Map::new(),
        Some(Value::Array(_)) => return Err("positional parameters are not taken: name them"),
        Some(_) => return Err("params is no object"),
    };
    match call.is_empty() {
        true => Ok((method, params)),
        false => Err("a call has nothing but jsonrpc, id, method and params"),
    }
}

/// A call on its way out.
#[derive(Serialize)]
struct Asked<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a Map<String, Value>,
}

/// The bytes of a call.
pub(crate) fn write(id: u64, method: &str, params: &Map<String, Value>) -> Vec<u8> {
    let asked = Asked {
        jsonrpc: VERSION,
        id,
        method,
        params,
    };
    // Maps with keys of text always have a JSON form.
    serde_json::to_vec(&asked).unwrap_or_default()
}

/// An answer on its way out: a result or an error.
#[derive(Serialize)]
struct Answered<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// The bytes of an answer.
pub(crate) fn answer(id: &Value, outcome: Result<Value, Fault>) -> Vec<u8> {
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(fault) => {
            let mut error = json!({"code": fault.code(), "message": fault.to_string()});
            if let Fault::Refused(refused) = &fault {
                error["data"] = json!(refused);
            }
            (None, Some(error))
        }
    };
    let answered = Answered {
        jsonrpc: VERSION,
        id,
        result,
        error,
    };
    serde_json::to_vec(&answered).unwrap_or_default()
}

/// An answer as it came in.
#[derive(Deserialize)]
struct Answer {
    jsonrpc: String,
    id: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<Told>,
}

/// An error in an answer.
#[derive(Deserialize)]
struct Told {
    code: i64,
    message: String,
    data: Option<Value>,
}

/// What is there is there, even when it is null.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// What the answer to call `id` says: a result, or the conductor's own error.
/// Whatever else comes back is an error of ours.
pub(crate) fn outcome(id: u64, bytes: &[u8]) -> Result<Value, Error> {
    let internal = |text: String| Error::new(Kind::Internal, text);
    let answer: Answer = serde_json::from_slice(bytes)
        // The error's own text may cite the answer.
        .map_err(|_| internal("the conductor's answer is no JSON-RPC".to_owned()))?;
    if answer.jsonrpc != VERSION {
        return Err(internal(
            "the conductor's answer is of another version of JSON-RPC".to_owned(),
        ));
    }
    match (answer.result, answer.error) {
        (Some(result), None) if answer.id == id => Ok(result),
        (None, Some(told)) if told.code == REFUSED && answer.id == id => {
            let refused = told.data.and_then(|data| serde_json::from_value(data).ok());
            // A kind that this version does not know.
            Err(refused.unwrap_or_else(|| internal(told.message)))
        }
        (None, Some(told)) => Err(internal(format!(
            "the conductor did not take the call: {} (code {})",
            told.message, told.code
        ))),
        _ => Err(internal(
            "the conductor answered something else than what it was asked".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::Fault;
    use super::answer;
    use super::outcome;
    use super::read;
    use super::write;
    use crate::Error;
    use crate::Kind;

    /// The code of a call that is refused, with the id that the answer has.
    fn refused(text: &str) -> (i64, Value) {
        let (id, fault) = read(text.as_bytes()).unwrap_err();
        (fault.code(), id)
    }

    #[test]
    fn a_call_is_read_as_it_was_written() {
        let params = json!({"node": "x", "on": true});
        let bytes = write(7, "set_maintenance", params.as_object().unwrap());
        let call = read(&bytes).unwrap();
        assert_eq!(call.id, json!(7));
        assert_eq!(call.method, "set_maintenance");
        assert_eq!(Value::Object(call.params), params);
        let without = read(br#"{"jsonrpc": "2.0", "id": "a", "method": "m"}"#).unwrap();
        assert!(without.params.is_empty());
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for (text, code, id) in [
            ("", -32700, json!(null)),
            ("{", -32700, json!(null)),
            ("\u{0}", -32700, json!(null)),
            ("[]", -32600, json!(null)),
            (
                r#"[{"jsonrpc": "2.0", "id": 1, "method": "m"}]"#,
                -32600,
                json!(null),
            ),
            ("1", -32600, json!(null)),
            (
                r#"{"jsonrpc": "2.0", "method": "m", "params": {}}"#,
                -32600,
                json!(null),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": null, "method": "m"}"#,
                -32600,
                json!(null),
            ),
            (r#"{"id": 1, "method": "m"}"#, -32600, json!(1)),
            (
                r#"{"jsonrpc": "1.0", "id": 1, "method": "m"}"#,
                -32600,
                json!(1),
            ),
            (
                r#"{"jsonrpc": 2.0, "id": 1, "method": "m"}"#,
                -32600,
                json!(1),
            ),
            (r#"{"jsonrpc": "2.0", "id": "x"}"#, -32600, json!("x")),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": 1}"#,
                -32600,
                json!(1),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "m", "params": ["a"]}"#,
                -32600,
                json!(1),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "m", "params": "a"}"#,
                -32600,
                json!(1),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "m", "more": 1}"#,
                -32600,
                json!(1),
            ),
        ] {
            assert_eq!(refused(text), (code, id), "{text}");
        }
        // Deeper than any call: no stack is spent on it.
        let deep = "[".repeat(100_000);
        assert_eq!(refused(&deep).0, -32700);
    }

    #[test]
    fn errors_cross_whole() {
        let error = Error::new(Kind::Stale, "Node x was changed: \"read\" it again.");
        let bytes = answer(&json!(3), Err(Fault::Refused(error.clone())));
        let back = outcome(3, &bytes).unwrap_err();
        assert_eq!((back.kind, back.message), (error.kind, error.message));
        let bytes = answer(&json!(3), Ok(Value::Null));
        assert_eq!(outcome(3, &bytes).unwrap(), Value::Null);
    }

    #[test]
    fn other_answers_are_errors_of_ours() {
        let fault = answer(&json!(3), Err(Fault::NoMethod));
        for (bytes, said) in [
            (fault.as_slice(), "-32601"),
            (b"<html>", "no JSON-RPC"),
            (
                br#"{"jsonrpc": "1.0", "id": 3, "result": 1}"#,
                "another version",
            ),
            (
                br#"{"jsonrpc": "2.0", "id": 4, "result": 1}"#,
                "something else",
            ),
            (br#"{"jsonrpc": "2.0", "id": 3}"#, "something else"),
            (
                br#"{"jsonrpc": "2.0", "id": 3, "result": 1, "error": {"code": 1, "message": "m"}}"#,
                "something else",
            ),
            (
                br#"{"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": "new kind", "data": {"kind": "Tired", "message": "m"}}}"#,
                "new kind",
            ),
        ] {
            let error = outcome(3, bytes).unwrap_err();
            assert_eq!(error.kind, Kind::Internal);
            assert!(error.message.contains(said), "{error}");
        }
    }
}
