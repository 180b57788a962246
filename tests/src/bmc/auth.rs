//! Who may use the BMC: HTTP Basic or a session (DSP0266 §13).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The BMC's one account and its sessions.
#[derive(Debug)]
pub struct Accounts {
    username: String,
    password: String,
    sessions: Mutex<HashSet<String>>,
}

impl Accounts {
    /// An account with a random password.
    pub fn new(username: &str) -> Self {
        Self {
            username: username.to_owned(),
            password: crate::random_hex(12),
            sessions: Mutex::default(),
        }
    }

    /// The account's name.
    pub fn username(&self) -> &str {
        &self.username
    }

    /// The account's password, for the node's `driver_info`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Whether a request with these headers may go on.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(token) = text("x-auth-token") {
            return self.sessions().contains(token);
        }
        text("authorization")
            .and_then(|value| value.strip_prefix("Basic "))
            .and_then(|value| STANDARD.decode(value).ok())
            .is_some_and(|pair| pair == format!("{}:{}", self.username, self.password).as_bytes())
    }

    /// Opens a session; gives its token.
    pub fn open(&self, username: &str, password: &str) -> Option<String> {
        if username != self.username || password != self.password {
            return None;
        }
        let token = crate::random_hex(16);
        self.sessions().insert(token.clone());
        Some(token)
    }

    /// Closes the session of this request.
    pub fn close(&self, headers: &HeaderMap) {
        if let Some(token) = headers
            .get("x-auth-token")
            .and_then(|value| value.to_str().ok())
        {
            self.sessions().remove(token);
        }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Accounts;
    use axum::http::HeaderMap;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn only_the_password_or_an_open_session_gets_in() {
        let accounts = Accounts::new("admin");
        let basic = |password: &str| {
            let mut headers = HeaderMap::new();
            let pair = STANDARD.encode(format!("admin:{password}"));
            headers.insert("authorization", format!("Basic {pair}").parse().unwrap());
            headers
        };
        assert!(accounts.admits(&basic(accounts.password())));
        assert!(!accounts.admits(&basic("wrong")));
        assert!(!accounts.admits(&HeaderMap::new()));

        assert_eq!(accounts.open("admin", "wrong"), None);
        let token = accounts.open("admin", accounts.password()).unwrap();
        let mut session = HeaderMap::new();
        session.insert("x-auth-token", token.parse().unwrap());
        assert!(accounts.admits(&session));
        accounts.close(&session);
        assert!(!accounts.admits(&session));
    }
}
