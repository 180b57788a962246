//! `/v1/inspection_rules`: what is done with inspected nodes.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use wrought_store::InspectionRule;
use wrought_store::PageQuery;
use wrought_store::inspection_rule::InspectionRuleQuery;
use wrought_wire::inspection::Action;
use wrought_wire::inspection::Condition;
use wrought_wire::inspection::MAX_ITEMS;
use wrought_wire::inspection::MAX_PRIORITY;
use wrought_wire::inspection::PHASE_MAIN;

use crate::ApiState;
use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields::Field;
use crate::query::Known;
use crate::query::Query;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::routes::Routes;
use crate::value::Noun;
use crate::version::since;

/// Filters with the version that first has each.
pub(crate) const FILTERS: &[Known] = &[("phase", since::INSPECTION_RULES)];

/// Rules that are deleted at once.
const PAGE: u32 = 200;

impl Resource for InspectionRule {
    const NOUN: Noun = Noun("inspection_rule");
    const TITLE: &'static str = "Inspection rule";
    const PATH: &'static str = "inspection_rules";
    const PLURAL: &'static str = "inspection_rules";
    const SINCE: u16 = since::INSPECTION_RULES;
    const REFUSES_METHOD: bool = true;
    const FIELDS: &'static [Field] = &[
        ("uuid", 1),
        ("created_at", 1),
        ("updated_at", 1),
        ("description", 1),
        ("priority", 1),
        ("sensitive", 1),
        ("phase", 1),
        ("conditions", 1),
        ("actions", 1),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "description", "priority", "phase"];
    const CHANGEABLE: &'static [&'static str] = &[
        "actions",
        "conditions",
        "description",
        "phase",
        "priority",
        "sensitive",
    ];
    const REQUIRED: &'static [&'static str] = &["actions"];

    fn get(&self, field: &str) -> Value {
        match field {
            "actions" => json!(self.actions),
            "conditions" => json!(self.conditions),
            "description" => json!(self.description),
            "phase" => json!(self.phase),
            "priority" => json!(self.priority),
            "sensitive" => json!(self.sensitive),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, value: Value, _: &Context) -> Result<()> {
        match field {
            "actions" => {
                self.actions = items(field, value, |action| Action::read(action).map(drop))?;
                if self.actions.is_empty() {
                    return Err(Self::NOUN.bad(field, "a rule needs at least one action"));
                }
            }
            "conditions" => {
                self.conditions = items(field, value, |item| Condition::read(item).map(drop))?;
            }
            "description" => self.description = Self::NOUN.text(field, value, 255)?,
            "phase" => match Self::NOUN.text(field, value, 255)?.as_deref() {
                None | Some(PHASE_MAIN) => self.phase = PHASE_MAIN.to_owned(),
                Some(other) => {
                    let problem = format!("{other:?} is not one of the phases: {PHASE_MAIN}");
                    return Err(Self::NOUN.bad(field, &problem));
                }
            },
            "priority" => {
                self.priority = match value {
                    Value::Null => 0,
                    value => Self::NOUN.number(field, &value)?,
                };
                if self.priority > MAX_PRIORITY {
                    let problem = format!("{} is more than {MAX_PRIORITY}", self.priority);
                    return Err(Self::NOUN.bad(field, &problem));
                }
            }
            "sensitive" => {
                let wanted = Self::NOUN.boolean(field, &value)?.unwrap_or(false);
                if self.sensitive && !wanted {
                    return Err(Self::NOUN.bad(field, "a sensitive rule stays sensitive"));
                }
                self.sensitive = wanted;
            }
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    fn show(&self, field: &str) -> Value {
        match field {
            "actions" | "conditions" if self.sensitive => Value::Null,
            field => self.get(field),
        }
    }
}

/// A list whose items have the form that `check` asks for.
fn items(
    field: &str,
    value: Value,
    check: impl Fn(&Value) -> Result<(), String>,
) -> Result<Vec<Value>> {
    let items = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        other => return Err(InspectionRule::NOUN.mismatch(field, "a list", &other)),
    };
    if items.len() > MAX_ITEMS {
        let problem = format!("more than {MAX_ITEMS} items");
        return Err(InspectionRule::NOUN.bad(field, &problem));
    }
    match items.iter().try_for_each(check) {
        Ok(()) => Ok(items),
        Err(problem) => Err(ApiError::bad_request(problem)),
    }
}

/// Routes of this file.
pub(crate) fn router() -> Routes {
    resource::routes::<InspectionRule>().route("/v1/inspection_rules", get(list).delete(delete_all))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<InspectionRule>(&uri, &context, FILTERS, "inspection_rules")?;
    let filter = InspectionRuleQuery {
        phase: listing.query.text("phase").map(str::to_owned),
    };
    listing.run(&state, &context, filter).await
}

/// Deletes every rule.
async fn delete_all(
    State(state): State<ApiState>,
    context: Context,
    uri: Uri,
) -> Result<StatusCode> {
    InspectionRule::gate(&context, true)?;
    Query::read(&uri, &context, &[])?;
    let all = InspectionRuleQuery::default();
    let page = PageQuery {
        limit: Some(PAGE),
        ..PageQuery::default()
    };
    loop {
        let rules = state.store.rows(&all, &page).await?;
        if rules.is_empty() {
            return Ok(StatusCode::NO_CONTENT);
        }
        for rule in rules {
            match state.conductor.destroy_record(rule.into()).await {
                // Another request was faster.
                Err(error) if error.kind == wrought_rpc::Kind::NotFound => {}
                outcome => outcome?,
            }
        }
    }
}
