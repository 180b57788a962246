//! `rescue`: the machine is left to somebody who logs in.
//!
//! The password goes where a rescue ramdisk's login takes it, as
//! ironic-python-agent's do: into a file of the folder `/etc/ipa-rescue-config`.
//! A ramdisk without that folder has no login. From then on the agent serves
//! nothing, in this boot: a mark tells one that is started anew.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use crate::command::Args;
use crate::command::CommandFailure;
use crate::command::Context;
use crate::command::Mode;
use crate::command::Registry;
use crate::shutdown::Goal;

/// Folder that a ramdisk with a login has.
pub(crate) const FOLDER: &str = "etc/ipa-rescue-config";
/// The file in it.
pub(crate) const PASSWORD: &str = "ipa-rescue-password";
/// Says that the machine is a user's.
const MARK: &str = "etc/.rescued";
/// Bytes of a hash, at most.
const LONGEST: usize = 256;

pub(super) fn register(registry: &mut Registry) {
    registry.blocking("rescue.finalize_rescue", Mode::Sync, finalize);
}

/// Whether the machine was left to a user in this boot.
pub(crate) fn is_left_alone() -> bool {
    Path::new("/").join(MARK).exists()
}

fn finalize(context: &Context, args: Args) -> Result<Value, CommandFailure> {
    let hash = hash(&args)?;
    hand_over(Path::new("/"), hash)?;
    context.agent.shutdown.request(Goal::Stay);
    Ok(Value::Null)
}

/// The parameter `rescue_password`, a hash in the form of crypt(5).
fn hash(args: &Args) -> Result<&str, CommandFailure> {
    let invalid = |text: &str| Err(CommandFailure::invalid_params(text));
    let Some(hash) = args.get("rescue_password").and_then(Value::as_str) else {
        return invalid("finalize_rescue needs the text 'rescue_password'");
    };
    if args.get("hashed").and_then(Value::as_bool) != Some(true) {
        return invalid(
            "finalize_rescue takes a hash, not the password itself: expected hashed=true, and in \
             'rescue_password' a text as of crypt(5)",
        );
    }
    // It becomes a field of a line.
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"$./=,-".contains(&byte);
    if !hash.starts_with('$') || hash.len() > LONGEST || !hash.bytes().all(letter) {
        return invalid(
            "finalize_rescue: 'rescue_password' is no hash as of crypt(5), such as $5$SALT$HASH",
        );
    }
    Ok(hash)
}

fn hand_over(root: &Path, hash: &str) -> Result<(), CommandFailure> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Err(CommandFailure::execution(format!(
            "this ramdisk has no login that could take the password: it has no folder /{FOLDER}, \
             which a rescue ramdisk brings along; name one with rescue_kernel and rescue_ramdisk, \
             or rescue_iso, in the node's driver_info, or for all nodes in the conductor's \
             configuration"
        )));
    }
    let failed = |what: &'static str| {
        move |error: io::Error| {
            CommandFailure::execution(format!("the password was not handed over: {what}: {error}"))
        }
    };
    // The login waits for the file: it must be whole from its first moment on.
    let draft = folder.join(format!(".{PASSWORD}"));
    write(&draft, hash).map_err(failed("writing it"))?;
    fs::rename(&draft, folder.join(PASSWORD)).map_err(failed("renaming its file"))?;
    write(&root.join(MARK), "").map_err(failed("marking the machine as rescued"))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::Value;
    use serde_json::json;

    use super::FOLDER;
    use super::MARK;
    use super::PASSWORD;
    use super::hand_over;
    use super::hash;

    const HASH: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";

    #[test]
    fn only_hashes_are_taken() {
        let given = |value: Value| hash(value.as_object().unwrap()).map(str::to_owned);
        assert_eq!(
            given(json!({"rescue_password": HASH, "hashed": true})).unwrap(),
            HASH
        );
        for bad in [
            json!({"hashed": true}),
            json!({"rescue_password": 1, "hashed": true}),
            json!({"rescue_password": HASH}),
            json!({"rescue_password": "secret12", "hashed": true}),
            json!({"rescue_password": "$5$a\nroot::0:0", "hashed": true}),
            json!({"rescue_password": "$5$a:b", "hashed": true}),
        ] {
            let refused = given(bad.clone()).unwrap_err();
            assert_eq!(refused.error.kind, "InvalidCommandParamsError", "{bad}");
            assert!(!refused.to_string().contains("secret12"));
        }
    }

    #[test]
    fn a_ramdisk_without_a_login_says_so() {
        let root = tempfile::tempdir().unwrap();
        let refused = hand_over(root.path(), HASH).unwrap_err();
        assert!(refused.error.details.contains("no login"), "{refused}");
        assert!(!root.path().join(MARK).exists());
    }

    #[test]
    fn the_password_lies_where_the_login_takes_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(FOLDER)).unwrap();
        // Again, as after a lost answer.
        for hash in ["$5$old", HASH] {
            hand_over(root.path(), hash).unwrap();
        }
        let path = root.path().join(FOLDER).join(PASSWORD);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), HASH);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(root.path().join(MARK).exists());
        assert_eq!(
            std::fs::read_dir(root.path().join(FOLDER)).unwrap().count(),
            1
        );
    }
}
