//! `/v1/ports` and the ports of one node or portgroup.

mod create;
mod fields;
mod link;
mod list;

use axum::routing::any;
use axum::routing::get;
use wrought_store::Port;

use crate::resource;
use crate::resource::nested;
use crate::routes::Routes;

pub(crate) use list::FILTERS;

/// Routes of this folder.
pub(crate) fn router() -> Routes {
    resource::routes_of_one::<Port>()
        .route("/v1/ports", get(list::list).post(create::create))
        .route("/v1/ports/detail", get(list::detail))
        .route(
            "/v1/nodes/{ident}/ports",
            get(list::of_node).fallback(nested),
        )
        .route("/v1/nodes/{ident}/ports/detail", get(list::of_node_detail))
        .refused("/v1/nodes/{ident}/ports/{port}", any(nested))
        .route(
            "/v1/portgroups/{ident}/ports",
            get(list::of_portgroup).fallback(nested),
        )
        .route(
            "/v1/portgroups/{ident}/ports/detail",
            get(list::of_portgroup_detail),
        )
        .refused("/v1/portgroups/{ident}/ports/{port}", any(nested))
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
