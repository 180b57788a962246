//! The fields of a runbook.

use serde_json::Value;
use serde_json::json;
use wrought_store::Runbook;
use wrought_store::runbook::RunbookStep;

use crate::context::Context;
use crate::error::ApiError;
use crate::error::Result;
use crate::fields;
use crate::fields::Field;
use crate::mask;
use crate::resource::Resource;
use crate::steps;
use crate::traits;
use crate::value::Noun;
use crate::version::since::RUNBOOK_TRAITS;
use crate::version::since::RUNBOOKS;

impl Resource for Runbook {
    const NOUN: Noun = Noun("runbook");
    const TITLE: &'static str = "Runbook";
    const PATH: &'static str = "runbooks";
    const PLURAL: &'static str = "runbooks";
    const SINCE: u16 = RUNBOOKS;
    const REFUSES_METHOD: bool = true;
    const NAMES: Option<u16> = Some(RUNBOOKS);
    const FIELDS: &'static [Field] = &[
        ("uuid", RUNBOOKS),
        ("created_at", RUNBOOKS),
        ("updated_at", RUNBOOKS),
        ("name", RUNBOOKS),
        ("extra", RUNBOOKS),
        ("public", RUNBOOKS),
        ("owner", RUNBOOKS),
        ("disable_ramdisk", RUNBOOKS),
        ("description", RUNBOOK_TRAITS),
        ("steps", RUNBOOKS),
        ("traits", RUNBOOK_TRAITS),
    ];
    const BRIEF: &'static [&'static str] = &["uuid", "name"];
    const CHANGEABLE: &'static [&'static str] = &[
        "description",
        "disable_ramdisk",
        "extra",
        "name",
        "owner",
        "public",
        "steps",
    ];
    const REQUIRED: &'static [&'static str] = &["name", "steps"];

    fn get(&self, field: &str) -> Value {
        match field {
            "description" => json!(self.description),
            "disable_ramdisk" => json!(self.disable_ramdisk),
            "extra" => json!(self.extra),
            "name" => json!(self.name),
            "owner" => json!(self.owner),
            "public" => json!(self.public),
            "steps" => json!(self.steps),
            "traits" => json!(self.traits),
            _ => Value::Null,
        }
    }

    fn set(&mut self, field: &str, mut value: Value, context: &Context) -> Result<()> {
        match field {
            "description" => self.description = Self::NOUN.text(field, value, 255)?,
            "disable_ramdisk" => {
                self.disable_ramdisk = Self::NOUN.boolean(field, &value)?.unwrap_or(false);
            }
            "extra" => self.extra = Self::NOUN.object(field, value)?,
            "name" => self.name = name(value, context)?,
            "owner" => self.owner = Self::NOUN.text(field, value, 255)?,
            "public" => self.public = Self::NOUN.boolean(field, &value)?.unwrap_or(false),
            "steps" => {
                mask::unmask_value(&mut value, &json!(self.steps));
                let steps = steps::read(Self::NOUN, "order", value)?.into_iter();
                self.steps = steps
                    .map(|read| RunbookStep {
                        interface: read.interface,
                        step: read.step,
                        args: read.args,
                        order: read.rank,
                    })
                    .collect();
            }
            _ => return Err(Self::NOUN.bad(field, "cannot be changed")),
        }
        Ok(())
    }

    /// What is public has no owner: making it public takes it from its owner.
    fn settle(&mut self, before: Option<&Self>, _: &Context) -> Result<()> {
        if !self.public || self.owner.is_none() {
            return Ok(());
        }
        match before {
            Some(before) if !before.public && before.owner == self.owner => {
                self.owner = None;
                Ok(())
            }
            _ => Err(Self::NOUN.bad("owner", "a public runbook has no owner")),
        }
    }

    /// What a version does not have yet is no field of it at all.
    fn check_version(context: &Context, field: &str) -> Result<()> {
        match fields::find(Self::FIELDS, field) {
            Some((field, since)) if !context.has(since) => Err(Self::NOUN.schema(&format!(
                "Additional properties are not allowed ('{field}' was unexpected): it needs API version 1.{since} or later"
            ))),
            _ => Ok(()),
        }
    }

    fn show(&self, field: &str) -> Value {
        match field {
            "steps" => mask::masked_value(&json!(self.steps)),
            _ => self.get(field),
        }
    }
}

/// Before runbooks had traits of their own their name was one.
fn name(value: Value, context: &Context) -> Result<String> {
    let name = Runbook::NOUN.needed("name", value, 255)?;
    if !context.has(RUNBOOK_TRAITS) {
        traits::check(&name)?;
        return Ok(name);
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    match name.chars().all(fine) && name.parse::<uuid::Uuid>().is_err() {
        true => Ok(name),
        false => Err(ApiError::bad_request(format!(
            "Schema error for runbook: '{name}' is no name of letters, digits and -._~"
        ))),
    }
}
