//! Virtual media: an image served by URL becomes a CD, USB stick or
//! floppy in the machine.
//!
//! Services differ in where the devices are (below the manager, below the
//! system, or both), in which optional properties they take, and in whether
//! they mean it when they say yes. So every device is tried until one reads
//! back as inserted.

use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;
use wrought_wire::state::MediaKind;

use super::Client;
use super::Error;
use super::Result;
use super::http::Reply;
use super::json;
use super::session::ROOT;

/// Devices that are looked at, at most.
const DEVICES: usize = 32;

/// One virtual media device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaSlot {
    /// Its path.
    pub path: String,
    /// Kinds of media that it takes, such as `CD` and `DVD`.
    pub media_types: Vec<String>,
    /// Whether something is inserted, when the service tells.
    pub inserted: Option<bool>,
    /// The image's URL in the service's words.
    pub image: Option<String>,
}

impl MediaSlot {
    fn of(path: &str, body: &Value) -> Self {
        Self {
            path: path.to_owned(),
            media_types: json::texts(body, "/MediaTypes").unwrap_or_default(),
            inserted: body.pointer("/Inserted").and_then(Value::as_bool),
            image: json::text(body, "/Image").map(str::to_owned),
        }
    }

    /// Whether it shows the machine a device of that kind.
    pub fn takes(&self, kind: MediaKind) -> bool {
        let words: &[&str] = match kind {
            MediaKind::Cdrom => &["CD", "DVD"],
            MediaKind::Disk => &["USBStick"],
            MediaKind::Floppy => &["Floppy"],
        };
        let offered = |word: &String| words.contains(&word.as_str());
        self.media_types.iter().any(offered)
    }

    /// Also true when only a leftover image name is there: services exist that
    /// refuse an insertion because of it.
    fn is_occupied(&self) -> bool {
        self.inserted == Some(true) || self.image.is_some()
    }

    fn holds(&self, url: &str) -> bool {
        self.inserted == Some(true)
            || (self.inserted.is_none() && self.image.as_deref() == Some(url))
    }
}

impl Client {
    /// All virtual media devices, those of the managers first.
    pub async fn media(&self) -> Result<Vec<MediaSlot>> {
        let (_, system) = self.read_system().await?;
        let mut collections = Vec::new();
        for manager in self.managers(&system).await? {
            if let Some(manager) = self.optional(&manager).await? {
                collections.extend(json::link(&manager.body, "/VirtualMedia"));
            }
        }
        collections.extend(json::link(&system.body, "/VirtualMedia"));
        let mut slots: Vec<MediaSlot> = Vec::new();
        for collection in collections {
            let Some(collection) = self.optional(&collection).await? else {
                continue;
            };
            for path in json::links(&collection.body, "/Members") {
                if slots.len() < DEVICES && slots.iter().all(|slot| slot.path != path) {
                    slots.push(self.slot(&path).await?.0);
                }
            }
        }
        Ok(slots)
    }

