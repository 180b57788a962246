//! HTTP basic authentication. bcrypt is slow on purpose, so what it has
//! accepted once is remembered by a keyed hash until the file changes.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::time::Duration;
use std::time::Instant;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use super::AuthError;
use super::Refusal;
use super::Role;
use super::htpasswd;
use super::htpasswd::Stamp;
use super::roles;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// bcrypt runs at once, so that guessing does not take all processors.
const AT_ONCE: usize = 2;

/// Users, roles and what was accepted, as of one state of the files.
#[derive(Debug)]
struct Table {
    users: HashMap<String, String>,
    roles: HashMap<String, Role>,
    /// Keyed hash of the last accepted password by user.
    accepted: HashMap<String, [u8; 32]>,
    /// Whether the file of roles was there: then it may not just go away.
    has_roles: bool,
    stamps: (Option<Stamp>, Option<Stamp>),
    looked: Instant,
}

/// The authenticator.
#[derive(Debug)]
pub(super) struct Basic {
    htpasswd: PathBuf,
    roles: Option<PathBuf>,
    table: RwLock<Table>,
    key: [u8; 32],
    turn: Arc<Semaphore>,
}

impl Basic {
    pub(super) fn open(htpasswd: &Path, roles: Option<&Path>) -> Result<Self, AuthError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| AuthError::Read {
            path: PathBuf::from("the system's random numbers"),
            source: std::io::Error::other(error.to_string()),
        })?;
        Ok(Self {
            htpasswd: htpasswd.to_owned(),
            roles: roles.map(Path::to_owned),
            table: RwLock::new(load(htpasswd, roles, false)?),
            key,
            turn: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }

    /// The caller that the headers name and prove, and the role.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
    ) -> Result<(String, Role), Refusal> {
        let (user, password) = credentials(headers)?;
        self.refresh();
        let digest = self.digest(&user, &password);
        let (hash, other, role) = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            let known = table.accepted.get(&user);
            let role = table.roles.get(&user).copied().unwrap_or_default();
            if known.is_some_and(|known| bool::from(known.ct_eq(&digest))) {
                return Ok((user, role));
            }
            (
                table.users.get(&user).cloned(),
                table.users.values().next().cloned(),
                role,
            )
        };
        // A user that does not exist costs as much time as one that does.
        let exists = hash.is_some();
        let Some(against) = hash.clone().or(other) else {
            return Err(Refusal::Wrong);
        };
        if !self.verify(password, against).await || !exists {
            return Err(Refusal::Wrong);
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // The file may have changed while bcrypt ran.
        if table.users.get(&user) == hash.as_ref() {
            table.accepted.insert(user.clone(), digest);
        }
        Ok((user, role))
    }

    async fn verify(&self, password: String, hash: String) -> bool {
        let Ok(turn) = self.turn.clone().acquire_owned().await else {
            return false;
        };
        let work = tokio::task::spawn_blocking(move || {
            let matches = bcrypt::verify(password, &hash).unwrap_or(false);
            drop(turn);
            matches
        });
        work.await.unwrap_or(false)
    }

    fn digest(&self, user: &str, password: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update((user.len() as u64).to_le_bytes());
        hash.update(user);
        hash.update(password);
        hash.finalize().into()
    }

    /// Reads the files again when they have changed. Files that cannot be read
    /// leave the last good state in force.
    fn refresh(&self) {
        {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            if table.looked.elapsed() < LOOK {
                return;
            }
        }
        let stamps = stamps(&self.htpasswd, self.roles.as_deref());
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.looked = Instant::now();
        if table.stamps == stamps {
            return;
        }
        match load(&self.htpasswd, self.roles.as_deref(), table.has_roles) {
            Ok(fresh) => *table = fresh,
            Err(error) => {
                table.stamps = stamps;
                tracing::error!(%error, "user file not taken over; the users known before stay valid");
            }
        }
    }
}

fn stamps(htpasswd: &Path, roles: Option<&Path>) -> (Option<Stamp>, Option<Stamp>) {
    (Stamp::read(htpasswd), roles.and_then(Stamp::read))
}

/// Reads the files. One of roles that is not there gives everybody all rights,
/// so that this is an error once it `had_roles`.
fn load(htpasswd: &Path, roles: Option<&Path>, had_roles: bool) -> Result<Table, AuthError> {
    let (text, stamp) = htpasswd::read_file(htpasswd)?;
    let users = htpasswd::parse(htpasswd, &text)?;
    if users.is_empty() {
        tracing::warn!(
            file = %htpasswd.display(),
            "the password file names no user: nobody can use the API",
        );
    }
    let roles = roles.filter(|path| had_roles || path.exists());
    let (roles, roles_stamp) = match roles {
        None => (HashMap::new(), None),
        Some(path) => {
            let (text, stamp) = htpasswd::read_file(path)?;
            (roles::parse(path, &text)?, Some(stamp))
        }
    };
    let has_roles = roles_stamp.is_some();
    let stamps = (Some(stamp), roles_stamp);
    Ok(Table {
        users,
        roles,
        accepted: HashMap::new(),
        has_roles,
        stamps,
        looked: Instant::now(),
    })
}

