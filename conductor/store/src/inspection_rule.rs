//! Inspection rules: what is done with a node when what was found out about it
//! meets conditions.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use wrought_wire::inspection::PHASE_MAIN;

use crate::Result;
use crate::Store;
use crate::codec;
use crate::codec::Cell;
use crate::db::DbRow;
use crate::page;
use crate::row::Filter;
use crate::row::PageQuery;
use crate::row::Row;
use crate::row::Table;
use crate::row::identity;
use crate::select::Select;

/// One rule. Field names are the API's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InspectionRule {
    /// Identity.
    pub uuid: Uuid,
    /// Free text.
    pub description: Option<String>,
    /// Rules with higher ones come first; 0 to 9999.
    pub priority: u32,
    /// When in an inspection it has its turn; `main`.
    pub phase: String,
    /// Whether conditions and actions are never shown.
    pub sensitive: bool,
    /// What must hold, all of it (`wrought_wire::inspection::Condition`).
    pub conditions: Vec<Value>,
    /// What is done (`wrought_wire::inspection::Action`).
    pub actions: Vec<Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Default for InspectionRule {
    fn default() -> Self {
        Self {
            uuid: Uuid::new_v4(),
            description: None,
            priority: 0,
            phase: PHASE_MAIN.to_owned(),
            sensitive: false,
            conditions: Vec::new(),
            actions: Vec::new(),
            created_at: codec::now(),
            updated_at: None,
        }
    }
}

static TABLE: Table = Table::new(
    "inspection_rules",
    "inspection rule",
    &[
        "uuid",
        "created_at",
        "description",
        "priority",
        "phase",
        "sensitive",
        "conditions",
        "actions",
        "updated_at",
    ],
    &[
        "uuid",
        "created_at",
        "description",
        "priority",
        "phase",
        "sensitive",
        "updated_at",
    ],
    &[],
    &[],
);

impl Row for InspectionRule {
    identity!(TABLE);

    fn read(row: &DbRow) -> Result<Self> {
        let mut column = TABLE.columns(row);
        Ok(Self {
            uuid: column.key()?,
            created_at: column.time()?,
            description: column.maybe_text()?,
            priority: column.small()?,
            phase: column.text()?,
            sensitive: column.bool()?,
            conditions: column.json()?,
            actions: column.json()?,
            updated_at: column.maybe_time()?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.uuid.to_string()),
            Cell::time(Some(self.created_at)),
            Cell::maybe(self.description.as_ref()),
            Cell::Int(Some(i64::from(self.priority))),
            Cell::text(&self.phase),
            Cell::bool(self.sensitive),
            Cell::json(&self.conditions),
            Cell::json(&self.actions),
            Cell::time(self.updated_at),
        ]
    }
}

/// Which rules are wanted.
#[derive(Debug, Clone, Default)]
pub struct InspectionRuleQuery {
    /// Of this phase.
    pub phase: Option<String>,
}

impl Filter for InspectionRuleQuery {
    type Row = InspectionRule;

    fn push(&self, select: &mut Select) {
        page::equal(select, "phase", self.phase.clone());
    }
}

impl Store {
    /// The rules of a phase in the order in which they have their turn:
    /// higher priorities first, then older ones. At most `limit` are read.
    pub async fn inspection_rules(&self, phase: &str, limit: u32) -> Result<Vec<InspectionRule>> {
        let query = InspectionRuleQuery {
            phase: Some(phase.to_owned()),
        };
        let page = PageQuery {
            limit: Some(limit),
            ..PageQuery::default()
        };
        let mut rules = self.rows(&query, &page).await?;
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::InspectionRule;
    use crate::testing;

    #[tokio::test]
    async fn in_the_order_of_their_priority() {
        let store = testing::store().await;
        for (text, priority) in [("late", 0), ("first", 9), ("later", 0)] {
            let rule = InspectionRule {
                description: Some(text.to_owned()),
                priority,
                conditions: vec![json!({"op": "is-true", "args": {"value": true}})],
                actions: vec![json!({"op": "fail", "args": {"msg": "no"}})],
                ..InspectionRule::default()
            };
            store.insert(&rule).await.unwrap();
            assert_eq!(store.row(rule.uuid).await.unwrap(), Some(rule));
        }
        let rules = store.inspection_rules("main", 10).await.unwrap();
        let texts: Vec<_> = rules
            .iter()
            .filter_map(|rule| rule.description.as_deref())
            .collect();
        assert_eq!(texts, ["first", "late", "later"]);
        assert!(
            store
                .inspection_rules("other", 10)
                .await
                .unwrap()
                .is_empty()
        );
    }
}
