//! Who asks: known to everything that works on a request of the API in the
//! request's own task, so that the history of nodes can tell it. Nobody is what
//! the conductor does by itself, and what is asked without authentication.

use serde::Deserialize;
use serde::Serialize;

tokio::task_local! {
    static CALLER: Caller;
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Name of the user; none: nobody, or it is not known.
    pub user: Option<String>,
}

impl Caller {
    /// Whoever asked for what this task works on.
    pub fn current() -> Self {
        CALLER.try_with(Self::clone).unwrap_or_default()
    }

    /// Works on something that this caller asked for.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CALLER.scope(self, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::Caller;

    #[tokio::test]
    async fn known_within_and_not_beyond() {
        assert_eq!(Caller::current(), Caller::default());
        let admin = Caller {
            user: Some("admin".to_owned()),
        };
        let (inside, spawned) = admin
            .clone()
            .scope(async {
                let spawned = tokio::spawn(async { Caller::current() });
                (Caller::current(), spawned.await.unwrap())
            })
            .await;
        assert_eq!((inside, spawned), (admin, Caller::default()));
        assert_eq!(Caller::current(), Caller::default());
    }
}
