//! Fields of resources, each with the version that first has it.

use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::query::Query;

/// A field's name and first version (the N of 1.N).
pub(crate) type Field = (&'static str, u16);

/// The table's own name of a field and its first version.
pub(crate) fn find(table: &[Field], name: &str) -> Option<Field> {
    table.iter().copied().find(|(field, _)| *field == name)
}

/// 406 when a field is newer than the request's version.
pub(crate) fn check_version(table: &[Field], context: &Context, name: &str) -> Result<()> {
    match find(table, name) {
        Some((name, since)) => context.needs(&format!("The field {name}"), since),
        None => Ok(()),
    }
}

/// Fields to show: those asked for by `?fields=`, else none. `check` fails for
/// what is newer than the request's version.
pub(crate) fn requested(
    table: &[Field],
    query: &Query,
    check: impl Fn(&str) -> Result<()>,
) -> Result<Option<Vec<&'static str>>> {
    let Some(names) = query.list("fields") else {
        return Ok(None);
    };
    let mut fields = Vec::new();
    for name in &names {
        let (field, _) = find(table, name)
            .ok_or_else(|| ApiError::bad_request(format!("Field {name} is not a valid field.")))?;
        check(field)?;
        fields.push(field);
    }
    Ok(Some(fields))
}
