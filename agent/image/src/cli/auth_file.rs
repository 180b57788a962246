//! Credentials of registries as container tools keep them: `auths` of a
//! `config.json` or `auth.json`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::request::BasicAuth;
use crate::request::RegistryLogin;
use crate::request::Secret;

/// Reads the entries that hold a user and a password; the error is a clause
/// about the file.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<RegistryLogin>, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| "it is not JSON".to_owned())?;
    let auths = value["auths"]
        .as_object()
        .ok_or("it has no object \"auths\"")?;
    let mut logins = Vec::new();
    for (key, entry) in auths {
        let host = key.split_once("://").map_or(key.as_str(), |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let Some(auth) = credentials(entry)
            .ok_or_else(|| format!("its entry {host:?} is not Base64 of NAME:PASSWORD"))?
        else {
            continue;
        };
        logins.push(RegistryLogin {
            host: host.to_owned(),
            auth,
        });
    }
    if logins.is_empty() {
        return Err(
            "it holds no passwords; they may be in a credential helper, which is not asked"
                .to_owned(),
        );
    }
    Ok(logins)
}

/// `Some(None)` for an entry that keeps its password elsewhere.
fn credentials(entry: &Value) -> Option<Option<BasicAuth>> {
    if let (Some(user), Some(password)) = (entry["username"].as_str(), entry["password"].as_str()) {
        return Some(Some(BasicAuth {
            user: user.to_owned(),
            password: Secret::new(password),
        }));
    }
    let Some(auth) = entry["auth"].as_str().filter(|text| !text.is_empty()) else {
        return Some(None);
    };
    let text = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Some(BasicAuth {
        user: user.to_owned(),
        password: Secret::new(password),
    }))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn entries_are_read_or_the_file_is_refused() {
        let file = br#"{"auths": {
            "https://r.example:5000/v1/": {"auth": "bWU6czplYw=="},
            "other": {"username": "u", "password": "p"},
            "helper": {}
        }}"#;
        let logins = parse(file).unwrap();
        let mut shown: Vec<_> = logins
            .iter()
            .map(|login| {
                (
                    &*login.host,
                    &*login.auth.user,
                    login.auth.password.expose(),
                )
            })
            .collect();
        shown.sort_unstable();
        assert_eq!(
            shown,
            [("other", "u", "p"), ("r.example:5000", "me", "s:ec")]
        );
        for (bad, word) in [
            ("", "not JSON"),
            ("{}", "\"auths\""),
            (r#"{"auths": {"h": {"auth": "!"}}}"#, "\"h\""),
            (r#"{"auths": {"h": {}}}"#, "credential helper"),
        ] {
            let error = parse(bad.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
