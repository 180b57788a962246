//! `/v1/deploy_templates`: steps that deployments get by traits.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use serde_json::Value;
use serde_json::json;
use wrought_store::DeployTemplate;
use wrought_store::deploy_template::DeployTemplateQuery;
use wrought_store::deploy_template::TemplateStep;

use crate::ApiState;
use crate::context::Context;
use crate::error::Result;
use crate::fields::Field;
use crate::mask;
use crate::resource;
use crate::resource::Listing;
use crate::resource::Resource;
use crate::routes::Routes;
use crate::steps;
use crate::traits;
use crate::value::Noun;
use crate::version::since;

impl Resource for DeployTemplate {
    const NOUN: Noun = Noun("template");
    const TITLE: &'static str = "Deploy template";
    const PATH: &'static str = "deploy_templates";
    const PLURAL: &'static str = "deploy_templates";
    const SINCE: u16 = since::DEPLOY_TEMPLATES;
    const REFUSES_METHOD: bool = true;
    const FIELDS: &'static [Field] = &[
        ("uuid", 1),
        ("created_at", 1),
        ("updated_at", 1),
        ("name", 1),
        ("extra", 1),
        ("steps", 1),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "name"];
    const CHANGEABLE: &'static [&'static str] = &["extra", "name", "steps"];
    const NAMES: Option<u16> = Some(since::DEPLOY_TEMPLATES);
    const REQUIRED: &'static [&'static str] = &["name", "steps"];

    fn get(&self, field: &str) -> Value {
        match field {
            "extra" => json!(self.extra),
            "name" => json!(self.name),
            "steps" => json!(self.steps),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, mut value: Value, _: &Context) -> Result<()> {
        match field {
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "name" => {
                self.name = Self::NOUN.needed(field, value, 255)?;
                traits::check(&self.name)?;
            }
            "steps" => {
                mask::unmask_value(&mut value, &json!(self.steps));
                let steps = steps::read(Self::NOUN, "priority", value)?.into_iter();
                self.steps = steps
                    .map(|read| TemplateStep {
                        interface: read.interface,
                        step: read.step,
                        args: read.args,
                        priority: read.rank,
                    })
                    .collect();
            }
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    fn show(&self, field: &str) -> Value {
        match field {
            "steps" => mask::masked_value(&json!(self.steps)),
            _ => self.get(field),
        }
    }
}

/// Routes of this file.
pub(crate) fn router() -> Routes {
    resource::routes::<DeployTemplate>().route("/v1/deploy_templates", get(list))
}

async fn list(State(state): State<ApiState>, context: Context, uri: Uri) -> Result<Json<Value>> {
    let listing = Listing::read::<DeployTemplate>(&uri, &context, &[], "deploy_templates")?;
    let all = DeployTemplateQuery::default();
    listing.run(&state, &context, all).await
}
