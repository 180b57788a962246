//! Calls of vendor methods.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;
use wrought_rpc::VendorCall;
use wrought_rpc::VendorMethod;

use super::deed;
use super::deed::Deed;
use super::done;
use super::take;
use crate::drivers;
use crate::drivers::vendor::Method;
use crate::drivers::vendor::Vendor;
use crate::error::Error;
use crate::error::chain;
use crate::service::Service;

/// All methods of a driver.
pub(super) fn methods(vendor: &dyn Vendor) -> BTreeMap<String, VendorMethod> {
    let methods = vendor.methods().iter();
    methods
        .map(|method| (method.name.to_owned(), method.shown()))
        .collect()
}

/// There is no such method.
pub(super) fn no_handler(method: &str) -> Error {
    Error::Invalid(format!("No handler for method {method}"))
}

/// The method that a call is for.
fn find(vendor: &dyn Vendor, call: &VendorCall) -> Result<&'static Method, Error> {
    let methods = vendor.methods();
    let method = methods.iter().find(|method| method.name == call.method);
    let method = method.ok_or_else(|| no_handler(&call.method))?;
    if !method.http.contains(&call.http_method.as_str()) {
        return Err(Error::Invalid(format!(
            "The method {} does not support HTTP {}",
            call.method, call.http_method
        )));
    }
    vendor.check(method, &call.parameters)?;
    Ok(method)
}

/// Calls a method: at once, or in the background as it wants it.
pub(super) async fn call(
    svc: &Service,
    node: Uuid,
    call: VendorCall,
) -> wrought_rpc::Result<Option<Value>> {
    let known = svc.known(node).await?;
    let vendor = drivers::vendor(&known)?;
    let method = find(vendor, &call)?;
    if !method.locks && !method.is_async {
        let answer = vendor.call(svc, &known, method, &call.parameters).await?;
        return Ok(Some(answer));
    }
    let own = svc.own()?;
    if method.is_async && !method.locks {
        let permit = own.permit()?;
        let owner = Arc::clone(&own);
        own.spawn(async move {
            let outcome = vendor.call(&owner, &known, method, &call.parameters).await;
            if let Err(error) = outcome {
                tracing::warn!(node = %known.uuid, method = method.name,
                    err = %chain(&error), "vendor method failed");
            }
            drop(permit);
        });
        return Ok(None);
    }
    let permit = own.permit()?;
    let task = take(&own, node).await?;
    if method.is_async {
        deed::spawn(&own, task, Deed::Vendor(method, call.parameters), permit);
        return Ok(None);
    }
    let outcome = async {
        task.confirm().await?;
        vendor.call(svc, &task.node, method, &call.parameters).await
    };
    let outcome = task.fence().guard(outcome).await;
    done(task, outcome.map(Some)).await
}
