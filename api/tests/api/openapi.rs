//! The document that describes the API, against the API.

use serde_json::Value;
use wrought_api::Auth;

use crate::support::Api;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Every method that a path has is described, and no other.
#[tokio::test]
async fn operations_are_those_of_the_router() {
    let api = Api::new("nodes", Auth::none()).await;
    let document = api.get("/openapi.json").await;
    assert_eq!(document.status, 200);
    let document = document.json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 20, "{}", paths.len());
    for (path, operations) in paths {
        // Nothing has this name.
        let parts = path.split('/').map(|part| match part.starts_with('{') {
            true => "00000000-0000-4000-8000-00000000ffff",
            false => part,
        });
        let place: Vec<&str> = parts.collect();
        for method in METHODS {
            let described = operations.get(method.to_lowercase()).is_some();
            let answer = api
                .call("latest", method, &place.join("/"), Value::Null)
                .await;
            // Some lists have their own words for what they do not do.
            let refused = answer.status == 405 || answer.fault().contains("Malformed request URI");
            let routed = !refused;
            assert_eq!(described, routed, "{method} {path}");
        }
    }
}
