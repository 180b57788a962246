//! The administrator's password, made at the first start.

use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use crate::private;

/// The user that it is for.
pub(crate) const USER: &str = "admin";
/// bcrypt's work factor.
const COST: u32 = 11;
/// Characters of the password: letters and digits without look-alikes, 57 of
/// them, so that 24 carry 139 bits.
const ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
const LENGTH: usize = 24;

/// The two files in the state folder.
#[derive(Debug)]
pub(crate) struct Files {
    /// The password, for the administrator.
    pub(crate) password: PathBuf,
    /// Its hash, for the server.
    pub(crate) htpasswd: PathBuf,
}

/// Makes both files unless the server's is there.
pub(crate) fn ensure(state_dir: &Path) -> Result<Files> {
    let files = Files {
        password: state_dir.join("admin-password"),
        htpasswd: state_dir.join("htpasswd"),
    };
    if files.htpasswd.exists() {
        return Ok(files);
    }
    let password = generate()?;
    // The server's file is written last: it says that both are complete.
    private::write(&files.password, &format!("{password}\n"))?;
    let hash = bcrypt::hash(&password, COST).context("hashing the administrator's password")?;
    private::write(&files.htpasswd, &format!("{USER}:{hash}\n"))?;
    Ok(files)
}

fn generate() -> Result<String> {
    let mut password = String::with_capacity(LENGTH);
    // Bytes at or above this would favour the first characters.
    let fair = 256 - 256 % ALPHABET.len();
    while password.len() < LENGTH {
        let mut bytes = [0_u8; LENGTH];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow::anyhow!("getting random bytes: {error}"))?;
        let characters = bytes
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < fair)
            .filter_map(|byte| ALPHABET.get(byte % ALPHABET.len()))
            .map(|byte| char::from(*byte));
        password.extend(characters.take(LENGTH - password.len()));
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::LENGTH;
    use super::ensure;

    #[test]
    fn made_once_private_and_fitting() {
        let dir = tempfile::tempdir().unwrap();
        let files = ensure(dir.path()).unwrap();
        let password = std::fs::read_to_string(&files.password).unwrap();
        assert_eq!(password.trim().len(), LENGTH);
        let htpasswd = std::fs::read_to_string(&files.htpasswd).unwrap();
        let hash = htpasswd.trim().strip_prefix("admin:").unwrap();
        assert!(bcrypt::verify(password.trim(), hash).unwrap());
        for file in [&files.password, &files.htpasswd] {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        ensure(dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&files.htpasswd).unwrap(), htpasswd);
    }
}
