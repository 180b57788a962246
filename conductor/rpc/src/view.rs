//! The members as the database last told: read again when that is a while
//! ago, and when it turned out to be wrong.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::time::Duration;

use tokio::time::Instant;
use wrought_store::Store;

use crate::members::Members;

/// How old what is known may be, Ironic's figure.
pub const FRESH: Duration = Duration::from_secs(15);

/// What is known of the conductors.
#[derive(Debug)]
pub struct View {
    store: Store,
    dead_after: Duration,
    known: RwLock<Known>,
    /// Whoever reads the database.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Known {
    members: Arc<Members>,
    /// When the reading began; none: never.
    at: Option<Instant>,
}

impl View {
    /// Nothing is known yet. Conductors that were silent for `dead_after` do
    /// not live.
    pub fn new(store: Store, dead_after: Duration) -> Self {
        let known = Known {
            members: Arc::default(),
            at: None,
        };
        Self {
            store,
            dead_after,
            known: RwLock::new(known),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// What was read last, however long ago.
    pub fn last(&self) -> Arc<Members> {
        self.known().members
    }

    /// What was read at most [`FRESH`] ago.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn current(&self) -> wrought_store::Result<Arc<Members>> {
        let known = self.known();
        match known.at {
            Some(at) if at.elapsed() < FRESH => Ok(known.members),
            _ => self.refreshed().await,
        }
    }

    /// What is true now. Those who ask at the same time share one reading.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn refreshed(&self) -> wrought_store::Result<Arc<Members>> {
        let asked = Instant::now();
        let _reading = self.reading.lock().await;
        let known = self.known();
        // Somebody else began to read after this was asked.
        if known.at.is_some_and(|at| at >= asked) {
            return Ok(known.members);
        }
        let began = Instant::now();
        let conductors = self.store.conductors().await?;
        let members = Arc::new(Members::new(conductors, self.dead_after));
        let known = Known {
            members: Arc::clone(&members),
            at: Some(began),
        };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(members)
    }

    fn known(&self) -> Known {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wrought_store::Registration;
    use wrought_store::Store;

    use super::FRESH;
    use super::View;

    #[tokio::test]
    async fn kept_for_a_while_and_read_again_when_asked() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let view = View::new(store.clone(), Duration::from_secs(60));
        assert!(view.current().await.unwrap().alive().is_empty());
        let row = Registration::new("a", "", &[]);
        store.register_conductor(&row).await.unwrap();
        assert!(view.current().await.unwrap().alive().is_empty());
        assert_eq!(view.refreshed().await.unwrap().alive().len(), 1);
        assert_eq!(view.last().alive().len(), 1);
        let row = Registration::new("b", "", &[]);
        store.register_conductor(&row).await.unwrap();
        // As if the time had passed.
        view.known.write().unwrap().at = tokio::time::Instant::now().checked_sub(FRESH);
        assert_eq!(view.current().await.unwrap().alive().len(), 2);
    }
}