    /// Inserts the image behind `url` into a device of that kind, read-only,
    /// and checks that it is in. Gives the path of the device.
    pub async fn insert_media(&self, kind: MediaKind, url: &str) -> Result<String> {
        let slots = self.slots(kind).await?;
        if let Some(slot) = slots
            .iter()
            .find(|slot| slot.inserted == Some(true) && slot.image.as_deref() == Some(url))
        {
            return Ok(slot.path.clone());
        }
        let mut last = None;
        for slot in &slots {
            match self.insert_into(slot, url).await {
                Ok(()) => return Ok(slot.path.clone()),
                Err(error) if error.is_refusal() || matches!(error, Error::NotReached { .. }) => {
                    tracing::warn!(path = slot.path, %error, "virtual media not inserted here");
                    last.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(match last {
            Some(error) => error,
            None => self.no_device(kind).await?,
        })
    }

    /// Ejects whatever is in devices of that kind; nothing inserted is fine.
    pub async fn eject_media(&self, kind: MediaKind) -> Result<()> {
        for slot in self.slots(kind).await? {
            if slot.is_occupied() {
                self.eject_from(&slot).await?;
            }
        }
        Ok(())
    }

    async fn slots(&self, kind: MediaKind) -> Result<Vec<MediaSlot>> {
        let mut slots = self.media().await?;
        slots.retain(|slot| slot.takes(kind));
        Ok(slots)
    }

    async fn no_device(&self, kind: MediaKind) -> Result<Error> {
        let offered: Vec<String> = self
            .media()
            .await?
            .into_iter()
            .map(|slot| slot.path)
            .collect();
        Ok(Error::Unsupported {
            path: self.system_path().await?.to_owned(),
            wanted: format!("a virtual device for media of the kind {kind}"),
            offered: if offered.is_empty() {
                "none".to_owned()
            } else {
                offered.join(", ")
            },
        })
    }

    /// Managers of the system, or all of them when it names none.
    pub(crate) async fn managers(&self, system: &Reply) -> Result<Vec<String>> {
        let named = json::links(&system.body, "/Links/ManagedBy");
        if !named.is_empty() {
            return Ok(named);
        }
        let root = self.get(ROOT).await?;
        let Some(collection) = json::link(&root.body, "/Managers") else {
            return Ok(Vec::new());
        };
        let members = self.optional(&collection).await?;
        Ok(members
            .map(|reply| json::links(&reply.body, "/Members"))
            .unwrap_or_default())
    }

    /// A resource that may be missing, or announced and not built.
    pub(crate) async fn optional(&self, path: &str) -> Result<Option<Reply>> {
        match self.get(path).await {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if error.is_refusal() => Ok(None),
            Err(Error::Status { status: 500, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn slot(&self, path: &str) -> Result<(MediaSlot, Reply)> {
        let reply = self.get(path).await?;
        Ok((MediaSlot::of(path, &reply.body), reply))
    }

    async fn insert_into(&self, slot: &MediaSlot, url: &str) -> Result<()> {
        if slot.is_occupied() {
            self.eject_from(slot).await?;
        }
        let (_, reply) = self.slot(&slot.path).await?;
        match json::text(&reply.body, "/Actions/#VirtualMedia.InsertMedia/target") {
            Some(target) => {
                let scheme = if url.starts_with("https:") {
                    "HTTPS"
                } else {
                    "HTTP"
                };
                let forms = [
                    json!({"Image": url, "Inserted": true, "WriteProtected": true}),
                    json!({"Image": url}),
                    json!({"Image": url, "TransferProtocolType": scheme, "TransferMethod": "Stream"}),
                ];
                self.first_accepted(target, &forms).await?;
            }
            None => {
                let body = json!({"Image": url, "Inserted": true});
                self.patch(&slot.path, &body, reply.etag.as_deref()).await?;
            }
        }
        self.until(&slot.path, "Inserted", "true", |slot| slot.holds(url))
            .await
    }

    async fn eject_from(&self, slot: &MediaSlot) -> Result<()> {
        let (_, reply) = self.slot(&slot.path).await?;
        let ejected = match json::text(&reply.body, "/Actions/#VirtualMedia.EjectMedia/target") {
            Some(target) => self.post(target, &json!({})).await,
            None => {
                let body = json!({"Image": null, "Inserted": false});
                self.patch(&slot.path, &body, reply.etag.as_deref()).await
            }
        };
        match ejected {
            // An image name without a medium may well not be ejectable.
            Err(error) if error.is_refusal() && slot.inserted != Some(true) => return Ok(()),
            other => other?,
        };
        self.until(&slot.path, "Inserted", "false", |slot| {
            slot.inserted != Some(true)
        })
        .await
    }

    /// Sends the forms of a request in turn until one is not refused; the
    /// first refusal is the one that is told.
    async fn first_accepted(&self, target: &str, forms: &[Value]) -> Result<()> {
        let mut first = None;
        for form in forms {
            match self.post(target, form).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_refusal() => {
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        first.map_or(Ok(()), Err)
    }

    async fn until(
        &self,
        path: &str,
        what: &'static str,
        expected: &str,
        reached: impl Fn(&MediaSlot) -> bool,
    ) -> Result<()> {
        let started = Instant::now();
        let within = self.inner.tuning.media_timeout;
        loop {
            let (slot, _) = self.slot(path).await?;
            if reached(&slot) {
                return Ok(());
            }
            if started.elapsed() >= within {
                return Err(Error::NotReached {
                    path: path.to_owned(),
                    what,
                    expected: expected.to_owned(),
                    found: slot
                        .inserted
                        .map_or("not told".to_owned(), |inserted| inserted.to_string()),
                    seconds: within.as_secs(),
                });
            }
            tokio::time::sleep(self.inner.tuning.poll).await;
        }
    }
}
