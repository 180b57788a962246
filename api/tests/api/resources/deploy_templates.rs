//! Deploy templates.

use serde_json::json;

use super::BASE;
use super::links;
use super::timeless;
use crate::support::Api;

const UUID: &str = "46d5c9c0-e79c-45d7-9066-b6a5ded5db2e";

#[tokio::test]
async fn made_shown_changed_and_deleted() {
    let api = Api::open().await;
    let steps = json!([{"interface": "bios", "step": "apply_configuration",
        "args": {"settings": []}, "priority": 150}]);
    let body = json!({"uuid": UUID, "name": "CUSTOM_T1", "steps": steps});
    let made = api.post("/v1/deploy_templates", body.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = format!("deploy_templates/{UUID}");
    assert_eq!(made.headers["location"], format!("{BASE}/v1/{path}"));
    let whole = json!({"uuid": UUID, "created_at": "set", "updated_at": null,
        "name": "CUSTOM_T1", "extra": {}, "links": links(&path), "steps": steps});
    assert_eq!(timeless(made.json()), whole);
    let shown = api.get("/v1/deploy_templates/CUSTOM_T1").await.json();
    assert_eq!(timeless(shown), whole);
    let brief = json!({"uuid": UUID, "name": "CUSTOM_T1", "links": links(&path)});
    let list = api.get("/v1/deploy_templates").await.json();
    assert_eq!(list, json!({"deploy_templates": [brief]}));
    let page = api.get("/v1/deploy_templates?limit=1").await.json();
    let next = format!(
        "{BASE}/v1/deploy_templates?sort_key=id&sort_dir=asc&fields=uuid,name&limit=1&marker={UUID}"
    );
    assert_eq!(page["next"], next);
    let list = api.get("/v1/deploy_templates?detail=true").await.json();
    assert_eq!(timeless(list["deploy_templates"][0].clone()), whole);
    let some = api.get(&format!("/v1/{path}?fields=name")).await.json();
    assert_eq!(some, json!({"name": "CUSTOM_T1", "links": links(&path)}));

    assert_eq!(api.post("/v1/deploy_templates", body).await.status, 409);
    let patch = json!([
        {"op": "replace", "path": "/steps/0/priority", "value": "20"},
        {"op": "add", "path": "/extra/k", "value": 1},
    ]);
    let changed = api.patch(&format!("/v1/{path}"), patch).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let changed = changed.json();
    assert_eq!(changed["steps"][0]["priority"], 20);
    assert_eq!(changed["extra"], json!({"k": 1}));
    assert!(changed["updated_at"].is_string());
    for path in [path.as_str(), "deploy_templates/CUSTOM_T1"] {
        let gone = if path.ends_with("T1") { 404 } else { 204 };
        assert_eq!(api.delete(&format!("/v1/{path}")).await.status, gone);
    }
    let missing = api.get(&format!("/v1/{path}")).await;
    assert_eq!(
        (missing.status, missing.fault()),
        (404, format!("Deploy template {UUID} could not be found."))
    );
}

#[tokio::test]
async fn what_is_no_template() {
    let api = Api::open().await;
    let step = json!({"interface": "bios", "step": "x", "args": {}, "priority": 1});
    let bad = api
        .post(
            "/v1/deploy_templates",
            json!({"name": "CUSTOM_T2", "steps": [{"interface": "bios"}]}),
        )
        .await;
    assert_eq!(
        (bad.status, bad.fault()),
        (
            400,
            "Schema error for template: 'step' is a required property".to_owned()
        )
    );
    for bad in [
        json!({"name": "CUSTOM_T", "steps": []}),
        json!({"name": "CUSTOM_T"}),
        json!({"steps": [step]}),
        json!({"name": "lower", "steps": [step]}),
        json!({"name": "CUSTOM_T", "steps": [step, step]}),
        json!({"name": "CUSTOM_T", "steps": [step], "bogus": 1}),
        json!({"name": "CUSTOM_T", "steps": [step], "uuid": "x"}),
        json!({"name": "CUSTOM_T", "steps": [{"interface": "nope", "step": "x", "args": {}, "priority": 1}]}),
        json!({"name": "CUSTOM_T", "steps": [{"interface": "bios", "step": "x", "args": {}, "priority": -1}]}),
        json!({"name": "CUSTOM_T", "steps": [{"interface": "bios", "step": "x", "args": {}, "priority": 1, "order": 1}]}),
    ] {
        let answer = api.post("/v1/deploy_templates", bad.clone()).await;
        assert_eq!(answer.status, 400, "{bad}");
    }
    let body = json!({"name": "CUSTOM_T", "steps": [step]});
    assert_eq!(api.post("/v1/deploy_templates", body).await.status, 201);
    for bad in [
        json!([{"op": "remove", "path": "/name"}]),
        json!([{"op": "remove", "path": "/steps"}]),
        json!([{"op": "remove", "path": "/steps/0"}]),
        json!([{"op": "replace", "path": "/uuid", "value": UUID}]),
    ] {
        let answer = api
            .patch("/v1/deploy_templates/CUSTOM_T", bad.clone())
            .await;
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn secrets_are_masked_and_survive_being_written_back() {
    let api = Api::open().await;
    let args = json!({"bmc_password": "sesame", "url": "https://u:pw@h/x"});
    let steps = json!([{"interface": "bios", "step": "x", "args": args, "priority": 1}]);
    let body = json!({"uuid": UUID, "name": "CUSTOM_T", "steps": steps});
    let made = api.post("/v1/deploy_templates", body).await;
    assert!(!made.text.contains("sesame") && !made.text.contains("pw@"));
    let mut shown = made.json()["steps"].clone();
    shown[0]["priority"] = json!(2);
    let patch = json!([{"op": "replace", "path": "/steps", "value": shown}]);
    let changed = api.patch("/v1/deploy_templates/CUSTOM_T", patch).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let stored: wrought_store::DeployTemplate =
        api.store.row(UUID.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(json!(stored.steps[0].args), args);
    assert_eq!(stored.steps[0].priority, 2);
}

#[tokio::test]
async fn before_there_were_any() {
    let api = Api::open().await;
    let one = "/v1/deploy_templates/CUSTOM_T";
    let requests = [
        ("GET", "/v1/deploy_templates", 404),
        ("GET", one, 404),
        ("POST", "/v1/deploy_templates", 405),
        ("PATCH", one, 405),
        ("DELETE", one, 405),
    ];
    api.statuses("1.54", &requests).await;
    api.statuses("1.55", &[("GET", "/v1/deploy_templates", 200)])
        .await;
}
