//! `/v1/ports` and the ports of one node.

mod change;
mod fields;
mod list;
mod one;
mod render;

use axum::Router;
use axum::routing::get;

use crate::ApiState;

pub(crate) use list::of_node;
pub(crate) use list::of_node_detail;

/// Routes of this folder.
pub(crate) fn router() -> Router<ApiState> {
    Router::new()
        .route("/v1/ports", get(list::list).post(one::create))
        .route("/v1/ports/detail", get(list::detail))
        .route(
            "/v1/ports/{ident}",
            get(one::show).patch(one::update).delete(one::delete),
        )
}

/// A MAC address in lower case with colons.
pub(crate) fn mac(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase().replace('-', ":");
    let octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split(':').collect();
    (parts.len() == 6 && parts.into_iter().all(octet)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::mac;

    #[test]
    fn macs_have_one_form() {
        assert_eq!(
            mac("52-54-00-AA-bb-01").as_deref(),
            Some("52:54:00:aa:bb:01")
        );
        for bad in [
            "zz",
            "52:54:00:aa:bb",
            "52:54:00:aa:bb:0g",
            "52:54:00:aa:bb:001",
            "",
        ] {
            assert_eq!(mac(bad), None, "{bad}");
        }
    }
}
