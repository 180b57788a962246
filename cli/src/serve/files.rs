//! How many files this process may have open: every connection is one.

use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use nix::sys::resource::setrlimit;

/// What is enough for everything that the listeners let in.
const ENOUGH: u64 = 65_536;

/// Raises the limit as far as the system allows without asking, and gives it.
pub(crate) fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1024;
    };
    let wanted = soft.max(ENOUGH.min(hard));
    match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(soft, %error, "the limit of open files stays as it is");
            soft
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::Resource;
    use nix::sys::resource::getrlimit;

    use super::raise;

    #[test]
    fn raised_once_and_for_all() {
        let limit = raise();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(limit, soft);
        assert!(soft <= hard);
        assert_eq!(raise(), limit);
    }
}
