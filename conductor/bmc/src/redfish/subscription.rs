//! Subscriptions: where the service sends its events.

use serde_json::Value;

use super::Client;
use super::Error;
use super::Result;
use super::json;
use super::session::ROOT;

/// What of a subscription is told on.
const SHOWN: [&str; 5] = ["Id", "Context", "Destination", "EventTypes", "Protocol"];

impl Client {
    /// The path of the collection.
    async fn subscription_path(&self) -> Result<String> {
        let root = self.get(ROOT).await?;
        let missing = |path: &str| Error::Unsupported {
            path: path.to_owned(),
            wanted: "EventService".to_owned(),
            offered: "no such service".to_owned(),
        };
        let service = json::link(&root.body, "/EventService").ok_or_else(|| missing(ROOT))?;
        let events = self.get(&service).await?;
        json::link(&events.body, "/Subscriptions").ok_or_else(|| missing(&service))
    }

    /// The path of one of them, which must be a plain name.
    async fn subscription_of(&self, id: &str) -> Result<String> {
        let collection = self.subscription_path().await?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if id.is_empty() || !id.chars().all(plain) {
            return Err(Error::NotFound {
                path: collection,
                expected: format!("a subscription {id:?}"),
            });
        }
        Ok(format!("{}/{id}", collection.trim_end_matches('/')))
    }

    /// The collection as the service tells it.
    pub async fn subscriptions(&self) -> Result<Value> {
        let path = self.subscription_path().await?;
        Ok(self.get(&path).await?.body)
    }

    /// One subscription.
    pub async fn subscription(&self, id: &str) -> Result<Value> {
        let path = self.subscription_of(id).await?;
        Ok(shown(&self.get(&path).await?.body))
    }

    /// Makes one; gives what the service made of it.
    pub async fn subscribe(&self, wanted: &Value) -> Result<Value> {
        let path = self.subscription_path().await?;
        let made = self.post(&path, wanted).await?;
        match made.location {
            Some(location) => Ok(shown(&self.get(&location).await?.body)),
            None => Ok(shown(&made.body)),
        }
    }

    /// Ends one.
    pub async fn unsubscribe(&self, id: &str) -> Result<()> {
        let path = self.subscription_of(id).await?;
        self.delete(&path).await
    }
}

fn shown(body: &Value) -> Value {
    let pairs = SHOWN
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), body.get(*key)?.clone())));
    Value::Object(pairs.collect())
}