/// User and password of an `Authorization` header.
fn credentials(headers: &HeaderMap) -> Result<(String, String), Refusal> {
    let header = headers.get(AUTHORIZATION).ok_or(Refusal::Missing)?;
    let text = header.to_str().map_err(|_| Refusal::Undecodable)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(Refusal::Undecodable)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(Refusal::OtherScheme(scheme.chars().take(40).collect()));
    }
    let decoded = STANDARD
        .decode(token.trim())
        .map_err(|_| Refusal::Undecodable)?;
    let decoded = String::from_utf8(decoded).map_err(|_| Refusal::Undecodable)?;
    let (user, password) = decoded.split_once(':').ok_or(Refusal::Undecodable)?;
    Ok((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::http::HeaderMap;
    use axum::http::header::AUTHORIZATION;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::Basic;
    use super::LOOK;
    use super::Refusal;
    use super::Role;

    fn headers(value: &str) -> HeaderMap {
        [(AUTHORIZATION, value.parse().unwrap())]
            .into_iter()
            .collect()
    }

    async fn role(auth: &Basic, headers: &HeaderMap) -> Result<Role, Refusal> {
        auth.authenticate(headers).await.map(|(_, role)| role)
    }

    fn basic(user: &str, password: &str) -> HeaderMap {
        headers(&format!(
            "Basic {}",
            STANDARD.encode(format!("{user}:{password}"))
        ))
    }

    #[tokio::test]
    async fn accepts_remembers_and_rereads() {
        let dir = tempfile::tempdir().unwrap();
        let (users, roles) = (dir.path().join("users"), dir.path().join("roles"));
        let line = |password: &str| {
            format!(
                "admin:{}\nro:{}\n",
                bcrypt::hash(password, 4).unwrap(),
                bcrypt::hash("r", 4).unwrap()
            )
        };
        std::fs::write(&users, line("one").replace("$2b$", "$2y$")).unwrap();
        std::fs::write(&roles, "ro: reader\n").unwrap();
        let auth = Basic::open(&users, Some(&roles)).unwrap();
        for _ in 0..2 {
            assert_eq!(role(&auth, &basic("admin", "one")).await, Ok(Role::Admin));
        }
        assert_eq!(role(&auth, &basic("ro", "r")).await, Ok(Role::Reader));
        for (user, password) in [("admin", "two"), ("admin", ""), ("nobody", "one")] {
            assert_eq!(
                role(&auth, &basic(user, password)).await,
                Err(Refusal::Wrong)
            );
        }
        std::fs::write(&users, line("another")).unwrap();
        auth.table.write().unwrap().looked = Instant::now() - LOOK;
        assert_eq!(
            role(&auth, &basic("admin", "one")).await,
            Err(Refusal::Wrong)
        );
        assert_eq!(
            role(&auth, &basic("admin", "another")).await,
            Ok(Role::Admin)
        );
        std::fs::write(&users, "broken").unwrap();
        auth.table.write().unwrap().looked = Instant::now() - LOOK;
        assert_eq!(
            role(&auth, &basic("admin", "another")).await,
            Ok(Role::Admin)
        );
    }

    #[tokio::test]
    async fn roles_may_come_later_and_do_not_just_go_away() {
        let dir = tempfile::tempdir().unwrap();
        let (users, roles) = (dir.path().join("users"), dir.path().join("roles"));
        std::fs::write(&users, format!("ro:{}\n", bcrypt::hash("r", 4).unwrap())).unwrap();
        let auth = Basic::open(&users, Some(&roles)).unwrap();
        let look = || auth.table.write().unwrap().looked = Instant::now() - LOOK;
        let ro = basic("ro", "r");
        assert_eq!(role(&auth, &ro).await, Ok(Role::Admin));
        std::fs::write(&roles, "ro: reader\n").unwrap();
        look();
        assert_eq!(role(&auth, &ro).await, Ok(Role::Reader));
        std::fs::remove_file(&roles).unwrap();
        for _ in 0..2 {
            look();
            assert_eq!(role(&auth, &ro).await, Ok(Role::Reader));
        }
        std::fs::write(&roles, "ro: admin\n").unwrap();
        look();
        assert_eq!(role(&auth, &ro).await, Ok(Role::Admin));
    }

    #[tokio::test]
    async fn says_what_is_wrong_with_a_header() {
        let dir = tempfile::tempdir().unwrap();
        let users = dir.path().join("users");
        std::fs::write(&users, "").unwrap();
        let auth = Basic::open(&users, None).unwrap();
        for (header, refusal) in [
            (
                headers("Bearer zzz"),
                Refusal::OtherScheme("Bearer".to_owned()),
            ),
            (headers("Basic !!!!"), Refusal::Undecodable),
            (headers("Basic"), Refusal::Undecodable),
            (HeaderMap::new(), Refusal::Missing),
        ] {
            assert_eq!(role(&auth, &header).await, Err(refusal));
        }
        assert_eq!(
            role(&auth, &basic("nobody", "x")).await,
            Err(Refusal::Wrong)
        );
    }
}
