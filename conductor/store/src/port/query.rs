//! Lists of ports, and the node that has given addresses.

use sqlx::QueryBuilder;
use sqlx::Sqlite;
use uuid::Uuid;

use super::Port;
use super::table;
use crate::Error;
use crate::Result;
use crate::Store;
use crate::codec::Columns;
use crate::node::Node;
use crate::page;
use crate::page::Listed;
use crate::page::Page;
use crate::page::SortDir;

/// Which ports are wanted, and which page of them.
#[derive(Debug, Clone, Default)]
pub struct PortQuery {
    /// Of this node.
    pub node_uuid: Option<Uuid>,
    /// With this MAC address, in any case.
    pub address: Option<String>,
    /// Of nodes in one of these shards; empty: any.
    pub shard: Vec<String>,
    /// Of nodes in one of these conductor groups; empty: any.
    pub conductor_groups: Vec<String>,
    /// Text that the description contains, whatever the case.
    pub description_contains: Option<String>,
    /// Column to sort by; none: the order of creation.
    pub sort_key: Option<String>,
    /// Direction.
    pub sort_dir: SortDir,
    /// Go on after this port.
    pub marker: Option<Uuid>,
    /// At most so many.
    pub limit: Option<u32>,
}

const LISTED: Listed = Listed {
    table: "ports",
    what: "port",
    sortable: table::SORTABLE,
};

/// Addresses looked up at once; a machine has fewer NICs.
const ADDRESSES: usize = 256;

impl Store {
    /// The ports that the query asks for.
    pub async fn list_ports(&self, query: &PortQuery) -> Result<Vec<Port>> {
        let query = query.clone();
        self.read(move |db| {
            Box::pin(async move {
                let mut select = QueryBuilder::<Sqlite>::new(table::SELECT.as_str());
                filter(&mut select, &query);
                let page = Page {
                    sort_key: query.sort_key.as_deref(),
                    sort_dir: query.sort_dir,
                    marker: query.marker,
                    limit: query.limit,
                };
                LISTED.paged(db, &mut select, &page).await?;
                let rows = select.build().fetch_all(db).await?;
                rows.iter().map(table::read).collect()
            })
        })
        .await
    }

    /// The one node that has ports with any of the MAC addresses (the first
    /// 256 count). Fails with [`Error::AmbiguousAddresses`] when there are
    /// more.
    pub async fn node_by_addresses(&self, addresses: &[String]) -> Result<Option<Node>> {
        let addresses: Vec<String> = addresses
            .iter()
            .take(ADDRESSES)
            .map(|address| address.to_lowercase())
            .collect();
        if addresses.is_empty() {
            return Ok(None);
        }
        self.read(move |db| {
            Box::pin(async move {
                let mut select =
                    QueryBuilder::<Sqlite>::new("SELECT DISTINCT node_uuid FROM ports WHERE 1 = 1");
                page::within(&mut select, "address", addresses.iter().cloned());
                select.push(" ORDER BY node_uuid");
                let rows = select.build().fetch_all(&mut *db).await?;
                let nodes = rows
                    .iter()
                    .map(|row| Columns::new(row, "ports", &["node_uuid"]).key())
                    .collect::<Result<Vec<Uuid>>>()?;
                match nodes.as_slice() {
                    [] => Ok(None),
                    [node] => crate::node::find(db, "uuid", node.to_string()).await,
                    _ => Err(Error::AmbiguousAddresses { addresses, nodes }),
                }
            })
        })
        .await
    }
}

fn filter(select: &mut QueryBuilder<Sqlite>, query: &PortQuery) {
    select.push(" WHERE 1 = 1");
    page::equal(
        select,
        "node_uuid",
        query.node_uuid.map(|uuid| uuid.to_string()),
    );
    page::equal(
        select,
        "address",
        query.address.as_ref().map(|text| text.to_lowercase()),
    );
    page::contains(select, "description", query.description_contains.as_ref());
    if !query.shard.is_empty() || !query.conductor_groups.is_empty() {
        select.push(" AND node_uuid IN (SELECT uuid FROM nodes WHERE 1 = 1");
        page::within(select, "shard", query.shard.iter().cloned());
        page::within(
            select,
            "conductor_group",
            query.conductor_groups.iter().cloned(),
        );
        select.push(")");
    }
}

#[cfg(test)]
mod tests {
    use super::PortQuery;
    use crate::Error;
    use crate::SortDir;
    use crate::Store;
    use crate::testing;

    async fn addresses(store: &Store, query: &PortQuery) -> Vec<String> {
        store
            .list_ports(query)
            .await
            .unwrap()
            .into_iter()
            .map(|port| port.address)
            .collect()
    }

    #[tokio::test]
    async fn filtered_paged_and_looked_up() {
        let store = testing::store().await;
        let mut a = testing::node("a");
        a.shard = Some("s".to_owned());
        a.conductor_group = "g".to_owned();
        store.create_node(&a).await.unwrap();
        let b = testing::stored(&store, "b").await;
        let mut described = testing::port(b.uuid, "02:00:00:00:00:03");
        described.description = Some("Uplink".to_owned());
        let ports = [
            testing::port(a.uuid, "02:00:00:00:00:01"),
            testing::port(a.uuid, "02:00:00:00:00:02"),
            described,
        ];
        for port in &ports {
            store.create_port(port).await.unwrap();
        }
        let base = PortQuery::default;
        assert_eq!(addresses(&store, &base()).await.len(), 3);
        let of_a = [
            PortQuery {
                node_uuid: Some(a.uuid),
                ..base()
            },
            PortQuery {
                shard: vec!["s".to_owned()],
                ..base()
            },
            PortQuery {
                conductor_groups: vec!["g".to_owned()],
                ..base()
            },
        ];
        for query in of_a {
            assert_eq!(addresses(&store, &query).await.len(), 2, "{query:?}");
        }
        let of_b = [
            PortQuery {
                address: Some("02:00:00:00:00:03".to_uppercase()),
                ..base()
            },
            PortQuery {
                description_contains: Some("link".to_owned()),
                ..base()
            },
            PortQuery {
                sort_key: Some("address".to_owned()),
                sort_dir: SortDir::Desc,
                limit: Some(1),
                ..base()
            },
            PortQuery {
                marker: Some(ports[1].uuid),
                ..base()
            },
        ];
        for query in of_b {
            assert_eq!(
                addresses(&store, &query).await,
                ["02:00:00:00:00:03"],
                "{query:?}"
            );
        }

        let find = async |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|text| (*text).to_owned()).collect();
            store.node_by_addresses(&list).await
        };
        let both = [
            "02:00:00:00:00:02",
            "02:00:00:00:00:01",
            "02:ff:00:00:00:00",
        ];
        assert_eq!(
            find(&both).await.unwrap().map(|node| node.uuid),
            Some(a.uuid)
        );
        assert_eq!(find(&[]).await.unwrap(), None);
        assert_eq!(find(&["02:ff:00:00:00:00"]).await.unwrap(), None);
        let error = find(&["02:00:00:00:00:01", "02:00:00:00:00:03"])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::AmbiguousAddresses { nodes, .. } if nodes.len() == 2));
    }
}
