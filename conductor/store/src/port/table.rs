//! The table of ports.

use uuid::Uuid;

use super::Port;
use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec::Cell;
use crate::db::DbRow;
use crate::row::Reference;
use crate::row::Row;
use crate::row::Table;
use crate::row::Unique;
use crate::row::identity;
use crate::row::unique_name;

static TABLE: Table = Table::new(
    "ports",
    "port",
    &[
        "uuid",
        "created_at",
        "address",
        "node_uuid",
        "portgroup_uuid",
        "name",
        "description",
        "extra",
        "internal_info",
        "local_link_connection",
        "pxe_enabled",
        "physical_network",
        "is_smartnic",
        "vendor",
        "category",
        "available_for_dynamic_portgroup",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "address",
        "node_uuid",
        "portgroup_uuid",
        "name",
        "description",
        "pxe_enabled",
        "physical_network",
        "is_smartnic",
        "vendor",
        "category",
        "available_for_dynamic_portgroup",
        "updated_at",
    ],
    &[
        Unique {
            columns: &["address"],
            taken: |values, port| Error::DuplicateAddress {
                what: "port",
                address: values.concat(),
                other: port,
            },
        },
        unique_name!("port"),
    ],
    &[
        Reference::NODE,
        Reference {
            column: "portgroup_uuid",
            table: "portgroups",
            what: "portgroup",
        },
    ],
);

impl Row for Port {
    identity!(TABLE);

    fn normalise(&mut self) {
        self.address.make_ascii_lowercase();
    }

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            address: column.text()?,
            node_uuid: column.parse()?,
            portgroup_uuid: column.maybe_parse()?,
            name: column.maybe_text()?,
            description: column.maybe_text()?,
            extra: column.json()?,
            internal_info: column.json()?,
            local_link_connection: column.json()?,
            pxe_enabled: column.bool()?,
            physical_network: column.maybe_text()?,
            is_smartnic: column.bool()?,
            vendor: column.maybe_text()?,
            category: column.maybe_text()?,
            available_for_dynamic_portgroup: column.bool()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::text(self.address.clone()),
            Cell::text(self.node_uuid.to_string()),
            Cell::shown(self.portgroup_uuid),
            Cell::maybe(self.name.as_ref()),
            Cell::maybe(self.description.as_ref()),
            Cell::json(&self.extra),
            Cell::json(&self.internal_info),
            Cell::json(&self.local_link_connection),
            Cell::bool(self.pxe_enabled),
            Cell::maybe(self.physical_network.as_ref()),
            Cell::bool(self.is_smartnic),
            Cell::maybe(self.vendor.as_ref()),
            Cell::maybe(self.category.as_ref()),
            Cell::bool(self.available_for_dynamic_portgroup),
            Cell::time(self.updated_at),
        ]
    }
}

impl Store {
    /// Stores a new port. Fails with [`Error::DuplicateAddress`],
    /// [`Error::DuplicateName`], [`Error::DuplicateUuid`] or
    /// [`Error::NotFound`] for its node or portgroup.
    pub async fn create_port(&self, port: &Port) -> Result<()> {
        self.insert(port).await
    }

    /// The port with that UUID.
    pub async fn port(&self, uuid: Uuid) -> Result<Option<Port>> {
        self.row(uuid).await
    }

    /// The port with that UUID or name.
    pub async fn port_by_ident(&self, ident: &str) -> Result<Option<Port>> {
        self.row_by_ident(ident).await
    }

    /// Stores all of the port and sets its `updated_at`. Fails as
    /// [`Store::create_port`] does, with [`Error::NotFound`], or with
    /// [`Error::Changed`] when it is not the newest version.
    pub async fn save_port(&self, port: &mut Port) -> Result<()> {
        self.save(port).await
    }

    /// Deletes the port. Fails with [`Error::NotFound`].
    pub async fn destroy_port(&self, uuid: Uuid) -> Result<()> {
        self.remove::<Port>(uuid).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use crate::Error;
    use crate::testing;

    #[tokio::test]
    async fn stored_changed_and_deleted() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await;
        let mut port = testing::port(node.uuid, "52:54:00:00:00:01");
        port.name = Some("eth0".to_owned());
        port.extra.insert("k".to_owned(), json!([1, null]));
        store.create_port(&port).await.unwrap();
        assert_eq!(store.port(port.uuid).await.unwrap(), Some(port.clone()));
        assert_eq!(
            store.port_by_ident("eth0").await.unwrap(),
            Some(port.clone())
        );
        port.address = "52:54:00:00:00:0A".to_owned();
        port.pxe_enabled = false;
        port.vendor = Some("acme".to_owned());
        store.save_port(&mut port).await.unwrap();
        assert_eq!(port.address, "52:54:00:00:00:0a");
        assert!(port.updated_at.is_some());
        let ident = port.uuid.to_string();
        assert_eq!(
            store.port_by_ident(&ident).await.unwrap(),
            Some(port.clone())
        );
        store.destroy_port(port.uuid).await.unwrap();
        let gone = store.destroy_port(port.uuid).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { what: "port", .. }));
        let gone = store.save_port(&mut port).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { what: "port", .. }));
    }

    #[tokio::test]
    async fn clashes_are_typed() {
        let store = testing::store().await;
        let node = testing::stored(&store, "a").await;
        let mut first = testing::port(node.uuid, "52:54:00:00:00:01");
        first.name = Some("eth0".to_owned());
        store.create_port(&first).await.unwrap();

        let same = testing::port(node.uuid, "52:54:00:00:00:01".to_uppercase().as_str());
        let error = store.create_port(&same).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateAddress { other, .. } if other == first.uuid));
        let mut named = testing::port(node.uuid, "52:54:00:00:00:02");
        store.create_port(&named).await.unwrap();
        named.name = Some("eth0".to_owned());
        let error = store.save_port(&mut named).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateName { what: "port", .. }));
        let error = store.create_port(&first).await.unwrap_err();
        assert!(matches!(error, Error::DuplicateUuid { what: "port", .. }));
        let stray = testing::port(Uuid::new_v4(), "52:54:00:00:00:03");
        let error = store.create_port(&stray).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { what: "node", .. }));
    }
}
