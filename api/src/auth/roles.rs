//! A file of `user: role` lines.

use std::collections::HashMap;
use std::path::Path;

use super::AuthError;
use super::htpasswd;

/// What a user may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everything.
    #[default]
    Admin,
    /// Read.
    Reader,
}

/// Roles by user.
pub(super) fn parse(path: &Path, text: &str) -> Result<HashMap<String, Role>, AuthError> {
    let mut roles = HashMap::new();
    for (line, content) in htpasswd::lines(text) {
        let bad = || htpasswd::bad(path, line, "user: admin, or user: reader");
        let (user, role) = content.split_once(':').ok_or_else(bad)?;
        let role = match role.trim() {
            "admin" => Role::Admin,
            "reader" => Role::Reader,
            _ => return Err(bad()),
        };
        roles.insert(user.trim().to_owned(), role);
    }
    Ok(roles)
}
