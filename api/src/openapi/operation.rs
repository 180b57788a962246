//! One operation of the API: what it takes and what it answers.

use std::borrow::Cow;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use wrought_wire::microversion::HEADER;
use wrought_wire::microversion::Microversion;

use super::kinds;
use super::schema::Schema;
use crate::query::Known;

/// An operation.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// `GET`, `POST`…
    pub(crate) method: &'static str,
    /// Its path with `{…}` for what varies.
    pub(crate) path: Cow<'static, str>,
    /// The version that first has it, as the N of 1.N.
    pub(crate) since: u16,
    summary: &'static str,
    query: &'static [&'static [Known]],
    body: Option<Schema>,
    status: u16,
    answer: Option<Schema>,
    media: &'static str,
}

/// An operation that answers 200 with that shape.
pub(crate) const fn get(
    path: &'static str,
    since: u16,
    summary: &'static str,
    answer: Schema,
) -> Operation {
    operation("GET", path, since, summary).answers(200, answer)
}

/// An operation that makes something: 201 with that shape.
pub(crate) const fn post(
    path: &'static str,
    since: u16,
    summary: &'static str,
    body: Schema,
    answer: Schema,
) -> Operation {
    operation("POST", path, since, summary)
        .takes(body)
        .answers(201, answer)
}

/// An operation that changes something by a JSON Patch (RFC 6902): 200 with
/// that shape.
pub(crate) const fn patch(
    path: &'static str,
    since: u16,
    summary: &'static str,
    answer: Schema,
) -> Operation {
    operation("PATCH", path, since, summary)
        .takes(Schema::Ref("Patch"))
        .answers(200, answer)
}

/// An operation that deletes something: 204.
pub(crate) const fn delete(path: &'static str, since: u16, summary: &'static str) -> Operation {
    operation("DELETE", path, since, summary)
}

/// An operation that sets something; 204 unless it says otherwise.
pub(crate) const fn put(path: &'static str, since: u16, summary: &'static str) -> Operation {
    operation("PUT", path, since, summary)
}

/// Any operation; 204 unless it says otherwise.
pub(crate) const fn operation(
    method: &'static str,
    path: &'static str,
    since: u16,
    summary: &'static str,
) -> Operation {
    Operation {
        method,
        path: Cow::Borrowed(path),
        since,
        summary,
        query: &[],
        body: None,
        status: 204,
        answer: None,
        media: "application/json",
    }
}

impl Operation {
    /// With these query arguments.
    pub(crate) const fn query(mut self, query: &'static [&'static [Known]]) -> Self {
        self.query = query;
        self
    }

    /// The same at another path.
    pub(crate) fn at(mut self, path: String) -> Self {
        self.path = Cow::Owned(path);
        self
    }

    /// With a body.
    pub(crate) const fn takes(mut self, body: Schema) -> Self {
        self.body = Some(body);
        self
    }

    /// Accepted (202), without a body.
    pub(crate) const fn accepted(mut self) -> Self {
        self.status = 202;
        self
    }

    /// With that status and shape.
    pub(crate) const fn answers(mut self, status: u16, answer: Schema) -> Self {
        self.status = status;
        self.answer = Some(answer);
        self
    }

    /// With an answer of another media type than JSON.
    pub(crate) const fn of_media(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }

    /// As an OpenAPI operation object.
    pub(super) fn json(&self) -> Value {
        let mut success = json!({"description": "Done."});
        if let Some(answer) = self.answer {
            success["content"] = json!({self.media: {"schema": answer.json()}});
        }
        let mut responses = Map::new();
        responses.insert(self.status.to_string(), success);
        for (code, name) in [("4XX", "Refused"), ("503", "Busy")] {
            let reference = format!("#/components/responses/{name}");
            responses.insert(code.to_owned(), json!({"$ref": reference}));
        }
        let mut operation = json!({
            "summary": self.summary,
            "operationId": self.id(),
            "x-min-version": format!("1.{}", self.since),
            "parameters": self.parameters(),
            "responses": responses,
        });
        if let Some(body) = self.body {
            operation["requestBody"] = json!({
                "required": true,
                "content": {"application/json": {"schema": body.json()}},
            });
        }
        operation
    }

    /// Such as `get_nodes_ident_states`.
    fn id(&self) -> String {
        let path = self.path.trim_start_matches("/v1").replace(['{', '}'], "");
        let words = path.split('/').filter(|word| !word.is_empty());
        let words: Vec<&str> = std::iter::once(self.method).chain(words).collect();
        let words = words.join("_").to_lowercase();
        words.replace(['.', '-'], "_")
    }

    fn parameters(&self) -> Vec<Value> {
        let version = json!({"$ref": format!("#/components/parameters/{HEADER}")});
        let names = self.path.split('{').skip(1);
        let names = names.filter_map(|rest| rest.split('}').next());
        let places = names.map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
        });
        let arguments = self.query.iter().copied().flatten().map(|(name, since)| {
            json!({
                "name": name,
                "in": "query",
                "schema": kinds::argument(name).json(),
                "x-min-version": format!("1.{since}"),
            })
        });
        std::iter::once(version)
            .chain(places)
            .chain(arguments)
            .collect()
    }
}

/// The header that asks for a version, as a parameter of every operation.
pub(super) fn version_parameter() -> Value {
    json!({
        "name": HEADER,
        "in": "header",
        "description": "The version to be answered in; 1.1 without it.",
        "schema": {
            "type": "string",
            "pattern": "^(latest|1\\.[0-9]{1,3})$",
            "examples": ["latest", Microversion::MAX.to_string()],
        },
    })
}
