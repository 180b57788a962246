//! The API's part: who may use it, and its listeners.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use wrought_api::ApiState;
use wrought_api::Auth;
use wrought_api::AuthError;
use wrought_api::Part;

use super::listeners::Listeners;
use super::password;
use crate::config::AuthChoice;
use crate::config::Settings;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::exit::OrExit;
use crate::exit::Outcome;

/// The sockets of the API.
pub(crate) struct Sockets {
    /// For everybody.
    pub(crate) api: TcpListener,
    /// For ramdisks alone.
    pub(crate) ramdisk: Option<TcpListener>,
}

impl Sockets {
    /// Starts the listeners, with TLS for everybody and for ramdisks.
    pub(crate) fn serve(
        self,
        settings: &Settings,
        state: ApiState,
        (tls, for_ramdisks): (Option<Arc<ServerConfig>>, Option<Arc<ServerConfig>>),
        listeners: &mut Listeners,
    ) {
        let part = match (settings.ramdisk.enabled, &self.ramdisk) {
            (true, None) => Part::All,
            _ => Part::WithoutRamdisk,
        };
        let router = wrought_api::router_of(state.clone(), part);
        listeners.start(self.api, tls, router);
        if let Some(ramdisk) = self.ramdisk {
            let router = wrought_api::router_of(state, Part::RamdiskOnly);
            listeners.start(ramdisk, for_ramdisks, router);
        }
    }
}

/// Who may use the API, and where a password made by ourselves is.
pub(crate) fn authentication(settings: &Settings) -> Outcome<(Auth, Option<PathBuf>)> {
    match &settings.auth {
        AuthChoice::None => Ok((Auth::none(), None)),
        AuthChoice::Basic(file) => Ok((basic(file)?, None)),
        AuthChoice::Generated => {
            let files = password::ensure(&settings.state_dir).or_exit(Kind::Io)?;
            Ok((basic(&files.htpasswd)?, Some(files.password)))
        }
    }
}

/// A password file, with the roles in `FILE.roles`.
fn basic(file: &Path) -> Outcome<Auth> {
    let mut roles = file.as_os_str().to_owned();
    roles.push(".roles");
    Auth::basic(file, Some(Path::new(&roles))).map_err(|error| Failure {
        kind: match error {
            AuthError::Line { .. } => Kind::Data,
            _ => Kind::Io,
        },
        error: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::basic;
    use crate::exit::Kind;

    #[test]
    fn a_password_file_that_is_none_is_wrong_input() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("htpasswd");
        assert_eq!(basic(&file).unwrap_err().kind, Kind::Io);
        std::fs::write(&file, "admin:plain\n").unwrap();
        assert_eq!(basic(&file).unwrap_err().kind, Kind::Data);
        std::fs::write(&file, "# nobody\n").unwrap();
        assert!(basic(&file).is_ok());
    }
}
