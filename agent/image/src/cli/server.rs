//! Options for image servers: trust, credentials, proxies.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use super::auth_file;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Stage;
use crate::request::BasicAuth;
use crate::request::HttpOptions;
use crate::request::Secret;

/// Most bytes of a file with certificates, credentials or a password.
const FILE_LIMIT: u64 = 1 << 20;

/// How to talk to image servers.
#[derive(Debug, Clone, Default)]
pub struct ServerArgs {
    /// PEM files with authorities, beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// Accept any certificate.
    pub insecure: bool,
    /// `NAME:PASSWORD`, or a name with `password_file`.
    pub user: Option<Secret>,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// A bearer token.
    pub bearer: Option<Secret>,
    /// A file whose first line is a bearer token.
    pub bearer_file: Option<PathBuf>,
    /// Credentials of registries, as container tools keep them.
    pub registry_auth_file: Option<PathBuf>,
    /// Speak plain HTTP to registries.
    pub plain_http_registry: bool,
    /// Proxy for `http://`.
    pub http_proxy: Option<String>,
    /// Proxy for `https://`.
    pub https_proxy: Option<String>,
    /// Comma list of hosts that are reached directly.
    pub no_proxy: Option<String>,
}

impl ServerArgs {
    pub(super) fn options(&self) -> Result<HttpOptions, Error> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut options = HttpOptions {
            insecure: self.insecure,
            basic_auth: self.basic_auth()?,
            authorization: self.authorization()?,
            http_proxy: given(&self.http_proxy),
            https_proxy: given(&self.https_proxy),
            no_proxy: given(&self.no_proxy),
            plain_http_registries: self.plain_http_registry,
            ..HttpOptions::default()
        };
        if options.basic_auth.is_some() && options.authorization.is_some() {
            return Err(usage(
                "a user and a bearer token were given, a server takes one of them",
            ));
        }
        for path in &self.ca_files {
            options.extra_ca_pem.push(read(path, "CA file")?);
        }
        if let Some(path) = &self.registry_auth_file {
            let bytes = read(path, "registry credentials")?;
            options.logins = auth_file::parse(&bytes).map_err(|problem| {
                usage(format!(
                    "the registry credentials {}: {problem}",
                    path.display()
                ))
            })?;
        }
        Ok(options)
    }

    fn basic_auth(&self) -> Result<Option<BasicAuth>, Error> {
        let Some(user) = &self.user else {
            return match &self.password_file {
                None => Ok(None),
                Some(_) => Err(usage("a password file needs --user NAME")),
            };
        };
        let (user, password) = match (user.expose().split_once(':'), &self.password_file) {
            (Some((user, password)), None) => (user, Secret::new(password)),
            (None, Some(path)) => (user.expose(), first_line(path, "password file")?),
            (None, None) => {
                return Err(usage("--user needs NAME:PASSWORD, or --password-file"));
            }
            (Some(_), Some(_)) => {
                return Err(usage(
                    "--user holds a password, and --password-file another",
                ));
            }
        };
        Ok(Some(BasicAuth {
            user: user.to_owned(),
            password,
        }))
    }

    fn authorization(&self) -> Result<Option<Secret>, Error> {
        let token = match (&self.bearer, &self.bearer_file) {
            (None, None) => return Ok(None),
            (Some(token), None) => token.clone(),
            (None, Some(path)) => first_line(path, "token file")?,
            (Some(_), Some(_)) => return Err(usage("a token was given twice")),
        };
        Ok(Some(Secret::new(format!("Bearer {}", token.expose()))))
    }
}

fn first_line(path: &Path, what: &str) -> Result<Secret, Error> {
    let bytes = read(path, what)?;
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().next().map(str::trim_end) {
        Some(line) if !line.is_empty() => Ok(Secret::new(line)),
        _ => Err(usage(format!("the {what} {} is empty", path.display()))),
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| usage(format!("read the {what} {}", path.display())).caused_by(error))?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(usage(format!(
            "the {what} {} has more than {FILE_LIMIT} bytes",
            path.display()
        )));
    }
    Ok(bytes)
}

fn usage(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Request, Stage::Check, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_come_from_the_line_or_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "s:e c\r\nrest\n").unwrap();
        let named = |user: &str| Some(Secret::new(user));
        let table = [
            (
                ServerArgs {
                    user: named("me:s:e c"),
                    ..ServerArgs::default()
                },
                Some(("me", "s:e c")),
            ),
            (
                ServerArgs {
                    user: named("me"),
                    password_file: Some(file.clone()),
                    ..ServerArgs::default()
                },
                Some(("me", "s:e c")),
            ),
            (
                ServerArgs {
                    user: named("me"),
                    ..ServerArgs::default()
                },
                None,
            ),
            (
                ServerArgs {
                    user: named("me:x"),
                    bearer: named("t"),
                    ..ServerArgs::default()
                },
                None,
            ),
            (
                ServerArgs {
                    password_file: Some(dir.path().join("none")),
                    user: named("me"),
                    ..ServerArgs::default()
                },
                None,
            ),
        ];
        for (args, wanted) in table {
            match (args.options(), wanted) {
                (Ok(options), Some((user, password))) => {
                    let auth = options.basic_auth.unwrap();
                    assert_eq!((&*auth.user, auth.password.expose()), (user, password));
                }
                (Err(error), None) => assert_eq!(error.kind().exit_code(), 64),
                (found, _) => panic!("{args:?}: {found:?}"),
            }
        }
        let args = ServerArgs {
            bearer_file: Some(file),
            ..ServerArgs::default()
        };
        let value = args.options().unwrap().authorization.unwrap();
        assert_eq!(value.expose(), "Bearer s:e c");
        let shown = format!(
            "{:?}",
            ServerArgs {
                user: named("me:secret"),
                ..ServerArgs::default()
            }
        );
        assert!(!shown.contains("secret"), "{shown}");
    }
}
