//! More nodes in the state of one: copies of its row in the database of a
//! stopped server, ours or a real Ironic's, each with a UUID, name, token
//! and callback URL of its own. It is the only way to thousands of waiting
//! nodes within seconds; the first node came there by itself.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use sqlx::AnyConnection;
use sqlx::Connection;
use uuid::Uuid;

use super::Agent;
use super::commands::Commands;

/// Names of the columns, in SQLite and in PostgreSQL.
const COLUMNS: [&str; 2] = [
    "SELECT name FROM pragma_table_info('nodes') WHERE name <> 'id'",
    "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
     WHERE table_name = 'nodes' AND column_name <> 'id' ORDER BY ordinal_position",
];

/// Adds `count` copies of the node of `model` in the database with that URL;
/// gives their agents, which are at the model's step already.
pub async fn copy(
    database: &str,
    model: &Agent,
    commands: &Commands,
    count: usize,
) -> Result<Vec<Agent>> {
    sqlx::any::install_default_drivers();
    let mut db = AnyConnection::connect(database)
        .await
        .with_context(|| format!("opening {database}"))?;
    let [sqlite, postgres] = COLUMNS;
    let names = match database.starts_with("sqlite") {
        true => sqlite,
        false => postgres,
    };
    let columns: Vec<String> = sqlx::query_scalar(names).fetch_all(&mut db).await?;
    let names = columns.join(", ");
    let values: Vec<&str> = columns
        .iter()
        .map(|column| match column.as_str() {
            "uuid" => "$1",
            "name" => "$2",
            "driver_internal_info" => "replace(replace(driver_internal_info, $3, $4), $5, $6)",
            column => column,
        })
        .collect();
    let sql = format!(
        "INSERT INTO nodes ({names}) SELECT {} FROM nodes WHERE uuid = $7",
        values.join(", ")
    );
    let mut agents = Vec::with_capacity(count);
    let mut places = Vec::with_capacity(count);
    let mut all = db.begin().await?;
    for _ in 0..count {
        let node = Uuid::new_v4().to_string();
        let place = format!("copy-{node}");
        let token = Uuid::new_v4().simple().to_string();
        let agent = commands.agent(&place, node, token);
        // The statement is made of the database's own column names.
        let done = sqlx::query(sqlx::AssertSqlSafe(sql.clone()))
            .bind(&agent.node)
            .bind(&place)
            .bind(&model.token)
            .bind(&agent.token)
            .bind(&model.url)
            .bind(&agent.url)
            .bind(&model.node)
            .execute(&mut *all)
            .await
            .context("copying a node")?;
        ensure!(done.rows_affected() == 1, "node {} is gone", model.node);
        places.push(place);
        agents.push(agent);
    }
    all.commit().await?;
    db.close().await?;
    commands.adopt(places);
    Ok(agents)
}
