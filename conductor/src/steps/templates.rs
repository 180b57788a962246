//! Steps that a deployment gets by the traits that its instance asks for: those
//! of the deploy templates with their names.

use serde_json::Value;
use serde_json::json;
use wrought_store::DeployTemplate;
use wrought_store::PageQuery;
use wrought_store::deploy_template::DeployTemplateQuery;
use wrought_store::node::Node;

use crate::error::Error;
use crate::service::Service;
use crate::task::store;

/// The steps of the templates, then those of the request; where both have a
/// step, the request's counts. Fails when the instance asks for traits that
/// the node has not.
pub(crate) async fn deploy_steps(
    svc: &Service,
    node: &Node,
    request: Option<&[Value]>,
) -> Result<Vec<Value>, Error> {
    let names = instance_traits(node)?;
    let request = request.unwrap_or_default();
    if names.is_empty() {
        return Ok(request.to_vec());
    }
    let query = DeployTemplateQuery { names };
    let templates = svc.store.rows(&query, &PageQuery::default()).await;
    let templates = templates.map_err(store("read deploy templates"))?;
    Ok(merged(&templates, request))
}

/// `instance_info.traits`, all of which the node must have.
fn instance_traits(node: &Node) -> Result<Vec<String>, Error> {
    let asked = match node.instance_info.get("traits") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(asked) => asked,
    };
    let traits: Vec<String> = serde_json::from_value(asked.clone()).map_err(|_| {
        Error::Invalid(format!(
            "Node {}: instance_info.traits is no list of strings.",
            node.uuid
        ))
    })?;
    match traits.iter().find(|asked| !node.traits.contains(asked)) {
        None => Ok(traits),
        Some(unknown) => Err(Error::Invalid(format!(
            "Cannot specify instance traits that are not also set on the node: node {} has not \
             {unknown}.",
            node.uuid
        ))),
    }
}

fn merged(templates: &[DeployTemplate], request: &[Value]) -> Vec<Value> {
    let own = |interface: &str, step: &str| {
        let same = |given: &Value| given["interface"] == interface && given["step"] == step;
        request.iter().any(same)
    };
    let steps = templates.iter().flat_map(|template| &template.steps);
    steps
        .filter(|step| !own(&step.interface, &step.step))
        .map(|step| json!(step))
        .chain(request.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use serde_json::json;
    use wrought_store::DeployTemplate;
    use wrought_store::deploy_template::TemplateStep;

    use super::instance_traits;
    use super::merged;
    use crate::testing;

    #[test]
    fn the_request_goes_before_the_templates() {
        let step = |step: &str, priority| TemplateStep {
            interface: "deploy".to_owned(),
            step: step.to_owned(),
            args: Map::new(),
            priority,
        };
        let template = DeployTemplate {
            name: "CUSTOM_T".to_owned(),
            steps: vec![step("a", 10), step("b", 20)],
            ..DeployTemplate::default()
        };
        let request = json!({"interface": "deploy", "step": "b", "priority": 0, "args": {}});
        let steps = merged(&[template], std::slice::from_ref(&request));
        let first = json!({"interface": "deploy", "step": "a", "priority": 10, "args": {}});
        assert_eq!(steps, [first, request]);
    }

    #[test]
    fn an_instance_asks_for_what_the_node_has() {
        let mut node = testing::node("fake-hardware");
        assert!(instance_traits(&node).unwrap().is_empty());
        node.instance_info
            .insert("traits".to_owned(), json!(["CUSTOM_A"]));
        assert!(instance_traits(&node).is_err());
        node.traits.push("CUSTOM_A".to_owned());
        assert_eq!(instance_traits(&node).unwrap(), ["CUSTOM_A"]);
        node.instance_info.insert("traits".to_owned(), json!("x"));
        assert!(instance_traits(&node).is_err());
    }
}
