//! Shapes of JSON values, as the OpenAPI document writes them (version 3.1,
//! JSON Schema of 2020-12).

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

/// A shape.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Schema {
    /// Whatever there is.
    Any,
    /// A string.
    Text,
    /// A string that is not longer.
    Short(u32),
    /// A UUID.
    Uuid,
    /// A time with its offset (RFC 3339).
    Time,
    /// True or false.
    Bool,
    /// A number.
    Number,
    /// A whole number.
    Int,
    /// A whole number that is not smaller.
    AtLeast(i64),
    /// An object with any members.
    Object,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// That, or null.
    Nullable(&'static Schema),
    /// An array.
    List(&'static Schema),
    /// An object whose members all have that shape.
    MapOf(&'static Schema),
    /// An object with these members and no others.
    Closed {
        /// Name and shape of each.
        members: &'static [Member],
        /// Those that are always there.
        required: &'static [&'static str],
    },
    /// One of several shapes.
    Either(&'static [Schema]),
    /// A shape that the document has under this name.
    Ref(&'static str),
}

/// A member of an object.
pub(crate) type Member = (&'static str, Schema);

impl Schema {
    /// As JSON Schema.
    pub(crate) fn json(self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Text => json!({"type": "string"}),
            Self::Short(most) => json!({"type": "string", "maxLength": most}),
            Self::Uuid => json!({"type": "string", "format": "uuid"}),
            Self::Time => json!({"type": "string", "format": "date-time"}),
            Self::Bool => json!({"type": "boolean"}),
            Self::Number => json!({"type": "number"}),
            Self::Int => json!({"type": "integer"}),
            Self::AtLeast(least) => json!({"type": "integer", "minimum": least}),
            Self::Object => json!({"type": "object"}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Nullable(inner) => json!({"anyOf": [inner.json(), {"type": "null"}]}),
            Self::List(inner) => json!({"type": "array", "items": inner.json()}),
            Self::MapOf(inner) => {
                json!({"type": "object", "additionalProperties": inner.json()})
            }
            Self::Closed { members, required } => {
                let members = members.iter().map(|(name, shape)| (*name, shape.json()));
                closed(members, required)
            }
            Self::Either(shapes) => {
                let shapes: Vec<Value> = shapes.iter().map(|shape| shape.json()).collect();
                json!({"anyOf": shapes})
            }
            Self::Ref(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// An object with these members and no others.
pub(crate) fn closed<'n>(
    members: impl IntoIterator<Item = (&'n str, Value)>,
    required: &[&str],
) -> Value {
    let members: Map<String, Value> = members
        .into_iter()
        .map(|(name, shape)| (name.to_owned(), shape))
        .collect();
    let mut object =
        json!({"type": "object", "properties": members, "additionalProperties": false});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}
